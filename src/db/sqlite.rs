//! SQLite: one thread writes, a few connections read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
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
use tokio::sync::{Notify, mpsc};

use super::checkpoint::Carrier;
use super::flush::{self, Flusher, Seen};
use super::{Batch, Committed, DbError, Effect, Job, Options, Row, Sql, Stmt, Value, migrate};

/// How many batches one transaction may hold: enough to share a flush among
/// all that wait, few enough that nobody waits long for his answer.
const GROUP: usize = 512;

/// A commit that finds so many pages in the log (256 MiB) carries them to the
/// file itself. It does so only where the carrier does not: in commands that run
/// beside a server, or while carrying fails.
const CHECKPOINT: i64 = 64_000;

/// The file of the log keeps so much room when the log starts over. What grows
/// anew each time is slower to flush than what is written over.
const LOG_ROOM: i64 = 128 << 20;

/// How long to wait for another process (a command, a backup) to let go of the
/// write lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_micros(250);

/// The reading side, and news of the writer's health.
pub(super) struct Readers {
    connections: Vec<Mutex<Connection>>,
    next: AtomicUsize,
    seen: Seen,
    failure: Arc<Notify>,
}

pub(super) fn open(path: &Path, options: &Options, jobs: mpsc::Receiver<Job>) -> anyhow::Result<Readers> {
    let mut writer = connect(path, options)?;
    migrate::sqlite(&mut writer)?;
    // Only now: indices of large tables are sorted on disk.
    writer.pragma_update(None, "temp_store", "MEMORY")?;
    // A writer looks for little twice. Pages that it keeps are gone through at the
    // end of a commit, so few of them are faster than many.
    writer.pragma_update(None, "cache_size", -4096)?;
    // A commit no longer flushes the log by itself; the flusher does, with a handle of its own.
    writer.pragma_update(None, "synchronous", "NORMAL")?;
    let log = options.full_sync.then(|| open_log(&writer));
    let connections = (0..options.readers.max(1))
        .map(|_| {
            let reader = connect(path, options)?;
            reader.pragma_update(None, "query_only", true)?;
            reader.pragma_update(None, "temp_store", "MEMORY")?;
            Ok(Mutex::new(reader))
        })
        .collect::<anyhow::Result<_>>()?;
    let failure = Arc::new(Notify::new());
    let flusher = Flusher::start(log.transpose()?, failure.clone())?;
    let seen = flusher.seen();
    let carrier = Carrier::start(connect(path, options)?, path, seen.clone(), failure.clone())?;
    let (told, runtime) = (failure.clone(), Handle::current());
    let run = move || {
        let desk = Desk { connection: &writer, prepared: HashMap::new(), flusher, runtime };
        write(desk, jobs, &carrier, &told);
    };
    let thread = std::thread::Builder::new().name("sqlite-writer".into());
    thread.spawn(run).context("the writer thread could not be started")?;
    Ok(Readers { connections, next: AtomicUsize::new(0), seen, failure })
}

/// The log as SQLite itself knows it, whatever way leads to the file.
fn open_log(connection: &Connection) -> anyhow::Result<File> {
    let log = format!("{}-wal", connection.path().context("the store has no file")?);
    File::options().read(true).write(true).open(&log).with_context(|| format!("the log {log} cannot be opened"))
}

