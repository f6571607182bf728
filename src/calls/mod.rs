//! Calls to the outside: to addresses that users chose. Whatever is to call waits in the store,
//! in a line for each destination, and is claimed only where there is room to call: whoever waits
//! costs nothing, however many they are and however long. One that does not answer is paused, for
//! all processes.

mod destinations;
mod pauses;
mod signing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;

use crate::clock::{Clock, HOUR, SECOND};
use crate::db::{Batch, Db, DbError, Sql, Stmt};
use crate::work::{self, Claimable};
use destinations::{Change, Destinations};

pub use destinations::{Room, destination};
pub(crate) use pauses::waiting_rows;
pub use pauses::{PAGE, Waiting};
pub use signing::{SigningKey, new_secret};

pub const STATEMENTS: &[&[Sql]] = &[pauses::ALL];

/// For how many destinations rows are claimed in one commit, and in how many commits at the same
/// time.
const TOGETHER: usize = 16;
const SIDE_BY_SIDE: usize = 8;

/// For how long a pause of which nothing was heard is kept.
const PAUSES_KEPT: i64 = 48 * HOUR;

/// What is said of a host that cannot be called. Whether its name is unknown or leads
/// into our own network is for the log alone: the difference would map the network.
pub const UNREACHABLE: &str =
    "the host is not known, or not on the public internet, which only --private-webhooks would allow";

/// Rows that wait in lines.
pub trait InLine: Claimable {
    /// Finds who waits: made by [`waiting_rows`].
    const WAITING: Sql;
    /// Claims rows of a destination: made by [`work::claim_rows`], with the destination as `$4`.
    const CLAIM: Sql;

    /// The line that it stands in.
    fn destination(&self) -> &str;
}

/// What a process knows of the calls it makes.
pub struct Calls {
    destinations: Mutex<Destinations>,
    /// Something came before a call.
    moved: Notify,
    /// Up to where the destinations had their turn.
    cursor: Mutex<String>,
}

/// Room for one call, given back however the call ends.
pub struct Slot {
    calls: Arc<Calls>,
    destination: String,
}

/// Rows of one destination that were claimed together, and room for as many calls as may be made at once.
pub struct Dispatch<C> {
    pub destination: String,
    pub rows: Vec<C>,
    pub slots: Vec<Slot>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.calls.destinations().release(&self.destination, 1);
    }
}

impl Calls {
    pub fn new(room: Room) -> Calls {
        Calls { destinations: Mutex::new(Destinations::new(room)), moved: Notify::new(), cursor: Mutex::default() }
    }

    /// Says that something came before a call.
    pub fn note(&self) {
        self.moved.notify_one();
    }

    /// Resolves when something came before a call.
    pub async fn noted(&self) {
        self.moved.notified().await;
    }

    fn destinations(&self) -> MutexGuard<'_, Destinations> {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cursor(&self) -> MutexGuard<'_, String> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next destinations for which something is due.
    pub async fn waiting<C: InLine>(&self, db: &Db, now: i64) -> Result<Vec<Waiting>, DbError> {
        let after = self.cursor().clone();
        let waiting: Vec<Waiting> = db.query(C::WAITING.with([after.as_str().into(), (PAGE as i64).into()])).await?;
        // The next look goes on behind these, and begins anew after the last.
        let last = waiting.get(PAGE - 1).map(|last| last.destination.clone());
        if last.is_some() {
            self.note();
        }
        *self.cursor() = last.unwrap_or_default();
        Ok(waiting.into_iter().filter(|waiting| waiting.due_at <= now).collect())
    }

    /// Claims as many rows for each of these destinations as may call it now.
    pub async fn claim<C: InLine>(self: &Arc<Calls>, at: (&Db, &Clock), waiting: &[Waiting]) -> Vec<(C, Slot)> {
        let dispatches = self.claim_ahead(at, waiting, 1).await;
        dispatches.into_iter().flat_map(|dispatch| dispatch.rows.into_iter().zip(dispatch.slots)).collect()
    }

