//! The log of requests to the API, limits to their number, and what a workspace uses.

use posthorn::clock::{DAY, SECOND};
use posthorn::upkeep;
use serde_json::{Value, json};

use crate::harness::{Answer, TestApp, on_both};
use crate::store::Store;

async fn logs(app: &TestApp, key: &str) -> Vec<Value> {
    app.app.request_log().write(&app.app).await.expect("written");
    let answer = app.get("/logs").key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["data"].as_array().expect("a list").clone()
}

fn seen(logs: &[Value]) -> Vec<(String, i64)> {
    let one = |log: &Value| {
        let word = |name: &str| log[name].as_str().expect("text").to_owned();
        (format!("{} {}", word("method"), word("endpoint")), log["response_status"].as_i64().expect("a status"))
    };
    logs.iter().map(one).collect()
}

fn limits(answer: &Answer) -> [Option<&str>; 4] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy"].map(|name| answer.header(name))
}

on_both! {
    async fn issue_14_requests_that_change_something_are_logged_without_secrets(app: TestApp) {
        let (key, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let made = app.post("/api-keys").key(&key).header("user-agent", "tests/1").json(json!({"name": "New"})).send().await.json();
        app.get("/api-keys").key(&key).send().await;
        app.delete("/segments/01890000-0000-7000-8000-000000000000").key(&key).send().await;
        app.post("/segments").key("re_unknown").json(json!({"name": "x"})).send().await;
        app.post("/events/send").key(&key).json(json!({"event": "a", "email": "x@example.com"})).send().await;
        app.post("/events/send").key(&key).json(json!({"event": "a"})).send().await;
        let found = logs(&app, &key).await;
        let expected = [
            ("POST /events/send".to_owned(), 422),
            ("DELETE /segments/01890000-0000-7000-8000-000000000000".to_owned(), 404),
            ("POST /api-keys".to_owned(), 201),
        ];
        assert_eq!(seen(&found), expected);
        let id = found[2]["id"].as_str().expect("an id");
        let whole = app.get(format!("/logs/{id}")).key(&key).send().await.json();
        assert_eq!(whole["object"], "log");
        assert_eq!(whole["user_agent"], "tests/1");
        assert_eq!(whole["request_body"], json!({"name": "New"}));
        assert_eq!(whole["response_body"], json!({"id": made["id"], "token": "[redacted]"}));
        let secret = made["token"].as_str().expect("a token");
        let kept = app.store.rows("SELECT request_body, response_body FROM request_log").await;
        assert!(!format!("{kept:?}").contains(secret));
        assert!(logs(&app, &theirs).await.is_empty(), "they are its workspace's");
        app.get(format!("/logs/{id}")).key(&theirs).send().await.refused(404, "not_found");
    }

    async fn issue_14_the_setting_says_what_is_logged(store: Store) {
        for (setting, expected) in [("off", 0), ("writes", 1), ("all", 3)] {
            let app = TestApp::open(&store, &[&format!("--request-log={setting}")]).await;
            store.run("DELETE FROM request_log").await;
            let key = app.full_key().await;
            app.get("/segments").key(&key).send().await;
            app.post("/segments").key(&key).json(json!({"name": setting})).send().await;
            app.post("/events/send").key(&key).json(json!({"event": "a", "email": "x@example.com"})).send().await;
            assert_eq!(logs(&app, &key).await.len(), expected, "{setting}");
        }
    }

    async fn issue_14_what_mails_say_and_what_is_long_is_not_in_the_log(store: Store) {
        let app = TestApp::open(&store, &["--request-log=all"]).await;
        let key = app.full_key().await;
        let mail = |text: &str| json!({"from": "a@one.example", "to": "b@example.com", "subject": "Hi", "text": text});
        for text in ["between us", &"between us ".repeat(1000)] {
            let sent = app.post("/emails").key(&key).json(mail(text)).send().await;
            assert_eq!(sent.status, 200, "the mail is whole: {}", sent.text());
        }
        let found = logs(&app, &key).await;
        let bodies: Vec<Value> = {
            let mut bodies = Vec::new();
            for log in &found {
                let id = log["id"].as_str().expect("an id");
                bodies.push(app.get(format!("/logs/{id}")).key(&key).send().await.json()["request_body"].clone());
            }
            bodies
        };
        assert_eq!(bodies[1]["subject"], "Hi");
        assert_eq!(bodies[1]["text"], "[redacted]");
        assert_eq!(bodies[0], json!({"omitted": "The body is too long to be kept."}));
        assert!(!format!("{:?}", store.rows("SELECT request_body FROM request_log").await).contains("between us"));
        assert_eq!(store.value("SELECT COUNT(*) FROM emails WHERE size > 10000").await.as_deref(), Some("1"));
    }

    async fn issue_14_the_log_is_kept_for_as_long_as_the_setting_says(store: Store) {
        let app = TestApp::open(&store, &["--request-log-retention=2"]).await;
        let key = app.full_key().await;
        let add = async |name: &str| app.post("/segments").key(&key).json(json!({"name": name})).send().await;
        add("old").await;
        assert_eq!(logs(&app, &key).await.len(), 1);
        app.clock.advance(2 * DAY);
        add("new").await;
        assert_eq!(logs(&app, &key).await.len(), 2);
        app.clock.advance(SECOND);
        upkeep::round(&app.app).await.expect("upkeep");
        assert_eq!(logs(&app, &key).await.len(), 1);
    }

    async fn issue_14_callers_may_make_so_many_requests_a_second_and_hear_what_is_left(store: Store) {
        let app = TestApp::open(&store, &["--key-rate=2", "--workspace-rate=3"]).await;
        let (mine, other) = (app.full_key().await, app.full_key().await);
        let theirs = app.second_workspace_key().await;
        let ask = async |key: &str| app.get("/segments").key(key).send().await;
        assert_eq!(limits(&ask(&mine).await), [Some("2"), Some("1"), Some("1"), Some("2;w=1")]);
        assert_eq!(limits(&ask(&mine).await), [Some("2"), Some("0"), Some("1"), Some("2;w=1")]);
        let refused = ask(&mine).await;
        refused.refused(429, "rate_limit_exceeded");
        assert_eq!((refused.header("retry-after"), limits(&refused)[1]), (Some("1"), Some("0")));
        assert_eq!(limits(&ask(&other).await)[0], Some("3"), "the workspace's is reached first");
        ask(&other).await.refused(429, "rate_limit_exceeded");
        assert_eq!(ask(&theirs).await.status, 200);
        app.clock.advance(SECOND);
        assert_eq!(ask(&mine).await.status, 200);
        let unlimited = TestApp::open(&store, &[]).await;
        assert_eq!(limits(&unlimited.get("/segments").key(&mine).send().await), [None; 4]);
    }

    async fn issue_14_usage_tells_what_a_workspace_has_and_sends(store: Store) {
        let post = crate::delivery::Post::open(&store, &[]).await;
        let app = &post.app;
        let key = app.full_key().await;
        for name in ["a", "b"] {
            app.post("/segments").key(&key).json(json!({"name": name})).send().await;
        }
        app.post("/contacts").key(&key).json(json!({"email": "x@example.com"})).send().await;
        let mail = json!({"from": "a@one.example", "to": ["b@example.com", "c@example.com"], "subject": "Hi", "text": "Hi"});
        app.post("/emails").key(&key).json(mail).send().await;
        while post.round().await > 0 {}
        let usage = app.get("/usage").key(&key).send().await.json();
        assert_eq!(usage["object"], "usage");
        assert_eq!(
            usage["emails"]["daily"],
            json!({"used": 2, "limit": null, "sent": 2, "received": 0, "resets_at": "2026-01-03T00:00:00.000000Z"})
        );
        assert_eq!(usage["emails"]["monthly"]["resets_at"], "2026-02-01T00:00:00.000000Z");
        assert_eq!((&usage["segments"]["used"], &usage["contacts"]["used"]), (&json!(2), &json!(1)));
        assert_eq!(usage["rate_limit"], json!({"limit": 4_294_967_295_u32, "duration": "1000ms"}));
        app.clock.advance(DAY);
        let next = app.get("/usage").key(&key).send().await.json();
        assert_eq!((&next["emails"]["daily"]["sent"], &next["emails"]["monthly"]["sent"]), (&json!(0), &json!(2)));
    }
}
