//! How far a broadcast is, by the API and by the command line; and how much room its recipients take.

use serde_json::{Value, json};

use crate::binary::Server;
use crate::broadcasts::{Stage, addresses};
use crate::cli::run;
use crate::harness::on_both;
use crate::sink::Sink;
use crate::store::Store;

on_both! {
    async fn rate_and_time_left_are_told_while_it_leaves(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 100).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.post.round().await;
        let out = addresses(&sink).len();
        assert!((1..100).contains(&out), "{out}");
        // A second has gone by when it is read.
        let progress = stage.read(&id).await["progress"].clone();
        assert_eq!((&progress["recipients"], &progress["counts"]["delivered"]), (&json!(100), &json!(out)));
        assert_eq!(progress["rate"], json!(out as f64));
        assert_eq!(progress["seconds_left"], json!((100 - out).div_ceil(out)));
        stage.run().await;
        let progress = stage.read(&id).await["progress"].clone();
        assert_eq!((&progress["rate"], &progress["seconds_left"]), (&json!(0.0), &Value::Null), "it is over");
    }

    async fn one_is_sent_and_watched_by_a_command(store: Store) {
        let server = Server::start(&["--database-url", &store.url()]);
        let key = run(&store, &["keys", "create", "--name", "beside"], "").ok();
        let bearer = format!("Bearer {}", key.trim_end());
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let call = |path: &str, body: Value| -> Value {
            let answer = server.request("POST", path, &headers, &body.to_string()).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
            serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
        };
        let segment = call("/segments", json!({"name": "All"}))["id"].clone();
        for number in 0..3 {
            call("/contacts", json!({"email": format!("p{number}@example.com"), "segments": [{"id": segment}]}));
        }
        let fields = json!({"segment_id": segment, "from": "a@sender.example", "subject": "Hi", "text": "Hi"});
        let id = call("/broadcasts", fields.clone())["id"].as_str().expect("an id").to_owned();
        let shown = run(&store, &["broadcasts", "send", &id, "--watch"], "").ok();
        assert_eq!(shown.lines().last(), Some("sent 3 of 3"), "{shown}");
        let again = run(&store, &["broadcasts", "send", &id], "").failed();
        assert!(again.contains("it was not sent"), "{again}");
        let other = call("/broadcasts", fields)["id"].as_str().expect("an id").to_owned();
        assert_eq!(run(&store, &["broadcasts", "send", &other], "").ok(), "It is being sent.\n");
    }
}

/// Rows, with what finds them: the mail itself is kept once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipient_takes_at_most_300_bytes() {
    let store = Store::sqlite();
    let sink = Sink::open().await;
    let people = 1_200;
    let stage = Stage::open(&store, &sink, people).await;
    let pages = async || -> i64 {
        store.rows("PRAGMA wal_checkpoint(TRUNCATE)").await;
        store
            .value("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            .await
            .and_then(|size| size.parse().ok())
            .expect("a size")
    };
    let before = pages().await;
    stage.send(json!({})).await;
    stage.take().await;
    let each = (pages().await - before) / people as i64;
    assert!((40..=300).contains(&each), "{each} bytes");
}
