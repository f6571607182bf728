//! The way to the server: which hosts there are, which of them is used, and how a
//! connection to it is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures_util::future::select_ok;
use tokio::sync::{Mutex, Notify};
use tokio::time::{sleep, timeout};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::refusal;
use super::session::Session;
use crate::db::DbError;
use crate::tls;

/// How long one address may take to be connected to, and one host until it has
/// answered everything that opens a session.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
const OPEN_WAIT: Duration = Duration::from_secs(5);

/// By how much each further host is tried after the one before it.
const STAGGER: Duration = Duration::from_millis(250);

/// How long to wait after the first failure before the next attempt, and then twice
/// as long each time: up to the shorter where nobody has a connection, up to the
/// longer where others have one, because each attempt costs a server that is full as
/// much as a request.
const PAUSE: Duration = Duration::from_millis(10);
const SHORT_PAUSE: Duration = Duration::from_millis(200);
const LONG_PAUSE: Duration = Duration::from_secs(2);

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
}

impl Purpose {
    /// Who waits so long for a lock may be waiting in a circle: it is cheaper to try
    /// again than to wait until the server has found out. Whoever stops in the middle
    /// of a transaction (a process that is paused, a machine that is gone) gives up
    /// what it has locked, so that others go on.
    fn settings(self) -> &'static str {
        match self {
            Purpose::Read => "",
            Purpose::Write => "SET lock_timeout = 250; SET idle_in_transaction_session_timeout = 5000",
        }
    }
}

/// The connections for one purpose.
#[derive(Default)]
struct Pool {
    live: Arc<AtomicUsize>,
    /// How many try to come back.
    missing: Arc<AtomicUsize>,
    /// Where none is live, one at a time tries.
    first: Mutex<()>,
    /// Whether the last that tried to come back has tried more than once.
    is_refused: AtomicBool,
}

impl Pool {
    fn has_live(&self) -> bool {
        self.live.load(Ordering::Relaxed) > 0
    }

    fn has_missing(&self) -> bool {
        self.missing.load(Ordering::Relaxed) > 0
    }

    fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

/// One that counts for as long as this lives.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn among(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The hosts of one address. All connections of a process lead to the same one.
pub(super) struct Link {
    hosts: Vec<Config>,
    readers: Pool,
    writers: Pool,
    /// Asks one that reads to give up its connection for one that writes.
    yield_request: Notify,
    /// The host that answered last.
    current: AtomicUsize,
    /// Raised when connections that are open can no longer be relied on.
    epoch: AtomicU64,
    tls: MakeRustlsConnect,
}

impl Link {
    pub(super) fn new(url: &str) -> anyhow::Result<Arc<Link>> {
        let config: Config = url.parse().context("the PostgreSQL address cannot be read")?;
        let hosts = hosts(&config);
        let (readers, writers) = (Pool::default(), Pool::default());
        let (current, epoch) = (AtomicUsize::new(0), AtomicU64::new(0));
        // Encryption as the address asks for it (`sslmode`).
        let tls = MakeRustlsConnect::new(tls::client());
        Ok(Arc::new(Link { hosts, readers, writers, yield_request: Notify::new(), current, epoch, tls }))
    }

    fn pool(&self, purpose: Purpose) -> &Pool {
        match purpose {
            Purpose::Read => &self.readers,
            Purpose::Write => &self.writers,
        }
    }

    pub(super) fn has_live(&self, purpose: Purpose) -> bool {
        self.pool(purpose).has_live()
    }

    /// No connection is to be had for writing, and none that there is can do it.
    pub(super) fn ask_to_yield(&self) {
        if self.readers.has_live() {
            self.yield_request.notify_one();
        }
    }

    /// Resolves for one of those that read, when its connection is needed for writing.
    pub(super) async fn asked_to_yield(&self) {
        loop {
            self.yield_request.notified().await;
            if !self.writers.has_live() {
                return;
            }
        }
    }

    /// A connection that counts as live until this is dropped.
    pub(super) fn live(&self, purpose: Purpose) -> Counted {
        Counted::among(&self.pool(purpose).live)
    }

    /// Opens a session and gives it its settings. Of several hosts the one that was
    /// used last is asked first; one that does not answer holds up the others for a
    /// moment only.
    pub(super) async fn open(self: &Arc<Link>, purpose: Purpose) -> Result<Session, DbError> {
        let (before, epoch) = (self.current.load(Ordering::Relaxed), self.epoch());
        let attempts = (0..self.hosts.len() as u32).map(|place| {
            let host = (before + place as usize) % self.hosts.len();
            Box::pin(async move {
                sleep(STAGGER * place).await;
                self.open_at(host, purpose).await.map(|session| (host, session))
            })
        });
        let ((host, session), _) = select_ok(attempts).await?;
        if self.current.swap(host, Ordering::Relaxed) != host {
            tracing::warn!(host = ?self.hosts[host].get_hosts(), "PostgreSQL is now used on another host");
            self.distrust(epoch);
        }
        session.set_epoch(self.epoch());
        self.pool(purpose).is_refused.store(false, Ordering::Relaxed);
        Ok(session)
    }

