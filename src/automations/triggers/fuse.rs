//! Against loops: an automation calls the outside, the outside sends the event that
//! starts the automation. Within the product nothing can run in circles; through
//! the outside it can, as fast as both ends answer.
//!
//! Entries of one contact into one automation that calls are counted here, roughly:
//! a counter may be shared by several. Only where one is high is the store asked for
//! the true number, in the statement that would start the run.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::MINUTE;

const COUNTERS: usize = 1 << 14;

/// The time over which runs are counted.
pub const WINDOW: i64 = MINUTE;

/// What is written into the history of the run that is not taken any further.
pub const REASON: &str = "this looks like a loop: the contact started too many runs of this automation within a minute, \
                          and starts no more of them for a while";

pub struct Fuse {
    limit: u32,
    /// The minute in the upper half, the count of that minute in the lower.
    counters: Box<[AtomicU64]>,
}

impl Fuse {
    /// Lets one contact start so many runs of one automation in a minute; 0: any number.
    pub fn new(limit: u32) -> Fuse {
        Fuse { limit, counters: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub fn limit(&self) -> i64 {
        self.limit.into()
    }

    /// Counts an entry. `true` where there were so many lately that the store has to
    /// count them. Several processes see a part each, so that is well before the limit.
    pub fn is_hot(&self, automation_id: impl Hash, whom: impl Hash, now: i64) -> bool {
        if self.limit == 0 {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        (automation_id, whom).hash(&mut hasher);
        let counter = &self.counters[hasher.finish() as usize % COUNTERS];
        let minute = ((now / WINDOW) as u64) << 32;
        let count = |value: u64| if value & !u64::from(u32::MAX) == minute { value + 1 } else { minute + 1 };
        let before = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| Some(count(value)));
        let lately = before.map_or(0, count) & u64::from(u32::MAX);
        lately > u64::from(self.limit / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_comes_often_within_a_minute_is_looked_at() {
        let fuse = Fuse::new(80);
        assert!((0..10).all(|_| !fuse.is_hot("a", "c", 0)));
        assert!(fuse.is_hot("a", "c", WINDOW - 1));
        assert!(!fuse.is_hot("a", "d", 0) && !fuse.is_hot("b", "c", 0));
        assert!(!fuse.is_hot("a", "c", WINDOW), "another minute");
        let off = Fuse::new(0);
        assert!((0..10_000).all(|_| !off.is_hot("a", "c", 0)));
    }
}
