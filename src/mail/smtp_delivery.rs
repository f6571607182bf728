//! Takes one message to the relay, and says what became of it.

use std::time::{Duration, UNIX_EPOCH};

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::{Address, AsyncTransport};

use super::relay::{self, Transport};
use super::store::Claimed;
use crate::clock::{HOUR, MINUTE, SECOND};
use crate::config::{PublicUrl, Relay};

/// How long a message may take; then it is tried again later.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait after each attempt that failed. After the last there is one
/// more attempt.
const WAITS: [i64; 7] = [30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR];

/// Answers by which a relay refuses us and not the message: it wants a log-in,
/// or another one. Somebody will mend the settings.
const ABOUT_US: [u16; 4] = [530, 534, 535, 538];

pub struct SmtpDelivery {
    transport: Transport,
    from: Mailbox,
    domain: String,
}

/// What became of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Sent,
    /// It may go better later.
    Later(String),
    /// It never will.
    Never(String),
}

impl SmtpDelivery {
    pub fn new(relay: &Relay, from: Option<&Mailbox>, base: &PublicUrl) -> anyhow::Result<SmtpDelivery> {
        let domain = domain(base);
        let from = match from {
            Some(from) => from.clone(),
            None => Mailbox::new(Some("Posthorn".into()), Address::new("posthorn", &domain)?),
        };
        Ok(SmtpDelivery { transport: relay::transport(relay, &domain)?, from, domain })
    }

    pub async fn deliver(&self, message: &Claimed) -> Outcome {
        let letter = match self.letter(message) {
            Ok(letter) => letter,
            Err(error) => return Outcome::Never(format!("the message cannot be written: {error}")),
        };
        match tokio::time::timeout(PATIENCE, self.transport.send(letter)).await {
            Ok(Ok(_)) => Outcome::Sent,
            Ok(Err(error)) => {
                let code = error.status().map(u16::from);
                let about_us = code.is_some_and(|code| ABOUT_US.contains(&code));
                let text = legible(&error.to_string());
                if error.is_permanent() && !about_us { Outcome::Never(text) } else { Outcome::Later(text) }
            }
            Err(_) => Outcome::Later(format!("the relay took longer than {} seconds", PATIENCE.as_secs())),
        }
    }

    /// The message as it travels. However often that is, it is the same to the
    /// letter, so that a receiver can tell that it is there already.
    fn letter(&self, message: &Claimed) -> anyhow::Result<Message> {
        let created = UNIX_EPOCH + Duration::from_micros(u64::try_from(message.created_at).unwrap_or(0));
        let generated = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".into());
        let letter = Message::builder()
            .message_id(Some(format!("<{}@{}>", message.id, self.domain)))
            .date(created)
            .from(self.from.clone())
            .to(Mailbox::new(None, message.recipient.parse()?))
            .subject(&message.subject)
            .raw_header(generated)
            .header(ContentType::TEXT_PLAIN)
            .body(message.body.clone())?;
        Ok(letter)
    }
}

/// How long to wait after a failed attempt, the first being 1; `None` when it
/// was the last. A quarter more or less, so that what failed together does not
/// come back together.
pub fn wait_after(attempt: i64, chance: u16) -> Option<i64> {
    let wait = *WAITS.get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
    Some(wait / 4 * 3 + wait / 2 * i64::from(chance) / i64::from(u16::MAX))
}

/// Our host's name. One that is reached by a bare address has none that mail
/// could use.
fn domain(base: &PublicUrl) -> String {
    let authority = base.authority();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
    if is_address { "localhost" } else { host }.to_owned()
}

/// A relay's words as they can be stored and shown.
fn legible(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(base: &str, message: &Claimed) -> String {
        let relay: Relay = "smtp://127.0.0.1:1".parse().expect("a relay");
        let smtp_delivery =
            SmtpDelivery::new(&relay, None, &base.parse().expect("an address")).expect("a smtp_delivery");
        String::from_utf8(smtp_delivery.letter(message).expect("a letter").formatted()).expect("text")
    }

    fn message() -> Claimed {
        Claimed {
            id: "01900000-0000-7000-8000-000000000000".parse().expect("an id"),
            recipient: "owner@example.com".into(),
            subject: "An app was given access".into(),
            body: "Grüße\n\n.\nEnd\n".into(),
            created_at: 1_767_323_045_678_901,
            attempt: 1,
        }
    }

    #[test]
    fn architecture_3_a_letter_is_the_same_however_often_it_is_written() {
        let text = letter("https://mail.example:8443/p", &message());
        for line in [
            "Message-ID: <01900000-0000-7000-8000-000000000000@mail.example>",
            "From: Posthorn <posthorn@mail.example>",
            "To: owner@example.com",
            "Subject: An app was given access",
            "Date: Fri, 02 Jan 2026 03:04:05 +0000",
            "Auto-Submitted: auto-generated",
            "Content-Type: text/plain; charset=utf-8",
        ] {
            assert!(text.lines().any(|sent| sent == line), "{line}\n{text}");
        }
        assert_eq!(text, letter("https://mail.example:8443/p", &message()));
    }

    #[test]
    fn a_host_without_a_name_sends_as_localhost() {
        for base in ["http://127.0.0.1:8080", "http://[::1]:8080", "http://[::1]", "http://localhost"] {
            let text = letter(base, &message());
            assert!(
                text.contains("<posthorn@localhost>")
                    && text.contains("<01900000-0000-7000-8000-000000000000@localhost>"),
                "{base}: {text}"
            );
        }
        assert!(letter("http://mail.example", &message()).contains("<posthorn@mail.example>"));
    }

    #[test]
    fn attempts_grow_apart_and_end_after_the_eighth() {
        assert_eq!(wait_after(1, 0), Some(30 * SECOND / 4 * 3));
        assert_eq!(wait_after(1, u16::MAX), Some(30 * SECOND / 4 * 5));
        assert!((1..7).all(|attempt| wait_after(attempt, u16::MAX) < wait_after(attempt + 1, 0)));
        assert_eq!((wait_after(7, 0).is_some(), wait_after(8, 0), wait_after(0, 0)), (true, None, None));
    }
}
