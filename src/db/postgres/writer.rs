//! A committer: one connection that commits groups of batches.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Statement};

use super::guard::{Guards, Passes};
use super::{Session, refusal};
use crate::db::guard::Learnt;
use crate::db::{DbError, Effect, Job, Sql, Stmt, Value, migrate};

/// Who waits so long for a lock may be waiting in a circle: it is cheaper to try
/// again than to wait until the server has found out.
const LOCK_WAIT: &str = "SET lock_timeout = 250";

/// Whoever stops in the middle of a transaction (a process that is paused, a
/// machine that is gone) gives up what it has locked, so that others go on.
const IDLE_WAIT: &str = "SET idle_in_transaction_session_timeout = 5000";

/// How many batches one transaction may hold.
const GROUP: usize = 256;

/// How often a batch that lost a race for a row (serialization failure,
/// deadlock) or its connection before the commit is tried again.
const RETRIES: u32 = 12;

/// After a shared guard was found to have moved, so many groups ask the particular
/// ones as well: in a storm each group would else be run twice.
const STIRRED: u32 = 16;

/// One committer. Several share the queue; each keeps a connection.
pub(super) struct Writer {
    config: Config,
    session: Option<Session>,
    failure: Arc<Notify>,
}

/// Why a group was not committed.
enum Undone {
    /// Some batch failed, or found a guard stale; the others are blameless.
    Split(Vec<Verdict>),
    /// Nothing was committed, and trying again may help.
    Again(DbError),
    /// The link broke during the commit: it may have happened or not.
    Unknown(DbError),
    /// A newer version has migrated the store: this process must not write.
    Outdated,
}

/// What a group that was rolled back taught about one of its batches.
#[derive(Clone)]
enum Verdict {
    Blameless,
    /// A shared guard has moved, and its particular one was not asked.
    Unasked,
    Stale,
    Failed(DbError),
}

impl Writer {
    pub(super) fn new(config: Config, failure: Arc<Notify>) -> Writer {
        Writer { config, session: None, failure }
    }

    pub(super) async fn run(mut self, jobs: Arc<Mutex<mpsc::Receiver<Job>>>) {
        let mut group = Vec::with_capacity(GROUP);
        loop {
            if jobs.lock().await.recv_many(&mut group, GROUP).await == 0 {
                return;
            }
            // Two groups that lock the same rows in another order would wait for
            // each other.
            group.sort_by(|one, other| one.batch.locks.cmp(&other.batch.locks));
            self.commit(std::mem::take(&mut group)).await;
        }
    }

    /// Commits a group; where that fails because of some of its batches, commits
    /// those alone and the rest together.
    async fn commit(&mut self, group: Vec<Job>) {
        let mut waiting = vec![group];
        while let Some(group) = waiting.pop() {
            let alone = group.len() == 1;
            match self.commit_together(&group).await {
                Ok(results) => group.into_iter().zip(results).for_each(|(job, effects)| job.answer(Ok(effects))),
                // Alone, each holds one lock at a time, and nobody waits in a circle.
                Err(Undone::Again(_)) if !alone => waiting.extend(group.into_iter().map(|job| vec![job])),
                Err(Undone::Again(error) | Undone::Unknown(error)) => {
                    group.into_iter().for_each(|job| job.answer(Err(error.clone())));
                }
                Err(Undone::Outdated) => {
                    tracing::error!("{}", migrate::REFUSAL);
                    self.failure.notify_one();
                    let error = DbError::Unavailable(migrate::REFUSAL.into());
                    group.into_iter().for_each(|job| job.answer(Err(error.clone())));
                }
                Err(Undone::Split(verdicts)) => {
                    let mut rest = Vec::new();
                    for (job, verdict) in group.into_iter().zip(verdicts) {
                        match verdict {
                            Verdict::Stale => job.answer(Err(DbError::Stale)),
                            // Alone, the verdict is final. In company a neighbour may
                            // have caused it, one that is now undone.
                            Verdict::Failed(error) if alone => job.answer(Err(error)),
                            Verdict::Failed(_) => waiting.push(vec![job]),
                            Verdict::Blameless | Verdict::Unasked => rest.push(job),
                        }
                    }
                    if !rest.is_empty() {
                        waiting.push(rest);
                    }
                }
            }
        }
    }

