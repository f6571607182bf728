//! SMTP submission: what is handed in, by whom, and how it then travels. Issue 12, point 7.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn::credentials::Permission;
use posthorn::delivery::Engine;
use posthorn::submission;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::emails::shown;
use crate::harness::{TestApp, config, on_both};
use crate::sink::Sink;
use crate::store::Store;

const SOON: Duration = Duration::from_secs(20);

/// A process that takes mail by SMTP, on a port of its own.
pub struct Door {
    pub app: TestApp,
    pub address: SocketAddr,
    pub stop: watch::Sender<bool>,
    pub ended: JoinHandle<anyhow::Result<()>>,
}

impl Door {
    pub async fn open(store: &Store, settings: &[&str]) -> Door {
        let all = [&["--submission-listen=127.0.0.1:0"][..], settings].concat();
        let given = config(store, &all);
        let app = TestApp::open(store, &all).await;
        let listeners = submission::listen(&given).expect("a port");
        // Where both are listened on, the one that is encrypted from the first byte stands last.
        let shown = listeners.addresses().pop().expect("an address");
        let address = shown.rsplit('/').next().and_then(|address| address.parse().ok()).expect("an address");
        let (stop, stopping) = watch::channel(false);
        let ended = tokio::spawn(submission::run(listeners, app.app.emails().clone(), stopping));
        Door { app, address, stop, ended }
    }

    /// A connection that has been greeted.
    pub async fn visit(&self) -> Talk<TcpStream> {
        let mut talk = Talk(BufReader::new(TcpStream::connect(self.address).await.expect("a connection")));
        let greeting = talk.reply().await;
        assert!(greeting.starts_with("220 mail.example ESMTP"), "{greeting}");
        talk
    }

    /// One that has logged in with this key.
    pub async fn log_in(&self, key: &str) -> Talk<TcpStream> {
        let mut talk = self.visit().await;
        talk.expect(&[("EHLO client.example", 250), (&format!("AUTH PLAIN {}", plain("resend", key)), 235)]).await;
        talk
    }
}

pub fn plain(user: &str, key: &str) -> String {
    STANDARD.encode(format!("\0{user}\0{key}"))
}

/// A client's side of a dialogue.
pub struct Talk<S>(pub BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    /// A whole reply, or nothing where the server has hung up.
    pub async fn reply(&mut self) -> String {
        let mut reply = String::new();
        let read = async {
            loop {
                let start = reply.len();
                if self.0.read_line(&mut reply).await.unwrap_or_default() == 0
                    || reply.as_bytes()[start..].get(3) != Some(&b'-')
                {
                    break;
                }
            }
        };
        tokio::time::timeout(SOON, read).await.expect("a reply in time");
        reply
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref()).await;
        let _ = self.0.flush().await;
    }

    pub async fn say(&mut self, line: &str) -> String {
        self.write(format!("{line}\r\n")).await;
        self.reply().await
    }

    /// Says lines, each of which gets its code.
    pub async fn expect(&mut self, dialogue: &[(&str, u16)]) {
        for (line, code) in dialogue {
            let reply = self.say(line).await;
            assert_eq!(reply.get(..3), Some(code.to_string().as_str()), "{line}: {reply}");
        }
    }

    /// Hands in a message to these recipients, and tells the reply.
    pub async fn send(&mut self, to: &[&str], message: &str) -> String {
        self.expect(&[("MAIL FROM:<anybody@acme.example>", 250)]).await;
        for to in to {
            self.expect(&[(&format!("RCPT TO:<{to}>"), 250)]).await;
        }
        self.expect(&[("DATA", 354)]).await;
        self.write(format!("{message}.\r\n")).await;
        self.reply().await
    }

    /// What else the server says before it hangs up.
    pub async fn rest(mut self) -> String {
        let mut rest = String::new();
        let read = self.0.read_to_string(&mut rest);
        let _ = tokio::time::timeout(SOON, read).await.expect("the server hangs up");
        rest
    }
}

/// The id in the reply to a message that was taken.
pub fn queued(reply: &str) -> String {
    let id = reply.strip_prefix("250 2.0.0 Queued as ").unwrap_or_else(|| panic!("{reply}"));
    id.trim_end().to_owned()
}

pub const MESSAGE: &str = "From: Acme <hello@acme.example>\r\nTo: Ada <ada@example.com>\r\nSubject: Hello\r\n\
    Message-ID: <own@acme.example>\r\nDate: Fri, 2 Jan 2026 03:00:00 +0000\r\n\r\nHi\r\n";

