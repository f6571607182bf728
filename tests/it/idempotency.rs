//! `Idempotency-Key` on every route that makes something.

use std::collections::HashSet;

use posthorn::clock::HOUR;
use serde_json::{Value, json};

use crate::graphs;
use crate::harness::{Answer, TestApp, on_both};

/// A request that makes something, a body that is another one, and the table that
/// the thing goes to.
struct Case {
    target: String,
    body: Value,
    other: Option<Value>,
    table: &'static str,
}

/// What the routes of the API that make something are asked for.
struct Scene {
    app: TestApp,
    key: String,
    segment: String,
    automation: String,
    occurrence: String,
    broadcast: String,
    template: String,
}

impl Scene {
    async fn new(app: TestApp) -> Scene {
        let key = app.full_key().await;
        let made = async |path: &str, body: Value| {
            let answer = app.post(path).key(&key).json(body).send().await;
            assert!([201, 202].contains(&answer.status), "{}", answer.text());
            answer.json()["id"].as_str().expect("an id").to_owned()
        };
        let segment = made("/segments", json!({"name": "S"})).await;
        let automation = made("/automations", graphs::body("A")).await;
        let occurrence = made("/events/send", json!({"event": "old", "email": "old@example.com"})).await;
        made("/contacts", json!({"email": "erased@example.com"})).await;
        let broadcast = made("/broadcasts", news(&segment, "one")).await;
        let template = made("/templates", json!({"name": "T", "html": "<p>Hi</p>"})).await;
        Scene { app, key, segment, automation, occurrence, broadcast, template }
    }

    /// How a route is asked; `None` for one that nobody has thought of here.
    fn case(&self, path: &str) -> Option<Case> {
        let case = |target: &str, body: Value, other: Value, table| {
            Some(Case { target: target.to_owned(), body, other: Some(other), table })
        };
        let named = |target: &str, table| case(target, json!({"name": "one"}), json!({"name": "other"}), table);
        let sent =
            |n: u8| json!({"event": format!("e{n}"), "email": format!("e{n}@example.com"), "payload": {"n": "x"}});
        let alone = |target: String, table| Some(Case { target, body: Value::Null, other: None, table });
        let mail = |name: &str| json!({"email": format!("{name}@example.com")});
        match path {
            "/events" => named(path, "events"),
            "/segments" | "/audiences" => named(path, "segments"),
            "/api-keys" => named(path, "api_keys"),
            "/topics" => {
                let topic = |name: &str| json!({"name": name, "default_subscription": "opt_in"});
                case(path, topic("one"), topic("other"), "topics")
            }
            "/broadcasts" => case(path, news(&self.segment, "one"), news(&self.segment, "other"), "broadcasts"),
            "/broadcasts/{id}/duplicate" => alone(format!("/broadcasts/{}/duplicate", self.broadcast), "broadcasts"),
            "/templates" => {
                let template = |name: &str| json!({"name": name, "html": "<p>Hi</p>"});
                case(path, template("one"), template("other"), "templates")
            }
            "/templates/{id}/duplicate" => alone(format!("/templates/{}/duplicate", self.template), "templates"),
            "/forms" => {
                let form = |name: &str| json!({"name": name, "from": "a@b.example"});
                case(path, form("one"), form("other"), "forms")
            }
            "/webhooks" => {
                let to =
                    |path: &str| json!({"endpoint": format!("https://a.example/{path}"), "events": ["email.sent"]});
                case(path, to("one"), to("other"), "webhooks")
            }
            "/suppressions" => case(path, mail("s1"), mail("s2"), "suppressions"),
            "/suppressions/batch/add" => {
                let emails = |name: &str| json!({"emails": [format!("{name}@example.com")]});
                case(path, emails("s3"), emails("s4"), "suppressions")
            }
            "/suppressions/import" => {
                case(path, json!("email\ns5@example.com\n"), json!("email\ns6@example.com\n"), "suppressions")
            }
            "/domains" => case(path, json!({"name": "one.example"}), json!({"name": "other.example"}), "domains"),
            "/contacts" => case(path, mail("a"), mail("b"), "contacts"),
            "/contacts/{contact}/erase" => alone("/contacts/erased@example.com/erase".into(), "erasures"),
            "/audiences/{id}/contacts" => {
                case(&format!("/audiences/{}/contacts", self.segment), mail("c"), mail("d"), "contacts")
            }
            "/contact-properties" => {
                let property = |key: &str| json!({"key": key, "type": "string"});
                case(path, property("one"), property("other"), "contact_properties")
            }
            "/contacts/imports" => case(path, json!("email\nx@example.com\n"), json!("email\n"), "contact_imports"),
            "/automations" => case(path, graphs::body("one"), graphs::body("other"), "automations"),
            "/automations/{id}/duplicate" => {
                alone(format!("/automations/{}/duplicate", self.automation), "automations")
            }
            "/events/send" => case(path, sent(1), sent(2), "occurrences"),
            "/events/send/batch" => case(path, json!([sent(3)]), json!([sent(4)]), "occurrences"),
            "/occurrences/{id}/replay" => alone(format!("/occurrences/{}/replay", self.occurrence), "occurrences"),
            _ => None,
        }
    }

