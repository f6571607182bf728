//! Attempts, counted before they are judged: whoever fails too often has to
//! wait, and is told the same whether what is tried exists or not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::{MINUTE, SECOND};
use crate::error::Error;
use crate::secret;

/// How long failures are held against somebody.
const WINDOW: i64 = 15 * MINUTE;

/// How many are remembered. Strangers choose the names, so there is an end.
const MOST_KEPT: usize = 100_000;

/// How many may wait until the attempts before theirs are judged.
const MOST_WAITING: usize = 512;

/// Failures by whatever names who failed: an address, an account.
pub struct Attempts {
    most: u32,
    kept: Mutex<Kept>,
    judged: Notify,
}

/// Names are as long as strangers like; their hashes are not.
type Name = [u8; 32];

#[derive(Default)]
struct Kept {
    counts: HashMap<Name, Count>,
    waiting: usize,
}

#[derive(Clone, Copy)]
struct Count {
    failed: u32,
    /// Attempts that are not judged yet. They might all fail.
    pending: u32,
    since: i64,
}

/// An attempt that is under way. It is forgotten unless it [failed](Attempt::failed).
pub struct Attempt<'a> {
    attempts: &'a Attempts,
    name: Name,
}

impl Attempts {
    pub fn new(most: u32) -> Attempts {
        Attempts { most, kept: Mutex::default(), judged: Notify::new() }
    }

    /// Begins an attempt, or refuses who has failed too often lately. Where those
    /// under way might use up what is left, it waits for them.
    pub async fn begin(&self, who: &str, now: i64) -> Result<Attempt<'_>, Error> {
        let name = secret::hash(who);
        let mut turn: Option<Waiting> = None;
        loop {
            let judged = self.judged.notified();
            tokio::pin!(judged);
            // From here on no notice is missed.
            judged.as_mut().enable();
            if self.reserve(name, now)? {
                return Ok(Attempt { attempts: self, name });
            }
            if turn.is_none() {
                turn = Some(Waiting::join(self)?);
            }
            judged.await;
        }
    }

    /// Counts an attempt; false where it depends on those under way.
    fn reserve(&self, name: Name, now: i64) -> Result<bool, Error> {
        let mut kept = self.lock();
        if kept.counts.len() >= MOST_KEPT && !kept.counts.contains_key(&name) {
            kept.make_room(now);
        }
        let count = kept.counts.entry(name).or_insert(Count { failed: 0, pending: 0, since: now });
        if now - count.since >= WINDOW {
            (count.failed, count.since) = (0, now);
        }
        if count.failed >= self.most {
            return Err(Error::RateLimited { retry_after: ((count.since + WINDOW - now) / SECOND + 1) as u64 });
        }
        let free = count.failed + count.pending < self.most;
        count.pending += u32::from(free);
        Ok(free)
    }

    fn judge(&self, name: Name, failed: bool) {
        let mut kept = self.lock();
        if let Entry::Occupied(mut entry) = kept.counts.entry(name) {
            let count = entry.get_mut();
            count.pending = count.pending.saturating_sub(1);
            count.failed += u32::from(failed);
            if count.failed + count.pending == 0 {
                entry.remove();
            }
        }
        let waiting = kept.waiting;
        drop(kept);
        if waiting > 0 {
            self.judged.notify_waiters();
        }
    }

    pub fn sweep(&self, now: i64) {
        self.lock().counts.retain(|_, count| count.pending > 0 || now - count.since < WINDOW);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets those whose time is over, and if that is not enough the sixteenth
    /// that has failed least and longest ago: nobody is freed by a flood of
    /// other names.
    fn make_room(&mut self, now: i64) {
        self.counts.retain(|_, count| count.pending > 0 || now - count.since < WINDOW);
        if self.counts.len() < MOST_KEPT {
            return;
        }
        let mut order: Vec<((u32, u32, i64), Name)> =
            self.counts.iter().map(|(name, count)| ((count.pending, count.failed, count.since), *name)).collect();
        let (least, ..) = order.select_nth_unstable(MOST_KEPT / 16);
        for (_, name) in least {
            self.counts.remove(name);
        }
    }
}

