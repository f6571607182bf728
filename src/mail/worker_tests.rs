//! Messages on their way to a relay on this machine, which says what the test
//! wants it to say.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::smtp_delivery::{Outcome, SmtpDelivery};
use super::store::{self, Claimed};
use super::worker::{AT_ONCE, claim, deliver, settle};
use crate::clock::{Clock, HOUR, SECOND};
use crate::db::{DbError, Row, Sql};
use crate::hold;
use crate::id::MessageId;
use crate::product::Product;
use crate::testing::{NOW, Store};
use crate::work::{Claimable, next_due, under_lease};

/// A relay that keeps what it gets. `say` may answer a command otherwise.
struct Sink {
    url: String,
    kept: Arc<Mutex<Vec<String>>>,
}

type Say = dyn Fn(&str) -> Option<&'static str> + Send + Sync;

impl Sink {
    async fn open(say: impl Fn(&str) -> Option<&'static str> + Send + Sync + 'static) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("smtp://user:secret@{}", listener.local_addr().expect("an address"));
        let kept: Arc<Mutex<Vec<String>>> = Arc::default();
        let (say, keep): (Arc<Say>, _) = (Arc::new(say), kept.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, say.clone(), keep.clone()));
            }
        });
        Sink { url, kept }
    }

    fn kept(&self) -> Vec<String> {
        self.kept.lock().expect("messages").clone()
    }
}

async fn converse(stream: TcpStream, say: Arc<Say>, kept: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 sink\r\n").await?;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let usual = match line.split([' ', '\r']).next().unwrap_or_default() {
            "EHLO" => "250-sink\r\n250-AUTH PLAIN\r\n250 8BITMIME",
            "AUTH" => "235 welcome",
            "DATA" => "354 go on",
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        let answer = say(&line).unwrap_or(usual);
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
        if !answer.starts_with("354") {
            continue;
        }
        let mut letter = String::new();
        while !letter.ends_with("\r\n.\r\n") && stream.read_line(&mut letter).await? > 0 {}
        let answer = say(".").unwrap_or("250 taken");
        if answer.starts_with('2') {
            kept.lock().expect("messages").push(letter);
        }
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
}

async fn open(store: &Store, sink: &Sink, clock: &Clock) -> (Product, SmtpDelivery) {
    let settings = [format!("--smtp-url={}", sink.url), "--base-url=https://mail.example".into()];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let app = store.open(&settings, clock.clone()).await;
    let relay = app.config.smtp_url[0].clone();
    let smtp_delivery = SmtpDelivery::new(&relay, None, &app.addresses.base).expect("a smtp_delivery");
    (app, smtp_delivery)
}

/// Claims what is due and delivers it. Tells how much that was.
async fn round(app: &Product, smtp_delivery: &SmtpDelivery) -> Result<usize, DbError> {
    let claimed = claim(app, AT_ONCE).await?;
    join_all(claimed.iter().map(|message| deliver(app, smtp_delivery, message))).await;
    Ok(claimed.len())
}

async fn queue(app: &Product, recipient: &str) -> MessageId {
    let (id, now, due_at) = (app.clock.ordered_id(), app.clock.now(), app.clock.steady());
    let (subject, body, workspace_id) = ("Hello", "A line\n", uuid::Uuid::nil().into());
    let new = store::New { id, workspace_id, recipient, subject, body, captured: false, now, due_at };
    app.db.commit(store::insert(&new)).await.expect("a message");
    id
}

/// Status, attempt, whether it is due some time, and the error.
async fn state(app: &Product, id: MessageId) -> (String, i64, Option<i64>, Option<String>) {
    const STATE: Sql = Sql(&Sql::both("SELECT status, attempt, due_at, error FROM messages WHERE id = $1"));
    let rows = app.db.read(STATE.with([id.into()])).await.expect("a message");
    let row = rows.first().expect("a message");
    let due = row.maybe(2, |row, column| row.int(column)).expect("a time");
    let error = row.maybe(3, |row, column| row.text(column)).expect("an error");
    (row.text(0).expect("a status"), row.int(1).expect("an attempt"), due, error)
}

#[tokio::test]
async fn a_queued_message_reaches_the_relay_once() {
    for store in Store::each().await {
        let sink = Sink::open(|_| None).await;
        let clock = Clock::fixed(NOW);
        let (app, smtp_delivery) = open(&store, &sink, &clock).await;
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 0);
        let id = queue(&app, "owner@example.com").await;
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 1);
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 0);
        clock.advance(HOUR);
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 0);
        assert_eq!(state(&app, id).await, ("sent".into(), 1, None, None));
        let kept = sink.kept();
        assert!(kept.len() == 1 && kept[0].contains(&format!("Message-ID: <{id}@mail.example>")), "{kept:?}");
        drop(app);
        store.discard().await;
    }
}

