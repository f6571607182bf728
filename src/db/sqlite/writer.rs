//! The writer: one thread that commits groups of batches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, Statement};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use super::checkpoint::Carrier;
use super::flush::{self, Flusher};
use super::{Order, flush_failed, leave_log, order, refusal, run};
use crate::db::{Batch, Committed, DbError, Effect, Job, Stmt, Value};

/// How many batches one transaction may hold: enough to share a flush among
/// all that wait, few enough that nobody waits long for his answer.
const GROUP: usize = 512;

/// The writer's life: take all that waits, commit it, have it flushed, repeat.
/// Ends when the last handle to the store is dropped.
pub(super) fn write(mut desk: Desk<'_>, mut jobs: mpsc::Receiver<Job>, carrier: &Carrier, failure: &Notify) {
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
pub(super) struct Desk<'c> {
    connection: &'c Connection,
    prepared: HashMap<(*const u8, usize), (Statement<'c>, Order)>,
    flusher: Flusher,
    runtime: Handle,
}

impl<'c> Desk<'c> {
    pub(super) fn new(connection: &'c Connection, flusher: Flusher, runtime: Handle) -> Desk<'c> {
        Desk { connection, prepared: HashMap::new(), flusher, runtime }
    }

    fn run(&mut self, sql: &'static str, params: &[Value]) -> rusqlite::Result<Effect> {
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
