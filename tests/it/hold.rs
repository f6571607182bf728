//! The hold: what waits in the store is left alone until somebody says otherwise.

use posthorn::clock::HOUR;
use posthorn::contacts;
use posthorn::db::DbError;
use posthorn::hold;
use serde_json::json;
use uuid::Uuid;

use crate::automation_pages::{owner, page};
use crate::cli::run;
use crate::harness::{TestApp, on_both};
use crate::sending::Stage;
use crate::store::Store;

on_both! {
    async fn decisions_7_on_hold_events_are_taken_and_no_timer_fires_until_told(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 hour"})),
            ("contact_update", json!({"first_name": "late"}))]).await;
        stage.send("user.created", "before@example.com", json!({})).await;
        stage.work().await;
        let db = &stage.app.app.db;
        db.commit(hold::set(&stage.app.clock, "a test")).await.expect("a hold");
        stage.send("user.created", "during@example.com", json!({})).await;
        stage.app.clock.advance(2 * HOUR);
        for _ in 0..3 {
            assert!(matches!(stage.engine.round().await, Err(DbError::Stale)));
        }
        let runs = stage.runs(&automation).await;
        assert!(runs.len() == 2 && runs.iter().all(|run| run["status"] == "running"), "{runs:?}");

        db.commit(hold::release()).await.expect("no hold");
        stage.work().await;
        stage.app.clock.advance(2 * HOUR);
        stage.work().await;
        let runs = stage.runs(&automation).await;
        assert!(runs.len() == 2 && runs.iter().all(|run| run["status"] == "completed"), "{runs:?}");
    }

    async fn on_hold_a_claim_that_was_made_before_is_finished(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "Ada"}))]).await;
        stage.send("user.created", "ada@example.com", json!({})).await;
        let claimed = stage.engine.claim().await.expect("a claim");
        stage.app.app.db.commit(hold::set(&stage.app.clock, "a test")).await.expect("a hold");
        for one in &claimed {
            stage.engine.take_turn(one).await;
        }
        assert_eq!(stage.run(&automation).await["status"], "completed");
    }

    async fn on_hold_imports_wait(app: TestApp) {
        let key = app.full_key().await;
        let form = "--e\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\nemail\na@b.example\n\r\n--e--\r\n";
        let made = app.post("/contacts/imports").key(&key).body("multipart/form-data; boundary=e", form).send().await;
        assert!((200..300).contains(&made.status), "{}", made.text());
        app.app.db.commit(hold::set(&app.clock, "a test")).await.expect("a hold");
        assert!(matches!(contacts::import_round(app.app.occurrences(), &mut Uuid::nil().into()).await, Err(DbError::Stale)));
        assert_eq!(app.count("contacts").await, 0);
        app.app.db.commit(hold::release()).await.expect("no hold");
        assert!(contacts::import_round(app.app.occurrences(), &mut Uuid::nil().into()).await.expect("a round"));
        assert_eq!(app.count("contacts").await, 1);
    }

    async fn a_hold_is_told_by_readiness_and_on_every_page(app: TestApp) {
        let cookie = owner(&app).await;
        assert_eq!(app.get("/readyz").send().await.json().get("held_since"), None);
        assert!(!page(&app, &cookie, "/").await.contains("On hold"));
        app.app.db.commit(hold::set(&app.clock, "<b>moving</b>")).await.expect("a hold");
        assert_eq!(app.get("/readyz").send().await.json()["held_since"], "2026-01-02T03:04:05.678901Z");
        for path in ["/", "/contacts", "/emails"] {
            let shown = page(&app, &cookie, path).await;
            assert!(shown.contains("On hold since 2026-01-02") && shown.contains("posthorn resume"), "{shown}");
            assert!(shown.contains("moving") && !shown.contains("<b>moving"));
        }
    }

    async fn hold_and_resume_are_commands(store: Store) {
        let said = run(&store, &["hold", "--reason", "moving house"], "").ok();
        assert!(said.contains("moving house") && said.contains("posthorn resume"), "{said}");
        let first = store.value("SELECT since FROM holds").await.expect("a time");
        let again = run(&store, &["hold", "--json"], "").json();
        assert_eq!(again["reason"], "by an operator");
        assert_eq!(store.value("SELECT since FROM holds").await, Some(first), "it lasts since then");
        assert!(run(&store, &["resume"], "").ok().contains("goes on"));
        assert_eq!(store.count("holds").await, 0);
        assert!(run(&store, &["resume"], "").ok().contains("was not on hold"));
        let complaint = run(&store, &["hold", "--reason", ""], "").failed();
        assert!(complaint.contains("--reason") && complaint.contains("allowed"), "{complaint}");
    }
}
