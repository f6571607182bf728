//! Mail that goes straight to the servers of its recipients.

use std::time::Duration;

use crate::delivery::Post;
use crate::dns::Dns;
use crate::harness::on_both;
use crate::sink::{Does, Sink};
use crate::store::Store;

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

/// One that asks this DNS, and finds mail servers on this machine.
pub async fn direct(store: &Store, dns: &Dns, sink: &Sink, more: &[&str]) -> Post {
    let settings = ["--transport=direct", "--private-mx", "--senders=any"];
    let (port, servers) = (format!("--mx-port={}", sink.port), dns.setting());
    Post::open(store, &[&settings[..], &[&port, &servers], more].concat()).await
}

const FAST: &[&str] = &["--smtp-timeout-factor=0.01"];

/// Rounds until so many recipients were dealt with: names are looked up beside.
pub async fn rounds(post: &Post, count: usize) {
    let mut done = 0;
    for _ in 0..500 {
        done += post.round().await;
        if done >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{done} of {count}");
}

on_both! {
    async fn mail_goes_to_the_servers_of_its_recipients_domain(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::open().await);
        dns.mx("example.com", 10, "mx.example.com");
        dns.a("mx.example.com", LOOPBACK);
        // Without MX, the domain itself is asked.
        dns.a("plain.example", LOOPBACK);
        let post = direct(&store, &dns, &sink, FAST).await;
        let ids = [post.send("bob@example.com").await, post.send("eve@plain.example").await];
        rounds(&post, 2).await;
        for id in ids {
            assert_eq!((post.state(id).await, post.types(id).await), (40, vec!["sent".into(), "delivered".into()]));
        }
        assert_eq!(post.told(ids[0]).await[1].1["host"], "mx.example.com");
        assert_eq!(sink.kept().len(), 2);
    }

    async fn a_domain_that_takes_no_mail_bounces_and_one_that_does_not_answer_waits(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::open().await);
        dns.mx("null.example", 0, "");
        let post = direct(&store, &dns, &sink, FAST).await;
        for (to, code) in [("a@null.example", "5.1.10"), ("a@absent.example", "5.1.2")] {
            let id = post.send(to).await;
            rounds(&post, 1).await;
            let told = post.told(id).await;
            assert_eq!((told.len(), told[0].0.as_str()), (1, "bounced"), "{to}: {told:?}");
            assert!(told[0].1["bounce"]["diagnosticCode"][0].as_str().is_some_and(|said| said.contains(code)), "{told:?}");
        }
        dns.fail(true);
        let id = post.send("a@broken.example").await;
        rounds(&post, 1).await;
        let [(state, tries, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient") };
        assert_eq!((*state, *tries, due.is_some()), (10, 1, true));
        assert!(reason.contains("broken.example cannot be looked up"), "{reason}");
        assert_eq!((sink.kept().len(), post.app.count("suppressions").await), (0, 0));
    }

    async fn the_next_server_is_tried_where_the_first_does_not_answer(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::open().await);
        dns.mx("example.com", 10, "dead.example.com");
        dns.mx("example.com", 20, "mx.example.com");
        // Nobody listens on the port there.
        dns.a("dead.example.com", [127, 0, 0, 77]);
        dns.a("mx.example.com", LOOPBACK);
        let post = direct(&store, &dns, &sink, FAST).await;
        let id = post.send("bob@example.com").await;
        rounds(&post, 1).await;
        assert_eq!((post.state(id).await, sink.kept().len()), (40, 1));
    }

    async fn a_site_that_stalls_holds_up_nobody_else(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::scripted(stalls_for_tarpit).await);
        for domain in ["tarpit.example", "fast.example"] {
            dns.mx(domain, 10, &format!("mx.{domain}"));
            dns.a(&format!("mx.{domain}"), LOOPBACK);
        }
        let post = direct(&store, &dns, &sink, FAST).await;
        for number in 0..50 {
            post.send(&format!("slow{number}@tarpit.example")).await;
        }
        let id = post.send("bob@fast.example").await;
        let engine = post.engine.clone();
        let working = tokio::spawn(async move {
            loop {
                let _ = engine.round().await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let other = post.engine.clone();
        let beside = tokio::spawn(async move {
            loop {
                let _ = other.round().await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        for _ in 0..1_000 {
            if post.state(id).await == 40 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(post.state(id).await, 40);
        working.abort();
        beside.abort();
    }
}

fn stalls_for_tarpit(command: &str) -> Does {
    if command.starts_with("RCPT TO:<slow") { Does::Stalls } else { Does::Usual }
}
