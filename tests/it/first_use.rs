//! Events that nobody defined are defined by their first use: decisions, section 5.

use serde_json::{Value, json};

use crate::harness::{Answer, TestApp, on_both};
use crate::sending::Stage;

fn order(event: &str, email: &str) -> Value {
    json!({"event": event, "email": email})
}

async fn definitions(stage: &Stage, name: &str) -> Vec<Value> {
    let all = stage.get("/events").await["data"].as_array().expect("a list").clone();
    all.into_iter().filter(|event| event["name"] == name).collect()
}

fn defined(answer: &Answer) -> Option<bool> {
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json().get("defined").map(|flag| flag.as_bool().expect("a boolean"))
}

on_both! {
    async fn decisions_5_an_unknown_name_is_defined_by_its_first_use(app: TestApp) {
        let stage = Stage::new(app).await;
        let first = stage.post("/events/send", order("cart.abandoned", "a@b.co")).await;
        assert_eq!(defined(&first), Some(true));
        let again = stage.post("/events/send", order("cart.abandoned", "a@b.co")).await;
        assert_eq!(defined(&again), None, "only the first use says so: {}", again.text());
        let known = stage.post("/events/send", order("user.created", "a@b.co")).await;
        assert_eq!(defined(&known), None);
        let all = definitions(&stage, "cart.abandoned").await;
        assert_eq!(all.len(), 1);
        assert_eq!((&all[0]["schema"], &all[0]["defined_by_use"]), (&Value::Null, &json!(true)));
        assert_eq!(definitions(&stage, "user.created").await[0]["defined_by_use"], false);
        assert_eq!(stage.get("/events/cart.abandoned").await["defined_by_use"], true);
        assert_eq!(stage.get("/events/cart.abandoned/occurrences").await["data"].as_array().map(Vec::len), Some(2));
    }

    async fn decisions_5_a_name_that_only_an_automation_knows_is_defined_too(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[("trigger", json!({"event_name": "undefined"}))]).await;
        assert_eq!(defined(&stage.post("/events/send", order("undefined", "a@b.co")).await), Some(true));
        assert_eq!((stage.runs(&automation).await.len(), definitions(&stage, "undefined").await.len()), (1, 1));
    }

    async fn decisions_5_whoever_says_what_a_payload_is_makes_the_definition_his_own(app: TestApp) {
        let stage = Stage::new(app).await;
        stage.post("/events/send", order("seen", "a@b.co")).await;
        let change = json!({"schema": {"n": "number"}});
        let changed = stage.app.patch("/events/seen").key(&stage.key).json(change).send().await;
        assert_eq!(changed.status, 200);
        assert_eq!(stage.get("/events/seen").await["defined_by_use"], false);
        let wrong = json!({"event": "seen", "email": "a@b.co", "payload": {"n": "x"}});
        stage.post("/events/send", wrong).await.refused(422, "validation_error");
    }

    async fn decisions_5_what_is_refused_defines_nothing(app: TestApp) {
        let stage = Stage::new(app).await;
        let nobody = "01890000-0000-7000-8000-0000000000c0";
        stage.post("/events/send", json!({"event": "x", "contact_id": nobody})).await.refused(404, "not_found");
        stage.post("/events/send", json!({"event": "x", "email": "a@b.co", "payload": []})).await.refused(422, "validation_error");
        let flawed = json!([order("x", "a@b.co"), {"event": "user.created", "email": "a@b.co", "payload": {"seats": "many"}}]);
        stage.post("/events/send/batch", flawed).await.refused(422, "validation_error");
        for name in ["svc:contact.created", "svc:mine"] {
            let message = stage.post("/events/send", order(name, "a@b.co")).await.refused(422, "validation_error");
            assert!(message.contains("svc:"), "{message}");
        }
        assert_eq!(stage.app.count("events").await, 1, "the one that was there");
    }

    async fn decisions_5_first_uses_at_once_are_one_definition(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let stage = Stage::new(app).await;
        for round in 0..8 {
            let name = format!("first.{round}");
            let send = async |at: usize| {
                let app = if at.is_multiple_of(2) { &stage.app } else { &other };
                let body = order(&name, &format!("u{at}@example.com"));
                app.post("/events/send").key(&stage.key).json(body).send().await
            };
            let all = futures_util::future::join_all((0..32).map(send)).await;
            let defining = all.iter().filter(|answer| defined(answer) == Some(true)).count();
            assert_eq!((defining, definitions(&stage, &name).await.len()), (1, 1));
        }
        assert_eq!(stage.app.count("occurrences").await, 8 * 32);
    }

    async fn decisions_5_a_batch_tells_of_each_event_whether_it_was_defined(app: TestApp) {
        let stage = Stage::new(app).await;
        let batch: Value = ["b", "user.created", "a", "b"].iter().map(|name| order(name, "a@b.co")).collect();
        let answer = stage.post("/events/send/batch", batch.clone()).await.json();
        let told = |answer: &Value| -> Vec<bool> {
            answer["data"].as_array().expect("a list").iter().map(|sent| sent.get("defined").is_some()).collect()
        };
        assert_eq!(told(&answer), [true, false, true, false]);
        assert_eq!(told(&stage.post("/events/send/batch", batch).await.json()), [false; 4]);
        assert_eq!((definitions(&stage, "a").await.len(), definitions(&stage, "b").await.len()), (1, 1));
    }

    /// Two that define the same names in another order must not wait for each other.
    async fn decisions_5_batches_that_define_the_same_names_all_happen(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let stage = Stage::new(app).await;
        let send = async |at: usize| {
            let mut orders: Vec<Value> = (0..20).map(|n| order(&format!("n{n}"), &format!("u{at}@example.com"))).collect();
            if !at.is_multiple_of(2) {
                orders.reverse();
            }
            let app = if at.is_multiple_of(2) { &stage.app } else { &other };
            app.post("/events/send/batch").key(&stage.key).json(orders.into()).send().await
        };
        for answer in futures_util::future::join_all((0..8).map(send)).await {
            assert_eq!(answer.status, 202, "{}", answer.text());
        }
        assert_eq!((stage.app.count("events").await, stage.app.count("occurrences").await), (21, 160));
    }

    async fn decisions_5_a_repeat_under_its_key_tells_the_same(app: TestApp) {
        let stage = Stage::new(app).await;
        let send = || {
            let request = stage.app.post("/events/send").key(&stage.key).header("idempotency-key", "k");
            request.json(order("new", "a@b.co")).send()
        };
        let first = send().await;
        assert_eq!((defined(&first), send().await.text()), (Some(true), first.text()));
        stage.app.delete("/events/new").key(&stage.key).send().await;
        assert_eq!(send().await.text(), first.text());
        assert!(definitions(&stage, "new").await.is_empty(), "a repeat defines nothing");
    }

    async fn decisions_5_a_replay_of_what_is_defined_no_more_defines_it_again(app: TestApp) {
        let stage = Stage::new(app).await;
        let id = stage.send("gone", "a@b.co", json!({"n": 1})).await;
        assert_eq!(stage.app.delete("/events/gone").key(&stage.key).send().await.status, 200);
        let replayed = stage.post(&format!("/occurrences/{id}/replay"), json!({})).await;
        assert_eq!((defined(&replayed), &replayed.json()["replay_of"]), (Some(true), &json!(id)));
        assert_eq!(definitions(&stage, "gone").await[0]["defined_by_use"], true);
    }

    /// Names may be longer than an index entry of PostgreSQL.
    async fn decisions_5_long_names_are_defined_by_use_as_well(app: TestApp) {
        let stage = Stage::new(app).await;
        let long = |end: &str| "\u{1f4ef}".repeat(1023) + end;
        assert_eq!(defined(&stage.post("/events/send", order(&long("a"), "a@b.co")).await), Some(true));
        assert_eq!(defined(&stage.post("/events/send", order(&long("b"), "a@b.co")).await), Some(true));
        assert_eq!(defined(&stage.post("/events/send", order(&long("a"), "a@b.co")).await), None);
    }
}
