//! What workspaces have settled, in the store.

use super::settings::{BulkCap, WorkspaceChange};
use crate::db::{Batch, Sql, statements};
use crate::id::WorkspaceId;
use crate::windows::Zone;

statements! {
    functions {
        pub fn by_id(id: WorkspaceId) = Sql::both(
            "SELECT id, name, timezone, bulk_cap_mails, bulk_cap_hours FROM workspaces WHERE id = $1");
        /// Has those looked at anew who wait for broadcasts, where a change makes a difference; it stands before it.
        fn retime(id: WorkspaceId, changes: &WorkspaceChange, steady: i64)
            with [id, changes.timezone.as_ref().map(Zone::name), changes.bulk_cap.0.is_some(),
                cap(changes).map(|cap| cap.mails), cap(changes).map(|cap| cap.hours), steady] = Sql::both(
            "UPDATE broadcasts SET retimed_behind = 0, attempt = attempt + 1,
                 due_at = CASE WHEN state = 'sending' THEN CAST($6 AS BIGINT) ELSE due_at END
             WHERE workspace_id = $1 AND state IN ('sending', 'paused') AND EXISTS
                 (SELECT 1 FROM workspaces w WHERE w.id = $1
                    AND (w.timezone <> COALESCE(CAST($2 AS TEXT), w.timezone)
                      OR CAST($3 AS BOOLEAN) AND (COALESCE(w.bulk_cap_mails, 0) <> COALESCE(CAST($4 AS BIGINT), 0)
                                               OR COALESCE(w.bulk_cap_hours, 0) <> COALESCE(CAST($5 AS BIGINT), 0))))");
        /// Changes what is named and leaves the rest, whatever others change meanwhile.
        fn set(id: WorkspaceId, changes: &WorkspaceChange)
            with [id, changes.timezone.as_ref().map(Zone::name), changes.bulk_cap.0.is_some(),
                cap(changes).map(|cap| cap.mails), cap(changes).map(|cap| cap.hours)]
            expects 1 = Sql::both(
            "UPDATE workspaces SET timezone = COALESCE($2, timezone),
                 bulk_cap_mails = CASE WHEN $3 THEN CAST($4 AS BIGINT) ELSE bulk_cap_mails END,
                 bulk_cap_hours = CASE WHEN $3 THEN CAST($5 AS BIGINT) ELSE bulk_cap_hours END
             WHERE id = $1");
    }
}

/// Changes what a workspace has settled; whoever was put off by what held before is looked at anew.
pub fn change(id: WorkspaceId, changes: &WorkspaceChange, steady: i64) -> Batch {
    Batch::from(retime(id, changes, steady)).and(set(id, changes))
}

fn cap(changes: &WorkspaceChange) -> Option<BulkCap> {
    changes.bulk_cap.0.flatten()
}
