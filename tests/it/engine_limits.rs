//! What one event, one contact or one graph may cost.

use serde_json::{Value, json};

use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::store::Store;

/// A payload in which every way fits the start of a path, and none leads to its end.
fn bush(depth: usize) -> Value {
    match depth {
        0 => json!(1),
        _ => json!({"a": bush(depth - 1), "a.a": bush(depth - 1), "a.a.a": bush(depth - 1)}),
    }
}

fn any_of(count: usize, rule: Value) -> (&'static str, Value) {
    ("condition", json!({"type": "or", "rules": vec![rule; count]}))
}

/// Lets the store note how often a claim is renewed: nothing came of it yet.
async fn note_renewals(stage: &Stage) {
    stage.app.store.run("CREATE TABLE renewals (due_at BIGINT)").await;
    let trigger = "CREATE TRIGGER note AFTER UPDATE OF due_at ON runs";
    let renewed = "WHEN (NEW.attempt = OLD.attempt AND NEW.settled = OLD.settled)";
    let note = "INSERT INTO renewals VALUES (NEW.due_at);";
    let sqlite = format!("{trigger} {renewed} BEGIN {note} END");
    let postgres = format!(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {note} RETURN NULL; END $$;
         {trigger} FOR EACH ROW {renewed} EXECUTE FUNCTION note()"
    );
    stage.app.store.run_either(&sqlite, &postgres).await;
}

async fn attempts(stage: &Stage) -> i64 {
    let found = stage.app.store.value("SELECT MAX(attempt) FROM runs").await;
    found.expect("a run").parse().expect("a number")
}

