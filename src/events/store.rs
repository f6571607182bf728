//! Definitions of events in the store.

use super::event::{EventName, Schema};
use crate::db::{Sql, Stmt, from_row, statements};
use crate::id::{AutomationId, EventId, WorkspaceId};
use crate::secret;
use crate::web::Page;

/// A name is looked for in an index: SQLite's holds all of it, PostgreSQL's its
/// start. Left to itself, SQLite would walk through the workspace's events, for they
/// are in the order of ids.
macro_rules! named {
    (sqlite, $events:literal, $name:literal) => {
        concat!("events ", $events, " INDEXED BY events_by_name WHERE ", $events, ".name = ", $name, " AND ")
    };
    (postgres, $events:literal, $name:literal) => {
        concat!(
            concat!("events ", $events, " WHERE substr(", $events, ".name, 1, 128) = substr(", $name, ", 1, 128) AND "),
            concat!($events, ".name = ", $name, " AND ")
        )
    };
}

/// What [`Stored::read`] reads.
macro_rules! columns {
    () => {
        "SELECT e.id, e.name, e.schema, e.created_at, e.updated_at,
                CASE WHEN e.first_use_key IS NULL THEN 0 ELSE 1 END"
    };
}

/// Definitions, with a word on which are in force: none newer has their name.
macro_rules! in_force {
    ($engine:ident, $which:literal) => {
        concat!(
            columns!(),
            ", CASE WHEN EXISTS (SELECT 1 FROM ",
            named!($engine, "n", "e.name"),
            "n.workspace_id = e.workspace_id AND n.id > e.id) THEN 0 ELSE 1 END
             FROM events e WHERE e.workspace_id = $1 AND e.id ",
            $which
        )
    };
}

