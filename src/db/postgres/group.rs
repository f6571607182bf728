//! A group of batches in one transaction: sent in one go, judged, and committed
//! or undone.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::time::Instant;
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;

use super::guard::{Guards, Passes};
use super::refusal;
use super::session::{Session, ends_session};
use crate::db::{DbError, Effect, Job, Sql, Stmt, Value, guard::Learnt, migrate};

/// After a shared guard was found to have moved, so many groups ask the particular
/// ones as well: in a storm each group would else be run twice.
const CAREFUL_GROUPS: u32 = 16;

/// Why a group was not committed.
pub(super) enum Undone {
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
pub(super) enum Verdict {
    Blameless,
    /// A shared guard has moved, and its particular one was not asked.
    Unasked,
    Stale,
    Late,
    Failed(DbError),
}

/// Whether a batch may take away what its own guards look for, as one does that ends
/// the grant it was asked for under. It is committed alone, and its guards are asked
/// first; those of others are asked when the group holds its locks.
pub(super) fn ends_own_guard(job: &Job) -> bool {
    job.batch.is_raising() && !job.batch.guards.is_empty()
}

/// No caller may be told that a write was refused and find it done afterwards: who
/// is late is left out before anything is committed.
pub(super) fn all_in_time(group: &[Job]) -> Result<(), Undone> {
    let now = Instant::now();
    if !group.iter().any(|job| job.is_late(now)) {
        return Ok(());
    }
    let verdict = |job: &Job| if job.is_late(now) { Verdict::Late } else { Verdict::Blameless };
    Err(Undone::Split(group.iter().map(verdict).collect()))
}

/// How many bytes of parameters are under way at once: what is sent is a copy, and
/// whoever makes it keeps others waiting.
const UNDER_WAY: usize = 1 << 20;

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
    pub(super) async fn commit_group(&self, group: &[Job]) -> Result<Vec<Vec<Effect>>, Undone> {
        let careful_groups = self.careful_groups.load(Ordering::Relaxed);
        self.careful_groups.store(careful_groups.saturating_sub(1), Ordering::Relaxed);
        let guards = Guards::of(group, careful_groups > 0);
        let joined = if self.joins.load(Ordering::Relaxed) { Joined::of(group) } else { Joined::default() };
        if let Some(effects) = self.try_group(group, &guards, &joined).await? {
            return Ok(effects);
        }
        let apart = self.try_group(group, &guards, &Joined::default()).await?;
        apart.ok_or_else(|| Undone::Again(DbError::Unavailable("nothing was run".into())))
    }

    fn sent<'a>(&'a self, stmt: &'a Stmt, statement: Result<Statement, tokio_postgres::Error>) -> Sent<'a> {
        Box::pin(async move { self.run_within(stmt.limit.as_deref(), &statement?, &stmt.params).await })
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
        let for_many = joined.stmts.iter().zip(together).map(|((_, jobs), statement)| -> (usize, Sent<'_>) {
            let size = jobs.iter().map(|job| group[*job].batch.stmts[0].size()).sum();
            (size, Box::pin(async move { self.run(&statement, columns(group, jobs)).await }))
        });
        let alone = alone().zip(prepared).map(|(stmt, text)| (stmt.size(), self.sent(stmt, text)));
        let asked = guards.stmts.iter().copied().zip(asked).map(|(stmt, text)| (stmt.size(), self.sent(stmt, text)));
        let first = [(0, begin), (0, self.sent(&newer, newer_text))];
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
                    self.careful_groups.store(CAREFUL_GROUPS, Ordering::Relaxed);
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

/// Sends statements, each with its size, before it waits for the first answer, as
/// long as not too much is under way. Polling once, in order, is what sends; the
/// answers then come back in the same order.
async fn pipelined(mut futures: Vec<(usize, Sent<'_>)>) -> Vec<Result<Effect, tokio_postgres::Error>> {
    let mut early = VecDeque::new();
    let (mut next, mut under_way) = (0, 0);
    let mut results = Vec::with_capacity(futures.len());
    for at in 0..futures.len() {
        std::future::poll_fn(|cx| {
            while let Some((size, future)) = futures.get_mut(next)
                && (next == at || under_way < UNDER_WAY)
            {
                early.push_back(match future.as_mut().poll(cx) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                });
                under_way += *size;
                next += 1;
            }
            Poll::Ready(())
        })
        .await;
        let (size, future) = &mut futures[at];
        results.push(match early.pop_front().flatten() {
            Some(result) => result,
            None => future.await,
        });
        under_way -= *size;
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
