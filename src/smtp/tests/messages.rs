//! Messages that are handed over, one after the other.

use std::collections::HashSet;

use super::*;
use crate::smtp::envelope::MessageSource;
use crate::smtp::{Security, TlsPolicy};

/// Once the greeting is over, each of these in turn.
fn greeted(offers: &str, acts: Vec<Act>) -> Vec<Act> {
    let mut script = vec![say("220 mx.test"), Act::Expect("EHLO"), say(offers)];
    script.extend(acts);
    script
}

fn transaction(mail: &str, rcpt: &str, data: &str) -> Vec<Act> {
    vec![
        Act::Expect("MAIL FROM:<bounce@us.test>"),
        Act::Expect("RCPT TO:<a@them.test>"),
        Act::Expect("DATA"),
        say(mail),
        say(rcpt),
        say(data),
    ]
}

fn well() -> Vec<Act> {
    let mut acts = transaction("250 ok", "250 ok", "354 go");
    acts.extend([Act::Message, say("250 2.0.0 queued")]);
    acts
}

const PIPELINING: &str = "250-mx.test\r\n250 PIPELINING";

#[tokio::test]
async fn a_message_arrives_as_it_was_with_its_dots_doubled() {
    for pipelining in [false, true] {
        let (address, log) = server(script(pipelining)).await;
        let mut connection = connect(address).await.expect("a connection");
        assert_eq!((connection.host(), connection.is_secured()), ("127.0.0.1", false));
        let came = send(&mut connection, Bytes::from_static(MESSAGE)).await;
        let Came::Sent(Outcome::Accepted { reply, security: Security::Clear }, true) = came else { panic!("{came:?}") };
        assert_eq!(reply.to_string(), "250 2.0.0 queued as 1");
        let size = if pipelining { " SIZE=31" } else { "" };
        let expected = [
            "EHLO us.test",
            &format!("MAIL FROM:<bounce@us.test>{size}"),
            "RCPT TO:<a@them.test>",
            "DATA",
            "Subject: Hi\r\n\r\nhello\r\n..\r\n..dot\r\n.",
        ];
        assert_eq!(said(&log), expected);
    }
}

#[tokio::test]
async fn a_connection_is_used_again_and_reset_where_a_transaction_was_left_open() {
    let mut acts = well();
    acts.extend(transaction("250 ok", "550 5.1.1 no such user", "554 no recipients"));
    acts.push(Act::Expect("RSET"));
    let mut after = well();
    after.insert(3, say("250 reset"));
    acts.extend(after);
    acts.extend([Act::Expect("QUIT"), say("221 bye")]);
    let (address, log) = server(greeted(PIPELINING, acts)).await;
    let mut connection = connect(address).await.expect("a connection");
    let message = Bytes::from_static(MESSAGE);
    let accepted = |came: &Came| matches!(came, Came::Sent(Outcome::Accepted { .. }, true));

    assert!(accepted(&send(&mut connection, message.clone()).await) && connection.is_reusable());
    let refused = send(&mut connection, message.clone()).await;
    let Came::Sent(Outcome::Refused { reply, at: Phase::Rcpt }, false) = &refused else { panic!("{refused:?}") };
    assert_eq!((reply.enhanced, reply.is_permanent()), (Some([5, 1, 1]), true));
    assert!(connection.is_reusable());
    assert!(accepted(&send(&mut connection, message).await) && connection.is_reusable());
    connection.quit().await;
    assert_eq!(said(&log).last().map(String::as_str), Some("QUIT"));
}

