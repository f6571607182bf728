//! What strangers may hold: connections, memory and time. Issue 10, A4 and A11.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{TestApp, on_both};
use crate::wire::{get, listen, listen_within, raw, status};

const SOON: Duration = Duration::from_secs(10);

async fn connect(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(bytes).await.expect("sent");
    stream
}

/// Whether the server closes a connection by itself, soon.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.is_ok()
}

async fn is_open(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.is_ok() && {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.is_ok() && status(&answer) == Some(200)
    }
}

fn line_of(length: usize) -> Vec<u8> {
    let rest = "GET /nothing?".len() + " HTTP/1.1".len();
    [b"/nothing?", "x".repeat(length - rest).as_bytes()].concat()
}

on_both! {
    async fn issue_10_a_request_line_over_32_kib_is_414_and_shorter_ones_are_read(app: TestApp) {
        let server = listen(&app).await;
        assert_eq!(status(&get(server.address, &line_of(32 << 10)).await), Some(404));
        for length in [(32 << 10) + 1, 40_000, 65_000, 70_000, 300_000, 900_000] {
            let answer = get(server.address, &line_of(length)).await;
            assert_eq!(status(&answer), Some(414), "{length}: {answer:.200}");
        }
        let mut kept = connect(server.address, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut first = [0; 12];
        kept.read_exact(&mut first).await.expect("an answer");
        kept.write_all(&[b"GET ", &*line_of(50_000), b" HTTP/1.1\r\n"].concat()).await.expect("sent");
        let mut rest = String::new();
        kept.read_to_string(&mut rest).await.expect("an answer");
        assert!(rest.contains("HTTP/1.1 414 "), "the second line of a connection has the same end: {rest}");
    }

    async fn large_bodies_that_stall_hold_up_no_other(app: TestApp) {
        let (server, key) = (listen(&app).await, app.full_key().await);
        let request = |length: usize, sent: usize| {
            let head = format!("POST /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n");
            let body = format!(r#"{{"name":"{}"}}"#, "x".repeat(length - 11));
            format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{}", &body[..sent])
        };
        let mut stalled = Vec::new();
        for _ in 0..10 {
            stalled.push(connect(server.address, request(900_000, 300_000).as_bytes()).await);
        }
        let whole = request(600_000, 600_000);
        let answer = tokio::time::timeout(SOON, raw(server.address, whole.as_bytes())).await.expect("in time");
        assert_eq!(status(&answer), Some(422), "{answer:.200}");
    }

    async fn issue_10_a_head_over_64_kib_is_431(app: TestApp) {
        let server = listen(&app).await;
        let head = |length: usize| {
            format!("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: {}\r\n\r\n", "x".repeat(length))
        };
        assert_eq!(status(&raw(server.address, head(60_000).as_bytes()).await), Some(200));
        for length in [70_000, 300_000, 900_000] {
            assert_eq!(status(&raw(server.address, head(length).as_bytes()).await), Some(431), "{length}");
        }
    }

    async fn issue_10_two_host_headers_are_400(app: TestApp) {
        let server = listen(&app).await;
        let answer = raw(server.address, b"GET /healthz HTTP/1.1\r\nhost: a\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert_eq!(status(&answer), Some(400), "{answer}");
    }

    async fn issue_10_where_all_places_are_taken_who_keeps_us_waiting_longest_goes(app: TestApp) {
        let server = listen_within(&app, |bounds| bounds.connections = 3).await;
        let mut first = connect(server.address, b"GET / HT").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut second = connect(server.address, b"").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut third = connect(server.address, b"").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(status(&get(server.address, b"/healthz").await), Some(200));
        assert!(is_closed(&mut first).await);
        assert!(is_open(&mut second).await && is_open(&mut third).await);
    }

    async fn issue_10_one_address_has_only_so_many_connections(app: TestApp) {
        let server = listen_within(&app, |bounds| {
            (bounds.per_address, bounds.exempt_loopback) = (2, false);
        }).await;
        let (mut first, mut second) = (connect(server.address, b"").await, connect(server.address, b"").await);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let refused = raw(server.address, b"").await;
        assert_eq!(status(&refused), Some(503), "{refused}");
        assert!(refused.contains("retry-after: 1"), "{refused}");
        assert!(is_open(&mut first).await && is_open(&mut second).await);
        assert_eq!(status(&get(server.address, b"/healthz").await), Some(200), "places are given back");
    }

    async fn issue_10_loopback_and_trusted_proxies_have_any_number_of_connections(app: TestApp) {
        let exempt = listen_within(&app, |bounds| bounds.per_address = 1).await;
        let proxied = listen_within(&app, |bounds| {
            (bounds.per_address, bounds.exempt_loopback) = (1, false);
            bounds.proxies = vec!["127.0.0.0/8".parse().expect("a network")];
        }).await;
        for server in [exempt, proxied] {
            let mut all = Vec::new();
            for _ in 0..4 {
                all.push(connect(server.address, b"").await);
            }
            for one in &mut all {
                assert!(is_open(one).await);
            }
        }
    }

    async fn issue_10_heads_that_are_never_finished_do_not_add_up(app: TestApp) {
        let server = listen_within(&app, |bounds| bounds.memory = 1 << 20).await;
        let part = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}", "x".repeat(50_000));
        let mut all = Vec::new();
        for _ in 0..40 {
            all.push(connect(server.address, part.as_bytes()).await);
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        assert!(is_closed(&mut all[0]).await, "the longest unfinished go first");
        let last = all.last_mut().expect("one");
        last.write_all(b"\r\nconnection: close\r\n\r\n").await.expect("open");
        let mut answer = String::new();
        last.read_to_string(&mut answer).await.expect("an answer");
        assert_eq!(status(&answer), Some(200), "{answer:.200}");
    }

    async fn issue_10_an_answer_that_nobody_reads_is_cut_off(app: TestApp) {
        let server = listen_within(&app, |bounds| bounds.stall = Duration::from_millis(300)).await;
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("small");
        let mut stream = socket.connect(server.address).await.expect("a connection");
        let whole = get(server.address, b"/openapi.json").await.len();
        let asked = 40;
        let request = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(asked);
        stream.write_all(request.as_bytes()).await.expect("sent");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut got = Vec::new();
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut got)).await.expect("it ends");
        assert!(got.len() < whole * asked / 2, "{} of {}", got.len(), whole * asked);
    }

    async fn issue_10_an_answer_that_is_read_slowly_is_not_cut_off(app: TestApp) {
        let server = listen_within(&app, |bounds| bounds.stall = Duration::from_millis(300)).await;
        let mut stream = connect(server.address, b"GET /openapi.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        let whole = get(server.address, b"/openapi.json").await.len();
        let (mut got, mut piece) = (0, vec![0; 64 << 10]);
        loop {
            match stream.read(&mut piece).await.expect("an answer") {
                0 => break,
                count => got += count,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(got, whole);
    }

    async fn issue_10_a_body_that_does_not_come_is_given_up(app: TestApp) {
        let server = listen_within(&app, |bounds| bounds.stall = Duration::from_millis(300)).await;
        let form = "POST /dashboard/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: 5000\r\n\r\nemail=";
        let answer = raw(server.address, form.as_bytes()).await;
        assert!(matches!(status(&answer), Some(400 | 408)), "{answer:.200}");
    }
}
