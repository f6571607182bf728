//! What one turn of a run may cost. A run is brought on between two commits while
//! other runs and requests wait for the same thread, so whatever looks at values
//! of unknown size says how many bytes it looked at.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that a turn has looked at, or put into what it does.
#[derive(Debug, Default)]
pub struct Budget {
    spent: AtomicUsize,
    is_light: bool,
}

impl Budget {
    /// A turn that has cost this much goes no further: the run is committed where it
    /// stands, and takes its next step in another turn, behind others.
    pub const TURN: usize = 1 << 20;

    /// What a single step may cost beyond that. There is no place to stop within a
    /// step, so one that costs more has failed.
    pub const STEP: usize = 4 << 20;

    /// What a turn may cost on a thread that has others to answer.
    pub const LIGHT: usize = Budget::TURN / 16;

    /// For a turn that is tried where others wait: most are light. Of one that is not, what came of
    /// it is nothing, and it is taken anew with a whole budget, elsewhere.
    pub fn light() -> Budget {
        Budget { is_light: true, ..Budget::default() }
    }

    pub fn spend(&self, bytes: usize) {
        self.spent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn spent(&self) -> usize {
        self.spent.load(Ordering::Relaxed)
    }

    /// Whether what came of the turn is nothing, because a light budget was not enough for it.
    pub fn is_too_light(&self) -> bool {
        self.is_light && self.spent() > Budget::LIGHT
    }

    pub fn is_turn_over(&self) -> bool {
        self.spent() > if self.is_light { Budget::LIGHT } else { Budget::TURN }
    }

    /// `Err` says why a step cannot be finished.
    pub fn check(&self) -> Result<(), String> {
        let most = if self.is_light { Budget::LIGHT } else { Budget::TURN + Budget::STEP };
        match self.spent() > most {
            true => Err(format!("its rules would have to look through more than {} MiB", Budget::STEP >> 20)),
            false => Ok(()),
        }
    }
}
