//! SQLite: one thread writes, a few connections read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement, ToSql};
use smallvec::SmallVec;
use tokio::sync::{Notify, mpsc};

use super::checkpoint::Carrier;
use super::guard::Guards;
use super::{Batch, Committed, DbError, Effect, Job, Options, Row, Sql, Stmt, Value, migrate};

/// How many batches one transaction may hold: enough to share a flush among
/// all that wait, few enough that nobody waits long for his answer.
const GROUP: usize = 512;

/// A commit that finds so many pages in the log (128 MiB) carries them to the
/// file itself. It does so only where the carrier does not: in commands that run
/// beside a server, or while carrying fails.
const CHECKPOINT: i64 = 32_000;

/// How long to wait for another process (a command, a backup) to let go of the
/// write lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_micros(250);

/// The reading side, and news of the writer's health.
pub(super) struct Readers {
    connections: Vec<Mutex<Connection>>,
    next: AtomicUsize,
    failure: Arc<Notify>,
}

pub(super) fn open(path: &Path, options: &Options, jobs: mpsc::Receiver<Job>) -> anyhow::Result<Readers> {
    let mut writer = connect(path, options)?;
    migrate::sqlite(&mut writer)?;
    // Only now: indices of large tables are sorted on disk.
    writer.pragma_update(None, "temp_store", "MEMORY")?;
    let connections = (0..options.readers.max(1))
        .map(|_| {
            let reader = connect(path, options)?;
            reader.pragma_update(None, "query_only", true)?;
            reader.pragma_update(None, "temp_store", "MEMORY")?;
            Ok(Mutex::new(reader))
        })
        .collect::<anyhow::Result<_>>()?;
    let failure = Arc::new(Notify::new());
    let told = failure.clone();
    let carrier = Carrier::start(connect(path, options)?, path, failure.clone())?;
    let (answers, settled) = mpsc::unbounded_channel();
    tokio::spawn(hand_out(settled));
    std::thread::Builder::new()
        .name("sqlite-writer".into())
        .spawn(move || write(&writer, jobs, answers, &carrier, &told))
        .context("the writer thread could not be started")?;
    Ok(Readers { connections, next: AtomicUsize::new(0), failure })
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
        connection.pragma_update(None, "cache_size", -8192)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
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
                std::thread::sleep(NAP);
            }
            settled => return settled,
        }
    }
}

/// Short naps rather than SQLite's growing ones: under load the lock is free
/// for moments only, and a command run beside the server has to catch one.
fn wait_for_lock(tries: i32) -> bool {
    std::thread::sleep(NAP);
    NAP * u32::try_from(tries).unwrap_or(u32::MAX) < LOCK_WAIT
}

impl Readers {
    /// Reads run on the calling thread: they take microseconds, and a hop to
    /// another thread costs more than that.
    pub(super) fn read(&self, guard: Option<&Stmt>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let connection = self.idle()?;
        if let Some(guard) = guard
            && read(&connection, guard)?.is_empty()
        {
            return Err(DbError::Stale);
        }
        read(&connection, stmt)
    }

    /// A connection that nobody holds, or else the next one's turn.
    fn idle(&self) -> Result<MutexGuard<'_, Connection>, DbError> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.connections.len();
        let mut turns = (0..count).map(|step| &self.connections[(start + step) % count]);
        match turns.find_map(|connection| connection.try_lock().ok()) {
            Some(connection) => Ok(connection),
            None => {
                self.connections[start % count].lock().map_err(|_| DbError::Unavailable("a reader panicked".into()))
            }
        }
    }

    pub(super) async fn failed(&self) {
        self.failure.notified().await;
    }

    pub(super) fn check(&self, sql: Sql) -> Result<(), DbError> {
        self.idle()?.prepare(sql.sqlite).map(drop).map_err(refusal)
    }
}

fn read(connection: &Connection, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
    let answer = || {
        let mut statement = connection.prepare_cached(stmt.sql.sqlite)?;
        let order = order(&statement);
        run(&mut statement, &order, &stmt.params)
    };
    answer().map(|effect| effect.rows).map_err(refusal)
}

