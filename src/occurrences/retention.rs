//! Occurrences that need not be kept any longer.

use std::collections::HashMap;

use uuid::Uuid;

use crate::app::App;
use crate::clock::{DAY, first_id_at};
use crate::db::{Batch, DbError, Sql, statements};
use crate::id::{ContactId, Id, OccurrenceId, WorkspaceId};

/// How many are looked at at once, and deleted by one commit.
const PAGE: i64 = 500;

statements! {
    functions {
        fn delete(workspace_id: WorkspaceId, id: OccurrenceId) = Sql::both(
            "DELETE FROM occurrences WHERE workspace_id = $1 AND id = $2");
    }
    reads {
        fn workspaces() -> Vec<WorkspaceId> = Sql::both("SELECT id FROM workspaces ORDER BY id");
        fn page(workspace_id: WorkspaceId, behind: Uuid, until: Uuid)
            with [workspace_id, behind, until, PAGE] -> Vec<(OccurrenceId, ContactId)> = Sql::both(
            "SELECT id, contact_id FROM occurrences WHERE workspace_id = $1 AND id > $2 AND id < $3
             ORDER BY id LIMIT $4");
        /// Whether runs of a contact may still look at what happened to it: those under way, and those that
        /// failed, which can be tried again.
        fn has_unfinished_runs(contact_id: ContactId) -> bool = Sql::both(
            "SELECT 1 FROM runs WHERE contact_id = $1 AND status IN ('running', 'failed') LIMIT 1");
    }
}

/// Deletes what happened longer ago than the setting says, except to contacts whose runs may need it.
/// Runs that begin meanwhile look at nothing that old.
pub async fn forget_old(app: &App) -> Result<(), DbError> {
    let days = app.config.retention.occurrence_retention;
    if days == 0 {
        return Ok(());
    }
    let until = first_id_at(app.clock.steady() - i64::from(days) * DAY);
    for workspace_id in workspaces(&app.db).await? {
        let mut behind = Uuid::nil();
        loop {
            let some = page(&app.db, workspace_id, behind, until).await?;
            forget(app, workspace_id, &some).await?;
            match some.last() {
                Some((last, _)) if some.len() as i64 == PAGE => behind = last.uuid(),
                _ => break,
            }
        }
    }
    Ok(())
}

async fn forget(app: &App, workspace_id: WorkspaceId, some: &[(OccurrenceId, ContactId)]) -> Result<(), DbError> {
    let mut is_needed: HashMap<ContactId, bool> = HashMap::new();
    let mut batch = Batch::new();
    for (id, contact_id) in some {
        let is_needed = match is_needed.get(contact_id) {
            Some(known) => *known,
            None => {
                let found = has_unfinished_runs(&app.db, *contact_id).await?;
                is_needed.insert(*contact_id, found);
                found
            }
        };
        if !is_needed {
            batch.push(delete(workspace_id, *id));
        }
    }
    if !batch.is_empty() {
        app.db.commit(batch).await?;
    }
    Ok(())
}
