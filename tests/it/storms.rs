//! Storms: whoever takes things away or edits them as fast as he can, from many
//! connections, gets nobody else refused (reliability F27).

use std::cell::Cell;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, join_all};
use posthorn::credentials::{self, NewKey, Permission};
use serde_json::{Value, json};

use crate::flow::{app_named, text};
use crate::graphs;
use crate::harness::{Answer, TestApp, on_both};
use crate::sending::Stage;

/// How often each connection of a storm does what it does.
const ROUNDS: usize = 25;

/// Lets three callers call for as long as a storm blows, and tells how often they did.
async fn beside(storm: Vec<LocalBoxFuture<'_, ()>>, call: impl AsyncFn(usize)) -> usize {
    let (over, calls) = (Cell::new(false), Cell::new(0));
    let blow = async {
        join_all(storm).await;
        over.set(true);
    };
    let caller = || async {
        while !over.get() {
            calls.set(calls.get() + 1);
            call(calls.get()).await;
        }
    };
    tokio::join!(blow, caller(), caller(), caller());
    calls.get()
}

fn well(answer: &Answer) {
    assert!(answer.status < 400, "{} {}", answer.status, answer.text());
}

async fn revoke(app: &TestApp, client: &str, token: &str) {
    let form = format!("client_id={client}&token={token}");
    well(&app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send().await);
}

/// Makes an access token and gives it back, each time another.
async fn give_back(app: &TestApp, client: &str, tokens: Value) {
    let mut refresh = text(&tokens, "refresh_token").to_owned();
    for _ in 0..ROUNDS {
        let next = app.refresh(client, &refresh).await.json();
        text(&next, "refresh_token").clone_into(&mut refresh);
        revoke(app, client, text(&next, "access_token")).await;
    }
}

async fn make_and_delete_keys(app: &TestApp, key: &str) {
    for _ in 0..ROUNDS {
        let made = app.post("/api-keys").key(key).json(json!({"name": "short-lived"})).send().await;
        well(&made);
        well(&app.delete(format!("/api-keys/{}", text(&made.json(), "id"))).key(key).send().await);
    }
}

on_both! {
    async fn f27_who_loses_nothing_is_not_refused_while_others_lose_all_they_have(app: TestApp) {
        let (client, owner) = (app.client(app_named("Storm")).await, app.owner().await);
        let key = app.full_key().await;
        let spent = app.tokens(&client, &owner).await;
        let mut storm: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
        for connection in 0..8 {
            let tokens = app.tokens(&client, &owner).await;
            let (app, client, key, owner, spent) = (&app, &client, &key, &owner, &spent);
            storm.push(match connection % 4 {
                0 => give_back(app, client, tokens).boxed_local(),
                1 => make_and_delete_keys(app, key).boxed_local(),
                2 => async move {
                    for _ in 0..ROUNDS {
                        revoke(app, client, text(spent, "access_token")).await;
                    }
                }
                .boxed_local(),
                _ => async move {
                    // Whoever logs in and out, and operators who shut an app out.
                    for _ in 0..ROUNDS {
                        app.browser(owner.id, &owner.email).await;
                        let vouch = posthorn::oauth::verify_client(client, None);
                        app.app.db.commit(vouch).await.expect("vouched");
                    }
                }
                .boxed_local(),
            });
        }

        // Somebody else, with a key, a token and an app of his own.
        let (quiet, stranger) = (app.client(app_named("Quiet")).await, app.second_workspace_key().await);
        let own = app.tokens(&quiet, &owner).await;
        let calls = beside(storm, async |number| {
            well(&app.post("/events").key(&stranger).json(json!({"name": format!("e{number}")})).send().await);
            well(&app.get("/events").key(&stranger).send().await);
            let order = json!({"event": format!("e{number}"), "email": format!("u{number}@example.com")});
            well(&app.post("/events/send").key(&stranger).json(order).send().await);
            well(&app.get("/events").key(text(&own, "access_token")).send().await);
            app.ask(&quiet, "").await;
        })
        .await;
        assert!(calls > 5, "{calls}");
        app.get("/events").key(text(&spent, "access_token")).send().await.refused(401, "invalid_token");
    }

    async fn f27_senders_are_not_refused_while_automations_and_events_are_edited(app: TestApp) {
        let stranger = app.second_workspace_key().await;
        app.event(&stranger, json!({"name": "user.created"})).await;
        let stage = Stage::new(app).await;
        let listening = graphs::automation(&stage.app, &stage.key, {
            let mut body = graphs::body("listens");
            body["status"] = json!("enabled");
            body
        })
        .await;
        let path = format!("/automations/{listening}");
        let mut storm: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
        for connection in 0..8 {
            let (app, key, path) = (&stage.app, &stage.key, &path);
            storm.push(match connection % 4 {
                0 | 1 => async move {
                    for round in 0..2 * ROUNDS {
                        let name = json!({"name": format!("listens {connection} {round}")});
                        well(&app.patch(path).key(key).json(name).send().await);
                    }
                }
                .boxed_local(),
                2 => async move {
                    for _ in 0..ROUNDS {
                        let made = graphs::automation(app, key, graphs::body("short-lived")).await;
                        well(&app.delete(format!("/automations/{made}")).key(key).send().await);
                    }
                }
                .boxed_local(),
                _ => async move {
                    for _ in 0..2 * ROUNDS {
                        app.event(key, json!({"name": "user.created", "schema": {"plan": "string"}})).await;
                    }
                }
                .boxed_local(),
            });
        }
        let calls = beside(storm, async |number| {
            for key in [&stage.key, &stranger] {
                let order = json!({"event": "user.created", "email": format!("u{number}@example.com")});
                well(&stage.app.post("/events/send").key(key).json(order).send().await);
            }
            let change = json!({"first_name": format!("n{number}")});
            well(&stage.app.patch(format!("/contacts/u{number}@example.com")).key(&stage.key).json(change).send().await);
        })
        .await;
        assert!(calls > 5, "{calls}");
        let runs = stage.app.count(&format!("runs WHERE automation_id = {}", stage.app.store.id(&listening))).await;
        assert_eq!(runs, calls as i64, "each started its run");
    }

    async fn f27_a_key_that_ends_in_a_storm_ends_at_once(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let (key, workspace) = (app.full_key().await, app.workspace().await);
        let storm = (0..4).map(|_| make_and_delete_keys(&app, &key).boxed_local()).collect();
        beside(storm, async |_| {
            let short = NewKey::make(&app.clock, workspace, "short-lived", Permission::FullAccess);
            app.app.db.commit(credentials::insert_key(&short)).await.expect("a key");
            well(&app.get("/events").key(&short.secret).send().await);
            other.delete_key(short.id).await;
            app.get("/events").key(&short.secret).send().await.refused(403, "invalid_api_key");
            let late = app.post("/events").key(&short.secret).json(json!({"name": "late"})).send().await;
            late.refused(403, "invalid_api_key");
        })
        .await;
        assert_eq!(app.count("events").await, 0);
    }
}
