//! What every feature shares: the store, the clock, the settings, the addresses, the
//! credentials in use, and what strangers may take of the machine.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::config::{Config, PublicUrl};
use crate::credentials::Credentials;
use crate::db::Db;
use crate::limits::{Admission, Allowances, DiskUse};
use crate::seal::Seal;

/// The shared state. Clones share it.
#[derive(Clone)]
pub struct App(Arc<Parts>);

pub struct Parts {
    pub config: Config,
    pub addresses: Addresses,
    pub db: Db,
    pub clock: Clock,
    pub seal: Arc<Seal>,
    pub credentials: Credentials,
    /// Rings when there is work that a worker need not wait for.
    work: Notify,
    /// The same, of mail.
    mail: Notify,
    /// The same, of events for webhooks.
    webhooks: Arc<Notify>,
    /// The same, of contacts to be judged for segments that fill themselves.
    judging: Notify,
    pub admission: Admission,
    /// How many requests callers may make.
    pub allowances: Allowances,
    /// What bodies take on disk.
    pub spooled: DiskUse,
    pub metrics: PrometheusHandle,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Where the outside finds us. Never taken from a request.
#[derive(Debug, Clone)]
pub struct Addresses {
    pub base: PublicUrl,
    pub dashboard: PublicUrl,
}

impl Addresses {
    /// What a protected-resource challenge points at.
    pub fn resource_metadata(&self) -> String {
        format!("{}/.well-known/oauth-protected-resource{}", self.base.origin(), self.base.path())
    }

    /// The host that mail names. One that is reached by a bare address has none that it could.
    pub fn mail_host(&self) -> &str {
        let authority = self.base.authority();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let is_address = host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok();
        if is_address { "localhost" } else { host }
    }

    /// What this server calls itself in the dialogue with other mail servers.
    pub fn helo<'a>(&'a self, config: &'a Config) -> &'a str {
        config.mail.helo.as_deref().unwrap_or_else(|| self.mail_host())
    }

    pub fn share_a_host(&self) -> bool {
        self.base.origin() == self.dashboard.origin()
    }
}

impl App {
    pub fn new(
        config: Config,
        addresses: Addresses,
        db: Db,
        clock: Clock,
        metrics: PrometheusHandle,
        seal: Seal,
    ) -> App {
        let seal = Arc::new(seal);
        let credentials = Credentials::new(seal.clone());
        let allowances = Allowances::new(config.api.key_rate, config.api.workspace_rate);
        App(Arc::new(Parts {
            config,
            addresses,
            db,
            clock,
            seal,
            credentials,
            work: Notify::new(),
            mail: Notify::new(),
            webhooks: Arc::default(),
            judging: Notify::new(),
            admission: Admission::default(),
            allowances,
            spooled: DiskUse::default(),
            metrics,
        }))
    }

    /// What this server calls itself in the dialogue with other mail servers.
    pub fn helo(&self) -> &str {
        self.addresses.helo(&self.config)
    }

    /// Tells this process's workers that something is due, if it is.
    pub fn wake_workers_if(&self, is_due: bool) {
        if is_due {
            self.work.notify_one();
        }
    }

    /// Resolves when somebody said that something is due.
    pub async fn work_waits(&self) {
        self.work.notified().await;
    }

    /// Tells this process that contacts or segments are to be judged, if they are.
    pub fn wake_judges_if(&self, is_due: bool) {
        if is_due {
            self.judging.notify_one();
        }
    }

    /// Resolves when somebody said that contacts or segments are to be judged.
    pub async fn judging_waits(&self) {
        self.judging.notified().await;
    }

    /// Tells this process that events are to be delivered to webhooks.
    pub fn wake_webhooks(&self) {
        self.webhooks.notify_one();
    }

    /// What [`App::wake_webhooks`] rings, for whoever has only that.
    pub fn webhooks_bell(&self) -> Arc<Notify> {
        self.webhooks.clone()
    }

    /// Resolves when somebody said that events are to be delivered to webhooks.
    pub async fn webhooks_wait(&self) {
        self.webhooks.notified().await;
    }

    /// Tells this process's delivery that a mail is due.
    pub fn wake_mail(&self) {
        self.mail.notify_one();
    }

    /// Resolves when somebody said that a mail is due.
    pub async fn mail_waits(&self) {
        self.mail.notified().await;
    }
}

/// A feature's own state holds what all share, and gives it to whoever takes that.
macro_rules! holds_app {
    ($state:ident { $within:ident: $held:ty }) => {
        impl std::ops::Deref for $state {
            type Target = $held;

            fn deref(&self) -> &$held {
                &self.$within
            }
        }

        impl axum::extract::FromRef<$state> for $crate::app::App {
            fn from_ref(state: &$state) -> $crate::app::App {
                $crate::app::App::from_ref(&state.$within)
            }
        }
    };
}
pub(crate) use holds_app;
