//! Events that happen: what is stored, what is started, what is refused.

use posthorn::automations::Engine;
use posthorn::clock::{HOUR, MINUTE, SECOND};
use serde_json::{Value, json};

use crate::harness::{Answer, TestApp, on_both};

/// A workspace in which things happen.
pub struct Stage {
    pub app: TestApp,
    pub key: String,
    pub engine: Engine,
}

impl Stage {
    pub async fn new(app: TestApp) -> Stage {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "user.created", "schema": {"plan": "string", "seats": "number"}})).await;
        let engine = Engine::new(app.app.occurrences().clone(), app.app.domains().clone(), app.app.templates().clone());
        Stage { app, key, engine }
    }

    /// An enabled automation of these steps, one leading to the next.
    pub async fn automation(&self, steps: &[(&str, Value)]) -> String {
        self.automation_with(steps, json!({})).await
    }

    pub async fn automation_with(&self, steps: &[(&str, Value)], more: Value) -> String {
        let step = |(at, (kind, config)): (usize, &(&str, Value))| json!({"key": format!("s{at}"), "type": kind, "config": config});
        let all: Vec<Value> = steps.iter().enumerate().map(step).collect();
        let exit = |at: usize| match steps[at].0 {
            "condition" => "condition_met",
            "wait_for_event" => "event_received",
            _ => "default",
        };
        let link = |at: usize| json!({"from": format!("s{at}"), "to": format!("s{}", at + 1), "type": exit(at)});
        let links: Vec<Value> = (0..steps.len() - 1).map(link).collect();
        self.graph(json!(all), json!(links), more).await
    }

    pub async fn graph(&self, steps: Value, connections: Value, more: Value) -> String {
        let mut body = json!({"name": "A", "status": "enabled", "steps": steps, "connections": connections});
        for (name, value) in more.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let made = self.app.post("/automations").key(&self.key).json(body).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["id"].as_str().expect("an id").to_owned()
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.app.post(path).key(&self.key).json(body).send().await
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.app.get(path).key(&self.key).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Lets an event happen to whoever has the address; tells the occurrence.
    pub async fn send(&self, event: &str, email: &str, payload: Value) -> String {
        let answer = self.post("/events/send", json!({"event": event, "email": email, "payload": payload})).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Lets workers work until nothing is due.
    pub async fn work(&self) {
        for _ in 0..100 {
            if self.engine.round().await.expect("a round") == 0 {
                return;
            }
        }
        panic!("there is always more to do");
    }

    pub async fn runs(&self, automation: &str) -> Vec<Value> {
        self.get(&format!("/automations/{automation}/runs")).await["data"].as_array().expect("runs").clone()
    }

    pub async fn run(&self, automation: &str) -> Value {
        let runs = self.runs(automation).await;
        assert_eq!(runs.len(), 1, "{runs:?}");
        let id = runs[0]["id"].as_str().expect("an id");
        self.get(&format!("/automations/{automation}/runs/{id}")).await
    }

    pub fn trigger() -> (&'static str, Value) {
        ("trigger", json!({"event_name": "user.created"}))
    }
}

/// The statuses of a run's steps, in graph order.
pub fn statuses(run: &Value) -> Vec<&str> {
    run["steps"].as_array().expect("steps").iter().map(|step| step["status"].as_str().expect("a status")).collect()
}

on_both! {
    async fn decisions_5_sending_answers_202_with_the_occurrence(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 hour"}))]).await;
        let answer = stage.post("/events/send", json!({"event": "user.created", "email": "Ada@Example.com",
            "payload": {"plan": 5, "extra": [1]}})).await;
        assert_eq!(answer.status, 202);
        let sent = answer.json();
        assert_eq!((&sent["object"], &sent["event"]), (&json!("event"), &json!("user.created")));
        let id = sent["id"].as_str().expect("an id");
        let occurrence = stage.get(&format!("/occurrences/{id}")).await;
        assert_eq!(occurrence["payload"], json!({"plan": "5", "extra": [1]}), "coerced, extra kept");
        assert_eq!(occurrence["runs"][0]["automation_id"], json!(automation));
        assert_eq!(occurrence["runs"][0]["status"], "running");
        let contact = stage.get("/contacts/ada@example.com").await;
        assert_eq!((&contact["id"], &contact["email"]), (&occurrence["contact_id"], &json!("Ada@Example.com")));
        let run = stage.run(&automation).await;
        assert_eq!((statuses(&run), &run["occurrence_id"]), (vec!["completed", "waiting"], &json!(id)));
        let listed = stage.get("/events/user.created/occurrences").await;
        assert_eq!(listed["data"][0]["id"], json!(id));
    }

    async fn spec_6_every_enabled_automation_of_that_name_is_triggered(app: TestApp) {
        let stage = Stage::new(app).await;
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 day"}))];
        let (first, second) = (stage.automation(&steps).await, stage.automation(&steps).await);
        let disabled = stage.automation_with(&steps, json!({"status": "disabled"})).await;
        let other = stage.automation(&[("trigger", json!({"event_name": "other"}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        for (automation, expected) in [(&first, 1), (&second, 1), (&disabled, 0), (&other, 0)] {
            assert_eq!(stage.runs(automation).await.len(), expected);
        }
        stage.post(&format!("/automations/{first}/stop"), json!({})).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        assert_eq!((stage.runs(&first).await.len(), stage.runs(&second).await.len()), (1, 2));
    }

    /// Runs are let in by fours; those of limited automations one by one.
    async fn however_many_automations_listen_each_gets_its_run(app: TestApp) {
        let stage = Stage::new(app).await;
        let limits = ["always", "once_per_contact", "always", "one_at_a_time", "always"];
        let mut all: Vec<String> = Vec::new();
        for count in 1..=9 {
            let more = match count % 2 {
                0 => json!({"re_entry": limits[count % limits.len()], "exit_on": "gone"}),
                _ => json!({"re_entry": limits[count % limits.len()]}),
            };
            let hours = ("delay", json!({"duration": format!("{count} hours")}));
            all.push(stage.automation_with(&[Stage::trigger(), hours], more).await);
            let id = stage.send("user.created", &format!("u{count}@example.com"), json!({})).await;
            let occurrence = stage.get(&format!("/occurrences/{id}")).await;
            let started: Vec<&Value> = occurrence["runs"].as_array().expect("runs").iter().collect();
            let mut automations: Vec<&str> =
                started.iter().map(|run| run["automation_id"].as_str().expect("an id")).collect();
            automations.sort_unstable();
            assert_eq!(automations, all, "ids sort as they were made");
        }
        stage.send("gone", "u9@example.com", json!({})).await;
        stage.work().await;
        for (at, automation) in all.iter().enumerate() {
            let newest = stage.runs(automation).await[0]["status"].clone();
            assert_eq!(newest, if at % 2 == 1 { "cancelled" } else { "running" }, "each ends on its own event");
        }
        for (at, automation) in all.iter().enumerate() {
            assert_eq!(stage.runs(automation).await.len(), 9 - at);
            stage.app.clock.advance(HOUR);
            stage.work().await;
            let runs = stage.runs(automation).await;
            assert!(runs.iter().all(|run| run["status"] != "running"), "each waits for as long as its own delay");
        }
    }

    async fn issue_4_bad_input_is_refused_and_nothing_is_stored(app: TestApp) {
        let stage = Stage::new(app).await;
        stage.automation(&[Stage::trigger()]).await;
        let known = json!("01890000-0000-7000-8000-0000000000c0");
        let large = "x".repeat(256 << 10);
        for (body, status, name, words) in [
            (json!({"event": "user.created", "contact_id": known}), 404, "not_found", "Contact"),
            (json!({"event": "user.created", "contact_id": known, "email": "a@b.co"}), 422, "validation_error", "both"),
            (json!({"event": "user.created"}), 422, "missing_required_field", "`email`"),
            (json!({"email": "a@b.co"}), 422, "missing_required_field", "`event`"),
            (json!({"event": "user.created", "contact_id": "x"}), 422, "validation_error", "UUID"),
            (json!({"event": "user.created", "email": "nobody"}), 422, "validation_error", "email"),
            (json!({"event": "user.created", "email": "a@b.co", "payload": []}), 422, "validation_error", "object"),
            (json!({"event": "user.created", "email": "a@b.co", "payload": {"seats": "many"}}), 422, "validation_error", "`seats`"),
            (json!({"event": "svc:contact.created", "email": "a@b.co"}), 422, "validation_error", "svc:"),
            (json!({"event": "user.created", "email": "a@b.co", "payload": {"x": large}}), 413, "validation_error", "262144"),
            (json!({"event": 5, "email": "a@b.co"}), 422, "validation_error", "string"),
        ] {
            let answer = stage.post("/events/send", body.clone()).await;
            answer.refused(status, name);
            assert!(answer.text().contains(words), "{body}: {}", answer.text());
        }
        for table in ["contacts", "occurrences", "runs"] {
            assert_eq!(stage.app.count(table).await, 0, "{table}");
        }
    }

    async fn decisions_5_the_newest_definition_is_in_force_for_payloads(app: TestApp) {
        let stage = Stage::new(app).await;
        let wrong = json!({"event": "user.created", "email": "a@b.co", "payload": {"seats": "many"}});
        stage.post("/events/send", wrong.clone()).await.refused(422, "validation_error");
        let newer = stage.app.event(&stage.key, json!({"name": "user.created"})).await;
        assert_eq!(stage.post("/events/send", wrong.clone()).await.status, 202);
        stage.app.patch(format!("/events/{newer}")).key(&stage.key).json(json!({"schema": {"seats": "number"}})).send().await;
        stage.post("/events/send", wrong.clone()).await.refused(422, "validation_error");
        stage.app.delete(format!("/events/{newer}")).key(&stage.key).send().await;
        stage.post("/events/send", wrong).await.refused(422, "validation_error");
    }

    /// Another process changes what this one has cached.
    async fn issue_4_a_stale_cache_costs_a_retry_and_never_a_run(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let stage = Stage::new(app).await;
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 day"}))];
        let first = stage.automation(&steps).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        let path = format!("/automations/{first}");
        other.patch(&path).key(&stage.key).json(json!({"status": "disabled"})).send().await;
        stage.send("user.created", "b@example.com", json!({})).await;
        assert_eq!(stage.runs(&first).await.len(), 1, "no run too many");
        other.patch(&path).key(&stage.key).json(json!({"status": "enabled"})).send().await;
        stage.send("user.created", "c@example.com", json!({})).await;
        assert_eq!(stage.runs(&first).await.len(), 2, "no run too few");
        other.clock.advance(SECOND);
        let strict = other.event(&stage.key, json!({"name": "user.created", "schema": {"n": "boolean"}})).await;
        let wrong = json!({"event": "user.created", "email": "d@example.com", "payload": {"n": 1}});
        stage.post("/events/send", wrong.clone()).await.refused(422, "validation_error");
        other.delete(format!("/events/{strict}")).key(&stage.key).send().await;
        assert_eq!(stage.post("/events/send", wrong).await.status, 202);
    }

    async fn f16_the_same_key_has_one_effect_and_one_answer(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 day"}))]).await;
        let body = json!({"event": "user.created", "email": "a@example.com"});
        let send = async |key: &str, body: &Value| {
            stage.app.post("/events/send").key(&stage.key).header("idempotency-key", key).json(body.clone()).send().await
        };
        let at_once = futures_util::future::join_all((0..64).map(|_| send("k1", &body))).await;
        let ids: std::collections::HashSet<String> = at_once.iter().map(|answer| {
            assert_eq!(answer.status, 202, "{}", answer.text());
            answer.json()["id"].as_str().expect("an id").to_owned()
        }).collect();
        assert_eq!((ids.len(), stage.runs(&automation).await.len()), (1, 1));
        let again = send("k1", &body).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        send("k1", &json!({"event": "user.created", "email": "b@example.com"})).await.refused(409, "invalid_idempotent_request");
        send(&"k".repeat(257), &body).await.refused(400, "invalid_idempotency_key");
        assert_eq!(send(&"k".repeat(256), &body).await.status, 202);
        assert_eq!(stage.runs(&automation).await.len(), 2);
        stage.app.clock.advance(24 * HOUR);
        assert_eq!(send("k1", &body).await.header("idempotent-replayed"), None, "after a day it is another request");
        assert_eq!(stage.runs(&automation).await.len(), 3);
    }

    async fn issue_4_a_batch_happens_whole_or_not_at_all(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 day"}))]).await;
        let item = |n: usize| json!({"event": "user.created", "email": format!("u{n}@example.com")});
        let many = |count: usize| Value::from((0..count).map(item).collect::<Vec<_>>());
        let mut flawed = many(3);
        flawed[1]["payload"] = json!({"seats": "many"});
        let refused = stage.post("/events/send/batch", flawed).await;
        refused.refused(422, "validation_error");
        assert!(refused.text().contains("Event 1"), "{}", refused.text());
        for (wrong, words) in [(json!([]), "1 to 1000"), (many(1001), "1001"), (json!([1]), "Event 0"), (json!({}), "array")] {
            let refused = stage.post("/events/send/batch", wrong).await;
            assert_eq!(refused.status, 422, "{}", refused.text());
            assert!(refused.text().contains(words), "{}", refused.text());
        }
        assert_eq!(stage.app.count("occurrences").await, 0);
        let sent = stage.post("/events/send/batch", many(1000)).await;
        assert_eq!(sent.status, 202, "{}", sent.text());
        assert_eq!(sent.json()["data"].as_array().map(Vec::len), Some(1000));
        assert_eq!((stage.app.count("runs").await, stage.app.count("contacts").await), (1000, 1000));
        let first = sent.json()["data"][0]["id"].as_str().expect("an id").to_owned();
        let runs = stage.get(&format!("/occurrences/{first}")).await;
        assert_eq!(runs["runs"][0]["automation_id"], json!(automation));
    }

    async fn issue_4_a_replay_names_its_origin_and_starts_what_is_enabled_now(app: TestApp) {
        let stage = Stage::new(app).await;
        let id = stage.send("user.created", "a@example.com", json!({"plan": "pro"})).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 day"}))]).await;
        let replayed = stage.post(&format!("/occurrences/{id}/replay"), json!({})).await;
        assert_eq!((replayed.status, &replayed.json()["replay_of"]), (202, &json!(id)));
        let again = replayed.json()["id"].as_str().expect("an id").to_owned();
        let occurrence = stage.get(&format!("/occurrences/{again}")).await;
        assert_eq!((&occurrence["replay_of"], &occurrence["payload"]), (&json!(id), &json!({"plan": "pro"})));
        assert_eq!(stage.runs(&automation).await.len(), 1);
        stage.post("/contacts", json!({"email": "b@example.com"})).await;
        let born = stage.get("/events/svc:contact.created/occurrences").await["data"][0]["id"].clone();
        stage.post(&format!("/occurrences/{}/replay", born.as_str().expect("an id")), json!({})).await
            .refused(422, "validation_error");
        stage.app.delete("/contacts/a@example.com").key(&stage.key).send().await;
        stage.post(&format!("/occurrences/{id}/replay"), json!({})).await.refused(404, "not_found");
    }

    async fn issue_4_re_entry_is_each_automations_own(app: TestApp) {
        let stage = Stage::new(app).await;
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 hour"}))];
        let mut all = Vec::new();
        for re_entry in ["always", "once_per_contact", "one_at_a_time"] {
            all.push(stage.automation_with(&steps, json!({"re_entry": re_entry})).await);
        }
        for _ in 0..3 {
            stage.send("user.created", "a@example.com", json!({})).await;
        }
        let counts = async || {
            let mut counts = Vec::new();
            for automation in &all {
                counts.push(stage.runs(automation).await.len());
            }
            counts
        };
        assert_eq!(counts().await, [3, 1, 1]);
        stage.app.clock.advance(HOUR);
        stage.work().await;
        stage.send("user.created", "a@example.com", json!({})).await;
        assert_eq!(counts().await, [4, 1, 2]);
    }

    async fn issue_4_system_events_trigger_and_end_waits(app: TestApp) {
        let stage = Stage::new(app).await;
        let on = async |name: &str| stage.automation(&[("trigger", json!({"event_name": name}))]).await;
        let (created, updated, deleted) =
            (on("svc:contact.created").await, on("svc:contact.updated").await, on("svc:contact.deleted").await);
        stage.post("/contacts", json!({"email": "a@example.com", "first_name": "Ada"})).await;
        stage.app.patch("/contacts/a@example.com").key(&stage.key).json(json!({"unsubscribed": true})).send().await;
        stage.app.delete("/contacts/a@example.com").key(&stage.key).send().await;
        stage.send("user.created", "b@example.com", json!({})).await;
        stage.send("user.created", "b@example.com", json!({})).await;
        assert_eq!(stage.runs(&created).await.len(), 2, "one by the API, one by the first event");
        assert_eq!((stage.runs(&updated).await.len(), stage.runs(&deleted).await.len()), (1, 1));
        let told = stage.get("/events/svc:contact.deleted/occurrences").await;
        assert_eq!((&told["data"][0]["payload"]["first_name"], &told["data"][0]["payload"]["unsubscribed"]),
            (&json!("Ada"), &json!(true)));
        stage.work().await;
        assert_eq!(stage.run(&updated).await["status"], "completed");
        assert_eq!(stage.app.get("/events/nothing/occurrences").key(&stage.key).send().await.status, 404);
    }

    async fn timers_are_exact_and_never_early(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "90 minutes"})),
            ("contact_update", json!({"first_name": "Done"}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.app.clock.advance(90 * MINUTE - 1);
        stage.work().await;
        assert_eq!(statuses(&stage.run(&automation).await), ["completed", "waiting", "pending"]);
        stage.app.clock.advance(1);
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        stage.app.clock.set_wall(-HOUR);
        stage.work().await;
        assert_eq!(stage.get("/contacts/a@example.com").await["first_name"], "Done");
        stage.app.clock.advance(SECOND);
    }
}
