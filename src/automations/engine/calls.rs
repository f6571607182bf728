//! Runs that are about to call the outside, a line for each destination.

use std::sync::Arc;

use futures_util::future::join_all;

use super::Engine;
use super::store::{self, Claimed};
use crate::automations::run::Run;
use crate::calls::{self, InLine, Room, Slot, Waiting, waiting_rows};
use crate::clock::HOUR;
use crate::db::{DbError, Sql, statements};
use crate::work::{Next, Tasks, Worker};

/// How many calls are made at once.
pub(super) const ROOM: Room = Room { all: 128, of_workspace: 64, to_one: 16, to_unproven: 16, unproven: 64 };

/// How long a run waits for a destination that does not answer.
const PATIENCE: i64 = 24 * HOUR;

/// How many of those that waited too long are given up in one round.
const GIVEN_UP: usize = 128;

statements! {
    WAITING = waiting_rows!("runs");
}

impl InLine for Claimed {
    const WAITING: Sql = WAITING;
    const CLAIM: Sql = store::CLAIM_CALLS;

    fn destination(&self) -> &str {
        self.destination.as_deref().unwrap_or_default()
    }
}

/// A run that was claimed for a call.
pub(super) struct Caller {
    claimed: Claimed,
    purpose: Purpose,
}

enum Purpose {
    Call {
        /// Given back with the purpose.
        _slot: Slot,
    },
    /// It has waited too long: why it is given up.
    GiveUp(String),
}

/// Makes the calls that runs stand before.
pub(super) struct Calling(pub Arc<Engine>);

impl Worker for Calling {
    const NAME: &'static str = "calls";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        for caller in self.0.claim_calls().await? {
            let engine = self.0.clone();
            tasks.spawn(async move { engine.make_call(caller).await });
        }
        Ok(Next::Due(None))
    }

    async fn woken(&self) {
        self.0.calls.noted().await;
    }
}

impl Engine {
    /// Makes the calls that there is room for. Tells how many runs that were.
    pub(super) async fn make_calls(&self) -> Result<usize, DbError> {
        let callers = self.claim_calls().await?;
        let count = callers.len();
        join_all(callers.into_iter().map(|caller| self.make_call(caller))).await;
        Ok(count)
    }

    async fn make_call(&self, caller: Caller) {
        match &caller.purpose {
            Purpose::Call { .. } => self.take_turn(&caller.claimed).await,
            Purpose::GiveUp(reason) => {
                if let Err(error) = self.give_up(&caller.claimed, reason).await {
                    tracing::warn!(run = %caller.claimed.id, %error, "a run could not be given up");
                }
            }
        }
    }

    /// Claims for every destination as many runs as there is room for.
    async fn claim_calls(&self) -> Result<Vec<Caller>, DbError> {
        let (db, clock) = (&self.app.db, &self.app.clock);
        let now = clock.steady();
        let due = self.calls.waiting::<Claimed>(db, now).await?;
        let (hopeless, others): (Vec<Waiting>, Vec<Waiting>) = due.into_iter().partition(|one| is_hopeless(one, now));
        let mut callers = Vec::new();
        for Waiting { destination, reason, .. } in &hopeless {
            let claim = calls::claim_calls::<Claimed>(destination, now - PATIENCE, now, GIVEN_UP);
            let reason = format!("its host has not answered for a day: {}", reason.as_deref().unwrap_or_default());
            let caller = |claimed| Caller { claimed, purpose: Purpose::GiveUp(reason.clone()) };
            callers.extend(calls::claim_by(db, claim).await?.into_iter().map(caller));
        }
        let claimed = self.calls.claim((db, clock), &others).await;
        let caller = |(claimed, slot)| Caller { claimed, purpose: Purpose::Call { _slot: slot } };
        callers.extend(claimed.into_iter().map(caller));
        Ok(callers)
    }

    async fn give_up(&self, claimed: &Claimed, reason: &str) -> Result<(), DbError> {
        let Some(plan) = self.plan(claimed).await? else { return self.abandon(claimed).await };
        let run = Run::stored(&claimed.state, claimed.id, &plan.graph, claimed.created_at);
        let Some(mut run) = run else { return self.abandon(claimed).await };
        let (now, steady) = (self.app.clock.now(), self.app.clock.steady());
        run.give_up(now, reason);
        self.settle(claimed, &run, store::Ahead::default(), (now, steady)).await
    }
}

/// Whether those who wait longest have waited too long for one that was tried meanwhile: a store
/// that was on hold has tried nothing.
fn is_hopeless(waiting: &Waiting, now: i64) -> bool {
    let was_tried = waiting.pause.as_ref().is_some_and(|pause| pause.until > now - HOUR);
    was_tried && waiting.reason.is_some() && waiting.due_at < now - PATIENCE
}
