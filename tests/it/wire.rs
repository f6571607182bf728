//! Over a real connection: what never reaches a handler, and how the server
//! behaves when peers do not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use posthorn::app::App;
use posthorn::clock::Clock;
use posthorn::db::Db;
use posthorn::product::Product;
use posthorn::seal::Seal;
use posthorn::serve;
use posthorn::web::{self, Bounds};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::asking::{CALLBACK, query};
use crate::harness::{TestApp, config, on_both};

/// A server on a port of its own, beside an app on the same store.
pub struct Listening {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<anyhow::Result<()>>,
}

pub async fn listen(app: &TestApp) -> Listening {
    listen_within(app, |_| {}).await
}

/// The same, within other bounds.
pub async fn listen_within(app: &TestApp, change: impl FnOnce(&mut Bounds)) -> Listening {
    let config = config(&app.store, &[]);
    let mut bounds = Bounds::of(&config);
    change(&mut bounds);
    let listener = web::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = listener.local_addr().expect("an address");
    let db = Db::open(&config.store()).await.expect("a store");
    let addresses = serve::addresses(&config, address).expect("addresses");
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let seal = Seal::of(&config).expect("a key");
    let gate = Arc::new(Product::new(App::new(config, addresses, db, Clock::system(), metrics, seal)).gate());
    let (stop, stopped) = oneshot::channel();
    let until = async { drop(stopped.await) };
    let ended = tokio::spawn(web::answer_connections(listener, gate, bounds, until, Duration::from_secs(5)));
    Listening { address, stop, ended }
}

/// Sends bytes as they are and reads until the server closes.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the server neither answers nor closes: {:?}", String::from_utf8_lossy(bytes));
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

pub async fn get(address: SocketAddr, target: &[u8]) -> String {
    raw(address, &[b"GET ", target, b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"].concat()).await
}

on_both! {
    async fn property_401_every_byte_in_a_query_gets_a_documented_status(app: TestApp) {
        let server = listen(&app).await;
        let client = app.client_for(CALLBACK).await;
        let good = format!("/oauth/authorize?{}&state=", query(&client, &[("scope", Some("x"))]));
        for byte in 0..=255_u8 {
            if matches!(byte, b' ' | b'\r' | b'\n') {
                continue; // These end the target.
            }
            let answer = get(server.address, &[good.as_bytes(), b"a", &[byte], b"b"].concat()).await;
            let Some(status) = status(&answer) else { panic!("{byte:#x}: no answer: {answer}") };
            assert!(matches!(status, 302 | 400), "{byte:#x}: {answer}");
            let head = answer.split("\r\n\r\n").next().unwrap_or_default();
            assert_eq!(head.matches("location:").count(), usize::from(status == 302));
        }
        let long = format!("{good}{}", "x".repeat(70_000));
        let answer = get(server.address, long.as_bytes()).await;
        assert_eq!(status(&answer), Some(414), "{answer:.200}");
        let wide =
            [good.as_bytes(), b"a HTTP/1.1\r\nhost: x\r\nx: ", "x".repeat(600_000).as_bytes(), b"\r\n\r\n"].concat();
        let answer = raw(server.address, &[b"GET ", &*wide].concat()).await;
        assert!(matches!(status(&answer), None | Some(431)), "{answer:.200}");
        assert_eq!(app.count("authorization_requests").await, 0);
        assert_eq!(status(&get(server.address, b"/healthz").await), Some(200), "and it lives on");
    }

    async fn gibberish_is_refused_and_the_server_lives_on(app: TestApp) {
        let server = listen(&app).await;
        for bytes in [
            &b"\0\0\0\0\r\n\r\n"[..],
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
            b"POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
            b"POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let answer = raw(server.address, bytes).await;
            assert!(
                answer.is_empty() || status(&answer).is_some_and(|status| (400..600).contains(&status)),
                "{answer}"
            );
        }
        assert_eq!(status(&get(server.address, b"/healthz").await), Some(200));
    }

    async fn a_body_that_breaks_off_stores_nothing(app: TestApp) {
        let server = listen(&app).await;
        let key = app.full_key().await;
        let head = format!(
            "POST /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        );
        let mut stream = TcpStream::connect(server.address).await.expect("a connection");
        let half = format!("{head}content-length: 100\r\n\r\n{{\"name\":\"half\"}}");
        stream.write_all(half.as_bytes()).await.expect("sent");
        drop(stream);
        let whole = raw(server.address, format!(
            "{head}connection: close\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{{\"name\":\r\n8\r\n\"whole\"}}\r\n0\r\n\r\n").as_bytes()).await;
        assert_eq!(status(&whole), Some(201), "{whole}");
        let names = app.store.rows("SELECT name FROM events").await;
        assert_eq!(names, [[Some("whole".to_owned())]]);
    }

    async fn a_connection_is_kept_and_pipelined_requests_are_answered_in_order(app: TestApp) {
        let server = listen(&app).await;
        let one = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /nope HTTP/1.1\r\nhost: x\r\n\r\nHEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
        let last = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let answer = raw(server.address, format!("{one}{last}").as_bytes()).await;
        let statuses: Vec<&str> = answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
        assert_eq!(statuses, ["200", "404", "200", "200"]);
    }

    async fn issue_2_a_stopping_server_finishes_what_it_has_begun(app: TestApp) {
        let server = listen(&app).await;
        let key = app.full_key().await;
        let body = json!({"name": "last"}).to_string();
        let request = format!(
            "POST /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut busy = TcpStream::connect(server.address).await.expect("a connection");
        busy.write_all(&request.as_bytes()[..request.len() - 3]).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop.send(()).expect("a server");
        tokio::time::sleep(Duration::from_millis(100)).await;
        busy.write_all(&request.as_bytes()[request.len() - 3..]).await.expect("sent");
        let mut answer = String::new();
        busy.read_to_string(&mut answer).await.expect("an answer");
        assert_eq!(status(&answer), Some(201), "{answer}");
        server.ended.await.expect("no panic").expect("a clean end");
        assert_eq!(app.count("events").await, 1);
        assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
    }
}