    async fn ask(&self, case: &Case, body: &Value, key: &str) -> Answer {
        let request = self.app.post(&case.target).key(&self.key).header("idempotency-key", key);
        match body {
            Value::String(file) if case.target == "/suppressions/import" => {
                request.body("text/csv", file.clone()).send().await
            }
            Value::String(file) => {
                let form = format!("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n{file}\r\n--x--\r\n");
                request.body("multipart/form-data; boundary=x", form).send().await
            }
            Value::Null => request.send().await,
            body => request.json(body.clone()).send().await,
        }
    }

    async fn count(&self, case: &Case) -> i64 {
        self.app.count(case.table).await
    }
}

/// A broadcast as a draft.
fn news(segment: &str, subject: &str) -> Value {
    json!({"segment_id": segment, "from": "a@b.example", "subject": subject, "text": "x"})
}

/// The paths of the routes by which callers of the API make something.
async fn creating(app: &TestApp) -> Vec<(String, Value)> {
    let description = app.get("/openapi.json").send().await.json();
    let mut found = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        let post = &methods["post"];
        // What OAuth's own endpoints make has no key: RFC 7591 knows none.
        if !path.starts_with("/oauth/") && ["201", "202"].iter().any(|status| post["responses"][status].is_object()) {
            found.push((path.clone(), post.clone()));
        }
    }
    assert!(found.len() >= 14, "only {} routes make something", found.len());
    found
}

