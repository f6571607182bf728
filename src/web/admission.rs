//! Requests that take much memory or time are let in a few at a time; the others
//! of them wait for their turn. What is small passes by.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

/// Where large requests wait.
pub struct Admission(Arc<Semaphore>);

impl Default for Admission {
    fn default() -> Admission {
        Admission(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Admission {
    /// A turn, as soon as there is one. They come in the order in which they were asked for.
    pub async fn turn(&self) -> Result<Turn, Error> {
        let permit = tokio::time::timeout(PATIENCE, self.0.clone().acquire_owned()).await;
        match permit {
            Ok(Ok(permit)) => Ok(Turn { _permit: permit }),
            Ok(Err(_)) | Err(_) => Err(Error::Unavailable),
        }
    }

    /// Takes a turn for the request of this task, until it is answered.
    pub async fn admit(&self) -> Result<(), Error> {
        if TURN.try_with(|held| held.borrow().is_some()) == Ok(true) {
            return Ok(());
        }
        let turn = self.turn().await?;
        // Outside of a request it ends at once: nobody waits behind it.
        let _ = TURN.try_with(|held| held.replace(Some(turn)));
        Ok(())
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
            assert_eq!(admission.0.available_permits(), AT_ONCE - 1);
        })
        .await;
        assert_eq!(admission.0.available_permits(), AT_ONCE);
    }
}
