//! Domains that mail is sent from: the records that their owners set, whether these are
//! there, what signs, and who may send as whom.
//!
//! Once its records were seen, a name is its workspace's and no other's. Those who accept
//! mail ask [`Domains::may_send`]; those who deliver it ask for [`SigningKeys`] and
//! [`DeliverySettings`].

mod check;
mod domain;
mod in_use;
mod inspection;
mod keys;
mod keys_store;
mod page_settings;
mod pages;
mod records;
mod routes;
mod sealed;
mod sender;
mod shapes;
mod status;
mod store;
#[cfg(test)]
mod testing;
mod tracking;
mod transport;
mod verification;
mod worker;

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use quick_cache::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};

pub use domain::TlsPolicy;
pub use in_use::DeliverySettings;
pub use inspection::{Flaw, Inspected, inspect};
pub use keys::{SigningKey, SigningKeys};
pub use pages::router as pages;
pub use routes::router as routes;
pub use sealed::{keys as sealed_keys, relays as sealed_relays, reseal};
pub use sender::Sender;
pub use store::{exists, names, receiver};
pub use tracking::Tracking;
pub use worker::run as run_checks;

use crate::app::App;
use crate::db::Sql;
use crate::dns::Resolver;
use crate::id::{DomainId, WorkspaceId};
use crate::limits::Background;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL, keys_store::ALL, inspection::ALL];

/// How many domains are looked at at once.
const CHECKS_AT_ONCE: usize = 8;

/// What domains need beside what all share. Clones share it.
#[derive(Clone)]
pub struct Domains(Arc<Parts>);

pub struct Parts {
    pub app: App,
    place: records::Place,
    /// Remembers nothing.
    dns: Resolver,
    checks: Semaphore,
    /// Makes keys, which takes long.
    key_maker: Background,
    /// Of a workspace one caller at a time has keys made, so that workspaces take turns.
    turns: Cache<WorkspaceId, Arc<Mutex<()>>>,
    senders: Cache<(WorkspaceId, String), Arc<Sender>>,
    in_use: Cache<DomainId, Arc<in_use::InUse>>,
}

impl Domains {
    pub fn new(app: App) -> Domains {
        Domains(Arc::new(Parts {
            place: records::Place::of(&app.config, &app.addresses),
            dns: Resolver::uncached(&app.config.mail.dns_server),
            checks: Semaphore::new(CHECKS_AT_ONCE),
            key_maker: Background::start("dkim keys", 1),
            turns: Cache::new(10_000),
            senders: Cache::new(10_000),
            in_use: Cache::new(10_000),
            app,
        }))
    }

    /// The workspace's turn to have keys made. Whoever has it finds what the one before did.
    async fn turn(&self, workspace_id: WorkspaceId) -> OwnedMutexGuard<()> {
        let Ok(turn) = self.turns.get_or_insert_with(&workspace_id, || Ok::<_, Infallible>(Arc::default()));
        turn.lock_owned().await
    }
}

impl Deref for Domains {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl FromRef<Domains> for App {
    fn from_ref(domains: &Domains) -> App {
        domains.app.clone()
    }
}
