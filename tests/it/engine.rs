//! Every kind of step, through the real store and a worker's rounds.

use posthorn::automations;
use posthorn::clock::{HOUR, MINUTE, SECOND};
use serde_json::{Value, json};

use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};

const SEGMENT: &str = "01890000-0000-7000-8000-0000000000f0";

pub fn step(key: &str, kind: &str, config: Value) -> Value {
    json!({"key": key, "type": kind, "config": config})
}

pub fn by(from: &str, exit: &str, to: &str) -> Value {
    json!({"from": from, "to": to, "type": exit})
}

/// A trigger, a step with two ways out, and a mark behind each of them.
pub async fn fork(stage: &Stage, kind: &str, config: Value, exits: [&str; 2]) -> String {
    let mark = |key: &str| step(key, "contact_update", json!({"first_name": key}));
    let trigger = step("start", "trigger", json!({"event_name": "user.created"}));
    let steps = json!([trigger, step("fork", kind, config), mark("yes"), mark("no")]);
    let links = json!([by("start", "default", "fork"), by("fork", exits[0], "yes"), by("fork", exits[1], "no")]);
    stage.graph(steps, links, json!({})).await
}

async fn wait(stage: &Stage, config: Value) -> String {
    fork(stage, "wait_for_event", config, ["event_received", "timeout"]).await
}

async fn first_name(stage: &Stage, email: &str) -> Value {
    stage.get(&format!("/contacts/{email}")).await["first_name"].clone()
}

fn mail() -> (&'static str, Value) {
    let name = json!({"var": "contact.first_name"});
    ("send_email", json!({"from": "us@acme.example", "subject": "Hello", "html": "<p>Hello</p>", "text": name}))
}

/// Step, recipient and text of the mails that were queued.
async fn queued(stage: &Stage) -> Vec<[Option<String>; 3]> {
    let sql = "SELECT e.step, r.address, e.text FROM emails e JOIN email_recipients r ON r.email_id = e.id
               ORDER BY r.address, e.step";
    stage.app.store.rows(sql).await.into_iter().map(|row| row.try_into().expect("three columns")).collect()
}

