//! When what came to nothing is tried again, and when it is given up.

use crate::clock::{HOUR, MINUTE, SECOND};

/// As RFC 5321 asks for: four to five days.
const GIVEN_UP_AFTER: i64 = 5 * 24 * HOUR;

const FIRST_WAIT: i64 = 5 * MINUTE;
const LONGEST_WAIT: i64 = 4_000 * SECOND;

/// From when on a sender is told that his mail is late.
const LATE_AFTER: i64 = HOUR;
const LATE_FROM_TRY: i64 = 2;

/// How long to wait after so many tries, the last included; `None` where it has been tried for
/// long enough. A quarter more or less, so that what failed together does not come back together.
pub fn wait_after(tries: i64, waited: i64, chance: u16) -> Option<i64> {
    let doublings = u32::try_from(tries - 1).unwrap_or(0).min(16);
    let wait = (FIRST_WAIT << doublings).min(LONGEST_WAIT);
    let wait = wait / 4 * 3 + wait / 2 * i64::from(chance) / i64::from(u16::MAX);
    (waited + wait <= GIVEN_UP_AFTER).then_some(wait)
}

/// Whether it has waited for long enough.
pub fn is_over(waited: i64) -> bool {
    waited >= GIVEN_UP_AFTER
}

/// Whether it is late by now.
pub fn is_late(tries: i64, waited: i64) -> bool {
    tries >= LATE_FROM_TRY || waited >= LATE_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_bound_and_end_after_five_days() {
        assert_eq!(wait_after(1, 0, 0), Some(FIRST_WAIT / 4 * 3));
        assert_eq!(wait_after(1, 0, u16::MAX), Some(FIRST_WAIT / 4 * 5));
        assert!((1..4).all(|tries| wait_after(tries, 0, u16::MAX) < wait_after(tries + 1, 0, 0)));
        let longest = Some(LONGEST_WAIT / 4 * 5);
        assert_eq!((wait_after(5, 0, u16::MAX), wait_after(1_000, 0, u16::MAX)), (longest, longest));
        assert_eq!(wait_after(60, GIVEN_UP_AFTER - MINUTE, 0), None);
        assert!(wait_after(60, GIVEN_UP_AFTER - 2 * HOUR, 0).is_some());
    }

    #[test]
    fn mail_is_late_after_an_hour_or_two_tries() {
        assert!(!is_late(1, MINUTE) && is_late(2, MINUTE) && is_late(1, HOUR));
    }
}
