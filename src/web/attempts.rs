//! Failed attempts, counted: whoever fails too often has to wait, and is told
//! the same whether what he tries exists or not.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::clock::{MINUTE, SECOND};
use crate::error::Error;

/// How long failures are held against somebody.
const WINDOW: i64 = 15 * MINUTE;

/// Failures by whatever names who failed: an address, an account.
pub struct Attempts {
    most: u32,
    failures: Mutex<HashMap<String, Failures>>,
}

struct Failures {
    count: u32,
    since: i64,
}

impl Attempts {
    pub fn new(most: u32) -> Attempts {
        Attempts { most, failures: Mutex::default() }
    }

    /// Refuses who has failed too often lately.
    pub fn check(&self, who: &str, now: i64) -> Result<(), Error> {
        let Ok(failures) = self.failures.lock() else { return Ok(()) };
        match failures.get(who) {
            Some(failed) if failed.count >= self.most && now - failed.since < WINDOW => {
                Err(Error::RateLimited { retry_after: ((failed.since + WINDOW - now) / SECOND + 1) as u64 })
            }
            _ => Ok(()),
        }
    }

    pub fn failed(&self, who: &str, now: i64) {
        let Ok(mut failures) = self.failures.lock() else { return };
        let failed = failures.entry(who.to_owned()).or_insert(Failures { count: 0, since: now });
        if now - failed.since >= WINDOW {
            *failed = Failures { count: 0, since: now };
        }
        failed.count += 1;
    }

    pub fn sweep(&self, now: i64) {
        if let Ok(mut failures) = self.failures.lock() {
            failures.retain(|_, failed| now - failed.since < WINDOW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_too_often_waits_until_the_window_is_over() {
        let attempts = Attempts::new(3);
        for _ in 0..3 {
            assert!(attempts.check("a", 0).is_ok());
            attempts.failed("a", 0);
        }
        assert!(matches!(attempts.check("a", SECOND), Err(Error::RateLimited { retry_after: 900 })));
        assert!(attempts.check("b", SECOND).is_ok());
        assert!(attempts.check("a", WINDOW).is_ok());
        attempts.sweep(WINDOW);
        assert!(attempts.check("a", 1).is_ok());
    }
}