#[tokio::test]
async fn a_relay_that_says_later_gets_the_same_message_later() {
    for store in Store::each().await {
        let busy = Arc::new(Mutex::new(Some("451 not now\u{7}")));
        let told = busy.clone();
        let sink =
            Sink::open(move |line| line.starts_with("RCPT").then(|| *told.lock().expect("told")).flatten()).await;
        let clock = Clock::fixed(NOW);
        let (app, smtp_delivery) = open(&store, &sink, &clock).await;
        let id = queue(&app, "owner@example.com").await;
        round(&app, &smtp_delivery).await.expect("a round");
        let (status, attempt, due, error) = state(&app, id).await;
        assert_eq!((status.as_str(), attempt), ("queued", 1));
        assert!((NOW + 20 * SECOND..NOW + 40 * SECOND).contains(&due.expect("a time")), "{due:?}");
        assert!(error.expect("an error").contains("not now"));
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 0, "not before it is due");

        *busy.lock().expect("told") = None;
        clock.advance(40 * SECOND);
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 1);
        assert_eq!(state(&app, id).await, ("sent".into(), 2, None, None));
        assert!(sink.kept()[0].contains(&format!("Message-ID: <{id}@mail.example>")));
        drop(app);
        store.discard().await;
    }
}

#[tokio::test]
async fn what_the_relay_refuses_for_good_fails_at_once_and_a_refused_login_does_not() {
    for (command, answer, expected) in [
        ("RCPT", "550 no such user", "failed"),
        ("MAIL", "553 not from you", "failed"),
        (".", "554 spam", "failed"),
        ("AUTH", "535 wrong password", "queued"),
        ("MAIL", "530 log in first", "queued"),
        ("EHLO", "421 closing", "queued"),
        (".", "452 disk full", "queued"),
    ] {
        let store = Store::each().await.remove(0);
        let sink = Sink::open(move |line| line.starts_with(command).then_some(answer)).await;
        let (app, smtp_delivery) = open(&store, &sink, &Clock::fixed(NOW)).await;
        let id = queue(&app, "owner@example.com").await;
        round(&app, &smtp_delivery).await.expect("a round");
        let (status, attempt, due, error) = state(&app, id).await;
        assert_eq!(
            (status.as_str(), attempt, due.is_some()),
            (expected, 1, expected == "queued"),
            "{command} {answer}"
        );
        assert!(error.expect("an error").contains(&answer[4..]), "{command} {answer}");
    }
}

