//! The log of requests to the API, for those whose workspace they were made of. A request is noted in
//! memory and written a moment later with others: whoever calls waits for nothing, and what the store
//! cannot follow with is dropped and counted. So it is no promise, unlike what the requests did.

mod observer;
mod pages;
mod redaction;
mod routes;
mod store;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::app::App;
use crate::clock::DAY;
use crate::db::{Batch, DbError, Sql};
use crate::id::WorkspaceId;

pub use observer::Calls;
pub use pages::router as pages;
pub use routes::router as routes;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

/// How many requests wait to be written. Each is at most 10 KiB.
const MOST_WAITING: usize = 2048;

/// How many one commit writes, and how long the first of them waits for others.
const AT_ONCE: usize = 200;
const GATHERING: Duration = Duration::from_millis(200);

/// Requests on their way into the store. Clones share them.
#[derive(Clone, Default)]
pub struct RequestLog(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    entries: Mutex<VecDeque<Entry>>,
    rings: Notify,
}

/// A request and what it came to.
pub struct Entry {
    workspace_id: WorkspaceId,
    created_at: i64,
    method: &'static str,
    endpoint: String,
    status: u16,
    user_agent: Option<String>,
    request_body: Kept,
    response_body: Kept,
}

/// What is known of a body.
#[derive(Default)]
pub enum Kept {
    #[default]
    Nothing,
    /// All of it.
    Complete(Vec<u8>),
    /// It is longer than what is kept.
    TooLong,
}

impl RequestLog {
    /// Notes a request, if there is room.
    fn note(&self, entry: Entry) {
        let mut entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST_WAITING {
            drop(entries);
            return count_dropped(1);
        }
        entries.push_back(entry);
        drop(entries);
        self.0.rings.notify_one();
    }

    /// Writes what waits, some at a time. What cannot be written is dropped: there is more to come.
    pub async fn write(&self, app: &App) -> Result<(), DbError> {
        loop {
            let some: Vec<Entry> = {
                let mut entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
                let count = entries.len().min(AT_ONCE);
                entries.drain(..count).collect()
            };
            if some.is_empty() {
                return Ok(());
            }
            let batch: Batch = some.iter().map(|entry| store::insert(app.clock.ordered_id(), entry)).collect();
            if let Err(error) = app.db.commit(batch).await {
                count_dropped(some.len() as u64);
                return Err(error);
            }
        }
    }
}

fn count_dropped(count: u64) {
    metrics::counter!("posthorn_request_log_dropped_total").increment(count);
}

/// Writes until it is time to stop, and then once more.
pub async fn run(app: App, log: RequestLog, mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() {
        tokio::select! {
            () = log.0.rings.notified() => tokio::time::sleep(GATHERING).await,
            _ = stopping.changed() => {}
        }
        if let Err(error) = log.write(&app).await {
            tracing::warn!(%error, "some requests could not be written into the log of the API");
        }
    }
}

/// Deletes what is older than the setting says.
pub async fn forget_old(app: &App) -> Result<(), DbError> {
    let before = app.clock.now() - i64::from(app.config.retention.request_log_retention) * DAY;
    loop {
        let effects = app.db.commit(store::delete_some(before)).await?;
        if effects.iter().all(|effect| effect.changed == 0) {
            return Ok(());
        }
    }
}
