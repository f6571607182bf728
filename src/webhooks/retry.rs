//! When a delivery that failed is tried again.

use crate::clock::{DAY, HOUR, MINUTE, SECOND};

/// How long to wait after each failure; after the last, it is given up.
const WAITS: [i64; 7] = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR];

/// After so long of nothing but failures nothing is sent any more.
pub const PATIENCE: i64 = 5 * DAY;

/// How long to wait after so many failures, up to a tenth longer by chance: what failed together is not tried together.
pub fn wait_after(failures: i64, chance: u8) -> Option<i64> {
    let wait = *WAITS.get(usize::try_from(failures - 1).ok()?)?;
    Some(wait + wait / 10 * i64::from(chance) / i64::from(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_eight_times_in_a_little_more_than_a_day() {
        let least: Vec<i64> = (1..).map_while(|failures| wait_after(failures, 0)).map(|wait| wait / SECOND).collect();
        assert_eq!(least, [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]);
        let most: Vec<i64> = (1..).map_while(|failures| wait_after(failures, 255)).map(|wait| wait / 100_000).collect();
        assert_eq!(most, [55, 3_300, 19_800, 79_200, 198_000, 396_000, 396_000], "tenths of a second");
        assert_eq!((wait_after(8, 0), wait_after(0, 0)), (None, None));
    }
}
