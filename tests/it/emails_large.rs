//! Mail with long contents: in pieces, and within bounds.

use std::net::SocketAddr;

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

    async fn issue_12_a_mail_of_40_mb_is_taken_and_one_byte_more_is_not(app: TestApp) {
        let key = app.full_key().await;
        let largest = 40 << 20;
        let rest = largest - "<p>Hi</p>".len();
        let whole = rest / 12 * 12;
        let filler = "x".repeat(rest - whole);
        let fits = mail_with(json!({"text": filler, "attachments": [{"content": base64(whole)}]}));
        let id = sent(&app, &key, fits).await;
        let size = app.store.value("SELECT size FROM emails").await.expect("a size");
        assert_eq!(size.parse::<usize>().expect("a number"), largest);
        let count = app.count("email_chunks").await;
        let more = mail_with(json!({"text": filler + "x", "attachments": [{"content": base64(whole)}]}));
        let refused = post(&app, &key, more).await.refused(422, "invalid_attachment");
        assert!(refused.contains("`attachments[0]`") && refused.contains("41943040"), "{refused}");
        assert_eq!(app.count("emails").await, 1);
        app.clock.advance(2 * HOUR);
        emails::sweep(&app.app).await.expect("swept");
        assert_eq!(app.count("email_chunks").await, count, "what was begun in vain is swept away");
        assert_eq!(shown(&app, &key, &id).await["last_event"], "queued");
        let huge = app.post("/emails").key(&key).header("content-type", "application/json").stream(vec![b' '; 60 << 20]);
        huge.send().await.refused(413, "validation_error");
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
