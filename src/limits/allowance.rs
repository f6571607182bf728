//! How many requests a second callers may make, each credential and each workspace, of this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::clock::SECOND;

/// How many callers are remembered before those of earlier seconds are forgotten.
const MOST_KEPT: usize = 10_000;

/// Windows of one second; 0 is no limit.
pub struct Allowances {
    per_key: u32,
    per_workspace: u32,
    /// The second, and how many requests came in it.
    counts: Mutex<HashMap<Uuid, (i64, u32)>>,
}

/// What a caller has left of this second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub limit: u32,
    pub remaining: u32,
    /// Whether this request was one too many.
    pub is_exceeded: bool,
}

impl Allowance {
    /// Seconds after which it begins anew.
    pub const RESET: u64 = 1;
}

impl Allowances {
    pub fn new(per_key: u32, per_workspace: u32) -> Allowances {
        Allowances { per_key, per_workspace, counts: Mutex::default() }
    }

    pub fn are_limited(&self) -> bool {
        self.per_key > 0 || self.per_workspace > 0
    }

    /// The least number of requests a second that a caller may make.
    pub fn limit(&self) -> Option<u32> {
        [self.per_key, self.per_workspace].into_iter().filter(|limit| *limit > 0).min()
    }

    /// Counts a request; what is left is of the limit that is reached first. `now` is in steady time.
    pub fn take(&self, key: Uuid, workspace: Uuid, now: i64) -> Option<Allowance> {
        if !self.are_limited() {
            return None;
        }
        let second = now.div_euclid(SECOND);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST_KEPT {
            counts.retain(|_, (counted, _)| *counted == second);
        }
        let mut left = |who: Uuid, limit: u32| {
            let (counted, count) = counts.entry(who).or_insert((second, 0));
            if *counted != second {
                (*counted, *count) = (second, 0);
            }
            *count = count.saturating_add(1);
            Allowance { limit, remaining: limit.saturating_sub(*count), is_exceeded: *count > limit }
        };
        let of_key = (self.per_key > 0).then(|| left(key, self.per_key));
        // What the key may not do does not count against its workspace.
        let of_workspace = (self.per_workspace > 0 && !of_key.is_some_and(|allowance| allowance.is_exceeded))
            .then(|| left(workspace, self.per_workspace));
        let reached_first = |allowance: &Allowance| (!allowance.is_exceeded, allowance.remaining);
        of_key.into_iter().chain(of_workspace).min_by_key(reached_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);
    const HOME: Uuid = Uuid::from_u128(3);

    fn is_let_in(allowances: &Allowances, key: Uuid, now: i64) -> bool {
        !allowances.take(key, HOME, now).expect("a limit").is_exceeded
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let allowances = Allowances::new(0, 0);
        assert_eq!((allowances.take(A, HOME, 0), allowances.limit()), (None, None));
    }

    #[test]
    fn a_key_gets_its_count_in_each_second_and_others_get_theirs() {
        let allowances = Allowances::new(2, 0);
        let took = |key, now| allowances.take(key, HOME, now).expect("a limit");
        assert_eq!(took(A, 0), Allowance { limit: 2, remaining: 1, is_exceeded: false });
        assert_eq!(took(A, SECOND - 1), Allowance { limit: 2, remaining: 0, is_exceeded: false });
        assert_eq!(took(A, SECOND - 1), Allowance { limit: 2, remaining: 0, is_exceeded: true });
        assert!(is_let_in(&allowances, B, SECOND - 1) && is_let_in(&allowances, A, SECOND));
    }

    #[test]
    fn the_limit_that_is_reached_first_holds() {
        let allowances = Allowances::new(2, 3);
        assert!([A, A, B].into_iter().all(|key| is_let_in(&allowances, key, 0)));
        assert!(!is_let_in(&allowances, B, 0), "the workspace has had its three");
        let allowances = Allowances::new(1, 3);
        assert!(is_let_in(&allowances, A, 0) && !is_let_in(&allowances, A, 0) && !is_let_in(&allowances, A, 0));
        assert!(is_let_in(&allowances, B, 0), "what a key is refused is not its workspace's");
    }
}