#[tokio::test]
async fn a_reset_that_is_refused_says_nothing_of_the_next_message() {
    for pipelining in [false, true] {
        let mut script = until(Phase::Rcpt, pipelining, vec![say("550 no such user")]);
        if pipelining {
            script.extend([Act::Expect("DATA"), say("503 no recipients")]);
        }
        script.extend([Act::Expect("RSET"), say("502 what?")]);
        let (address, _) = server(script).await;
        let mut connection = connect(address).await.expect("a connection");
        let first = send(&mut connection, Bytes::from_static(MESSAGE)).await;
        assert!(matches!(first, Came::Sent(Outcome::Refused { at: Phase::Rcpt, .. }, false)), "{first:?}");
        assert!(connection.is_reusable());
        let second = send(&mut connection, Bytes::from_static(MESSAGE)).await;
        assert!(matches!(second, Came::Sent(Outcome::Failed { at: Phase::Mail, .. }, false)), "{second:?}");
        assert!(!connection.is_reusable());
    }
}

#[tokio::test]
async fn a_server_that_waits_for_a_message_to_nobody_gets_an_empty_one() {
    let mut acts = transaction("250 ok", "550 5.1.1 no such user", "354 go");
    acts.extend([Act::Message, say("554 no recipients"), Act::Expect("RSET"), say("250 ok")]);
    acts.extend(well());
    let (address, log) = server(greeted(PIPELINING, acts)).await;
    let mut connection = connect(address).await.expect("a connection");
    let refused = send(&mut connection, Bytes::from_static(MESSAGE)).await;
    assert!(matches!(refused, Came::Sent(Outcome::Refused { at: Phase::Rcpt, .. }, false)), "{refused:?}");
    assert_eq!(said(&log).last().map(String::as_str), Some("."));
    let next = send(&mut connection, Bytes::from_static(MESSAGE)).await;
    assert!(matches!(next, Came::Sent(Outcome::Accepted { .. }, true)), "{next:?}");
}

#[tokio::test]
async fn a_server_that_contradicts_itself_gets_no_dot() {
    let mut acts = transaction("550 not you", "250 ok", "354 go");
    acts.push(Act::Message);
    let (address, log) = server(greeted(PIPELINING, acts)).await;
    let mut connection = connect(address).await.expect("a connection");
    let refused = send(&mut connection, Bytes::from_static(MESSAGE)).await;
    assert!(matches!(refused, Came::Sent(Outcome::Refused { at: Phase::Mail, .. }, false)), "{refused:?}");
    assert!(!connection.is_reusable());
    drop(connection);
    while said(&log).len() < 5 {
        tokio::task::yield_now().await;
    }
    assert_eq!(said(&log).last().map(String::as_str), Some(""), "the link ended without a dot");
}

#[tokio::test]
async fn a_dot_that_is_refused_is_never_written() {
    let (address, log) = server(script(true)).await;
    let mut connection = connect(address).await.expect("a connection");
    let mut message = Bytes::from_static(MESSAGE);
    let refused = async { Err("the store takes nothing".to_owned()) };
    let outcome = connection.send(&envelope(0), &mut message, refused).await;
    assert_eq!(outcome, Outcome::Failed { reason: "the store takes nothing".into(), at: Phase::Body });
    assert!(!connection.is_reusable());
    drop(connection);
    while said(&log).len() < 5 {
        tokio::task::yield_now().await;
    }
    assert!(said(&log)[4].ends_with("\r\n..dot"), "{:?}", said(&log));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_ends_without_a_dot() {
    struct Broken;
    impl MessageSource for Broken {
        async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
            Err(std::io::Error::other("gone"))
        }
    }
    let (address, _) = server(script(true)).await;
    let mut connection = connect(address).await.expect("a connection");
    let outcome = connection.send(&envelope(0), &mut Broken, async { Ok(()) }).await;
    assert!(matches!(outcome, Outcome::Failed { at: Phase::Body, .. }), "{outcome:?}");
    assert!(!connection.is_reusable());
}