    async fn commit_together(&mut self, group: &[Job]) -> Result<Vec<Vec<Effect>>, Undone> {
        let most = if group.len() == 1 { RETRIES } else { 1 };
        let mut attempt = 0;
        loop {
            let outcome = match self.session().await {
                Ok(session) => session.commit_group(group).await,
                Err(error) => return Err(Undone::Unknown(error)),
            };
            match outcome {
                Err(Undone::Again(_)) if attempt < most => attempt += 1,
                other => return other,
            }
            tokio::time::sleep(Duration::from_millis(u64::from(attempt * attempt))).await;
        }
    }

    async fn session(&mut self) -> Result<&Session, DbError> {
        if self.session.as_ref().is_none_or(|session| session.client.is_closed()) {
            self.session = None;
            let session = Session::open(&self.config).await.map_err(refusal)?;
            for setting in [LOCK_WAIT, IDLE_WAIT] {
                session.client.batch_execute(setting).await.map_err(refusal)?;
            }
            self.session = Some(session);
        }
        self.session.as_ref().ok_or_else(|| DbError::Unavailable("no connection".into()))
    }
}

type Sent<'a> = Pin<Box<dyn Future<Output = Result<Effect, tokio_postgres::Error>> + Send + 'a>>;

/// Batches of a group that are run together, because each of them is the same one
/// statement, which can be run for many.
#[derive(Default)]
struct Joined {
    stmts: Vec<(Sql, Vec<usize>)>,
}

impl Joined {
    fn of(group: &[Job]) -> Joined {
        let mut stmts: Vec<(Sql, Vec<usize>)> = Vec::new();
        for (number, job) in group.iter().enumerate() {
            let [stmt] = job.batch.stmts.as_slice() else { continue };
            if stmt.sql.many.is_none() || stmt.expect.is_some_and(|rows| rows != 1) {
                continue;
            }
            let alike = |jobs: &[usize]| group[jobs[0]].batch.stmts[0].params.len() == stmt.params.len();
            match stmts.iter_mut().find(|(sql, jobs)| *sql == stmt.sql && alike(jobs)) {
                Some((_, jobs)) => jobs.push(number),
                None => stmts.push((stmt.sql, vec![number])),
            }
        }
        stmts.retain(|(_, jobs)| jobs.len() > 1);
        Joined { stmts }
    }

    fn holds(&self, job: usize) -> bool {
        self.stmts.iter().any(|(_, jobs)| jobs.binary_search(&job).is_ok())
    }
}

impl Session {
    async fn commit_group(&self, group: &[Job]) -> Result<Vec<Vec<Effect>>, Undone> {
        let stirred = self.stirred.load(Ordering::Relaxed);
        self.stirred.store(stirred.saturating_sub(1), Ordering::Relaxed);
        let guards = Guards::of(group, stirred > 0);
        let joined = if self.joins.load(Ordering::Relaxed) { Joined::of(group) } else { Joined::default() };
        if let Some(effects) = self.try_group(group, &guards, &joined).await? {
            return Ok(effects);
        }
        let apart = self.try_group(group, &guards, &Joined::default()).await?;
        apart.ok_or_else(|| Undone::Again(DbError::Unavailable("nothing was run".into())))
    }

    fn sent<'a>(&'a self, stmt: &'a Stmt, statement: Result<Statement, tokio_postgres::Error>) -> Sent<'a> {
        Box::pin(async move { self.run(&statement?, &stmt.params).await })
    }

