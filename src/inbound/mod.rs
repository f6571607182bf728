//! Mail that comes back: reports by mail servers and by those who keep mailboxes, taken by SMTP at
//! the addresses that our mail carries as its return path.
//!
//! It is no relay and never answers anybody: who is not named by a return path that we have signed
//! is refused, and what is taken is read and gone. What it changes is committed before it is
//! acknowledged.

mod message;
mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::Config;
use crate::delivery::Feedback;
use crate::occurrences::Occurrences;
use crate::smtp_server::{Certificate, Listeners, Service};
use session::Session;

/// How many connections there may be, beside those of HTTP.
pub const MOST_CONNECTIONS: usize = 500;

/// Listens where the settings say.
pub fn listen(config: &Config) -> anyhow::Result<Listeners> {
    Listeners::bind(("--inbound-listen", config.submission.inbound_listen), ("", None))
}

/// Takes reports until it is time to stop.
pub async fn run(listeners: Listeners, app: Occurrences, stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
    let server = Arc::new(Server::new(app)?);
    let service = Service {
        name: "inbound mail",
        config: &server.feedback.app().config,
        most: MOST_CONNECTIONS,
        stopping: stopping.clone(),
    };
    let session = |stream, _, _| Session::new(server.clone(), stream, stopping.clone()).run();
    listeners.serve(service, session, || {}).await;
    Ok(())
}

/// What all dialogues share.
struct Server {
    feedback: Feedback,
    /// The one that submission has, too: it is the same host.
    certificate: Option<Certificate>,
    patience: Patience,
}

impl Server {
    fn new(app: Occurrences) -> anyhow::Result<Server> {
        let files = app.config.submission.certificate();
        let certificate = files.map(|(certificate, key)| Certificate::load(certificate, key)).transpose()?;
        let patience = Patience::of(&app.config);
        Ok(Server { certificate, patience, feedback: Feedback::new(app) })
    }
}

/// How long a client may take.
#[derive(Clone, Copy)]
struct Patience {
    handshake: Duration,
    command: Duration,
    /// For the next piece of a message, and for all of them.
    piece: Duration,
    message: Duration,
}

impl Patience {
    fn of(config: &Config) -> Patience {
        let seconds = |count: u32| Duration::from_secs(count.into()).mul_f64(config.mail.smtp_timeout_factor);
        Patience { handshake: seconds(30), command: seconds(120), piece: seconds(180), message: seconds(600) }
    }
}
