//! API keys and the access revision in the store.

use std::collections::HashMap;
use std::sync::atomic::AtomicI64;

use super::key::{Known, NewKey, Permission};
use crate::db::{Batch, Db, DbError, Sql, Stmt, statements};

statements! {
    /// The key and the revision it is read under, in one look.
    FIND_KEY = Sql::both(
        "SELECT k.id, k.workspace_id, k.permission, k.hash, r.number FROM api_keys k
         JOIN revisions r ON r.topic = 'access' WHERE k.prefix = $1");
    INSERT_KEY = Sql::both(
        "INSERT INTO api_keys (id, workspace_id, name, permission, prefix, hash, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)");
    KEYS = Sql::both(
        "SELECT k.id, k.name, k.permission, k.prefix, k.created_at, k.last_used_at, w.name FROM api_keys k
         JOIN workspaces w ON w.id = k.workspace_id WHERE k.id > $1 ORDER BY k.id LIMIT 1000");
    DELETE_KEY = Sql::both("DELETE FROM api_keys WHERE id = $1");
    TOUCH_KEY = Sql::both(
        "UPDATE api_keys SET last_used_at = $2
         WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)");
    RAISE_ACCESS = Sql::both("UPDATE revisions SET number = number + 1 WHERE topic = 'access'");
    ACCESS_IS = Sql::both("SELECT 1 FROM revisions WHERE topic = 'access' AND number = $1");
}

pub(super) async fn find_key(db: &Db, prefix: &str) -> Result<Option<(Known, Vec<u8>)>, DbError> {
    let rows = db.read(FIND_KEY.with([prefix.into()])).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let known = Known {
        id: row.text(0)?,
        workspace_id: row.text(1)?,
        permission: Permission::from_store(&row.text(2)?)?,
        revision: row.int(4)?,
        noted: AtomicI64::new(0),
    };
    Ok(Some((known, row.bytes(3)?)))
}

pub fn insert_key(key: &NewKey) -> Stmt {
    INSERT_KEY.with([
        (&key.id).into(),
        (&key.workspace_id).into(),
        (&key.name).into(),
        key.permission.as_str().into(),
        key.prefix().into(),
        (&crate::secret::hash(&key.secret)).into(),
        key.created_at.into(),
    ])
}

/// A key as a list shows it.
pub struct Listed {
    pub id: String,
    pub name: String,
    pub permission: String,
    pub prefix: String,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub workspace: String,
}

pub async fn keys(db: &Db) -> Result<Vec<Listed>, DbError> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let after = all.last().map_or(String::new(), |last| last.id.clone());
        let rows = db.read(KEYS.with([after.into()])).await?;
        if rows.is_empty() {
            return Ok(all);
        }
        for row in rows {
            all.push(Listed {
                id: row.text(0)?,
                name: row.text(1)?,
                permission: row.text(2)?,
                prefix: row.text(3)?,
                created_at: row.int(4)?,
                last_used_at: row.maybe(5, |row, column| row.int(column))?,
                workspace: row.text(6)?,
            });
        }
    }
}

/// Deletes a key everywhere at once: every process finds its cache out of date.
pub fn delete_key(id: &str) -> Batch {
    Batch::new().and(DELETE_KEY.with([id.into()]).expect(1)).and(raise_access())
}

/// Notes the last use of keys.
pub(super) fn touch_keys(used: &HashMap<String, i64>) -> Batch {
    used.iter().map(|(id, now)| TOUCH_KEY.with([id.into(), (*now).into()])).collect()
}

/// Something was taken away from somebody: what was decided before is decided again.
pub fn raise_access() -> Stmt {
    RAISE_ACCESS.with([]).expect(1)
}

/// Holds as long as nothing was taken away since `revision`.
pub fn access_is(revision: i64) -> Stmt {
    ACCESS_IS.with([revision.into()])
}
