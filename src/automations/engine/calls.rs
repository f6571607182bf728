//! Runs that are about to call the outside. They wait in the store, a line for each
//! destination, and are claimed only where there is room to call: whoever waits
//! costs nothing, however many they are and however long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::destinations::{self, Change, Destinations};
use super::pauses::{self, PAGE, Waiting};
use super::store::{self, Claimed};
use super::{Engine, LEASE};
use crate::automations::run::Run;
use crate::clock::{HOUR, SECOND};
use crate::db::{Batch, DbError};
use crate::work::{self, Next, Tasks, Worker, unless_lost};

/// How long a run waits for a destination that does not answer.
const PATIENCE: i64 = 24 * HOUR;

/// How many of those that waited too long are given up in one round.
const GIVEN_UP: i64 = 128;

/// For how many destinations runs are claimed at the same time.
const SIDE_BY_SIDE: usize = 8;

/// What a process knows of the calls it makes.
#[derive(Default)]
pub(super) struct Calls {
    destinations: Mutex<Destinations>,
    /// A run came before a call.
    moved: Notify,
    /// Up to where the destinations had their turn.
    cursor: Mutex<String>,
}

impl Calls {
    pub fn note(&self) {
        self.moved.notify_one();
    }

    fn destinations(&self) -> MutexGuard<'_, Destinations> {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cursor(&self) -> MutexGuard<'_, String> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Room for one call, given back however the call ends.
struct Slot {
    calls: Arc<Calls>,
    destination: String,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.calls.destinations().release(&self.destination, 1);
    }
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
        self.0.calls.moved.notified().await;
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
        let now = self.app.clock.steady();
        let after = self.calls.cursor().clone();
        let waiting = pauses::waiting(&self.app.db, &after).await?;
        // The next look goes on behind these, and begins anew after the last.
        let last = waiting.get(PAGE - 1).map(|last| last.destination.clone());
        if last.is_some() {
            self.calls.note();
        }
        *self.calls.cursor() = last.unwrap_or_default();
        let due: Vec<Waiting> = waiting.into_iter().filter(|waiting| waiting.due_at <= now).collect();
        let mut callers = Vec::new();
        for some in due.chunks(SIDE_BY_SIDE) {
            for claimed in join_all(some.iter().map(|waiting| self.claim_for(waiting, now))).await {
                match claimed {
                    Ok(claimed) => callers.extend(claimed),
                    // Those that were claimed are not let down because of it.
                    Err(error) => tracing::warn!(%error, "runs that are to call a host could not be claimed"),
                }
            }
        }
        Ok(callers)
    }

    /// Claims as many runs for a destination as may call it now.
    async fn claim_for(&self, waiting: &Waiting, now: i64) -> Result<Vec<Caller>, DbError> {
        let Waiting { destination, pause, .. } = waiting;
        // Whether it has been tried meanwhile: a store that was on hold has tried nothing.
        let was_tried = pause.as_ref().is_some_and(|pause| pause.until > now - HOUR);
        let hopeless = waiting.reason.as_ref().filter(|_| was_tried && waiting.due_at < now - PATIENCE);
        if let Some(reason) = hopeless {
            let stmt = store::claim_calls(destination, now - PATIENCE, now + LEASE, GIVEN_UP);
            let reason = format!("its host has not answered for a day: {reason}");
            let caller = |claimed| Caller { claimed, purpose: Purpose::GiveUp(reason.clone()) };
            return Ok(self.claim_by(stmt).await?.into_iter().map(caller).collect());
        }
        let room = self.calls.destinations().reserve(destination, *pause, now);
        if room == 0 {
            return Ok(Vec::new());
        }
        let claim = store::claim_calls(destination, now, now + LEASE, room as i64);
        let claimed = match pause {
            None => self.claim_by(claim).await,
            // Whoever gets to move the pause makes the call that decides.
            Some(pause) => {
                self.claim_by(Batch::new().and(pauses::probe(destination, *pause, now + LEASE)).and(claim)).await
            }
        };
        let taken = claimed.as_ref().map_or(0, Vec::len);
        self.calls.destinations().release(destination, room - taken);
        let slot = || Slot { calls: self.calls.clone(), destination: destination.clone() };
        let caller = |claimed| Caller { claimed, purpose: Purpose::Call { _slot: slot() } };
        Ok(claimed?.into_iter().map(caller).collect())
    }

    async fn claim_by(&self, batch: impl Into<Batch>) -> Result<Vec<Claimed>, DbError> {
        match work::claim_by(&self.app.db, batch).await {
            // Somebody else was first, or the store is on hold.
            Err(DbError::Unexpected { .. } | DbError::Stale) => Ok(Vec::new()),
            claimed => claimed,
        }
    }

    /// Remembers whether a destination answered, and tells everybody where that
    /// changes who may call it.
    pub(super) async fn note_answer(&self, destination: &str, unanswered: Option<&str>) -> Result<(), DbError> {
        let now = self.app.clock.steady();
        let change = match unanswered {
            None => self.calls.destinations().answered(destination),
            Some(_) => self.calls.destinations().failed(destination, now),
        };
        let stmt = match change {
            Change::Nothing => return Ok(()),
            Change::End => pauses::end(destination),
            Change::Pause(pause) => {
                let host = destinations::host(destination);
                let seconds = (pause.until - now) / SECOND;
                tracing::warn!(
                    host,
                    failures = pause.failures,
                    seconds,
                    "a host does not answer and is not called for a while"
                );
                metrics::counter!("posthorn_call_pauses_total").increment(1);
                pauses::pause(destination, pause, unanswered.unwrap_or_default())
            }
        };
        self.app.db.commit(stmt).await.map(drop)
    }

    async fn give_up(&self, claimed: &Claimed, reason: &str) -> Result<(), DbError> {
        let Some(plan) = self.plan(claimed).await? else { return self.abandon(claimed).await };
        let run = Run::stored(&claimed.state, claimed.id, &plan.graph, claimed.created_at);
        let Some(mut run) = run else { return self.abandon(claimed).await };
        let (now, steady) = (self.app.clock.now(), self.app.clock.steady());
        run.give_up(now, reason);
        unless_lost(self.app.db.commit(store::settle(claimed, &run, store::Ahead::default(), now, steady)).await)
    }
}
