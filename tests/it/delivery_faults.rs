//! Mail whose way is disturbed: replies that come when another has taken up the mail, contents
//! that are missing, domains that change their minds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthorn::clock::{HOUR, MINUTE};
use posthorn::config::WhenUncertain;
use posthorn::emails::{self, Content, NewEmail};
use serde_json::json;

use crate::delivery::Post;
use crate::harness::on_both;
use crate::sink::{Does, Sink};
use crate::store::Store;

/// Something longer than the time after which a claim is renewed for the first time.
const LONGER_THAN_A_RENEWAL: Duration = Duration::from_secs(11);

/// As if DNS had said all that it should.
pub async fn verify_all(store: &Store) {
    store
        .run("UPDATE domains SET is_owned = TRUE, may_send = TRUE, status = 'verified', revision = revision + 1")
        .await;
    store.run("UPDATE revisions SET number = number + 1 WHERE topic = 'domains'").await;
}

/// Waits until the server has something.
async fn arrival(sink: &Sink) {
    while sink.kept().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

on_both! {
    async fn reliability_3_a_reply_counts_though_another_has_found_the_mail_uncertain(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "." => Does::UsualAfter(LONGER_THAN_A_RENEWAL),
            _ => Does::Usual,
        })
        .await;
        // Its time-outs are those of the RFC.
        let relay = format!("--smtp-url={}", sink.url());
        let slow = Post::open(&store, &[&relay, "--senders=any"]).await;
        let new = NewEmail { when_uncertain: WhenUncertain::Hold, ..slow.draft(&["bob@example.com"]).await };
        let id = slow.queue(&new).await;
        let engine = slow.engine.clone();
        let delivering = tokio::spawn(async move { engine.round().await });
        arrival(&sink).await;
        // Another process for which the lease is over.
        let other = Sink::open().await;
        let heir = Post::relaying(&store, &other).await;
        heir.app.clock.advance(MINUTE);
        assert_eq!((heir.round().await, heir.state(id).await), (1, 28), "it is found");
        // For the first it is later by now, too: what it tells stands behind what was told.
        slow.app.clock.advance(2 * MINUTE);
        delivering.await.expect("no panic").expect("a round");
        assert_eq!(heir.recipients(id).await, [(40, 1, None, String::new())]);
        assert_eq!(heir.types(id).await, ["delivery_delayed", "sent", "delivered"]);
        heir.app.clock.advance(24 * HOUR);
        assert_eq!((heir.round().await, other.kept().len()), (0, 0), "it is not sent again");
    }

    async fn a_mail_of_which_a_piece_is_missing_fails_and_is_not_sent_in_part(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        for (place, damage) in [
            ("the middle", "DELETE FROM email_chunks WHERE number = 1"),
            ("the end", "DELETE FROM email_chunks WHERE number = 2"),
            ("within", "UPDATE email_chunks SET bytes = (SELECT bytes FROM email_chunks WHERE number = 2) WHERE number = 0"),
        ] {
            store.run("DELETE FROM email_chunks").await;
            let mut new = post.draft(&["bob@example.com"]).await;
            new.attachments = vec![emails::NewAttachment {
                id: post.app.clock.ordered_id(),
                filename: Some("data.bin".into()),
                content_type: "application/octet-stream".into(),
                content_id: None,
                content: Content::Here(vec![7; 600_000]),
            }];
            let id = post.queue(&new).await;
            store.run(damage).await;
            assert_eq!(post.round().await, 1, "{place}");
            let [(state, _, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient") };
            assert_eq!((*state, *due), (66, None), "{place}: {reason}");
            assert!(reason.contains("missing in the store"), "{place}: {reason}");
        }
        assert!(sink.kept().is_empty());
    }

    async fn a_domain_that_was_deleted_stops_sending(store: Store) {
        let sink = Sink::open().await;
        let post = Post::open(&store, &[&format!("--smtp-url={}", sink.url())]).await;
        let key = post.app.full_key().await;
        let made = post.app.post("/domains").key(&key).json(json!({"name": "sender.example"})).send().await.json();
        verify_all(&store).await;
        let first = post.send("bob@example.com").await;
        assert_eq!((post.round().await, post.state(first).await, sink.kept().len()), (1, 40, 1));
        let second = post.send("bob@example.com").await;
        let path = format!("/domains/{}", made["id"].as_str().expect("an id"));
        assert_eq!(post.app.delete(path).key(&key).send().await.status, 200);
        post.app.clock.advance(MINUTE);
        assert_eq!((post.round().await, sink.kept().len()), (1, 1));
        let [(10, 1, Some(_), reason)] = &post.recipients(second).await[..] else { panic!("it waits") };
        assert!(reason.contains("The domain `sender.example` is not verified"), "{reason}");
    }

    async fn a_domain_that_wants_encryption_gets_it_from_relays_and_at_once(store: Store) {
        let puts_off = AtomicUsize::new(1);
        let sink = Sink::scripted(move |command| {
            let is_first = command.starts_with("RCPT") && puts_off.swap(0, Ordering::SeqCst) == 1;
            if is_first { Does::Says("451 4.7.1 later") } else { Does::Usual }
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let made = post.app.post("/domains").key(&key).json(json!({"name": "sender.example"})).send().await.json();
        // It is composed, and kept for its next attempt.
        let id = post.send("bob@example.com").await;
        assert_eq!((post.round().await, sink.kept().len()), (1, 0));
        let path = format!("/domains/{}", made["id"].as_str().expect("an id"));
        let changed = post.app.patch(path).key(&key).json(json!({"tls": "enforced"})).send().await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        post.app.clock.advance(HOUR);
        assert_eq!((post.round().await, sink.kept().len()), (1, 0));
        let reason = post.recipients(id).await.remove(0).3;
        assert!(reason.contains("offers no encryption, and it is required"), "{reason}");
        // Nor is it held against the relay, however many such mails there are.
        for number in 0..20 {
            post.send(&format!("many{number}@example.com")).await;
        }
        while post.round().await > 0 {}
        let other = "ann@other.example".parse().expect("a sender");
        let id = post.queue(&NewEmail { from: other, ..post.draft(&["eve@example.com"]).await }).await;
        assert_eq!((post.round().await, post.state(id).await, sink.kept().len()), (1, 40, 1));
    }

    async fn time_outs_are_multiplied_by_the_setting(store: Store) {
        // After the dot ten minutes, here three seconds.
        for (part, state, kind) in [(0.8, 40, "sent"), (1.2, 28, "delivery_delayed")] {
            let late = Duration::from_secs(3).mul_f64(part);
            let sink = Sink::scripted(move |command| match command {
                "." => Does::UsualAfter(late),
                _ => Does::Usual,
            })
            .await;
            let relay = format!("--smtp-url={}", sink.url());
            let post = Post::open(&store, &[&relay, "--smtp-timeout-factor=0.005", "--senders=any"]).await;
            let id = post.send("bob@example.com").await;
            assert_eq!((post.round().await, post.state(id).await), (1, state), "{part}");
            assert_eq!(post.types(id).await[0], kind);
        }
    }
}
