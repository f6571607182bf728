//! Relays that report on deliveries (RFC 3461): what they take is sent, and delivered when they say so. And a relay
//! that is another Posthorn, which takes a mail once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use posthorn::clock::{HOUR, MINUTE};
use posthorn::config::WhenUncertain;
use posthorn::emails::NewEmail;
use posthorn::id::EmailId;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::delivery::Post;
use crate::dns::Dns;
use crate::domains::{publish, verify};
use crate::engine_webhooks::Listener;
use crate::harness::{TestApp, on_both};
use crate::inbound::{Hall, report};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::submission::Door;
use crate::webhooks::Teller;

/// A relay, and what was said to it.
struct Relay {
    sink: Sink,
    said: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    /// What it does beside noting, where it offers to report.
    async fn reporting(does: impl Fn(&str) -> Does + Send + Sync + 'static) -> Relay {
        Relay::start(move |command| match command.starts_with("EHLO") {
            true => Does::Says("250-relay\r\n250-PIPELINING\r\n250-DSN\r\n250 8BITMIME"),
            false => does(command),
        })
        .await
    }

    async fn start(does: impl Fn(&str) -> Does + Send + Sync + 'static) -> Relay {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = said.clone();
        let note = move |command: &str| {
            log.lock().expect("the log").push(command.to_owned());
            does(command)
        };
        Relay { sink: Sink::scripted(note).await, said }
    }
}

fn said(log: &Mutex<Vec<String>>, command: &str) -> Vec<String> {
    log.lock().expect("the log").iter().filter(|said| said.starts_with(command)).cloned().collect()
}

/// Whether reports come to this process: it listens, and DNS leads to it.
#[derive(Clone, Copy, PartialEq)]
enum Hears {
    Everything,
    NoRecord,
    NoListener,
}

const LISTENS: &str = "--inbound-listen=127.0.0.1:0";

async fn hall(store: &Store, relay: Relay, hears: Hears, settings: &[&str]) -> (Hall, Arc<Mutex<Vec<String>>>) {
    let dns = Dns::start().await;
    let server = dns.setting();
    let mut all = vec![server.as_str()];
    all.extend((hears != Hears::NoListener).then_some(LISTENS));
    let hall = Hall::with(store, relay.sink, &[&all[..], settings].concat()).await;
    if hears != Hears::NoRecord {
        let key = hall.post.app.full_key().await;
        let all = hall.post.app.get("/domains").key(&key).send().await.json();
        let made = &all["data"][0];
        let domain = hall
            .post
            .app
            .get(format!("/domains/{}", made["id"].as_str().expect("an id")))
            .key(&key)
            .send()
            .await
            .json();
        publish(&dns, &domain);
        let seen = verify(&hall.post.app, &key, &domain).await;
        assert_eq!(seen["records"][0]["status"], "verified", "{seen}");
    }
    (hall, relay.said)
}

fn success() -> String {
    report("delivered", "2.0.0", "250 2.0.0 taken")
}

async fn numbers(app: &TestApp) -> (i64, i64) {
    let key = app.full_key().await;
    let totals = app.get("/emails/metrics").key(&key).send().await.json()["totals"].clone();
    let number = |name: &str| totals[name].as_i64().unwrap_or_else(|| panic!("{totals}"));
    (number("sent"), number("delivered"))
}

/// How far the recipient is, and the mail; and that nothing more is to be done.
async fn stands(post: &Post, id: EmailId) -> (i64, i64) {
    let recipients = post.recipients(id).await;
    let [(state, _, None, _)] = recipients[..] else { panic!("{recipients:?}") };
    (state, post.state(id).await)
}

