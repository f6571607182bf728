//! Occurrences: each time an event happens to a contact, and what that starts, in
//! one commit. Whoever lets something happen fills a batch of them.

mod batch;
mod ended_run;
mod listeners;
mod names;
mod retention;
mod store;

use std::sync::Arc;

pub use batch::{FollowUp, Moment, Occurrence, OccurrenceBatch, Whom};
pub use ended_run::{EndedRun, Ending};
pub use listeners::{Automations, Cause, Entry, Listeners, Loaded, Starts};
pub use names::SystemEvent;
pub use retention::forget_old;

use crate::app::{App, holds_app};
use crate::auth::Actor;
use crate::db::{Batch, DbError, Effect, Sql};
use crate::error::Error;
use crate::id::WorkspaceId;
use listeners::Listening;

pub const STATEMENTS: &[&[Sql]] = &[ended_run::ALL, listeners::ALL, retention::ALL, store::ALL];

/// How often what a commit was prepared under, as it is cached, may change before
/// the commit is prepared under what is read for it alone.
pub const GUARDED: usize = 4;

/// How often a commit is prepared in all.
pub const ATTEMPTS: usize = 8;

/// What occurrences need: the shared state, and who is told of them. Clones share it.
#[derive(Clone)]
pub struct Occurrences {
    app: App,
    listening: Arc<Listening>,
}

holds_app!(Occurrences { app: App });

impl Occurrences {
    pub fn new(app: App, automations: Box<dyn Automations>) -> Occurrences {
        let listening = Arc::new(Listening::new(automations, app.webhooks_bell()));
        Occurrences { app, listening }
    }

    /// Who listens in a workspace, as it is cached.
    pub async fn listeners(&self, workspace_id: WorkspaceId) -> Result<Arc<Listeners>, DbError> {
        self.listening.of(&self.app.db, workspace_id).await
    }

    /// Who listens, for an attempt to commit.
    pub async fn listeners_for(&self, workspace_id: WorkspaceId, attempt: usize) -> Result<Arc<Listeners>, DbError> {
        match attempt < GUARDED {
            true => self.listening.of(&self.app.db, workspace_id).await,
            false => self.listening.of_this_moment(&self.app.db, workspace_id).await,
        }
    }

    /// What is known of who listens turned out to be old.
    pub fn forget_listeners(&self, workspace_id: WorkspaceId) {
        self.listening.forget(workspace_id);
    }

    /// Commits what `fill` lets happen, under the automations that listen at that
    /// moment.
    pub async fn commit(
        &self,
        actor: &dyn Actor,
        fill: impl Fn(&mut OccurrenceBatch<'_>),
    ) -> Result<Result<Vec<Effect>, DbError>, Error> {
        for attempt in 0..ATTEMPTS {
            let (batch, follow_up) = self.prepare(actor.workspace_id(), attempt, &fill).await?;
            let settled = actor.commit_once(batch).await?;
            if let Some(settled) = self.settle(actor.workspace_id(), &follow_up, settled) {
                return Ok(settled);
            }
        }
        Err(Error::Unavailable)
    }

    /// The same, for somebody who needs no credential.
    pub async fn commit_uncalled(
        &self,
        workspace_id: WorkspaceId,
        fill: impl Fn(&mut OccurrenceBatch<'_>),
    ) -> Result<Result<Vec<Effect>, DbError>, Error> {
        for attempt in 0..ATTEMPTS {
            let (batch, follow_up) = self.prepare(workspace_id, attempt, &fill).await?;
            let settled = self.db.commit(batch).await;
            if let Some(settled) = self.settle(workspace_id, &follow_up, settled) {
                return Ok(settled);
            }
        }
        Err(Error::Unavailable)
    }

    async fn prepare(
        &self,
        workspace_id: WorkspaceId,
        attempt: usize,
        fill: impl Fn(&mut OccurrenceBatch<'_>),
    ) -> Result<(Batch, FollowUp), DbError> {
        let listeners = self.listeners_for(workspace_id, attempt).await?;
        let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &self.clock, self.clock.now());
        fill(&mut occurrences);
        Ok(occurrences.follow_up())
    }

    /// What came of a commit; `None` where it has to be prepared anew.
    fn settle(
        &self,
        workspace_id: WorkspaceId,
        follow_up: &FollowUp,
        settled: Result<Vec<Effect>, DbError>,
    ) -> Option<Result<Vec<Effect>, DbError>> {
        match &settled {
            Ok(effects) => {
                self.wake_workers_if(follow_up.is_urgent(effects));
                self.wake_judges_if(follow_up.judges());
            }
            Err(DbError::Stale) => {
                self.forget_listeners(workspace_id);
                return None;
            }
            Err(_) => {}
        }
        Some(settled)
    }
}
