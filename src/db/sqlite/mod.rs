//! SQLite: one thread writes, another flushes behind it, a third carries the log to
//! the file, and a few connections read.

mod backup;
mod checkpoint;
mod files;
mod flush;
mod guard;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

use std::borrow::Borrow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement, ToSql};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use uuid::Uuid;

use self::checkpoint::Checkpointer;
use self::files::{Failure, Files, open_log};
use self::flush::{Flusher, Log, Seen};
use self::watch::{Turns, Watch};
use self::writer::WriteConnection;
use super::sql::{Limit, Rows};
use super::{DbError, Effect, Guard, Job, Options, Row, Sql, Stmt, Value, migrate};

pub use backup::{Progress, backup, restore};

/// A commit that finds so many pages in the log (256 MiB) carries them to the
/// file itself. It does so only where the checkpointer does not: in commands that run
/// beside a server, or while carrying fails.
const CHECKPOINT: i64 = 64_000;

/// The file of the log keeps so much room when the log starts over. What grows
/// anew each time is slower to flush than what is written over.
const LOG_ROOM: i64 = 128 << 20;

/// How long to wait for another process (a command, a backup) to let go of the
/// write lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_RETRY_PAUSE: Duration = Duration::from_micros(250);

/// The reading side, and news of the writer's health.
pub(super) struct Readers {
    connections: Vec<Mutex<Reader>>,
    next: AtomicUsize,
    seen: Seen,
    failure: Arc<Failure>,
}

struct Reader {
    connection: Connection,
    turns: Turns,
}

pub(super) fn open(path: &Path, options: &Options, jobs: mpsc::Receiver<Job>) -> anyhow::Result<Readers> {
    let mut connection = connect(path, options)?;
    files::verify(&mut connection)?;
    migrate::sqlite(&mut connection)?;
    // Only now: indices of large tables are sorted on disk.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Pages that a writer keeps are gone through at the end of a commit, so few of
    // them are faster than many; but the ends of a thousand workspaces' lists, which
    // each has a page of, should be among them.
    connection.pragma_update(None, "cache_size", -6144)?;
    // A commit no longer flushes the log by itself; the flusher does, with a handle of its own.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let log = options.full_sync.then(|| open_log(&connection)).transpose()?;
    let files = Arc::new(Files::of(&connection)?);
    let failure = Arc::new(Failure::of(&connection)?);
    let (connections, watch) = open_readers(path, options)?;
    let flusher = Flusher::start(Log::new(log, files.clone()), failure.clone())?;
    let seen = flusher.seen();
    let checkpointer =
        Checkpointer::start(connect(path, options)?, options, seen.clone(), failure.clone(), files, watch)?;
    let (told, runtime) = (failure.clone(), Handle::current());
    let run = move || {
        writer::write(WriteConnection::new(&connection, flusher, runtime), jobs, &checkpointer, &told);
    };
    let thread = std::thread::Builder::new().name("sqlite-writer".into());
    thread.spawn(run).context("the writer thread could not be started")?;
    Ok(Readers { connections, next: AtomicUsize::new(0), seen, failure })
}

fn open_readers(path: &Path, options: &Options) -> anyhow::Result<(Vec<Mutex<Reader>>, Watch)> {
    let mut watch = Watch::default();
    let mut readers = Vec::new();
    for _ in 0..options.readers.max(1) {
        let (connection, turns) = (connect(path, options)?, Turns::default());
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        watch.add(&connection, turns.clone());
        readers.push(Mutex::new(Reader { connection, turns }));
    }
    Ok((readers, watch))
}

/// When it is closed, the connection does not carry the log to the file: nobody
/// knows what of it the disk holds.
fn leave_log(connection: &Connection) {
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

fn connect(path: &Path, options: &Options) -> anyhow::Result<Connection> {
    let shown = path.display();
    let mut connection = Connection::open(path).with_context(|| format!("the SQLite file {shown} cannot be opened"))?;
    let mut configure = || -> rusqlite::Result<()> {
        connection.busy_handler(Some(wait_for_lock))?;
        // Or else SQLite would plan a statement anew whenever a parameter has
        // another value than before.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // The page size only takes effect on a new file. Larger pages were
        // measured slower: every commit logs whole pages.
        keep_log(&connection)?;
        connection.pragma_update(None, "synchronous", if options.full_sync { "FULL" } else { "NORMAL" })?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Small, because it is void as soon as somebody writes, and there are several who read.
        connection.pragma_update(None, "cache_size", -2048)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        connection.pragma_update(None, "journal_size_limit", LOG_ROOM)?;
        connection.set_prepared_statement_cache_capacity(512);
        Ok(())
    };
    configure().with_context(|| format!("the SQLite file {shown} cannot be used"))?;
    Ok(connection)
}

/// Where several processes open a new file at once, SQLite refuses all but one
/// of them rather than let them wait for each other.
fn keep_log(connection: &Connection) -> rusqlite::Result<()> {
    let patience = Instant::now() + LOCK_WAIT;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < patience => {
                std::thread::sleep(LOCK_RETRY_PAUSE);
            }
            settled => return settled,
        }
    }
}

