//! What the committers share: the way to the server, and the queue, into which one
//! that has lost its connection can put back what it has taken.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify, mpsc};

use super::link::Link;
use crate::db::{DbError, Job};

/// What the committers share.
pub(super) struct Shared {
    pub link: Arc<Link>,
    jobs: Mutex<mpsc::Receiver<Job>>,
    /// The other end of the queue, for jobs that have to be handed back.
    pub queue: mpsc::WeakSender<Job>,
    /// Tells the process that it must not write any more.
    pub failure: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(link: Arc<Link>, queue: mpsc::WeakSender<Job>, jobs: mpsc::Receiver<Job>) -> Arc<Shared> {
        Arc::new(Shared { link, jobs: Mutex::new(jobs), queue, failure: Arc::default() })
    }

    pub(super) async fn take(&self, group: &mut Vec<Job>, most: usize) -> usize {
        self.jobs.lock().await.recv_many(group, most).await
    }

    /// Jobs that one without a connection has taken wait for those who have one.
    pub(super) fn hand_back(&self, group: impl Iterator<Item = Job>, error: &DbError) {
        let queue = self.queue.upgrade();
        for job in group {
            let kept = match &queue {
                Some(queue) => queue.try_send(job).map_err(mpsc::error::TrySendError::into_inner),
                None => Err(job),
            };
            if let Err(job) = kept {
                job.answer(Err(error.clone()));
            }
        }
    }

    /// Nobody has a connection: whoever waits need not wait until the time is over.
    pub(super) fn refuse_waiting(&self, error: &DbError) {
        let Ok(mut jobs) = self.jobs.try_lock() else { return };
        while let Ok(job) = jobs.try_recv() {
            job.answer(Err(error.clone()));
        }
    }
}
