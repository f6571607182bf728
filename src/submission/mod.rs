//! SMTP submission: programs hand in mail over a dialogue (RFC 6409), with an API key as their
//! password. What they hand in passes the same acceptance as what comes over HTTP, and goes as it
//! was written.

mod certificate;
mod command;
mod dots;
mod fuzzing;
mod listener;
mod log_in;
mod message;
mod reply;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use fuzzing::submission_dialogue;
pub use listener::{Listeners, MOST_CONNECTIONS, run};

use std::time::Duration;

use crate::config::Config;
use crate::emails::Emails;
use crate::limits::Attempts;
use certificate::Certificate;

/// Failed log-ins that an address may have before it has to wait.
const FAILED_LOG_INS: u32 = 50;

/// What all dialogues share.
struct Server {
    emails: Emails,
    certificate: Option<Certificate>,
    attempts: Attempts,
    patience: Patience,
}

impl Server {
    fn new(emails: Emails) -> anyhow::Result<Server> {
        let files = emails.config.submission.certificate();
        Ok(Server {
            certificate: files.map(|(certificate, key)| Certificate::load(certificate, key)).transpose()?,
            attempts: Attempts::new(FAILED_LOG_INS),
            patience: Patience::of(&emails.config),
            emails,
        })
    }
}

/// How long a client may take.
#[derive(Clone, Copy)]
struct Patience {
    /// For the handshake that begins encryption.
    handshake: Duration,
    /// For a command, before it has logged in and after.
    stranger: Duration,
    command: Duration,
    /// For the next piece of a message, and for all of them.
    piece: Duration,
    message: Duration,
}

impl Patience {
    fn of(config: &Config) -> Patience {
        let seconds = |count: u32| Duration::from_secs(count.into()).mul_f64(config.mail.smtp_timeout_factor);
        Patience {
            handshake: seconds(30),
            stranger: seconds(60),
            command: seconds(300),
            piece: seconds(180),
            message: seconds(900),
        }
    }
}
