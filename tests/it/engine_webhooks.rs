//! The step that calls the outside, and what it calls.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn::clock::SECOND;
use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::store::Store;

/// A request as it came: its head in lower case, and its body.
pub type Heard = (String, String);

/// Somebody who listens: what came, and a status for each, the last for all after.
pub struct Listener {
    pub url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Listener {
    pub async fn new(statuses: &'static [u16]) -> Listener {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook?x=1", socket.local_addr().expect("an address"));
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let log = heard.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = socket.accept().await {
                let request = read(&mut stream).await;
                let count = {
                    let mut log = log.lock().expect("a lock");
                    log.push(request);
                    log.len()
                };
                let status = statuses[(count - 1).min(statuses.len() - 1)];
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Listener { url, heard }
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("a lock").clone()
    }
}

async fn read(stream: &mut tokio::net::TcpStream) -> Heard {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = header(&head, "content-length").parse::<usize>().unwrap_or(0);
            if body.len() >= length {
                return (head, body.to_owned());
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&more[..count]),
            _ => return (text, String::new()),
        }
    }
}

pub fn header(head: &str, name: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default().to_owned()
}

/// As a receiver verifies it, from the documentation of the notation.
pub fn is_signed(secret: &str, (head, body): &Heard, signature: &str) -> bool {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a prefix")).expect("base64");
    let content = format!("{}.{}.{body}", header(head, "webhook-id"), header(head, "webhook-timestamp"));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), content.as_bytes());
    format!("v1,{}", STANDARD.encode(tag)).to_lowercase() == signature
}

async fn stage(store: &Store, settings: &[&str]) -> Stage {
    Stage::new(TestApp::open(store, settings).await).await
}

