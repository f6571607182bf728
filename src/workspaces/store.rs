//! What workspaces have settled, in the store.

use super::settings::{BulkCap, WorkspaceChange};
use crate::db::{Sql, statements};
use crate::id::WorkspaceId;
use crate::windows::Zone;

statements! {
    functions {
        pub fn by_id(id: WorkspaceId) = Sql::both(
            "SELECT id, name, timezone, bulk_cap_mails, bulk_cap_hours FROM workspaces WHERE id = $1");
        /// Changes what is named and leaves the rest, whatever others change meanwhile.
        pub fn change(id: WorkspaceId, changes: &WorkspaceChange)
            with [id, changes.timezone.as_ref().map(Zone::name), changes.bulk_cap.0.is_some(),
                cap(changes).map(|cap| cap.mails), cap(changes).map(|cap| cap.hours)]
            expects 1 = Sql::both(
            "UPDATE workspaces SET timezone = COALESCE($2, timezone),
                 bulk_cap_mails = CASE WHEN $3 THEN CAST($4 AS BIGINT) ELSE bulk_cap_mails END,
                 bulk_cap_hours = CASE WHEN $3 THEN CAST($5 AS BIGINT) ELSE bulk_cap_hours END
             WHERE id = $1");
    }
}

fn cap(changes: &WorkspaceChange) -> Option<BulkCap> {
    changes.bulk_cap.0.flatten()
}
