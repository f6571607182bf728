//! Flushes SQLite's log behind the writer, who runs the next group meanwhile.
//!
//! A group that was committed stands in the log, where everybody sees it, but a
//! power cut could still take it away. Nobody in this process is told of it before
//! the log was flushed: not who wrote it, and not who has read it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::{mpsc, watch};

use super::files::{Failure, Files};
use crate::db::{Committed, DbError, Job, PATIENCE};

/// A group that was committed, each job with its answer.
pub(super) type Settled = Vec<(Job, Committed)>;

/// What everybody hears after a flush that failed.
pub(super) fn failure() -> DbError {
    DbError::Unavailable("the disk failed to flush".into())
}

/// What has to be on the disk before anybody is answered.
pub(super) struct Log {
    file: Option<File>,
    files: Arc<Files>,
}

impl Log {
    /// Without a file to flush, groups are answered as they come.
    pub(super) fn new(file: Option<File>, files: Arc<Files>) -> Log {
        Log { file, files }
    }
}

/// The writer's end.
pub(super) struct Flusher {
    groups: SyncSender<(u64, Settled)>,
    committed: u64,
    seen: Seen,
}

/// How many groups can be seen, and how many of them are flushed.
#[derive(Clone)]
pub(super) struct Seen {
    visible: Arc<AtomicU64>,
    flushed: watch::Receiver<u64>,
}

