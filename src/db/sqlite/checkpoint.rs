//! Carries what SQLite's log holds to the file itself, beside the writer: a
//! commit that had to do it would let everybody wait.
//!
//! The log can only start over when all of it has been carried. Under load it
//! never is, because the writer goes on; so once the log is long, the writer is
//! asked to carry the little that came last, between two commits.
//!
//! Somebody who reads keeps the log from starting over. Our own reads end in time;
//! another process (a copy being made, a shell that was left open) may read for
//! hours. A log that has grown to its limit takes no more writes, so that it cannot
//! fill the disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::Connection;

use super::files::{self, Failure, Files, disk_failed};
use super::flush::Seen;
use super::leave_log;
use super::watch::Watch;
use crate::db::Options;

/// How much may gather before it is carried.
const GATHER: Duration = Duration::from_millis(800);

/// How often to look around when nothing was committed.
const LOOK: Duration = Duration::from_secs(1);

/// A log of so many pages (96 MiB) should start over. The longer it is, the more of its pages were written again before
/// they are carried.
const LONG: i64 = 24_000;

const PAGE: u64 = 4096;

const CARRY: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// The writer's end.
pub(super) struct Checkpointer {
    news: SyncSender<()>,
    length: Arc<Length>,
    path: PathBuf,
}

/// What the length of the log asks of the writer.
#[derive(Default)]
struct Length {
    /// To carry the rest of it.
    is_long: AtomicBool,
    /// To let nobody write until it can start over.
    is_full: AtomicBool,
}

/// What one look at the log has found.
struct Found {
    pages: i64,
    carried: i64,
}

impl Checkpointer {
    /// Starts carrying on a connection of its own, for as long as the writer lives.
    pub(super) fn start(
        connection: Connection,
        options: &Options,
        seen: Seen,
        failure: Arc<Failure>,
        files: Arc<Files>,
        watch: Watch,
    ) -> anyhow::Result<Checkpointer> {
        let (news, told) = sync_channel(1);
        let (length, path) = (Arc::<Length>::default(), files::store(&connection)?);
        let limit = i64::try_from(options.log_limit / PAGE).unwrap_or(i64::MAX);
        let (is_failing, is_warned) = (false, false);
        let mut work = Work { files, watch, length: length.clone(), path: path.clone(), limit, is_failing, is_warned };
        let run = move || {
            match work.carry(&connection, &told, &seen) {
                Ok(()) => {}
                Err(Lost::Disk(error)) => {
                    tracing::error!(%error, file = %work.path.display(), "the disk failed under the carrying of the log");
                    failure.distrust();
                }
                Err(Lost::Files(error)) => {
                    tracing::error!(%error, "the store is not where it was; refusing further writes");
                    failure.stop();
                }
            }
            if seen.has_failed() {
                leave_log(&connection);
            }
        };
        std::thread::Builder::new().name("sqlite-checkpointer".into()).spawn(run)?;
        Ok(Checkpointer { news, length, path })
    }

    /// Something was committed.
    pub(super) fn committed(&self, writer: &Connection) -> rusqlite::Result<()> {
        // One message is enough.
        let _ = self.news.try_send(());
        if self.length.is_long.swap(false, Ordering::Relaxed) {
            checkpoint(writer)?;
        }
        Ok(())
    }

    /// Whether the log has grown to its limit.
    pub(super) fn is_full(&self) -> bool {
        self.length.is_full.load(Ordering::Relaxed)
    }

    /// Whether an error of the writer's means that the disk has failed.
    pub(super) fn disk_failed(&self, error: &rusqlite::Error) -> bool {
        disk_failed(error, &self.path)
    }
}

/// Why the carrying ends before the writer does.
enum Lost {
    Disk(rusqlite::Error),
    Files(std::io::Error),
}

struct Work {
    files: Arc<Files>,
    watch: Watch,
    length: Arc<Length>,
    path: PathBuf,
    /// How many pages the log may have.
    limit: i64,
    is_failing: bool,
    is_warned: bool,
}

impl Work {
    /// Ends with the writer, or with a flush that failed: what the log holds then must
    /// not get into the file.
    fn carry(&mut self, connection: &Connection, told: &Receiver<()>, seen: &Seen) -> Result<(), Lost> {
        loop {
            let came = match told.recv_timeout(LOOK) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if came {
                std::thread::sleep(GATHER);
            }
            if seen.has_failed() {
                return Ok(());
            }
            self.files.check().map_err(Lost::Files)?;
            self.watch.look();
            if came || self.length.is_full.load(Ordering::Relaxed) {
                self.step(connection).map_err(Lost::Disk)?;
            }
        }
    }

    fn step(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        // Once more for what came meanwhile, so that next to nothing is left to
        // the writer.
        match checkpoint(connection).and_then(|_| checkpoint(connection)) {
            Ok(found) => {
                self.is_failing = false;
                self.length.is_long.store(found.pages >= LONG, Ordering::Relaxed);
                self.bound(&found);
            }
            Err(error) if disk_failed(&error, &self.path) => return Err(error),
            // The disk may be full. The log has everything; after the next commit it is tried again.
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::error!(%error, file = %self.path.display(), "the log could not be carried to the file");
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// What is carried whole starts over with the next commit, however long it is.
    fn bound(&mut self, found: &Found) {
        let reaches = |pages: i64| found.pages >= pages && found.carried < found.pages;
        let (mebibytes, grows, is_full) = (found.pages / 256, reaches(self.limit / 4), reaches(self.limit));
        if grows && !self.is_warned {
            tracing::warn!(mebibytes, "the log grows because another process keeps reading an old state of the store");
        }
        self.is_warned = grows;
        match (self.length.is_full.swap(is_full, Ordering::Relaxed), is_full) {
            (false, true) => tracing::error!(mebibytes, "the log is at --sqlite-log-limit; writes are refused"),
            (true, false) => tracing::info!("the log can start over; writes are taken again"),
            _ => {}
        }
    }
}

/// Carries what can be carried without waiting, and tells how long the log is.
fn checkpoint(connection: &Connection) -> rusqlite::Result<Found> {
    connection.query_row(CARRY, [], |row| Ok(Found { pages: row.get(1)?, carried: row.get(2)? }))
}
