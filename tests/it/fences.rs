//! What must not slip through beside a change that ends it.

use std::time::Duration;

use posthorn::accounts::{self, Role, Workspace};
use posthorn::auth;
use posthorn::db::DbError;
use posthorn::secret;

use crate::flow::{Person, REDIRECT, app_named, form_token, text};
use crate::harness::{Answer, TestApp, on_both};
use crate::store::Locked;

const PASSWORD: &str = "correct horse battery";

/// Lets a change come true while a request is under way that has looked before.
pub async fn meanwhile(held: Locked, request: impl Future<Output = Answer>) -> Answer {
    let change = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        held.commit().await;
    };
    let (answer, ()) = tokio::join!(request, change);
    answer
}

async fn log_in(app: &TestApp, person: &Person) -> Answer {
    let page = app.get("/dashboard/login").send().await;
    let visit = page.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned();
    let token = form_token(&page.text(), "/dashboard/login").expect("a token");
    let form = format!("email={}&password={}&token={token}", person.email, PASSWORD.replace(' ', "+"));
    app.post("/dashboard/login").header("cookie", visit).body("application/x-www-form-urlencoded", form).send().await
}

async fn owners(app: &TestApp) -> i64 {
    app.count("memberships WHERE role = 'owner'").await
}

on_both! {
    async fn issue_10_a_log_in_under_way_ends_with_its_password(app: TestApp) {
        let owner = app.owner().await;
        let kept = auth::hash_password(PASSWORD);
        app.store.run(&format!("UPDATE users SET password_hash = '{kept}'; DELETE FROM sessions")).await;
        assert_eq!(log_in(&app, &owner).await.status, 303, "the password is right");
        let held = app.store.hold("UPDATE users SET password_hash = 'another'; DELETE FROM sessions").await;
        let answer = meanwhile(held, log_in(&app, &owner)).await;
        assert_eq!((answer.status, app.count("sessions").await), (422, 0), "{}", answer.text());
    }

    async fn issue_10_a_decision_under_way_ends_with_its_session(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        for decision in ["decision=approve&scope=full_access", "decision=deny"] {
            let person = app.browser(owner.id, &owner.email).await;
            let page = app.ask(&client, "").await;
            let token = form_token(&app.see(&page, &person).await.text(), &page).expect("a token");
            let held = app.store.hold("DELETE FROM sessions").await;
            let answer = meanwhile(held, app.send_form(&page, &person, &format!("{decision}&token={token}"))).await;
            assert!(!answer.location().starts_with(REDIRECT), "{}", answer.location());
            assert!(answer.location().contains("/login?request="), "{}", answer.location());
            assert_eq!(app.count("authorization_codes").await, 0);
            assert_eq!(app.count("authorization_requests WHERE decided_at IS NOT NULL").await, 0);
        }
    }

    async fn issue_10_a_session_that_ends_in_the_same_group_decides_nothing(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let page = app.ask(&client, "").await;
        app.see(&page, &owner).await;
        let (_, cookie) = owner.cookie.split_once('=').expect("a pair");
        let request = page.rsplit('/').next().and_then(|id| id.parse().ok()).expect("an id");
        let db = &app.app.db;
        let (ended, decided) = tokio::join!(
            db.commit(posthorn::auth::delete_sessions_of(owner.id)),
            db.commit(posthorn::oauth::decide(request, &secret::hash(cookie), app.clock.now())),
        );
        ended.expect("ended");
        assert!(matches!(decided, Err(DbError::Stale)), "{decided:?}");
    }

    async fn issue_10_a_key_under_way_ends_with_its_grant(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let held = app.store.hold("UPDATE oauth_grants SET revoked_at = 1; UPDATE revisions SET number = 9").await;
        let create = app.post("/api-keys").key(text(&tokens, "access_token")).json(serde_json::json!({"name": "late"}));
        meanwhile(held, create.send()).await.refused(401, "invalid_token");
        assert_eq!(app.count("api_keys").await, 0);
    }

    async fn issue_10_a_set_up_beside_a_command_makes_one_owner(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let workspace = Workspace { id: app.workspace().await, name: "Default".into() };
        for round in 0..20 {
            app.store.run("DELETE FROM memberships; DELETE FROM users; DELETE FROM setup_links").await;
            let token = accounts::new_setup_link(&app.app.db, &app.clock).await.expect("an answer").expect("a link");
            let new = |name: &str, role: Option<Role>| {
                let email = format!("{name}@example.com").parse().expect("an address");
                accounts::new_user(&app.clock, &email, "x", &workspace, role).1
            };
            let mut claim = accounts::use_setup_link(&secret::hash(&token));
            claim.append(new("claim", Some(Role::Owner)));
            let commands = [new("first", None), new("second", None)];
            let [first, second] = commands;
            let (claimed, created, again) =
                tokio::join!(app.app.db.commit(claim), other.app.db.commit(first), other.app.db.commit(second));
            created.expect("a user");
            again.expect("a user");
            assert!(matches!(claimed, Ok(_) | Err(DbError::Unexpected { .. })), "{claimed:?}");
            assert_eq!(owners(&app).await, 1, "round {round}");
        }
    }

    async fn issue_10_the_first_workspace_is_made_once(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        for _ in 0..10 {
            app.store.run("DELETE FROM workspaces").await;
            let made = tokio::join!(
                accounts::only_workspace(&app.app.db, &app.clock),
                accounts::only_workspace(&other.app.db, &other.clock),
            );
            made.0.expect("an answer").expect("the only one");
            made.1.expect("an answer").expect("the only one");
            assert_eq!(app.count("workspaces").await, 1);
        }
    }
}
