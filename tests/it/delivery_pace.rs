//! Who goes first and who waits: sites that stall, lanes, limits of a day; and what a mail that
//! waits says of it.

use std::time::Duration;

use posthorn::clock::HOUR;
use posthorn::delivery;
use posthorn::hold;
use posthorn::id::EmailId;
use serde_json::json;
use tokio::sync::watch;

use crate::delivery::Post;
use crate::delivery_direct::{direct, rounds};
use crate::dns::Dns;
use crate::harness::on_both;
use crate::sink::{Does, Sink};
use crate::store::Store;

const DAY: i64 = 24 * HOUR;

/// How many sites there are, and how many of them answer nothing.
const SITES: usize = 120;
const TARPITS: usize = 20;

fn stalls_for_tarpits(command: &str) -> Does {
    if command.starts_with("RCPT TO:<slow") { Does::Stalls } else { Does::Usual }
}

/// Makes a domain of the sender, with these settings.
async fn domain(post: &Post, settings: serde_json::Value) -> String {
    let key = post.app.full_key().await;
    let mut fields = json!({"name": "sender.example"});
    fields.as_object_mut().expect("an object").extend(settings.as_object().expect("an object").clone());
    let made = post.app.post("/domains").key(&key).json(fields).send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["id"].as_str().expect("an id").to_owned()
}