    /// The same, and for a destination that may have several calls at once up to so many for each of these: who makes
    /// one call after the other need not claim before each.
    pub async fn claim_ahead<C: InLine>(
        self: &Arc<Calls>,
        (db, clock): (&Db, &Clock),
        waiting: &[Waiting],
        ahead: usize,
    ) -> Vec<Dispatch<C>> {
        let now = clock.steady();
        let (paused, open): (Vec<&Waiting>, Vec<&Waiting>) = waiting.iter().partition(|one| one.pause.is_some());
        // Whoever gets to move a pause makes the call that decides: each is a commit of its own.
        let groups: Vec<&[&Waiting]> = open.chunks(TOGETHER).chain(paused.chunks(1)).collect();
        let mut all = Vec::new();
        for some in groups.chunks(SIDE_BY_SIDE) {
            for claimed in join_all(some.iter().map(|group| self.claim_for(db, group, now, ahead))).await {
                match claimed {
                    Ok(claimed) => all.extend(claimed),
                    // Those that were claimed are not let down because of it.
                    Err(error) => tracing::warn!(%error, "what is to call a host could not be claimed"),
                }
            }
        }
        all
    }

    async fn claim_for<C: InLine>(
        self: &Arc<Calls>,
        db: &Db,
        group: &[&Waiting],
        now: i64,
        ahead: usize,
    ) -> Result<Vec<Dispatch<C>>, DbError> {
        let (mut room, mut batch) = (HashMap::new(), Batch::new());
        for Waiting { destination, pause, .. } in group {
            let most = self.destinations().reserve(destination, *pause, now);
            if most == 0 {
                continue;
            }
            room.insert(destination.as_str(), most);
            pause.iter().for_each(|pause| batch.push(pauses::probe(destination, *pause, now + C::LEASE)));
            let rows = self.destinations().rows(destination, most, ahead);
            batch.push(claim_calls::<C>(destination, now, now, rows));
        }
        if room.is_empty() {
            return Ok(Vec::new());
        }
        let (mut lines, mut failure) = (HashMap::<String, Vec<C>>::new(), None);
        match claim_by::<C>(db, batch).await {
            Ok(rows) => {
                rows.into_iter().for_each(|row| lines.entry(row.destination().to_owned()).or_default().push(row));
            }
            Err(error) => failure = Some(error),
        }
        let mut dispatches = Vec::with_capacity(lines.len());
        for (destination, most) in room {
            let rows = lines.remove(destination).unwrap_or_default();
            let used = rows.len().min(most);
            self.destinations().release(destination, most - used);
            let slot = |_| Slot { calls: self.clone(), destination: destination.to_owned() };
            let slots = (0..used).map(slot).collect();
            dispatches.extend((used > 0).then(|| Dispatch { destination: destination.to_owned(), rows, slots }));
        }
        failure.map_or(Ok(dispatches), Err)
    }

    /// Remembers how long the calls of so many rows took that were claimed together, up to so many ahead.
    pub fn note_pace(&self, destination: &str, pace: (usize, Duration), ahead: usize) {
        self.destinations().paced(destination, pace, ahead);
    }

    /// Remembers whether a destination answered, and tells everybody where that
    /// changes who may call it.
    pub async fn note_answer(
        &self,
        (db, clock): (&Db, &Clock),
        destination: &str,
        unanswered: Option<&str>,
    ) -> Result<(), DbError> {
        let now = clock.steady();
        let change = match unanswered {
            None => self.destinations().answered(destination),
            Some(_) => self.destinations().failed(destination, now),
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
        db.commit(stmt).await.map(drop)
    }
}

/// Claims rows of a destination that were due at a moment.
pub fn claim_calls<C: InLine>(destination: &str, due: i64, now: i64, most: usize) -> Stmt {
    C::CLAIM.with([due.into(), (now + C::LEASE).into(), (most as i64).into(), destination.into()])
}

/// As [`work::claim_by`]; nothing where somebody else was first, or the store is on hold.
pub async fn claim_by<C: Claimable>(db: &Db, batch: impl Into<Batch>) -> Result<Vec<C>, DbError> {
    match work::claim_by(db, batch).await {
        Err(DbError::Unexpected { .. } | DbError::Stale) => Ok(Vec::new()),
        claimed => claimed,
    }
}

/// Forgets pauses of which nothing was heard for long.
pub fn sweep(now: i64) -> Stmt {
    pauses::sweep(now - PAUSES_KEPT)
}
