//! The keys of a workspace in the store.

use crate::credentials::raise_access;
use crate::db::{Batch, DbError, Row, Sql, Stmt, statements};
use crate::id::{ApiKeyId, GrantId, WorkspaceId};
use crate::web::Page;

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT id, name, permission, prefix, created_at, last_used_at, grant_id,
                 (SELECT d.name FROM domains d WHERE d.workspace_id = api_keys.workspace_id
                     AND d.id = api_keys.domain_id)
             FROM api_keys WHERE workspace_id = $1" by "id";
    }
    RENAME = Sql::both("UPDATE api_keys SET name = $3 WHERE workspace_id = $1 AND id = $2");
    DELETE = Sql::both("DELETE FROM api_keys WHERE workspace_id = $1 AND id = $2").raising();
    TALLY = Sql::both(
        "SELECT COUNT(*), MAX(last_used_at) FROM
             (SELECT last_used_at FROM api_keys WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
}

/// A key as the store keeps it, without what lets it in.
pub struct Stored {
    pub id: ApiKeyId,
    pub name: String,
    pub permission: String,
    pub prefix: String,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub grant_id: Option<GrantId>,
    /// The name of the only domain that it may send from.
    pub domain: Option<String>,
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            id: row.id(0)?,
            name: row.text(1)?,
            permission: row.text(2)?,
            prefix: row.text(3)?,
            created_at: row.int(4)?,
            last_used_at: row.maybe(5, Row::int)?,
            grant_id: row.maybe(6, Row::id)?,
            domain: row.maybe(7, Row::text)?,
        })
    }
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn by_id(workspace_id: WorkspaceId, id: ApiKeyId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

pub fn rename(workspace_id: WorkspaceId, id: ApiKeyId, name: &str) -> Stmt {
    RENAME.with([workspace_id.into(), id.into(), name.into()]).expect(1)
}

/// Deletes a key everywhere at once.
pub fn delete(workspace_id: WorkspaceId, id: ApiKeyId) -> Batch {
    Batch::new().and(DELETE.with([workspace_id.into(), id.into()]).expect(1)).and(raise_access())
}

/// How many keys there are, counted to a bound, and when one was last used.
pub fn tally(workspace_id: WorkspaceId) -> Stmt {
    TALLY.with([workspace_id.into()])
}
