//! Declared properties in the store.

use super::properties::{Declared, Kind, PropertyKey};
use crate::db::{DbError, Row, Sql, Stmt, from_row, from_word, statements};
use crate::id::{PropertyId, WorkspaceId};
use crate::web::Page;

/// How many properties a workspace may declare: all are read whenever a contact
/// is given some.
pub const MOST: i64 = 500;

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT id, key, type, fallback_value, created_at FROM contact_properties WHERE workspace_id = $1" by "id";
    }
    functions {
        /// Declares a property, unless there are too many.
        pub fn insert(workspace_id: WorkspaceId, id: PropertyId, key: &PropertyKey, kind: Kind,
            fallback: Option<&serde_json::Value>, now: i64)
            with [workspace_id, id, key.as_str(), kind.as_str(), fallback.map(ToString::to_string), now, MOST]
            expects 1 = Sql::both(
            "INSERT INTO contact_properties (workspace_id, id, key, type, fallback_value, created_at)
             SELECT w.id, $2, $3, $4, $5, $6 FROM workspaces w
             WHERE w.id = $1 AND (SELECT COUNT(*) FROM contact_properties WHERE workspace_id = $1) < $7");
        /// Every declared property of a workspace.
        pub fn all(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, key, type, fallback_value, created_at FROM contact_properties WHERE workspace_id = $1");
        pub fn set_fallback(workspace_id: WorkspaceId, id: PropertyId, fallback: Option<&serde_json::Value>)
            with [workspace_id, id, fallback.map(ToString::to_string)] expects 1 = Sql::both(
            "UPDATE contact_properties SET fallback_value = $3 WHERE workspace_id = $1 AND id = $2");
        pub fn delete(workspace_id: WorkspaceId, id: PropertyId) expects 1 = Sql::both(
            "DELETE FROM contact_properties WHERE workspace_id = $1 AND id = $2");
    }
}

from_row!(Declared { id, key, kind, fallback: json, created_at });
from_word!(Kind);

impl Declared {
    pub fn read_all(rows: &[Row]) -> Result<Vec<Declared>, DbError> {
        rows.iter().map(Declared::read).collect()
    }
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn by_id(workspace_id: WorkspaceId, id: PropertyId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}
