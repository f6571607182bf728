//! Noted requests in the store.

use super::Entry;
use super::redaction::shown;
use crate::db::{Sql, Stmt, statements};
use crate::id::{LogId, WorkspaceId};
use crate::web::Page;

/// How many are deleted by one commit.
const SWEEP: i64 = 500;

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, created_at, endpoint, method, status, user_agent FROM request_log WHERE workspace_id = $1"
            by "id";
    }
    functions {
        pub fn find(workspace_id: WorkspaceId, id: LogId) = Sql::both(
            "SELECT id, created_at, endpoint, method, status, user_agent, request_body, response_body
             FROM request_log WHERE workspace_id = $1 AND id = $2");
        /// Some of those that are older than this.
        pub fn delete_some(before: i64) with [before, SWEEP] = Sql::both(
            "DELETE FROM request_log WHERE (workspace_id, id) IN
                 (SELECT workspace_id, id FROM request_log WHERE created_at < $1 ORDER BY created_at LIMIT $2)");
    }
    INSERT = Sql::both(
        "INSERT INTO request_log (workspace_id, id, created_at, method, endpoint, status, user_agent, request_body,
             response_body)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn insert(id: LogId, entry: &Entry) -> Stmt {
    INSERT.with([
        entry.workspace_id.into(),
        id.into(),
        entry.created_at.into(),
        entry.method.into(),
        entry.endpoint.as_str().into(),
        i64::from(entry.status).into(),
        entry.user_agent.as_deref().into(),
        shown(&entry.request_body).into(),
        shown(&entry.response_body).into(),
    ])
}
