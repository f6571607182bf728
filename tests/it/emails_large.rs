//! Mail with long contents: in pieces, and within bounds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthorn::clock::HOUR;
use posthorn::emails;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::emails::{mail_with, post, sent, shown};
use crate::harness::{TestApp, on_both};

/// Base64 of so many bytes, twelve at a time.
fn base64(count: usize) -> String {
    "AAECAwQFBgcICQoL".repeat(count / 12)
}

/// A server that gives every caller the same answer.
async fn server(answer: &'static [u8], then_stays: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = caller.read(&mut request).await;
                let _ = caller.write_all(answer).await;
                while then_stays && caller.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
            });
        }
    });
    address
}

/// A server that takes requests, counts them and says nothing.
async fn silent_server(asked: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut callers = Vec::new();
        while let Ok((caller, _)) = listener.accept().await {
            asked.fetch_add(1, Ordering::SeqCst);
            callers.push(caller);
        }
    });
    address
}

async fn download(app: &TestApp, key: &str, id: &str) -> bytes::Bytes {
    let list = app.get(format!("/emails/{id}/attachments")).key(key).send().await.json();
    let url = list["data"][0]["download_url"].as_str().expect("an address").to_owned();
    app.get(url.strip_prefix("https://mail.example").expect("ours")).send().await.body
}