on_both! {
    async fn decisions_7_what_a_relay_that_reports_takes_is_sent_and_delivered_when_it_says_so(store: Store) {
        let (hall, log) = hall(&store, Relay::reporting(|_| Does::Usual).await, Hears::Everything, &[]).await;
        let post = &hall.post;
        let stage = Stage::new(TestApp::open(&store, &[]).await).await;
        stage.automation(&[("trigger", json!({"event_name": "svc:email.delivered"})), ("contact_update", json!({"first_name": "x"}))]).await;
        crate::contacts::add(&stage.app, &stage.key, json!({"email": "bob+a@example.com"})).await;
        let teller = Teller::new(TestApp::open(&store, &["--private-webhooks", "--senders=any"]).await).await;
        let listener = Listener::new(&[200]).await;
        teller.webhook(&listener.url, &["email.sent", "email.delivered"]).await;
        let (id, path) = hall.send("bob+a@example.com").await;
        assert_eq!(said(&log, "MAIL"), [format!("MAIL FROM:<{path}> RET=HDRS ENVID={id}-0")]);
        let rcpt = "RCPT TO:<bob+a@example.com> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;bob+2Ba@example.com";
        assert_eq!(said(&log, "RCPT"), [rcpt]);
        assert_eq!((stands(post, id).await, post.types(id).await), ((20, 20), vec!["sent".to_owned()]));
        assert_eq!((numbers(&post.app).await, stage.app.count("runs").await), ((1, 0), 0));
        post.app.clock.advance(HOUR);
        assert_eq!(post.round().await, 0, "it is not sent again");

        let forged = format!("{}{}", if path.starts_with('a') { "b" } else { "a" }, &path[1..]);
        assert!(hall.bring("", &forged, &success()).await.starts_with("550 "));
        assert!(hall.bring("bob@example.com", &path, &success()).await.starts_with("554 "), "not from the null sender");
        assert_eq!(stands(post, id).await, (20, 20));
        for _ in 0..3 {
            assert_eq!(hall.bring("", &path, &success()).await, "250 2.0.0 Read.\r\n");
            assert_eq!((stands(post, id).await, numbers(&post.app).await), ((40, 40), (1, 1)));
            assert_eq!((post.types(id).await, stage.app.count("runs").await), (vec!["sent".to_owned(), "delivered".to_owned()], 1));
        }
        let told = post.told(id).await;
        assert_eq!((&told[1].1["via"], &told[1].1["host"]), (&json!("report"), &json!("mx.example.com")));
        teller.app.clock.advance(2 * HOUR);
        teller.deliver().await;
        let mut heard: Vec<Value> = listener.heard().iter().map(|(_, body)| serde_json::from_str(body).expect("JSON")).collect();
        heard.sort_by_key(|event| event["type"].to_string());
        assert_eq!(heard.iter().map(|event| event["type"].clone()).collect::<Vec<_>>(), ["email.delivered", "email.sent"]);
        hall.bring("", &path, &report("failed", "5.1.1", "550 5.1.1 no such user")).await;
        assert_eq!(stands(post, id).await, (70, 70), "what comes back later matters more");
    }

    async fn decisions_7_without_reports_a_relay_has_delivered_at_once(store: Store) {
        let (hall, log) = hall(&store, Relay::start(|_| Does::Usual).await, Hears::Everything, &[]).await;
        let (id, path) = hall.send("bob@example.com").await;
        assert_eq!((stands(&hall.post, id).await, hall.post.types(id).await), ((40, 40), vec!["sent".to_owned(), "delivered".to_owned()]));
        assert_eq!(hall.post.told(id).await[1].1, json!({"to": "bob@example.com", "via": "relay"}));
        assert!(said(&log, "MAIL")[0].starts_with(&format!("MAIL FROM:<{path}> SIZE=")) && !said(&log, "MAIL")[0].contains("ENVID"));
        assert_eq!(said(&log, "RCPT"), ["RCPT TO:<bob@example.com>"]);
    }

    async fn decisions_7_where_reports_do_not_come_here_none_is_asked_for_or_awaited(store: Store) {
        let (hall, log) = hall(&store, Relay::reporting(|_| Does::Usual).await, Hears::NoRecord, &[]).await;
        let (id, _) = hall.send("bob@example.com").await;
        assert_eq!(stands(&hall.post, id).await, (40, 40));
        assert_eq!(said(&log, "RCPT"), ["RCPT TO:<bob@example.com> ORCPT=rfc822;bob@example.com"]);
    }

    async fn decisions_7_who_does_not_listen_waits_for_nothing(store: Store) {
        let (hall, log) = hall(&store, Relay::reporting(|_| Does::Usual).await, Hears::NoListener, &[]).await;
        let (id, _) = hall.send("bob@example.com").await;
        assert_eq!(stands(&hall.post, id).await, (40, 40));
        assert_eq!(said(&log, "RCPT"), ["RCPT TO:<bob@example.com> ORCPT=rfc822;bob@example.com"]);
    }

    async fn decisions_7_a_setting_says_that_reports_are_awaited_or_that_none_is(store: Store) {
        let settings = &["--relay-delivered=reported"];
        let (hall_of_one, _) = hall(&store, Relay::start(|_| Does::Usual).await, Hears::NoListener, settings).await;
        let (id, path) = hall_of_one.send("bob@example.com").await;
        assert_eq!(stands(&hall_of_one.post, id).await, (20, 20), "however the relay will report it");
        hall_of_one.bring("", &path, &success()).await;
        assert_eq!(stands(&hall_of_one.post, id).await, (40, 40));

        let relay = Relay::reporting(|_| Does::Usual).await;
        let (url, log) = (format!("--smtp-url={}", relay.sink.url()), relay.said.clone());
        for (setting, is_asked, state) in [("reported", true, 20), ("at-once", false, 40)] {
            let setting = format!("--relay-delivered={setting}");
            let post = Post::open(&store, &[&url, &setting, LISTENS, "--senders=any"]).await;
            let id = post.send("bob@example.com").await;
            post.round().await;
            assert_eq!(stands(&post, id).await, (state, state), "{setting}");
            assert_eq!(said(&log, "RCPT").last().expect("one").contains("NOTIFY=SUCCESS"), is_asked, "{setting}");
        }
    }

    async fn decisions_7_people_get_no_reports_of_success(store: Store) {
        let relay = Relay::reporting(|_| Does::Usual).await;
        let (url, log) = (format!("--smtp-url={}", relay.sink.url()), relay.said.clone());
        let post = Post::open(&store, &[&url, "--relay-delivered=reported", LISTENS, "--senders=any"]).await;
        post.send("bob@example.com").await;
        post.round().await;
        assert!(said(&log, "MAIL")[0].starts_with("MAIL FROM:<ann@sender.example> "), "no domain was added");
        assert_eq!(said(&log, "RCPT"), ["RCPT TO:<bob@example.com> ORCPT=rfc822;bob@example.com"]);
    }

    async fn decisions_7_what_was_expanded_or_handed_on_to_who_reports_nothing_is_delivered(store: Store) {
        let (hall, _) = hall(&store, Relay::reporting(|_| Does::Usual).await, Hears::Everything, &[]).await;
        for (action, via) in [("relayed", "relay"), ("expanded", "report"), ("Delivered (to the mailbox)", "report")] {
            let (id, path) = hall.send("bob@example.com").await;
            hall.bring("", &path, &report("delayed", "4.4.1", "timed out")).await;
            assert_eq!(stands(&hall.post, id).await, (30, 30), "{action}");
            hall.bring("", &path, &report(action, "2.0.0", "250 ok")).await;
            assert_eq!(stands(&hall.post, id).await, (40, 40), "{action}");
            assert_eq!(hall.post.told(id).await.last().expect("something").1["via"], via, "{action}");
        }
    }

    async fn decisions_7_what_was_opened_before_that_was_reported_is_told_to_be_delivered_once(store: Store) {
        let (hall, _) = hall(&store, Relay::reporting(|_| Does::Usual).await, Hears::Everything, &[]).await;
        let (id, path) = hall.send("bob@example.com").await;
        for table in ["emails", "email_recipients"] {
            store.run(&format!("UPDATE {table} SET state = 50")).await;
        }
        for _ in 0..2 {
            hall.bring("", &path, &success()).await;
            assert_eq!((stands(&hall.post, id).await, numbers(&hall.post.app).await), ((50, 50), (1, 1)));
            assert_eq!(hall.post.types(id).await, ["sent", "delivered"]);
        }
    }

    async fn decisions_7_what_was_in_doubt_or_late_is_sent_once_a_relay_has_taken_it(store: Store) {
        let is_well = Arc::new(AtomicBool::new(false));
        let goes_well = is_well.clone();
        let relay = Relay::reporting(move |command| match command {
            _ if goes_well.load(Ordering::SeqCst) => Does::Usual,
            "." => Does::HangsUp,
            _ if command.starts_with("RCPT TO:<late@") => Does::Says("451 4.3.0 not now"),
            _ => Does::Usual,
        })
        .await;
        let (hall, _) = hall(&store, relay, Hears::Everything, &[]).await;
        let post = &hall.post;
        let (doubtful, late) = (post.send("bob@example.com").await, post.send("late@example.com").await);
        let both = post.queue(&post.draft(&["bob@example.com", "late@example.com"]).await).await;
        post.round().await;
        for _ in 0..4 {
            // Until it is told that they are late.
            store.run("UPDATE email_recipients SET due_at = 0 WHERE address = 'late@example.com'").await;
            post.round().await;
        }
        let states = async |id: EmailId| post.recipients(id).await.iter().map(|one| one.0).collect::<Vec<_>>();
        assert_eq!((states(doubtful).await, states(late).await, states(both).await), (vec![28], vec![30], vec![28, 30]));
        is_well.store(true, Ordering::SeqCst);
        store.run("UPDATE email_recipients SET due_at = 0 WHERE address = 'bob@example.com'").await;
        post.round().await;
        assert_eq!((states(doubtful).await, states(both).await, post.state(both).await), (vec![20], vec![20, 30], 30));
        store.run("UPDATE email_recipients SET due_at = 0 WHERE address = 'late@example.com'").await;
        post.round().await;
        for id in [doubtful, late] {
            assert_eq!(stands(post, id).await, (20, 20));
        }
        assert_eq!((states(both).await, post.state(both).await), (vec![20, 20], 20));
    }

    async fn reliability_3_another_posthorn_takes_a_mail_once_though_its_reply_was_lost(store: Store) {
        let elsewhere = Store::sqlite();
        let next = Door::open(&elsewhere, &["--senders=any"]).await;
        let (proxy, cuts) = forgetful(next.address).await;
        let url = format!("--smtp-url=smtp://posthorn:{}@{proxy}", next.app.full_key().await);
        let post = Post::open(&store, &[&url, "--senders=any"]).await;
        let new = NewEmail { when_uncertain: WhenUncertain::Hold, ..post.draft(&["bob@example.com", "eve@example.com"]).await };
        let id = post.queue(&new).await;
        cuts.store(true, Ordering::SeqCst);
        post.round().await;
        let states: Vec<i64> = post.recipients(id).await.iter().map(|one| one.0).collect();
        assert!(states.contains(&28), "{states:?}");
        for (state, _, due_at, _) in post.recipients(id).await {
            assert!(state == 40 || due_at.is_some(), "it can be brought again, though it would be held elsewhere");
        }
        cuts.store(false, Ordering::SeqCst);
        for _ in 0..3 {
            post.app.clock.advance(30 * MINUTE);
            post.round().await;
        }
        assert_eq!(post.recipients(id).await.iter().map(|one| one.0).collect::<Vec<_>>(), [40, 40]);
        assert_eq!(next.app.count("emails").await, 2, "one for each recipient");
        let heads = elsewhere.rows("SELECT address FROM email_recipients ORDER BY address").await;
        assert_eq!(heads, [[Some("bob@example.com".to_owned())], [Some("eve@example.com".to_owned())]]);
        elsewhere.discard().await;
    }
}

/// A way to a server that, while it is told to, loses what the server says of a message that it has taken.
async fn forgetful(server: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, cuts) = (listener.local_addr().expect("an address"), Arc::new(AtomicBool::new(false)));
    let is_cutting = cuts.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let is_cutting = is_cutting.clone();
            tokio::spawn(async move {
                let server = TcpStream::connect(server).await?;
                let ((client_in, mut client_out), (server_in, mut server_out)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(async move {
                    let mut client_in = client_in;
                    tokio::io::copy(&mut client_in, &mut server_out).await
                });
                let (mut replies, mut line) = (BufReader::new(server_in), String::new());
                while replies.read_line(&mut line).await? > 0 {
                    if line.contains("Queued as") && is_cutting.load(Ordering::SeqCst) {
                        return Ok::<(), std::io::Error>(());
                    }
                    client_out.write_all(line.as_bytes()).await?;
                    line.clear();
                }
                Ok(())
            });
        }
    });
    (address, cuts)
}
