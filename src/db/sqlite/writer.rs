//! The writer: one thread that commits groups of batches.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use rusqlite::{Connection, Statement, ffi};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::checkpoint::Checkpointer;
use super::files::Failure;
use super::flush::{self, Flusher};
use super::guard::Verdicts;
use super::{Order, leave_log, order, refusal, run};
use crate::db::sql::ROWS;
use crate::db::{Batch, Committed, DbError, Effect, Job, Stmt, Value, migrate};

/// How many batches one transaction may hold: enough to share a flush among
/// all that wait, few enough that nobody waits long for an answer.
const GROUP: usize = 512;

/// Where so many batches shared a commit, more are on their way: the next commit begins no sooner than so long after
/// it began. A commit costs as much as some twenty small batches, however few it holds.
const MANY: usize = 8;
const DISTANCE: Duration = Duration::from_millis(1);

/// The writer's life: take all that waits, commit it, have it flushed, repeat.
/// Ends when the last handle to the store is dropped.
pub(super) fn write(
    mut writer: WriteConnection<'_>,
    mut jobs: mpsc::Receiver<Job>,
    checkpointer: &Checkpointer,
    failure: &Failure,
) {
    let _alarm = Alarm(failure);
    let mut group = Vec::with_capacity(GROUP);
    let mut broken = None;
    let mut next = Instant::now();
    while let Some(first) = jobs.blocking_recv() {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        take_waiting(first, &mut group, &mut jobs);
        if let Some(reason) = refuses_all(&broken, &writer, checkpointer) {
            refuse_all(&mut group, &reason);
            continue;
        }
        Job::drop_abandoned(&mut group);
        if group.is_empty() {
            continue;
        }
        let began = Instant::now();
        let committed = commit_group(&mut writer, &mut group, &mut jobs);
        next = match committed {
            Ok(shared) if shared >= MANY => began + DISTANCE,
            _ => began,
        };
        if let Err(error) = committed.and_then(|_| checkpointer.committed(writer.connection)) {
            let (is_newer, disk_failed) = (is_newer(&error), checkpointer.disk_failed(&error));
            if !writer.connection.is_autocommit() {
                let _ = writer.connection.execute_batch("ROLLBACK");
            }
            let refusal = refusal(error);
            if is_newer || disk_failed {
                tracing::error!(error = %refusal, "nothing can be written any more; refusing further writes");
                broken = Some(refusal.clone());
            }
            match disk_failed {
                true => failure.distrust(),
                false if is_newer => failure.stop(),
                false => {}
            }
            refuse_all(&mut group, &refusal);
        }
    }
    if broken.is_some() || writer.flusher.has_failed() {
        leave_log(writer.connection);
    }
}

/// Why nobody can write at this moment.
fn refuses_all(broken: &Option<DbError>, writer: &WriteConnection<'_>, checkpointer: &Checkpointer) -> Option<DbError> {
    match broken {
        Some(reason) => Some(reason.clone()),
        None if writer.flusher.has_failed() => Some(flush::failure()),
        None if checkpointer.is_full() => Some(DbError::Unavailable("the log has grown to its limit".into())),
        None => None,
    }
}

/// Tells of a writer that dies of a defect: nothing can be written after that.
struct Alarm<'a>(&'a Failure);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
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
pub(super) struct WriteConnection<'c> {
    connection: &'c Connection,
    prepared: HashMap<(*const u8, usize), (Statement<'c>, Order)>,
    flusher: Flusher,
    runtime: Handle,
}

impl<'c> WriteConnection<'c> {
    pub(super) fn new(connection: &'c Connection, flusher: Flusher, runtime: Handle) -> WriteConnection<'c> {
        WriteConnection { connection, prepared: HashMap::new(), flusher, runtime }
    }

    pub(super) fn run(&mut self, sql: &'static str, params: &[impl Borrow<Value>]) -> rusqlite::Result<Effect> {
        let (statement, order) = match self.prepared.entry((sql.as_ptr(), sql.len())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let statement = self.connection.prepare(sql)?;
                let order = order(&statement);
                free.insert((statement, order))
            }
        };
        run(statement, order, params, None)
    }

    fn execute(&mut self, sql: &'static str) -> rusqlite::Result<()> {
        self.run(sql, &[] as &[Value]).map(drop)
    }
}

