//! Which automations an event starts, read for a workspace.

mod entry;
mod fuse;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::automations::automation::ReEntry;
use crate::automations::graph::Graph;
use crate::automations::store;
use crate::clock::Clock;
use crate::db::{Batch, Db, DbError, Row, Sql, statements};
use crate::id::{AutomationId, WorkspaceId};
use crate::occurrences::{Automations, Cause, Entry, Loaded, Starts};

use fuse::Fuse;

pub use entry::ALL as ENTRIES;

statements! {
    REVISION = Sql::both("SELECT automations_revision FROM workspaces WHERE id = $1");
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

/// The automations that occurrences start.
pub struct Triggers {
    fuse: Arc<Fuse>,
}

impl Triggers {
    /// With a bound for the runs that one contact may start in a minute.
    pub fn new(contact_run_limit: u32) -> Triggers {
        Triggers { fuse: Arc::new(Fuse::new(contact_run_limit)) }
    }
}

impl Automations for Triggers {
    fn load<'a>(&'a self, db: &'a Db, workspace_id: WorkspaceId) -> BoxFuture<'a, Result<Loaded, DbError>> {
        load(db, workspace_id, self.fuse.clone()).boxed()
    }
}

/// The automations of a workspace, by the event that starts them.
struct ByEvent {
    triggers: HashMap<String, Vec<Trigger>>,
    fuse: Arc<Fuse>,
}

impl ByEvent {
    fn started_by(&self, event_name: &str) -> &[Trigger] {
        self.triggers.get(event_name).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Starts for ByEvent {
    fn count(&self, event_name: &str) -> usize {
        self.started_by(event_name).len()
    }

    fn start(&self, event_name: &str, cause: &Cause<'_>, clock: &Clock, batch: &mut Batch) -> Entry {
        entry::enter(cause, self.started_by(event_name), (clock, &self.fuse), batch)
    }
}

async fn load(db: &Db, workspace_id: WorkspaceId, fuse: Arc<Fuse>) -> Result<Loaded, DbError> {
    // The revision first: what changes between the two reads makes the guard fail.
    let revision: Option<i64> = db.query(REVISION.with([workspace_id.into()])).await?;
    let mut triggers: HashMap<String, Vec<Trigger>> = HashMap::new();
    for row in db.read(store::enabled(workspace_id)).await? {
        let trigger = read(&row)?;
        triggers.entry(trigger.graph.event_name().to_owned()).or_default().push(trigger);
    }
    let waking = db.query::<Vec<String>>(store::listened(workspace_id)).await?.into_iter().collect();
    Ok(Loaded { revision: revision.unwrap_or(0), waking, starts: Box::new(ByEvent { triggers, fuse }) })
}

fn read(row: &Row) -> Result<Trigger, DbError> {
    let broken = || DbError::Broken("an automation cannot be read".into());
    let graph = Graph::stored(&row.text(5)?, &row.text(6)?).ok_or_else(broken)?;
    Ok(Trigger {
        automation_id: row.id(0)?,
        version: row.int(1)?,
        re_entry: ReEntry::parse(&row.text(3)?).ok_or_else(broken)?,
        exit_on: row.maybe(4, Row::text)?,
        calls_out: graph.calls_out(),
        graph,
    })
}