/// A group that was committed, each job with its answer.
type Settled = Vec<(Job, Committed)>;

/// Answers the jobs of a group from within the runtime that their callers wait
/// in: waking them from the writer's thread, one by one, would cost it more than
/// their statements did.
async fn hand_out(mut settled: mpsc::UnboundedReceiver<Settled>) {
    while let Some(group) = settled.recv().await {
        group.into_iter().for_each(|(job, result)| job.answer(result));
    }
}

/// The writer's life: take all that waits, commit it, answer, repeat. Ends when
/// the last handle to the store is dropped.
fn write(
    connection: &Connection,
    mut jobs: mpsc::Receiver<Job>,
    answers: mpsc::UnboundedSender<Settled>,
    carrier: &Carrier,
    failure: &Notify,
) {
    let _alarm = Alarm(failure);
    let mut desk = Desk { connection, prepared: HashMap::new(), answers };
    let mut group = Vec::with_capacity(GROUP);
    let mut broken = false;
    while let Some(first) = jobs.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(job) = jobs.try_recv()
        {
            group.push(job);
        }
        if broken {
            refuse_all(&mut group, &DbError::Unavailable("the disk failed to flush".into()));
            continue;
        }
        if let Err(error) = commit_group(&mut desk, &mut group).and_then(|()| carrier.committed(connection)) {
            if flush_failed(&error) {
                // After a failed flush nobody knows what the disk holds. Trying
                // again could acknowledge what is not there.
                broken = true;
                tracing::error!(%error, "the disk failed to flush a commit; refusing further writes");
                failure.notify_one();
            }
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
            refuse_all(&mut group, &refusal(error));
        }
    }
}

/// Tells of a writer that dies of a defect: nothing can be written after that.
struct Alarm<'a>(&'a Notify);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}

fn refuse_all(group: &mut Vec<Job>, error: &DbError) {
    for job in group.drain(..) {
        job.answer(Err(error.clone()));
    }
}

/// What the writer works with: its connection, and every statement it has used
/// so far, known by the address of its text, which nobody has to read again.
struct Desk<'c> {
    connection: &'c Connection,
    prepared: HashMap<(*const u8, usize), (Statement<'c>, Order)>,
    answers: mpsc::UnboundedSender<Settled>,
}

impl Desk<'_> {
    fn run(&mut self, sql: &'static str, params: &[Value]) -> rusqlite::Result<Effect> {
        let (statement, order) = match self.prepared.entry((sql.as_ptr(), sql.len())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let statement = self.connection.prepare(sql)?;
                let order = order(&statement);
                free.insert((statement, order))
            }
        };
        run(statement, order, params)
    }

    fn execute(&mut self, sql: &'static str) -> rusqlite::Result<()> {
        self.run(sql, &[]).map(drop)
    }
}

/// Commits a group and answers its jobs. On `Err` nothing was committed and
/// nobody was answered.
///
/// A savepoint around every batch would make SQLite keep a copy of each page
/// that the batch changes. So the group is first run without; only where a
/// batch fails half-way is all of it undone and run again with savepoints.
fn commit_group(desk: &mut Desk<'_>, group: &mut Vec<Job>) -> rusqlite::Result<()> {
    let results = match run_group(desk, group, false)? {
        Some(results) => results,
        None => {
            desk.execute("ROLLBACK")?;
            run_group(desk, group, true)?.unwrap_or_default()
        }
    };
    desk.execute("COMMIT")?;
    let settled: Settled = group.drain(..).zip(results).collect();
    if let Err(refused) = desk.answers.send(settled) {
        // The runtime is gone, and whoever waited in it.
        refused.0.into_iter().for_each(|(job, result)| job.answer(result));
    }
    Ok(())
}