on_both! {
    async fn tarpits_hold_up_nobody_else(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::scripted(stalls_for_tarpits).await);
        // At the full times of the RFC nobody gives up on them during the test.
        let post = direct(&store, &dns, &sink, &[]).await;
        let mut others = Vec::new();
        for number in 0..SITES {
            // Those that stall come first.
            let domain = format!("site{number:03}.example");
            dns.mx(&domain, 10, &format!("mx.{domain}"));
            dns.a(&format!("mx.{domain}"), [127, 0, 0, 1]);
            match number < TARPITS {
                true => for mail in 0..20 {
                    post.send(&format!("slow{mail}@{domain}")).await;
                },
                false => others.push(post.send(&format!("bob@{domain}")).await),
            }
        }
        let (stop, stopping) = watch::channel(false);
        let working = tokio::spawn(delivery::run(
            post.app.app.occurrences().clone(),
            post.app.app.domains().clone(),
            stopping,
        ));
        for _ in 0..600 {
            if sink.kept().len() == others.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(sink.kept().len(), others.len(), "while the others hang");
        drop(stop);
        working.abort();
    }

    async fn a_warm_up_bounds_what_a_domain_sends_on_a_day_in_all_processes(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        domain(&post, json!({"warm_up": 3})).await;
        let other = Post::relaying(&store, &sink).await;
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(post.send(&format!("bob{number}@example.com")).await);
        }
        futures_util::future::join_all([&post, &other].map(async |post| while post.round().await > 0 {})).await;
        assert_eq!(sink.kept().len(), 3);
        assert_eq!(Post::relaying(&store, &sink).await.round().await, 0, "nor does a process that starts now");
        let mut waiting = 0;
        for &id in &ids {
            let [(state, tries, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient") };
            if *state == 40 {
                continue;
            }
            waiting += 1;
            assert_eq!((*state, *tries), (10, 0));
            assert!(reason.contains("sender.example is being warmed up") && reason.contains("3 mails"), "{reason}");
            let shown = post.app.clock.shown_at(due.expect("a time"));
            assert_eq!((shown % DAY, shown / DAY), (0, post.app.clock.now() / DAY + 1), "midnight, UTC");
        }
        assert_eq!(waiting, 2);
        post.app.clock.advance(DAY);
        for number in 0..9 {
            post.send(&format!("eve{number}@example.com")).await;
        }
        while post.round().await > 0 {}
        assert_eq!(sink.kept().len(), 3 + 6, "twice as many on the second day");
        for (days, kept) in [(0, 2), (1, 1), (1, 0)] {
            post.app.clock.advance(days * DAY);
            delivery::sweep_days(&post.app.app).await.expect("a sweep");
            assert_eq!(post.app.count("domain_days").await, kept, "what was sent before yesterday is forgotten");
        }
    }

    async fn mail_that_waits_for_a_site_is_given_up_after_five_days_and_told_of_once(store: Store) {
        let sink = Sink::open().await;
        let id = Post::relaying(&store, &sink).await.send("bob@example.com").await;
        // Nothing is sent here.
        let post = Post::open(&store, &[]).await;
        let mut hours = 0;
        while post.state(id).await != 66 {
            post.round().await;
            post.app.clock.advance(HOUR);
            hours += 1;
            assert!(hours < 130, "{:?}", post.recipients(id).await);
        }
        assert!((120..=122).contains(&hours), "{hours}");
        assert_eq!(post.types(id).await, ["delivery_delayed", "failed"]);
        assert!(post.recipients(id).await[0].3.contains("five days"));
    }

    async fn a_mail_that_waits_says_why_and_until_when(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::scripted(|command| match command {
            "RCPT TO:<grey@example.com>" => Does::Says("451 4.7.1 greylisted"),
            "." => Does::HangsUp,
            _ => Does::Usual,
        }).await);
        for (domain, address) in [("example.com", [127, 0, 0, 1]), ("dead.example", [127, 0, 0, 77])] {
            dns.mx(domain, 10, &format!("mx.{domain}"));
            dns.a(&format!("mx.{domain}"), address);
        }
        let post = direct(&store, &dns, &sink, &["--smtp-timeout-factor=0.01"]).await;
        let key = post.app.full_key().await;
        let scheduled = json!({"from": "ann@sender.example", "to": "bob@example.com", "subject": "S", "text": "T",
            "scheduled_at": "in 1 hour"});
        let sent = post.app.post("/emails").key(&key).json(scheduled).send().await.json();
        let scheduled: EmailId = sent["id"].as_str().expect("an id").parse().expect("an id");
        let grey = post.send("grey@example.com").await;
        let retried = post.send("bob@example.com").await;
        let mut dead = Vec::new();
        // As many dialogues as there may be, and one mail more.
        for number in 0..6 {
            dead.push(post.send(&format!("{number}@dead.example")).await);
        }
        rounds(&post, 8).await;
        dns.fail(true);
        let unknown = post.send("bob@unknown.example").await;
        rounds(&post, 1).await;
        for (case, id, why) in [
            ("a reply that puts off", grey, "mx.example.com: 451 4.7.1 greylisted"),
            ("nobody there", dead[0], "cannot be reached"),
            ("a site that gets nothing for a while", dead[5], "mx.dead.example gets no mail for a while"),
            ("no DNS", unknown, "unknown.example cannot be looked up"),
            ("a reply that did not come", retried, "did not say whether it has taken the mail"),
        ] {
            let [(_, _, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient: {case}") };
            assert!(reason.contains(why) && !reason.contains('\n'), "{case}: {reason}");
            assert!(due.is_some(), "{case}");
        }
        let due = post.recipients(scheduled).await[0].2.expect("a time");
        assert_eq!(due, post.app.clock.steady() + HOUR, "it says so itself");
    }

    async fn a_hold_is_told_by_a_mail_whose_dialogue_it_ended(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        // Claimed before, and on hold when the dot is to be sent.
        let holding = store.clone();
        let stalling = Sink::scripted(move |command| {
            if command == "DATA" {
                let store = holding.clone();
                let hold = async move { store.run("INSERT INTO holds (id, since, reason) VALUES (1, 0, 'now')").await };
                let wait = move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    runtime.expect("a runtime").block_on(hold);
                };
                std::thread::spawn(wait).join().expect("held");
            }
            Does::Usual
        })
        .await;
        let held = Post::relaying(&store, &stalling).await;
        assert_eq!((held.round().await, stalling.kept().len()), (1, 0));
        let [(state, tries, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient") };
        assert_eq!((*state, *tries, due.is_some(), reason.as_str()), (10, 0, true, "nothing is sent while the store is on hold"));
        post.app.app.db.commit(hold::release()).await.expect("no hold");
        assert_eq!((post.round().await, sink.kept().len()), (1, 1), "at once");
    }
}
