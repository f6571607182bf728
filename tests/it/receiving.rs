//! Mail that comes in by SMTP for domains that receive.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn::clock::DAY;
use posthorn::mime::{BodyHash, DkimKey, dkim_signature};
use posthorn::{inbound, receiving};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::automation_pages::{owner, page};
use crate::dns::Dns;
use crate::form_filling::{Filled, leads_to};
use crate::harness::{TestApp, config, on_both};
use crate::sending::Stage;
use crate::store::Store;
use crate::submission::Talk;

/// A process that receives for `in.example`.
struct Office {
    app: TestApp,
    key: String,
    address: SocketAddr,
    dns: Dns,
    _stop: watch::Sender<bool>,
}

impl Office {
    async fn open(store: &Store, settings: &[&str]) -> Office {
        let dns = Dns::start().await;
        let named = dns.setting();
        let all = [&["--inbound-listen=127.0.0.1:0", "--helo=mail.example", named.as_str()][..], settings].concat();
        let app = TestApp::open(store, &all).await;
        let key = app.full_key().await;
        let fields = json!({"name": "in.example", "capabilities": {"receiving": "enabled"}});
        let made = app.post("/domains").key(&key).json(fields).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        // As if its records had been seen.
        store.run("UPDATE domains SET is_owned = TRUE").await;
        let listeners = inbound::listen(&config(store, &all)).expect("a port");
        let shown = listeners.addresses().pop().expect("an address");
        let address = shown.rsplit('/').next().and_then(|address| address.parse().ok()).expect("an address");
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(inbound::run(listeners, app.app.receiving().clone(), stopping));
        Office { app, key, address, dns, _stop: stop }
    }

    async fn visit(&self) -> Talk<TcpStream> {
        let mut talk = Talk(BufReader::new(TcpStream::connect(self.address).await.expect("a connection")));
        assert!(talk.reply().await.starts_with("220 mail.example ESMTP"));
        talk.expect(&[("EHLO mx.sender.example", 250)]).await;
        talk
    }

    /// Brings a message, and tells the reply.
    async fn bring(&self, to: &[&str], message: impl AsRef<[u8]>) -> String {
        let mut talk = self.visit().await;
        talk.expect(&[("MAIL FROM:<ada@sender.example>", 250)]).await;
        for to in to {
            let reply = talk.say(&format!("RCPT TO:<{to}>")).await;
            if !reply.starts_with("250") {
                return reply;
            }
        }
        talk.expect(&[("DATA", 354)]).await;
        talk.write([message.as_ref(), b".\r\n"].concat()).await;
        talk.reply().await
    }

    /// The same, of one that is taken; its id.
    async fn take(&self, message: impl AsRef<[u8]>) -> String {
        taken(&self.bring(&["box@in.example"], message).await)
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.app.get(path).key(&self.key).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    async fn read(&self, id: &str) -> Value {
        self.get(&format!("/emails/receiving/{id}")).await
    }

    /// What a link leads to.
    async fn download(&self, link: &Value) -> Vec<u8> {
        let url = link["download_url"].as_str().expect("a link");
        let answer = self.app.get(url.strip_prefix("https://mail.example").expect("our own")).send().await;
        assert_eq!(answer.status, 200, "{url}: {}", answer.text());
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()), "{url}");
        answer.body.to_vec()
    }
}

fn taken(reply: &str) -> String {
    let id = reply.strip_prefix("250 2.0.0 Taken as ").unwrap_or_else(|| panic!("{reply}"));
    id.trim_end().to_owned()
}

const MESSAGE: &str = "From: Ada <ada@sender.example>\r\nTo: Box <box@in.example>\r\nCc: c@else.example\r\n\
    Reply-To: answers@sender.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMessage-ID: <2@sender.example>\r\n\
    References: <1@in.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=m\r\n\r\n\
    --m\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n\
    --a\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe\r\n\
    --a\r\nContent-Type: text/html\r\n\r\n<p>Hi <img src=\"cid:logo@x\"></p>\r\n--a--\r\n\
    --m\r\nContent-Type: image/png\r\nContent-ID: <logo@x>\r\nContent-Disposition: inline; filename=logo.png\r\n\
    Content-Transfer-Encoding: base64\r\n\r\niVBO\r\nRw==\r\n\
    --m\r\nContent-Type: text/csv; name=\"../rows.csv\"\r\nContent-Disposition: attachment\r\n\r\na,b\r\n--m--\r\n";