#[tokio::test]
async fn nobody_listens_and_after_eight_attempts_a_message_has_failed() {
    for store in Store::each().await {
        let sink = Sink { url: "smtp://127.0.0.1:1".into(), kept: Arc::default() };
        let clock = Clock::fixed(NOW);
        let (app, smtp_delivery) = open(&store, &sink, &clock).await;
        let id = queue(&app, "owner@example.com").await;
        for attempt in 1..=8 {
            assert_eq!(state(&app, id).await.0, "queued", "attempt {attempt}");
            assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 1);
            clock.advance(8 * HOUR);
        }
        let (status, attempt, due, error) = state(&app, id).await;
        assert_eq!((status.as_str(), attempt, due), ("failed", 8, None));
        assert!(error.is_some_and(|error| !error.is_empty()));
        drop(app);
        store.discard().await;
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_written_to_fails_without_a_connection() {
    let store = Store::each().await.remove(0);
    let sink = Sink::open(|_| None).await;
    let (app, smtp_delivery) = open(&store, &sink, &Clock::fixed(NOW)).await;
    let id = queue(&app, "not an address").await;
    round(&app, &smtp_delivery).await.expect("a round");
    assert_eq!(state(&app, id).await.0, "failed");
    assert!(sink.kept().is_empty());
}

#[tokio::test]
async fn decisions_7_on_hold_no_message_is_sent() {
    for store in Store::each().await {
        let sink = Sink::open(|_| None).await;
        let clock = Clock::fixed(NOW);
        let (app, smtp_delivery) = open(&store, &sink, &clock).await;
        let id = queue(&app, "owner@example.com").await;
        app.db.commit(hold::set(&clock, "a test")).await.expect("a hold");
        for _ in 0..3 {
            assert!(matches!(round(&app, &smtp_delivery).await, Err(DbError::Stale)));
            clock.advance(HOUR);
        }
        assert_eq!((sink.kept().len(), state(&app, id).await.1), (0, 0), "not even tried");
        app.db.commit(hold::release()).await.expect("no hold");
        assert_eq!(round(&app, &smtp_delivery).await.expect("a round"), 1);
        assert_eq!(sink.kept().len(), 1);
        drop(app);
        store.discard().await;
    }
}

#[tokio::test]
async fn architecture_3_who_overslept_his_lease_writes_nothing() {
    for store in Store::each().await {
        let sink = Sink::open(|_| None).await;
        let clock = Clock::fixed(NOW);
        let (app, _) = open(&store, &sink, &clock).await;
        let id = queue(&app, "owner@example.com").await;
        let first: Vec<Claimed> = claim(&app, AT_ONCE).await.expect("a claim");
        assert!(first.len() == 1 && claim(&app, AT_ONCE).await.expect("a claim").is_empty());
        clock.advance(31 * SECOND);
        let second = claim(&app, AT_ONCE).await.expect("a claim");
        assert_eq!((second.len(), second[0].attempt), (1, 2));
        let late = settle(&app, &first[0], &Outcome::Never("late".into())).await;
        assert!(matches!(late, Err(DbError::Unexpected { .. })), "{late:?}");
        assert_eq!(state(&app, id).await.0, "queued");
        settle(&app, &second[0], &Outcome::Sent).await.expect("settled");
        let again = settle(&app, &first[0], &Outcome::Later("late".into())).await;
        assert!(matches!(again, Err(DbError::Unexpected { .. })), "{again:?}");
        assert_eq!(state(&app, id).await, ("sent".into(), 2, None, None));
        drop(app);
        store.discard().await;
    }
}

/// A message whose lease is short, so that it is soon renewed.
struct Brief;

impl Claimable for Brief {
    const QUEUE: &'static str = "brief";
    const LEASE: i64 = SECOND / 100;
    const NEXT: Sql = Claimed::NEXT;
    const CLAIM: Sql = Claimed::CLAIM;

    fn read(_: &Row) -> Result<Brief, DbError> {
        Ok(Brief)
    }
}

#[tokio::test]
async fn a_lease_is_renewed_for_as_long_as_a_delivery_lasts() {
    for store in Store::each().await {
        let sink = Sink::open(|_| None).await;
        let clock = Clock::fixed(NOW);
        let (app, _) = open(&store, &sink, &clock).await;
        let id = queue(&app, "owner@example.com").await;
        let message = claim(&app, AT_ONCE).await.expect("a claim").remove(0);
        assert_eq!(state(&app, id).await.2, Some(NOW + Claimed::LEASE));
        clock.advance(HOUR);
        let long = async {
            while state(&app, id).await.2 != Some(NOW + HOUR + Brief::LEASE) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let renew = |lease_until| store::renew(&message, lease_until);
        assert_eq!(under_lease::<Brief, _>((&app.db, &clock), renew, long).await, Some(()));
        assert!(claim(&app, AT_ONCE).await.expect("a claim").is_empty(), "it is still ours");
        drop(app);
        store.discard().await;
    }
}

#[tokio::test]
async fn a_delivery_whose_claim_was_lost_is_dropped_where_it_stands() {
    for store in Store::each().await {
        let sink = Sink::open(|_| None).await;
        let clock = Clock::fixed(NOW);
        let (app, _) = open(&store, &sink, &clock).await;
        queue(&app, "owner@example.com").await;
        let message = claim(&app, AT_ONCE).await.expect("a claim").remove(0);
        clock.advance(Claimed::LEASE);
        assert_eq!(claim(&app, AT_ONCE).await.expect("a claim").len(), 1, "by another worker");
        let renew = |lease_until| store::renew(&message, lease_until);
        let endless = std::future::pending::<()>();
        assert_eq!(under_lease::<Brief, _>((&app.db, &clock), renew, endless).await, None);
        drop(app);
        store.discard().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn architecture_3_several_processes_share_the_work_and_send_each_message_once() {
    for store in Store::each().await {
        let sink = Sink::open(|_| None).await;
        let clock = Clock::fixed(NOW);
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(open(&store, &sink, &clock).await);
        }
        for number in 0..60 {
            queue(&processes[0].0, &format!("owner{number}@example.com")).await;
        }
        let work = processes.into_iter().map(|(app, smtp_delivery)| {
            tokio::spawn(async move {
                while next_due::<Claimed>(&app.db).await.expect("a look").is_some_and(|due| due <= NOW) {
                    round(&app, &smtp_delivery).await.expect("a round");
                }
            })
        });
        futures_util::future::join_all(work).await.into_iter().for_each(|done| done.expect("no panic"));
        let mut to: Vec<String> = sink
            .kept()
            .iter()
            .filter_map(|letter| letter.lines().find(|line| line.starts_with("To: ")).map(str::to_owned))
            .collect();
        to.sort();
        to.dedup();
        assert_eq!((sink.kept().len(), to.len()), (60, 60));
        store.discard().await;
    }
}
