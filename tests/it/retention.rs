//! What is kept, and for how long.

use std::sync::Arc;

use posthorn::clock::DAY;
use posthorn::delivery::Engine;
use posthorn::upkeep;
use serde_json::{Value, json};

use crate::harness::{TestApp, on_both};
use crate::sending::Stage;
use crate::store::Store;

async fn occurrences(stage: &Stage) -> Vec<Option<String>> {
    let rows = stage.app.store.rows("SELECT name FROM occurrences WHERE name NOT LIKE 'svc:%' ORDER BY id").await;
    rows.into_iter().map(|mut row| row.remove(0)).collect()
}

fn delay(days: i64) -> (&'static str, Value) {
    ("delay", json!({"duration": format!("{days} days")}))
}

on_both! {
    async fn issue_14_occurrences_go_when_their_time_is_over_unless_a_run_may_need_them(store: Store) {
        let stage = Stage::new(TestApp::open(&store, &["--occurrence-retention=10"]).await).await;
        stage.automation(&[Stage::trigger(), delay(30)]).await;
        stage.send("other", "ended@example.com", json!({})).await;
        stage.send("user.created", "waits@example.com", json!({"plan": "pro"})).await;
        stage.send("other", "waits@example.com", json!({})).await;
        stage.work().await;
        stage.app.clock.advance(11 * DAY);
        stage.send("fresh", "ended@example.com", json!({})).await;
        assert_eq!(occurrences(&stage).await.len(), 4);
        upkeep::round(&stage.app.app).await.expect("upkeep");
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(occurrences(&stage).await, [named("user.created"), named("other"), named("fresh")]);
        stage.app.clock.advance(20 * DAY);
        stage.work().await;
        upkeep::round(&stage.app.app).await.expect("upkeep");
        assert!(occurrences(&stage).await.is_empty(), "the run has ended");
    }

    async fn issue_14_runs_go_some_days_after_they_ended_and_never_before(store: Store) {
        let stage = Stage::new(TestApp::open(&store, &["--run-retention=10"]).await).await;
        let automation = stage.automation(&[Stage::trigger(), delay(20)]).await;
        let once = stage.automation_with(&[Stage::trigger()], json!({"re_entry": "once_per_contact"})).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        let sweep = async || {
            stage.work().await;
            upkeep::round(&stage.app.app).await.expect("upkeep");
            (stage.runs(&automation).await.len(), stage.runs(&once).await.len())
        };
        stage.app.clock.advance(15 * DAY);
        assert_eq!(sweep().await, (1, 1), "one is under way, the other says that the contact has had its run");
        stage.app.clock.advance(6 * DAY);
        assert_eq!(sweep().await, (1, 1), "it has just ended");
        stage.app.clock.advance(11 * DAY);
        assert_eq!(sweep().await, (0, 1));
        stage.send("user.created", "a@example.com", json!({})).await;
        assert_eq!(stage.runs(&once).await.len(), 1, "once is once");
    }

    async fn issue_14_however_much_there_is_goes_page_by_page_and_what_is_fresh_stays(store: Store) {
        // More than any of them takes at once.
        const MANY: usize = 510;
        let kept = ["occurrence", "run", "request-log", "mail"].map(|what| format!("--{what}-retention=10"));
        let settings: Vec<&str> = kept.iter().map(String::as_str).chain(["--request-log=all", "--senders=any"]).collect();
        let stage = Stage::new(TestApp::open(&store, &settings).await).await;
        let automation = stage.automation(&[Stage::trigger()]).await;
        let (told, domains) = (stage.app.app.occurrences().clone(), stage.app.app.domains().clone());
        let engine = Arc::new(Engine::new(told, domains).expect("an engine"));
        let happen = async |count: usize| {
            for number in 0..count {
                stage.send("user.created", &format!("a{number}@example.com"), json!({})).await;
                stage.app.app.request_log().write(&stage.app.app).await.expect("written");
            }
            stage.work().await;
            let mail = json!({"from": "a@b.example", "to": "c@posthorn.test", "subject": "S", "text": "T"});
            for mails in vec![mail; count].chunks(100) {
                assert_eq!(stage.post("/emails/batch", json!(mails)).await.status, 200);
            }
            while engine.round().await.expect("a round") > 0 {}
        };
        let counts = async || {
            let count = async |sql: &str| store.value(sql).await.and_then(|count| count.parse::<usize>().ok()).expect("a number");
            [
                occurrences(&stage).await.len(),
                count("SELECT COUNT(*) FROM runs").await,
                count("SELECT COUNT(*) FROM request_log WHERE endpoint = '/events/send'").await,
                count("SELECT COUNT(*) FROM emails WHERE size IS NOT NULL").await,
            ]
        };
        happen(MANY).await;
        stage.app.clock.advance(11 * DAY);
        happen(2).await;
        assert_eq!(counts().await, [MANY + 2; 4]);
        upkeep::round(&stage.app.app).await.expect("upkeep");
        assert_eq!(counts().await, [2; 4]);
        assert_eq!(stage.runs(&automation).await.len(), 2);
        assert_eq!(store.count("emails").await, MANY as i64 + 2, "of a mail only the contents go");
    }

    async fn issue_14_by_default_what_happened_is_kept_for_good(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger()]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        stage.app.clock.advance(3000 * DAY);
        upkeep::round(&stage.app.app).await.expect("upkeep");
        assert_eq!((occurrences(&stage).await.len(), stage.runs(&automation).await.len()), (1, 1));
    }
}