on_both! {
    /// Whatever route is added later is walked here, too.
    async fn issue_10_every_post_that_makes_something_honours_the_key(app: TestApp) {
        let scene = Scene::new(app).await;
        for (path, described) in creating(&scene.app).await {
            let params = described["parameters"].as_array().cloned().unwrap_or_default();
            assert!(params.iter().any(|one| one["name"] == "Idempotency-Key"), "{path} does not describe the key");
            let case = scene.case(&path).unwrap_or_else(|| panic!("{path} makes something: tell this test what to send"));
            let before = scene.count(&case).await;
            let first = scene.ask(&case, &case.body, "k").await;
            assert!([201, 202].contains(&first.status), "{path}: {}", first.text());
            assert_eq!(first.header("idempotent-replayed"), None, "{path}");
            let again = scene.ask(&case, &case.body, "k").await;
            assert_eq!((again.status, again.text()), (first.status, first.text()), "{path}");
            assert_eq!(again.header("idempotent-replayed"), Some("true"), "{path}");
            assert_eq!(again.header("content-type"), first.header("content-type"), "{path}");
            if let Some(other) = &case.other {
                scene.ask(&case, other, "k").await.refused(409, "invalid_idempotent_request");
            }
            scene.ask(&case, &case.body, &"k".repeat(257)).await.refused(400, "invalid_idempotency_key");
            assert_eq!(scene.count(&case).await, before + 1, "{path}");
            if let Some(other) = &case.other {
                assert!([201, 202].contains(&scene.ask(&case, other, "k2").await.status), "{path}");
                assert_eq!(scene.count(&case).await, before + 2, "{path}");
            }
        }
    }

    async fn issue_10_sixty_four_at_once_have_one_effect_and_one_answer(app: TestApp) {
        let scene = Scene::new(app).await;
        for (path, _) in creating(&scene.app).await {
            let case = scene.case(&path).expect("a case");
            let before = scene.count(&case).await;
            let all = futures_util::future::join_all((0..64).map(|_| scene.ask(&case, &case.body, "k"))).await;
            let answers: HashSet<(u16, String)> = all.iter().map(|answer| (answer.status, answer.text())).collect();
            assert_eq!(answers.len(), 1, "{path}: {answers:?}");
            assert!([201, 202].contains(&all[0].status), "{path}: {}", all[0].text());
            let replayed = all.iter().filter(|answer| answer.header("idempotent-replayed") == Some("true")).count();
            assert_eq!((replayed, scene.count(&case).await), (63, before + 1), "{path}");
        }
    }

    /// What a request relied on may be gone when it is sent again.
    async fn issue_10_a_repeat_gets_its_answer_although_it_would_be_refused_now(app: TestApp) {
        let scene = Scene::new(app).await;
        let asked = ["/audiences/{id}/contacts", "/automations/{id}/duplicate", "/occurrences/{id}/replay", "/events/send"];
        let mut given = Vec::new();
        for path in asked {
            let case = scene.case(path).expect("a case");
            given.push((scene.ask(&case, &case.body, "k").await.text(), case));
        }
        let strict = json!({"name": "e1", "schema": {"n": "number"}});
        scene.app.event(&scene.key, strict).await;
        for path in [format!("/segments/{}", scene.segment), format!("/automations/{}", scene.automation)] {
            assert_eq!(scene.app.delete(path).key(&scene.key).send().await.status, 200);
        }
        scene.app.store.run("DELETE FROM occurrences").await;
        for (first, case) in &given {
            let again = scene.ask(case, &case.body, "k").await;
            assert_eq!((&again.text(), again.header("idempotent-replayed")), (first, Some("true")), "{}", case.target);
        }
        for (_, case) in &given {
            assert!([404, 422].contains(&scene.ask(case, &case.body, "new").await.status), "{}", case.target);
        }
    }

    /// The address is somebody's who is not in the audience.
    async fn issue_10_joining_an_audience_is_repeatable_too(app: TestApp) {
        let scene = Scene::new(app).await;
        let case = scene.case("/audiences/{id}/contacts").expect("a case");
        let there = scene.app.post("/contacts").key(&scene.key).json(case.body.clone()).send().await.json();
        let all = futures_util::future::join_all((0..16).map(|_| scene.ask(&case, &case.body, "k"))).await;
        for answer in &all {
            assert_eq!((answer.status, &answer.json()["id"]), (201, &there["id"]), "{}", answer.text());
        }
        assert_eq!(scene.app.count("segment_members").await, 1);
        let left = format!("/contacts/{}/segments/{}", there["id"].as_str().expect("an id"), scene.segment);
        assert_eq!(scene.app.delete(left).key(&scene.key).send().await.status, 200);
        assert_eq!(scene.ask(&case, &case.body, "k").await.header("idempotent-replayed"), Some("true"));
        assert_eq!(scene.app.count("segment_members").await, 0, "a repeat changes nothing");
    }

    async fn issue_10_an_answer_that_holds_a_secret_is_kept_sealed(app: TestApp) {
        let scene = Scene::new(app).await;
        let case = scene.case("/api-keys").expect("a case");
        let made = scene.ask(&case, &case.body, "k").await.json();
        let token = made["token"].as_str().expect("a token");
        assert_eq!(scene.app.get("/events").key(token).send().await.status, 200);
        let rows = scene.app.store.rows("SELECT answer FROM idempotency_keys WHERE scope = 'POST /api-keys'").await;
        let kept = rows[0][0].as_deref().expect("an answer");
        assert!(!kept.contains("re_") && !kept.contains("token"), "{kept}");
        // Another key of the workspace may not read what the first one was told.
        let request = scene.app.post("/api-keys").key(token).header("idempotency-key", "k").json(case.body.clone());
        let message = request.send().await.refused(409, "invalid_idempotent_request");
        assert!(message.contains("another API key"), "{message}");
        assert_eq!(scene.ask(&case, &case.body, "k").await.json(), made);
        scene.app.clock.advance(24 * HOUR);
        assert_ne!(scene.ask(&case, &case.body, "k").await.json(), made, "after a day it is another request");
    }

    async fn a_key_stands_for_what_a_body_means_and_not_for_how_it_is_spelt(app: TestApp) {
        let key = app.full_key().await;
        let ask = async |body: &str| {
            let request = app.post("/events").key(&key).header("idempotency-key", "k");
            request.body("application/json", body.to_owned()).send().await
        };
        let first = ask(r#"{"name": "a", "schema": {"x": "string", "y": "number"}}"#).await;
        let again = ask(r#"{"schema":{"y":"number","x":"str\u0069ng"},"name":"a"}"#).await;
        assert_eq!((first.status, first.text()), (201, again.text()));
        ask(r#"{"name": "a", "schema": {"x": "string"}}"#).await.refused(409, "invalid_idempotent_request");
        assert_eq!(app.count("events").await, 1);
    }
}
