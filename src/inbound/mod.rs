//! Mail that comes by SMTP from other servers: for domains that receive, and what comes back, reports
//! by mail servers and by those who keep mailboxes, at the addresses that our mail carries as its
//! return path.
//!
//! It is no relay and never answers anybody: mail for anybody else is refused. A report is read and
//! gone. What is taken, or changed by it, is committed before it is acknowledged.

mod message;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::Config;
use crate::delivery::Feedback;
use crate::limits::RateLimit;
use crate::receiving::Receiving;
use crate::smtp_server::{self, Certificate, Dialogue, Listeners, Patience, Service};
use session::Reporter;

/// How many connections there may be, beside those of HTTP.
pub const MOST_CONNECTIONS: usize = 500;

/// How many addresses that are none of ours one sender may try in a minute.
const UNKNOWN_RECIPIENTS_PER_MINUTE: u32 = 100;

/// Listens where the settings say.
pub fn listen(config: &Config) -> anyhow::Result<Listeners> {
    Listeners::bind(("--inbound-listen", config.submission.inbound_listen), ("", None))
}

/// Takes reports and mail until it is time to stop.
pub async fn run(listeners: Listeners, receiving: Receiving, stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
    let server = Arc::new(Server::new(receiving)?);
    let service = Service {
        name: "inbound mail",
        config: &server.feedback.app().config,
        most: MOST_CONNECTIONS,
        stopping: stopping.clone(),
    };
    let session = |stream, peer: SocketAddr, is_encrypted| {
        let dialogue = Dialogue::new(stream, stopping.clone());
        smtp_server::run(Reporter::new(server.clone(), dialogue, peer.ip()), is_encrypted)
    };
    let sweep = || {
        server.receiving.sweep_limits();
        server.unknown_recipients.sweep();
    };
    listeners.serve(service, session, sweep).await;
    Ok(())
}

/// What all dialogues share.
struct Server {
    feedback: Feedback,
    receiving: Receiving,
    /// The one that submission has, too: it is the same host.
    certificate: Option<Certificate>,
    patience: Patience,
    /// What strangers try.
    unknown_recipients: RateLimit,
}

impl Server {
    fn new(receiving: Receiving) -> anyhow::Result<Server> {
        let app = receiving.occurrences().clone();
        let files = app.config.submission.certificate();
        let certificate = files.map(|(certificate, key)| Certificate::load(certificate, key)).transpose()?;
        let patience = Patience::of(&app.config, [120, 120, 600]);
        let unknown_recipients =
            RateLimit::new(UNKNOWN_RECIPIENTS_PER_MINUTE, Duration::from_secs(60), !app.config.limit_loopback);
        Ok(Server { certificate, patience, unknown_recipients, feedback: Feedback::new(app), receiving })
    }
}
