//! Occurrences as they are read from the store.

use crate::db::{Sql, Stmt, from_row, statements};
use crate::id::{ContactId, OccurrenceId, WorkspaceId};
use crate::web::Page;

/// A page of what happened under a name.
macro_rules! page {
    ($hint:literal, $named:literal, $side:literal, $order:literal) => {
        concat!(
            "SELECT id, name, contact_id, payload, replay_of, created_at FROM occurrences",
            $hint,
            " WHERE workspace_id = $1 AND ",
            $named,
            " AND id ",
            $side,
            " $2 ORDER BY id",
            $order,
            " LIMIT $3"
        )
    };
}

statements! {
    functions {
        pub fn by_id(workspace_id: WorkspaceId, id: OccurrenceId) = Sql::both(
            "SELECT id, name, contact_id, payload, replay_of, created_at FROM occurrences
             WHERE workspace_id = $1 AND id = $2");
        /// Finds a row if anything ever happened under the name.
        pub fn any(workspace_id: WorkspaceId, name: &str) = Sql::each(
            "SELECT 1 FROM occurrences WHERE workspace_id = $1 AND name = $2 LIMIT 1",
            "SELECT 1 FROM occurrences
             WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name = $2 LIMIT 1");
        /// The runs that an occurrence started: automation, run, status.
        /// They were made in the same commit, and carry its time. In this order SQLite
        /// joins them: the other way it would walk through all runs of the contact.
        pub fn runs_of(workspace_id: WorkspaceId, stored: &Stored)
            with [workspace_id, stored.contact_id, stored.id, stored.created_at] = Sql::both(
            "SELECT r.automation_id, r.id, r.status FROM automations a CROSS JOIN runs r
             WHERE a.workspace_id = $1 AND a.deleted_at IS NULL
               AND r.contact_id = $2 AND r.automation_id = a.id AND r.created_at = $4 AND r.occurrence_id = $3
             ORDER BY r.automation_id, r.id");
    }
    /// PostgreSQL's index holds the start of a name, SQLite's all of it. Left to
    /// itself, SQLite would walk through all that happened under any name.
    OLDER = Sql::each(
        page!(" INDEXED BY occurrences_by_name", "name = $4", "<", " DESC"),
        page!("", "substr(name, 1, 128) = substr($4, 1, 128) AND name = $4", "<", " DESC"));
    NEWER = Sql::each(
        page!(" INDEXED BY occurrences_by_name", "name = $4", ">", ""),
        page!("", "substr(name, 1, 128) = substr($4, 1, 128) AND name = $4", ">", ""));
}

/// An occurrence as the store keeps it.
pub struct Stored {
    pub id: OccurrenceId,
    pub name: String,
    pub contact_id: ContactId,
    pub payload: String,
    pub replay_of: Option<OccurrenceId>,
    pub created_at: i64,
}

from_row!(Stored { id, name, contact_id, payload, replay_of, created_at });

pub fn page(workspace_id: WorkspaceId, name: &str, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [name.into()])
}
