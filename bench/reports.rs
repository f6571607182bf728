//! Reports of mail that could not be delivered, brought by SMTP as other servers bring them: how fast they are
//! taken, each committed before it is answered, and what that costs in memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::Plan;
use crate::delivery::{ALL, Outbox, customer, side};
use crate::mail::SENDER;
use crate::postfix::free_port;
use crate::report::{MAIL_MEMORY_BAR, Report};
use crate::rows::{Side, compare_within};
use crate::submission::{Dialogue, side_by_side};

/// Reports that are brought in one round.
const REPORTS: u64 = 10_000;
const LEAST: f64 = 1000.0;
/// What taking them may cost in memory.
const MEMORY: u64 = 32 << 20;

/// Where mail that cannot be delivered goes back to, by its recipient.
type ReturnPaths = Arc<Mutex<HashMap<String, String>>>;

pub fn reports(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("reports of bounces by SMTP, SQLite, 16 connections", "1,000 a second", 1.0),
        || Ok(Side { per_second: LEAST, server: None }),
        taken,
    )
}

fn taken() -> anyhow::Result<Side> {
    let (sink, paths) = noting_sink()?;
    let outbox = Outbox::to_relay(sink)?;
    outbox.verify(SENDER.rsplit('@').next().context("a domain")?)?;
    outbox.fill(REPORTS, customer)?;
    let inbound = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")?));
    let server = outbox.serve(&["--inbound-listen".to_owned(), inbound.to_string()])?;
    outbox.wait_until_delivered(ALL)?;
    let paths = std::mem::take(&mut *paths.lock().map_err(|_| anyhow::anyhow!("the sink panicked"))?);
    ensure!(paths.len() as u64 == REPORTS, "{} return paths", paths.len());
    let messages: Vec<(String, String)> = paths.into_iter().map(|(to, path)| (path, bounce(&to))).collect();
    let before = server.memory()?.now;
    let began = Instant::now();
    side_by_side(REPORTS, |part| bring(inbound, &messages[part.start as usize..part.end as usize]))?;
    let side = side(&server, REPORTS, began.elapsed())?;
    let after = server.memory()?.now;
    ensure!(after < before + MEMORY, "taking them cost {} KiB", (after - before) >> 10);
    let bounced: i64 = outbox.connection()?.query_row("SELECT COUNT(*) FROM suppressions", [], |row| row.get(0))?;
    ensure!(bounced as u64 == REPORTS, "{bounced} of {REPORTS} reports were believed");
    Ok(side)
}

/// As a server writes it of a mailbox that is not there.
fn bounce(to: &str) -> String {
    format!(
        "From: <mailer-daemon@mx.example.com>\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nThe mailbox is not there.\r\n\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example.com\r\n\r\n\
         Final-Recipient: rfc822; {to}\r\nAction: failed\r\nStatus: 5.1.1\r\n\
         Diagnostic-Code: smtp; 550 5.1.1 No such user\r\n\r\n--b--\r\n"
    )
}

fn bring(to: SocketAddr, messages: &[(String, String)]) -> anyhow::Result<()> {
    let mut dialogue = Dialogue::begin(to)?;
    for (path, message) in messages {
        dialogue.say(&format!("MAIL FROM:<>\r\nRCPT TO:<{path}>\r\nDATA\r\n"), &["250", "250", "354"])?;
        dialogue.say(&format!("{message}.\r\n"), &["250"])?;
    }
    dialogue.say("QUIT\r\n", &["221"])
}

/// A mail server that takes everything and notes where it would go back to.
fn noting_sink() -> anyhow::Result<(SocketAddr, ReturnPaths)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, paths) = (listener.local_addr()?, ReturnPaths::default());
    let noted = paths.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let paths = noted.clone();
            // A client that hangs up is done.
            std::thread::spawn(move || drop(note(stream, &paths)));
        }
    });
    Ok((address, paths))
}

fn note(stream: TcpStream, paths: &ReturnPaths) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"220 sink\r\n")?;
    let (mut line, mut path) = (String::new(), String::new());
    while {
        line.clear();
        stream.read_line(&mut line)?
    } > 0
    {
        let address = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        let reply = match line.get(..4).unwrap_or_default() {
            "MAIL" => {
                path = address;
                "250 ok\r\n"
            }
            "RCPT" => {
                let mut paths = paths.lock().map_err(|_| anyhow::anyhow!("another panicked"))?;
                paths.insert(address, path.clone());
                "250 ok\r\n"
            }
            "DATA" => {
                stream.get_mut().write_all(b"354 go on\r\n")?;
                while {
                    line.clear();
                    stream.read_line(&mut line)?
                } > 0
                    && line != ".\r\n"
                {}
                "250 ok\r\n"
            }
            "QUIT" => "221 bye\r\n",
            _ => "250 ok\r\n",
        };
        stream.get_mut().write_all(reply.as_bytes())?;
    }
    Ok(())
}
