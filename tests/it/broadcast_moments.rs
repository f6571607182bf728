//! People stop wanting a broadcast, or leave its segment, at each moment of its way; and a segment is not what it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthorn::clock::{HOUR, SECOND};
use serde_json::json;

use crate::broadcasts::{Stage, addresses};
use crate::harness::on_both;
use crate::segments_filling::{filling, rule, work};
use crate::sink::{Does, Sink};
use crate::store::Store;

/// What happens to whom, by number.
const UNSUBSCRIBES: usize = 0;
const IS_SUPPRESSED: usize = 1;
const IS_DELETED: usize = 2;
const LEAVES: usize = 3;
const STAYS: usize = 4;

/// Lets it happen to somebody.
async fn happen(stage: &Stage, what: usize, email: &str) {
    match what {
        UNSUBSCRIBES => drop(stage.call("PATCH", &format!("/contacts/{email}"), json!({"unsubscribed": true})).await),
        IS_SUPPRESSED => drop(stage.call("POST", "/suppressions", json!({"email": email})).await),
        IS_DELETED => drop(stage.call("DELETE", &format!("/contacts/{email}"), json!({})).await),
        LEAVES => {
            let path = format!("/contacts/{email}/segments/{}", stage.segment);
            stage.call("DELETE", &path, json!({})).await;
        }
        _ => {}
    }
}

/// All of it, each to one of them.
async fn happen_to_all(stage: &Stage, name: &str) {
    for what in 0..=STAYS {
        happen(stage, what, &format!("{name}{what}@example.com")).await;
    }
}

fn of(name: &str, who: &[usize]) -> Vec<String> {
    who.iter().map(|what| format!("{name}{what}@example.com")).collect()
}

/// One who takes a while to take a mail, once it is told to.
async fn slow_sink() -> (Sink, Arc<AtomicBool>) {
    let is_slow = Arc::new(AtomicBool::new(false));
    let sees = is_slow.clone();
    let sink = Sink::scripted(move |command| match command == "." && sees.load(Ordering::SeqCst) {
        true => Does::UsualAfter(Duration::from_millis(400)),
        false => Does::Usual,
    });
    (sink.await, is_slow)
}

