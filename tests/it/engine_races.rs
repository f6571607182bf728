//! Workers that get in each other's way, and events that come at the last moment.

use futures_util::future::join_all;
use posthorn::automations::{self, Engine, LEASE, Run};
use posthorn::clock::{MINUTE, SECOND};
use posthorn::db::DbError;
use serde_json::{Value, json};

use crate::engine::fork;
use crate::harness::{TestApp, on_both};
use crate::sending::Stage;

/// Everything that a step did or a run became.
async fn all(stage: &Stage) -> Vec<Vec<Vec<Option<String>>>> {
    let mut all = Vec::new();
    for sql in [
        "SELECT id, status, state, waiting_for, due_at, attempt, settled, completed_at FROM runs ORDER BY id",
        "SELECT id, run_id, step, text FROM emails ORDER BY id",
        "SELECT email_id, number, address, state, due_at FROM email_recipients ORDER BY email_id",
        "SELECT id, first_name, sequence FROM contacts ORDER BY id",
    ] {
        all.push(stage.app.store.rows(sql).await);
    }
    all
}

async fn mailing(stage: &Stage) -> String {
    stage
        .automation(&[
            Stage::trigger(),
            ("contact_update", json!({"first_name": "Once"})),
            ("send_email", json!({"from": "us@acme.example", "subject": "Welcome", "text": "Hello"})),
        ])
        .await
}

fn batch(event: &str, from: usize, count: usize) -> Value {
    let one = |at: usize| json!({"event": event, "email": format!("u{at:05}@example.com")});
    (from..from + count).map(one).collect()
}

async fn send(stage: &Stage, event: &str, from: usize, count: usize) {
    let sent = stage.post("/events/send/batch", batch(event, from, count)).await;
    assert_eq!(sent.status, 202, "{}", sent.text());
}

