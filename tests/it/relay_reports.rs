//! What relays report by HTTP of mail that they were given: `POST /feedback/…`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn::clock::{HOUR, SECOND};
use posthorn::delivery::{Effect, Feedback};
use posthorn::id::EmailId;
use posthorn::reports;
use ring::hmac;
use serde_json::{Value, json};

use crate::broadcasts;
use crate::contacts::{add, read};
use crate::delivery::Post;
use crate::harness::{Answer, TestApp, on_both};
use crate::sink::Sink;
use crate::store::Store;

const KEY: &str = "key-of-mailgun-0001";
const SECRET: &str = "secret-of-postmark";

/// A process whose relay is told to report.
async fn post(store: &Store, sink: &Sink) -> Post {
    let relay = format!("--smtp-url={}", sink.url());
    let (mailgun, postmark) = (format!("--mailgun-signing-key={KEY}"), format!("--postmark-secret={SECRET}"));
    let settings = [&relay, "--smtp-timeout-factor=0.01", "--senders=any", &mailgun, &postmark];
    Post::open(store, &settings).await
}

/// Sends a mail, and tells what its relay knows it by.
async fn send(post: &Post, sink: &Sink, to: &[&str]) -> (EmailId, String) {
    let id = post.queue(&post.draft(to).await).await;
    post.round().await;
    let text = sink.kept().pop().expect("it left").text;
    let field = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    let mark = field("X-Posthorn-Mail");
    assert_eq!(field("X-Mailgun-Variables"), json!({"posthorn": mark}).to_string());
    assert_eq!(field("X-PM-Metadata-posthorn"), mark);
    (id, mark)
}

/// An event as Mailgun signs it.
async fn mailgun(app: &TestApp, key: &str, token: &str, event: Value) -> Answer {
    let seconds = app.clock.now() / SECOND;
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), format!("{seconds}{token}").as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = json!({"timestamp": seconds.to_string(), "token": token, "signature": signature});
    app.post("/feedback/mailgun").json(json!({"signature": signature, "event-data": event})).send().await
}

fn failed(mark: &str, to: &str) -> Value {
    json!({"event": "failed", "severity": "permanent", "recipient": to, "user-variables": {"posthorn": mark},
        "envelope": {"sender": "ann@sender.example"},
        "delivery-status": {"code": 550, "message": "5.1.1 no such user", "mx-host": "mx.example.com"}})
}

fn complained(mark: &str, to: &str) -> Value {
    json!({"RecordType": "SpamComplaint", "Type": "SpamComplaint", "Email": to, "Metadata": {"posthorn": mark}})
}

fn changed(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["changed"].clone()
}

async fn states(post: &Post, id: EmailId) -> Vec<i64> {
    post.recipients(id).await.into_iter().map(|(state, ..)| state).collect()
}

