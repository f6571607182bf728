//! How long servers may take, one time at a time.

use futures_util::future::join_all;

use super::*;

/// The time that is tested. All others are out of reach.
const LIMIT: Duration = Duration::from_secs(2);

type Set = fn(&mut Timeouts);

const TIMES: [(Phase, Set); 6] = [
    (Phase::Banner, |times| times.banner = LIMIT),
    (Phase::Ehlo, |times| times.hello = LIMIT),
    (Phase::Mail, |times| times.mail = LIMIT),
    (Phase::Rcpt, |times| times.rcpt = LIMIT),
    (Phase::Data, |times| times.data = LIMIT),
    (Phase::Dot, |times| times.dot = LIMIT),
];

fn only(set: Set) -> Settings {
    let mut timeouts = Timeouts::default();
    set(&mut timeouts);
    Settings { timeouts, ..settings() }
}

/// The dialogue in which all goes well, with a pause before one answer.
fn paused(phase: Phase, pause: Act) -> Vec<Act> {
    let with_pause = |(at, mut acts): (Phase, Vec<Act>)| {
        if at == phase {
            acts.insert(acts.len() - 1, pause.clone());
        }
        acts
    };
    all_well(false).into_iter().flat_map(with_pause).collect()
}

#[tokio::test]
async fn an_answer_in_time_counts_and_one_that_is_late_does_not() {
    let attempt = |(phase, set): (Phase, Set), part: f64| async move {
        let wait = Act::Wait(LIMIT.mul_f64(part));
        (phase, deliver(paused(phase, wait), &Bytes::from_static(MESSAGE), only(set)).await)
    };
    let (early, late) =
        tokio::join!(join_all(TIMES.map(|time| attempt(time, 0.8))), join_all(TIMES.map(|time| attempt(time, 1.2))));
    for (phase, came) in early {
        assert!(matches!(came, Came::Sent(Outcome::Accepted { .. }, true)), "{phase:?}: {came:?}");
    }
    for (phase, came) in late {
        match (&came, phase) {
            (Came::Sent(Outcome::Unknown { .. }, true), Phase::Dot) => {}
            (Came::NoConnection(failure), Phase::Banner | Phase::Ehlo) => assert_eq!(failure.at, phase),
            (Came::Sent(Outcome::Failed { at, reason }, false), _) if *at == phase => {
                assert!(reason.contains("2 seconds"), "{reason}");
            }
            _ => panic!("{phase:?}: {came:?}"),
        }
    }
}

/// What a server says before its first message, where it offers encryption and a log-in.
fn greeting(acceptor: &TlsAcceptor) -> Vec<(Phase, Vec<Act>)> {
    vec![
        (Phase::Banner, vec![say("220 mx.test")]),
        (Phase::Ehlo, vec![Act::Expect("EHLO"), say("250-mx.test\r\n250 STARTTLS")]),
        (Phase::StartTls, vec![Act::Expect("STARTTLS"), say("220 go")]),
        // The handshake.
        (Phase::StartTls, vec![Act::Encrypt(acceptor.clone())]),
        (Phase::Ehlo, vec![Act::Expect("EHLO"), say("250-mx.test\r\n250 AUTH LOGIN")]),
        (Phase::Auth, vec![Act::Expect("AUTH LOGIN"), say("334 VXNlcm5hbWU6")]),
        (Phase::Auth, vec![Act::Expect("dQ=="), say("334 UGFzc3dvcmQ6")]),
        (Phase::Auth, vec![Act::Expect("cA=="), say("235 welcome")]),
    ]
}

#[tokio::test]
async fn encryption_and_log_in_have_their_time_as_well() {
    let (acceptor, roots) = super::tls::certificate("localhost");
    let steps = greeting(&acceptor);
    let attempt = |late_at: usize, part: f64| {
        let mut script: Vec<Act> = Vec::new();
        for (at, (_, mut acts)) in steps.clone().into_iter().enumerate() {
            if at == late_at {
                acts.insert(acts.len() - 1, Act::Wait(LIMIT.mul_f64(part)));
            }
            script.extend(acts);
        }
        script.push(Act::Wait(Duration::from_secs(60)));
        let settings = only(|times| *times = Timeouts { banner: LIMIT, hello: LIMIT, ..*times });
        let client = client(Settings { roots: roots.clone(), ..settings });
        async move {
            let (address, _) = server(script).await;
            let relay: Relay =
                format!("smtp://u:p@localhost:{}?tls=required", address.port()).parse().expect("a relay");
            client.connect(&Hop::Relay(&relay)).await.map(|connection| connection.is_secured())
        }
    };
    let all = 0..steps.len();
    let (early, late) = tokio::join!(
        join_all(all.clone().map(|at| attempt(at, 0.8))),
        join_all(all.clone().map(|at| attempt(at, 1.2)))
    );
    for (at, (early, late)) in all.zip(early.into_iter().zip(late)) {
        assert_eq!(early, Ok(true), "{at}");
        let failure = late.expect_err("too late");
        assert_eq!(failure.at, steps[at].0, "{at}: {failure:?}");
        assert!(failure.reason.contains("2 seconds") && !failure.tls_failed, "{failure:?}");
    }
}

#[tokio::test]
async fn a_message_has_to_move_on_in_time() {
    // More than fits between the two ends while nobody reads.
    let message = Bytes::from(b"0123456789abcdef0123456789abcde\r\n".repeat(1 << 20));
    let attempt = |part: f64| {
        let mut acts = until(Phase::Body, true, vec![Act::Wait(LIMIT.mul_f64(part)), Act::Message]);
        acts.push(say("250 ok"));
        deliver(acts, &message, only(|times| times.block = LIMIT))
    };
    let (early, late) = tokio::join!(attempt(0.8), attempt(1.2));
    assert!(matches!(early, Came::Sent(Outcome::Accepted { .. }, true)), "{early:?}");
    assert!(matches!(late, Came::Sent(Outcome::Failed { at: Phase::Body, .. }, false)), "{late:?}");
}

#[tokio::test]
async fn a_server_that_drips_is_late() {
    let set: Set = |times| *times = Timeouts { banner: LIMIT / 4, dot: LIMIT / 4, ..*times };
    let drip = |code: u16| vec![Act::Drip(format!("{code} {}", "x".repeat(200)), Duration::from_millis(20))];
    let message = Bytes::from_static(MESSAGE);
    let banner = deliver(until(Phase::Banner, false, drip(220)), &message, only(set)).await;
    assert!(matches!(banner, Came::NoConnection(Failure { at: Phase::Banner, .. })), "{banner:?}");
    let dot = deliver(until(Phase::Dot, false, drip(250)), &message, only(set)).await;
    assert!(matches!(dot, Came::Sent(Outcome::Unknown { .. }, true)), "{dot:?}");
}

#[test]
fn the_times_are_those_of_rfc_5321() {
    let Timeouts { banner, hello, mail, rcpt, data, block, dot, .. } = Timeouts::default();
    assert_eq!([banner, hello, mail, rcpt, data, block, dot].map(|time| time.as_secs() / 60), [5, 5, 5, 5, 2, 3, 10]);
    assert_eq!(Timeouts::default().scaled(0.01).dot, Duration::from_secs(6));
}
