//! Looks at domains whose time has come, in every process that works.

use tokio::sync::watch;

use super::store::Stored;
use super::{CHECKS_AT_ONCE, Domains};
use crate::db::DbError;
use crate::work::{self, Next, Tasks, Worker};

/// Works until told to stop.
pub async fn run(domains: Domains, stopping: watch::Receiver<bool>) {
    let clock = domains.app.clock.clone();
    work::run(Checks { domains }, clock, stopping).await;
}

struct Checks {
    domains: Domains,
}

impl Worker for Checks {
    const NAME: &'static str = "domains";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        let (db, clock) = (&self.domains.app.db, &self.domains.app.clock);
        let room = CHECKS_AT_ONCE.saturating_sub(tasks.count());
        if room == 0 {
            return Ok(Next::Due(None));
        }
        let claimed: Vec<Stored> = work::claim_due(db, clock, room).await?;
        let is_full = claimed.len() == room;
        for domain in claimed {
            tasks.spawn(look(self.domains.clone(), domain));
        }
        Ok(if is_full { Next::Due(None) } else { Next::Due(work::next_due::<Stored>(db).await?) })
    }
}

/// What fails is tried again when the lease is over.
async fn look(domains: Domains, domain: Stored) {
    if let Err(error) = work::unless_lost(domains.check(&domain).await) {
        tracing::warn!(%error, domain = domain.name, "what DNS said of a domain could not be written down");
    }
}
