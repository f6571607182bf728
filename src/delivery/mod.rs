//! Delivery: recipients that are due are claimed line by line, as many as there is room for,
//! and brought to the next server; what became of them is committed together with what is told.
//!
//! An attempt is journalled in the recipient's row: *started* (the claim), *about to send the
//! final dot* (committed before the dot leaves), *reply*. A row that is claimed with a dot of which
//! no reply was written down is uncertain, and is sent again or held as its mail says.

mod certificates;
mod claim;
mod feedback;
mod line;
mod message;
mod news;
mod own_mail;
mod pass;
mod people;
mod policies;
mod pool;
mod refusal;
mod retry;
mod return_path;
mod routes;
mod scheduled;
mod sender;
mod settle;
mod settlement;
mod sites;
mod source;
mod store;
mod test_recipients;
mod times;
mod topics;
mod transmit;
mod wanted;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quick_cache::sync::Cache;
use tokio::sync::watch;

use crate::app::App;
use crate::broadcasts::{Mailing, Standings};
use crate::clock::HOUR;
use crate::config::{Relay, TransportKind};
use crate::db::{DbError, Sql};
use crate::dns::Resolver;
use crate::domains::Domains;
use crate::http_client::{HttpClient, Reach};
use crate::id::{DomainId, EmailId};
use crate::occurrences::Occurrences;
use crate::smtp::{Client, Settings, Timeouts};
use crate::tls;
use crate::work::{self, Next, Tasks, Worker};
use claim::Look;
use message::Messages;
use pass::Pass;
use pool::Pool;
use routes::{Route, Routes};
use sites::Sites;

pub use feedback::{Effect, Feedback, ReturnToken};
pub use line::{Line, Way};
pub use message::Writer;
pub use own_mail::{OwnMail, tell_owners};
pub use sender::sweep_days;
pub use source::router as pages;
pub use store::count_waiting;
pub use times::sweep;

pub const STATEMENTS: &[&[Sql]] = &[feedback::ALL, store::ALL, times::ALL];

/// For how long a server is spoken to in clear that failed at encryption.
const IN_CLEAR_FOR: i64 = HOUR;

/// How many such servers are remembered.
const MOST_IN_CLEAR: usize = 1_000;

/// How many broadcasts are kept in memory.
const MOST_MAILINGS: usize = 16;

/// What delivery works with.
pub struct Engine {
    app: Occurrences,
    sites: Sites,
    routes: Routes,
    relays: Arc<Route>,
    resolver: Resolver,
    /// Reads what domains say of their mail servers.
    http: HttpClient,
    client: Client,
    pool: Pool,
    messages: Messages,
    /// Mails of broadcasts that are on their way.
    mailings: Cache<EmailId, Arc<Mailing>>,
    standings: Standings,
    domains: Domains,
    writer: Writer,
    /// Servers that offer encryption and fail at it, and until when that is believed.
    without_tls: Cache<String, i64>,
    /// Up to where the lines of each lane had their turn.
    pass: Mutex<Pass>,
    /// What we call ourselves.
    helo: String,
}

/// Delivers until it is time to stop.
pub async fn run(app: Occurrences, domains: Domains, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    match Engine::new(app, domains) {
        Ok(engine) => work::run(Delivery(Arc::new(engine)), clock, stopping).await,
        Err(error) => tracing::error!(%error, "mail cannot be delivered"),
    }
}

struct Delivery(Arc<Engine>);

impl Worker for Delivery {
    const NAME: &'static str = "mail";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        self.0.pool.sweep(Instant::now());
        let Look { dispatches, next, .. } = self.0.look().await?;
        for dispatch in dispatches {
            let engine = self.0.clone();
            tasks.spawn(async move { engine.work_off(dispatch).await });
        }
        Ok(next)
    }

    async fn woken(&self) {
        tokio::select! {
            () = self.0.app.mail_waits() => {}
            () = self.0.sites.have_room() => {}
        }
    }
}

/// How the mail of a domain leaves.
struct Transport {
    kind: TransportKind,
    route: Arc<Route>,
}

impl Engine {
    pub fn new(app: Occurrences, domains: Domains) -> anyhow::Result<Engine> {
        let mail = &app.config.mail;
        let helo = app.helo().to_owned();
        let roots = match &mail.smtp_ca {
            Some(file) => tls::roots_with(file)?,
            None => tls::public_roots(),
        };
        let settings = Settings {
            helo: helo.clone(),
            timeouts: Timeouts::default().scaled(mail.smtp_timeout_factor),
            roots: roots.clone(),
            private_addresses: mail.private_mx,
            mx_port: mail.mx_port,
        };
        let resolver = Resolver::of_mail(&mail.dns_server, &mail.dane)?;
        let reach = if mail.private_mx { Reach::Anywhere } else { Reach::Public };
        let relays: &[Relay] = app.config.smtp_url.as_slice();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Engine {
            sites: Sites::default(),
            routes: Routes::new(mail.mx_port),
            relays: Arc::new(Route::relays(relays)),
            client: Client::new(settings, resolver.clone()),
            http: HttpClient::asking(resolver.clone(), roots, reach),
            resolver,
            pool: Pool::default(),
            messages: Messages::default(),
            mailings: Cache::new(MOST_MAILINGS),
            standings: Standings::default(),
            writer: Writer::new(App::clone(&app), domains.clone(), cores),
            domains,
            without_tls: Cache::new(MOST_IN_CLEAR),
            pass: Mutex::default(),
            helo,
            app,
        })
    }

    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims what is due and there is room for, and delivers it. Tells how many recipients that were.
    pub async fn round(self: &Arc<Engine>) -> Result<usize, DbError> {
        let Look { dispatches, settled, .. } = self.look().await?;
        let count = dispatches.iter().map(|dispatch| dispatch.recipients.len()).sum::<usize>();
        futures_util::future::join_all(dispatches.into_iter().map(|dispatch| self.work_off(dispatch))).await;
        Ok(settled + count)
    }

    /// How mail leaves, of a domain that has a way of its own or of all others.
    async fn transport(&self, domain_id: Option<DomainId>) -> Result<Transport, DbError> {
        if let Some(id) = domain_id
            && let Some(settings) = self.domains.delivery_settings(id).await?
            && let Some(kind) = settings.transport
        {
            return Ok(Transport { kind, route: Arc::new(Route::foreign_relays(id, &settings.relays)) });
        }
        Ok(Transport { kind: self.app.config.transport(), route: self.relays.clone() })
    }

    /// Looks up the servers of a domain, beside everything else.
    fn look_up(self: &Arc<Engine>, domain: &str) {
        if !self.routes.begin(domain) {
            return;
        }
        let (engine, domain) = (self.clone(), domain.to_owned());
        tokio::spawn(async move {
            let now = engine.app.clock.steady();
            engine.routes.learn((&engine.resolver, &engine.http), &domain, &engine.helo, now).await;
            engine.app.wake_mail();
        });
    }
}
