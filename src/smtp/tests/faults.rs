//! What can go wrong at each phase. A message may have been taken only where the
//! link is lost behind the dot.

use super::*;

const BEFORE_DOT: [Phase; 5] = [Phase::Banner, Phase::Ehlo, Phase::Mail, Phase::Rcpt, Phase::Data];

/// The phase at which a message was lost, and how sure that is.
#[derive(Debug, PartialEq)]
enum Lost {
    Refused(u16, Phase),
    Failed(Phase),
    Unknown,
}

fn lost(came: &Came) -> Lost {
    match came {
        Came::NoConnection(Failure { at, reply: Some(reply), .. }) => Lost::Refused(reply.code, *at),
        Came::NoConnection(failure) => Lost::Failed(failure.at),
        Came::Sent(Outcome::Refused { reply, at }, _) => Lost::Refused(reply.code, *at),
        Came::Sent(Outcome::Failed { at, .. }, announced) => {
            assert!(!announced || *at == Phase::Body, "{came:?}");
            Lost::Failed(*at)
        }
        Came::Sent(Outcome::Unknown { .. }, announced) => {
            assert!(announced, "nothing is unknown that was not announced");
            Lost::Unknown
        }
        Came::Sent(Outcome::Accepted { .. }, _) => panic!("accepted: {came:?}"),
    }
}

fn small() -> Bytes {
    Bytes::from_static(MESSAGE)
}

#[tokio::test]
async fn only_a_link_that_is_lost_behind_the_dot_leaves_an_unknown_outcome() {
    for pipelining in [false, true] {
        for phase in BEFORE_DOT {
            let came = deliver(until(phase, pipelining, vec![]), &small(), settings()).await;
            assert_eq!(lost(&came), Lost::Failed(phase), "{came:?}");
            // Half an answer is none.
            let half = deliver(until(phase, pipelining, vec![Act::Raw(b"250".into())]), &small(), settings()).await;
            assert_eq!(lost(&half), Lost::Failed(phase), "{half:?}");
        }
        let large = Bytes::from(vec![b'x'; 16 << 20]);
        let came = deliver(until(Phase::Body, pipelining, vec![Act::Read(1000)]), &large, settings()).await;
        assert_eq!(lost(&came), Lost::Failed(Phase::Body), "{came:?}");

        for half in [vec![], vec![Act::Raw(b"250".into())], vec![Act::Raw(b"250-ok\r\n".into())], vec![say("HTTP/1.1")]]
        {
            let came = deliver(until(Phase::Dot, pipelining, half), &small(), settings()).await;
            assert_eq!(lost(&came), Lost::Unknown, "{came:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_told_with_its_phase_wherever_it_comes() {
    for pipelining in [false, true] {
        for phase in BEFORE_DOT.into_iter().chain([Phase::Dot]) {
            for code in [421, 450, 550] {
                // EHLO that is refused for good is followed by HELO.
                let answer = say(&format!("{code}-4.0.0 no\r\n{code} 4.0.0 not now"));
                let instead = vec![answer.clone(), Act::Expect(if phase == Phase::Ehlo { "HELO" } else { "" }), answer];
                let came = deliver(until(phase, pipelining, instead), &small(), settings()).await;
                assert_eq!(lost(&came), Lost::Refused(code, phase), "{came:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_a_server_says_while_it_hangs_up_on_a_message_is_told() {
    let large = Bytes::from(vec![b'x'; 16 << 20]);
    for code in [421, 552] {
        let instead = vec![Act::Read(1000), say(&format!("{code} enough")), Act::Wait(Duration::from_secs(1))];
        let timeouts = Timeouts { block: Duration::from_millis(200), ..settings().timeouts };
        let came = deliver(until(Phase::Body, true, instead), &large, Settings { timeouts, ..settings() }).await;
        assert_eq!(lost(&came), Lost::Refused(code, Phase::Body), "{came:?}");
    }
    // It needs no dot to know that a server has gone.
    let (address, _) = server(until(Phase::Body, true, vec![Act::Read(MESSAGE.len()), say("421 bye")])).await;
    let mut connection = connect(address).await.expect("a connection");
    let (mut message, mut waited) = (small(), false);
    let before_dot = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        waited = true;
        Ok(())
    };
    let outcome = connection.send(&envelope(0), &mut message, before_dot).await;
    assert!(matches!(outcome, Outcome::Refused { at: Phase::Body, .. }), "{outcome:?}");
    assert!(waited && !connection.is_reusable());
}

#[tokio::test]
async fn long_answers_are_read_and_endless_ones_are_not() {
    let long = format!("250-{}\r\n", "long ".repeat(100));
    for phase in BEFORE_DOT.into_iter().chain([Phase::Dot]) {
        let code = match phase {
            Phase::Banner => 220,
            Phase::Data => 354,
            _ => 250,
        };
        let lines = format!("{}{code} end", long.repeat(15).replace("250-", &format!("{code}-")));
        let mut instead = vec![say(&lines)];
        let rest = all_well(false).into_iter().filter(|(at, _)| *at > phase);
        instead.extend(rest.flat_map(|(_, acts)| acts));
        let came = deliver(until(phase, false, instead), &small(), settings()).await;
        assert!(matches!(came, Came::Sent(Outcome::Accepted { .. }, true)), "{phase:?}: {came:?}");

        let (line, bytes) = (Act::Forever("250-more\r\n"), Act::Forever("250 more"));
        let unknown = |came: Came| {
            if phase == Phase::Dot { lost(&came) == Lost::Unknown } else { lost(&came) == Lost::Failed(phase) }
        };
        for endless in [line, bytes] {
            assert!(unknown(deliver(until(phase, false, vec![endless]), &small(), settings()).await), "{phase:?}");
        }
    }
}

#[tokio::test]
async fn pipelined_answers_may_come_in_any_pieces() {
    let answers = b"250-one\r\n250 ok\r\n250 2.1.5 ok\r\n354 go\r\n";
    for cut in 1..answers.len() {
        let (first, second) = answers.split_at(cut);
        let mut instead = vec![Act::Expect("RCPT"), Act::Expect("DATA"), Act::Raw(first.into())];
        instead.extend([Act::Wait(Duration::from_millis(2)), Act::Raw(second.into()), Act::Message, say("250 ok")]);
        let came = deliver(until(Phase::Mail, true, instead), &small(), settings()).await;
        assert!(matches!(came, Came::Sent(Outcome::Accepted { .. }, true)), "{cut}: {came:?}");
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_no_consent() {
    for (phase, answer, expected) in [
        (Phase::Banner, "354 go on", Lost::Refused(354, Phase::Banner)),
        (Phase::Mail, "354 go on", Lost::Failed(Phase::Mail)),
        (Phase::Rcpt, "354 go on", Lost::Failed(Phase::Rcpt)),
        (Phase::Data, "250 ok", Lost::Failed(Phase::Data)),
        (Phase::Dot, "354 go on", Lost::Unknown),
    ] {
        let came = deliver(until(phase, true, vec![say(answer)]), &small(), settings()).await;
        assert_eq!(lost(&came), expected, "{came:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let failure = connect(address).await.err().expect("nobody is there");
    assert_eq!((failure.at, failure.tls_failed, failure.is_permanent()), (Phase::Connect, false, false));
    assert!(failure.reason.contains(&address.to_string()), "{}", failure.reason);
}
