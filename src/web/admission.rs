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
