//! Who is told of what happens, cached for each workspace. Whoever uses what is
//! cached guards the commit with the revision it was read under.
//!
//! Where automations are changed faster than anybody can commit, a caller reads
//! them for one commit alone and commits without a guard. That is as if the event
//! had happened when they were read, after it was asked for; only nobody who came
//! to wait meanwhile may be missed.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use quick_cache::sync::Cache;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::Whom;
use crate::clock::Clock;
use crate::db::{Batch, Db, DbError, Sql, Stmt, statements};
use crate::id::{AutomationId, OccurrenceId, RunId, WorkspaceId};
use crate::segments::Filters;
use crate::webhooks::{self, EventTypes};

statements! {
    REVISION_IS = Sql::both("SELECT 1 FROM workspaces WHERE id = $1 AND automations_revision = $2");
}

/// The automations of all workspaces, as far as occurrences need them.
pub trait Automations: Send + Sync {
    /// Reads those of a workspace that listen, after the revision they are read under.
    fn load<'a>(&'a self, db: &'a Db, workspace_id: WorkspaceId) -> BoxFuture<'a, Result<Loaded, DbError>>;
}

/// The automations of a workspace that listen, as they are read from the store.
pub struct Loaded {
    pub revision: i64,
    /// The starts of the names that runs in flight may be woken by.
    pub waking: HashSet<String>,
    pub starts: Box<dyn Starts>,
}

/// How runs begin, as statements in the commit of an occurrence.
pub trait Starts: Send + Sync {
    /// How many automations an event starts.
    fn count(&self, event_name: &str) -> usize;

    /// Lets the contact of an occurrence into the automations that it starts.
    fn start(&self, event_name: &str, cause: &Cause<'_>, clock: &Clock, batch: &mut Batch) -> Entry;
}

/// The occurrence that starts a run, recorded before it in the same commit.
pub struct Cause<'a> {
    pub workspace_id: WorkspaceId,
    pub occurrence_id: OccurrenceId,
    pub whom: Whom<'a>,
    pub now: i64,
    pub steady: i64,
    /// Whether it is to be told which runs begin.
    pub names_runs: bool,
}

/// What is known of runs that begin, before they are committed.
#[derive(Default)]
pub struct Entry {
    /// Whether a run can go on at once.
    pub at_once: bool,
    /// Which statements tell of a loop, if they change anything.
    pub alarms: SmallVec<[usize; 1]>,
    /// The runs that begin, where the contact is let in, if that was asked for.
    pub runs: Vec<(AutomationId, RunId)>,
}

/// The automations of a workspace that listen.
pub struct Listeners {
    workspace_id: WorkspaceId,
    /// None where they are those of a moment that has passed.
    revision: Option<i64>,
    waking: HashSet<String>,
    starts: Box<dyn Starts>,
    /// Of the segments that fill themselves.
    filters: Filters,
    /// What webhooks listen to.
    events: EventTypes,
    /// Rings when there are events for webhooks.
    bell: Arc<Notify>,
}

/// How much of a name tells whether runs may be woken by it.
const START: usize = 128;

impl Listeners {
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// What webhooks listen to.
    pub(super) fn events(&self) -> EventTypes {
        self.events
    }

    pub(super) fn bell(&self) -> &Arc<Notify> {
        &self.bell
    }

    /// Whether they are those of a moment that has passed.
    pub(super) fn is_passed(&self) -> bool {
        self.revision.is_none()
    }

    pub(super) fn count(&self, event_name: &str) -> usize {
        self.starts.count(event_name)
    }

    pub(super) fn start(&self, event_name: &str, cause: &Cause<'_>, clock: &Clock, batch: &mut Batch) -> Entry {
        self.starts.start(event_name, cause, clock, batch)
    }

    /// Whether a run may wait for the event, or end on it. After a moment that has
    /// passed, one may for any.
    pub(super) fn may_wake(&self, event_name: &str) -> bool {
        if self.revision.is_none() {
            return true;
        }
        let end = event_name.char_indices().nth(START).map_or(event_name.len(), |(at, _)| at);
        self.waking.contains(&event_name[..end])
    }

    /// Holds as long as no automation was changed since.
    pub fn guard(&self) -> Option<Stmt> {
        self.revision.map(|revision| REVISION_IS.with([self.workspace_id.into(), revision.into()]))
    }
}

/// Who listens, in every workspace.
pub(super) struct Listening {
    known: Cache<WorkspaceId, Arc<Listeners>>,
    automations: Box<dyn Automations>,
    bell: Arc<Notify>,
}

impl Listening {
    pub fn new(automations: Box<dyn Automations>, bell: Arc<Notify>) -> Listening {
        Listening { known: Cache::new(1_000), automations, bell }
    }

    pub async fn of(&self, db: &Db, workspace_id: WorkspaceId) -> Result<Arc<Listeners>, DbError> {
        if let Some(known) = self.known.get(&workspace_id) {
            return Ok(known);
        }
        let listeners = Arc::new(self.load(db, workspace_id).await?);
        self.known.insert(workspace_id, listeners.clone());
        Ok(listeners)
    }

    /// As they are at this moment, for one commit without a guard.
    pub async fn of_this_moment(&self, db: &Db, workspace_id: WorkspaceId) -> Result<Arc<Listeners>, DbError> {
        Ok(Arc::new(Listeners { revision: None, ..self.load(db, workspace_id).await? }))
    }

    async fn load(&self, db: &Db, workspace_id: WorkspaceId) -> Result<Listeners, DbError> {
        // The automations first, because their revision is read before them.
        let Loaded { revision, waking, starts } = self.automations.load(db, workspace_id).await?;
        Ok(Listeners {
            workspace_id,
            revision: Some(revision),
            waking,
            starts,
            filters: Filters::load(db, workspace_id).await?,
            events: webhooks::listened(db, workspace_id).await?,
            bell: self.bell.clone(),
        })
    }

    pub fn forget(&self, workspace_id: WorkspaceId) {
        self.known.remove(&workspace_id);
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::Clock;
    use crate::occurrences::ATTEMPTS;
    use crate::testing::{NOW, Store};

    /// Somebody may come to wait between that moment and the commit.
    #[tokio::test]
    async fn without_a_guard_every_event_may_be_waited_for() {
        for store in Store::each().await {
            let product = store.open(&[], Clock::fixed(NOW)).await;
            let occurrences = product.occurrences();
            let nobody = uuid::Uuid::nil().into();
            let cached = occurrences.listeners(nobody).await.expect("listeners");
            assert!(cached.guard().is_some() && !cached.may_wake("any"));
            let passed = occurrences.listeners_for(nobody, ATTEMPTS).await.expect("listeners");
            assert!(passed.guard().is_none() && passed.may_wake("any"));
            drop(product);
            store.discard().await;
        }
    }
}
