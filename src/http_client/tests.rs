use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Bounds, HttpClient, HttpError, Reach, Staged};
use crate::tls;

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(5), bytes: 16 };

const ELSEWHERE: &str = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\nno";
const LARGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n12345678901234567";

/// A server that gives one answer, and the heads of the requests that it got.
async fn server(answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    patient_server(answer, 1).await
}

/// The same, which answers so many requests on a connection before it hangs up.
async fn patient_server(answer: &'static str, most: usize) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            for _ in 0..most {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                keep.lock().expect("heads").push(String::from_utf8_lossy(&head).into_owned());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    (address, heads)
}

/// A client for which every name leads to `found`, in turn, and every address to `server`.
fn client(found: &[&[&str]], server: SocketAddr) -> HttpClient {
    let mut found: Vec<Vec<String>> =
        found.iter().map(|found| found.iter().map(ToString::to_string).collect()).collect();
    found.reverse();
    let found = Mutex::new(found);
    let look_up = move |_: &str, port: u16| {
        let found = found.lock().expect("addresses").pop().expect("one look-up only");
        found.iter().map(|address| SocketAddr::new(address.parse().expect("an address"), port)).collect()
    };
    let staged = Staged { look_up: Box::new(look_up), connect: Box::new(move |_| server) };
    HttpClient::staged(Reach::Public, tls::client(), staged)
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).expect("a request")
}

#[tokio::test]
async fn a_request_names_its_host_and_only_its_path_and_a_redirect_is_an_answer() {
    let (server, heads) = server(ELSEWHERE).await;
    let client = client(&[&["93.184.215.14"]], server);
    let answer = client.send(get("http://user:secret@hooks.example:8080/a/b?c=d"), BOUNDS).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (302, &b"no"[..]));
    let heads = heads.lock().expect("heads").clone();
    assert_eq!(heads.len(), 1, "nothing is followed: {heads:?}");
    assert!(heads[0].starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{heads:?}");
    let head = heads[0].to_lowercase();
    assert!(head.contains("\r\nhost: hooks.example:8080\r\n"), "{head}");
    assert!(head.contains("\r\nuser-agent: posthorn/") && !head.contains("secret"), "{head}");
}

#[tokio::test]
async fn the_addresses_that_were_checked_are_the_ones_that_are_called() {
    let (server, heads) = server(LARGE).await;
    // A second look-up would find another address; one that may not be called condemns the rest.
    let rebound = client(&[&["93.184.215.14"], &["10.0.0.1"]], server);
    let _ = rebound.send(get("http://a.example/"), BOUNDS).await;
    assert_eq!(heads.lock().expect("heads").len(), 1);
    for found in [&["10.0.0.1"][..], &["93.184.215.14", "::1"], &[]] {
        let refused = client(&[found], server).send(get("http://a.example/"), BOUNDS).await.expect_err("refused");
        assert!(refused.is_about_address(), "{refused}");
    }
    assert_eq!(heads.lock().expect("heads").len(), 1, "nobody was connected to");
}

#[tokio::test]
async fn an_answer_is_bounded_in_size_and_in_time() {
    let (server, _) = server(LARGE).await;
    let large = client(&[&["93.184.215.14"]], server).send(get("http://a.example/"), BOUNDS).await;
    assert!(matches!(large, Err(HttpError::TooLarge(16))), "{large:?}");
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = silent.local_addr().expect("an address");
    let bounds = Bounds { time: Duration::from_millis(20), ..BOUNDS };
    let late = client(&[&["93.184.215.14"]], server).send(get("http://a.example/"), bounds).await;
    assert!(matches!(late, Err(HttpError::Late(_))), "{late:?}");
}

#[tokio::test]
async fn what_is_no_address_of_a_server_is_called_by_nobody() {
    let client = HttpClient::new(Reach::Anywhere);
    for url in ["/path", "ftp://a.example/", "a.example"] {
        assert!(matches!(client.send(get(url), BOUNDS).await, Err(HttpError::Url)), "{url}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_and_opened_anew_where_the_server_has_closed_it() {
    const ADDRESS: &[&str] = &["93.184.215.14"];
    for (most, look_ups) in [(6, 1), (3, 2), (1, 6)] {
        let (server, heads) = patient_server(ELSEWHERE, most).await;
        // A look-up for each connection, and no more.
        let client = client(&vec![ADDRESS; look_ups], server);
        let mut kept = client.keep();
        for _ in 0..6 {
            let (status, body) = kept.send(get("http://a.example/"), BOUNDS.time, 16).await.expect("an answer");
            assert_eq!((status.as_u16(), &body[..]), (302, &b"no"[..]));
        }
        assert_eq!(heads.lock().expect("heads").len(), 6, "{most} on each connection");
    }
}

#[tokio::test]
async fn what_a_long_answer_begins_with_is_read_and_its_connection_is_not_used_again() {
    let (server, _) = patient_server(LARGE, 1).await;
    let client = client(&[&["93.184.215.14"], &["10.0.0.1"]], server);
    let mut kept = client.keep();
    let (status, body) = kept.send(get("http://a.example/"), BOUNDS.time, 16).await.expect("an answer");
    assert_eq!((status.as_u16(), &body[..]), (200, &b"1234567890123456"[..]));
    let refused = kept.send(get("http://a.example/"), BOUNDS.time, 16).await.expect_err("looked up anew");
    assert!(refused.is_about_address(), "{refused}");
}