/// Commits a group and has its jobs answered. While the group before it is being
/// flushed, whoever comes may join. Tells how many shared the commit. On `Err` nothing
/// was committed and nobody was answered.
///
/// A savepoint around every batch would make SQLite keep a copy of each page
/// that the batch changes. So the group is first run without; only where a
/// batch fails half-way is all of it undone and run again with savepoints. The same
/// holds for what is run as one statement for several batches.
fn commit_group(
    writer: &mut WriteConnection<'_>,
    group: &mut Vec<Job>,
    jobs: &mut mpsc::Receiver<Job>,
) -> rusqlite::Result<usize> {
    begin(writer, group)?;
    let mut results: Vec<Committed> = Vec::with_capacity(group.len());
    let mut verdicts = Verdicts::default();
    let mut careful = false;
    loop {
        let number = results.len();
        let Some(job) = group.get(number) else {
            if take_latecomers(writer, group, jobs) {
                continue;
            }
            // The flush before this one may have taken longer than callers wait.
            let now = Instant::now();
            if !group.iter().any(|job| job.is_late(now)) {
                break;
            }
            start_over(writer, group, &mut results, &mut verdicts)?;
            continue;
        };
        if !verdicts.let_pass(writer, group, number)? {
            results.push(Err(DbError::Stale));
            continue;
        }
        if !careful && let Some(alike) = alike(group, number, &verdicts) {
            match run_as_one(writer, alike)? {
                true => results.extend(alike.iter().map(|_| Ok(vec![ONE]))),
                false => {
                    start_over(writer, group, &mut results, &mut verdicts)?;
                    careful = true;
                }
            }
            continue;
        }
        let ran = match careful {
            true => run_undoable(writer, &job.batch)?,
            false => run_batch(writer, &job.batch)?,
        };
        match ran {
            Ran::Done(effects) => {
                if group[number].batch.is_raising() {
                    verdicts.forget();
                }
                results.push(Ok(effects));
            }
            Ran::Nothing(error) => results.push(Err(error)),
            Ran::Partly(_) => {
                start_over(writer, group, &mut results, &mut verdicts)?;
                careful = true;
            }
        }
    }
    writer.flusher.announce();
    let committed = writer.execute("COMMIT");
    let shared = group.len();
    let settled = if committed.is_ok() {
        verdicts.learnt.keep();
        group.drain(..).zip(results).collect()
    } else {
        Vec::new()
    };
    writer.flusher.flush(settled);
    committed.map(|()| shared)
}

/// Takes the write lock, for which there may be a wait as long as another process
/// has it, and lets go of the jobs whose time was over by then. Fails if the store
/// no longer has the schema that this process knows.
fn begin(writer: &mut WriteConnection<'_>, group: &mut Vec<Job>) -> rusqlite::Result<()> {
    writer.execute("BEGIN IMMEDIATE")?;
    Job::drop_abandoned(group);
    let newer = migrate::newer();
    match writer.run(newer.sql.sqlite, &newer.params)?.rows.is_empty() {
        true => Ok(()),
        false => {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_SCHEMA), Some(migrate::REFUSAL.into())))
        }
    }
}

fn start_over(
    writer: &mut WriteConnection<'_>,
    group: &mut Vec<Job>,
    results: &mut Vec<Committed>,
    verdicts: &mut Verdicts,
) -> rusqlite::Result<()> {
    writer.execute("ROLLBACK")?;
    results.clear();
    *verdicts = Verdicts::default();
    begin(writer, group)
}

/// Whether [`begin`] found a schema that is newer than this process.
fn is_newer(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(cause, _) if cause.extended_code == ffi::SQLITE_SCHEMA)
}

/// Takes a job into a group, and all that wait behind it.
fn take_waiting(first: Job, group: &mut Vec<Job>, jobs: &mut mpsc::Receiver<Job>) {
    group.push(first);
    while group.len() < GROUP
        && let Ok(job) = jobs.try_recv()
    {
        group.push(job);
    }
}

/// Takes in whoever comes before the flusher has time for the group. False when
/// nobody did.
fn take_latecomers(writer: &mut WriteConnection<'_>, group: &mut Vec<Job>, jobs: &mut mpsc::Receiver<Job>) -> bool {
    while group.len() < GROUP && writer.flusher.is_busy() {
        let flusher = &mut writer.flusher;
        let came = writer.runtime.block_on(async {
            tokio::select! {
                biased;
                job = jobs.recv() => Some(job),
                () = flusher.progress() => None,
            }
        });
        match came {
            Some(Some(job)) => {
                take_waiting(job, group, jobs);
                return true;
            }
            Some(None) => return false,
            None => {}
        }
    }
    false
}

/// What became of a batch.
pub(super) enum Ran {
    Done(Vec<Effect>),
    /// It failed before it changed anything, or was undone.
    Nothing(DbError),
    /// It failed after it had changed something.
    Partly(DbError),
}