    /// Runs and commits a group. `None`: nothing came of it because something
    /// failed that was run for many, and nobody knows for whom.
    ///
    /// Guards come last: by then all is locked that the group locks, so what they
    /// do not see yet is a change whose consequences will see this group.
    async fn try_group(
        &self,
        group: &[Job],
        guards: &Guards<'_>,
        joined: &Joined,
    ) -> Result<Option<Vec<Vec<Effect>>>, Undone> {
        let mut together = Vec::with_capacity(joined.stmts.len());
        for (sql, _) in &joined.stmts {
            let Ok(statement) = self.prepare(sql.many.unwrap_or_default()).await else {
                // A server that speaks the protocol need not know `unnest`.
                self.joins.store(false, Ordering::Relaxed);
                return Ok(None);
            };
            together.push(statement);
        }
        let newer = migrate::newer();
        let newer_text = self.prepare(newer.sql.postgres).await;
        let mut asked = Vec::with_capacity(guards.stmts.len());
        for stmt in &guards.stmts {
            asked.push(self.prepare(stmt.sql.postgres).await);
        }
        let alone = || {
            let jobs = group.iter().enumerate().filter(|(number, _)| !joined.holds(*number));
            jobs.flat_map(|(_, job)| &job.batch.stmts)
        };
        let mut prepared = Vec::new();
        for stmt in alone() {
            prepared.push(self.prepare(stmt.sql.postgres).await);
        }

        // A text that cannot be prepared fails its own batch, not the group.
        let begin: Sent<'_> = Box::pin(async { self.client.batch_execute("BEGIN").await.map(|()| Effect::default()) });
        let for_many = joined.stmts.iter().zip(together).map(|((_, jobs), statement)| -> Sent<'_> {
            Box::pin(async move { self.run(&statement, columns(group, jobs)).await })
        });
        let alone = alone().zip(prepared).map(|(stmt, text)| self.sent(stmt, text));
        let asked = guards.stmts.iter().copied().zip(asked).map(|(stmt, text)| self.sent(stmt, text));
        let first = [begin, self.sent(&newer, newer_text)];
        let all = first.into_iter().chain(for_many).chain(alone).chain(asked);
        let mut results = pipelined(all.collect()).await;

        let found = results.split_off(results.len() - guards.stmts.len());
        let mut results = results.into_iter();
        if let Some(Err(error)) = results.next() {
            return Err(Undone::Again(refusal(error)));
        }
        match results.next() {
            Some(Ok(effect)) if effect.rows.is_empty() => {}
            found => return Err(self.not_ours(found).await),
        }
        let mut learnt = Learnt::default();
        let judged = match went_well(joined, &mut results) {
            Ok(true) => passes(group, guards, found, &mut learnt).and_then(|passes| {
                if passes.contains(&Passes::Unasked) {
                    self.stirred.store(STIRRED, Ordering::Relaxed);
                }
                judge(group, joined, &passes, results).map(Some)
            }),
            Ok(false) => Ok(None),
            Err(undone) => Err(undone),
        };
        if let Ok(Some(effects)) = judged {
            return match self.client.batch_execute("COMMIT").await {
                Ok(()) => {
                    learnt.keep();
                    Ok(Some(effects))
                }
                Err(error) if is_race(&error) => Err(Undone::Again(refusal(error))),
                Err(error) => Err(Undone::Unknown(refusal(error))),
            };
        }
        // A connection that cannot even roll back is closed, and its transaction
        // with it.
        let _ = self.client.batch_execute("ROLLBACK").await;
        judged
    }
}

impl Session {
    /// What to do about a store that may have become another's.
    async fn not_ours(&self, found: Option<Result<Effect, tokio_postgres::Error>>) -> Undone {
        let _ = self.client.batch_execute("ROLLBACK").await;
        match found {
            Some(Err(error)) => Undone::Again(refusal(error)),
            _ => Undone::Outdated,
        }
    }
}

/// The parameters of the same statement of several batches: an array for each.
fn columns<'a>(group: &'a [Job], jobs: &[usize]) -> Vec<Vec<&'a Value>> {
    let rows = || jobs.iter().map(|job| &group[*job].batch.stmts[0].params);
    let width = rows().next().map_or(0, Vec::len);
    (0..width).map(|column| rows().map(|row| &row[column]).collect()).collect()
}

