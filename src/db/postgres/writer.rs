//! A committer: one connection that commits groups of batches.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::group::{Undone, Verdict, all_in_time, ends_own_guard};
use super::link::Purpose;
use super::session::Session;
use super::shared::Shared;
use crate::db::{DbError, Effect, Job, migrate, too_late};

/// How many batches one transaction may hold.
const GROUP: usize = 256;

/// How often a batch that lost a race for a row (serialization failure,
/// deadlock) is tried again, and a group that lost its connection.
const RETRIES: u32 = 12;

/// One committer. Several share the queue; each keeps a connection, which is
/// opened for its first group.
pub(super) struct Writer {
    shared: Arc<Shared>,
    session: Option<Session>,
    /// Whether it had a connection, or could not get one: until it has one it takes
    /// no work.
    is_lost: bool,
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
            let has_ended = tokio::select! {
                biased;
                () = ended(self.session.as_ref()) => true,
                () = self.shared.take(&mut group, GROUP) => false,
            };
            if has_ended {
                self.keep(None);
            }
            if group.is_empty() {
                if !has_ended {
                    return;
                }
            } else {
                // What had been taken when the connection ended is committed on another: the queue
                // may be full by now. Two groups that lock the same rows in another order would
                // wait for each other.
                group.sort_by(|one, other| one.batch.locks.cmp(&other.batch.locks));
                let shared = self.shared.clone();
                let _under_way = shared.commit();
                self.commit(std::mem::take(&mut group)).await;
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
                shared.link.ask_to_yield();
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

async fn ended(session: Option<&Session>) {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}