#[tokio::test]
async fn a_connection_is_given_up_when_it_was_lost_closed_or_left_in_the_middle() {
    // The server hangs up behind its answer.
    let (address, _) = server(script(true)).await;
    let mut connection = connect(address).await.expect("a connection");
    let came = send(&mut connection, Bytes::from_static(MESSAGE)).await;
    assert!(matches!(came, Came::Sent(Outcome::Accepted { .. }, true)), "{came:?}");
    while connection.is_reusable() {
        tokio::task::yield_now().await;
    }
    let again = send(&mut connection, Bytes::from_static(MESSAGE)).await;
    assert!(matches!(again, Came::Sent(Outcome::Failed { at: Phase::Mail, .. }, false)), "{again:?}");

    // The server says that it will.
    let (address, _) =
        server(until(Phase::Dot, true, vec![say("421 closing"), Act::Wait(Duration::from_secs(60))])).await;
    let mut connection = connect(address).await.expect("a connection");
    let came = send(&mut connection, Bytes::from_static(MESSAGE)).await;
    assert!(matches!(came, Came::Sent(Outcome::Refused { at: Phase::Dot, .. }, true)), "{came:?}");
    assert!(!connection.is_reusable());

    // Nobody waited for the answer.
    let (address, _) = server(until(Phase::Rcpt, true, vec![Act::Wait(Duration::from_secs(60))])).await;
    let mut connection = connect(address).await.expect("a connection");
    let left = tokio::time::timeout(Duration::from_millis(100), send(&mut connection, Bytes::from_static(MESSAGE)));
    assert!(left.await.is_err() && !connection.is_reusable());
}

#[tokio::test]
async fn what_a_server_has_said_it_cannot_take_is_not_sent() {
    let offers = "250-mx.test\r\n250-SIZE 1000\r\n250-8BITMIME\r\n250 PIPELINING";
    let (address, log) = server(greeted(offers, well())).await;
    let mut connection = connect(address).await.expect("a connection");
    let plain = envelope(1000);
    for (envelope, code) in [
        (Envelope { size: 1001, ..plain }, [5, 3, 4]),
        (Envelope { smtputf8: true, ..plain }, [5, 6, 7]),
        (Envelope { to: "jürgen@them.test", ..plain }, [5, 6, 7]),
        (Envelope { to: "a@them.test>\r\nRCPT TO:<b@them.test", ..plain }, [5, 1, 3]),
        (Envelope { to: "", ..plain }, [5, 1, 3]),
        (Envelope { from: "a b@us.test", ..plain }, [5, 1, 7]),
    ] {
        let outcome = connection.send(&envelope, &mut Bytes::from_static(MESSAGE), async { Ok(()) }).await;
        let Outcome::Refused { reply, at: Phase::Mail } = outcome else { panic!("{envelope:?}: {outcome:?}") };
        assert_eq!((reply.enhanced, reply.is_permanent()), (Some(code), true), "{envelope:?}");
    }
    let taken = Envelope { eightbit: true, ..plain };
    let outcome = connection.send(&taken, &mut Bytes::from_static(MESSAGE), async { Ok(()) }).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    assert_eq!(said(&log)[1], "MAIL FROM:<bounce@us.test> SIZE=1000 BODY=8BITMIME");
}

#[tokio::test]
async fn international_addresses_go_to_those_who_take_them() {
    let mut acts = vec![Act::Expect("MAIL FROM:<> SMTPUTF8"), Act::Expect("RCPT TO:<jürgen@them.test>")];
    acts.extend([Act::Expect("DATA"), say("250 ok\r\n250 ok\r\n354 go"), Act::Message, say("250 ok")]);
    let (address, _) = server(greeted("250-mx.test\r\n250-SMTPUTF8\r\n250 PIPELINING", acts)).await;
    let mut connection = connect(address).await.expect("a connection");
    let envelope = Envelope { from: "", to: "jürgen@them.test", ..envelope(0) };
    let outcome = connection.send(&envelope, &mut Bytes::from_static(MESSAGE), async { Ok(()) }).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
}

/// What is said to a server with these offers up to the message, and the message.
async fn told(offers: &'static str, envelope: &Envelope<'_>) -> Vec<String> {
    let mut acts = vec![Act::Expect("MAIL FROM:<"), Act::Expect("RCPT TO:<"), Act::Expect("DATA")];
    acts.extend([say("250 ok\r\n250 ok\r\n354 go"), Act::Message, say("250 ok")]);
    let (address, log) = server(greeted(offers, acts)).await;
    let mut connection = connect(address).await.expect("a connection");
    let outcome = connection.send(envelope, &mut Bytes::from_static(MESSAGE), async { Ok(()) }).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    said(&log)[1..].to_vec()
}

