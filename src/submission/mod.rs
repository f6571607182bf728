//! SMTP submission: programs hand in mail over a dialogue (RFC 6409), with an API key as their
//! password. What they hand in passes the same acceptance as what comes over HTTP, and goes as it
//! was written.

mod log_in;
mod message;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Config;
use crate::emails::Emails;
use crate::limits::Attempts;
use crate::smtp_server::{self, Certificate, Dialogue, Listeners, Patience, Service};
use session::Submitter;

/// How many connections there may be, beside those of HTTP.
pub const MOST_CONNECTIONS: usize = 1_000;

/// Failed log-ins that an address may have before it has to wait.
const FAILED_LOG_INS: u32 = 50;

/// Listens where the settings say.
pub fn listen(config: &Config) -> anyhow::Result<Listeners> {
    let settings = &config.submission;
    Listeners::bind(
        ("--submission-listen", settings.submission_listen),
        ("--submission-tls-listen", settings.submission_tls_listen),
    )
}

/// Takes mail until it is time to stop, then lets what is being handed in be finished.
pub async fn run(listeners: Listeners, emails: Emails, stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
    let server = Arc::new(Server::new(emails)?);
    let service = Service {
        name: "submission",
        config: &server.emails.config,
        most: MOST_CONNECTIONS,
        stopping: stopping.clone(),
    };
    let session = |stream, peer, is_encrypted| {
        let dialogue = Dialogue::new(stream, stopping.clone());
        smtp_server::run(Submitter::new(server.clone(), dialogue, peer), is_encrypted)
    };
    listeners.serve(service, session, || server.attempts.sweep(server.emails.clock.steady())).await;
    Ok(())
}

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
            patience: Patience::of(&emails.config, [60, 300, 900]),
            emails,
        })
    }
}