on_both! {
    async fn issue_12_a_message_is_delivered_as_it_was_written(store: Store) {
        let sink = Sink::open().await;
        let door = Door::open(&store, &[&format!("--smtp-url={}", sink.url()), "--senders=any"]).await;
        let key = door.app.full_key().await;
        let made = door.app.post("/domains").key(&key).json(json!({"name": "acme.example"})).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        // As if its records had been seen.
        door.app.store.run("UPDATE dkim_keys SET seen_at = 0").await;
        let head = "X-First: =?utf-8?q?kept?=\r\nreturn-path: <a@b.example>\r\nFrom: Acme <hello@acme.example>\r\n\
            To: Ada <ada@example.com>,\r\n\tlist@example.com\r\nBcc: secret@example.com\r\nIdempotency-Key: k1\r\n";
        let message = format!("{head}Subject:  odd   spaces \r\n\r\n..a dot\r\n\r\n  body  \r\n\r\n");
        let mut talk = door.log_in(&key).await;
        let id = queued(&talk.send(&["ada@example.com", "secret@example.com", "ADA@example.com"], &message).await);

        let engine = Arc::new(
            Engine::new(door.app.app.occurrences().clone(), door.app.app.domains().clone()).expect("an engine"),
        );
        while engine.round().await.expect("a round") > 0 {}
        let kept = sink.kept();
        let mut to: Vec<&str> = kept.iter().map(|taken| taken.to.as_str()).collect();
        to.sort_unstable();
        assert_eq!(to, ["ada@example.com", "secret@example.com"]);
        assert_eq!(kept[0].text, kept[1].text, "each attempt is the same to the byte");
        let (signatures, rest) = kept[0].text.split_at(kept[0].text.find("Received:").expect("a trace"));
        assert!(signatures.starts_with("DKIM-Signature: v=1;"), "{signatures}");
        let trace = format!(
            "Received: from client.example\r\n\tby mail.example (Posthorn) with ESMTPA id {id};\r\n\t\
             Fri, 02 Jan 2026 03:04:05 +0000\r\n");
        let expected = format!(
            "{trace}X-First: =?utf-8?q?kept?=\r\nFrom: Acme <hello@acme.example>\r\n\
             To: Ada <ada@example.com>,\r\n\tlist@example.com\r\nSubject:  odd   spaces \r\n\
             Date: Fri, 02 Jan 2026 03:04:05 +0000\r\nMessage-ID: <{id}@acme.example>\r\n\r\n\
             ..a dot\r\n\r\n  body  \r\n\r\n.\r\n");
        assert_eq!(rest, expected);
        assert!(!kept[0].text.contains(&key[3..]), "the key is nowhere in it");
    }

    async fn issue_12_what_was_submitted_is_read_like_any_other_mail(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.full_key().await;
        let mut talk = door.log_in(&door.app.key(Permission::SendingAccess).await.secret).await;
        let message = "From: =?utf-8?q?J=C3=BCrg?= <hello@acme.example>\r\nTo: Ada <ada@example.com>\r\n\
            Cc: c@example.com\r\nReply-To: r@acme.example\r\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\r\n\
            Message-ID:\r\n <own@acme.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=x\r\n\r\n\
            --x\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\n\
            --x\r\nContent-Type: text/html\r\n\r\n<p>Hi</p>\r\n--x--\r\n";
        let id = queued(&talk.send(&["ada@example.com", "hidden@example.com"], message).await);
        let recipients = ["ada@example.com", "hidden@example.com"].map(|to| {
            json!({"to": to, "last_event": "queued", "waits_until": null,
                "reason": "It is next in its line. It goes as soon as a worker has room for it."})
        });
        assert_eq!(shown(&door.app, &key, &id).await, json!({
            "object": "email", "id": id, "message_id": "<own@acme.example>", "to": ["Ada <ada@example.com>"],
            "from": "Jürg <hello@acme.example>", "created_at": "2026-01-02T03:04:05.678901Z", "subject": "Grüße",
            "bcc": ["hidden@example.com"], "cc": ["c@example.com"], "reply_to": ["r@acme.example"],
            "last_event": "queued", "scheduled_at": null, "html": "<p>Hi</p>", "text": "Grüße", "tags": [],
            "topic_id": null,
            "recipients": recipients,
        }));
        let rows = door.app.store.rows("SELECT address, line FROM email_recipients ORDER BY number").await;
        let addresses: Vec<_> = rows.iter().map(|row| row[0].as_deref().expect("an address")).collect();
        assert_eq!(addresses, ["ada@example.com", "hidden@example.com"], "the envelope says who gets it");
        assert_eq!(door.app.store.value("SELECT origin FROM emails").await.as_deref(), Some("submission"));
        let list = door.app.get("/emails").key(&key).send().await.json();
        assert_eq!(list["data"][0]["message_id"], "<own@acme.example>");
    }

    async fn issue_12_a_key_logs_in_by_plain_and_by_login(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.key(Permission::SendingAccess).await;
        let (user, secret) = (STANDARD.encode("posthorn"), STANDARD.encode(&key.secret));
        for dialogue in [
            vec![(format!("AUTH PLAIN {}", plain("posthorn", &key.secret)), 235)],
            vec![("auth plain".into(), 334), (plain("Resend", &key.secret), 235)],
            vec![("AUTH LOGIN".into(), 334), (user.clone(), 334), (secret.clone(), 235)],
            vec![(format!("AUTH LOGIN {user}"), 334), (secret.clone(), 235)],
        ] {
            let mut talk = door.visit().await;
            talk.expect(&[("EHLO x", 250), ("MAIL FROM:<a@b.example>", 530)]).await;
            for (line, code) in &dialogue {
                talk.expect(&[(line, *code)]).await;
            }
            talk.expect(&[("AUTH LOGIN", 503), ("MAIL FROM:<a@b.example>", 250)]).await;
        }
        let mut open = door.log_in(&key.secret).await;
        door.app.delete_key(key.id).await;
        for wrong in [plain("posthorn", &key.secret), plain("root", &secret), plain("posthorn", "re_x"), plain("posthorn", "a.b.c")] {
            let mut talk = door.visit().await;
            talk.expect(&[("EHLO x", 250), (&format!("AUTH PLAIN {wrong}"), 535), ("MAIL FROM:<a@b.example>", 530)]).await;
        }
        let refused = open.send(&["ada@example.com"], MESSAGE).await;
        assert!(refused.starts_with("535 5.7.8"), "{refused}");
        open.expect(&[("MAIL FROM:<a@b.example>", 530)]).await;
        assert_eq!(door.app.count("emails").await, 0);
    }

    async fn issue_12_the_sender_is_judged_as_by_the_api(store: Store) {
        let door = Door::open(&store, &["--smtp-url=smtp://127.0.0.1:9"]).await;
        let key = door.app.full_key().await;
        let mut talk = door.log_in(&key).await;
        let refused = talk.send(&["ada@example.com"], MESSAGE).await;
        assert!(refused.starts_with("550 5.7.1") && refused.contains("acme.example"), "{refused}");
        let over_http = door.app.post("/emails").key(&key).json(crate::emails::mail()).send().await;
        let message = over_http.json()["message"].as_str().expect("a message").to_owned();
        assert!(refused.contains(&message), "{refused} / {message}");

        let captured = Door::open(&store, &[]).await;
        let made = captured.app.post("/domains").key(&key).json(json!({"name": "mine.example"})).send().await.json();
        let body = json!({"name": "k", "permission": "sending_access", "domain_id": made["id"]});
        let held = captured.app.post("/api-keys").key(&key).json(body).send().await.json();
        let mut talk = captured.log_in(held["token"].as_str().expect("a key")).await;
        let refused = talk.send(&["ada@example.com"], MESSAGE).await;
        assert!(refused.starts_with("550 5.7.1") && refused.contains("may only send from `mine.example`"), "{refused}");
        queued(&talk.send(&["ada@example.com"], &MESSAGE.replace("acme", "mine")).await);
    }

    async fn issue_12_a_message_that_is_sent_again_under_its_key_is_one(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.full_key().await;
        let mut talk = door.log_in(&key).await;
        let keyed = |more: &str| format!("Resend-Idempotency-Key: order 7\r\n{}", MESSAGE.replace("Hi\r\n", more));
        let id = queued(&talk.send(&["ada@example.com"], &keyed("Hi\r\n")).await);
        let again = keyed("Hi\r\n").replace("own@", "another@").replace("03:00:00", "04:00:00");
        assert_eq!(queued(&talk.send(&["ada@example.com"], &again).await), id, "programs write ids and dates anew");
        for (to, message) in [("ada@example.com", keyed("Ho\r\n")), ("bob@example.com", keyed("Hi\r\n"))] {
            let refused = talk.send(&[to], &message).await;
            assert!(refused.starts_with("554 5.6.0") && refused.contains("another body"), "{refused}");
        }
        let two = format!("Idempotency-Key: a\r\nResend-Idempotency-Key: b\r\n{MESSAGE}");
        assert!(talk.send(&["ada@example.com"], &two).await.starts_with("554 5.6.0"));
        assert_eq!(door.app.count("emails").await, 1);
        queued(&talk.send(&["ada@example.com"], MESSAGE).await);
        assert_eq!(door.app.count("emails").await, 2);
    }

    async fn issue_12_a_large_message_stands_in_pieces_and_travels_unchanged(store: Store) {
        let sink = Sink::open().await;
        let door = Door::open(&store, &[&format!("--smtp-url={}", sink.url()), "--senders=any"]).await;
        let key = door.app.full_key().await;
        let line = format!("{}\r\n", "0123456789".repeat(7));
        let body = line.repeat(20_000);
        let message = format!("Idempotency-Key: large\r\n{MESSAGE}{body}");
        let mut talk = door.log_in(&key).await;
        let id = queued(&talk.send(&["ada@example.com"], &message).await);
        assert_eq!(queued(&talk.send(&["ada@example.com"], &message).await), id);
        let pieces = door.app.store.value("SELECT COUNT(*) FROM email_chunks WHERE part = 2").await;
        assert_eq!(pieces.as_deref(), Some("6"), "a repeat leaves nothing behind");
        let engine = Engine::new(door.app.app.occurrences().clone(), door.app.app.domains().clone()).expect("an engine");
        Arc::new(engine).round().await.expect("a round");
        let kept = sink.kept();
        assert!(kept[0].text.ends_with(&format!("\r\nHi\r\n{body}.\r\n")), "{}", kept[0].text.len());
        assert_eq!(shown(&door.app, &key, &id).await["text"], Value::Null, "it is too long to be shown");
    }

    async fn issue_12_pieces_and_pipelining_come_to_the_same(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.full_key().await;
        let mut talk = door.log_in(&key).await;
        let (first, second) = MESSAGE.split_at(50);
        let second = format!("{second}.\r\n..\r\nend");
        let begin = "MAIL FROM:<> SIZE=300 BODY=8BITMIME\r\nRCPT TO:<ada@example.com>\r\n";
        let chunks = format!("BDAT {}\r\n{first}BDAT {} LAST\r\n{second}NOOP\r\n", first.len(), second.len());
        talk.write(format!("{begin}{chunks}")).await;
        for expected in ["250 2.1.0", "250 2.1.5", "250 2.0.0 50 bytes", "250 2.0.0 Queued as ", "250 2.0.0 Nothing"] {
            let reply = talk.reply().await;
            assert!(reply.starts_with(expected), "{expected}: {reply}");
        }
        let stored = door.app.store.value(match door.app.app.db.engine_name() {
            "postgres" => "SELECT encode(bytes, 'escape') FROM email_chunks",
            _ => "SELECT CAST(bytes AS TEXT) FROM email_chunks",
        }).await.expect("a message");
        assert!(stored.ends_with("end\r\n"), "{stored}");
        // What is refused is passed over to its last byte.
        talk.write(format!("BDAT {} LAST\r\n{second}MAIL FROM:<>\r\nBDAT 2 LAST\r\nhiRSET\r\n", second.len())).await;
        for expected in ["503", "250 2.1.0", "503", "250 2.0.0"] {
            let reply = talk.reply().await;
            assert!(reply.starts_with(expected), "{expected}: {reply}");
        }
        talk.write(format!("{begin}DATA\r\n")).await;
        talk.write(format!("{MESSAGE}.\r\nQUIT\r\n")).await;
        let said = talk.rest().await;
        assert!(said.starts_with("250 2.1.0") && said.contains("354 ") && said.ends_with("221 2.0.0 Goodbye.\r\n"), "{said}");
        assert_eq!(door.app.count("emails").await, 2);
    }

    async fn issue_12_while_the_store_refuses_writes_a_message_is_to_be_sent_later(store: Store) {
        let door = Door::open(&store, &[]).await;
        let mut talk = door.log_in(&door.app.full_key().await).await;
        door.app.store
            .run("INSERT INTO posthorn_migrations (position, name, fingerprint) VALUES (9999, '9999_future', 'x')")
            .await;
        let refused = talk.send(&["ada@example.com"], MESSAGE).await;
        assert!(refused.starts_with("451 4.3.0"), "{refused}");
        assert_eq!(door.app.count("emails").await, 0);
    }
}
