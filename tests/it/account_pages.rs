//! A second factor, clients of one's own, names of keys, and the overview.

use posthorn::accounts::{self, Role};
use posthorn::auth;
use posthorn::clock::DAY;
use ring::hmac;
use serde_json::json;

use crate::delivery::Post;
use crate::emails::{mail, sent};
use crate::flow::Person;
use crate::graphs::{automation, body};
use crate::harness::{Answer, NOW, TestApp, on_both};
use crate::runs::{Scene, failing};
use crate::sink::Sink;
use crate::store::Store;

/// What an app shows at a moment that was given the secret.
pub fn code(secret: &str, micros: i64) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let groups = secret.bytes().map(|byte| alphabet.iter().position(|known| *known == byte).expect("base32") as u64);
    let groups: Vec<u64> = groups.collect();
    let bytes: Vec<u8> = groups
        .chunks(8)
        .flat_map(|eight| {
            let bits = eight.iter().fold(0_u64, |bits, group| bits << 5 | group);
            (0..5).rev().map(move |byte| (bits >> (byte * 8)) as u8)
        })
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes);
    let tag = hmac::sign(&key, &(micros / 30_000_000).to_be_bytes());
    let tag = tag.as_ref();
    let at = usize::from(tag[19] & 15);
    let bits = u32::from_be_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]) & 0x7fff_ffff;
    format!("{:06}", bits % 1_000_000)
}

fn cookies(answer: &Answer) -> String {
    let all = answer.headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
    all.filter_map(|cookie| cookie.split(';').next()).collect::<Vec<_>>().join("; ")
}

pub fn value(page: &str, name: &str) -> String {
    let found = page.split(&format!("name=\"{name}\" value=\"")).nth(1).and_then(|rest| rest.split('"').next());
    found.unwrap_or_else(|| panic!("no {name}: {page}")).to_owned()
}

pub async fn with_password(app: &TestApp) -> Person {
    let owner = app.owner().await;
    let hash = auth::hash_password("correct horse");
    app.app.db.commit(accounts::set_password("owner@example.com", &hash)).await.expect("a password");
    app.browser(owner.id, &owner.email).await
}

async fn turn_on(app: &TestApp, owner: &Person, code: &str, password: &str) -> Answer {
    let fields = format!("code={code}&password={password}");
    app.fill(owner, "/account/second-factor", "/account/second-factor", &fields).await
}

/// Turns the second factor on, and tells the secret and the recovery codes.
pub async fn factor(app: &TestApp, owner: &Person) -> (String, Vec<String>) {
    let begun = app.fill(owner, "/account/second-factor", "/account/second-factor/begin", "").await;
    assert_eq!(begun.status, 303, "{}", begun.text());
    let page = app.see("/dashboard/account/second-factor", owner).await.text();
    assert!(page.contains("<svg class=\"qr\""), "{page}");
    let secret =
        page.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next()).expect("a secret").to_owned();
    let right = code(&secret, NOW);
    let wrong = turn_on(app, owner, "000000", "correct+horse").await;
    assert!(wrong.status == 422 && wrong.text().contains("f-code-error"), "{}", wrong.text());
    let stolen = turn_on(app, owner, &right, "wrong+horse").await;
    assert_eq!(stolen.status, 422, "{}", stolen.text());
    assert!(stolen.text().contains("id=\"f-password-error\">This is not your password."), "{}", stolen.text());
    assert!(!stolen.text().contains("f-code-error") && stolen.text().contains(&format!("value=\"{right}\"")));
    let on = turn_on(app, owner, &right, "correct+horse").await;
    assert_eq!(on.status, 200, "{}", on.text());
    let codes = on.text();
    let codes = codes.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next()).expect("codes");
    (secret, codes.lines().map(str::to_owned).collect())
}

/// Shows the password, and tells what follows and the browser's cookie.
pub async fn show_password(app: &TestApp) -> (Answer, String) {
    let page = app.get("/dashboard/login").send().await;
    let (token, cookie) = (value(&page.text(), "token"), cookies(&page));
    let form = format!("token={token}&email=owner%40example.com&password=correct+horse&next=/dashboard/w/1/keys");
    let request = app.post("/dashboard/login").header("cookie", &cookie);
    (request.body("application/x-www-form-urlencoded", form).send().await, cookie)
}

/// The same, where a second factor is asked for.
pub async fn halfway(app: &TestApp) -> (String, String) {
    let (answer, cookie) = show_password(app).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.headers.get("set-cookie").is_none(), "nobody is let in yet");
    (answer.text(), cookie)
}

