//! Which automations an event starts, cached for each workspace. Whoever uses
//! what is cached guards his commit with the revision it was read under.
//!
//! Where automations are changed faster than anybody can commit, a caller reads
//! them for himself alone and commits without a guard. That is as if the event had
//! happened when they were read, after he asked for it; only nobody who came to
//! wait meanwhile may be missed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use quick_cache::sync::Cache;

use super::automation::ReEntry;
use super::fuse::Fuse;
use super::graph::Graph;
use super::store;
use crate::db::{Db, DbError, Row, Sql, Stmt, statements};
use crate::id::{AutomationId, WorkspaceId};

statements! {
    REVISION = Sql::both("SELECT automations_revision FROM workspaces WHERE id = $1");
    REVISION_IS = Sql::both("SELECT 1 FROM workspaces WHERE id = $1 AND automations_revision = $2");
}

/// An automation that listens.
pub struct Trigger {
    pub automation_id: AutomationId,
    pub version: i64,
    pub graph: Graph,
    pub re_entry: ReEntry,
    pub exit_on: Option<String>,
    /// Whether its steps call the outside.
    pub calls_out: bool,
}

/// The automations of a workspace that listen, by the event they listen to.
pub struct Listeners {
    workspace_id: WorkspaceId,
    /// None where they are those of a moment that has passed.
    revision: Option<i64>,
    by_event: HashMap<String, Vec<Trigger>>,
    /// The starts of the names that runs in flight may be woken by.
    waking: HashSet<String>,
    fuse: Arc<Fuse>,
}

/// How much of a name tells whether runs may be woken by it.
const START: usize = 128;

impl Listeners {
    /// Those that an event starts.
    pub fn to(&self, event_name: &str) -> &[Trigger] {
        self.by_event.get(event_name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a run may wait for the event, or end on it. After a moment that has
    /// passed, one may for any.
    pub fn may_wake(&self, event_name: &str) -> bool {
        if self.revision.is_none() {
            return true;
        }
        let end = event_name.char_indices().nth(START).map_or(event_name.len(), |(at, _)| at);
        self.waking.contains(&event_name[..end])
    }

    pub fn fuse(&self) -> &Fuse {
        &self.fuse
    }

    /// Holds as long as no automation was changed since.
    pub fn guard(&self) -> Option<Stmt> {
        self.revision.map(|revision| REVISION_IS.with([self.workspace_id.into(), revision.into()]))
    }
}

pub struct Triggers {
    known: Cache<WorkspaceId, Arc<Listeners>>,
    fuse: Arc<Fuse>,
}

impl Triggers {
    /// With a bound for the runs that one contact may start in a minute.
    pub fn new(contact_run_limit: u32) -> Triggers {
        Triggers { known: Cache::new(1_000), fuse: Arc::new(Fuse::new(contact_run_limit)) }
    }

    pub async fn of(&self, db: &Db, workspace_id: WorkspaceId) -> Result<Arc<Listeners>, DbError> {
        if let Some(known) = self.known.get(&workspace_id) {
            return Ok(known);
        }
        let listeners = Arc::new(load(db, workspace_id, self.fuse.clone()).await?);
        self.known.insert(workspace_id, listeners.clone());
        Ok(listeners)
    }

    /// As they are at this moment, for one commit without a guard.
    pub async fn of_this_moment(&self, db: &Db, workspace_id: WorkspaceId) -> Result<Arc<Listeners>, DbError> {
        Ok(Arc::new(Listeners { revision: None, ..load(db, workspace_id, self.fuse.clone()).await? }))
    }

    /// What is known turned out to be old.
    pub fn forget(&self, workspace_id: WorkspaceId) {
        self.known.remove(&workspace_id);
    }
}

async fn load(db: &Db, workspace_id: WorkspaceId, fuse: Arc<Fuse>) -> Result<Listeners, DbError> {
    // The revision first: what changes between the two reads makes the guard fail.
    let revision = match db.read(REVISION.with([workspace_id.into()])).await?.first() {
        Some(row) => row.int(0)?,
        None => 0,
    };
    let mut by_event: HashMap<String, Vec<Trigger>> = HashMap::new();
    for row in db.read(store::enabled(workspace_id)).await? {
        let trigger = read(&row)?;
        by_event.entry(trigger.graph.event_name().to_owned()).or_default().push(trigger);
    }
    let waking = db.read(store::listened(workspace_id)).await?;
    let waking = waking.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
    Ok(Listeners { workspace_id, revision: Some(revision), by_event, waking, fuse })
}

fn read(row: &Row) -> Result<Trigger, DbError> {
    let broken = || DbError::Broken("an automation cannot be read".into());
    let graph = Graph::stored(&row.text(5)?, &row.text(6)?).ok_or_else(broken)?;
    Ok(Trigger {
        automation_id: row.id(0)?,
        version: row.int(1)?,
        re_entry: ReEntry::named(&row.text(3)?).ok_or_else(broken)?,
        exit_on: row.maybe(4, Row::text)?,
        calls_out: graph.calls_out(),
        graph,
    })
}

#[cfg(test)]
mod tests {
    use crate::clock::Clock;
    use crate::testing::{NOW, Store};

    /// Somebody may come to wait between that moment and the commit.
    #[tokio::test]
    async fn without_a_guard_every_event_may_be_waited_for() {
        for store in Store::each().await {
            let app = store.open(&[], Clock::fixed(NOW)).await;
            let nobody = uuid::Uuid::nil().into();
            let cached = app.triggers.of(&app.db, nobody).await.expect("listeners");
            assert!(cached.guard().is_some() && !cached.may_wake("any"));
            let passed = app.triggers.of_this_moment(&app.db, nobody).await.expect("listeners");
            assert!(passed.guard().is_none() && passed.may_wake("any"));
            drop(app);
            store.discard().await;
        }
    }
}
