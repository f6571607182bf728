//! Passwords: argon2id, with the parameters kept beside each hash.

use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tokio::sync::oneshot;

use super::fair_queue::{Asker, FairQueue};
use crate::error::Error;

/// Hashes a password. Takes tens of milliseconds and 19 MiB, on purpose.
pub fn hash(password: &str) -> String {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.expect("argon2 hashes any password of an allowed length").to_string()
}

pub fn verify(password: &str, hash: &str) -> bool {
    let Ok(parsed) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok()
}

/// How many may wait for their turn, of those who are known and of strangers.
const QUEUE: usize = 128;

/// Hashes on threads of their own that yield to everything else: a crowd at the
/// log-in must not slow the API. Whoever waits takes turns with the others.
pub struct Hasher {
    shared: Arc<Shared>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

struct Waiting {
    jobs: FairQueue<Job>,
    closed: bool,
}

type Job = Box<dyn FnOnce() + Send>;

impl Default for Hasher {
    fn default() -> Hasher {
        let waiting = Mutex::new(Waiting { jobs: FairQueue::new(QUEUE), closed: false });
        let shared = Arc::new(Shared { waiting, arrived: Condvar::new() });
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for _ in 0..(cores / 2).max(1) {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let _ = rustix::process::nice(10);
                while let Some(job) = shared.next() {
                    job();
                }
            });
        }
        Hasher { shared }
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Job> {
        let empty = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.closed;
        let waiting = self.arrived.wait_while(self.lock(), empty);
        waiting.unwrap_or_else(PoisonError::into_inner).jobs.pop()
    }
}

impl Hasher {
    pub async fn hash(&self, asker: Asker, password: String) -> Result<String, Error> {
        self.run(asker, move || hash(&password)).await
    }

    /// Compares a password with a hash, or with nobody's: both take as long, so
    /// the time tells nobody whether an account exists.
    pub async fn verify(&self, asker: Asker, password: String, kept: Option<String>) -> Result<bool, Error> {
        static NOBODY: LazyLock<String> = LazyLock::new(|| hash("nobody has this password"));
        self.run(asker, move || match kept {
            Some(kept) => verify(&password, &kept),
            None => {
                verify(&password, &NOBODY);
                false
            }
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        asker: Asker,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody waits any more for what a broken connection asked.
            if !reply.is_closed() {
                drop(reply.send(work()));
            }
        });
        // What had to give way is dropped, and whoever waits for it is told below.
        let displaced = self.shared.lock().jobs.push(asker, job);
        self.shared.arrived.notify_one();
        drop(displaced);
        answer.await.map_err(|_| Error::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_against_its_own_hash_only() {
        let kept = hash("correct horse");
        assert!(kept.starts_with("$argon2id$"));
        assert!(verify("correct horse", &kept));
        assert!(!verify("wrong horse", &kept));
        assert!(!verify("correct horse", "not a hash"));
    }
}
