//! What the committers share: the way to the server, and the queue, into which one
//! that has lost its connection can put back what it has taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::sleep;

use super::link::Link;
use crate::db::{DbError, Job};

/// A group of fewer batches waits for more of them while another is being committed: a transaction costs the server as
/// much as several batches do. It waits no longer than so, because the other may take long.
const FEW: usize = 16;
const COMPANY: Duration = Duration::from_millis(1);

/// What the committers share.
pub(super) struct Shared {
    pub link: Arc<Link>,
    jobs: Mutex<mpsc::Receiver<Job>>,
    /// How many groups are being committed, and who is told of the end of one.
    under_way: AtomicUsize,
    settled: Notify,
    /// The other end of the queue, for jobs that have to be handed back.
    pub queue: mpsc::WeakSender<Job>,
    /// Tells the process that it must not write any more.
    pub failure: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(link: Arc<Link>, queue: mpsc::WeakSender<Job>, jobs: mpsc::Receiver<Job>) -> Arc<Shared> {
        let (jobs, under_way, settled) = (Mutex::new(jobs), AtomicUsize::new(0), Notify::new());
        Arc::new(Shared { link, jobs, under_way, settled, queue, failure: Arc::default() })
    }

    /// Takes what waits. Empty: nobody will write any more.
    pub(super) async fn take(&self, group: &mut Vec<Job>, most: usize) {
        let mut jobs = self.jobs.lock().await;
        jobs.recv_many(group, most).await;
        let mut patience = std::pin::pin!(sleep(COMPANY));
        while (1..FEW).contains(&group.len()) && self.under_way.load(Ordering::Relaxed) > 0 {
            let room = most - group.len();
            tokio::select! {
                biased;
                more = jobs.recv_many(group, room) => if more == 0 { return },
                () = self.settled.notified() => {}
                () = &mut patience => return,
            }
        }
    }

    /// A group is being committed for as long as this lives.
    pub(super) fn commit(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
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

/// A group that is being committed.
pub(super) struct UnderWay<'a>(&'a Shared);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.settled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::db::PATIENCE;

    async fn send(queue: &mpsc::Sender<Job>, count: usize) {
        for _ in 0..count {
            let (reply, _) = oneshot::channel();
            let job = Job { batch: Box::default(), reply, deadline: Instant::now() + PATIENCE };
            queue.send(job).await.expect("a queue");
        }
    }

    async fn taken(shared: &Shared) -> usize {
        let mut group = Vec::new();
        timeout(PATIENCE, shared.take(&mut group, 256)).await.expect("soon");
        group.len()
    }

    #[tokio::test]
    async fn a_small_group_waits_for_company_while_another_is_committed_and_not_for_long() {
        let (queue, jobs) = mpsc::channel(64);
        let link = Link::new("postgres://localhost/none").expect("an address");
        let shared = Shared::new(link, queue.downgrade(), jobs);
        send(&queue, 1).await;
        assert_eq!(taken(&shared).await, 1, "nothing is under way");

        let under_way = shared.commit();
        send(&queue, FEW).await;
        assert_eq!(taken(&shared).await, FEW, "enough of them");
        send(&queue, 1).await;
        let company = async {
            send(&queue, 2).await;
            drop(under_way);
        };
        let (count, ()) = tokio::join!(taken(&shared), company);
        assert_eq!(count, 3, "who came meanwhile is with it");

        let under_way = shared.commit();
        send(&queue, 1).await;
        assert_eq!(taken(&shared).await, 1, "the other takes long");
        drop(under_way);
        drop(queue);
        assert_eq!(taken(&shared).await, 0, "nobody will write any more");
    }
}