on_both! {
    async fn issue_14_what_mailgun_reports_is_about_the_recipient_of_the_mail_that_it_names(store: Store) {
        let sink = Sink::open().await;
        let post = post(&store, &sink).await;
        let (id, mark) = send(&post, &sink, &["ann@example.com", "Bob@example.com"]).await;
        assert_eq!(changed(&mailgun(&post.app, KEY, "1", failed(&mark, "bob@example.com")).await), json!(1));
        assert_eq!(states(&post, id).await, [40, 70]);
        let (kind, detail) = post.told(id).await.pop().expect("something");
        assert_eq!((kind.as_str(), &detail["to"], &detail["host"]), ("bounced", &json!("Bob@example.com"), &json!("mx.example.com")));
        let key = post.app.full_key().await;
        let entry = post.app.get("/suppressions/bob@example.com").key(&key).send().await.json();
        assert_eq!((&entry["origin"], &entry["source_id"]), (&json!("bounce"), &json!(id)));
        assert_eq!(changed(&mailgun(&post.app, KEY, "2", failed(&mark, "bob@example.com")).await), json!(0), "it is known");
    }

    async fn issue_14_a_report_that_proves_nothing_or_was_sent_before_changes_nothing(store: Store) {
        let sink = Sink::open().await;
        let post = post(&store, &sink).await;
        let (id, mark) = send(&post, &sink, &["ann@example.com", "bob@example.com"]).await;
        let told = post.told(id).await;
        let app = &post.app;
        mailgun(app, "another-key-of-0001", "1", failed(&mark, "bob@example.com")).await.refused(403, "invalid_access");
        let unsigned = json!({"event-data": failed(&mark, "bob@example.com")});
        app.post("/feedback/mailgun").json(unsigned).send().await.refused(400, "validation_error");
        // Nobody else's address, no address alone, and nothing that we have not signed.
        let elsewhere = Store::sqlite();
        let foreign = crate::relay_reports::post(&elsewhere, &sink).await;
        let (_, foreign_mark) = send(&foreign, &sink, &["bob@example.com"]).await;
        for (token, mark, to) in [
            ("2", mark.as_str(), "eve@example.com"),
            ("3", foreign_mark.as_str(), "bob@example.com"),
            ("4", &mark[1..], "bob@example.com"),
            ("5", id.to_string().as_str(), "bob@example.com"),
            ("6", "", "bob@example.com"),
        ] {
            assert_eq!(changed(&mailgun(app, KEY, token, failed(mark, to)).await), json!(0), "{token}");
        }
        assert_eq!((post.told(id).await, states(&post, id).await), (told, vec![40, 40]));
        // A signature is not over the event: who has seen one must not use it for another.
        assert_eq!(changed(&mailgun(app, KEY, "7", failed(&mark, "bob@example.com")).await), json!(1));
        for token in ["2", "7"] {
            let again = mailgun(app, KEY, token, failed(&mark, "ann@example.com")).await;
            assert!(again.refused(403, "invalid_access").contains("before"));
        }
        assert_eq!(states(&post, id).await, [40, 70]);
        app.clock.advance(40 * HOUR);
        app.app.db.commit(posthorn::relay_reports::sweep(app.clock.now())).await.expect("a sweep");
        assert_eq!(app.count("relay_tokens").await, 0, "what is too old to be believed need not be known");
        elsewhere.discard().await;
    }

    async fn issue_14_postmark_shows_its_secret_and_a_complaint_unsubscribes_the_contact(store: Store) {
        let sink = Sink::open().await;
        let post = post(&store, &sink).await;
        let app = &post.app;
        let key = app.full_key().await;
        for name in ["bob@example.com", "ann@example.com"] {
            add(app, &key, json!({"email": name})).await;
        }
        let (id, mark) = send(&post, &sink, &["bob@example.com", "ann@example.com"]).await;
        let body = complained(&mark, "bob@example.com");
        let basic = |secret: &str| format!("Basic {}", STANDARD.encode(format!("posthorn:{secret}")));
        for refused in [
            app.post("/feedback/postmark").json(body.clone()).send().await,
            app.post("/feedback/postmark/wrong").json(body.clone()).send().await,
            app.post("/feedback/postmark").header("authorization", basic("wrong")).json(body.clone()).send().await,
        ] {
            refused.refused(403, "invalid_access");
        }
        assert_eq!(states(&post, id).await, [40, 40]);
        let by_basic = app.post("/feedback/postmark").header("authorization", basic(SECRET)).json(body).send().await;
        assert_eq!(changed(&by_basic), json!(1));
        let by_address = app.post(format!("/feedback/postmark/{SECRET}"));
        let bounce = json!({"RecordType": "Bounce", "Type": "HardBounce", "Email": "ann@example.com",
            "Details": "smtp;550 5.1.1 gone", "Metadata": {"posthorn": mark}});
        assert_eq!(changed(&by_address.json(bounce).send().await), json!(1));
        assert_eq!(states(&post, id).await, [80, 70]);
        // An address that is gone says nothing of what its owner wants.
        for (name, unsubscribed) in [("bob@example.com", true), ("ann@example.com", false)] {
            assert_eq!(read(app, &key, name).await["unsubscribed"], json!(unsubscribed), "{name}");
            assert_eq!(app.get(format!("/suppressions/{name}")).key(&key).send().await.status, 200);
        }
    }

    async fn issue_14_amazon_names_the_return_path_or_what_we_wrote_into_the_mail(store: Store) {
        let sink = Sink::open().await;
        let relay = format!("--smtp-url={}", sink.url());
        let topic = "--ses-topic=arn:aws:sns:eu-west-1:123456789012:mail";
        let post = Post::open(&store, &[&relay, "--smtp-timeout-factor=0.01", "--senders=any", topic]).await;
        let key = post.app.full_key().await;
        let made = post.app.post("/domains").key(&key).json(json!({"name": "sender.example"})).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        store.run("UPDATE dkim_keys SET seen_at = 0").await;
        let feedback = Feedback::new(post.app.app.occurrences().clone());
        let notification = |mail: Value| json!({"notificationType": "Bounce", "mail": mail, "bounce": {
            "bounceType": "Permanent", "bounceSubType": "General",
            "bouncedRecipients": [{"emailAddress": "bob@example.com", "status": "5.1.1"}]}}).to_string();
        for by_path in [true, false] {
            let id = post.send("bob@example.com").await;
            store.run("DELETE FROM suppressions").await;
            post.round().await;
            let taken = sink.kept().pop().expect("it left");
            let mark = taken.text.lines().find_map(|line| line.strip_prefix("X-Posthorn-Mail: ")).expect("a mark");
            assert!(!taken.text.contains("X-Mailgun-Variables") && !taken.text.contains("X-PM-Metadata"));
            let mail = match by_path {
                true => json!({"source": taken.from, "headers": []}),
                false => json!({"source": "ann@sender.example", "headers": [{"name": "X-Posthorn-Mail", "value": mark}]}),
            };
            let found = reports::read_ses(&notification(mail));
            assert_eq!(feedback.take_relayed(&found[0], None).await.expect("taken"), Effect::Changed, "{by_path}");
            assert_eq!(post.state(id).await, 70);
        }
        let forged = json!({"Type": "Notification", "MessageId": "1", "TopicArn": "arn:aws:sns:eu-west-1:666666666666:mail",
            "Message": "{}", "Timestamp": "2026-01-02T03:04:05.678Z", "SignatureVersion": "2", "Signature": "AA==",
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem"});
        let refused = post.app.post("/feedback/ses").body("text/plain; charset=UTF-8", forged.to_string()).send().await;
        assert!(refused.refused(403, "invalid_access").contains("--ses-topic"));
    }

    async fn issue_14_a_recipient_of_a_broadcast_is_known_by_the_mail_of_his_own(store: Store) {
        let sink = Sink::open().await;
        let stage = broadcasts::Stage::of(post(&store, &sink).await, 2).await;
        stage.send(json!({})).await;
        stage.run().await;
        let taken = sink.kept().into_iter().find(|taken| taken.to == "p1@example.com").expect("a mail");
        let mark = taken.text.lines().find_map(|line| line.strip_prefix("X-Posthorn-Mail: ")).expect("a mark");
        // Whoever the relay says it was: the mail is one person's.
        assert_eq!(changed(&mailgun(&stage.post.app, KEY, "1", failed(mark, "elsewhere@example.com")).await), json!(1));
        let bounced = stage.post.app.store.rows("SELECT address FROM email_recipients WHERE state = 70").await;
        assert_eq!(bounced, [vec![Some("p1@example.com".to_owned())]]);
    }

    async fn issue_14_nobody_writes_a_mark_into_his_mail(app: TestApp) {
        let key = app.full_key().await;
        for name in ["X-Posthorn-Mail", "x-pm-metadata-Posthorn"] {
            let mail = json!({"from": "a@b.example", "to": "c@d.example", "subject": "x", "text": "x", "headers": {name: "aaaa"}});
            let told = app.post("/emails").key(&key).json(mail).send().await.refused(422, "validation_error");
            assert!(told.contains(name), "{told}");
        }
    }

    async fn issue_14_where_no_relay_is_set_up_to_report_there_is_nothing_to_post_to(app: TestApp) {
        for path in ["ses", "mailgun", "postmark", "postmark/secret-of-postmark"] {
            let answer = app.post(format!("/feedback/{path}")).json(json!({})).send().await;
            answer.refused(404, "not_found");
        }
    }

    async fn issue_14_a_report_that_is_too_large_is_refused(store: Store) {
        let sink = Sink::open().await;
        let post = post(&store, &sink).await;
        let large = json!({"RecordType": "Bounce", "Content": "x".repeat(1 << 20)});
        post.app.post(format!("/feedback/postmark/{SECRET}")).json(large).send().await.refused(413, "validation_error");
    }
}
