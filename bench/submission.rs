//! Mails handed in by SMTP and passed on to Postfix's sink, by Posthorn and by Postfix. Postfix's own
//! source cannot log in, so both are given theirs by the same one of ours.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Plan;
use crate::delivery::{Outbox, side};
use crate::mail::{SENDER, SIZE, text};
use crate::postfix::{MailServer, Sink, free_port};
use crate::report::{MAIL_MEMORY_BAR, Report};
use crate::rows::{Side, compare_within};

const CONNECTIONS: usize = 16;

/// How long mail may take to leave before it has failed to.
const PATIENCE: Duration = Duration::from_secs(300);

pub fn submission(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("mails by SMTP to smtp-sink, 2 KiB, SQLite, 16 connections", "Postfix, 16 connections", 1.5),
        || {
            let server = MailServer::start(sink.address)?;
            let began = Instant::now();
            send(server.address, None, plan.mails)?;
            while server.waiting() > 0 {
                ensure!(began.elapsed() < PATIENCE, "mail still waits in Postfix");
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(Side { per_second: plan.mails as f64 / began.elapsed().as_secs_f64(), server: None })
        },
        || {
            let outbox = Outbox::to_relay(sink.address)?;
            let address = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")?));
            let server = outbox.serve(&["--submission-listen".to_owned(), address.to_string()])?;
            let began = Instant::now();
            send(address, Some(outbox.key()), plan.mails)?;
            outbox.wait_until_delivered("TRUE")?;
            side(&server, plan.mails, began.elapsed())
        },
    )
}

/// Hands mails in by connections that are used again.
fn send(to: SocketAddr, key: Option<&str>, count: u64) -> anyhow::Result<()> {
    side_by_side(count, |part| send_some(to, key, part))
}

/// Has so many parts of a work done side by side, one for each connection.
pub fn side_by_side(count: u64, work: impl Fn(Range<u64>) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    let work = &work;
    let share = count.div_ceil(CONNECTIONS as u64);
    std::thread::scope(|scope| {
        let part = |n: u64| (share * n).min(count)..(share * (n + 1)).min(count);
        let senders: Vec<_> = (0..CONNECTIONS as u64).map(|n| scope.spawn(move || work(part(n)))).collect();
        let ends = senders.into_iter().map(|sender| sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))?);
        ends.collect::<anyhow::Result<()>>()
    })
}

fn send_some(to: SocketAddr, key: Option<&str>, numbers: Range<u64>) -> anyhow::Result<()> {
    let mut dialogue = Dialogue::begin(to)?;
    if let Some(key) = key {
        let secret = STANDARD.encode(format!("\0posthorn\0{key}"));
        dialogue.say(&format!("AUTH PLAIN {secret}\r\n"), &["235"])?;
    }
    let body = text(SIZE).replace('\n', "\r\n");
    for n in numbers {
        let to = format!("customer-{n}@example.com");
        dialogue.say(&format!("MAIL FROM:<{SENDER}>\r\nRCPT TO:<{to}>\r\nDATA\r\n"), &["250", "250", "354"])?;
        let message = format!("From: {SENDER}\r\nTo: {to}\r\nSubject: Your order\r\n\r\n{body}.\r\n");
        dialogue.say(&message, &["250"])?;
    }
    dialogue.say("QUIT\r\n", &["221"])
}

pub struct Dialogue(BufReader<TcpStream>);

impl Dialogue {
    pub fn begin(to: SocketAddr) -> anyhow::Result<Dialogue> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut dialogue = Dialogue(BufReader::new(stream));
        dialogue.expect("220")?;
        dialogue.say("EHLO bench.example\r\n", &["250"])?;
        Ok(dialogue)
    }

    pub fn say(&mut self, words: &str, codes: &[&str]) -> anyhow::Result<()> {
        self.0.get_mut().write_all(words.as_bytes())?;
        codes.iter().try_for_each(|code| self.expect(code))
    }

    /// Reads one reply, of perhaps many lines.
    fn expect(&mut self, code: &str) -> anyhow::Result<()> {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).context("a reply")?;
            ensure!(line.starts_with(code), "expected {code}, got {line:?}");
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(());
            }
        }
    }
}