/// A message with a body.
fn plain(body: &str) -> String {
    format!(
        "From: Ada <ada@sender.example>\r\nTo: box@in.example\r\nSubject: Hello\r\nMessage-ID: <1@sender.example>\r\n\r\n{body}"
    )
}

on_both! {
    async fn issue_14_mail_for_a_domain_that_receives_is_kept_and_read(store: Store) {
        let office = Office::open(&store, &[]).await;
        let id = taken(&office.bring(&["Box@in.example", "hidden@IN.example", "box@in.example"], MESSAGE).await);
        let list = office.get("/emails/receiving").await;
        let [item] = &list["data"].as_array().expect("a list")[..] else { panic!("{list}") };
        let mail = office.read(&id).await;
        for (field, value) in [
            ("id", json!(id)),
            ("from", json!("Ada <ada@sender.example>")),
            ("to", json!(["Box <box@in.example>"])),
            ("cc", json!(["c@else.example"])),
            ("bcc", json!([])),
            ("reply_to", json!(["answers@sender.example"])),
            ("received_for", json!(["Box@in.example", "hidden@IN.example"])),
            ("subject", json!("Grüße")),
            ("message_id", json!("<2@sender.example>")),
            ("created_at", json!("2026-01-02T03:04:05.678901Z")),
        ] {
            assert_eq!((&item[field], &mail[field]), (&value, &value), "{field}");
        }
        assert!(item.get("html").is_none() && item.get("headers").is_none());
        assert_eq!((&mail["object"], &mail["text"]), (&json!("email"), &json!("Grüße")));
        assert_eq!(mail["html"], json!("<p>Hi <img src=\"data:image/png;base64,iVBORw==\"></p>"));
        let as_it_came = office.get(&format!("/emails/receiving/{id}?html_format=cid")).await;
        assert_eq!(as_it_came["html"], json!("<p>Hi <img src=\"cid:logo@x\"></p>"));
        assert_eq!(mail["headers"]["references"], json!("<1@in.example>"));
        assert_eq!(office.download(&mail["raw"]).await, MESSAGE.as_bytes());
        let shown: Vec<Value> = mail["attachments"].as_array().expect("files").clone();
        assert_eq!(shown[0]["filename"], json!("logo.png"));
        assert_eq!((&shown[0]["content_id"], &shown[0]["content_disposition"]), (&json!("logo@x"), &json!("inline")));
        assert_eq!((&shown[1]["filename"], &shown[1]["size"]), (&json!("rows.csv"), &json!(3)));

        let files = office.get(&format!("/emails/receiving/{id}/attachments")).await;
        let files = files["data"].as_array().expect("files");
        assert_eq!(files.len(), 2);
        for (file, content) in files.iter().zip([&b"a,b"[..], b"\x89PNG"]) {
            let path = format!("/emails/receiving/{id}/attachments/{}", file["id"].as_str().expect("an id"));
            let alone = office.get(&path).await;
            assert_eq!((&alone["object"], &alone["filename"]), (&json!("attachment"), &file["filename"]));
            assert_eq!(office.download(&alone).await, content);
        }
        let missing = format!("/emails/receiving/{id}/attachments/{id}");
        office.app.get(&missing).key(&office.key).send().await.refused(404, "not_found");
        let send_only = office.app.key(posthorn::credentials::Permission::SendingAccess).await.secret;
        office.app.get("/emails/receiving").key(&send_only).send().await.refused(401, "restricted_api_key");
    }

    async fn issue_14_mail_for_anybody_else_is_refused_at_rcpt(store: Store) {
        let office = Office::open(&store, &[]).await;
        let other = office.app.second_workspace_key().await;
        for (name, receiving) in [("deaf.example", "disabled"), ("unproven.example", "enabled")] {
            let fields = json!({"name": name, "capabilities": {"receiving": receiving}});
            assert_eq!(office.app.post("/domains").key(&other).json(fields).send().await.status, 201);
        }
        store.run("UPDATE domains SET is_owned = TRUE WHERE name = 'deaf.example'").await;
        for to in ["box@deaf.example", "box@unproven.example", "box@else.example", "box@sub.in.example"] {
            let reply = office.bring(&[to], MESSAGE).await;
            assert!(reply.starts_with("550 5.7.1 "), "{to}: {reply}");
        }
        assert_eq!(office.app.count("received_emails").await, 0);
        store.run("UPDATE domains SET is_owned = TRUE, receiving = TRUE").await;
        let reply = office.bring(&["box@in.example", "box@deaf.example"], MESSAGE).await;
        assert!(reply.starts_with("452 4.5.3 "), "of two workspaces one comes first: {reply}");
        let id = taken(&office.bring(&["box@deaf.example"], MESSAGE).await);
        let path = format!("/emails/receiving/{id}");
        assert_eq!(office.app.get(&path).key(&other).send().await.status, 200);
        office.app.get(&path).key(&office.key).send().await.refused(404, "not_found");
        for action in ["reply", "forward"] {
            let body = json!({"from": "a@in.example", "to": "b@example.com", "text": "x"});
            office.app.post(format!("{path}/{action}")).key(&office.key).json(body).send().await.refused(404, "not_found");
        }
        office.app.get(format!("{path}/attachments")).key(&office.key).send().await.refused(404, "not_found");
    }

    async fn issue_14_who_brings_a_mail_again_because_the_answer_was_lost_brings_it_once(store: Store) {
        let office = Office::open(&store, &[]).await;
        let large = plain(&format!("{}\r\n", "x".repeat(70)).repeat(6_000));
        for message in [plain("Hi\r\n"), large] {
            let before = office.app.count("received_emails").await;
            office.take(&message).await;
            let chunks = office.app.count("received_chunks").await;
            office.take(&message).await;
            assert_eq!(office.app.count("received_emails").await, before + 1);
            assert_eq!(office.app.count("received_chunks").await, chunks, "nothing of the second is left");
        }
        taken(&office.bring(&["other@in.example"], plain("Hi\r\n")).await);
        assert_eq!(office.app.count("received_emails").await, 3, "for somebody else it is another");
    }

    async fn issue_14_a_large_mail_comes_out_as_it_went_in(store: Store) {
        let office = Office::open(&store, &[]).await;
        let bytes: Vec<u8> = (0..900_000_u32).map(|number| (number * 7 % 251) as u8).collect();
        let encoded: Vec<u8> = STANDARD.encode(&bytes).into_bytes().chunks(76).flat_map(|line| [line, b"\r\n"].concat()).collect();
        let message = [
            b"From: ada@sender.example\r\nContent-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\n\r\nSee the file.\r\n--m\r\n\
              Content-Type: application/zip; name=a.zip\r\nContent-Transfer-Encoding: base64\r\n\r\n",
            &encoded[..],
            b"--m--\r\n",
        ]
        .concat();
        let id = office.take(&message).await;
        assert!(office.app.count("received_chunks").await > 4);
        let mail = office.read(&id).await;
        assert_eq!((&mail["text"], &mail["attachments"][0]["size"]), (&json!("See the file."), &json!(900_000)));
        assert_eq!(office.download(&mail["raw"]).await, message);
        let files = office.get(&format!("/emails/receiving/{id}/attachments")).await;
        assert!(office.download(&files["data"][0]).await == bytes, "the file is as it was");
    }

    async fn issue_14_what_is_broken_too_large_or_too_much_is_refused_in_the_dialogue(store: Store) {
        let office = Office::open(&store, &["--inbound-largest=1", "--limit-loopback", "--inbound-rate=9"]).await;
        let line = "x".repeat(70) + "\r\n";
        for (message, code) in [
            (plain("a\nb\r\n"), "554 5.6.0"),
            (plain("a\rb\r\n"), "554 5.6.0"),
            (plain("a\n.\nMAIL FROM:<eve@sender.example>\r\n"), "554 5.6.0"),
            (plain("a\0b\r\n"), "554 5.6.0"),
            ("Subject: x\r\n\r\nHi\r\n".to_owned(), "554 5.6.0"),
            (format!("From: eve@else.example\r\n{}", plain("Hi\r\n")), "554 5.6.0"),
            (format!("{}\r\n{}", "X-A: b\r\n".repeat(20_000), plain("Hi\r\n")), "554 5.6.0"),
            (format!("{}{}", "Received: x\r\n".repeat(101), plain("Hi\r\n")), "554 5.6.0"),
            (plain(&line.repeat(20_000)), "552 5.3.4"),
        ] {
            let reply = office.bring(&["box@in.example"], &message).await;
            assert!(reply.starts_with(code), "{}: {reply}", &message[..message.len().min(100)]);
        }
        let reply = office.visit_and_data().await;
        assert!(reply.starts_with("452 4.7.0 "), "{reply}");
        assert_eq!((office.app.count("received_emails").await, office.app.count("received_chunks").await), (0, 0));
    }

    async fn issue_14_a_workspace_receives_so_many_a_minute_and_others_are_served(store: Store) {
        let office = Office::open(&store, &["--received-rate=1"]).await;
        let other = office.app.second_workspace_key().await;
        let fields = json!({"name": "else.example", "capabilities": {"receiving": "enabled"}});
        assert_eq!(office.app.post("/domains").key(&other).json(fields).send().await.status, 201);
        store.run("UPDATE domains SET is_owned = TRUE").await;
        office.take(plain("One\r\n")).await;
        let reply = office.visit_and_data().await;
        assert!(reply.starts_with("452 4.7.0 "), "{reply}");
        taken(&office.bring(&["box@else.example"], plain("Two\r\n")).await);
        let refused = office.bring(&["box@nowhere.example"], plain("Three\r\n")).await;
        assert!(refused.starts_with("550 5.7.1 "), "{refused}");
        assert_eq!(office.app.count("received_emails").await, 2);
        // Whoever writes, and whatever becomes of it, is sent nothing: the dialogue says it all.
        assert_eq!(office.app.count("emails").await, 0);
    }

    async fn issue_14_odd_messages_are_kept_and_nothing_breaks(store: Store) {
        let office = Office::open(&store, &[]).await;
        let mut deep = String::from("From: ada@sender.example\r\n");
        for level in 0..10_000 {
            deep += &format!("Content-Type: multipart/mixed; boundary=x{level}\r\n\r\n--x{level}\r\n");
        }
        let many = "--a\r\nContent-Type: image/png\r\n\r\n\r\n".repeat(10_000);
        let odd: [Vec<u8>; 5] = [
            deep.into_bytes(),
            format!("From: ada@sender.example\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n{many}").into_bytes(),
            b"From: nobody at all\r\n\r\n\xff\xfe8-bit\r\n".to_vec(),
            b"From: ada@sender.example\r\nContent-Type: text/plain; charset=\"no-such\"\r\n\r\nHi\r\n".to_vec(),
            b"From: ada@sender.example\r\n".to_vec(),
        ];
        for message in odd {
            let id = office.take(&message).await;
            let mail = office.read(&id).await;
            assert!(mail["attachments"].as_array().expect("files").len() <= 256);
            assert_eq!(office.download(&mail["raw"]).await, message);
        }
        assert_eq!(office.get("/emails/receiving?limit=2").await["has_more"], json!(true));
    }

    async fn issue_14_received_mail_is_told_to_the_contact_who_wrote_it(store: Store) {
        let office = Office::open(&store, &[]).await;
        let stage = Stage::new(TestApp::open(&store, &[]).await).await;
        stage.automation(&[("trigger", json!({"event_name": "svc:email.received"})), ("contact_update", json!({"first_name": "x"}))]).await;
        office.take(plain("from a stranger\r\n")).await;
        assert_eq!((store.count("contacts").await, store.count("runs").await), (0, 0), "a stranger stays one");
        crate::contacts::add(&stage.app, &stage.key, json!({"email": "Ada@sender.example"})).await;
        let id = office.take(plain("from a contact\r\n")).await;
        let automatic = plain("away\r\n").replace("Subject:", "Auto-Submitted: auto-replied\r\nSubject:");
        office.take(automatic).await;
        assert_eq!(store.count("runs").await, 1, "what a program sends starts nothing");
        let payload = store.value("SELECT payload FROM occurrences WHERE name = 'svc:email.received' ORDER BY id LIMIT 1").await;
        let payload: Value = serde_json::from_str(&payload.expect("it happened")).expect("JSON");
        assert_eq!((&payload["email_id"], &payload["subject"]), (&json!(id), &json!("Hello")));
        assert_eq!((&payload["received_for"], &payload["authentication"]["dmarc"]["result"]), (&json!(["box@in.example"]), &json!("none")));
    }

    async fn issue_14_an_answer_refers_to_what_it_answers(store: Store) {
        let office = Office::open(&store, &[]).await;
        let id = office.take(MESSAGE).await;
        let path = format!("/emails/receiving/{id}/reply");
        let ask = |body: Value| office.app.post(&path).key(&office.key).header("Idempotency-Key", "k").json(body);
        let answer = ask(json!({"text": "Thanks"})).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let again = ask(json!({"text": "Thanks"})).send().await.json();
        assert_eq!(again, answer.json());
        assert_eq!(store.count("emails").await, 1);
        let sent = office.get(&format!("/emails/{}", answer.json()["id"].as_str().expect("an id"))).await;
        assert_eq!((&sent["from"], &sent["to"]), (&json!("box@in.example"), &json!(["answers@sender.example"])));
        assert_eq!((&sent["subject"], &sent["text"]), (&json!("Re: Grüße"), &json!("Thanks")));
        let envelope = store.value("SELECT envelope FROM emails").await.expect("a mail");
        let envelope: Value = serde_json::from_str(&envelope).expect("JSON");
        let headers = json!([["In-Reply-To", "<2@sender.example>"], ["References", "<1@in.example> <2@sender.example>"]]);
        assert_eq!(envelope["headers"], headers);
        office.app.post(&path).key(&office.key).json(json!({})).send().await.refused(422, "missing_required_field");
    }

    async fn issue_15_a_person_reads_and_answers_what_came_in(store: Store) {
        let office = Office::open(&store, &[]).await;
        let (app, cookie) = (&office.app, owner(&office.app).await);
        assert!(page(app, &cookie, "/received").await.contains("Nothing has come in."));
        let id = office.take(MESSAGE).await;
        let list = page(app, &cookie, "/received").await;
        assert!(list.contains(&format!("/received/{id}\"")) && list.contains("Grüße") && list.contains("box@in.example"), "{list}");
        let one = page(app, &cookie, &format!("/received/{id}")).await;
        for words in ["ada@sender.example", "answers@sender.example", "DMARC", "rows.csv", "The message as it came"] {
            assert!(one.contains(words), "{words}: {one}");
        }
        let see = async |path: &str| app.get(format!("/dashboard/received/{id}{path}")).header("cookie", &cookie).send().await;
        let html = see("/html").await;
        assert!(html.text().contains("data:image/png;base64,iVBORw=="), "{}", html.text());
        assert!(html.header("content-security-policy").is_some_and(|policy| policy.contains("sandbox")));
        assert_eq!(see("/source").await.body, MESSAGE.as_bytes());
        let files = &office.read(&id).await["attachments"];
        let file = files.as_array().and_then(|files| files.iter().find(|file| file["content_type"] == "text/csv")).expect("a file");
        assert_eq!(see(&format!("/attachments/{}", file["id"].as_str().expect("an id"))).await.text(), "a,b");
        assert_eq!(see("/attachments/01890000-0000-7000-8000-000000000000").await.status, 404);
        let wrong = Filled::of(&one, "/reply").with("from", "nobody").with("text", "Thanks").send(app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("f-from-error"), "{}", wrong.text());
        let again = Filled::of(&wrong.text(), "/reply");
        assert_eq!(again.value("text"), "Thanks", "what was typed stays");
        let form = again.with("from", "box@in.example");
        let sent = leads_to(&form.send(app, &cookie).await);
        assert_eq!(leads_to(&form.send(app, &cookie).await), sent, "sent twice, it is one mail");
        let answer = office.get(sent.strip_suffix("?sent").expect("the mail's page")).await;
        assert_eq!((&answer["to"], &answer["subject"]), (&json!(["answers@sender.example"]), &json!("Re: Grüße")));
        assert_eq!(answer["text"], "Thanks");
        app.assert_told(&["workspace.renamed", "email.answered"]).await;
    }

    async fn a_person_answers_with_all_that_the_api_takes(store: Store) {
        let office = Office::open(&store, &[]).await;
        let (app, cookie) = (&office.app, owner(&office.app).await);
        let id = office.take(MESSAGE).await;
        let one = page(app, &cookie, &format!("/received/{id}")).await;
        let form = Filled::of(&one, "/reply");
        assert_eq!(form.value("to"), "answers@sender.example", "where the mail wants answers");
        assert!(one.contains("<details class=\"fold\"><summary>HTML, copies"), "{one}");
        let silent = form.send(app, &cookie).await;
        assert!(silent.status == 422 && silent.text().contains("id=\"f-text-error\""), "{}", silent.text());
        let typed = [
            ("to", "ada@sender.example\nboss@example.com"),
            ("cc", "cc@example.com"),
            ("bcc", "bcc@example.com"),
            ("reply_to", "desk@in.example"),
            ("subject", "About rows"),
            ("html", "<p>Thanks</p>"),
            ("text", "Thanks"),
            ("scheduled_at", "in 1 hour"),
            ("headers", "X-Order 1041"),
        ];
        let form = typed.iter().fold(Filled::of(&silent.text(), "/reply"), |form, (name, value)| form.with(name, value));
        let wrong = form.send(app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("aria-describedby=\"f-headers-error\""), "{}", wrong.text());
        assert!(wrong.text().contains("<details class=\"fold\" open>"), "what is wrong is seen: {}", wrong.text());
        let again = Filled::of(&wrong.text(), "/reply");
        for (name, value) in typed {
            assert_eq!(again.value(name), value, "what was typed in {name} stays");
        }
        let sent = leads_to(&again.with("headers", "X-Order: 1041").send(app, &cookie).await);
        let answer = office.get(sent.strip_suffix("?sent").expect("the mail's page")).await;
        for (name, value) in [
            ("to", json!(["ada@sender.example", "boss@example.com"])),
            ("cc", json!(["cc@example.com"])),
            ("bcc", json!(["bcc@example.com"])),
            ("reply_to", json!(["desk@in.example"])),
            ("subject", json!("About rows")),
            ("html", json!("<p>Thanks</p>")),
            ("text", json!("Thanks")),
            ("last_event", json!("scheduled")),
        ] {
            assert_eq!(answer[name], value, "{name}: {answer}");
        }
        let envelope = store.value("SELECT envelope FROM emails").await.expect("a mail");
        let envelope: Value = serde_json::from_str(&envelope).expect("JSON");
        let headers = envelope["headers"].as_array().expect("headers");
        for header in [json!(["X-Order", "1041"]), json!(["In-Reply-To", "<2@sender.example>"])] {
            assert!(headers.contains(&header), "{header}: {envelope}");
        }
    }

    async fn a_person_forwards_with_all_that_the_api_takes(store: Store) {
        let office = Office::open(&store, &[]).await;
        let (app, cookie) = (&office.app, owner(&office.app).await);
        let id = office.take(MESSAGE).await;
        let form = Filled::of(&page(app, &cookie, &format!("/received/{id}/forward")).await, "/forward");
        let typed = [
            ("to", "team@example.com"),
            ("cc", "nobody"),
            ("bcc", "bcc@example.com"),
            ("reply_to", "desk@in.example"),
            ("subject", "Look"),
            ("html", "<p>Look at this.</p>"),
        ];
        let form = typed.iter().fold(form, |form, (name, value)| form.with(name, value));
        let wrong = form.send(app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("aria-describedby=\"f-cc-error\""), "{}", wrong.text());
        let again = Filled::of(&wrong.text(), "/forward");
        for (name, value) in typed {
            assert_eq!(again.value(name), value, "what was typed in {name} stays");
        }
        let sent = leads_to(&again.with("cc", "cc@example.com").send(app, &cookie).await);
        let path = sent.strip_suffix("?sent").expect("the mail's page");
        let mail = office.get(path).await;
        assert_eq!((&mail["cc"], &mail["bcc"]), (&json!(["cc@example.com"]), &json!(["bcc@example.com"])));
        assert_eq!((&mail["reply_to"], &mail["subject"]), (&json!(["desk@in.example"]), &json!("Look")));
        assert_eq!(mail["html"], "<p>Look at this.</p>");
        let files = office.get(&format!("{path}/attachments")).await;
        assert_eq!(files["data"][0]["filename"], "forwarded_message.eml", "with HTML of one's own it is attached");
    }

    async fn issue_15_a_person_sends_on_what_came_in(store: Store) {
        let office = Office::open(&store, &[]).await;
        let (app, cookie) = (&office.app, owner(&office.app).await);
        let id = office.take(MESSAGE).await;
        let path = format!("/received/{id}/forward");
        assert!(page(app, &cookie, &format!("/received/{id}")).await.contains(&format!("{path}\"")));
        let form = Filled::of(&page(app, &cookie, &path).await, "/forward");
        assert_eq!(form.value("from"), "box@in.example", "whom it was received for");
        let wrong = form.with("from", "nobody").with("to", "team@example.com\nboss@example.com").send(app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("f-from-error"), "{}", wrong.text());
        assert_eq!(store.count("email_chunks").await, 0, "what is refused leaves nothing behind");
        let form = Filled::of(&wrong.text(), "/forward").with("from", "box@in.example");
        assert_eq!(form.value("to"), "team@example.com\nboss@example.com", "what was typed stays");
        let sent = leads_to(&form.send(app, &cookie).await);
        assert_eq!(leads_to(&form.send(app, &cookie).await), sent, "sent twice, it is one mail");
        let mail = office.get(sent.strip_suffix("?sent").expect("the mail's page")).await;
        assert_eq!((&mail["subject"], &mail["to"]), (&json!("Grüße"), &json!(["team@example.com", "boss@example.com"])));
        assert_eq!(mail["html"], json!("<p>Hi <img src=\"cid:logo@x\"></p>"));
        let files = office.get(&format!("{}/attachments", sent.strip_suffix("?sent").expect("a page"))).await;
        assert_eq!(office.download(&files["data"][1]).await, b"\x89PNG");
        let form = Filled::of(&page(app, &cookie, &path).await, "/forward").with("to", "team@example.com");
        let sent = leads_to(&form.with("text", "Look at this.").send(app, &cookie).await);
        let mail = office.get(sent.strip_suffix("?sent").expect("the mail's page")).await;
        assert_eq!((&mail["subject"], &mail["text"]), (&json!("Fwd: Grüße"), &json!("Look at this.")));
        let files = office.get(&format!("{}/attachments", sent.strip_suffix("?sent").expect("a page"))).await;
        assert_eq!(office.download(&files["data"][0]).await, MESSAGE.as_bytes());
        let told = store.rows("SELECT action FROM audit_log WHERE via = 'session'").await;
        assert_eq!(told, vec![vec![Some("email.forwarded".to_owned())]; 2], "once each, however many pieces it has");
    }

    async fn issue_14_a_mail_is_forwarded_as_it_came_or_attached(store: Store) {
        let office = Office::open(&store, &[]).await;
        let id = office.take(MESSAGE).await;
        let forward = async |body: Value| {
            let path = format!("/emails/receiving/{id}/forward");
            let answer = office.app.post(path).key(&office.key).json(body).send().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.json()["id"].as_str().expect("an id").to_owned()
        };
        let addresses = json!({"from": "box@in.example", "to": "team@example.com"});
        let sent = forward(addresses.clone()).await;
        let mail = office.get(&format!("/emails/{sent}")).await;
        assert_eq!((&mail["subject"], &mail["text"]), (&json!("Grüße"), &json!("Grüße")));
        assert_eq!(mail["html"], json!("<p>Hi <img src=\"cid:logo@x\"></p>"));
        let files = office.get(&format!("/emails/{sent}/attachments")).await;
        assert_eq!((&files["data"][1]["content_id"], &files["data"][0]["filename"]), (&json!("logo@x"), &json!("rows.csv")));
        assert_eq!(office.download(&files["data"][1]).await, b"\x89PNG");
        let mut wrapped = addresses;
        wrapped["passthrough"] = json!(false);
        wrapped["text"] = json!("Look at this.");
        let sent = forward(wrapped).await;
        let mail = office.get(&format!("/emails/{sent}")).await;
        assert_eq!((&mail["subject"], &mail["text"]), (&json!("Fwd: Grüße"), &json!("Look at this.")));
        let files = office.get(&format!("/emails/{sent}/attachments")).await;
        let [file] = &files["data"].as_array().expect("files")[..] else { panic!("{files}") };
        assert_eq!((&file["filename"], &file["content_type"]), (&json!("forwarded_message.eml"), &json!("message/rfc822")));
        assert_eq!(office.download(file).await, MESSAGE.as_bytes());
    }

    async fn issue_14_spf_dkim_and_dmarc_are_told(store: Store) {
        let office = Office::open(&store, &[]).await;
        let key = DkimKey::generate_ed25519();
        office.dns.txt("sender.example", "v=spf1 include:_spf.sender.example -all");
        office.dns.txt("_spf.sender.example", "v=spf1 ip4:192.0.2.0/24 a:mx.sender.example ~all");
        office.dns.a("mx.sender.example", [127, 0, 0, 1]);
        office.dns.txt("s1._domainkey.sender.example", &key.dns_value());
        office.dns.txt("_dmarc.sender.example", "v=DMARC1; p=reject; adkim=s");
        let sign = |body: &str| {
            let message = plain(body);
            let (head, body) = message.split_once("\r\n\r\n").expect("a head");
            let mut hash = BodyHash::new();
            hash.push(body.as_bytes());
            let field = dkim_signature(&key, "sender.example", "s1", format!("{head}\r\n").as_bytes(), &hash.finish(), 1);
            format!("{}{message}", String::from_utf8(field).expect("ASCII"))
        };
        let told = async |message: String| office.read(&office.take(message).await).await["authentication"].clone();
        let pass = |domain: &str| json!({"result": "pass", "domain": domain});
        let domain = "sender.example";
        let found = told(sign("Hi  there \r\n \t\r\n\r\n")).await;
        assert_eq!(found, json!({"spf": pass(domain), "dkim": [pass(domain)], "dmarc": pass(domain)}));
        let found = told(sign("Hi\r\n").replace("Hello", "Hullo")).await;
        assert_eq!(found["dkim"], json!([{"result": "fail", "domain": domain}]));
        office.dns.forget("mx.sender.example");
        let found = told(plain("Hi there\r\n").replace("ada@sender.example", "eve@sender.example")).await;
        assert_eq!((&found["dkim"], &found["dmarc"]["domain"]), (&json!([]), &json!(domain)));
    }

    async fn issue_14_messages_are_kept_as_long_as_mail_is(store: Store) {
        let office = Office::open(&store, &[]).await;
        let id = office.take(MESSAGE).await;
        let raw = office.read(&id).await["raw"].clone();
        // As a process leaves it that died while it took one.
        let lost = format!("INSERT INTO received_chunks (email_id, number, bytes) VALUES ({}, 0, {})",
            store.id("01890000-0000-7000-8000-000000000001"), store.bytes("00"));
        store.run(&lost).await;
        receiving::sweep(&office.app.app).await.expect("a sweep");
        assert_eq!(store.count("received_chunks").await, 1, "what was lost is gone, what was taken is there");
        office.app.clock.advance(31 * DAY);
        receiving::sweep(&office.app.app).await.expect("a sweep");
        assert_eq!(store.count("received_chunks").await, 0);
        let mail = office.read(&id).await;
        assert_eq!((&mail["subject"], &mail["text"], &mail["raw"]), (&json!("Grüße"), &json!(null), &json!(null)));
        assert_eq!(mail["headers"], json!({}));
        let url = raw["download_url"].as_str().expect("a link");
        office.app.get(url.strip_prefix("https://mail.example").expect("ours")).send().await.refused(404, "not_found");
        let body = json!({"from": "box@in.example", "to": "team@example.com"});
        let path = format!("/emails/receiving/{id}/forward");
        office.app.post(path).key(&office.key).json(body).send().await.refused(404, "not_found");
    }
}

impl Office {
    /// As far as `DATA` of a message that is for us.
    async fn visit_and_data(&self) -> String {
        let mut talk = self.visit().await;
        talk.expect(&[("MAIL FROM:<ada@sender.example>", 250), ("RCPT TO:<box@in.example>", 250)]).await;
        talk.say("DATA").await
    }
}
