//! What comes back by SMTP: reports at the return paths of mail that has left.

use std::net::SocketAddr;

use futures_util::future::join_all;
use posthorn::delivery::{Effect, Feedback};
use posthorn::id::EmailId;
use posthorn::{inbound, reports};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::delivery::Post;
use crate::harness::{TestApp, config, on_both};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::submission::Talk;

/// A process that sends mail and hears what became of it.
pub struct Hall {
    pub post: Post,
    pub sink: Sink,
    pub address: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl Hall {
    pub async fn open(store: &Store) -> Hall {
        Hall::with(store, Sink::open().await, &[]).await
    }

    pub async fn with(store: &Store, sink: Sink, settings: &[&str]) -> Hall {
        let relay = format!("--smtp-url={}", sink.url());
        let is_patient = settings.iter().any(|setting| setting.starts_with("--smtp-timeout-factor"));
        let hasty = if is_patient { None } else { Some("--smtp-timeout-factor=0.01") };
        let usual: Vec<&str> = [relay.as_str(), "--senders=any"].into_iter().chain(hasty).collect();
        let post = Post::open(store, &[&usual[..], settings].concat()).await;
        let key = post.app.full_key().await;
        let made = post.app.post("/domains").key(&key).json(json!({"name": "sender.example"})).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        // As if its records had been seen.
        store.run("UPDATE dkim_keys SET seen_at = 0").await;
        let (address, stop) = listen(store, &post.app);
        Hall { post, sink, address, _stop: stop }
    }

    /// Sends a mail, and tells where it came from.
    pub async fn send(&self, to: &str) -> (EmailId, String) {
        let id = self.post.send(to).await;
        let before = self.sink.kept().len();
        self.post.round().await;
        let kept = self.sink.kept();
        let from = kept.get(before).expect("it left").from.clone();
        assert!(from.ends_with("@send.sender.example"), "{from}");
        (id, from)
    }

    pub async fn visit(&self) -> Talk<TcpStream> {
        visit(self.address).await
    }

    /// Brings a message to an address, and tells the reply.
    pub async fn bring(&self, sender: &str, to: &str, message: &str) -> String {
        bring(self.address, sender, to, message).await
    }

    pub async fn suppressed(&self) -> Vec<Vec<Option<String>>> {
        self.post.app.store.rows("SELECT email, origin, reason FROM suppressions ORDER BY email").await
    }
}

/// Lets a process hear what comes by SMTP until the sender is dropped, and tells where.
pub fn listen(store: &Store, app: &TestApp) -> (SocketAddr, watch::Sender<bool>) {
    let listeners = inbound::listen(&config(store, &["--inbound-listen=127.0.0.1:0"])).expect("a port");
    let shown = listeners.addresses().pop().expect("an address");
    let address = shown.rsplit('/').next().and_then(|address| address.parse().ok()).expect("an address");
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(inbound::run(listeners, app.app.receiving().clone(), stopping));
    (address, stop)
}

async fn visit(address: SocketAddr) -> Talk<TcpStream> {
    let mut talk = Talk(BufReader::new(TcpStream::connect(address).await.expect("a connection")));
    assert!(talk.reply().await.starts_with("220 mail.example ESMTP"));
    talk.expect(&[("EHLO mx.example.com", 250)]).await;
    talk
}

/// Brings a message to an address, and tells the reply.
pub async fn bring(address: SocketAddr, sender: &str, to: &str, message: &str) -> String {
    let mut talk = visit(address).await;
    talk.expect(&[(&format!("MAIL FROM:<{sender}>"), 250)]).await;
    let reply = talk.say(&format!("RCPT TO:<{to}>")).await;
    if !reply.starts_with("250") {
        return reply;
    }
    talk.expect(&[("DATA", 354)]).await;
    talk.write(format!("{message}.\r\n")).await;
    talk.reply().await
}

/// A report by a mail server.
pub fn report(action: &str, status: &str, said: &str) -> String {
    format!(
        "From: MAILER-DAEMON@mx.example.com\r\nSubject: Undelivered\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n\
         Reporting-MTA: dns; mx.example.com\r\n\r\nFinal-Recipient: rfc822; bob@example.com\r\nAction: {action}\r\n\
         Status: {status}\r\nDiagnostic-Code: smtp; {said}\r\n\r\n--b--\r\n"
    )
}

pub fn complaint() -> String {
    "From: <loop@isp.example>\r\nMIME-Version: 1.0\r\n\
     Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\r\n\
     --b\r\nContent-Type: text/plain\r\n\r\nA reader complained.\r\n\r\n--b\r\nContent-Type: message/feedback-report\r\n\r\n\
     Feedback-Type: abuse\r\nUser-Agent: Loop/1\r\nVersion: 1\r\n\r\n--b--\r\n".to_owned()
}

pub fn gone() -> String {
    report("failed", "5.1.1", "550 5.1.1 no such user")
}

on_both! {
    async fn issue_14_a_report_of_a_failure_makes_a_mail_bounce_and_nobody_writes_there_again(store: Store) {
        let hall = Hall::open(&store).await;
        let post = &hall.post;
        let (id, path) = hall.send("Bob@example.com").await;
        assert_eq!(post.state(id).await, 40);
        let reply = hall.bring("", &path.to_uppercase(), &gone()).await;
        assert_eq!(reply, "250 2.0.0 Read.\r\n");
        assert_eq!((post.state(id).await, post.recipients(id).await[0].0), (70, 70));
        let told = post.told(id).await;
        let (kind, detail) = told.last().expect("something");
        assert_eq!((kind.as_str(), &detail["host"], &detail["to"]), ("bounced", &json!("mx.example.com"), &json!("Bob@example.com")));
        assert_eq!((&detail["bounce"]["type"], &detail["bounce"]["subType"]), (&json!("Permanent"), &json!("General")));
        assert_eq!(detail["bounce"]["diagnosticCode"], json!(["smtp; 550 5.1.1 no such user"]));
        let kept = ["Bob@example.com", "bounce", "550 5.1.1 no such user"].map(|text| Some(text.to_owned()));
        assert_eq!(hall.suppressed().await, [kept.to_vec()]);

        let again = hall.bring("", &path, &gone()).await;
        assert!(again.starts_with("250 "), "who repeats it need not bring it a third time: {again}");
        hall.bring("", &path, &report("delivered", "2.0.0", "250 ok")).await;
        assert_eq!(post.told(id).await.len(), told.len(), "what is known already changes nothing");
        assert_eq!(post.state(id).await, 70);
    }

    async fn issue_14_what_is_not_about_the_mailbox_bounces_and_suppresses_nobody(store: Store) {
        let hall = Hall::open(&store).await;
        for (status, said, kind, sub_type) in [
            ("5.7.1", "550 5.7.1 we do not like it", "Permanent", "ContentRejected"),
            ("5.2.2", "552 5.2.2 full", "Permanent", "MailboxFull"),
            ("4.4.1", "timed out", "Transient", "General"),
        ] {
            let (id, path) = hall.send("bob@example.com").await;
            hall.bring("", &path, &report("failed", status, said)).await;
            let told = hall.post.told(id).await;
            let (_, detail) = told.last().expect("something");
            assert_eq!((&detail["bounce"]["type"], &detail["bounce"]["subType"]), (&json!(kind), &json!(sub_type)));
            assert_eq!(hall.post.state(id).await, 70, "{status}");
        }
        assert!(hall.suppressed().await.is_empty());
    }

    async fn issue_14_a_complaint_outdoes_everything_and_ends_mail_to_who_complains(store: Store) {
        let hall = Hall::open(&store).await;
        let (id, path) = hall.send("bob@example.com").await;
        let reply = hall.bring("loop@isp.example", &path, &complaint()).await;
        assert_eq!((reply.as_str(), hall.post.state(id).await), ("250 2.0.0 Read.\r\n", 80));
        let told = hall.post.told(id).await;
        assert_eq!(told.last(), Some(&("complained".to_owned(), json!({"to": "bob@example.com",
            "complaint": {"type": "abuse", "userAgent": "Loop/1"}}))));
        assert_eq!(hall.suppressed().await[0][1].as_deref(), Some("complaint"));
        hall.bring("", &path, &gone()).await;
        assert_eq!((hall.post.state(id).await, hall.post.told(id).await.len()), (80, told.len()));
        assert_eq!(hall.suppressed().await.len(), 1);
        let next = hall.post.send("bob@example.com").await;
        hall.post.round().await;
        assert_eq!(hall.post.state(next).await, 64);
    }

    async fn issue_14_forged_and_foreign_tokens_and_all_other_addresses_are_refused_at_rcpt(store: Store) {
        let hall = Hall::open(&store).await;
        let (id, path) = hall.send("bob@example.com").await;
        let told = hall.post.told(id).await;
        let (token, domain) = path.split_once('@').expect("an address");
        let flip = |at: usize| {
            let letter = if &token[at..=at] == "a" { "b" } else { "a" };
            format!("{}{letter}{}@{domain}", &token[..at], &token[at + 1..])
        };
        let elsewhere = Store::sqlite();
        let (_, foreign) = Hall::open(&elsewhere).await.send("bob@example.com").await;
        let others = ["postmaster@mail.example", "bob@example.com", "a@send.sender.example"].map(str::to_owned);
        for to in [flip(0), flip(20), flip(44), foreign].into_iter().chain(others) {
            let reply = hall.bring("", &to, &gone()).await;
            assert!(reply.starts_with("550 5.7.1 "), "{to}: {reply}");
        }
        assert_eq!((hall.post.told(id).await, hall.post.state(id).await), (told, 40));
        elsewhere.discard().await;
    }

    async fn issue_14_what_is_no_report_is_refused_and_changes_nothing(store: Store) {
        let hall = Hall::open(&store).await;
        let (id, path) = hall.send("bob@example.com").await;
        let told = hall.post.told(id).await;
        let vacation = "From: bob@example.com\r\nAuto-Submitted: auto-replied\r\nSubject: Away\r\n\r\nStatus: 5.1.1\r\n";
        for (sender, message, code) in [
            ("", vacation.to_owned(), "554 5.6.0"),
            ("bob@example.com", vacation.to_owned(), "554 5.6.0"),
            ("bob@example.com", gone(), "554 5.7.1"),
            ("", gone().replace("Sorry.\r\n", "Sorry.\n"), "554 5.6.0"),
            ("", gone().replace("Sorry.", "Sorry.\n.\n"), "554 5.6.0"),
            ("", complaint().replace("abuse", "not-spam"), "250 2.0.0"),
        ] {
            let reply = hall.bring(sender, &path, &message).await;
            assert!(reply.starts_with(code), "{message}: {reply}");
        }
        let mut talk = hall.visit().await;
        talk.expect(&[("AUTH PLAIN AA==", 502), ("RCPT TO:<a@b.example>", 503), ("DATA", 503), ("NOOP", 250)]).await;
        talk.expect(&[("MAIL FROM:<>", 250), ("DATA", 503), (&format!("RCPT TO:<{path}>"), 250)]).await;
        talk.expect(&[(&format!("RCPT TO:<{path}>"), 452), ("RSET", 250), ("DATA", 503), ("QUIT", 221)]).await;
        assert_eq!((hall.post.told(id).await, hall.post.state(id).await), (told, 40));
        assert!(hall.suppressed().await.is_empty());
    }

    async fn issue_14_a_report_ends_what_nobody_knew_and_nothing_is_sent_again(store: Store) {
        let sink = Sink::scripted(|command| if command == "." { Does::HangsUp } else { Does::Usual }).await;
        let hall = Hall::with(&store, sink, &[]).await;
        for (message, state) in [(report("delivered", "2.0.0", "250 ok"), 40), (gone(), 70)] {
            let (id, path) = hall.send(&format!("{state}@example.com")).await;
            let [(28, 1, Some(_), _)] = &hall.post.recipients(id).await[..] else { panic!("it is uncertain") };
            hall.bring("", &path, &report("delayed", "4.0.0", "later")).await;
            assert_eq!(hall.post.recipients(id).await[0].0, 28, "what is late elsewhere decides nothing");
            hall.bring("", &path, &message).await;
            let [(found, _, None, _)] = &hall.post.recipients(id).await[..] else { panic!("it has ended") };
            assert_eq!((*found, hall.post.state(id).await), (state, state));
            hall.post.app.clock.advance(posthorn::clock::DAY);
            let before = hall.sink.kept().len();
            hall.post.round().await;
            assert_eq!(hall.sink.kept().len(), before);
        }
    }

    async fn issue_14_automations_hear_what_comes_back(store: Store) {
        let hall = Hall::open(&store).await;
        let stage = Stage::new(TestApp::open(&store, &[]).await).await;
        for name in ["svc:email.bounced", "svc:email.complained"] {
            stage.automation(&[("trigger", json!({"event_name": name})), ("contact_update", json!({"first_name": "x"}))]).await;
        }
        crate::contacts::add(&stage.app, &stage.key, json!({"email": "bob@example.com"})).await;
        let (id, path) = hall.send("bob@example.com").await;
        hall.bring("", &path, &gone()).await;
        hall.bring("loop@isp.example", &path, &complaint()).await;
        for name in ["svc:email.bounced", "svc:email.complained"] {
            let payload = store.value(&format!("SELECT payload FROM occurrences WHERE name = '{name}'")).await;
            let payload: Value = serde_json::from_str(&payload.expect("it happened")).expect("JSON");
            assert_eq!((&payload["email_id"], &payload["to"]), (&json!(id), &json!("bob@example.com")));
        }
        assert_eq!(stage.app.count("runs").await, 2);
    }

    async fn issue_14_of_reports_at_the_same_moment_the_highest_stays(store: Store) {
        let hall = Hall::open(&store).await;
        let feedback = Feedback::new(hall.post.app.app.occurrences().clone());
        let read = |text: String| reports::read(text.as_bytes(), true).expect("a report");
        let (delivered, failed, complained) = (read(report("delivered", "2.0.0", "ok")), read(gone()), read(complaint()));
        let mut mails = Vec::new();
        for number in 0..100 {
            let (id, path) = hall.send(&format!("{number}@example.com")).await;
            let token = feedback.open(path.split('@').next().expect("a token")).await.expect("a store").expect("ours");
            mails.push((id, token));
        }
        // As if a relay had taken them and said no more.
        for table in ["emails", "email_recipients"] {
            store.run(&format!("UPDATE {table} SET state = 20")).await;
        }
        let pairs = mails.iter().enumerate().flat_map(|(at, (_, token))| {
            let pair = match at % 3 {
                0 => [&delivered, &failed],
                1 => [&delivered, &complained],
                _ => [&failed, &complained],
            };
            pair.into_iter().map(|report| feedback.take(*token, report))
        });
        let effects = join_all(pairs).await;
        assert!(effects.iter().all(Result::is_ok), "{effects:?}");
        let told = store.rows("SELECT type FROM email_events WHERE type IN ('bounced', 'complained')").await;
        assert!(told.len() >= mails.len() && store.count("suppressions").await == 100, "{told:?}");
        let again = join_all(mails.iter().map(|(_, token)| feedback.take(*token, &delivered))).await;
        assert!(again.into_iter().all(|effect| effect.is_ok_and(|effect| effect == Effect::Nothing)));
        for (at, (id, _)) in mails.iter().enumerate() {
            let highest = if at % 3 == 0 { 70 } else { 80 };
            assert_eq!((hall.post.state(*id).await, hall.post.recipients(*id).await[0].0), (highest, highest), "{at}");
        }
    }

    async fn issue_14_a_complaint_unsubscribes_the_contact_in_the_same_commit_and_a_bounce_does_not(store: Store) {
        let hall = Hall::open(&store).await;
        let stage = Stage::new(TestApp::open(&store, &[]).await).await;
        stage.automation(&[("trigger", json!({"event_name": "svc:contact.unsubscribed"})), ("contact_update", json!({"first_name": "x"}))]).await;
        for name in ["bob@example.com", "ann@example.com"] {
            crate::contacts::add(&stage.app, &stage.key, json!({"email": name})).await;
        }
        let unsubscribed = async |name: &str| crate::contacts::read(&stage.app, &stage.key, name).await["unsubscribed"].clone();
        let (_, path) = hall.send("ann@example.com").await;
        hall.bring("", &path, &gone()).await;
        assert_eq!((unsubscribed("ann@example.com").await, hall.suppressed().await.len()), (json!(false), 1));
        let (id, path) = hall.send("Bob@example.com").await;
        hall.bring("loop@isp.example", &path, &complaint()).await;
        assert_eq!((unsubscribed("bob@example.com").await, hall.post.state(id).await), (json!(true), 80));
        let payload = store.value("SELECT payload FROM occurrences WHERE name = 'svc:contact.unsubscribed'").await;
        let payload: Value = serde_json::from_str(&payload.expect("it happened")).expect("JSON");
        assert_eq!((&payload["by"], &payload["email"]), (&json!("complaint"), &json!("bob@example.com")));
        // Who comes back is not sent away again by the same complaint.
        let back = stage.app.patch("/contacts/bob@example.com").key(&stage.key).json(json!({"unsubscribed": false}));
        assert_eq!(back.send().await.status, 200);
        hall.bring("loop@isp.example", &path, &complaint()).await;
        assert_eq!(unsubscribed("bob@example.com").await, json!(false));
    }

    async fn issue_14_complaints_of_one_contact_at_the_same_moment_all_count(store: Store) {
        let hall = Hall::open(&store).await;
        let key = hall.post.app.full_key().await;
        crate::contacts::add(&hall.post.app, &key, json!({"email": "bob@example.com"})).await;
        let mut paths = Vec::new();
        for _ in 0..10 {
            paths.push(hall.send("bob@example.com").await);
        }
        let complaint = complaint();
        let replies = join_all(paths.iter().map(|(_, path)| hall.bring("loop@isp.example", path, &complaint))).await;
        assert!(replies.iter().all(|reply| reply == "250 2.0.0 Read.\r\n"), "{replies:?}");
        for (id, _) in &paths {
            assert_eq!(hall.post.state(*id).await, 80);
        }
        assert_eq!(crate::contacts::read(&hall.post.app, &key, "bob@example.com").await["unsubscribed"], json!(true));
    }

    async fn issue_14_a_feedback_loop_writes_to_one_address_and_names_the_return_path(store: Store) {
        let loops = "fbl@mail.example";
        let hall = Hall::with(&store, Sink::open().await, &["--complaints-to=fbl@mail.example"]).await;
        let reported = |path: &str| complaint().replace("Version: 1\r\n", &format!("Version: 1\r\nOriginal-Mail-From: <{path}>\r\n"));
        let attached = |path: &str| complaint().replace("\r\n--b--",
            &format!("\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nReturn-Path: <{path}>\r\nSubject: Hello\r\n\r\nHi\r\n--b--"));
        let (first, path) = hall.send("bob@example.com").await;
        assert_eq!(hall.bring("loop@isp.example", "FBL@mail.example", &reported(&path)).await, "250 2.0.0 Read.\r\n");
        assert_eq!(hall.post.state(first).await, 80);
        let (second, path) = hall.send("ann@example.com").await;
        assert_eq!(hall.bring("", loops, &attached(&path)).await, "250 2.0.0 Read.\r\n");
        assert_eq!(hall.post.state(second).await, 80);

        let (third, path) = hall.send("eve@example.com").await;
        let told = hall.post.told(third).await;
        let forged = path.replacen(&path[..2], if path.starts_with("aa") { "bb" } else { "aa" }, 1);
        let by_id = complaint().replace("\r\n--b--",
            &format!("\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nMessage-ID: <{third}@sender.example>\r\nTo: eve@example.com\r\n\r\nHi\r\n--b--"));
        for message in [reported(&forged), attached("eve@example.com"), by_id, complaint()] {
            assert!(hall.bring("loop@isp.example", loops, &message).await.starts_with("250 "), "{message}");
        }
        let report = hall.bring("", loops, &gone()).await;
        assert!(report.starts_with("554 5.6.0 Only complaints"), "{report}");
        assert_eq!((hall.post.told(third).await, hall.post.state(third).await), (told, 40), "anybody can write there");
    }
}