/// Runs one batch inside the group's transaction. `Err` means that the
/// transaction is lost.
fn run_batch(writer: &mut WriteConnection<'_>, batch: &Batch) -> rusqlite::Result<Ran> {
    let mut effects = Vec::with_capacity(batch.stmts.len());
    let before = writer.connection.total_changes();
    while let Some(stmt) = batch.stmts.get(effects.len()) {
        let ran = match rows_of(&batch.stmts[effects.len()..]) {
            Some(rows) => run_rows(writer, rows.iter()).map(|is_whole| is_whole.then(|| effects.extend([ONE; ROWS]))),
            None => writer.run(stmt.sql.sqlite, &stmt.params).map(|effect| {
                let is_expected = stmt.expect.is_none_or(|rows| rows == effect.changed);
                is_expected.then(|| effects.push(effect))
            }),
        };
        let failure = match ran {
            Ok(Some(())) => continue,
            Ok(None) => stmt.missed(effects.len()),
            Err(error) if writer.connection.is_autocommit() => return Err(error),
            Err(error) => refusal(error),
        };
        // A statement that fails may have written some of its rows.
        let untouched = writer.connection.total_changes() == before;
        return Ok(if untouched { Ran::Nothing(failure) } else { Ran::Partly(failure) });
    }
    Ok(Ran::Done(effects))
}

/// What a statement has done that was run with others.
const ONE: Effect = Effect { changed: 1, rows: Vec::new() };

/// The first statements of these, if they can be run as one.
fn rows_of(stmts: &[Stmt]) -> Option<&[Stmt]> {
    let rows = stmts.get(..ROWS)?;
    (rows[0].sql.rows.is_some() && rows.iter().all(|stmt| is_row_like(stmt, &rows[0]))).then_some(rows)
}

/// Whether a statement adds a row as another one does.
fn is_row_like(stmt: &Stmt, other: &Stmt) -> bool {
    let is_same = stmt.sql == other.sql && stmt.params.len() == other.params.len();
    is_same && stmt.expect.is_none_or(|rows| rows == 1)
}

/// Runs statements that are alike as one. False: it did not add a row for each.
fn run_rows<'s>(
    writer: &mut WriteConnection<'_>,
    stmts: impl ExactSizeIterator<Item = &'s Stmt> + Clone,
) -> rusqlite::Result<bool> {
    let count = stmts.len() as u64;
    let text = stmts.clone().find_map(|stmt| stmt.sql.rows).unwrap_or_default();
    let params: SmallVec<[&Value; 80]> = stmts.flat_map(|stmt| &stmt.params).collect();
    writer.run(text, &params).map(|effect| effect.changed == count)
}

/// The batches from this one on that can be run as one statement: each of them is
/// the same one, and the guards that held for the first are those of all.
pub(super) fn alike<'g>(group: &'g [Job], number: usize, verdicts: &Verdicts) -> Option<&'g [Job]> {
    let only = |job: &'g Job| match job.batch.stmts.as_slice() {
        [stmt] => Some(stmt),
        _ => None,
    };
    let first = only(group.get(number)?).filter(|stmt| stmt.sql.rows.is_some() && is_row_like(stmt, stmt))?;
    let alike = group.get(number..number + ROWS)?;
    let is_alike = |job| only(job).is_some_and(|stmt| is_row_like(stmt, first));
    let are_held = || (number..number + ROWS).all(|number| verdicts.is_held(group, number));
    (alike[1..].iter().all(is_alike) && are_held()).then_some(alike)
}

/// Runs the one statement of several batches for all of them. False: it failed, and
/// nobody knows for whom. `Err` means that the transaction is lost.
fn run_as_one(writer: &mut WriteConnection<'_>, alike: &[Job]) -> rusqlite::Result<bool> {
    match run_rows(writer, alike.iter().map(|job| &job.batch.stmts[0])) {
        Ok(is_whole) => Ok(is_whole),
        Err(error) if writer.connection.is_autocommit() => Err(error),
        Err(_) => Ok(false),
    }
}

/// As [`run_batch`], so that a batch that fails undoes itself.
pub(super) fn run_undoable(writer: &mut WriteConnection<'_>, batch: &Batch) -> rusqlite::Result<Ran> {
    writer.execute("SAVEPOINT batch")?;
    let ran = match run_batch(writer, batch)? {
        Ran::Partly(error) => {
            writer.execute("ROLLBACK TO batch")?;
            Ran::Nothing(error)
        }
        settled => settled,
    };
    writer.execute("RELEASE batch")?;
    Ok(ran)
}
