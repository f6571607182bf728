//! A committer: one connection that commits groups of batches.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;

use super::guard::{Guards, Passes};
use super::link::Purpose;
use super::refusal;
use super::session::{Session, ends_session};
use super::shared::Shared;
use crate::db::guard::Learnt;
use crate::db::{DbError, Effect, Job, Sql, Stmt, Value, migrate, too_late};

/// How many batches one transaction may hold.
const GROUP: usize = 256;

/// How often a batch that lost a race for a row (serialization failure,
/// deadlock) is tried again, and a group that lost its connection.
const RETRIES: u32 = 12;

/// After a shared guard was found to have moved, so many groups ask the particular
/// ones as well: in a storm each group would else be run twice.
const STIRRED: u32 = 16;

/// One committer. Several share the queue; each keeps a connection, which is
/// opened for its first group.
pub(super) struct Writer {
    shared: Arc<Shared>,
    session: Option<Session>,
    /// Whether it had a connection, or could not get one: until it has one it takes
    /// no work.
    is_lost: bool,
}

/// Why a group was not committed.
enum Undone {
    /// Some batch failed, or found a guard stale; the others are blameless.
    Split(Vec<Verdict>),
    /// Nothing was committed, and trying again may help.
    Again(DbError),
    /// Nothing was committed, because the connection ended before.
    Lost(DbError),
    /// Nothing was run, because no connection can be opened.
    Unreachable(DbError),
    /// The link broke during the commit: it may have happened or not.
    Unknown(DbError),
    /// A newer version has migrated the store: this process must not write.
    Outdated,
}

impl Undone {
    fn before_commit(error: tokio_postgres::Error) -> Undone {
        let is_lost = ends_session(&error);
        let error = refusal(error);
        if is_lost { Undone::Lost(error) } else { Undone::Again(error) }
    }
}

/// What a group that was rolled back taught about one of its batches.
#[derive(Clone)]
enum Verdict {
    Blameless,
    /// A shared guard has moved, and its particular one was not asked.
    Unasked,
    Stale,
    Late,
    Failed(DbError),
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Writer {
        Writer { shared, session: None, is_lost: false }
    }