on_both! {
    async fn a_call_is_signed_and_tried_again_until_it_is_heard(store: Store) {
        let listener = Listener::new(&[500, 404, 200]).await;
        let stage = stage(&store, &["--private-webhooks"]).await;
        let body = json!({"plan": {"var": "event.plan"}, "to": {"var": "contact.email"}});
        let automation = stage.automation(&[Stage::trigger(), ("webhook", json!({"url": listener.url, "body": body})),
            ("contact_update", json!({"first_name": "Called"}))]).await;
        stage.send("user.created", "a@example.com", json!({"plan": "pro"})).await;
        for (calls, reason, pause) in [(1, "the answer was 500", 5 * SECOND), (2, "the answer was 404", 25 * SECOND)] {
            stage.work().await;
            assert_eq!(listener.heard().len(), calls);
            let run = stage.run(&automation).await;
            assert_eq!(statuses(&run), ["completed", "running", "pending"]);
            assert_eq!(run["steps"][1]["error"], json!({"message": reason, "attempt": calls}));
            stage.app.clock.advance(pause - 1);
            stage.work().await;
            assert_eq!(listener.heard().len(), calls, "not before its time");
            stage.app.clock.advance(1);
        }
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], &run["steps"][1]["output"]), (&json!("completed"), &json!({"status": 200})));
        assert_eq!(stage.get("/contacts/a@example.com").await["first_name"], "Called");
        let heard = listener.heard();
        let secret = stage.get(&format!("/automations/{automation}")).await["webhook_secret"].as_str().expect("a secret").to_owned();
        let ids: Vec<String> = heard.iter().map(|(head, _)| header(head, "webhook-id")).collect();
        assert_eq!(ids, [ids[0].as_str(); 3], "the same call, three times");
        for call in &heard {
            assert!(call.0.starts_with("post /hook?x=1 http/1.1"), "{}", call.0);
            assert!(is_signed(&secret, call, &header(&call.0, "webhook-signature")), "{}", call.0);
            assert!(!is_signed(&secret, &(call.0.clone(), "{}".into()), &header(&call.0, "webhook-signature")));
            let body: Value = serde_json::from_str(&call.1).expect("JSON");
            assert_eq!(body, json!({"plan": "pro", "to": "a@example.com"}));
        }
    }

    async fn a_call_that_nobody_hears_fails_its_run_and_can_be_tried_again(store: Store) {
        let listener = Listener::new(&[503, 503, 503, 503, 503, 503, 204]).await;
        let stage = stage(&store, &["--private-webhooks"]).await;
        let automation = stage.automation(&[Stage::trigger(), ("webhook", json!({"url": listener.url}))]).await;
        stage.send("user.created", "a@example.com", json!({"plan": "pro"})).await;
        for _ in 0..6 {
            stage.work().await;
            stage.app.clock.advance(3600 * SECOND);
        }
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], &run["steps"][1]["error"]["message"]), (&json!("failed"), &json!("the answer was 503")));
        assert_eq!(listener.heard().len(), 6);
        let path = format!("/automations/{automation}/runs/{}/retry", run["id"].as_str().expect("an id"));
        assert_eq!(stage.post(&path, json!({})).await.status, 200);
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        let heard = listener.heard();
        let body: Value = serde_json::from_str(&heard[6].1).expect("JSON");
        assert_eq!((&body["event"]["plan"], &body["contact"]["email"]), (&json!("pro"), &json!("a@example.com")));
    }

    async fn addresses_of_this_network_are_called_only_where_that_is_allowed(app: TestApp) {
        let listener = Listener::new(&[200]).await;
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("webhook", json!({"url": listener.url}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        let reason = run["steps"][1]["error"]["message"].as_str().expect("a reason");
        assert!(reason.contains("--private-webhooks"), "{reason}");
        assert!(listener.heard().is_empty());
    }

    /// It is ended while it waits for its next try.
    async fn the_event_that_ends_a_run_ends_its_calls(store: Store) {
        let listener = Listener::new(&[500]).await;
        let stage = stage(&store, &["--private-webhooks"]).await;
        let steps = [Stage::trigger(), ("webhook", json!({"url": listener.url}))];
        let automation = stage.automation_with(&steps, json!({"exit_on": "cancelled"})).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        stage.send("cancelled", "a@example.com", json!({})).await;
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "cancelled");
        stage.app.clock.advance(3600 * SECOND);
        stage.work().await;
        assert_eq!(listener.heard().len(), 1);
    }

    /// Forty runs to a host that is not there, and one to a host that is.
    async fn a_host_that_does_not_answer_keeps_nobody_else_waiting(store: Store) {
        let there = Listener::new(&[200]).await;
        let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
        let stage = stage(&store, &["--private-webhooks"]).await;
        stage.app.event(&stage.key, json!({"name": "other"})).await;
        let lost = stage.automation(&[Stage::trigger(), ("webhook", json!({"url": format!("http://{gone}/")}))]).await;
        let other = [("trigger", json!({"event_name": "other"})), ("webhook", json!({"url": there.url}))];
        let other = stage.automation(&other).await;
        for at in 0..40 {
            stage.send("user.created", &format!("u{at}@example.com"), json!({})).await;
        }
        stage.work().await;
        let called = "SELECT COUNT(*) FROM runs WHERE state LIKE '%\"attempt\":1}%'";
        assert_eq!(store.value(called).await.as_deref(), Some("16"), "as many as may call at once; then nobody calls");
        stage.send("other", "a@example.com", json!({})).await;
        stage.work().await;
        assert_eq!(stage.run(&other).await["status"], "completed");
        let claims = "SELECT SUM(attempt) FROM runs";
        let before = store.value(claims).await;
        for _ in 0..4 {
            stage.app.clock.advance(SECOND);
            stage.work().await;
        }
        assert_eq!(store.value(claims).await, before, "who waits is left alone");
        stage.app.clock.advance(SECOND);
        stage.work().await;
        assert_eq!(store.value(called).await.as_deref(), Some("17"), "one call tells whether the host is back");

        let waiting = store.value("SELECT id FROM runs WHERE state NOT LIKE '%attempt\":1}%' AND destination IS NOT NULL ORDER BY id DESC").await;
        let told = stage.get(&format!("/automations/{lost}/runs/{}", waiting.expect("a run"))).await;
        let told = &told["steps"][1]["output"]["waiting"];
        assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("6 calls in a row")), "{told}");
        assert_eq!(told["until"], "2026-01-02T03:04:20.678901Z", "twice the first pause");

        // It is back: one call finds out, and all the others follow.
        let back = TcpListener::bind(gone).await.expect("the same port");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = back.accept().await {
                read(&mut stream).await;
                let _ = stream.write_all(b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n").await;
            }
        });
        stage.app.clock.advance(30 * SECOND);
        stage.work().await;
        let done = "SELECT COUNT(*) FROM runs WHERE status = 'completed'";
        assert_eq!(store.value(done).await.as_deref(), Some("41"));
        assert_eq!(store.count("call_pauses").await, 0);
    }

    async fn a_run_that_waited_a_day_for_its_host_is_given_up(store: Store) {
        let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
        let stage = stage(&store, &["--private-webhooks"]).await;
        stage.automation(&[Stage::trigger(), ("webhook", json!({"url": format!("http://{gone}/")}))]).await;
        for at in 0..20 {
            stage.send("user.created", &format!("u{at}@example.com"), json!({})).await;
        }
        stage.work().await;
        stage.app.clock.advance(25 * 3600 * SECOND);
        stage.work().await;
        let reasons = "SELECT COUNT(*) FROM runs WHERE status = 'failed' AND state LIKE '%not answered for a day%'";
        // One of them makes the call that finds out that nobody answers even now.
        assert_eq!(store.value(reasons).await.as_deref(), Some("19"));
    }

    /// It waits for a host that is not called at the moment.
    async fn the_event_that_ends_a_run_ends_its_wait_for_a_host(store: Store) {
        let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
        let stage = stage(&store, &["--private-webhooks"]).await;
        let steps = [Stage::trigger(), ("webhook", json!({"url": format!("http://{gone}/")}))];
        stage.automation_with(&steps, json!({"exit_on": "cancelled"})).await;
        for at in 0..20 {
            stage.send("user.created", &format!("u{at}@example.com"), json!({})).await;
        }
        stage.work().await;
        for at in 0..20 {
            stage.send("cancelled", &format!("u{at}@example.com"), json!({})).await;
        }
        stage.work().await;
        assert_eq!(store.value("SELECT COUNT(*) FROM runs WHERE status = 'cancelled'").await.as_deref(), Some("20"));
    }

    /// As rows from before there were lines stand there.
    async fn a_run_without_a_place_in_a_line_is_given_one(store: Store) {
        let listener = Listener::new(&[200]).await;
        let stage = stage(&store, &["--private-webhooks"]).await;
        let automation = stage.automation(&[Stage::trigger(), ("webhook", json!({"url": listener.url}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        let claimed = stage.engine.claim().await.expect("a claim");
        stage.engine.take_turn(&claimed[0]).await;
        store.run("UPDATE runs SET destination = NULL").await;
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        assert_eq!(listener.heard().len(), 1);
    }
}
