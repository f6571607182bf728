//! Segments of those who were sent a broadcast.

use posthorn::broadcasts;
use serde_json::{Value, json};

use crate::broadcasts::Stage;
use crate::harness::on_both;
use crate::segments_filling::{DAY, filling, members, rule, work};
use crate::sink::{Does, Sink};
use crate::store::Store;

/// Longer than it takes until a filling has settled.
const SETTLED: i64 = 31_000_000;

async fn segment(stage: &Stage, filter: Value) -> String {
    filling(&stage.post.app, &stage.key, filter).await
}

async fn inside(stage: &Stage, id: &str) -> Vec<String> {
    work(&stage.post.app).await;
    members(&stage.post.app, &stage.key, id).await
}

fn sent(broadcast: &str, operator: &str) -> Value {
    rule(&format!("broadcasts.{broadcast}"), operator, json!("sent"))
}

on_both! {
    async fn who_was_sent_a_broadcast_is_found_when_the_filter_is_made_later(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        stage.add("gone@example.com", json!({"unsubscribed": true})).await;
        let id = stage.send(json!({})).await;
        stage.run().await;
        stage.add("late@example.com", json!({})).await;
        let preview = stage.call("POST", "/segments/preview", json!({"filter": sent(&id, "eq")})).await;
        assert_eq!((&preview["contacts_count"], &preview["exact"]), (&json!(3), &json!(true)));
        let (got, not) = (segment(&stage, sent(&id, "eq")).await, segment(&stage, sent(&id, "neq")).await);
        for _ in 0..2 {
            assert_eq!(inside(&stage, &got).await, ["p0", "p1", "p2"]);
            assert_eq!(inside(&stage, &not).await, ["gone", "late"]);
            stage.post.app.clock.advance(SETTLED);
        }
        assert_eq!(store.count("segment_due").await, 0, "who is counted is not judged again");
        stage.call("DELETE", "/contacts/p1@example.com", json!({})).await;
        assert_eq!(inside(&stage, &got).await, ["p0", "p2"]);
        let other = stage.post.app.second_workspace_key().await;
        let theirs = json!({"name": "S", "filter": sent(&id, "eq")});
        let refused = stage.post.app.post("/segments").key(&other).json(theirs).send().await;
        assert!(refused.refused(422, "validation_error").contains("broadcast"), "{}", refused.text());
    }

    async fn who_is_sent_a_broadcast_comes_into_the_segment_that_asks_for_it(store: Store) {
        let sink = Sink::scripted(|command| match command.starts_with("RCPT TO:<p1@") {
            true => Does::Says("550 5.7.1 no"),
            false => Does::Usual,
        }).await;
        let stage = Stage::open(&store, &sink, 3).await;
        let draft = stage.call("POST", "/broadcasts", stage.fields(json!({}))).await["id"].as_str().expect("an id").to_owned();
        let got = segment(&stage, sent(&draft, "eq")).await;
        let mut lately = sent(&draft, "eq");
        lately["within"] = json!("1 day");
        let lately = segment(&stage, lately).await;
        let other = stage.send(json!({})).await;
        stage.run().await;
        assert!(inside(&stage, &got).await.is_empty(), "that was another one");
        stage.call("POST", &format!("/broadcasts/{draft}/send"), json!({})).await;
        stage.run().await;
        assert_eq!(inside(&stage, &got).await, ["p0", "p2"], "one was refused");
        assert_eq!(inside(&stage, &lately).await, ["p0", "p2"]);
        stage.post.app.clock.advance(DAY + SETTLED);
        assert_eq!(inside(&stage, &lately).await, Vec::<String>::new());
        assert_eq!(inside(&stage, &got).await, ["p0", "p2"]);
        let both = json!({"type": "and", "rules": [sent(&other, "eq"), sent(&draft, "eq")]});
        let both = segment(&stage, both).await;
        assert_eq!(inside(&stage, &both).await, ["p0", "p2"]);
    }

    async fn a_filter_that_is_made_while_a_broadcast_leaves_misses_nobody(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 40).await;
        let id = stage.send(json!({})).await;
        broadcasts::audience_round(stage.post.app.app.broadcasts()).await.expect("a round");
        stage.post.round().await;
        let began = sink.kept().len();
        assert!((1..40).contains(&began), "some have left: {began}");
        let got = segment(&stage, sent(&id, "eq")).await;
        let app = &stage.post.app;
        let mut claimed = posthorn::contacts::claim_segment(app.app.occurrences()).await.expect("a claim").expect("a segment");
        // Between what is counted and who is judged, more of them leave.
        for _ in 0..2 {
            stage.post.round().await;
            posthorn::contacts::fill_step(app.app.occurrences(), &mut claimed, false).await.expect("a step");
        }
        stage.run().await;
        app.clock.advance(20_000_001);
        assert_eq!(inside(&stage, &got).await.len(), 40);
    }
}