/// Runs a group in a transaction of its own, which stays open. `None`: a batch
/// failed that can only be undone with the rest.
fn run_group(desk: &mut Desk<'_>, group: &[Job], careful: bool) -> rusqlite::Result<Option<Vec<Committed>>> {
    desk.execute("BEGIN IMMEDIATE")?;
    let guards = Guards::of(group);
    let mut held = Vec::with_capacity(guards.stmts.len());
    for guard in &guards.stmts {
        held.push(!desk.run(guard.sql.sqlite, &guard.params)?.rows.is_empty());
    }
    let mut results: Vec<Committed> = Vec::with_capacity(group.len());
    for (number, job) in group.iter().enumerate() {
        if !guards.let_pass(number, &held) {
            results.push(Err(DbError::Stale));
            continue;
        }
        let ran = match careful {
            true => run_undoable(desk, &job.batch)?,
            false => run_batch(desk, &job.batch)?,
        };
        match ran {
            Ran::Whole(effects) => results.push(Ok(effects)),
            Ran::Nothing(error) => results.push(Err(error)),
            Ran::Partly(_) => return Ok(None),
        }
    }
    Ok(Some(results))
}

/// What became of a batch.
enum Ran {
    Whole(Vec<Effect>),
    /// It failed before it changed anything, or was undone.
    Nothing(DbError),
    /// It failed after it had changed something.
    Partly(DbError),
}

/// Runs one batch inside the group's transaction. `Err` means that the
/// transaction is lost.
fn run_batch(desk: &mut Desk<'_>, batch: &Batch) -> rusqlite::Result<Ran> {
    let mut effects = Vec::with_capacity(batch.stmts.len());
    let before = desk.connection.total_changes();
    for (statement, stmt) in batch.stmts.iter().enumerate() {
        let failure = match desk.run(stmt.sql.sqlite, &stmt.params) {
            Ok(effect) if stmt.expect.is_none_or(|rows| rows == effect.changed) => {
                effects.push(effect);
                continue;
            }
            Ok(_) => DbError::Unexpected { statement },
            Err(error) if desk.connection.is_autocommit() => return Err(error),
            Err(error) => refusal(error),
        };
        // A statement that fails may have written some of its rows.
        let untouched = desk.connection.total_changes() == before;
        return Ok(if untouched { Ran::Nothing(failure) } else { Ran::Partly(failure) });
    }
    Ok(Ran::Whole(effects))
}

/// As [`run_batch`], so that a batch that fails undoes itself.
fn run_undoable(desk: &mut Desk<'_>, batch: &Batch) -> rusqlite::Result<Ran> {
    desk.execute("SAVEPOINT batch")?;
    let ran = match run_batch(desk, batch)? {
        Ran::Partly(error) => {
            desk.execute("ROLLBACK TO batch")?;
            Ran::Nothing(error)
        }
        settled => settled,
    };
    desk.execute("RELEASE batch")?;
    Ok(ran)
}

/// Which parameter belongs to each position of a statement. To SQLite `$3` is a
/// name, whose position is where it first stands in the text; to us and to
/// PostgreSQL it is the third parameter.
type Order = SmallVec<[usize; 8]>;

fn order(statement: &Statement<'_>) -> Order {
    let number = |position| statement.parameter_name(position).unwrap_or_default().trim_start_matches('$').parse();
    (1..=statement.parameter_count()).map(|position| number(position).unwrap_or(0)).collect()
}

fn run(statement: &mut Statement<'_>, order: &[usize], params: &[Value]) -> rusqlite::Result<Effect> {
    for (place, number) in order.iter().enumerate() {
        let value = number.checked_sub(1).and_then(|index| params.get(index));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(params.len(), *number))?;
        statement.raw_bind_parameter(place + 1, value)?;
    }
    let columns = statement.column_count();
    if columns == 0 {
        let changed = statement.raw_execute()? as u64;
        return Ok(Effect { changed, rows: Vec::new() });
    }
    let mut rows = Vec::new();
    let mut found = statement.raw_query();
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|column| Ok(owned(row.get_ref(column)?)));
        rows.push(Row(values.collect::<rusqlite::Result<_>>()?));
    }
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
        }))
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

pub(super) fn flush_failed(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_FSYNC) || code == Some(rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC)
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
