//! Definitions of events in the store.

use super::event::{EventName, Schema};
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::id::{EventId, WorkspaceId};
use crate::secret;
use crate::web::Page;

/// What [`Stored::read`] reads, of a table by this name.
macro_rules! columns {
    ($events:literal) => {
        concat!(
            $events,
            "id, ",
            $events,
            "name, ",
            $events,
            "schema, ",
            $events,
            "created_at, ",
            $events,
            "updated_at, CASE WHEN ",
            $events,
            "first_use_key IS NULL THEN 0 ELSE 1 END"
        )
    };
}

/// A name is looked for in an index: SQLite's holds all of it, PostgreSQL's its
/// start.
macro_rules! named {
    (sqlite, $events:literal, $name:literal) => {
        concat!($events, "name = ", $name)
    };
    (postgres, $events:literal, $name:literal) => {
        concat!("substr(", $events, "name, 1, 128) = substr(", $name, ", 1, 128) AND ", $events, "name = ", $name)
    };
}

/// Left to itself, SQLite would walk through the workspace's events, for they are
/// in the order of ids.
macro_rules! hint {
    (sqlite) => {
        " INDEXED BY events_by_name"
    };
    (postgres) => {
        ""
    };
}

macro_rules! by_name {
    ($engine:ident) => {
        concat!(
            "SELECT ",
            columns!(""),
            " FROM events",
            hint!($engine),
            " WHERE workspace_id = $1 AND ",
            named!($engine, "", "$2"),
            " ORDER BY id DESC LIMIT 1"
        )
    };
}

/// A page for people, with a word on which definitions are in force: none newer
/// has their name.
macro_rules! in_force {
    ($engine:ident, $side:literal, $order:literal) => {
        concat!(
            "SELECT ",
            columns!("e."),
            ", CASE WHEN EXISTS (SELECT 1 FROM events n",
            hint!($engine),
            " WHERE n.workspace_id = e.workspace_id AND ",
            named!($engine, "n.", "e.name"),
            " AND n.id > e.id) THEN 0 ELSE 1 END
             FROM events e WHERE e.workspace_id = $1 AND e.id ",
            $side,
            " $2 ORDER BY e.id",
            $order,
            " LIMIT $3"
        )
    };
}

