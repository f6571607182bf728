//! The way to the next server: how far encryption is insisted on, who is called when the first does not answer, and
//! links that end before there is a message.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthorn::clock::{HOUR, MINUTE};
use posthorn::emails::NewEmail;
use posthorn::id::EmailId;
use serde_json::json;

use crate::delivery::Post;
use crate::delivery_direct::{direct, rounds};
use crate::delivery_faults::verify_all;
use crate::dns::Dns;
use crate::emails::sent;
use crate::harness::on_both;
use crate::sink::{Does, Sink};
use crate::store::Store;

const HERE: [u8; 4] = [127, 0, 0, 1];
const FAST: &str = "--smtp-timeout-factor=0.01";

const OFFERS_TLS: Does = Does::Says("250-sink\r\n250 STARTTLS");
const OFFERS_LOG_IN: Does = Does::Says("250-sink\r\n250 AUTH PLAIN");

/// One that hands mail to these relays.
async fn relaying(store: &Store, relays: &str) -> Post {
    let relays = format!("--smtp-url={relays}");
    Post::open(store, &[&relays, FAST, "--senders=any"]).await
}

/// A mail server of `example.com` that offers encryption and answers so when it is wanted. Each mail needs a
/// connection of its own.
async fn without_tls(starttls: Does) -> (Dns, Sink) {
    let (dns, sink) = (
        Dns::start().await,
        Sink::scripted(move |command| match command {
            "STARTTLS" => starttls.clone(),
            "." => Does::SaysLast("250 2.0.0 taken"),
            _ if command.starts_with("EHLO") => OFFERS_TLS,
            _ => Does::Usual,
        })
        .await,
    );
    dns.mx("example.com", 10, "mx.example.com");
    dns.a("mx.example.com", HERE);
    (dns, sink)
}

/// Makes a domain whose mail is encrypted or not sent, and queues a mail of it.
async fn strict_mail(post: &Post) -> EmailId {
    let key = post.app.full_key().await;
    let strict = json!({"name": "strict.example", "tls": "enforced"});
    let made = post.app.post("/domains").key(&key).json(strict).send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let from = "ann@strict.example".parse().expect("a sender");
    post.queue(&NewEmail { from, ..post.draft(&["bob@example.com"]).await }).await
}

/// Why a mail waits that has been tried once.
async fn reason(post: &Post, id: EmailId) -> String {
    match &post.recipients(id).await[..] {
        [(10, 1, Some(_), reason)] => reason.clone(),
        other => panic!("{other:?}"),
    }
}

