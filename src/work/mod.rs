//! Work that waits in the store: a row with a time at which it is due. Any number
//! of processes share it. Whoever takes up a row claims it first: the time at
//! which it is due moves on by a lease, and its `attempt` counts up. What became
//! of it is written only where the attempt is still the same, so a worker that
//! was away for longer than its lease writes nothing.
//!
//! A kind of work is a [`Claimable`] row and a [`Worker`] that knows what to do
//! with it; [`run`] is the loop around the worker. Nothing is claimed while the
//! store is on hold.

mod claim;
mod lease;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::clock::Clock;
use crate::db::DbError;

pub(crate) use claim::claim_rows;
pub use claim::{Claimable, InOrder, claim_by, claim_due, claim_due_with, next_due, unless_lost};
pub use lease::until_lost;

/// The net below the waking: what other processes left is noticed within this time.
const POLL: Duration = Duration::from_secs(1);

/// What is due and cannot be claimed is another's at this moment.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// How long to wait after a round that failed: twice as long each time.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(4);

/// When to take the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// There is more to do.
    AtOnce,
    /// When the next row is due, in steady time.
    Due(Option<i64>),
}

/// Does one kind of work.
pub trait Worker: Send + Sync {
    /// What log and metrics call it.
    const NAME: &'static str;

    /// Claims what is due and there is room for, and does it, or lets a task do
    /// it: the end of a task is a reason for another round.
    fn round(&mut self, tasks: &mut Tasks) -> impl Future<Output = Result<Next, DbError>> + Send;

    /// Resolves when somebody says that something is due.
    fn woken(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// What a worker has begun and does not wait for.
#[derive(Default)]
pub struct Tasks(JoinSet<()>);

impl Tasks {
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }

    /// How many have not ended, as of the beginning of the round.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Resolves when one ends, or several: they are one reason for a round.
    async fn ended(&mut self) {
        match self.0.join_next().await {
            Some(ended) => note(ended),
            None => std::future::pending().await,
        }
    }

    fn forget_ended(&mut self) {
        while let Some(ended) = self.0.try_join_next() {
            note(ended);
        }
    }

    async fn finish(mut self) {
        while let Some(ended) = self.0.join_next().await {
            note(ended);
        }
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task of a worker panicked; what it had claimed is tried again after the lease");
    }
}

/// Works until it is time to stop; what was begun is finished first.
pub async fn run<W: Worker>(mut worker: W, clock: Clock, mut stopping: watch::Receiver<bool>) {
    let (mut tasks, mut failures) = (Tasks::default(), 0);
    while !*stopping.borrow() {
        tasks.forget_ended();
        let round = worker.round(&mut tasks).await;
        failures = if matches!(round, Ok(_) | Err(DbError::Stale)) { 0 } else { failures + 1 };
        // Who cannot work now need not hear that there is work.
        let is_able = round.is_ok();
        let wait = match round {
            Ok(Next::AtOnce) => continue,
            Ok(Next::Due(due)) => due.map_or(POLL, |due| until(due, clock.steady())),
            // On hold.
            Err(DbError::Stale) => POLL,
            Err(error) => {
                tracing::warn!(worker = W::NAME, %error, "work that is due could not be taken up");
                metrics::counter!("posthorn_work_failures_total", "worker" => W::NAME).increment(1);
                back_off(failures)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = worker.woken(), if is_able => {}
            () = tasks.ended(), if is_able => {}
            _ = stopping.changed() => {}
        }
    }
    tasks.finish().await;
}

fn until(due: i64, now: i64) -> Duration {
    Duration::from_micros(u64::try_from(due - now).unwrap_or(0)).clamp(SHORTEST_WAIT, POLL)
}

fn back_off(failures: u32) -> Duration {
    (FIRST_BACK_OFF * 2_u32.pow(failures.saturating_sub(1).min(8))).min(LONGEST_BACK_OFF)
}