    async fn open_at(self: &Arc<Link>, host: usize, purpose: Purpose) -> Result<Session, DbError> {
        let opening = async {
            let (client, connection) = self.hosts[host].connect(self.tls.clone()).await?;
            let session = Session::start(client, connection, self, purpose);
            session.configure(purpose.settings()).await?;
            Ok(session)
        };
        match timeout(OPEN_WAIT, opening).await {
            Ok(opened) => opened.map_err(refusal),
            Err(_) => Err(DbError::Unavailable("PostgreSQL does not answer".into())),
        }
    }

    /// Tries until a session is open; `None` once `refused`, who hears of each
    /// failure but the first (a server that restarts cuts off who comes at that
    /// moment), says that nobody needs it any more. Where the server has few
    /// connections to give, the first that writes comes before all that read, for
    /// which it can stand in, and the first that reads before the second that writes.
    pub(super) async fn reopen(
        self: &Arc<Link>,
        purpose: Purpose,
        mut refused: impl FnMut(DbError) -> bool,
    ) -> Option<Session> {
        let (own, other) = match purpose {
            Purpose::Read => (&self.readers, &self.writers),
            Purpose::Write => (&self.writers, &self.readers),
        };
        let _missing = Counted::among(&own.missing);
        let (mut pause, mut is_first) = (PAUSE, true);
        loop {
            let turn = if own.has_live() { None } else { Some(own.first.lock().await) };
            let comes_after = own.has_live() || purpose == Purpose::Read;
            let yields = comes_after && !other.has_live() && other.has_missing();
            let opened = if yields { None } else { Some(self.open(purpose).await) };
            let failure = match opened {
                Some(Ok(session)) => return Some(session),
                Some(Err(_)) if std::mem::take(&mut is_first) => None,
                Some(Err(error)) => {
                    own.is_refused.store(true, Ordering::Relaxed);
                    Some(error)
                }
                // Whoever comes first may still get one.
                None if own.has_live() || !other.is_refused() => None,
                None => Some(DbError::Unavailable("there is no connection, not even for writing".into())),
            };
            if let Some(error) = failure
                && !refused(error)
            {
                return None;
            }
            drop(turn);
            sleep(pause).await;
            pause = (pause * 2).min(if own.has_live() && !yields { LONG_PAUSE } else { SHORT_PAUSE });
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// What befell one session may have befallen all of its time: none of them is
    /// used again. A newer one stays.
    pub(super) fn distrust(&self, epoch: u64) {
        let _ = self.epoch.compare_exchange(epoch, epoch + 1, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// One configuration a host, so that each has a time of its own to answer in.
fn hosts(given: &Config) -> Vec<Config> {
    let count = given.get_hosts().len().max(given.get_hostaddrs().len());
    let host = |number: usize| {
        let mut config = without_hosts(given);
        if let Some(host) = given.get_hosts().get(number) {
            match host {
                Host::Tcp(name) => config.host(name),
                Host::Unix(path) => config.host_path(path),
            };
        }
        if let Some(address) = given.get_hostaddrs().get(number) {
            config.hostaddr(*address);
        }
        if let Some(port) = given.get_ports().get(number).or(given.get_ports().first()) {
            config.port(*port);
        }
        // Among several, a standby is of no use: everything here also writes.
        if count > 1 && given.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config
    };
    // Without any, connecting says what is missing.
    (0..count.max(1)).map(host).collect()
}

fn without_hosts(given: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = given.get_user() {
        config.user(user);
    }
    if let Some(password) = given.get_password() {
        config.password(password);
    }
    if let Some(name) = given.get_dbname() {
        config.dbname(name);
    }
    if let Some(options) = given.get_options() {
        config.options(options);
    }
    config.ssl_mode(given.get_ssl_mode()).ssl_negotiation(given.get_ssl_negotiation());
    config.channel_binding(given.get_channel_binding()).load_balance_hosts(given.get_load_balance_hosts());
    config.target_session_attrs(given.get_target_session_attrs());
    config.connect_timeout(CONNECT_WAIT).application_name("posthorn");
    // A peer that is gone is noticed also where nothing is asked of it.
    config.keepalives_idle(Duration::from_secs(5)).keepalives_interval(Duration::from_secs(2)).keepalives_retries(3);
    config.tcp_user_timeout(Duration::from_secs(10));
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_an_address_keeps_its_port_and_what_they_share() {
        let url = "postgres://me:secret@one:1,two:2/name?sslmode=require";
        let hosts = hosts(&url.parse().expect("an address"));
        let places: Vec<_> = hosts.iter().map(|host| (host.get_hosts().to_vec(), host.get_ports().to_vec())).collect();
        let place = |name: &str, port| (vec![Host::Tcp(name.into())], vec![port]);
        assert_eq!(places, [place("one", 1), place("two", 2)]);
        for host in &hosts {
            assert_eq!((host.get_user(), host.get_password()), (Some("me"), Some("secret".as_bytes())));
            assert_eq!(host.get_dbname(), Some("name"));
            assert_eq!(host.get_ssl_mode(), tokio_postgres::config::SslMode::Require);
            assert_eq!(host.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }

    #[test]
    fn a_single_host_is_taken_as_it_is() {
        let hosts = hosts(&"postgres://me@only/name".parse().expect("an address"));
        assert_eq!(hosts.len(), 1);
        assert_eq!(hosts[0].get_target_session_attrs(), TargetSessionAttrs::Any);
    }
}