on_both! {
    async fn while_it_is_scheduled(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, STAYS + 1).await;
        let id = stage.send(json!({"scheduled_at": "in 1 hour"})).await;
        stage.run().await;
        happen_to_all(&stage, "p").await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        assert_eq!((stage.read(&id).await["state"].clone(), addresses(&sink)), (json!("sent"), of("p", &[STAYS])));
    }

    /// How far the audience is stands in the store: what comes behind it is the next page.
    async fn between_two_pages_of_the_audience(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        for what in 0..=STAYS {
            stage.add(&format!("q{what}@example.com"), json!({})).await;
        }
        store.run("UPDATE broadcasts SET is_audience_whole = FALSE").await;
        happen_to_all(&stage, "q").await;
        stage.run().await;
        stage.run().await;
        let mut got = of("p", &[0]);
        got.extend(of("q", &[STAYS]));
        assert_eq!((stage.read(&id).await["state"].clone(), addresses(&sink)), (json!("sent"), got));
        let left_out = stage.read(&id).await["progress"]["left_out"].clone();
        assert_eq!(left_out, json!({"suppressed": 1, "unsubscribed": 1}), "the others are not there any more");
    }

    async fn after_all_are_queued(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, STAYS + 1).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        happen_to_all(&stage, "p").await;
        stage.run().await;
        assert_eq!(addresses(&sink), of("p", &[LEAVES, STAYS]), "who left was in it when it was taken");
        assert_eq!(stage.read(&id).await["progress"]["counts"]["suppressed"], 3);
    }

    async fn while_it_is_in_hand(store: Store) {
        let (sink, is_slow) = slow_sink().await;
        let people = 100;
        let stage = Stage::open(&store, &sink, people).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        // More than one is at hand for each dialogue of a site that takes mail.
        stage.post.round().await;
        let (before, engine) = (addresses(&sink).len(), stage.post.engine.clone());
        is_slow.store(true, Ordering::SeqCst);
        let round = tokio::spawn(async move { engine.round().await });
        tokio::time::sleep(Duration::from_millis(150)).await;
        for number in 0..people {
            happen(&stage, number % (STAYS + 1), &format!("p{number}@example.com")).await;
        }
        stage.post.app.clock.advance(SECOND);
        let claimed = round.await.expect("no panic").expect("a round");
        let out = addresses(&sink).len() - before;
        assert!(out < claimed, "{out} of {claimed} left, as if nothing had happened");
        let counts = stage.read(&id).await["progress"]["counts"].clone();
        let kept_back = counts["suppressed"].as_u64().unwrap_or(0) as usize;
        assert_eq!(kept_back + out, claimed, "whoever was in hand got it or did not want it: {counts}");
        is_slow.store(false, Ordering::SeqCst);
        while stage.post.round().await > 0 {}
        let got = addresses(&sink);
        for number in (0..people).filter(|number| number % (STAYS + 1) >= LEAVES) {
            assert!(got.contains(&format!("p{number}@example.com")), "p{number} still wants it");
        }
    }

    async fn between_two_attempts(store: Store) {
        let is_busy = Arc::new(AtomicBool::new(true));
        let sees = is_busy.clone();
        let sink = Sink::scripted(move |command| match command.starts_with("RCPT") && sees.load(Ordering::SeqCst) {
            true => Does::Says("451 later"),
            false => Does::Usual,
        }).await;
        let stage = Stage::open(&store, &sink, STAYS + 1).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.post.round().await;
        happen_to_all(&stage, "p").await;
        is_busy.store(false, Ordering::SeqCst);
        stage.post.app.clock.advance(HOUR);
        while stage.post.round().await > 0 {}
        assert_eq!(addresses(&sink), of("p", &[LEAVES, STAYS]));
        assert_eq!(stage.read(&id).await["progress"]["counts"]["suppressed"], 3);
    }

    async fn a_segment_that_is_still_being_filled_is_waited_for(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        stage.add("late@example.com", json!({"first_name": "Ada"})).await;
        let segment = filling(&stage.post.app, &stage.key, rule("contact.first_name", "neq", json!("Ada"))).await;
        let id = stage.send(json!({"segment_id": segment})).await;
        stage.take().await;
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], sink.kept().len()), (&json!("preparing"), 0));
        assert!(read["reason"].as_str().is_some_and(|reason| reason.contains("waits for its segment")), "{read}");
        work(&stage.post.app).await;
        stage.run().await;
        let read = stage.read(&id).await;
        assert_eq!(addresses(&sink), of("p", &[0, 1, 2]));
        assert_eq!((&read["state"], &read["reason"]), (&json!("sent"), &json!(null)));
    }

    async fn who_ceases_to_fit_the_rules_of_a_scheduled_one_is_out(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        let segment = filling(&stage.post.app, &stage.key, rule("contact.first_name", "neq", json!("Ada"))).await;
        work(&stage.post.app).await;
        stage.send(json!({"segment_id": segment, "scheduled_at": "in 1 hour"})).await;
        stage.call("PATCH", "/contacts/p1@example.com", json!({"first_name": "Ada"})).await;
        work(&stage.post.app).await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        assert_eq!(addresses(&sink), of("p", &[0, 2]));
    }

    async fn a_segment_that_is_empty_when_its_time_comes_sends_it_back(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let id = stage.send(json!({"scheduled_at": "in 1 hour"})).await;
        happen(&stage, LEAVES, "p0@example.com").await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        let read = stage.read(&id).await;
        assert_eq!((&read["status"], sink.kept().len()), (&json!("draft"), 0));
        assert!(read["reason"].as_str().is_some_and(|reason| reason.contains("segment is empty")), "{read}");
        stage.add("new@example.com", json!({})).await;
        stage.call("POST", &format!("/broadcasts/{id}/send"), json!({})).await;
        stage.run().await;
        assert_eq!(addresses(&sink), ["new@example.com"]);
    }

    async fn rules_that_change_while_the_audience_is_taken_are_told_of(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 2).await;
        let segment = filling(&stage.post.app, &stage.key, rule("contact.first_name", "neq", json!("Ada"))).await;
        work(&stage.post.app).await;
        let id = stage.send(json!({"segment_id": segment})).await;
        stage.take().await;
        store.run("UPDATE broadcasts SET is_audience_whole = FALSE").await;
        let other = json!({"filter": rule("contact.last_name", "neq", json!("Ada"))});
        stage.call("PATCH", &format!("/segments/{segment}"), other).await;
        stage.run().await;
        let read = stage.read(&id).await;
        assert!(read["reason"].as_str().is_some_and(|reason| reason.contains("rules of the segment")), "{read}");
        assert_eq!(addresses(&sink), of("p", &[0, 1]), "nobody gets it twice");
    }

    async fn what_is_canceled_while_it_leaves_stops_within_a_second(store: Store) {
        let (sink, is_slow) = slow_sink().await;
        let stage = Stage::open(&store, &sink, 60).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.post.round().await;
        is_slow.store(true, Ordering::SeqCst);
        let engine = stage.post.engine.clone();
        let round = tokio::spawn(async move { engine.round().await });
        tokio::time::sleep(Duration::from_millis(150)).await;
        stage.call("POST", &format!("/broadcasts/{id}/cancel"), json!({})).await;
        let (before, dialogues) = (addresses(&sink).len(), sink.heard("EHLO"));
        stage.post.app.clock.advance(SECOND);
        round.await.expect("no panic").expect("a round");
        let out = addresses(&sink).len();
        assert!(out < 60 && out - before <= dialogues, "{} left by {dialogues} dialogues after {before}", out - before);
        while stage.post.round().await > 0 {}
        assert_eq!(addresses(&sink).len(), out, "nobody gets it after that");
        let counts = stage.read(&id).await["progress"]["counts"].clone();
        assert_eq!((&counts["delivered"], &counts["canceled"]), (&json!(out), &json!(60 - out)), "what is out is out");
    }
}
