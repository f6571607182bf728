//! Authorization requests that were refused, for those on whose page the client stands. Strangers can send them without
//! end: they are gathered in memory, where equal ones are one, and written every few seconds; of each client the last
//! are kept.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, watch};

use super::cache::Known;
use crate::db::{Batch, Db, DbError, Sql, from_row, statements};
use crate::oauth::OAuth;
use crate::oauth::refusal::ErrorCode;

/// How many of a client are kept.
const MOST: usize = 20;

/// Of how many clients some wait to be written.
const MOST_CLIENTS: usize = 1000;

/// How much of an address is kept, in characters.
pub const LONGEST: usize = 500;

/// How long the first waits for others.
const GATHERING: Duration = Duration::from_secs(3);

statements! {
    functions {
        /// Those who write of a client at once do so one after the other, and nobody does once it is deleted.
        fn take_turn(client_id: &str) = Sql::each(
            "SELECT 1 FROM oauth_clients WHERE id = $1",
            "SELECT 1 FROM oauth_clients WHERE id = $1 FOR UPDATE");
        fn keep(client_id: &str, one: &Refused)
            with [client_id, &one.redirect_uri, &one.error, one.times, one.refused_at] = Sql::both(
            "INSERT INTO refused_authorizations (client_id, redirect_uri, error, times, refused_at)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (client_id, redirect_uri, error) DO UPDATE SET
                 times = refused_authorizations.times + excluded.times, refused_at = excluded.refused_at");
        fn delete_older(client_id: &str) with [client_id, MOST as i64] = Sql::both(
            "DELETE FROM refused_authorizations WHERE client_id = $1 AND (redirect_uri, error) NOT IN (
                 SELECT redirect_uri, error FROM refused_authorizations WHERE client_id = $1
                 ORDER BY refused_at DESC, redirect_uri, error LIMIT $2)");
        pub(super) fn delete_refused(client_id: &str) = Sql::both(
            "DELETE FROM refused_authorizations WHERE client_id = $1");
    }
    reads {
        /// The last one first.
        pub(super) fn refused_of(client_id: &str) -> Vec<Refused> = Sql::both(
            "SELECT redirect_uri, error, times, refused_at FROM refused_authorizations WHERE client_id = $1
             ORDER BY refused_at DESC, redirect_uri, error LIMIT 100");
    }
}

/// A request that was refused, once or several times.
pub(super) struct Refused {
    /// Empty where there was none, or several.
    pub redirect_uri: String,
    pub error: String,
    pub times: i64,
    pub refused_at: i64,
}

from_row!(Refused { redirect_uri, error, times, refused_at });

/// What waits to be written, by client, the last one last.
#[derive(Default)]
pub struct Refusals {
    waiting: Mutex<HashMap<String, Vec<Refused>>>,
    rings: Notify,
}

impl Refusals {
    /// Notes a refusal, if the client stands on anybody's page.
    pub fn note(&self, known: &Known, redirect_uri: &str, error: ErrorCode, now: i64) {
        if known.workspace_id.is_none() {
            return;
        }
        // The store's text holds no NUL.
        let kept = |char: char| if char == '\0' { char::REPLACEMENT_CHARACTER } else { char };
        let redirect_uri: String = redirect_uri.chars().take(LONGEST).map(kept).collect();
        let mut waiting = self.lock();
        if waiting.len() >= MOST_CLIENTS && !waiting.contains_key(&known.client.id) {
            return;
        }
        let some = waiting.entry(known.client.id.clone()).or_default();
        let equal = some.iter().position(|one| one.redirect_uri == redirect_uri && one.error == error.as_str());
        let before = equal.map_or(0, |place| some.remove(place).times);
        if some.len() >= MOST {
            some.remove(0);
        }
        some.push(Refused { redirect_uri, error: error.as_str().to_owned(), times: before + 1, refused_at: now });
        drop(waiting);
        self.rings.notify_one();
    }

    /// Writes what waits. What cannot be written is dropped: there is more to come.
    pub(super) async fn write(&self, db: &Db) {
        let waiting = std::mem::take(&mut *self.lock());
        let batches = waiting.into_iter().map(|(client_id, some)| db.commit(batch(&client_id, &some)));
        for written in join_all(batches).await {
            match written {
                // The client is gone.
                Ok(_) | Err(DbError::Stale) => {}
                Err(error) => tracing::warn!(%error, "refused authorization requests could not be noted"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Refused>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn batch(client_id: &str, some: &[Refused]) -> Batch {
    let mut batch = Batch::new().fence(take_turn(client_id));
    batch.lock(client_id);
    some.iter().for_each(|one| batch.push(keep(client_id, one)));
    batch.and(delete_older(client_id))
}

/// Writes refusals until it is time to stop, and then once more.
pub async fn note_refusals(app: OAuth, mut stopping: watch::Receiver<bool>) {
    let mut is_last = false;
    while !is_last {
        let gathered = async {
            app.refusals.rings.notified().await;
            tokio::time::sleep(GATHERING).await;
        };
        is_last = tokio::select! {
            () = gathered => false,
            _ = stopping.wait_for(|stopping| *stopping) => true,
        };
        app.refusals.write(&app.db).await;
    }
}