/// Short pauses rather than SQLite's growing ones: under load the lock is free
/// for moments only, and a command run beside the server has to catch one.
fn wait_for_lock(tries: i32) -> bool {
    std::thread::sleep(LOCK_RETRY_PAUSE);
    LOCK_RETRY_PAUSE * u32::try_from(tries).unwrap_or(u32::MAX) < LOCK_WAIT
}

impl Readers {
    /// Reads run on the calling thread: they take microseconds, and a hop to
    /// another thread costs more than that.
    pub(super) async fn read(&self, guard: Option<&Guard>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let found = self.look(guard, stmt)?;
        self.seen.wait_until_flushed().await?;
        Ok(found)
    }

    fn look(&self, guard: Option<&Guard>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let reader = self.idle()?;
        let _turn = reader.turns.begin();
        if let Some(guard) = guard
            && !holds(&reader.connection, guard)?
        {
            return Err(DbError::Stale);
        }
        read(&reader.connection, stmt)
    }

    /// A connection that nobody holds, or else the next one's turn.
    fn idle(&self) -> Result<MutexGuard<'_, Reader>, DbError> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.connections.len();
        let mut turns = (0..count).map(|step| &self.connections[(start + step) % count]);
        match turns.find_map(|reader| reader.try_lock().ok()) {
            Some(reader) => Ok(reader),
            None => {
                self.connections[start % count].lock().map_err(|_| DbError::Unavailable("a reader panicked".into()))
            }
        }
    }

    pub(super) async fn failed(&self) {
        self.failure.happened().await;
        let readers = self.connections.iter().filter_map(|reader| reader.lock().ok());
        readers.for_each(|reader| leave_log(&reader.connection));
    }

    pub(super) fn check(&self, sql: Sql) -> Result<(), DbError> {
        let reader = self.idle()?;
        let mut texts = [Some(sql.sqlite), sql.rows].into_iter().flatten();
        texts.try_for_each(|text| reader.connection.prepare(text).map(drop)).map_err(refusal)
    }
}

fn holds(connection: &Connection, guard: &Guard) -> Result<bool, DbError> {
    if !read(connection, &guard.shared)?.is_empty() {
        return Ok(true);
    }
    let Some(basis) = &guard.basis else { return Ok(false) };
    let found = read(connection, &basis.particular)?;
    let Some(row) = found.first() else { return Ok(false) };
    basis.learn(row.int(0)?);
    Ok(true)
}

pub(super) fn read(connection: &Connection, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
    let answer = || {
        let mut statement = connection.prepare_cached(stmt.sql.sqlite)?;
        let order = order(&statement);
        run(&mut statement, &order, &stmt.params, stmt.limit.as_deref())
    };
    answer().map(|effect| effect.rows).map_err(refusal)
}

/// Which parameter belongs to each position of a statement. To SQLite `$3` is a
/// name, whose position is where it first stands in the text; to us and to
/// PostgreSQL it is the third parameter.
type Order = SmallVec<[usize; 8]>;

fn order(statement: &Statement<'_>) -> Order {
    let number = |position| statement.parameter_name(position).unwrap_or_default().trim_start_matches('$').parse();
    (1..=statement.parameter_count()).map(|position| number(position).unwrap_or(0)).collect()
}

fn run(
    statement: &mut Statement<'_>,
    order: &[usize],
    params: &[impl Borrow<Value>],
    limit: Option<&Limit>,
) -> rusqlite::Result<Effect> {
    for (place, number) in order.iter().enumerate() {
        let value = number.checked_sub(1).and_then(|index| params.get(index));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(params.len(), *number))?;
        statement.raw_bind_parameter(place + 1, value.borrow())?;
    }
    let columns = statement.column_count();
    if columns == 0 {
        let changed = statement.raw_execute()? as u64;
        return Ok(Effect { changed, rows: Vec::new() });
    }
    let mut rows = Rows::new(limit);
    let mut found = statement.raw_query();
    while let Some(row) = found.next()? {
        if rows.is_full() {
            break;
        }
        let values = (0..columns).map(|column| Ok(owned(row.get_ref(column)?)));
        rows.push(Row(values.collect::<rusqlite::Result<_>>()?));
    }
    let rows = rows.rows;
    Ok(Effect { changed: rows.len() as u64, rows })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Bool(flag) => ValueRef::Integer(i64::from(*flag)),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            Value::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        }))
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        // To look first is several times as fast as to read it piece by piece.
        ValueRef::Text(text) => Value::Text(match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(text).into_owned(),
        }),
        ValueRef::Blob(bytes) => Uuid::from_slice(bytes).map_or_else(|_| Value::Bytes(bytes.to_vec()), Value::Uuid),
    }
}

fn refusal(error: rusqlite::Error) -> DbError {
    use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_ROWID, SQLITE_CONSTRAINT_UNIQUE};
    let Some(cause) = error.sqlite_error() else { return DbError::Broken(error.to_string()) };
    match (cause.code, cause.extended_code) {
        (_, SQLITE_CONSTRAINT_UNIQUE | SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_ROWID) => {
            DbError::Duplicate(error.to_string())
        }
        (ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig | ErrorCode::ApiMisuse, _) => {
            DbError::Broken(error.to_string())
        }
        // Full, busy, locked, I/O, corrupt, a table that somebody took away:
        // the store cannot serve, whatever the reason.
        _ => DbError::Unavailable(error.to_string()),
    }
}
