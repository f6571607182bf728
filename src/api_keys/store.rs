//! The keys of a workspace in the store.

use crate::credentials::raise_access;
use crate::db::{Batch, Sql, Stmt, statements};
use crate::id::{ApiKeyId, WorkspaceId};
use crate::web::Page;

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT id, name, permission, prefix, created_at, last_used_at, grant_id,
                 (SELECT d.name FROM domains d WHERE d.workspace_id = api_keys.workspace_id
                     AND d.id = api_keys.domain_id)
             FROM api_keys WHERE workspace_id = $1" by "id";
    }
    functions {
        pub fn rename(workspace_id: WorkspaceId, id: ApiKeyId, name: &str) expects 1 = Sql::both(
            "UPDATE api_keys SET name = $3 WHERE workspace_id = $1 AND id = $2");
        /// How many keys there are, counted to a bound, and when one was last used.
        pub fn tally(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*), MAX(last_used_at) FROM
                 (SELECT last_used_at FROM api_keys WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
    }
    DELETE = Sql::both("DELETE FROM api_keys WHERE workspace_id = $1 AND id = $2").raising();
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn by_id(workspace_id: WorkspaceId, id: ApiKeyId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

/// Deletes a key everywhere at once.
pub fn delete(workspace_id: WorkspaceId, id: ApiKeyId) -> Batch {
    Batch::new().and(DELETE.with([workspace_id.into(), id.into()]).expect(1)).and(raise_access())
}