impl Flusher {
    /// Starts flushing a log for as long as the writer lives.
    pub(super) fn start(log: Log, failure: Arc<Failure>) -> std::io::Result<Flusher> {
        let (groups, committed) = sync_channel(1);
        let (flushed, seen) = watch::channel(0);
        let (answers, settled) = mpsc::unbounded_channel();
        tokio::spawn(hand_out(settled));
        let run = move || match flush(&log, &committed, &flushed, &answers) {
            Ok(()) => {}
            Err(Lost::Flush(error)) => {
                tracing::error!(%error, "the disk failed to flush a commit; refusing further writes");
                failure.distrust();
            }
            Err(Lost::Files(error)) => {
                tracing::error!(%error, "the store is not where it was; refusing further writes");
                failure.stop();
            }
        };
        std::thread::Builder::new().name("sqlite-flusher".into()).spawn(run)?;
        let seen = Seen { visible: Arc::default(), flushed: seen };
        Ok(Flusher { groups, committed: 0, seen })
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// A group is about to be committed, and to be seen.
    pub(super) fn announce(&mut self) {
        self.committed += 1;
        self.seen.visible.store(self.committed, Ordering::SeqCst);
    }

    /// Answers the group that was announced once it is flushed.
    pub(super) fn flush(&self, settled: Settled) {
        if let Err(refused) = self.groups.send((self.committed, settled)) {
            refuse(refused.0.1);
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        *self.seen.flushed.borrow() < self.committed && !self.seen.has_failed()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.seen.has_failed()
    }

    /// Waits for the end of a flush.
    pub(super) async fn progress(&mut self) {
        let _ = self.seen.flushed.changed().await;
    }
}

impl Seen {
    /// Whether a flush has failed, or the writer has ended.
    pub(super) fn has_failed(&self) -> bool {
        self.flushed.has_changed().is_err()
    }

    /// Waits until all that could be seen so far is flushed.
    pub(super) async fn wait_until_flushed(&self) -> Result<(), DbError> {
        let visible = self.visible.load(Ordering::SeqCst);
        if *self.flushed.borrow() >= visible {
            return Ok(());
        }
        let mut flushed = self.flushed.clone();
        match tokio::time::timeout(PATIENCE, flushed.wait_for(|flushed| *flushed >= visible)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(failure()),
            Err(_) => Err(DbError::Unavailable("the disk does not flush".into())),
        }
    }
}

/// Why a group cannot be acknowledged.
enum Lost {
    Flush(std::io::Error),
    Files(std::io::Error),
}

/// Ends with the writer, or with a flush that failed: after that nobody knows
/// what the disk holds, and trying again could acknowledge what is not there.
fn flush(
    log: &Log,
    committed: &Receiver<(u64, Settled)>,
    flushed: &watch::Sender<u64>,
    answers: &mpsc::UnboundedSender<Settled>,
) -> Result<(), Lost> {
    while let Ok((number, settled)) = committed.recv() {
        let flushed_log = log.file.as_ref().map_or(Ok(()), File::sync_data).map_err(Lost::Flush);
        if let Err(lost) = flushed_log.and_then(|()| log.files.check().map_err(Lost::Files)) {
            refuse(settled);
            return Err(lost);
        }
        flushed.send_replace(number);
        if let Err(late) = answers.send(settled) {
            // The runtime is gone, and whoever waited in it.
            late.0.into_iter().for_each(|(job, result)| job.answer(result));
        }
    }
    Ok(())
}

fn refuse(settled: Settled) {
    settled.into_iter().for_each(|(job, _)| job.answer(Err(failure())));
}

/// Answers the jobs of a group from within the runtime that their callers wait
/// in: waking them from another thread, one by one, would cost more than their
/// statements did.
async fn hand_out(mut settled: mpsc::UnboundedReceiver<Settled>) {
    while let Some(group) = settled.recv().await {
        group.into_iter().for_each(|(job, result)| job.answer(result));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::time::Duration;

    use rusqlite::Connection;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;
    use crate::db::Batch;

    type Reply = oneshot::Receiver<(Committed, Box<Batch>)>;

    /// A group of one job.
    fn group() -> (Settled, Reply) {
        let (reply, answer) = oneshot::channel();
        let deadline = Instant::now() + PATIENCE;
        (vec![(Job { batch: Box::default(), reply, deadline }, Ok(Vec::new()))], answer)
    }

    fn failure(folder: &Path) -> Arc<Failure> {
        let connection = Connection::open(folder.join("store.db")).expect("a store");
        Arc::new(Failure::of(&connection).expect("a file"))
    }

    async fn answer(reply: Reply) -> Committed {
        let answer = tokio::time::timeout(Duration::from_secs(10), reply).await.expect("an answer in time");
        answer.expect("an answer").0
    }

    #[tokio::test]
    async fn reliability_1_who_has_read_what_is_not_flushed_waits_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("a file");
        let mut flusher =
            Flusher::start(Log::new(Some(log), Arc::default()), failure(folder.path())).expect("a thread");
        let seen = flusher.seen();
        seen.wait_until_flushed().await.expect("nothing to wait for");
        flusher.announce();
        let mut wait_until_flushed = std::pin::pin!(seen.wait_until_flushed());
        tokio::time::timeout(Duration::from_millis(50), wait_until_flushed.as_mut())
            .await
            .expect_err("not flushed yet");
        assert!(flusher.is_busy());
        let (settled, reply) = group();
        flusher.flush(settled);
        wait_until_flushed.await.expect("flushed");
        answer(reply).await.expect("committed");
        assert!(!flusher.is_busy() && !flusher.has_failed());
    }

    #[tokio::test]
    async fn reliability_f7_after_a_flush_that_failed_nobody_is_told_that_all_is_well() {
        // A pipe cannot be flushed.
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let folder = tempfile::tempdir().expect("a folder");
        let failure = failure(folder.path());
        let log = Log::new(Some(File::from(OwnedFd::from(writer))), Arc::default());
        let mut flusher = Flusher::start(log, failure.clone()).expect("a thread");
        for _ in 0..3 {
            let (settled, reply) = group();
            flusher.announce();
            flusher.flush(settled);
            assert!(matches!(answer(reply).await, Err(DbError::Unavailable(_))));
            assert!(matches!(flusher.seen().wait_until_flushed().await, Err(DbError::Unavailable(_))));
        }
        assert!(flusher.has_failed() && !flusher.is_busy());
        tokio::time::timeout(Duration::from_secs(10), failure.happened()).await.expect("the process is told");
        assert!(folder.path().join("store.db-failed").exists(), "and the next one is warned");
    }
}
