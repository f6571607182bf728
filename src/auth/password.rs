//! Passwords: argon2id, with the parameters kept beside each hash.

use std::sync::{Arc, LazyLock, Mutex};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tokio::sync::{mpsc, oneshot};

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

/// How many people may wait for their turn before the next is sent away.
const QUEUE: usize = 128;

/// Hashes on threads of their own that yield to everything else: a crowd at the
/// log-in must not slow the API.
pub struct Hasher {
    jobs: mpsc::Sender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Default for Hasher {
    fn default() -> Hasher {
        let (jobs, waiting) = mpsc::channel::<Job>(QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for _ in 0..(cores / 2).max(1) {
            let waiting = waiting.clone();
            std::thread::spawn(move || {
                let _ = rustix::process::nice(10);
                let next = || waiting.lock().ok()?.blocking_recv();
                while let Some(job) = next() {
                    job();
                }
            });
        }
        Hasher { jobs }
    }
}

impl Hasher {
    pub async fn hash(&self, password: String) -> Result<String, Error> {
        self.run(move || hash(&password)).await
    }

    /// Compares a password with a hash, or with nobody's: both take as long, so
    /// the time tells nobody whether an account exists.
    pub async fn verify(&self, password: String, kept: Option<String>) -> Result<bool, Error> {
        static NOBODY: LazyLock<String> = LazyLock::new(|| hash("nobody has this password"));
        self.run(move || match kept {
            Some(kept) => verify(&password, &kept),
            None => {
                verify(&password, &NOBODY);
                false
            }
        })
        .await
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move || drop(reply.send(work())));
        self.jobs.try_send(job).map_err(|_| Error::Unavailable)?;
        answer.await.map_err(|_| Error::Internal)
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