/// Whether all that was joined went well.
fn went_well(
    joined: &Joined,
    results: &mut impl Iterator<Item = Result<Effect, tokio_postgres::Error>>,
) -> Result<bool, Undone> {
    for ((_, jobs), result) in joined.stmts.iter().zip(results) {
        match result {
            Ok(effect) if effect.changed == jobs.len() as u64 => {}
            Err(error) if is_race(&error) || error.is_closed() => return Err(Undone::Again(refusal(error))),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Sends every statement before it waits for the first answer. Polling once, in
/// order, is what sends; the answers then come back in the same order.
async fn pipelined(mut futures: Vec<Sent<'_>>) -> Vec<Result<Effect, tokio_postgres::Error>> {
    let mut early = std::future::poll_fn(|cx| {
        let polled = futures.iter_mut().map(|future| match future.as_mut().poll(cx) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        });
        Poll::Ready(polled.collect::<Vec<_>>())
    })
    .await;
    let mut results = Vec::with_capacity(futures.len());
    for (future, early) in futures.into_iter().zip(&mut early) {
        results.push(match early.take() {
            Some(result) => result,
            None => future.await,
        });
    }
    results
}

/// What a statement has done that was run for many.
const ONE: Effect = Effect { changed: 1, rows: Vec::new() };

/// Whether each batch of a group passes its guards. Where a statement has failed
/// nobody knows, and none is blamed for it.
fn passes(
    group: &[Job],
    guards: &Guards<'_>,
    answers: Vec<Result<Effect, tokio_postgres::Error>>,
    learnt: &mut Learnt,
) -> Result<Vec<Passes>, Undone> {
    let mut found = Vec::with_capacity(answers.len());
    for answer in answers {
        match answer {
            Ok(effect) => found.push(effect.rows.first().map(|row| row.int(0).unwrap_or_default())),
            Err(error) if is_echo(&error) => return Ok(vec![Passes::Yes; group.len()]),
            Err(error) => return Err(Undone::Again(refusal(error))),
        }
    }
    Ok(group.iter().enumerate().map(|job| guards.let_pass(job, &found, learnt)).collect())
}

/// Decides whether a group may be committed, and if not, who is to blame.
fn judge(
    group: &[Job],
    joined: &Joined,
    passes: &[Passes],
    mut results: impl Iterator<Item = Result<Effect, tokio_postgres::Error>>,
) -> Result<Vec<Vec<Effect>>, Undone> {
    let mut effects = Vec::with_capacity(group.len());
    let mut verdicts = vec![Verdict::Blameless; group.len()];
    let mut clean = true;
    for (number, (job, verdict)) in group.iter().zip(&mut verdicts).enumerate() {
        match passes[number] {
            Passes::Yes => {}
            Passes::No => *verdict = Verdict::Stale,
            Passes::Unasked => *verdict = Verdict::Unasked,
        }
        let mut own = Vec::with_capacity(job.batch.stmts.len());
        for (statement, stmt) in job.batch.stmts.iter().enumerate() {
            let next = if joined.holds(number) { Some(Ok(ONE)) } else { results.next() };
            let Some(result) = next else { break };
            match result {
                Ok(effect) if stmt.expect.is_none_or(|rows| rows == effect.changed) => own.push(effect),
                Ok(_) if matches!(verdict, Verdict::Blameless) => {
                    *verdict = Verdict::Failed(stmt.missed(statement));
                }
                Ok(_) => {}
                Err(error) if is_race(&error) || error.is_closed() => return Err(Undone::Again(refusal(error))),
                Err(error) if is_echo(&error) => {}
                Err(error) if matches!(verdict, Verdict::Blameless) => *verdict = Verdict::Failed(refusal(error)),
                Err(_) => {}
            }
        }
        clean &= matches!(verdict, Verdict::Blameless);
        effects.push(own);
    }
    if clean { Ok(effects) } else { Err(Undone::Split(verdicts)) }
}

/// The first failure poisons the transaction; those after it are echoes.
fn is_echo(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION)
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code.is_some_and(|code| {
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE]
            .contains(code)
    })
}