/// A definition that has not changed, and that no newer one has replaced.
macro_rules! is_in_force {
    ($engine:ident) => {
        concat!(
            "SELECT 1 FROM events e WHERE e.workspace_id = $1 AND e.id = $3 AND COALESCE(e.updated_at, 0) = $4
               AND NOT EXISTS (SELECT 1 FROM ",
            named!($engine, "n", "$2"),
            "n.workspace_id = $1 AND n.id > $3)"
        )
    };
}

macro_rules! is_undefined {
    ($engine:ident) => {
        concat!("NOT EXISTS (SELECT 1 FROM ", named!($engine, "e", "$2"), "e.workspace_id = $1)")
    };
}

/// Inserts a definition where there is none. Of two at the same moment, one finds
/// the other's.
macro_rules! define_by_use {
    ($engine:ident) => {
        concat!(
            "INSERT INTO events (workspace_id, id, name, created_at, first_use_key)
             SELECT $1, $3, CAST($2 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT) WHERE ",
            is_undefined!($engine),
            " ON CONFLICT (workspace_id, first_use_key) WHERE first_use_key IS NOT NULL DO NOTHING"
        )
    };
}

macro_rules! by_name {
    ($engine:ident) => {
        concat!(columns!(), " FROM ", named!($engine, "e", "$2"), "e.workspace_id = $1 ORDER BY e.id DESC LIMIT 1")
    };
}

statements! {
    functions {
        pub fn insert(workspace_id: WorkspaceId, id: EventId, name: &EventName, schema: Option<&Schema>, now: i64)
            with [workspace_id, id, name.as_str(), schema.map(Schema::as_str), now] = Sql::both(
            "INSERT INTO events (workspace_id, id, name, schema, created_at) VALUES ($1, $2, $3, $4, $5)")
            .for_rows(
            "INSERT OR FAIL INTO events (workspace_id, id, name, schema, created_at)
             VALUES ($1, $2, $3, $4, $5), ($6, $7, $8, $9, $10), ($11, $12, $13, $14, $15), ($16, $17, $18, $19, $20)")
            .for_many(
            "INSERT INTO events (workspace_id, id, name, schema, created_at)
             SELECT workspace_id, id, name, schema, created_at
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[])
                  AS many (workspace_id, id, name, schema, created_at)");
        /// How many definitions there are, counted to a bound, and when the newest came.
        pub fn tally(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*), MAX(created_at) FROM
                 (SELECT created_at FROM events WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
        pub fn by_id(workspace_id: WorkspaceId, id: EventId) = Sql::both(
            concat!(columns!(), " FROM events e WHERE e.workspace_id = $1 AND e.id = $2"));
        /// The newest definition of a name is the one in force.
        pub fn by_name(workspace_id: WorkspaceId, name: &str) = Sql::each(by_name!(sqlite), by_name!(postgres));
        /// Holds as long as this definition is the one in force.
        pub fn is_in_force(workspace_id: WorkspaceId, stored: &Stored)
            with [workspace_id, &stored.name, stored.id, stored.updated_at.unwrap_or(0)] = Sql::each(
            is_in_force!(sqlite), is_in_force!(postgres));
        /// Holds as long as nobody has defined the name.
        pub fn is_undefined(workspace_id: WorkspaceId, name: &str) = Sql::each(
            concat!("SELECT 1 WHERE ", is_undefined!(sqlite)), concat!("SELECT 1 WHERE ", is_undefined!(postgres)));
        /// Defines an event that nobody has defined, without a schema.
        pub fn define_by_use(workspace_id: WorkspaceId, id: EventId, name: &str, now: i64)
            with [workspace_id, name, id, now, first_use_key(name)] expects 1 = Sql::each(
            define_by_use!(sqlite), define_by_use!(postgres));
        /// Whoever says what its payload is has made the definition.
        pub fn set_schema(workspace_id: WorkspaceId, id: EventId, schema: Option<&Schema>, now: i64)
            with [workspace_id, id, schema.map(Schema::as_str), now] expects 1 = Sql::both(
            "UPDATE events SET schema = $3, updated_at = $4, first_use_key = NULL WHERE workspace_id = $1 AND id = $2")
            .raising();
        /// The automations that an event of this name starts: id, name, status.
        pub fn listeners(workspace_id: WorkspaceId, name: &str) = Sql::both(
            "SELECT a.id, a.name, a.status
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id AND v.version = a.version
             WHERE a.workspace_id = $1 AND a.deleted_at IS NULL AND v.event_name = $2
             ORDER BY a.status DESC, a.id DESC LIMIT 50");
        pub fn automation_name(workspace_id: WorkspaceId, id: AutomationId) = Sql::both(
            "SELECT name FROM automations WHERE workspace_id = $1 AND id = $2");
        pub fn delete(workspace_id: WorkspaceId, id: EventId) expects 1 = Sql::both(
            "DELETE FROM events WHERE workspace_id = $1 AND id = $2").raising();
    }
    OLDER = Sql::both(
        concat!(columns!(), " FROM events e WHERE e.workspace_id = $1 AND e.id < $2 ORDER BY e.id DESC LIMIT $3"));
    NEWER = Sql::both(
        concat!(columns!(), " FROM events e WHERE e.workspace_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3"));
    OLDER_IN_FORCE = Sql::each(
        in_force!(sqlite, "< $2 ORDER BY e.id DESC LIMIT $3"), in_force!(postgres, "< $2 ORDER BY e.id DESC LIMIT $3"));
    NEWER_IN_FORCE = Sql::each(
        in_force!(sqlite, "> $2 ORDER BY e.id LIMIT $3"), in_force!(postgres, "> $2 ORDER BY e.id LIMIT $3"));
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

from_row!(Stored { id, name, schema, created_at, updated_at, defined_by_use });

/// An automation that an event starts.
pub struct Listener {
    pub id: AutomationId,
    pub name: String,
    pub status: String,
}

from_row!(Listener { id, name, status });

/// What two first uses of one name have in common.
fn first_use_key(name: &str) -> String {
    secret::hash(name).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// As [`page`], each row followed by whether it is in force.
pub fn page_in_force(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER_IN_FORCE, NEWER_IN_FORCE, workspace_id, [])
}