on_both! {
    async fn long_contents_stand_in_pieces_and_come_back_as_they_were(app: TestApp) {
        let key = app.full_key().await;
        let html = "<p>Grüße, \"Ada\" \\ 😀</p>\n".repeat(20_000);
        let text = "short enough to stand with its mail ".repeat(500);
        let bytes = 1_500_000 / 12 * 12;
        let attachments = json!([{"content": base64(bytes), "filename": "a.bin"}]);
        let body = mail_with(json!({"html": html, "text": text, "attachments": attachments}));
        let id = sent(&app, &key, body).await;
        let email = shown(&app, &key, &id).await;
        assert_eq!((&email["html"], &email["text"]), (&json!(html), &json!(text)));
        let file = download(&app, &key, &id).await;
        assert_eq!((file.len(), &file[bytes - 3..]), (bytes, &[9, 10, 11][..]));
        let chunks = app.store.value("SELECT COUNT(*) FROM email_chunks").await.expect("a count");
        assert_eq!(chunks.parse::<usize>().expect("a number"), html.len().div_ceil(256 << 10) + bytes.div_ceil(256 << 10));
        let numbers: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let id = sent(&app, &key, mail_with(json!({"attachments": [{"content": numbers}]}))).await;
        assert_eq!(download(&app, &key, &id).await[..], numbers, "as older programs send files");
    }

    async fn issue_12_a_mail_of_40_mb_after_base64_is_taken_and_one_byte_more_is_not(app: TestApp) {
        let key = app.full_key().await;
        let largest = 40 << 20;
        let rest = largest - "<p>Hi</p>".len();
        let file = rest / 16 * 12;
        let filler = "x".repeat(rest - file / 3 * 4);
        let with = |text: String, bytes: usize| mail_with(json!({"text": text, "attachments": [{"content": base64(bytes)}]}));
        let id = sent(&app, &key, with(filler.clone(), file)).await;
        let size = app.store.value("SELECT size FROM emails").await.expect("a size");
        assert_eq!(size.parse::<usize>().expect("a number"), largest - file / 3, "what it holds is kept as it is");
        let count = app.count("email_chunks").await;
        let refused = post(&app, &key, with(filler + "x", file)).await.refused(422, "invalid_attachment");
        assert!(refused.contains("`attachments[0]`") && refused.contains("41943040") && refused.contains("base64"), "{refused}");
        // An attachment of 30 MB and some is larger than 40 in base64.
        post(&app, &key, with(String::new(), file + 12)).await.refused(422, "invalid_attachment");
        assert_eq!((app.count("emails").await, app.count("email_chunks").await), (1, count), "what is refused leaves nothing");
        assert_eq!(shown(&app, &key, &id).await["last_event"], "queued");
        let huge = app.post("/emails").key(&key).header("content-type", "application/json").stream(vec![b' '; 60 << 20]);
        huge.send().await.refused(413, "validation_error");
    }

    async fn pieces_of_mails_that_were_never_handed_in_are_swept_a_mail_at_a_time(app: TestApp) {
        let key = app.full_key().await;
        let id = sent(&app, &key, mail_with(json!({"attachments": [{"content": base64(600_000)}]}))).await;
        let kept = app.count("email_chunks").await;
        // More than are looked at at once, older and newer than the mail that is whole.
        let lost = |app: &TestApp| -> Vec<String> { (0..250).map(|_| app.store.id(app.clock.ordered_id::<uuid::Uuid>())).collect() };
        let mut ids = lost(&app);
        app.clock.advance(2 * HOUR);
        ids.extend(lost(&app).into_iter().take(5));
        let bytes = app.store.bytes("00");
        for (number, lost) in ids.iter().enumerate() {
            let part = 16 + number % 2;
            app.store.run(&format!("INSERT INTO email_chunks (email_id, part, number, bytes) VALUES ({lost}, {part}, 0, {bytes})")).await;
        }
        emails::sweep(&app.app).await.expect("swept");
        assert_eq!(app.count("email_chunks").await, kept + 5, "what may still become a mail stays");
        assert_eq!(download(&app, &key, &id).await.len(), 600_000);
    }

    async fn a_workspace_whose_files_do_not_arrive_does_not_keep_others_from_fetching(app: TestApp) {
        let (slow, other) = (app.full_key().await, app.second_workspace_key().await);
        let reaching = TestApp::open(&app.store, &["--private-webhooks"]).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let silent = silent_server(asked.clone()).await;
        let good = server(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", false).await;
        let with = |address: SocketAddr| mail_with(json!({"attachments": [{"path": format!("http://{address}/x")}]}));
        let waiting = futures_util::future::join_all((0..80).map(|_| post(&reaching, &slow, with(silent))));
        let answered = async {
            while asked.load(Ordering::SeqCst) < 4 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            sent(&reaching, &other, with(good)).await
        };
        let mut waiting = std::pin::pin!(waiting);
        let id = tokio::select! {
            _ = &mut waiting => panic!("what never answers has answered"),
            id = answered => id,
        };
        assert_eq!(download(&app, &other, &id).await, "hello");
        assert_eq!(asked.load(Ordering::SeqCst), 4, "the share of one workspace");
    }

    async fn no_more_than_a_few_requests_of_a_workspace_wait_for_files(app: TestApp) {
        let key = app.full_key().await;
        let reaching = TestApp::open(&app.store, &["--private-webhooks"]).await;
        let silent = silent_server(Arc::default()).await;
        let with = mail_with(json!({"attachments": [{"path": format!("http://{silent}/x")}]}));
        let mut waiting: futures_util::stream::FuturesUnordered<_> = (0..69).map(|_| post(&reaching, &key, with.clone())).collect();
        let first = futures_util::StreamExt::next(&mut waiting).await.expect("an answer");
        first.refused(429, "rate_limit_exceeded");
        assert_eq!(app.count("emails").await, 0);
    }

    async fn a_large_mail_under_a_key_is_stored_once(app: TestApp) {
        let key = app.full_key().await;
        let body = mail_with(json!({"attachments": [{"content": base64(600_000)}]}));
        let one = async || app.post("/emails").key(&key).header("idempotency-key", "k").json(body.clone()).send().await;
        let first = one().await;
        assert_eq!(first.status, 200, "{}", first.text());
        let chunks = app.count("email_chunks").await;
        assert_eq!((one().await.text(), app.count("email_chunks").await), (first.text(), chunks));
        let other = mail_with(json!({"attachments": [{"content": base64(600_012)}]}));
        let conflict = app.post("/emails").key(&key).header("idempotency-key", "k").json(other).send().await;
        conflict.refused(409, "invalid_idempotent_request");
    }

    async fn what_is_wrong_within_a_large_body_is_told_and_leaves_no_mail(app: TestApp) {
        let key = app.full_key().await;
        let long = "x".repeat(200_000);
        for (body, status, name, word) in [
            (mail_with(json!({"html": long, "to": "nobody"})), 422, "validation_error", "`to`"),
            (mail_with(json!({"html": format!("{long}\u{0}")})), 422, "validation_error", "U+0000"),
            (mail_with(json!({"html": vec![7; 100_000]})), 422, "validation_error", "`html` field must be a string"),
            (mail_with(json!({"attachments": [{"content": format!("{long}!")}]})), 422, "invalid_attachment", "base64"),
            (mail_with(json!({"other": "x".repeat(2 << 20)})), 422, "validation_error", "too much"),
        ] {
            let answer = post(&app, &key, body).await;
            assert!(answer.refused(status, name).contains(word), "{}", answer.text());
        }
        let cut = format!("{{\"to\":\"a@b.example\",\"html\":\"{long}");
        app.post("/emails").key(&key).body("application/json", cut).send().await.refused(400, "validation_error");
        assert_eq!(app.count("emails").await, 0);
    }

    async fn an_attachment_is_fetched_from_its_address(app: TestApp) {
        let key = app.full_key().await;
        let reaching = TestApp::open(&app.store, &["--private-webhooks"]).await;
        let good = server(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", false).await;
        let bad = server(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", false).await;
        let large = server(b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n", true).await;
        let with = |path: String| mail_with(json!({"attachments": [{"path": path}]}));
        let id = sent(&reaching, &key, with(format!("http://{good}/files/r%C3%A9port.txt?x=1"))).await;
        assert_eq!(download(&app, &key, &id).await, "hello");
        let file: Value = app.get(format!("/emails/{id}/attachments")).key(&key).send().await.json()["data"][0].clone();
        assert_eq!((&file["filename"], &file["content_type"]), (&json!("réport.txt"), &json!("text/plain")));
        for (path, word) in [
            (format!("http://{bad}/"), "status 404"),
            (format!("http://{large}/"), "larger"),
            ("http://127.0.0.1:1/".into(), "does not answer"),
            ("ftp://example.com/x".into(), "`http://`"),
            ("no address".into(), "`http://`"),
        ] {
            let refused = post(&reaching, &key, with(path.clone())).await.refused(422, "invalid_attachment");
            assert!(refused.contains("`attachments[0].path`") && refused.contains(word), "{path}: {refused}");
        }
        // One that never ends does, by its size or after a while.
        let endless = server(b"HTTP/1.1 200 OK\r\n\r\n", true).await;
        let refused = post(&reaching, &key, with(format!("http://{endless}/"))).await.refused(422, "invalid_attachment");
        assert!(refused.contains("large") || refused.contains("seconds"), "{refused}");
        for path in [format!("http://{good}/"), "http://localhost/".into(), "http://169.254.169.254/latest".into()] {
            let refused = post(&app, &key, with(path.clone())).await.refused(422, "invalid_attachment");
            assert!(refused.contains("public internet") && !refused.contains("127.0.0.1"), "{path}: {refused}");
        }
        assert_eq!(app.count("emails").await, 1);
    }
}