impl Attempt<'_> {
    /// Holds it against whoever made it.
    pub fn failed(self) {
        self.attempts.judge(self.name, true);
        std::mem::forget(self);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.attempts.judge(self.name, false);
    }
}

/// A place among those who wait.
struct Waiting<'a>(&'a Attempts);

impl Waiting<'_> {
    fn join(attempts: &Attempts) -> Result<Waiting<'_>, Error> {
        let mut kept = attempts.lock();
        if kept.waiting >= MOST_WAITING {
            return Err(Error::Unavailable);
        }
        kept.waiting += 1;
        Ok(Waiting(attempts))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn begin<'a>(attempts: &'a Attempts, who: &str, now: i64) -> Option<Result<Attempt<'a>, Error>> {
        attempts.begin(who, now).now_or_never()
    }

    fn is_let_in(attempts: &Attempts, who: &str, now: i64) -> bool {
        matches!(begin(attempts, who, now), Some(Ok(_)))
    }

    #[test]
    fn who_fails_too_often_waits_until_the_window_is_over() {
        let attempts = Attempts::new(3);
        for _ in 0..3 {
            begin(&attempts, "a", 0).expect("at once").expect("allowed").failed();
        }
        let refused = begin(&attempts, "a", SECOND).expect("at once").err();
        assert!(matches!(refused, Some(Error::RateLimited { retry_after: 900 })), "{refused:?}");
        assert!(is_let_in(&attempts, "b", SECOND));
        assert!(is_let_in(&attempts, "a", WINDOW));
        attempts.sweep(WINDOW);
        assert!(is_let_in(&attempts, "a", 1));
    }

    #[test]
    fn what_did_not_fail_is_not_counted_and_not_kept() {
        let attempts = Attempts::new(1);
        assert!((0..5).all(|_| is_let_in(&attempts, "a", 0)));
        assert!(attempts.lock().counts.is_empty());
    }

    #[tokio::test]
    async fn of_many_attempts_at_once_no_more_are_judged_than_are_allowed() {
        let attempts = Attempts::new(10);
        let judged = Mutex::new(0);
        let guess = async || {
            let attempt = attempts.begin("a", 0).await?;
            *judged.lock().expect("a lock") += 1;
            tokio::task::yield_now().await;
            attempt.failed();
            Ok::<_, Error>(())
        };
        let answers = futures_util::future::join_all((0..120).map(|_| guess())).await;
        assert_eq!(*judged.lock().expect("a lock"), 10);
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Err(Error::RateLimited { .. }))).count(), 110);
        assert_eq!(attempts.lock().waiting, 0);
    }

    #[tokio::test]
    async fn many_who_are_right_are_all_let_in_one_after_the_other() {
        let attempts = Attempts::new(2);
        let visit = async || {
            let attempt = attempts.begin("a", 0).await;
            tokio::task::yield_now().await;
            attempt.map(drop)
        };
        let answers = futures_util::future::join_all((0..50).map(|_| visit())).await;
        assert!(answers.iter().all(Result::is_ok));
    }

    #[test]
    fn a_flood_of_names_neither_grows_for_ever_nor_frees_anybody() {
        let attempts = Attempts::new(3);
        for _ in 0..3 {
            begin(&attempts, "guilty", 0).expect("at once").expect("allowed").failed();
        }
        for name in 0..MOST_KEPT + 10 {
            begin(&attempts, &name.to_string(), SECOND).expect("at once").expect("allowed").failed();
        }
        assert!(attempts.lock().counts.len() <= MOST_KEPT);
        assert!(!is_let_in(&attempts, "guilty", 2 * SECOND));
    }
}
