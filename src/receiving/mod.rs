//! Mail that comes in for domains that take it: accepted, kept as it came, read as far as it can be,
//! told of, forwarded and answered.
//!
//! Whoever brings mail is told in the dialogue whether it was taken; nobody is ever written to
//! because of what came in, unless the workspace says so.

mod answering;
mod authentication;
mod contents;
mod email;
mod incoming;
mod limits;
mod page_forward;
mod pages;
mod retention;
mod routes;
mod shapes;
mod store;

use std::sync::Arc;

pub use incoming::{Handover, Incoming};
pub use pages::router as pages;
pub use retention::sweep;
pub use routes::{doors as link_routes, router as routes};

use crate::app::holds_app;
use crate::db::{DbError, Sql};
use crate::dns::Resolver;
use crate::domains;
use crate::emails::Emails;
use crate::id::{DomainId, WorkspaceId};
use crate::mime::Address;
use crate::occurrences::Occurrences;
use limits::Limits;

pub const STATEMENTS: &[&[Sql]] = &[retention::ALL, store::ALL];

/// What receiving needs: who is told, what answers, and name servers. Clones share it.
#[derive(Clone)]
pub struct Receiving {
    occurrences: Occurrences,
    emails: Emails,
    dns: Resolver,
    limits: Arc<Limits>,
}

holds_app!(Receiving { occurrences: Occurrences });

impl Receiving {
    pub fn new(occurrences: Occurrences, emails: Emails) -> Receiving {
        let dns = Resolver::new(&occurrences.config.mail.dns_server);
        let limits = Arc::new(Limits::of(&occurrences.config));
        Receiving { occurrences, emails, dns, limits }
    }

    pub fn occurrences(&self) -> &Occurrences {
        &self.occurrences
    }

    /// Whose mail for an address is; `None` where none is taken for it.
    pub async fn receiver(&self, address: &Address) -> Result<Option<(WorkspaceId, DomainId)>, DbError> {
        domains::receiver(&self.db, address.ascii_domain()).await
    }

    /// Forgets whoever has brought little lately.
    pub fn sweep_limits(&self) {
        self.limits.sweep();
    }
}
