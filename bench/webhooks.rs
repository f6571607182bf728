//! Events on their way to a webhook's endpoint on this machine, against a bare client of HTTP that sends the
//! same to the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::Plan;
use crate::delivery::{PATIENCE, side};
use crate::login::post_json;
use crate::report::Report;
use crate::rows::{Side, compare};
use crate::server::Server;
use crate::store::Store;

/// Events of one round.
const EVENTS: u64 = 20_000;
/// Contacts that are made at once.
const TOGETHER: u64 = 100;
/// As many as Posthorn has to one endpoint.
const CONNECTIONS: u64 = 16;

/// Somebody who takes every event.
pub struct Endpoint {
    pub address: SocketAddr,
    heard: Arc<AtomicU64>,
}

impl Endpoint {
    pub fn start() -> anyhow::Result<Endpoint> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, heard) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let counter = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counter = counter.clone();
                // A client that hangs up is done.
                std::thread::spawn(move || drop(take(stream, &counter)));
            }
        });
        Ok(Endpoint { address, heard })
    }
}

fn take(stream: TcpStream, heard: &AtomicU64) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut line, mut body, mut length) = (String::new(), Vec::new(), 0);
    while {
        line.clear();
        stream.read_line(&mut line)?
    } > 0
    {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
        if line != "\r\n" {
            continue;
        }
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
        heard.fetch_add(1, Ordering::Relaxed);
        stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
    Ok(())
}

pub fn webhooks(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    compare(
        plan,
        report,
        ("events to a webhook's endpoint, SQLite, 16 connections", "a bare hyper client, 16 connections", 0.3),
        bare,
        delivered,
    )
}

/// The same, sent by nothing but a client.
fn bare() -> anyhow::Result<Side> {
    let endpoint = Endpoint::start()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let began = Instant::now();
    runtime.block_on(async {
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(send_some(endpoint.address))).collect();
        for sender in senders {
            sender.await??;
        }
        anyhow::Ok(())
    })?;
    Ok(Side { per_second: EVENTS as f64 / began.elapsed().as_secs_f64(), server: None })
}

async fn send_some(to: SocketAddr) -> anyhow::Result<()> {
    let event = json!({"type": "contact.created", "created_at": "2026-01-02T03:04:05.678Z", "data": {
        "id": "01890000-0000-7000-8000-000000000000", "email": "customer-12345@example.com", "unsubscribed": false,
        "created_at": "2026-01-02T03:04:05.678Z", "updated_at": "2026-01-02T03:04:05.678Z", "segment_ids": []}});
    let event = Bytes::from(event.to_string());
    let stream = tokio::net::TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    for _ in 0..EVENTS / CONNECTIONS {
        let request = Request::post("/").header("host", to.to_string()).header("content-type", "application/json");
        let answer = sender.send_request(request.body(Full::new(event.clone()))?).await?;
        ensure!(answer.status() == 204, "{}", answer.status());
        answer.into_body().collect().await?;
    }
    Ok(())
}

fn delivered() -> anyhow::Result<Side> {
    let (endpoint, store) = (Endpoint::start()?, Store::sqlite()?);
    let key = store.key()?;
    let allowed = "--private-webhooks".to_owned();
    let filling = Server::with_settings(&store, &[allowed.clone(), "--role".into(), "api".into()])?;
    let address = format!("http://{}/", endpoint.address);
    post_json(filling.address, "/webhooks", &key, &json!({"endpoint": address, "events": ["contact.created"]}))?;
    for start in (0..EVENTS).step_by(TOGETHER as usize) {
        std::thread::scope(|scope| {
            let one = |n: u64| json!({"email": format!("customer-{n}@example.com")});
            let threads: Vec<_> = (start..start + TOGETHER)
                .map(|n| (one(n), filling.address, &key))
                .map(|(body, to, key): (Value, SocketAddr, &String)| {
                    scope.spawn(move || post_json(to, "/contacts", key, &body).map(drop))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("it panicked"))?)
        })?;
    }
    drop(filling);
    store.settle()?;
    let mut began = Instant::now();
    let server = Server::with_settings(&store, &[allowed])?;
    // How long it takes to start is another row's question.
    while endpoint.heard.load(Ordering::Relaxed) == 0 {
        ensure!(began.elapsed() < PATIENCE, "no event came");
        std::thread::yield_now();
    }
    began = Instant::now();
    while endpoint.heard.load(Ordering::Relaxed) < EVENTS {
        ensure!(began.elapsed() < PATIENCE, "{} of {EVENTS} events came", endpoint.heard.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(2));
    }
    side(&server, EVENTS, began.elapsed())
}
