//! Dialogues with servers on loopback that do what the tests want.

mod faults;
mod messages;
pub(super) mod sts;
mod times;
mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rustls::RootCertStore;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::stream::Io;
use super::{Client, Connection, Envelope, Failure, Hop, Outcome, Phase, Settings, Timeouts};
use crate::config::{Encryption, Relay};
use crate::dns::Resolver;

/// One thing that a server does.
#[derive(Clone)]
enum Act {
    /// Reads a line that begins so.
    Expect(&'static str),
    /// Sends this and a CRLF.
    Say(String),
    /// Sends this as it is.
    Raw(Vec<u8>),
    /// Reads a message with its dot.
    Message,
    /// Reads so many bytes.
    Read(usize),
    Wait(Duration),
    /// Sends this a byte at a time, with pauses.
    Drip(String, Duration),
    /// Sends this until nobody listens any more.
    Forever(&'static str),
    Encrypt(TlsAcceptor),
}

fn say(text: &str) -> Act {
    Act::Say(text.into())
}

/// A server that plays a script with everybody who connects, and hangs up at its
/// end; and what was said to it.
async fn server(script: Vec<Act>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = log.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (script, log) = (script.clone(), log.clone());
            tokio::spawn(async move { play(Box::new(stream), script, &log).await });
        }
    });
    (address, kept)
}

async fn play(stream: Box<dyn Io>, script: Vec<Act>, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let note = |text: &str| log.lock().expect("the log").push(text.trim_end().to_owned());
    let mut stream = BufReader::new(stream);
    for act in script {
        let mut line = Vec::new();
        match act {
            Act::Expect(command) => {
                stream.read_until(b'\n', &mut line).await?;
                let line = String::from_utf8_lossy(&line).into_owned();
                note(&line);
                if !line.starts_with(command) {
                    stream.write_all(format!("503 expected {command}\r\n").as_bytes()).await?;
                    return Ok(());
                }
            }
            Act::Say(text) => stream.write_all(format!("{text}\r\n").as_bytes()).await?,
            Act::Raw(bytes) => stream.write_all(&bytes).await?,
            Act::Message => {
                let mut end = 0;
                while end != b".\r\n".len() || !line.ends_with(b".\r\n") {
                    end = stream.read_until(b'\n', &mut line).await?;
                    if end == 0 {
                        break;
                    }
                }
                note(&String::from_utf8_lossy(&line[..line.len().min(1000)]));
            }
            Act::Read(count) => drop(stream.read_exact(&mut vec![0; count]).await?),
            Act::Wait(time) => tokio::time::sleep(time).await,
            Act::Drip(text, pause) => {
                for byte in text.bytes() {
                    stream.write_all(&[byte]).await?;
                    stream.flush().await?;
                    tokio::time::sleep(pause).await;
                }
            }
            Act::Forever(text) => loop {
                stream.write_all(text.as_bytes()).await?;
            },
            Act::Encrypt(acceptor) => {
                let encrypted = acceptor.accept(stream.into_inner()).await?;
                stream = BufReader::new(Box::new(encrypted));
            }
        }
        stream.flush().await?;
    }
    Ok(())
}

/// A dialogue in which all goes well.
fn all_well(pipelining: bool) -> Vec<(Phase, Vec<Act>)> {
    let offers = if pipelining { "250-mx.test\r\n250-SIZE 50000000\r\n250 PIPELINING" } else { "250 mx.test" };
    vec![
        (Phase::Banner, vec![say("220 mx.test ready")]),
        (Phase::Ehlo, vec![Act::Expect("EHLO us.test"), say(offers)]),
        (Phase::Mail, vec![Act::Expect("MAIL FROM:<"), say("250 2.1.0 ok")]),
        (Phase::Rcpt, vec![Act::Expect("RCPT TO:<"), say("250 2.1.5 ok")]),
        (Phase::Data, vec![Act::Expect("DATA"), say("354 go on")]),
        (Phase::Body, vec![Act::Message]),
        (Phase::Dot, vec![say("250 2.0.0 queued as 1")]),
    ]
}

/// The same up to the answer at one phase, where something else happens.
fn until(phase: Phase, pipelining: bool, instead: Vec<Act>) -> Vec<Act> {
    let mut script: Vec<Act> = Vec::new();
    for (at, mut acts) in all_well(pipelining).into_iter().filter(|(at, _)| *at <= phase) {
        if at == phase {
            acts.pop();
        }
        script.extend(acts);
    }
    script.extend(instead);
    script
}

fn script(pipelining: bool) -> Vec<Act> {
    all_well(pipelining).into_iter().flat_map(|(_, acts)| acts).collect()
}

fn settings() -> Settings {
    let settings = Settings::new("us.test", None).expect("settings");
    Settings { timeouts: Timeouts::default().scaled(0.1), ..settings }
}

fn client(settings: Settings) -> Client {
    let nobody = "127.0.0.1:1".parse().expect("an address");
    Client::new(settings, Resolver::new(&[nobody]))
}

fn relay(address: SocketAddr, encryption: Encryption) -> Relay {
    Relay { host: address.ip().to_string(), port: address.port(), encryption, credentials: None }
}

async fn connect(address: SocketAddr) -> Result<Connection, Failure> {
    connect_with(address, settings()).await
}

async fn connect_with(address: SocketAddr, settings: Settings) -> Result<Connection, Failure> {
    client(settings).connect(&Hop::Relay(&relay(address, Encryption::None))).await
}

fn envelope(size: u64) -> Envelope<'static> {
    Envelope {
        from: "bounce@us.test",
        to: "a@them.test",
        size,
        smtputf8: false,
        eightbit: false,
        id: "mail=1",
        reports_success: false,
    }
}

const MESSAGE: &[u8] = b"Subject: Hi\r\n\r\nhello\r\n.\r\n.dot\r\n";

/// What came of a message, and whether the dot was announced.
#[derive(Debug, PartialEq)]
enum Came {
    NoConnection(Failure),
    Sent(Outcome, bool),
}

async fn send(connection: &mut Connection, message: Bytes) -> Came {
    let announced = AtomicBool::new(false);
    let before_dot = async {
        announced.store(true, Ordering::Relaxed);
        Ok(())
    };
    let mut source = message.clone();
    let outcome = connection.send(&envelope(message.len() as u64), &mut source, before_dot).await;
    Came::Sent(outcome, announced.into_inner())
}

/// Connects to a server with this script and sends it a message.
async fn deliver(script: Vec<Act>, message: &Bytes, settings: Settings) -> Came {
    let (address, _) = server(script).await;
    match connect_with(address, settings).await {
        Ok(mut connection) => send(&mut connection, message.clone()).await,
        Err(failure) => Came::NoConnection(failure),
    }
}

fn said(log: &Mutex<Vec<String>>) -> Vec<String> {
    log.lock().expect("the log").clone()
}