on_both! {
    async fn a_server_that_fails_at_encryption_gets_mail_in_clear_where_nobody_asked_for_more(store: Store) {
        let (dns, sink) = without_tls(Does::SaysLast("220 go on")).await;
        let post = direct(&store, &dns, &sink, &[FAST]).await;
        for (case, later, tried) in [
            ("the first", 0, 1),
            ("it is remembered", HOUR - MINUTE, 1),
            ("not for ever", 2 * MINUTE, 2),
        ] {
            post.app.clock.advance(later);
            let id = post.send("bob@example.com").await;
            rounds(&post, 1).await;
            let told = post.told(id).await;
            assert_eq!((told.len(), &told[0].1["tls"]), (2, &json!("none")), "{case}: {told:?}");
            assert_eq!(sink.heard("STARTTLS"), tried, "{case}");
        }
        assert_eq!(sink.kept().len(), 3);
    }

    async fn a_server_that_refuses_to_encrypt_gets_mail_in_clear_in_the_same_dialogue(store: Store) {
        let (dns, sink) = without_tls(Does::Says("454 4.7.0 not now")).await;
        let post = direct(&store, &dns, &sink, &[FAST]).await;
        let id = post.send("bob@example.com").await;
        rounds(&post, 1).await;
        assert_eq!((post.told(id).await[0].1["tls"].clone(), sink.heard("EHLO")), (json!("none"), 1));
        let id = strict_mail(&post).await;
        rounds(&post, 1).await;
        let reason = reason(&post, id).await;
        assert!(reason.contains("454 4.7.0 not now"), "{reason}");
        assert_eq!((sink.kept().len(), sink.heard("MAIL")), (1, 1));
    }

    async fn where_encryption_is_required_nothing_is_ever_said_in_clear(store: Store) {
        let (dns, sink) = without_tls(Does::SaysLast("220 go on")).await;
        let post = direct(&store, &dns, &sink, &[FAST]).await;
        // Mail of others goes in clear, and that this server is spoken to so is remembered.
        let other = post.send("bob@example.com").await;
        rounds(&post, 1).await;
        assert_eq!((post.state(other).await, sink.heard("MAIL")), (40, 1));
        let id = strict_mail(&post).await;
        rounds(&post, 1).await;
        let why = reason(&post, id).await;
        assert!(why.contains("TLS handshake"), "{why}");
        assert_eq!((sink.kept().len(), sink.heard("MAIL")), (1, 1));
        // The same of a relay.
        let relayed = relaying(&store, &format!("{}?tls=required", sink.url())).await;
        let id = relayed.send("bob@example.com").await;
        assert_eq!(relayed.round().await, 1);
        let why = reason(&relayed, id).await;
        assert!(why.contains("TLS handshake"), "{why}");
        assert_eq!((sink.kept().len(), sink.heard("MAIL")), (1, 1));
    }

    async fn a_link_that_ends_before_there_is_a_message_costs_another_try_and_no_more(store: Store) {
        let closing = Does::SaysLast("421 4.3.2 closing");
        for (phase, fault, why) in [
            ("STARTTLS", closing.clone(), "421 4.3.2 closing"),
            ("STARTTLS", Does::HangsUp, "closed the connection"),
            ("AUTH", closing, "421 4.3.2 closing"),
            ("AUTH", Does::HangsUp, "closed the connection"),
        ] {
            let disturbed = move |faults: usize| {
                let (left, fault) = (AtomicUsize::new(faults), fault.clone());
                move |command: &str| {
                    let is_up = || left.load(Ordering::SeqCst) > 0;
                    match command.split(' ').next().unwrap_or_default() {
                        verb if verb == phase && is_up() => {
                            left.fetch_sub(1, Ordering::SeqCst);
                            fault.clone()
                        }
                        "AUTH" => Does::Says("235 2.7.0 welcome"),
                        "EHLO" if phase == "AUTH" => OFFERS_LOG_IN,
                        "EHLO" if is_up() => OFFERS_TLS,
                        _ => Does::Usual,
                    }
                }
            };
            let user = if phase == "AUTH" { "user:right@" } else { "" };
            let relay = |sink: &Sink| format!("smtp://{user}127.0.0.1:{}", sink.port);
            let sink = Sink::scripted(disturbed(1)).await;
            let post = relaying(&store, &relay(&sink)).await;
            let id = post.send("bob@example.com").await;
            assert_eq!(post.round().await, 1, "{phase} {why}");
            let waits = reason(&post, id).await;
            assert!(waits.contains(why), "{phase}: {waits}");
            assert_eq!((sink.kept().len(), sink.heard("MAIL")), (0, 0), "{phase} {why}");
            post.app.clock.advance(HOUR);
            assert_eq!((post.round().await, sink.kept().len()), (1, 1), "{phase} {why}");
            assert_eq!(post.types(id).await, ["sent", "delivered"], "{phase} {why}");

            // Where there is another relay, it goes by that one at once.
            let (first, second) = (Sink::scripted(disturbed(9)).await, Sink::scripted(disturbed(0)).await);
            let post = relaying(&store, &format!("{},{}", relay(&first), relay(&second))).await;
            let id = post.send("bob@example.com").await;
            assert_eq!((post.round().await, post.state(id).await), (1, 40), "{phase} {why}");
            assert_eq!((first.kept().len(), second.kept().len()), (0, 1), "{phase} {why}");
        }
    }

    async fn a_log_in_that_is_refused_keeps_mail_waiting_and_bounces_none(store: Store) {
        let sink = Sink::scripted(|command| match command.split(' ').next() {
            Some("EHLO") => OFFERS_LOG_IN,
            Some("AUTH") => Does::Says("535 5.7.8 who are you"),
            _ => Does::Usual,
        })
        .await;
        let post = relaying(&store, &format!("smtp://user:wrong@127.0.0.1:{}", sink.port)).await;
        let id = post.send("bob@example.com").await;
        assert_eq!(post.round().await, 1);
        let why = reason(&post, id).await;
        assert!(why.contains("535 5.7.8 who are you"), "{why}");
        assert_eq!((sink.heard("MAIL"), post.app.count("suppressions").await), (0, 0));
    }

    async fn mail_of_a_domain_with_relays_of_its_own_goes_by_the_first_that_answers(store: Store) {
        let busy = Sink::scripted(|_| Does::Says("421 4.3.2 closing")).await;
        let is_open = std::sync::Arc::new(AtomicUsize::new(1));
        let shut = is_open.clone();
        let own = Sink::scripted(move |command| match (is_open.load(Ordering::SeqCst), command) {
            (0, _) => Does::SaysLast("421 4.3.2 closing"),
            (_, ".") => Does::SaysLast("250 2.0.0 taken"),
            _ => Does::Usual,
        })
        .await;
        let common = Sink::open().await;
        let post = Post::open(&store, &[&format!("--smtp-url={}", common.url()), FAST, "--private-mx"]).await;
        let key = post.app.full_key().await;
        let transport = format!("{},{}", busy.url(), own.url());
        for domain in [json!({"name": "sender.example", "transport": transport}), json!({"name": "other.example"})] {
            let made = post.app.post("/domains").key(&key).json(domain).send().await;
            assert_eq!(made.status, 201, "{}", made.text());
        }
        verify_all(&store).await;
        let send = async |from: &str| {
            let mail = json!({"from": from, "to": "bob@example.com", "subject": "S", "text": "T"});
            let id: EmailId = sent(&post.app, &key, mail).await.parse().expect("an id");
            assert_eq!(post.round().await, 1);
            id
        };
        let id = send("ann@sender.example").await;
        assert_eq!((post.state(id).await, post.types(id).await.len()), (40, 2));
        assert_eq!((busy.heard("EHLO"), own.kept().len(), common.kept().len()), (1, 1, 0));
        assert_eq!(post.told(id).await[1].1["via"], "relay");
        // Others go as the server does it.
        let id = send("ann@other.example").await;
        assert_eq!((post.state(id).await, own.kept().len(), common.kept().len()), (40, 1, 1));
        // Where none of its own answers, no other is asked.
        shut.store(0, Ordering::SeqCst);
        let id = send("ann@sender.example").await;
        let why = reason(&post, id).await;
        assert!(why.contains("421 4.3.2 closing"), "{why}");
        assert_eq!((own.kept().len(), common.kept().len()), (1, 1));
    }

    /// A machine without `::1` fails here: what is not tried is not known to work.
    async fn mail_goes_over_ipv6(store: Store) {
        let six = Sink::at("[::1]:0").await;
        let post = relaying(&store, &format!("smtp://[::1]:{}", six.port)).await;
        let id = post.send("bob@example.com").await;
        assert_eq!((post.round().await, post.state(id).await, six.kept().len()), (1, 40, 1));
        assert_eq!(post.told(id).await[0].1["host"], "::1");

        let dns = Dns::start().await;
        dns.mx("six.example", 10, "mx.six.example");
        dns.aaaa("mx.six.example", Ipv6Addr::LOCALHOST);
        let post = direct(&store, &dns, &six, &[FAST]).await;
        let id = post.send("bob@six.example").await;
        rounds(&post, 1).await;
        assert_eq!((post.state(id).await, six.kept().len()), (40, 2));
        assert_eq!(post.told(id).await[0].1["host"], "mx.six.example");

        // Of a server with both kinds of addresses one may be silent.
        let four = Sink::open().await;
        dns.mx("both.example", 10, "mx.both.example");
        dns.aaaa("mx.both.example", Ipv6Addr::LOCALHOST);
        dns.a("mx.both.example", HERE);
        for sink in [&four, &six] {
            let post = direct(&store, &dns, sink, &[FAST]).await;
            let (before, id) = (sink.kept().len(), post.send("bob@both.example").await);
            rounds(&post, 1).await;
            assert_eq!((post.state(id).await, sink.kept().len()), (40, before + 1));
        }
    }
}