macro_rules! is_in_force {
    ($engine:ident) => {
        concat!(
            "SELECT 1 FROM events e WHERE e.workspace_id = $1 AND e.id = $3 AND COALESCE(e.updated_at, 0) = $4
               AND NOT EXISTS (SELECT 1 FROM events n",
            hint!($engine),
            " WHERE n.workspace_id = $1 AND ",
            named!($engine, "n.", "$2"),
            " AND n.id > $3)"
        )
    };
}

macro_rules! page {
    ($side:literal, $order:literal) => {
        concat!(
            "SELECT ",
            columns!(""),
            " FROM events WHERE workspace_id = $1 AND id ",
            $side,
            " $2 ORDER BY id",
            $order,
            " LIMIT $3"
        )
    };
}

/// Inserts a definition where there is none. Of two at the same moment, one finds
/// the other's.
macro_rules! define_by_use {
    ($engine:ident) => {
        concat!(
            "INSERT INTO events (workspace_id, id, name, created_at, first_use_key)
             SELECT $1, $3, CAST($2 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT)
             WHERE NOT EXISTS (SELECT 1 FROM events",
            hint!($engine),
            " WHERE workspace_id = $1 AND ",
            named!($engine, "", "$2"),
            ")
             ON CONFLICT (workspace_id, first_use_key) WHERE first_use_key IS NOT NULL DO NOTHING"
        )
    };
}

macro_rules! is_undefined {
    ($engine:ident) => {
        concat!(
            "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM events",
            hint!($engine),
            " WHERE workspace_id = $1 AND ",
            named!($engine, "", "$2"),
            ")"
        )
    };
}

statements! {
    INSERT = Sql::both(
        "INSERT INTO events (workspace_id, id, name, schema, created_at) VALUES ($1, $2, $3, $4, $5)")
        .for_rows(
        "INSERT OR FAIL INTO events (workspace_id, id, name, schema, created_at)
         VALUES ($1, $2, $3, $4, $5), ($6, $7, $8, $9, $10), ($11, $12, $13, $14, $15), ($16, $17, $18, $19, $20)")
        .for_many(
        "INSERT INTO events (workspace_id, id, name, schema, created_at)
         SELECT workspace_id, id, name, schema, created_at
         FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[])
              AS many (workspace_id, id, name, schema, created_at)");
    DEFINE_BY_USE = Sql::each(define_by_use!(sqlite), define_by_use!(postgres));
    OLDER = Sql::both(page!("<", " DESC"));
    NEWER = Sql::both(page!(">", ""));
    BY_ID = Sql::both(concat!("SELECT ", columns!(""), " FROM events WHERE workspace_id = $1 AND id = $2"));
    /// The newest definition of a name is the one in force.
    BY_NAME = Sql::each(by_name!(sqlite), by_name!(postgres));
    OLDER_IN_FORCE = Sql::each(in_force!(sqlite, "<", " DESC"), in_force!(postgres, "<", " DESC"));
    NEWER_IN_FORCE = Sql::each(in_force!(sqlite, ">", ""), in_force!(postgres, ">", ""));
    TALLY = Sql::both(
        "SELECT COUNT(*), MAX(created_at) FROM
             (SELECT created_at FROM events WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
    /// A definition that has not changed, and that no newer one has replaced.
    IS_IN_FORCE = Sql::each(is_in_force!(sqlite), is_in_force!(postgres));
    IS_UNDEFINED = Sql::each(is_undefined!(sqlite), is_undefined!(postgres));
    /// Whoever says what its payload is has made the definition.
    SET_SCHEMA = Sql::both(
        "UPDATE events SET schema = $3, updated_at = $4, first_use_key = NULL WHERE workspace_id = $1 AND id = $2")
        .raising();
    DELETE = Sql::both("DELETE FROM events WHERE workspace_id = $1 AND id = $2").raising();
}

/// A definition as the store keeps it.
pub struct Stored {
    pub id: EventId,
    pub name: String,
    pub schema: Option<String>,
    pub created_at: i64,
    pub updated_at: Option<i64>,
    /// Nobody defined it: its first use did.
    pub defined_by_use: bool,
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            id: row.id(0)?,
            name: row.text(1)?,
            schema: row.maybe(2, Row::text)?,
            created_at: row.int(3)?,
            updated_at: row.maybe(4, Row::int)?,
            defined_by_use: row.bool(5)?,
        })
    }
}

pub fn insert(workspace_id: WorkspaceId, id: EventId, name: &EventName, schema: Option<&Schema>, now: i64) -> Stmt {
    let schema = schema.map(Schema::as_str);
    INSERT.with([workspace_id.into(), id.into(), name.as_str().into(), schema.into(), now.into()])
}

/// Defines an event that nobody has defined, without a schema.
pub fn define_by_use(workspace_id: WorkspaceId, id: EventId, name: &str, now: i64) -> Stmt {
    let key = secret::hash(name).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    DEFINE_BY_USE.with([workspace_id.into(), name.into(), id.into(), now.into(), key.into()]).expect(1)
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// As [`page`], each row followed by whether it is in force.
pub fn page_in_force(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER_IN_FORCE, NEWER_IN_FORCE, workspace_id, [])
}

/// How many definitions there are, counted to a bound, and when the newest came.
pub fn tally(workspace_id: WorkspaceId) -> Stmt {
    TALLY.with([workspace_id.into()])
}

pub fn by_id(workspace_id: WorkspaceId, id: EventId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

pub fn by_name(workspace_id: WorkspaceId, name: &str) -> Stmt {
    BY_NAME.with([workspace_id.into(), name.into()])
}

/// Holds as long as this definition is the one in force.
pub fn is_in_force(workspace_id: WorkspaceId, stored: &Stored) -> Stmt {
    let seen = stored.updated_at.unwrap_or(0);
    IS_IN_FORCE.with([workspace_id.into(), (&stored.name).into(), stored.id.into(), seen.into()])
}

/// Holds as long as nobody has defined the name.
pub fn is_undefined(workspace_id: WorkspaceId, name: &str) -> Stmt {
    IS_UNDEFINED.with([workspace_id.into(), name.into()])
}

pub fn set_schema(workspace_id: WorkspaceId, id: EventId, schema: Option<&Schema>, now: i64) -> Stmt {
    let schema = schema.map(Schema::as_str);
    SET_SCHEMA.with([workspace_id.into(), id.into(), schema.into(), now.into()]).expect(1)
}

pub fn delete(workspace_id: WorkspaceId, id: EventId) -> Stmt {
    DELETE.with([workspace_id.into(), id.into()]).expect(1)
}
