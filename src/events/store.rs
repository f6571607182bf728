//! Definitions of events in the store.

use super::event::{EventName, Schema};
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::web::pagination::Page;

/// A page for people, with a word on which definitions are in force: none newer
/// has their name. Left to itself, SQLite would walk through all newer events to
/// tell.
macro_rules! in_force {
    ($hint:literal, $side:literal, $order:literal) => {
        concat!(
            "SELECT e.id, e.name, e.schema, e.created_at, e.updated_at,
                    CASE WHEN EXISTS (SELECT 1 FROM events n",
            $hint,
            "   WHERE n.workspace_id = e.workspace_id AND substr(n.name, 1, 128) = substr(e.name, 1, 128)
                  AND n.name = e.name AND n.id > e.id) THEN 0 ELSE 1 END
             FROM events e WHERE e.workspace_id = $1 AND e.id ",
            $side,
            " $2 ORDER BY e.id",
            $order,
            " LIMIT $3"
        )
    };
}

statements! {
    INSERT = Sql::both(
        "INSERT INTO events (workspace_id, id, name, schema, created_at) VALUES ($1, $2, $3, $4, $5)");
    OLDER = Sql::both(
        "SELECT id, name, schema, created_at, updated_at FROM events
         WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
    NEWER = Sql::both(
        "SELECT id, name, schema, created_at, updated_at FROM events
         WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3");
    BY_ID = Sql::both(
        "SELECT id, name, schema, created_at, updated_at FROM events WHERE workspace_id = $1 AND id = $2");
    /// The newest definition of a name is the one in force. `BETWEEN` and not `=`:
    /// knowing that the name equals $2, SQLite would put $2 into the first
    /// `substr` as well, and then find no index for it.
    /// And left to itself, it would walk through the workspace's events.
    BY_NAME = Sql::each(
        "SELECT id, name, schema, created_at, updated_at FROM events INDEXED BY events_by_name
         WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name BETWEEN $2 AND $2
         ORDER BY id DESC LIMIT 1",
        "SELECT id, name, schema, created_at, updated_at FROM events
         WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name = $2
         ORDER BY id DESC LIMIT 1");
    OLDER_IN_FORCE = Sql::each(in_force!(" INDEXED BY events_by_name", "<", " DESC"), in_force!("", "<", " DESC"));
    NEWER_IN_FORCE = Sql::each(in_force!(" INDEXED BY events_by_name", ">", ""), in_force!("", ">", ""));
    TALLY = Sql::both(
        "SELECT COUNT(*), MAX(created_at) FROM
             (SELECT created_at FROM events WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
    /// A definition that has not changed, and that no newer one has replaced.
    IS_IN_FORCE = Sql::each(
        "SELECT 1 FROM events e WHERE e.workspace_id = $1 AND e.id = $3 AND COALESCE(e.updated_at, 0) = $4
           AND NOT EXISTS (SELECT 1 FROM events n INDEXED BY events_by_name
               WHERE n.workspace_id = $1 AND substr(n.name, 1, 128) = substr($2, 1, 128)
                 AND n.name BETWEEN $2 AND $2 AND n.id > $3)",
        "SELECT 1 FROM events e WHERE e.workspace_id = $1 AND e.id = $3 AND COALESCE(e.updated_at, 0) = $4
           AND NOT EXISTS (SELECT 1 FROM events n
               WHERE n.workspace_id = $1 AND substr(n.name, 1, 128) = substr($2, 1, 128)
                 AND n.name = $2 AND n.id > $3)");
    IS_UNDEFINED = Sql::each(
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM events INDEXED BY events_by_name
             WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name BETWEEN $2 AND $2)",
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM events
             WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name = $2)");
    SET_SCHEMA = Sql::both(
        "UPDATE events SET schema = $3, updated_at = $4 WHERE workspace_id = $1 AND id = $2");
    DELETE = Sql::both("DELETE FROM events WHERE workspace_id = $1 AND id = $2");
}

/// A definition as the store keeps it.
pub struct Stored {
    pub id: String,
    pub name: String,
    pub schema: Option<String>,
    pub created_at: i64,
    pub updated_at: Option<i64>,
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            id: row.text(0)?,
            name: row.text(1)?,
            schema: row.maybe(2, Row::text)?,
            created_at: row.int(3)?,
            updated_at: row.maybe(4, Row::int)?,
        })
    }
}

pub fn insert(workspace_id: &str, id: &str, name: &EventName, schema: Option<&Schema>, now: i64) -> Stmt {
    let schema = schema.map(Schema::as_str);
    INSERT.with([workspace_id.into(), id.into(), name.as_str().into(), schema.into(), now.into()])
}

pub fn page(workspace_id: &str, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// As [`page`], each row followed by whether it is in force.
pub fn page_in_force(workspace_id: &str, page: &Page) -> Stmt {
    page.statement(OLDER_IN_FORCE, NEWER_IN_FORCE, workspace_id, [])
}

/// How many definitions there are, counted to a bound, and when the newest came.
pub fn tally(workspace_id: &str) -> Stmt {
    TALLY.with([workspace_id.into()])
}

pub fn by_id(workspace_id: &str, id: &str) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

pub fn by_name(workspace_id: &str, name: &str) -> Stmt {
    BY_NAME.with([workspace_id.into(), name.into()])
}

/// Holds as long as this definition is the one in force.
pub fn is_in_force(workspace_id: &str, stored: &Stored) -> Stmt {
    let seen = stored.updated_at.unwrap_or(0);
    IS_IN_FORCE.with([workspace_id.into(), (&stored.name).into(), (&stored.id).into(), seen.into()])
}

/// Holds as long as nobody has defined the name.
pub fn is_undefined(workspace_id: &str, name: &str) -> Stmt {
    IS_UNDEFINED.with([workspace_id.into(), name.into()])
}

pub fn set_schema(workspace_id: &str, id: &str, schema: Option<&Schema>, now: i64) -> Stmt {
    let schema = schema.map(Schema::as_str);
    SET_SCHEMA.with([workspace_id.into(), id.into(), schema.into(), now.into()]).expect(1)
}

pub fn delete(workspace_id: &str, id: &str) -> Stmt {
    DELETE.with([workspace_id.into(), id.into()]).expect(1)
}
