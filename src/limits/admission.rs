//! Requests that take much memory or time are let in a few at a time; the others
//! of them wait for their turn. What is small passes by.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::background::Background;
use crate::error::Error;

/// How many large requests are worked on at once. Each takes less than 32 MiB.
const AT_ONCE: usize = 4;

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
    /// Large bodies are received a few at a time: those who read them are those who
    /// answer, and others would wait behind each.
    receiving: Semaphore,
    /// Where what they hold is built, one after the other.
    builder: Background,
    /// Where bodies are written to disk while they arrive.
    pub spooler: Background,
}

impl Default for Admission {
    fn default() -> Admission {
        Admission {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            writes: Arc::new(Semaphore::new(1)),
            receiving: Semaphore::new(AT_ONCE),
            builder: Background::start("builder", 1),
            spooler: Background::start("spooler", 1),
        }
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

    /// A turn to receive some more of a large body. Whoever has one waits for nothing
    /// with it that a stranger could hold back.
    pub async fn receive(&self) -> Option<SemaphorePermit<'_>> {
        self.receiving.acquire().await.ok()
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

    /// Waits for what a stranger could hold back: without the turn that the request of this task
    /// has, which it takes again afterwards.
    pub async fn outside<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Error> {
        let turn = TURN.try_with(|held| held.replace(None)).ok().flatten();
        let had_turn = turn.is_some();
        drop(turn);
        let done = waiting.await;
        if had_turn {
            self.admit().await?;
        }
        Ok(done)
    }

    /// Builds something large where it keeps nobody waiting who is to be answered.
    pub async fn build<T: Send + 'static>(&self, build: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        self.builder.run(build).await
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
            let outside = admission.outside(async { admission.turns.available_permits() }).await;
            assert_eq!(outside.expect("admitted once more"), AT_ONCE, "nobody waits for what it waits for");
            assert_eq!(admission.turns.available_permits(), AT_ONCE - 1, "and then it has a turn again");
        })
        .await;
        assert_eq!(admission.turns.available_permits(), AT_ONCE);
    }

    #[tokio::test]
    async fn a_request_without_a_turn_waits_outside_and_takes_none() {
        let admission = Admission::default();
        serving(async {
            admission.outside(async {}).await.expect("done");
            assert_eq!(admission.turns.available_permits(), AT_ONCE);
        })
        .await;
    }
}
