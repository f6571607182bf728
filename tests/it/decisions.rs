//! Approve and Deny: by whom, of what, and once.

use posthorn::accounts::Role;
use posthorn::clock::{HOUR, MINUTE};
use posthorn::oauth;

use crate::flow::{REDIRECT, app_named, form_token};
use crate::harness::{TestApp, on_both};

const APPROVE: &str = "decision=approve&scope=full_access&scope=emails%3Asend";

on_both! {
    async fn spec_2_4_approval_redirects_with_code_and_state_unchanged(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let page = app.ask(&client, "&state=a+b%2Fc%00").await;
        let shown = app.see(&page, &owner).await;
        assert_eq!(shown.status, 200);
        for word in ["App", "app.example", "Approve", "Deny", "Unverified", "owner@example.com"] {
            assert!(shown.text().to_lowercase().contains(&word.to_lowercase()), "{word}");
        }
        let answer = app.decide(&page, &owner, APPROVE).await;
        assert_eq!((answer.status, answer.text().as_str()), (303, ""));
        let rest = answer.location().strip_prefix(&format!("{REDIRECT}?code=")).expect("a code");
        let (code, state) = rest.split_once('&').expect("a state");
        assert_eq!((code.len(), state), (43, "state=a+b%2Fc%00"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(app.count("authorization_codes").await, 1);
        let told = app.store.rows("SELECT action, target, actor, address FROM audit_log WHERE via = 'session'").await;
        assert_eq!(told, [["app.approved", "App", "owner@example.com", "127.0.0.1"].map(|word| Some(word.to_owned()))]);
    }

    async fn decisions_4_denial_is_access_denied(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        for fields in ["decision=deny&scope=full_access", "decision=approve"] {
            let page = app.ask(&client, "&state=s").await;
            let answer = app.decide(&page, &owner, fields).await;
            assert_eq!(answer.status, 303, "{fields}: {}", answer.text());
            let start = format!("{REDIRECT}?error=access_denied&error_description=");
            assert!(answer.location().starts_with(&start) && answer.location().ends_with("&state=s"), "{fields}");
        }
        assert_eq!((app.count("authorization_codes").await, app.told().await.len()), (0, 0));
    }

    async fn decisions_3_a_request_is_decided_once_whoever_races(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let other = TestApp::open(&app.store, &[]).await;
        for _ in 0..8 {
            let page = app.ask(&client, "").await;
            let (one, two, three) = tokio::join!(
                app.decide(&page, &owner, APPROVE),
                other.decide(&page, &owner, "decision=deny"),
                app.decide(&page, &owner, APPROVE),
            );
            let mut statuses = [one.status, two.status, three.status];
            statuses.sort_unstable();
            assert_eq!(statuses[0], 303);
            assert_eq!(statuses[1..], [409, 409]);
            assert_eq!(app.decide(&page, &owner, APPROVE).await.status, 409);
            assert_eq!(app.see(&page, &owner).await.status, 409);
        }
    }

    async fn a_request_belongs_to_the_session_that_opened_it(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let admin = app.person("admin@example.com", Role::Admin).await;
        let page = app.ask(&client, "").await;
        assert_eq!(app.see(&page, &owner).await.status, 200);
        assert_eq!(app.see(&page, &admin).await.status, 404, "somebody else");
        let second = app.browser(owner.id, &owner.email).await;
        assert_eq!(app.see(&page, &second).await.status, 409, "another browser of the same person");
        let leave = app.see(&page, &owner).await.text();
        let token = form_token(&leave, "/dashboard/logout").expect("a way out");
        assert_eq!(app.send_form("/dashboard/logout", &owner, &format!("token={token}")).await.status, 303);
        assert_eq!(app.see(&page, &second).await.status, 200, "once the first session has ended");
        assert_eq!(app.decide(&page, &second, APPROVE).await.status, 303);
    }

    async fn a_form_that_is_not_ours_decides_nothing(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let (page, other) = (app.ask(&client, "").await, app.ask(&client, "").await);
        let shown = app.see(&other, &owner).await.text();
        let foreign = form_token(&shown, &other).expect("a token");
        app.see(&page, &owner).await;
        for token in ["", "x", &foreign] {
            let answer = app.send_form(&page, &owner, &format!("{APPROVE}&token={token}")).await;
            assert_eq!(answer.status, 403, "{token}");
        }
        let own = form_token(&app.see(&page, &owner).await.text(), &page).expect("a token");
        let forged = app
            .post(&page)
            .header("cookie", &owner.cookie)
            .header("sec-fetch-site", "cross-site")
            .body("application/x-www-form-urlencoded", format!("{APPROVE}&token={own}"))
            .send()
            .await;
        assert_eq!(forged.status, 403);
        assert_eq!(app.count("authorization_codes").await, 0);
        assert_eq!(app.decide(&page, &owner, APPROVE).await.status, 303, "the request is still open");
    }

    async fn a_request_expires_and_leads_nowhere(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let page = app.ask(&client, "").await;
        let token = form_token(&app.see(&page, &owner).await.text(), &page).expect("a token");
        app.clock.advance(10 * MINUTE);
        assert_eq!(app.see(&page, &owner).await.status, 410);
        let late = app.send_form(&page, &owner, &format!("{APPROVE}&token={token}")).await;
        assert_eq!((late.status, late.header("location")), (410, None));
    }

    async fn whoever_is_not_logged_in_logs_in_first_and_decides_afterwards(app: TestApp) {
        let client = app.client(app_named("App")).await;
        let page = app.ask(&client, "").await;
        let id = page.rsplit('/').next().expect("an id").to_owned();
        let shown = app.get(&page).send().await;
        assert!(shown.text().contains(&format!("/dashboard/login?request={id}")), "{}", shown.text());
        let answer = app.post(&page).body("application/x-www-form-urlencoded", APPROVE).send().await;
        assert_eq!((answer.status, answer.location()), (303, format!("/dashboard/login?request={id}").as_str()));
        assert_eq!(app.count("authorization_codes").await, 0);
    }

    async fn members_cannot_let_apps_in(app: TestApp) {
        let (client, member) = (app.client(app_named("App")).await, app.person("m@example.com", Role::Member).await);
        let page = app.ask(&client, "").await;
        let answer = app.decide(&page, &member, APPROVE).await;
        assert_eq!((answer.status, answer.header("location")), (403, None));
        assert_eq!(app.count("authorization_codes").await, 0);
    }

    async fn a_client_that_is_gone_gets_no_redirect(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let page = app.ask(&client, "").await;
        let token = form_token(&app.see(&page, &owner).await.text(), &page).expect("a token");
        app.delete_client(&client).await;
        let answer = app.send_form(&page, &owner, &format!("{APPROVE}&token={token}")).await;
        assert_eq!((answer.status, answer.header("location")), (404, None));
    }

    async fn case_378_clients_that_came_to_nothing_are_forgotten(app: TestApp) {
        let owner = app.owner().await;
        let register = async || {
            let answer = app.post("/oauth/register").json(app_named("Stranger")).send().await.json();
            crate::flow::text(&answer, "client_id").to_owned()
        };
        let (idle, used, fresh) = (register().await, register().await, app.client(app_named("Operator's")).await);
        app.tokens(&used, &owner).await;
        app.ask(&idle, "").await;
        app.clock.advance(8 * 24 * HOUR);
        oauth::sweep(&app.app.db, &app.clock).await.expect("swept");
        oauth::sweep_clients(&app.app.db, &app.clock).await.expect("swept");
        let ids = app.store.rows("SELECT id FROM oauth_clients WHERE origin <> 'built_in' ORDER BY id").await;
        let ids: Vec<&str> = ids.iter().map(|row| row[0].as_deref().expect("an id")).collect();
        assert_eq!(ids, [used.as_str(), fresh.as_str()]);
        let answer = app.get(format!("/oauth/authorize?client_id={idle}&redirect_uri=x")).send().await;
        answer.oauth_refused(400, "invalid_client");
    }
}
