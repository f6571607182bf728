//! Requests that take much memory or time are let in a few at a time; the others
//! of them wait for their turn. What is small passes by.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::Error;

/// How many large requests are worked on at once. Each takes less than 32 MiB.
const AT_ONCE: usize = 4;

/// How many threads build what they hold: enough to be quick, and few enough to
/// leave the machine to those who answer.
const BUILDERS: usize = 2;

/// How long one of them waits for its turn before its caller is told to come back.
const PATIENCE: Duration = Duration::from_secs(20);

tokio::task_local! {
    /// The turn that the request of this task has, if it is a large one.
    static TURN: RefCell<Option<Turn>>;
}

/// The right to work on something large; given back when it is dropped.
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

/// Where large requests wait, and where what they hold is built.
pub struct Admission {
    turns: Arc<Semaphore>,
    /// Large writes go one at a time: whoever commits next to one waits for it.
    writes: Arc<Semaphore>,
    builders: mpsc::Sender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Default for Admission {
    /// Builders are few and stay, because an allocator keeps for each thread what
    /// it has freed; and they are not those that answer, which must not be kept.
    fn default() -> Admission {
        let (builders, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..BUILDERS {
            let jobs = jobs.clone();
            let next = move || jobs.lock().ok()?.recv().ok();
            let build = move || std::iter::from_fn(&next).for_each(|job| job());
            // Where no thread can be started, whoever needs one is told so.
            let _ = std::thread::Builder::new().name("builder".into()).spawn(build);
        }
        Admission { turns: Arc::new(Semaphore::new(AT_ONCE)), writes: Arc::new(Semaphore::new(1)), builders }
    }
}

impl Admission {
    /// A turn, as soon as there is one. They come in the order in which they were asked for.
    pub async fn turn(&self) -> Result<Turn, Error> {
        next(&self.turns).await
    }

    /// A turn to write something large.
    pub async fn write(&self) -> Result<Turn, Error> {
        next(&self.writes).await
    }

    /// Takes a turn for the request of this task, until it is answered.
    pub async fn admit(&self) -> Result<(), Error> {
        if TURN.try_with(|held| held.borrow().is_some()) == Ok(true) {
            return Ok(());
        }
        let turn = self.turn().await?;
        // Outside of a request it ends at once: nobody waits behind it.
        let _ = TURN.try_with(|held| held.replace(Some(turn)));
        // Before large work begins, what has arrived meanwhile is looked at.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Builds something large where it keeps nobody waiting who is to be answered.
    pub async fn build<T: Send + 'static>(&self, build: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let (reply, built) = oneshot::channel();
        let job = move || {
            // A panic ends the request, and not the builder.
            if let Ok(built) = std::panic::catch_unwind(AssertUnwindSafe(build)) {
                let _ = reply.send(built);
            }
        };
        self.builders.send(Box::new(job)).map_err(|_| Error::Internal)?;
        built.await.map_err(|_| Error::Internal)
    }
}

async fn next(queue: &Arc<Semaphore>) -> Result<Turn, Error> {
    match tokio::time::timeout(PATIENCE, queue.clone().acquire_owned()).await {
        Ok(Ok(permit)) => Ok(Turn { _permit: permit }),
        Ok(Err(_)) | Err(_) => Err(Error::Unavailable),
    }
}

/// Answers a request; its turn, if it takes one, ends with the answer.
pub async fn serving<F: Future>(answer: F) -> F::Output {
    TURN.scope(RefCell::new(None), answer).await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_few_have_their_turn_and_the_next_waits_for_one_of_them() {
        let admission = Admission::default();
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(admission.turn().await.expect("a turn"));
        }
        let mut next = std::pin::pin!(admission.turn());
        assert!(next.as_mut().now_or_never().is_none(), "it waits");
        turns.pop();
        next.await.expect("a turn");
    }

    #[tokio::test]
    async fn a_request_has_one_turn_which_ends_with_its_answer() {
        let admission = Admission::default();
        serving(async {
            for _ in 0..2 * AT_ONCE {
                admission.admit().await.expect("admitted");
            }
            assert_eq!(admission.turns.available_permits(), AT_ONCE - 1);
        })
        .await;
        assert_eq!(admission.turns.available_permits(), AT_ONCE);
    }

    #[tokio::test]
    async fn a_builder_that_panics_goes_on_with_the_next() {
        let admission = Admission::default();
        for _ in 0..2 * AT_ONCE {
            assert!(matches!(admission.build(|| -> usize { panic!("on purpose") }).await, Err(Error::Internal)));
        }
        assert_eq!(admission.build(|| 5).await.expect("built"), 5);
    }
}