on_both! {
    async fn f9_two_processes_on_one_store_do_nothing_twice(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let stage = Stage::new(app).await;
        let automation = mailing(&stage).await;
        send(&stage, "user.created", 0, 300).await;
        let engines = [&stage.app, &other]
            .map(|process| Engine::new(process.app.occurrences().clone(), process.app.domains().clone(), process.app.templates().clone()));
        loop {
            // Three rounds of each at the same time, as several workers would.
            let rounds = join_all(engines.iter().flat_map(|engine| (0..3).map(|_| engine.round()))).await;
            if rounds.into_iter().all(|round| round.expect("a round") == 0) {
                break;
            }
        }
        let one = async |sql: &str| stage.app.store.value(sql).await.and_then(|text| text.parse::<i64>().ok());
        assert_eq!(one("SELECT COUNT(*) FROM runs WHERE status = 'completed'").await, Some(300));
        assert_eq!(one("SELECT COUNT(*) FROM emails").await, Some(300));
        assert_eq!(one("SELECT COUNT(DISTINCT address) FROM email_recipients").await, Some(300));
        // Made by its event with the second number of its sequence, changed once.
        assert_eq!(one("SELECT COUNT(*) FROM contacts WHERE sequence = 3 AND first_name = 'Once'").await, Some(300));
        assert_eq!(one("SELECT COUNT(*) FROM runs WHERE attempt <> 1").await, Some(0), "nobody claimed it twice");
        assert_eq!(stage.runs(&automation).await[0]["status"], "completed");
    }

    async fn f10_a_worker_that_overslept_its_lease_changes_nothing(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let stage = Stage::new(app).await;
        let automation = mailing(&stage).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        let claimed = stage.engine.claim().await.expect("a claim");
        assert_eq!(claimed.len(), 1);
        let second = Engine::new(other.app.occurrences().clone(), other.app.domains().clone(), other.app.templates().clone());
        other.clock.advance(LEASE - 1);
        assert_eq!(second.round().await.expect("a round"), 0, "it is another's until the lease is over");
        other.clock.advance(1);
        assert_eq!(second.round().await.expect("a round"), 1);
        assert_eq!(stage.run(&automation).await["status"], "completed");
        let before = all(&stage).await;
        // It wakes up: once before it has looked, once with its commit in its hands.
        stage.engine.take_turn(&claimed[0]).await;
        assert_eq!(all(&stage).await, before);
        let late = Run::lost(claimed[0].id);
        let (now, steady) = (other.clock.now(), other.clock.steady());
        let settle = automations::settle_run(&claimed[0], &late, automations::Ahead::default(), now, steady);
        let refused = stage.app.app.db.commit(settle).await;
        assert!(matches!(refused, Err(DbError::Unexpected { .. })), "{refused:?}");
        assert_eq!(all(&stage).await, before);
    }

    async fn a_cancellation_does_not_undo_what_was_settled_meanwhile(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = mailing(&stage).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        let claimed = stage.engine.claim().await.expect("a claim");
        // Somebody reads the run, the worker settles it, and only then he cancels.
        let seen = automations::Fence { attempt: claimed[0].attempt, settled: claimed[0].settled };
        stage.engine.take_turn(&claimed[0]).await;
        let cancel = automations::cancel_run(automation.parse().expect("an id"), claimed[0].id, seen, &claimed[0].state, 0);
        let refused = stage.app.app.db.commit(cancel).await;
        assert!(matches!(refused, Err(DbError::Unexpected { .. })), "{refused:?}");
        assert_eq!(stage.run(&automation).await["status"], "completed");
    }

    async fn a_worker_that_takes_others_down_with_it_is_given_up(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "X"}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        // Every worker dies with its claim.
        for _ in 0..50 {
            assert_eq!(stage.engine.claim().await.expect("a claim").len(), 1);
            stage.app.clock.advance(LEASE);
        }
        stage.work().await;
        let run = stage.run(&automation).await;
        let reason = run["steps"][1]["error"]["message"].as_str().expect("a reason");
        assert!(reason.contains("tried too often"), "{reason}");
        assert_eq!(run["status"], "failed");
    }

    /// Ten batches of payments from five milliseconds before the deadline to
    /// four after it, while a worker works. Those of the last moment are in a
    /// race, and end one way or the other.
    async fn f14_an_event_and_the_timeout_are_decided_once(app: TestApp) {
        let size = if app.store.is_sqlite() { 1_000 } else { 150 };
        let stage = Stage::new(app).await;
        fork(&stage, "wait_for_event", json!({"event_name": "paid", "timeout": "10 minutes"}),
            ["event_received", "timeout"]).await;
        for number in 0..10 {
            send(&stage, "user.created", number * size, size).await;
        }
        stage.work().await;
        stage.app.clock.advance(10 * MINUTE - 5 * SECOND / 1000);
        for number in 0..10 {
            let rounds = async {
                for _ in 0..3 {
                    stage.engine.round().await.expect("a round");
                }
            };
            tokio::join!(send(&stage, "paid", number * size, size), rounds);
            stage.app.clock.advance(SECOND / 1000);
        }
        stage.work().await;
        let count = async |sql: String| stage.app.store.value(&sql).await.and_then(|text| text.parse::<usize>().ok());
        assert_eq!(count("SELECT COUNT(*) FROM runs WHERE status = 'completed'".into()).await, Some(10 * size));
        // Made with the second number of its sequence; paid; marked by one branch and by no other.
        assert_eq!(count("SELECT COUNT(*) FROM contacts WHERE sequence = 4".into()).await, Some(10 * size));
        for (number, branch) in [(0, "yes"), (1, "yes"), (2, "yes"), (3, "yes"), (4, "yes"), (6, "no"), (7, "no"), (8, "no"), (9, "no")] {
            let email = |at: usize| format!("u{at:05}@example.com");
            let sql = format!("SELECT COUNT(*) FROM contacts WHERE first_name = '{branch}' AND email_key BETWEEN '{}' AND '{}'",
                email(number * size), email(number * size + size - 1));
            assert_eq!(count(sql).await, Some(size), "batch {number}");
        }
    }
}
