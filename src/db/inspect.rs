//! A look at a store that changes nothing: it is neither made nor migrated.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags};

use super::clock::{self, Reading};
use super::{DbError, FromRows, Location, Row, Sql, Stmt, files, from_row, migrate, postgres, sqlite, statements};
use crate::clock::Clock;

statements! {
    HISTORY_EXISTS = Sql::each(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'posthorn_migrations'",
        "SELECT 1 FROM information_schema.tables
         WHERE table_schema = ANY (current_schemas(false)) AND table_name = 'posthorn_migrations'");
    HISTORY = Sql::both("SELECT name, fingerprint FROM posthorn_migrations WHERE position > 0 ORDER BY position");
    /// What decides whether an acknowledged commit survives a crash. SQLite has no
    /// such settings of its own.
    SERVER = Sql::each(
        "SELECT 'on', 'on', 'on'",
        "SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')");
}

/// A store that is open for looking.
pub struct Inspection(Engine);

enum Engine {
    Sqlite(Connection),
    Postgres(Box<postgres::Readers>),
}

/// How a store's schema compares with this version's.
#[derive(Debug, PartialEq, Eq)]
pub enum Schema {
    /// Nothing is in there yet.
    Empty,
    Current,
    /// So many migrations are missing.
    Behind(usize),
}

/// What a PostgreSQL server says of itself.
pub struct Server {
    pub synchronous_commit: String,
    pub fsync: String,
    pub full_page_writes: String,
}

from_row!(Server { synchronous_commit, fsync, full_page_writes });

impl Inspection {
    pub async fn open(location: &Location) -> anyhow::Result<Inspection> {
        let engine = match location {
            Location::Sqlite(path) => {
                let connection = open_file(path).with_context(|| format!("{} cannot be opened", path.display()))?;
                Engine::Sqlite(connection)
            }
            Location::Postgres(url) => Engine::Postgres(Box::new(postgres::look(url)?)),
        };
        let inspection = Inspection(engine);
        inspection.read(HISTORY_EXISTS.with([])).await?;
        Ok(inspection)
    }

    pub async fn read(&self, stmt: Stmt) -> Result<Vec<Row>, DbError> {
        match &self.0 {
            Engine::Sqlite(connection) => sqlite::read(connection, &stmt),
            Engine::Postgres(readers) => readers.read(None, &stmt).await,
        }
    }

    pub async fn query<R: FromRows>(&self, stmt: Stmt) -> Result<R, DbError> {
        R::from_rows(&self.read(stmt).await?)
    }

    /// `Err` where the store belongs to a newer Posthorn, or to something else.
    pub async fn schema(&self) -> anyhow::Result<Schema> {
        if self.read(HISTORY_EXISTS.with([])).await?.is_empty() {
            return Ok(Schema::Empty);
        }
        let applied: Vec<(String, String)> = self.query(HISTORY.with([])).await?;
        Ok(match migrate::outstanding(&applied)?.len() {
            0 => Schema::Current,
            _ if applied.is_empty() => Schema::Empty,
            missing => Schema::Behind(missing),
        })
    }

    pub async fn server(&self) -> Result<Server, DbError> {
        let server: Option<Server> = self.query(SERVER.with([])).await?;
        server.ok_or_else(|| DbError::Broken("the server says nothing of itself".into()))
    }

    pub async fn clock(&self, clock: &Clock) -> Result<Reading, DbError> {
        Reading::of(clock, self.read(clock::look())).await
    }
}

/// Opens a store's file for reading. One without a log is in nobody's hands and lies
/// still: it is read as such, because else SQLite makes a log beside it, and who may
/// only read cannot take that away again.
fn open_file(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let still = if files::beside(path, files::LOG).exists() { "" } else { "&immutable=1" };
    let name = percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC);
    let connection = Connection::open_with_flags(format!("file:{name}?mode=ro{still}"), flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}