on_both! {
    /// It took minutes, during which the process accepted nobody.
    async fn one_event_cannot_hold_up_the_engine(app: TestApp) {
        let stage = Stage::new(app).await;
        let path = format!("event.{}", vec!["a"; 38].join("."));
        let rule = json!({"type": "rule", "field": path, "operator": "exists"});
        let connections = |steps: usize| -> Vec<Value> {
            (0..steps).map(|at| json!({"from": format!("s{at}"), "to": format!("s{}", at + 1),
                "type": if at == 0 { "default" } else { "condition_not_met" }})).collect()
        };
        let mut steps = vec![json!({"key": "s0", "type": "trigger", "config": {"event_name": "user.created"}})];
        steps.extend((1..150).map(|at| {
            let (kind, config) = any_of(30, rule.clone());
            json!({"key": format!("s{at}"), "type": kind, "config": config})
        }));
        let automation = stage.graph(json!(steps), json!(connections(149)), json!({})).await;
        stage.send("user.created", "a@example.com", bush(7)).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!(run["status"], "completed");
        assert!(attempts(&stage).await > 1, "in more than one turn");
        assert!(run.to_string().len() < 4 << 20, "the history has a bound");
    }

    async fn a_step_that_would_cost_too_much_fails_its_run_and_says_why(app: TestApp) {
        let stage = Stage::new(app).await;
        let rule = json!({"type": "rule", "field": "event.text", "operator": "contains", "value": "b"});
        let automation = stage.automation(&[Stage::trigger(), any_of(99, rule)]).await;
        stage.send("user.created", "a@example.com", json!({"text": "a".repeat(200 << 10)})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], statuses(&run)), (&json!("failed"), vec!["completed", "failed"]));
        let reason = run["steps"][1]["error"]["message"].as_str().expect("a reason");
        assert!(reason.contains("4 MiB"), "{reason}");
    }

    /// There are four places for those that hold much; small ones need none, and write nothing for it.
    async fn a_turn_that_waits_for_a_place_keeps_its_claim(app: TestApp) {
        let stage = Stage::new(app).await;
        note_renewals(&stage).await;
        stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "Done"}))]).await;
        let done = "SELECT COUNT(*) FROM runs WHERE status = 'completed' AND attempt = 1";
        for (round, bytes) in [(1, 1 << 10), (2, 40 << 10)] {
            assert_eq!(stage.app.count("renewals").await, 0);
            for at in 0..24 {
                stage.send("user.created", &format!("u{at}@example.com"), json!({"text": "a".repeat(bytes)})).await;
            }
            stage.work().await;
            assert_eq!(stage.app.store.value(done).await, Some((24 * round).to_string()));
        }
        assert!(stage.app.count("renewals").await > 0, "a call that one has made must not be made again");
    }

    async fn a_wait_hears_a_long_history_in_parts(app: TestApp) {
        let stage = Stage::new(app).await;
        stage.app.event(&stage.key, json!({"name": "ping"})).await;
        let filter = json!({"type": "rule", "field": "event.n", "operator": "eq", "value": 1399});
        let wait = ("wait_for_event", json!({"event_name": "ping", "filter_rule": filter, "timeout": "1 hour"}));
        let steps = [Stage::trigger(), wait, ("contact_update", json!({"first_name": "Heard"}))];
        let automation = stage.automation_with(&steps, json!({"exit_on": "left"})).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        for half in 0..2 {
            let events: Vec<Value> = (700 * half..700 * (half + 1))
                .map(|n| json!({"event": "ping", "email": "a@example.com", "payload": {"n": n}})).collect();
            assert_eq!(stage.post("/events/send/batch", json!(events)).await.status, 202);
        }
        let before = attempts(&stage).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], statuses(&run)), (&json!("completed"), vec!["completed"; 3]), "{run}");
        assert!(attempts(&stage).await - before >= 3, "1,400 occurrences are more than two turns hear");
        assert_eq!(stage.get("/contacts/a@example.com").await["first_name"], "Heard");
    }

    /// The end is behind more than one turn hears, and decides all the same.
    async fn the_event_that_ends_a_run_is_heard_behind_a_long_history(app: TestApp) {
        let stage = Stage::new(app).await;
        stage.app.event(&stage.key, json!({"name": "ping"})).await;
        let wait = ("wait_for_event", json!({"event_name": "ping"}));
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 hour"})), wait,
            ("contact_update", json!({"first_name": "Heard"}))];
        let automation = stage.automation_with(&steps, json!({"exit_on": "left"})).await;
        stage.app.event(&stage.key, json!({"name": "left"})).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        let pings: Vec<Value> = (0..800).map(|_| json!({"event": "ping", "email": "a@example.com"})).collect();
        assert_eq!(stage.post("/events/send/batch", json!(pings)).await.status, 202);
        stage.send("left", "a@example.com", json!({})).await;
        stage.app.clock.advance(3600 * posthorn::clock::SECOND);
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "cancelled");
        assert_eq!(stage.get("/contacts/a@example.com").await["first_name"], Value::Null);
    }

    /// Whoever sends the event again from the webhook it leads to.
    async fn a_loop_is_stopped_and_told_of(store: Store) {
        let stage = Stage::new(TestApp::open(&store, &["--contact-run-limit=5"]).await).await;
        let calling = stage.automation(&[Stage::trigger(), ("webhook", json!({"url": "http://127.0.0.1:9/"}))]).await;
        let quiet = stage.automation(&[Stage::trigger(), ("exit", json!({}))]).await;
        for _ in 0..8 {
            stage.send("user.created", "a@example.com", json!({})).await;
        }
        stage.send("user.created", "b@example.com", json!({})).await;
        assert_eq!(stage.runs(&quiet).await.len(), 9, "what calls nobody cannot loop");
        let runs = stage.runs(&calling).await;
        let failed: Vec<&Value> = runs.iter().filter(|run| run["status"] == "failed").collect();
        assert_eq!((runs.len(), failed.len()), (7, 1), "five and the one that tells, and somebody else's");
        let path = format!("/automations/{calling}/runs/{}", failed[0]["id"].as_str().expect("an id"));
        let told = stage.get(&path).await["steps"][0]["error"]["message"].as_str().expect("a reason").to_owned();
        assert!(told.contains("loop"), "{told}");
        assert_eq!(stage.post(&format!("{path}/retry"), json!({})).await.status, 200, "a person may know better");
        stage.app.clock.advance(61 * posthorn::clock::SECOND);
        stage.send("user.created", "a@example.com", json!({})).await;
        assert_eq!(stage.runs(&calling).await.len(), 8, "it is a fuse, not a ban");
    }
}