on_both! {
    async fn a_condition_takes_one_branch_and_shows_what_it_found(app: TestApp) {
        let stage = Stage::new(app).await;
        let rule = json!({"type": "rule", "field": "event.plan", "operator": "eq", "value": "pro"});
        let automation = fork(&stage, "condition", rule, ["condition_met", "condition_not_met"]).await;
        let cases = [
            (json!({"plan": "pro"}), "yes", json!({"met": true, "found": "pro"})),
            (json!({"plan": "free"}), "no", json!({"met": false, "found": "free"})),
            (json!({}), "no", json!({"met": false})),
        ];
        for (at, (payload, branch, shown)) in cases.iter().enumerate() {
            let email = format!("u{at}@example.com");
            stage.send("user.created", &email, payload.clone()).await;
            stage.work().await;
            assert_eq!(first_name(&stage, &email).await, json!(branch));
            let id = stage.runs(&automation).await[0]["id"].as_str().expect("an id").to_owned();
            let run = stage.get(&format!("/automations/{automation}/runs/{id}")).await;
            assert_eq!(run["status"], "completed");
            let output = &run["steps"][1]["output"];
            assert_eq!((&output["met"], output["rules"][0].get("found")), (&shown["met"], shown.get("found")));
        }
    }

    async fn decisions_6_an_event_counts_from_the_moment_the_run_started(app: TestApp) {
        let stage = Stage::new(app).await;
        let trigger = Stage::trigger();
        let automation = stage.automation(&[trigger, ("delay", json!({"duration": "1 hour"})),
            ("wait_for_event", json!({"event_name": "paid", "timeout": "1 hour"})), ("exit", json!({}))]).await;
        stage.send("paid", "early@example.com", json!({})).await;
        for email in ["early@example.com", "in.time@example.com"] {
            stage.send("user.created", email, json!({})).await;
        }
        stage.work().await;
        stage.send("paid", "in.time@example.com", json!({"total": 5})).await;
        stage.app.clock.advance(HOUR);
        stage.work().await;
        let ended: Vec<Value> = stage.runs(&automation).await.iter().map(|run| run["status"].clone()).collect();
        assert_eq!(ended, ["completed", "running"], "the newest first; an event before the start does not count");
    }

    async fn a_wait_ends_with_the_event_that_passes_or_with_its_time(app: TestApp) {
        let stage = Stage::new(app).await;
        let filter = json!({"type": "rule", "field": "event.total", "operator": "gt", "value": 10});
        wait(&stage, json!({"event_name": "paid", "timeout": "1 hour", "filter_rule": filter})).await;
        let all = ["passes", "fails", "before", "exactly", "after", "never"].map(|name| format!("{name}@example.com"));
        for email in &all {
            stage.send("user.created", email, json!({})).await;
        }
        stage.work().await;
        let pay = async |at: usize, total: u32| stage.send("paid", &all[at], json!({"total": total})).await;
        pay(0, 11).await;
        pay(1, 10).await;
        stage.work().await;
        assert_eq!(first_name(&stage, &all[0]).await, "yes");
        assert_eq!(first_name(&stage, &all[1]).await, Value::Null, "it still waits");
        stage.app.clock.advance(HOUR - 1);
        pay(2, 11).await;
        stage.app.clock.advance(1);
        pay(3, 11).await;
        stage.app.clock.advance(1);
        pay(4, 11).await;
        stage.work().await;
        for (at, branch) in [(1, "no"), (2, "yes"), (3, "yes"), (4, "no"), (5, "no")] {
            assert_eq!(first_name(&stage, &all[at]).await, branch, "{}", all[at]);
        }
    }

    async fn a_change_takes_variables_and_fails_over_those_of_the_wrong_type(app: TestApp) {
        let stage = Stage::new(app).await;
        let changes = json!({"first_name": {"var": "event.name"}, "last_name": {"var": "wait_events.paid.by"},
            "properties": {"plan": {"var": "event.plan"}, "from": {"var": "contact.email"}, "fixed": 1}});
        let automation = stage.automation(&[Stage::trigger(), ("wait_for_event", json!({"event_name": "paid"})),
            ("contact_update", changes)]).await;
        for (email, name) in [("a@example.com", json!("Ada")), ("b@example.com", json!(5))] {
            stage.send("user.created", email, json!({"plan": "pro", "name": name})).await;
            stage.work().await;
            stage.send("paid", email, json!({"by": "Lovelace"})).await;
            stage.work().await;
        }
        let contact = stage.get("/contacts/a@example.com").await;
        assert_eq!((&contact["first_name"], &contact["last_name"]), (&json!("Ada"), &json!("Lovelace")));
        assert_eq!(contact["properties"]["from"]["value"].as_str().or(contact["properties"]["from"].as_str()),
            Some("a@example.com"));
        let id = stage.runs(&automation).await[0]["id"].as_str().expect("an id").to_owned();
        let failed = stage.get(&format!("/automations/{automation}/runs/{id}")).await;
        assert_eq!((&failed["status"], statuses(&failed)), (&json!("failed"), vec!["completed", "completed", "failed"]));
        let reason = failed["steps"][2]["error"]["message"].as_str().expect("a reason");
        assert!(reason.contains("`first_name`"), "{reason}");
        assert_eq!(first_name(&stage, "b@example.com").await, Value::Null);
    }

    async fn a_deleted_contact_ends_all_its_runs(app: TestApp) {
        let stage = Stage::new(app).await;
        let sleeps = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 hour"})), mail()]).await;
        let waits = wait(&stage, json!({"event_name": "paid"})).await;
        let deletes = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 minute"})),
            ("contact_delete", json!({}))]).await;
        let listens = wait(&stage, json!({"event_name": "paid"})).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        stage.app.clock.advance(MINUTE);
        stage.work().await;
        stage.app.get("/contacts/a@example.com").key(&stage.key).send().await.refused(404, "not_found");
        assert_eq!(stage.run(&deletes).await["status"], "completed");
        for automation in [&waits, &listens] {
            let run = stage.run(automation).await;
            assert_eq!((&run["status"], &run["steps"][1]["status"]), (&json!("cancelled"), &json!("skipped")));
        }
        stage.app.clock.advance(HOUR);
        stage.work().await;
        let run = stage.run(&sleeps).await;
        assert_eq!((&run["status"], statuses(&run)), (&json!("cancelled"), vec!["completed", "completed", "skipped"]));
        stage.send("user.created", "b@example.com", json!({})).await;
        stage.work().await;
        stage.app.delete("/contacts/b@example.com").key(&stage.key).send().await;
        stage.work().await;
        assert_eq!(stage.runs(&waits).await[0]["status"], "cancelled", "also when it is deleted by hand");
        assert!(queued(&stage).await.is_empty());
    }

    async fn issue_4_a_run_that_failed_over_a_segment_goes_on_when_there_is_one(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "Ada"})),
            ("add_to_segment", json!({"segment_id": SEGMENT})), mail()]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], statuses(&run)),
            (&json!("failed"), vec!["completed", "completed", "failed", "skipped"]));
        assert_eq!(run["steps"][2]["error"]["message"], "the segment does not exist, or fills itself");
        let workspace = stage.app.workspace().await;
        let insert = format!("INSERT INTO segments (workspace_id, id, name, created_at) VALUES ({}, {}, 'S', 0)", stage.app.store.id(workspace), stage.app.store.id(SEGMENT));
        stage.app.store.run(&insert).await;
        let path = format!("/automations/{automation}/runs/{}", run["id"].as_str().expect("an id"));
        assert_eq!(stage.post(&format!("{path}/retry"), json!({})).await.status, 200);
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        let members = stage.get(&format!("/segments/{SEGMENT}/contacts")).await;
        assert_eq!(members["data"][0]["email"], "a@example.com");
        assert_eq!(stage.get("/contacts/a@example.com").await["first_name"], "Ada");
        assert_eq!(queued(&stage).await.len(), 1);
    }

    async fn decisions_6_a_step_sends_one_mail_and_none_to_who_has_unsubscribed(app: TestApp) {
        let stage = Stage::new(app).await;
        stage.post("/contacts", json!({"email": "gone@example.com", "unsubscribed": true})).await;
        let automation = stage.automation(&[Stage::trigger(), mail(), ("contact_update", json!({"first_name": "Done"})),
            mail()]).await;
        for email in ["a@example.com", "gone@example.com"] {
            stage.send("user.created", email, json!({"plan": "pro"})).await;
        }
        stage.work().await;
        stage.work().await;
        let sent = queued(&stage).await;
        let expected = [["s1", "a@example.com", ""], ["s3", "a@example.com", "Done"]];
        let expected = expected.map(|row| row.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty())));
        assert_eq!(sent, expected, "each sees what the steps before it did");
        let path = format!("/automations/{automation}/runs/{}", stage.runs(&automation).await[0]["id"].as_str().expect("an id"));
        let skipped = stage.get(&path).await;
        assert_eq!((&skipped["status"], statuses(&skipped)),
            (&json!("completed"), vec!["completed", "skipped", "completed", "skipped"]));
    }

    async fn an_exit_completes_a_run_and_an_exit_event_cancels_it_anywhere(app: TestApp) {
        let stage = Stage::new(app).await;
        let exits = stage.automation(&[Stage::trigger(), ("exit", json!({}))]).await;
        let more = json!({"exit_on": "cancelled"});
        let sleeps = [Stage::trigger(), ("delay", json!({"duration": "1 hour"})), mail()];
        let sleeps = stage.automation_with(&sleeps, more.clone()).await;
        let waits = [Stage::trigger(), ("wait_for_event", json!({"event_name": "paid"})), mail()];
        let waits = stage.automation_with(&waits, more).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.send("user.created", "other@example.com", json!({})).await;
        stage.work().await;
        stage.send("cancelled", "a@example.com", json!({})).await;
        stage.work().await;
        assert_eq!(stage.runs(&exits).await[0]["status"], "completed");
        for automation in [&sleeps, &waits] {
            let runs = stage.runs(automation).await;
            assert_eq!((&runs[0]["status"], &runs[1]["status"]), (&json!("running"), &json!("cancelled")));
        }
        stage.app.clock.advance(HOUR);
        stage.work().await;
        let sent = queued(&stage).await;
        assert_eq!((sent.len(), sent[0][1].as_deref()), (1, Some("other@example.com")));
    }

    async fn decisions_6_a_run_keeps_the_graph_it_started_with(app: TestApp) {
        let stage = Stage::new(app).await;
        let mark = |name: &str| ("contact_update", json!({"first_name": name}));
        let delay = ("delay", json!({"duration": "1 hour"}));
        let automation = stage.automation(&[Stage::trigger(), delay, mark("old")]).await;
        stage.send("user.created", "old@example.com", json!({})).await;
        let trigger = step("s0", "trigger", json!({"event_name": "user.created"}));
        let steps = json!([trigger, step("s2", "contact_update", json!({"first_name": "new"}))]);
        let edit = json!({"steps": steps, "connections": [by("s0", "default", "s2")]});
        let edited = stage.app.patch(format!("/automations/{automation}")).key(&stage.key).json(edit).send().await;
        assert_eq!(edited.status, 200, "{}", edited.text());
        stage.send("user.created", "new@example.com", json!({})).await;
        stage.app.clock.advance(HOUR);
        stage.work().await;
        for name in ["old", "new"] {
            assert_eq!(first_name(&stage, &format!("{name}@example.com")).await, name);
        }
    }

    async fn a_step_cannot_give_a_property_another_type_than_was_declared(app: TestApp) {
        let stage = Stage::new(app).await;
        stage.post("/contact-properties", json!({"key": "seats", "type": "number"})).await;
        let update = ("contact_update", json!({"properties": {"seats": {"var": "event.plan"}}}));
        let automation = stage.automation(&[Stage::trigger(), update]).await;
        stage.send("user.created", "a@example.com", json!({"plan": "pro"})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!(run["status"], "failed");
        let reason = run["steps"][1]["error"]["message"].as_str().expect("a reason").to_owned();
        assert!(reason.contains("`seats` is declared as a number"), "{reason}");
        assert_eq!(stage.get("/contacts/a@example.com").await["properties"], json!({}));
    }

    async fn the_runs_of_a_deleted_automation_end_and_go(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 hour"})), mail()]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.app.delete(format!("/automations/{automation}")).key(&stage.key).send().await;
        automations::sweep_deleted(&stage.app.app).await.expect("a sweep");
        assert_eq!(stage.app.count("automations").await, 1, "a commit under way may still start a run");
        stage.app.clock.advance(HOUR);
        stage.work().await;
        assert_eq!(stage.app.store.value("SELECT status FROM runs").await.as_deref(), Some("cancelled"));
        assert!(queued(&stage).await.is_empty());
        let message = "INSERT INTO outbox (id, workspace_id, run_id, step, contact_id, recipient, message, created_at)
                       SELECT id, workspace_id, id, 'mail', contact_id, 'a@example.com', '{}', 0 FROM runs";
        stage.app.store.run(message).await;
        assert_eq!(stage.app.count("outbox").await, 1, "as a step leaves it that waits for its template");
        automations::sweep_deleted(&stage.app.app).await.expect("a sweep");
        for table in ["runs", "automations", "automation_versions", "outbox"] {
            assert_eq!(stage.app.count(table).await, 0, "{table}");
        }
        stage.app.clock.advance(SECOND);
        stage.work().await;
    }
}