    pub(super) async fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        loop {
            if self.is_lost && !self.reconnect().await {
                return;
            }
            let taken = tokio::select! {
                biased;
                () = ended(self.session.as_ref()) => None,
                taken = self.shared.take(&mut group, GROUP) => Some(taken),
            };
            match taken {
                Some(0) => return,
                Some(_) => {
                    // Two groups that lock the same rows in another order would wait for
                    // each other.
                    group.sort_by(|one, other| one.batch.locks.cmp(&other.batch.locks));
                    self.commit(std::mem::take(&mut group)).await;
                }
                None => self.keep(None),
            }
        }
    }

    fn keep(&mut self, session: Option<Session>) {
        self.is_lost = session.is_none();
        self.session = session;
    }

    /// Opens a connection, however long it takes; false: nobody needs it any more.
    async fn reconnect(&mut self) -> bool {
        let shared = self.shared.clone();
        let refused = |error| {
            if !shared.link.has_live(Purpose::Write) {
                shared.refuse_waiting(&error);
            }
            shared.queue.strong_count() > 0
        };
        let session = shared.link.reopen(Purpose::Write, refused).await;
        self.keep(session);
        !self.is_lost
    }

    /// Commits a group; where that fails because of some of its batches, commits
    /// those alone and the rest together.
    async fn commit(&mut self, group: Vec<Job>) {
        let (own, group): (Vec<_>, Vec<_>) = group.into_iter().partition(ends_own_guard);
        let mut waiting: Vec<Vec<Job>> = own.into_iter().map(|job| vec![job]).chain([group]).collect();
        while let Some(mut group) = waiting.pop() {
            Job::drop_abandoned(&mut group);
            let alone = group.len() == 1;
            match self.commit_together(&group).await {
                Ok(results) => group.into_iter().zip(results).for_each(|(job, effects)| job.answer(Ok(effects))),
                // Alone, each holds one lock at a time, and nobody waits in a circle.
                Err(Undone::Again(_)) if !alone => waiting.extend(group.into_iter().map(|job| vec![job])),
                Err(Undone::Again(error) | Undone::Lost(error) | Undone::Unknown(error)) => {
                    group.into_iter().for_each(|job| job.answer(Err(error.clone())));
                }
                Err(Undone::Unreachable(error)) => {
                    let rest = waiting.drain(..).flatten();
                    self.shared.hand_back(group.into_iter().chain(rest), &error);
                }
                Err(Undone::Outdated) => {
                    tracing::error!("{}", migrate::REFUSAL);
                    self.shared.failure.notify_one();
                    let error = DbError::Unavailable(migrate::REFUSAL.into());
                    group.into_iter().for_each(|job| job.answer(Err(error.clone())));
                }
                Err(Undone::Split(verdicts)) => {
                    let mut rest = Vec::new();
                    for (job, verdict) in group.into_iter().zip(verdicts) {
                        match verdict {
                            Verdict::Stale if alone => job.answer(Err(DbError::Stale)),
                            Verdict::Stale => waiting.push(vec![job]),
                            Verdict::Late => job.answer(Err(too_late())),
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
        let Some(deadline) = group.iter().map(|job| job.deadline).max() else { return Ok(Vec::new()) };
        let most = if group.len() == 1 { RETRIES } else { 1 };
        let (mut races, mut losses) = (0, 0);
        loop {
            let session = self.session().await.map_err(Undone::Unreachable)?;
            all_in_time(group)?;
            let outcome = timeout_at(deadline, session.commit_group(group)).await.unwrap_or_else(|_| {
                session.end();
                Err(Undone::Unknown(too_late()))
            });
            match outcome {
                Err(Undone::Again(_)) if races < most => races += 1,
                Err(Undone::Lost(_)) if losses < RETRIES => losses += 1,
                other => return other,
            }
            tokio::time::sleep(Duration::from_millis(u64::from(races * races + losses))).await;
        }
    }

    async fn session(&mut self) -> Result<&Session, DbError> {
        if self.session.as_ref().is_none_or(|session| !session.is_fit()) {
            self.keep(None);
            let session = self.shared.link.open(Purpose::Write).await?;
            self.keep(Some(session));
        }
        self.session.as_ref().ok_or_else(|| DbError::Unavailable("no connection".into()))
    }
}

/// Whether a batch may take away what its own guards look for, as one does that ends
/// the grant it was asked for under. It is committed alone, and its guards are asked
/// first; those of others are asked when the group holds its locks.
fn ends_own_guard(job: &Job) -> bool {
    job.batch.is_raising() && !job.batch.guards.is_empty()
}

async fn ended(session: Option<&Session>) {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}

/// Nobody may be told that his write was refused and find it done afterwards: who
/// is late is left out before anything is committed.
fn all_in_time(group: &[Job]) -> Result<(), Undone> {
    let now = Instant::now();
    if !group.iter().any(|job| job.is_late(now)) {
        return Ok(());
    }
    let verdict = |job: &Job| if job.is_late(now) { Verdict::Late } else { Verdict::Blameless };
    Err(Undone::Split(group.iter().map(verdict).collect()))
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
        let begin: Sent<'_> = Box::pin(async { self.execute("BEGIN").await.map(|()| Effect::default()) });
        let for_many = joined.stmts.iter().zip(together).map(|((_, jobs), statement)| -> Sent<'_> {
            Box::pin(async move { self.run(&statement, columns(group, jobs)).await })
        });
        let alone = alone().zip(prepared).map(|(stmt, text)| self.sent(stmt, text));
        let asked = guards.stmts.iter().copied().zip(asked).map(|(stmt, text)| self.sent(stmt, text));
        let first = [begin, self.sent(&newer, newer_text)];
        let (before, count) = (first.len(), guards.stmts.len());
        let asks_first = group.iter().any(ends_own_guard);
        let all: Vec<_> = match asks_first {
            true => first.into_iter().chain(asked).chain(for_many).chain(alone).collect(),
            false => first.into_iter().chain(for_many).chain(alone).chain(asked).collect(),
        };
        let mut results = pipelined(all).await;

        let found = match asks_first {
            true => results.drain(before..before + count).collect(),
            false => results.split_off(results.len() - count),
        };
        let mut results = results.into_iter();
        if let Some(Err(error)) = results.next() {
            if ends_session(&error) {
                return Err(Undone::Lost(refusal(error)));
            }
            // No transaction was begun: what was sent behind may have been committed by itself.
            self.end();
            return Err(Undone::Unknown(refusal(error)));
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
                let effects = judge(group, joined, &passes, results)?;
                all_in_time(group).map(|()| Some(effects))
            }),
            Ok(false) => Ok(None),
            Err(undone) => Err(undone),
        };
        if let Ok(Some(effects)) = judged {
            return match self.execute("COMMIT").await {
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
        let _ = self.execute("ROLLBACK").await;
        judged
    }
}

impl Session {
    /// What to do about a store that may have become another's.
    async fn not_ours(&self, found: Option<Result<Effect, tokio_postgres::Error>>) -> Undone {
        let _ = self.execute("ROLLBACK").await;
        match found {
            Some(Err(error)) => Undone::before_commit(error),
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
            Err(error) if is_race(&error) || ends_session(&error) => return Err(Undone::before_commit(error)),
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
            Err(error) => return Err(Undone::before_commit(error)),
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
                Err(error) if is_race(&error) || ends_session(&error) => return Err(Undone::before_commit(error)),
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
