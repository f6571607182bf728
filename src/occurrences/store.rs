//! Occurrences on their way into the store.

use super::{Cause, Moment, Occurrence, Whom};
use crate::db::{Sql, Stmt, statements};
use crate::id::{ContactId, WorkspaceId};

/// An occurrence for the contact that the condition finds, as it is at this
/// moment; for SQLite as runs are inserted.
macro_rules! insert {
    ($insert:literal, $whom:literal) => {
        concat!(
            $insert,
            " INTO occurrences (workspace_id, id, name, contact_id, seq, payload, replay_of, created_at, heard)
             SELECT c.workspace_id, $3, $4, c.id, c.sequence - $5, $6, $7, CAST($8 AS BIGINT), CAST($10 AS BOOLEAN)
             FROM contacts c WHERE c.workspace_id = $1 AND c.",
            $whom,
            " = $2 AND c.sequence <= $9"
        )
    };
}

statements! {
    functions {
        /// Wakes the runs of the occurrence's contact that wait for the event, or end on it.
        pub fn wake(cause: &Cause<'_>, event_name: &str)
            with [cause.workspace_id, cause.occurrence_id, event_name, cause.steady] = Sql::both(
            "UPDATE runs SET due_at = $4, destination = NULL
             WHERE contact_id = (SELECT o.contact_id FROM occurrences o WHERE o.workspace_id = $1 AND o.id = $2)
               AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL)
               AND (waiting_for = $3 OR exit_on = $3) AND (due_at IS NULL OR due_at > $4 OR destination IS NOT NULL)");
        /// Wakes the runs of a contact that is gone which only an event could wake: none
        /// will come.
        pub fn release(workspace_id: WorkspaceId, contact_id: ContactId, due_at: i64) = Sql::both(
            "UPDATE runs SET due_at = $3
             WHERE contact_id = $2 AND workspace_id = $1
               AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL) AND due_at IS NULL");
    }
    INSERT_BY_ID = Sql::each(insert!("INSERT OR FAIL", "id"), insert!("INSERT", "id"));
    INSERT_BY_EMAIL = Sql::each(insert!("INSERT OR FAIL", "email_key"), insert!("INSERT", "email_key"));
}

/// Records an occurrence; `heard` says whether runs may be woken by it.
pub fn insert(
    workspace_id: WorkspaceId,
    occurrence: &Occurrence<'_>,
    (whom, moment): (Whom<'_>, Moment),
    heard: bool,
    now: i64,
) -> Stmt {
    let sql = match whom {
        Whom::Id(_) => INSERT_BY_ID,
        Whom::EmailKey(_) => INSERT_BY_EMAIL,
    };
    sql.with([
        workspace_id.into(),
        whom.value(),
        occurrence.id.into(),
        occurrence.name.into(),
        moment.behind.into(),
        (&occurrence.payload).into(),
        occurrence.replay_of.into(),
        now.into(),
        moment.newest.into(),
        heard.into(),
    ])
}
