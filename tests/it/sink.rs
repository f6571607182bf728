//! A mail server on this machine that says what a test wants it to say, and keeps what it takes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What a server does when a command has come, or the end of a message, which is `.`.
#[derive(Debug, Clone)]
pub enum Does {
    Usual,
    /// The same, late.
    UsualAfter(Duration),
    /// The same, as soon as somebody allows it.
    UsualWhen(watch::Receiver<bool>),
    Says(&'static str),
    /// It says this and hangs up.
    SaysLast(&'static str),
    /// It hangs up. What it was given is kept where that was the end of a message.
    HangsUp,
    /// It says nothing more.
    Stalls,
}

/// As what it is heard that somebody hangs up in the middle of a message.
pub const BROKEN_OFF: &str = "(broken off)";

type Script = dyn Fn(&str) -> Does + Send + Sync;

pub struct Sink {
    pub port: u16,
    log: Arc<Log>,
}

/// What a server was told.
#[derive(Default)]
struct Log {
    kept: Mutex<Vec<Taken>>,
    commands: Mutex<Vec<String>>,
}

/// A message, with the envelope it came in.
#[derive(Debug, Clone)]
pub struct Taken {
    pub from: String,
    pub to: String,
    pub text: String,
}

impl Sink {
    /// One that takes everything.
    pub async fn open() -> Sink {
        Sink::scripted(|_| Does::Usual).await
    }

    pub async fn scripted(script: impl Fn(&str) -> Does + Send + Sync + 'static) -> Sink {
        Sink::start("127.0.0.1:0", script, None).await
    }

    /// One that takes everything, at this address.
    pub async fn at(address: &str) -> Sink {
        Sink::start(address, |_| Does::Usual, None).await
    }

    /// One that takes everything, and offers to encrypt.
    pub async fn encrypting(tls: TlsAcceptor) -> Sink {
        Sink::start("127.0.0.1:0", |_| Does::Usual, Some(tls)).await
    }

    async fn start(
        address: &str,
        script: impl Fn(&str) -> Does + Send + Sync + 'static,
        tls: Option<TlsAcceptor>,
    ) -> Sink {
        let listener = TcpListener::bind(address).await.unwrap_or_else(|error| panic!("{address}: {error}"));
        let port = listener.local_addr().expect("an address").port();
        let log: Arc<Log> = Arc::default();
        let (script, keep): (Arc<Script>, _) = (Arc::new(script), log.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (script, keep, tls) = (script.clone(), keep.clone(), tls.clone());
                tokio::spawn(async move {
                    stream.write_all(b"220 sink\r\n").await?;
                    let Some(stream) = converse(stream, &*script, &keep, tls.is_some()).await? else { return Ok(()) };
                    let Some(tls) = tls else { return Ok(()) };
                    converse(tls.accept(stream).await?, &*script, &keep, false).await.map(drop)
                });
            }
        });
        Sink { port, log }
    }

    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    pub fn kept(&self) -> Vec<Taken> {
        self.log.kept.lock().expect("messages").clone()
    }

    /// How many commands have begun so.
    pub fn heard(&self, beginning: &str) -> usize {
        let commands = self.log.commands.lock().expect("commands");
        commands.iter().filter(|command| command.starts_with(beginning)).count()
    }
}

/// A dialogue up to its end, or to where it is to be encrypted: then the stream is given back.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    script: &Script,
    log: &Log,
    offers_tls: bool,
) -> std::io::Result<Option<S>> {
    let mut stream = BufReader::new(stream);
    let (mut line, mut from, mut to) = (String::new(), String::new(), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let command = line.trim_end();
        let usual = match command.split(' ').next().unwrap_or_default() {
            "EHLO" if offers_tls => "250-sink\r\n250-STARTTLS\r\n250-PIPELINING\r\n250 8BITMIME",
            "STARTTLS" if offers_tls => "220 go on",
            "EHLO" => "250-sink\r\n250-PIPELINING\r\n250-SIZE 50000000\r\n250 8BITMIME",
            "DATA" if to.is_empty() => "503 no recipient was accepted",
            "DATA" => "354 go on",
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        log.commands.lock().expect("commands").push(command.to_owned());
        let does = script(command);
        let is_last = matches!(does, Does::SaysLast(_));
        let Some(answer) = answer(does, usual).await else { return Ok(None) };
        let angles = || command.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        match command.get(..4) {
            Some("MAIL") => (from, to) = (angles(), String::new()),
            Some("RCPT") if answer.starts_with('2') => to = angles(),
            _ => {}
        }
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
        if is_last {
            return Ok(None);
        }
        if offers_tls && command == "STARTTLS" {
            return Ok(Some(stream.into_inner()));
        }
        if !answer.starts_with("354") {
            continue;
        }
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n.\r\n") {
            // Who hangs up before the end has said nothing.
            if stream.read_until(b'\n', &mut text).await? == 0 {
                log.commands.lock().expect("commands").push(BROKEN_OFF.to_owned());
                return Ok(None);
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let taken = Taken { from: from.clone(), to: std::mem::take(&mut to), text };
        let does = script(".");
        let is_last = matches!(does, Does::SaysLast(_));
        if !matches!(does, Does::Says(answer) | Does::SaysLast(answer) if !answer.starts_with('2')) {
            log.kept.lock().expect("messages").push(taken);
        }
        let Some(answer) = self::answer(does, "250 2.0.0 taken").await else { return Ok(None) };
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
        if is_last {
            return Ok(None);
        }
    }
}

/// What is said, if anything is.
async fn answer(does: Does, usual: &'static str) -> Option<&'static str> {
    match does {
        Does::Usual => Some(usual),
        Does::UsualAfter(time) => {
            tokio::time::sleep(time).await;
            Some(usual)
        }
        Does::UsualWhen(mut allowed) => allowed.wait_for(|allowed| *allowed).await.ok().map(|_| usual),
        Does::Says(answer) | Does::SaysLast(answer) => Some(answer),
        Does::HangsUp => None,
        Does::Stalls => std::future::pending().await,
    }
}
