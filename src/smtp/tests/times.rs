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
