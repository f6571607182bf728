//! Carries what SQLite's log holds to the file itself, beside the writer: a
//! commit that had to do it would let everybody wait.
//!
//! The log can only start over when all of it has been carried. Under load it
//! never is, because the writer goes on; so once the log is long, the writer is
//! asked to carry the little that came last, between two commits.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Notify;

use super::flush::Seen;
use super::{flush_failed, leave_log};

/// How much may gather before it is carried.
const GATHER: Duration = Duration::from_millis(400);

/// A log of so many pages (48 MiB) should start over.
const LONG: i64 = 12_000;

const CARRY: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// The writer's end.
pub(super) struct Carrier {
    news: SyncSender<()>,
    is_long: Arc<AtomicBool>,
}

impl Carrier {
    /// Starts carrying on a connection of its own, for as long as the writer lives.
    pub(super) fn start(
        connection: Connection,
        path: &Path,
        seen: Seen,
        failure: Arc<Notify>,
    ) -> std::io::Result<Carrier> {
        let (news, told) = sync_channel(1);
        let is_long = Arc::new(AtomicBool::new(false));
        let (long, shown) = (is_long.clone(), path.display().to_string());
        let run = move || {
            if let Err(error) = carry(&connection, &told, &seen, &long, &shown) {
                tracing::error!(%error, file = shown, "the disk failed to flush what was carried to the file");
                failure.notify_one();
            }
            if seen.has_failed() {
                leave_log(&connection);
            }
        };
        std::thread::Builder::new().name("sqlite-carrier".into()).spawn(run)?;
        Ok(Carrier { news, is_long })
    }

    /// Something was committed.
    pub(super) fn committed(&self, writer: &Connection) -> rusqlite::Result<()> {
        // One message is enough.
        let _ = self.news.try_send(());
        if self.is_long.swap(false, Ordering::Relaxed) {
            checkpoint(writer)?;
        }
        Ok(())
    }
}

/// Ends with the writer, or with a flush that failed: what the log holds then must
/// not get into the file.
fn carry(
    connection: &Connection,
    told: &Receiver<()>,
    seen: &Seen,
    is_long: &AtomicBool,
    file: &str,
) -> rusqlite::Result<()> {
    let mut is_failing = false;
    while told.recv().is_ok() {
        std::thread::sleep(GATHER);
        if seen.has_failed() {
            return Ok(());
        }
        // Once more for what came meanwhile, so that next to nothing is left to
        // the writer.
        match checkpoint(connection).and_then(|_| checkpoint(connection)) {
            Ok(pages) => {
                is_failing = false;
                is_long.store(pages >= LONG, Ordering::Relaxed);
            }
            Err(error) if flush_failed(&error) => return Err(error),
            // The disk may be full. The log has everything; after the next commit it is tried again.
            Err(error) if !is_failing => {
                is_failing = true;
                tracing::error!(%error, file, "the log could not be carried to the file");
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Carries what can be carried without waiting, and tells how long the log is.
fn checkpoint(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row(CARRY, [], |row| row.get(1))
}