/// When it is closed, the connection does not carry the log to the file: nobody
/// knows what of it the disk holds.
pub(super) fn leave_log(connection: &Connection) {
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
        connection.pragma_update(None, "cache_size", -8192)?;
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
    pub(super) async fn read(&self, guard: Option<&Stmt>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let found = self.look(guard, stmt)?;
        self.seen.kept().await?;
        Ok(found)
    }

    fn look(&self, guard: Option<&Stmt>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
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
        self.connections.iter().filter_map(|connection| connection.lock().ok()).for_each(|reader| leave_log(&reader));
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

/// The writer's life: take all that waits, commit it, have it flushed, repeat.
/// Ends when the last handle to the store is dropped.
fn write(mut desk: Desk<'_>, mut jobs: mpsc::Receiver<Job>, carrier: &Carrier, failure: &Notify) {
    let _alarm = Alarm(failure);
    let mut group = Vec::with_capacity(GROUP);
    let mut broken = false;
    while let Some(first) = jobs.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(job) = jobs.try_recv()
        {
            group.push(job);
        }
        if broken || desk.flusher.has_failed() {
            refuse_all(&mut group, &flush::failure());
            continue;
        }
        let committed = commit_group(&mut desk, &mut group, &mut jobs);
        if let Err(error) = committed.and_then(|()| carrier.committed(desk.connection)) {
            if flush_failed(&error) {
                broken = true;
                tracing::error!(%error, "the disk failed to flush the log; refusing further writes");
                failure.notify_one();
            }
            if !desk.connection.is_autocommit() {
                let _ = desk.connection.execute_batch("ROLLBACK");
            }
            refuse_all(&mut group, &refusal(error));
        }
    }
    if broken || desk.flusher.has_failed() {
        leave_log(desk.connection);
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

/// What the writer works with: its connection, every statement it has used so
/// far, known by the address of its text, which nobody has to read again, and who
/// flushes what it has committed.
struct Desk<'c> {
    connection: &'c Connection,
    prepared: HashMap<(*const u8, usize), (Statement<'c>, Order)>,
    flusher: Flusher,
    runtime: Handle,
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

/// Commits a group and has its jobs answered. While the group before it is being
/// flushed, whoever comes may join. On `Err` nothing was committed and nobody was
/// answered.
///
/// A savepoint around every batch would make SQLite keep a copy of each page
/// that the batch changes. So the group is first run without; only where a
/// batch fails half-way is all of it undone and run again with savepoints.
fn commit_group(desk: &mut Desk<'_>, group: &mut Vec<Job>, jobs: &mut mpsc::Receiver<Job>) -> rusqlite::Result<()> {
    desk.execute("BEGIN IMMEDIATE")?;
    let mut results: Vec<Committed> = Vec::with_capacity(group.len());
    let mut asked = HashMap::new();
    let mut careful = false;
    loop {
        let number = results.len();
        let Some(job) = group.get(number) else {
            match latecomer(desk, number, jobs) {
                Some(job) => group.push(job),
                None => break,
            }
            continue;
        };
        // Most carry the guards of the one before them: to compare is cheaper than to look up.
        let before = number.checked_sub(1).filter(|before| group[*before].batch.guards == job.batch.guards);
        let passes = match before {
            Some(before) => !matches!(results[before], Err(DbError::Stale)),
            None => hold(desk, &job.batch.guards, &mut asked)?,
        };
        if !passes {
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
            Ran::Partly(_) => {
                desk.execute("ROLLBACK")?;
                desk.execute("BEGIN IMMEDIATE")?;
                results.clear();
                asked.clear();
                careful = true;
            }
        }
    }
    desk.flusher.announce();
    let committed = desk.execute("COMMIT");
    let settled = if committed.is_ok() { group.drain(..).zip(results).collect() } else { Vec::new() };
    desk.flusher.flush(settled);
    committed
}

/// Whoever comes before the flusher has time for a group of this size.
fn latecomer(desk: &mut Desk<'_>, size: usize, jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
    while size < GROUP && desk.flusher.is_busy() {
        let flusher = &mut desk.flusher;
        let came = desk.runtime.block_on(async {
            tokio::select! {
                biased;
                job = jobs.recv() => Some(job),
                () = flusher.progress() => None,
            }
        });
        if let Some(job) = came {
            return job;
        }
    }
    None
}

/// Whether all of these guards hold. Equal ones are asked once in a group.
fn hold(desk: &mut Desk<'_>, guards: &[Stmt], asked: &mut HashMap<Stmt, bool>) -> rusqlite::Result<bool> {
    for guard in guards {
        let holds = match asked.get(guard) {
            Some(holds) => *holds,
            None => {
                let holds = !desk.run(guard.sql.sqlite, &guard.params)?.rows.is_empty();
                asked.insert(guard.clone(), holds);
                holds
            }
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
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
