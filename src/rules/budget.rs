//! What one turn of a run may cost. A run is brought on between two commits while
//! other runs and requests wait for the same thread, so whatever looks at values
//! of unknown size says how many bytes it looked at.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that a turn has looked at, or put into what it does.
#[derive(Debug, Default)]
pub struct Budget {
    spent: AtomicUsize,
}

impl Budget {
    /// A turn that has cost this much goes no further: the run is committed where it
    /// stands, and takes its next step in another turn, behind others.
    pub const TURN: usize = 1 << 20;

    /// What a single step may cost beyond that. There is no place to stop within a
    /// step, so one that costs more has failed.
    pub const STEP: usize = 4 << 20;

    pub fn spend(&self, bytes: usize) {
        self.spent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn spent(&self) -> usize {
        self.spent.load(Ordering::Relaxed)
    }

    /// Whether others should have a turn before anything else is done.
    pub fn is_heavy(&self) -> bool {
        self.spent() > Budget::TURN / 16
    }

    pub fn is_turn_over(&self) -> bool {
        self.spent() > Budget::TURN
    }

    /// `Err` says why a step cannot be finished.
    pub fn check(&self) -> Result<(), String> {
        match self.spent() > Budget::TURN + Budget::STEP {
            true => Err(format!("its rules would have to look through more than {} MiB", Budget::STEP >> 20)),
            false => Ok(()),
        }
    }
}