#[tokio::test]
async fn decisions_7_who_reports_on_deliveries_is_told_what_to_report_and_of_what() {
    let envelope = Envelope { to: "a+b@them.test", reports_success: true, ..envelope(0) };
    let told_to = told("250-mx.test\r\n250-DSN\r\n250 PIPELINING", &envelope).await;
    assert_eq!(told_to[0], "MAIL FROM:<bounce@us.test> RET=HDRS ENVID=mail+3D1");
    assert_eq!(told_to[1], "RCPT TO:<a+b@them.test> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;a+2Bb@them.test");
    let usual =
        told("250-mx.test\r\n250-DSN\r\n250 PIPELINING", &Envelope { reports_success: false, ..envelope }).await;
    assert_eq!(usual[1], "RCPT TO:<a+b@them.test> ORCPT=rfc822;a+2Bb@them.test", "failures are reported anyway");
    let nobody = told("250-mx.test\r\n250 PIPELINING", &envelope).await;
    assert_eq!(nobody[..2], ["MAIL FROM:<bounce@us.test>", "RCPT TO:<a+b@them.test>"]);
}

#[tokio::test]
async fn reliability_3_who_takes_messages_once_is_told_by_which_key() {
    let size = MESSAGE.len() as u64;
    let offers = "250-mx.test\r\n250-SIZE\r\n250-XIDEMPOTENCY\r\n250 PIPELINING";
    let told_to = told(offers, &envelope(size)).await;
    let key = "Idempotency-Key: mail=1\r\n";
    assert_eq!(told_to[0], format!("MAIL FROM:<bounce@us.test> SIZE={}", size + key.len() as u64));
    assert!(told_to.last().is_some_and(|message| message.starts_with(&format!("{key}Subject: Hi\r\n"))), "{told_to:?}");
    let others = told("250-mx.test\r\n250 PIPELINING", &envelope(size)).await;
    assert!(others.last().is_some_and(|message| message.starts_with("Subject: Hi\r\n")), "{others:?}");
}

#[tokio::test]
async fn a_server_from_before_ehlo_is_greeted_in_the_old_way() {
    let mut acts =
        vec![say("220 mx.test"), Act::Expect("EHLO"), say("502 what?"), Act::Expect("HELO us.test"), say("250 hi")];
    acts.extend(all_well(false).into_iter().skip(2).flat_map(|(_, acts)| acts));
    let came = deliver(acts, &Bytes::from_static(MESSAGE), settings()).await;
    assert!(matches!(came, Came::Sent(Outcome::Accepted { .. }, true)), "{came:?}");
}

#[tokio::test]
async fn mail_servers_on_private_addresses_are_called_only_where_that_is_allowed() {
    let (address, _) = server(script(true)).await;
    let resolver = crate::dns::tests::resolver().await;
    let mut reasons = HashSet::new();
    for private_addresses in [false, true] {
        let settings = Settings { private_addresses, mx_port: address.port(), ..settings() };
        let client = Client::new(settings, resolver.clone());
        let connected = client.connect(&Hop::Mx { host: "private.example", tls: &TlsPolicy::Opportunistic }).await;
        assert_eq!(connected.is_ok(), private_addresses);
        if let Err(failure) = connected {
            assert!(failure.is_permanent() && failure.at == Phase::Connect, "{failure:?}");
            reasons.insert(failure.reason);
        }
        let absent = client.connect(&Hop::Mx { host: "absent.example", tls: &TlsPolicy::Opportunistic }).await;
        assert!(absent.is_err_and(|failure| !failure.is_permanent() && failure.reason.contains("no address")));
    }
    assert_eq!(Vec::from_iter(reasons), ["private.example leads to 127.0.0.1, which is not on the public internet"]);
}