pub async fn show_code(app: &TestApp, (page, cookie): &(String, String), code: &str) -> Answer {
    let form = format!(
        "token={}&challenge={}&next={}&code={code}",
        value(page, "token"),
        value(page, "challenge"),
        value(page, "next")
    );
    let request = app.post("/dashboard/login/code").header("cookie", cookie);
    request.body("application/x-www-form-urlencoded", form).send().await
}

on_both! {
    async fn a_second_factor_is_asked_for_and_each_code_counts_once(app: TestApp) {
        let owner = with_password(&app).await;
        let (secret, codes) = factor(&app, &owner).await;
        assert_eq!(codes.len(), 10);
        let kept = app.store.rows("SELECT secret FROM second_factors").await[0][0].clone().expect("a secret");
        assert!(matches!(app.store.url().as_str(), url if url.starts_with("postgres")) || !kept.contains(&secret), "it is sealed");
        let asked = halfway(&app).await;
        assert_eq!(show_code(&app, &asked, &code(&secret, NOW)).await.status, 422, "that code was used to turn it on");
        app.clock.advance(30_000_000);
        let now = code(&secret, NOW + 30_000_000);
        let let_in = show_code(&app, &asked, &now).await;
        assert_eq!((let_in.status, let_in.header("location")), (303, Some("/dashboard/w/1/keys")), "{}", let_in.text());
        let other = halfway(&app).await;
        assert_eq!(show_code(&app, &other, &now).await.status, 422, "a code counts once");
        assert_eq!(show_code(&app, &other, &codes[0].to_uppercase()).await.status, 303, "a recovery code does as well");
        let third = halfway(&app).await;
        assert_eq!(show_code(&app, &third, &codes[0]).await.status, 422, "and counts once, too");
        app.clock.advance(11 * 60_000_000);
        assert_eq!(show_code(&app, &third, &codes[1]).await.status, 403, "a while later it is too late");
        assert_eq!(app.told().await, ["second_factor.added", "session.started", "session.started"]);
    }

    async fn guesses_at_a_second_factor_have_an_end(app: TestApp) {
        let owner = with_password(&app).await;
        factor(&app, &owner).await;
        let asked = halfway(&app).await;
        let mut statuses = Vec::new();
        for _ in 0..11 {
            statuses.push(show_code(&app, &asked, "123123").await.status);
        }
        assert!(statuses.contains(&422) && statuses.last() == Some(&429), "{statuses:?}");
    }

    async fn an_open_browser_is_not_enough_to_turn_a_second_factor_on(app: TestApp) {
        let owner = with_password(&app).await;
        let begun = app.fill(&owner, "/account/second-factor", "/account/second-factor/begin", "").await;
        assert_eq!(begun.status, 303, "{}", begun.text());
        let page = app.see("/dashboard/account/second-factor", &owner).await.text();
        let secret = page.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next()).expect("a secret").to_owned();
        let right = code(&secret, NOW);
        assert_eq!(turn_on(&app, &owner, &right, "").await.status, 422);
        for _ in 0..9 {
            assert_eq!(turn_on(&app, &owner, &right, "a+guess").await.status, 422);
        }
        assert_eq!(turn_on(&app, &owner, &right, "correct+horse").await.status, 429, "guesses have an end");
        let guess = "current=correct+horse&password=another+horse&password_again=another+horse";
        assert_eq!(app.fill(&owner, "/password", "/password", guess).await.status, 429, "wherever they are made");
        assert_eq!(app.store.rows("SELECT confirmed_at FROM second_factors").await, [[None]]);
        app.clock.advance(15 * 60_000_000);
        let later = code(&secret, NOW + 15 * 60_000_000);
        assert_eq!(turn_on(&app, &owner, &later, "correct+horse").await.status, 200, "the owner comes back to it");
    }

    async fn a_second_factor_is_turned_off_with_a_code_or_by_the_operator(app: TestApp) {
        let owner = with_password(&app).await;
        let (_, codes) = factor(&app, &owner).await;
        let wrong = app.fill(&owner, "/account/second-factor", "/account/second-factor/remove", "code=1").await;
        assert_eq!(wrong.status, 422);
        let off = app.fill(&owner, "/account/second-factor", "/account/second-factor/remove", &format!("code={}", codes[3])).await;
        assert_eq!(off.status, 303, "{}", off.text());
        assert_eq!((app.count("second_factors").await, app.count("recovery_codes").await), (0, 0));
        assert_eq!(app.told().await, ["second_factor.added", "second_factor.removed"]);
        app.clock.advance(60_000_000);
        let begun = app.fill(&owner, "/account/second-factor", "/account/second-factor/begin", "").await;
        assert_eq!(begun.status, 303);
        app.app.db.commit(accounts::reset_second_factor(owner.id, &app.clock)).await.expect("reset");
        assert_eq!(app.count("second_factors").await, 0);
    }

    async fn clients_are_registered_and_deleted_by_their_own_workspace(app: TestApp) {
        let owner = app.owner().await;
        let wrong = app.fill(&owner, "/clients", "/clients", "name=Shop&redirect_uris=javascript%3Aalert(1)&scope=all").await;
        assert_eq!(wrong.status, 422);
        assert!(wrong.text().contains("javascript:alert(1)</textarea>") && wrong.text().contains("f-redirect_uris-error"), "{}", wrong.text());
        let fields = "name=Shop&redirect_uris=https%3A%2F%2Fshop.example%2Fback&scope=emails%3Asend&keeps_secret=yes";
        let made = app.fill(&owner, "/clients", "/clients", fields).await;
        assert!(made.status == 200 && made.text().contains("Its secret."), "{}", made.text());
        let id = app.store.rows("SELECT id FROM oauth_clients WHERE workspace_id IS NOT NULL").await[0][0].clone().expect("an id");
        let page = app.see("/dashboard/clients", &owner).await.text();
        assert!(page.contains(&id) && page.contains("https://shop.example/back") && page.contains("emails:send"), "{page}");
        let second = app.fill(&owner, "/workspaces", "/workspaces", "name=Second").await.location().trim_end_matches('/').to_owned();
        assert!(!app.see(&format!("{second}/clients"), &owner).await.text().contains(&id));
        assert_eq!(app.see(&format!("{second}/clients/{id}/delete"), &owner).await.status, 404);
        let member = app.person("member@example.com", Role::Member).await;
        assert_eq!(app.see(&format!("/dashboard/clients/{id}/delete"), &member).await.status, 403);
        let path = format!("/clients/{id}/delete");
        assert_eq!(app.fill(&owner, &path, &path, "").await.status, 303);
        assert!(app.store.rows("SELECT id FROM oauth_clients WHERE workspace_id IS NOT NULL").await.is_empty());
        app.assert_told(&["client.deleted"]).await;
    }

    async fn whoever_runs_the_server_vouches_for_a_client_and_nobody_else(app: TestApp) {
        let owner = app.owner().await;
        let fields = "name=Shop&redirect_uris=https%3A%2F%2Fshop.example%2Fback&scope=all";
        app.fill(&owner, "/clients", "/clients", fields).await;
        let found = async || app.store.rows("SELECT id, verified_host FROM oauth_clients WHERE workspace_id IS NOT NULL").await;
        let id = found().await[0][0].clone().expect("an id");
        let (page, path) = (format!("/clients/{id}"), format!("/clients/{id}/verify"));
        let saved = app.fill(&owner, &page, &path, "host=shop.example").await;
        assert!(saved.status == 303 && saved.location().ends_with("?saved"), "{}", saved.text());
        assert_eq!(found().await[0][1].as_deref(), Some("shop.example"));
        let shown = app.see(&format!("/dashboard{page}"), &owner).await.text();
        assert!(shown.contains("<option value=\"shop.example\" selected>") && shown.contains("when it leads back to"), "{shown}");
        assert_eq!(app.fill(&owner, &page, &path, "host=elsewhere.example").await.status, 400);
        assert_eq!(app.fill(&owner, &page, &path, "host=").await.status, 303);
        assert_eq!(found().await[0][1], None);
        app.store.run(&format!("UPDATE oauth_clients SET verified_host = 'by-command.example' WHERE id = '{id}'")).await;
        let shown = app.see(&format!("/dashboard{page}"), &owner).await.text();
        assert!(shown.contains("<option value=\"by-command.example\" selected>"), "{shown}");
        app.store.run(&format!("UPDATE oauth_clients SET verified_host = NULL WHERE id = '{id}'")).await;
        assert_eq!(app.told().await, ["client.registered", "client.verified", "client.unverified"]);

        let admin = app.person("admin@example.com", Role::Admin).await;
        assert!(!app.see(&format!("/dashboard{page}"), &admin).await.text().contains(&path));
        let refused = app.send_form(&format!("/dashboard{path}"), &admin, "host=shop.example").await;
        assert!(refused.status == 403 && refused.text().contains("Only whoever runs this server"), "{}", refused.text());
        assert_eq!(found().await[0][1], None);
        let second = app.fill(&owner, "/workspaces", "/workspaces", "name=Second").await.location().trim_end_matches('/').to_owned();
        let own = second.trim_start_matches("/dashboard").to_owned();
        app.fill(&owner, &format!("{own}/clients"), &format!("{own}/clients"), fields).await;
        let ids = app.store.rows("SELECT id FROM oauth_clients WHERE workspace_id IS NOT NULL ORDER BY created_at DESC").await;
        let theirs = ids.into_iter().flatten().flatten().find(|one| *one != id).expect("another");
        let shown = app.see(&format!("{second}/clients/{theirs}"), &owner).await.text();
        assert!(shown.contains("people who are asked see that") && !shown.contains("/verify\""), "{shown}");
    }

    async fn a_key_gets_another_name(app: TestApp) {
        let owner = app.owner().await;
        let key = app.full_key().await;
        let id = app.get("/api-keys").key(&key).send().await.json()["data"][0]["id"].as_str().expect("an id").to_owned();
        let path = format!("/keys/{id}/rename");
        let empty = app.fill(&owner, &path, &path, "name=").await;
        assert!(empty.status == 422 && empty.text().contains("A key needs a name"), "{}", empty.text());
        assert_eq!(app.fill(&owner, &path, &path, "name=web+shop").await.status, 303);
        assert!(app.see("/dashboard/keys", &owner).await.text().contains("web shop"));
        assert_eq!(app.get("/api-keys").key(&key).send().await.status, 200, "it works as before");
    }

    async fn the_overview_tells_what_needs_attention_and_what_to_do(app: TestApp) {
        let owner = app.owner().await;
        let page = app.see("/dashboard/", &owner).await.text();
        assert!(page.contains("0 of 3 done") && !page.contains("Needs attention"), "{page}");
        let key = app.full_key().await;
        let added = app.post("/domains").key(&key).json(json!({"name": "shop.example"})).send().await;
        assert_eq!(added.status, 201, "{}", added.text());
        let page = app.see("/dashboard/", &owner).await.text();
        assert!(page.contains("1 of 3 done") && page.contains("Needs attention") && page.contains("shop.example is not verified yet"), "{page}");
        assert!(page.contains("0 sent, 0 delivered") && !page.contains("style=\""));
        let period = NOW - NOW % 900_000_000;
        let workspace = app.store.id(app.workspace().await);
        let nil = app.store.id(posthorn::id::WorkspaceId::from(uuid::Uuid::nil()));
        app.store.run(&format!(
            "INSERT INTO email_counts VALUES ({workspace}, {period}, '', {nil}, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)"
        )).await;
        let page = app.see("/dashboard/", &owner).await.text();
        assert!(page.contains("5 sent, 3 delivered, 1 bounced or failed") && page.contains("plot-delivered"), "{page}");
    }

    async fn the_overview_tells_of_runs_that_failed(app: TestApp) {
        let owner = app.owner().await;
        let scene = Scene::new(app, failing()).await;
        let overview = async |person: &Person| scene.app.see("/dashboard/", person).await.text();
        assert!(!overview(&owner).await.contains("failed in the last 7 days"));
        scene.run(json!({})).await;
        let page = overview(&owner).await;
        assert!(page.contains("1 run failed in the last 7 days. <a href=\"/dashboard/runs?status=failed\">"), "{page}");
        scene.run(json!({})).await;
        assert!(overview(&owner).await.contains("2 runs failed in the last 7 days."));
        scene.app.clock.advance(8 * DAY);
        let owner = scene.app.browser(owner.id, &owner.email).await;
        assert!(!overview(&owner).await.contains("failed in the last 7 days"), "long ago");
    }

    async fn the_overview_draws_events_runs_and_new_contacts_of_a_day_and_a_week(app: TestApp) {
        let owner = app.owner().await;
        let page = app.see("/dashboard/", &owner).await.text();
        assert!(page.contains("Mail, last 24 hours") && !page.contains("Events, last") && !page.contains("Contacts, last"), "{page}");
        let scene = Scene::new(app, failing()).await;
        scene.run(json!({})).await;
        let key = scene.app.full_key().await;
        let send = async |email: &str| {
            let sent = scene.app.post("/events/send").key(&key).json(json!({"event": "order.paid", "email": email})).send().await;
            assert_eq!(sent.status, 202, "{}", sent.text());
        };
        send("early@example.com").await;
        scene.app.clock.advance(3 * DAY);
        for at in 0..3 {
            send(&format!("late{at}@example.com")).await;
        }
        let owner = scene.app.browser(owner.id, &owner.email).await;
        let page = scene.app.see("/dashboard/", &owner).await.text();
        for (title, summary) in [
            ("Events, last 24 hours", "3 events"),
            ("Events, last 7 days", "5 events"),
            ("Contacts, last 24 hours", "3 new contacts"),
            ("Contacts, last 7 days", "4 new contacts"),
            ("Runs, last 24 hours", "0 runs"),
            ("Runs, last 7 days", "1 run, 1 failed"),
        ] {
            assert!(page.contains(&format!("<h2>{title}</h2><p>{summary}</p>")), "{title}: {summary}: {page}");
        }
        assert!(page.contains("of these, failed"));
        scene.app.clock.advance(8 * DAY);
        let owner = scene.app.browser(owner.id, &owner.email).await;
        let page = scene.app.see("/dashboard/", &owner).await.text();
        assert!(!page.contains("Events, last") && !page.contains("Runs, last") && !page.contains("Contacts, last"), "long ago");
    }

    async fn the_overview_names_domains_whose_mail_bounces(app: TestApp) {
        let owner = app.owner().await;
        let workspace = app.store.id(app.workspace().await);
        let nil = app.store.id(posthorn::id::WorkspaceId::from(uuid::Uuid::nil()));
        let today = NOW - NOW % DAY;
        // Sent, and bounced in each of three ways.
        for (domain, day, [sent, hard, soft, unknown]) in [
            ("shop.example", today, [20, 1, 1, 0]),
            ("shop.example", today - 6 * DAY, [20, 0, 0, 1]),
            ("worse.example", today, [20, 10, 0, 0]),
            ("few.example", today, [19, 19, 0, 0]),
            ("fine.example", today, [100, 5, 0, 0]),
            ("old.example", today - 7 * DAY, [100, 50, 0, 0]),
            ("", today, [100, 50, 0, 0]),
        ] {
            app.store.run(&format!(
                "INSERT INTO email_counts_by_day VALUES ({workspace}, {day}, '{domain}', {nil}, {sent}, 0, 0, {hard}, {soft}, {unknown},
                     0, 0, 0, 0, 0, 0, 0, 0, 0)"
            )).await;
        }
        let page = app.see("/dashboard/", &owner).await.text();
        let said = "7.5 % of the mail from shop.example bounced in the last 7 days. <a href=\"/dashboard/deliverability?days=7\">";
        assert!(page.contains(said) && page.find("50.0 % of the mail from worse.example") < page.find(said), "{page}");
        assert_eq!(page.matches("% of the mail from").count(), 2, "{page}");
        app.store.run("DELETE FROM email_counts_by_day").await;
        assert!(!app.see("/dashboard/", &owner).await.text().contains("% of the mail from"));
        app.store.run(&format!("INSERT INTO email_counts VALUES ({workspace}, {today}, 'shop.example', {nil}, 20, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)")).await;
        let page = app.see("/dashboard/", &owner).await.text();
        for end in [("2026-01-01T04:00:00.000000Z", "04:00 UTC"), ("2026-01-02T00:00:00.000000Z", "Fri 2 Jan UTC")] {
            let (iso, text) = end;
            assert!(page.contains(&format!("<span><time datetime=\"{iso}\" title=\"{iso}\">{text}</time></span>")), "{page}");
        }
    }

    async fn the_checklist_goes_away_when_all_of_it_is_done_and_asks_for_a_domain_where_mail_leaves(store: Store) {
        let (captured, sink) = (TestApp::open(&store, &[]).await, Sink::open().await);
        let relaying = Post::relaying(&store, &sink).await.app;
        let owner = captured.owner().await;
        let key = captured.full_key().await;
        let overview = async |app: &TestApp| app.see("/dashboard/", &owner).await.text();
        let (one, other) = (overview(&captured).await, overview(&relaying).await);
        assert!(one.contains("1 of 3 done") && !one.contains("Add your domain"), "{one}");
        assert!(other.contains("1 of 4 done") && other.contains("Add your domain"), "{other}");
        sent(&captured, &key, mail()).await;
        automation(&captured, &key, body("Welcome")).await;
        assert!(!overview(&captured).await.contains("Getting started"));
        assert!(overview(&relaying).await.contains("3 of 4 done"));
        let added = captured.post("/domains").key(&key).json(json!({"name": "shop.example"})).send().await;
        assert_eq!(added.status, 201, "{}", added.text());
        assert!(overview(&relaying).await.contains("3 of 4 done"), "it has to be verified");
        store.run("UPDATE domains SET status = 'verified'").await;
        assert!(!overview(&relaying).await.contains("Getting started"));
    }
}
