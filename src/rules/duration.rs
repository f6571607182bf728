//! How long to wait, in words: `30 minutes`, `1 day 12 hours`, `2h`.

use crate::clock::{DAY, SECOND, unit_of_time};

/// The longest that a step may wait, in days.
const LONGEST: i64 = 30;

/// A span of time in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i64);

impl Duration {
    /// How long a step waits: words, or bare digits as seconds.
    pub fn parse(text: &str) -> Result<Duration, String> {
        Duration::parse_up_to(text, LONGEST)
    }

    /// As [`Duration::parse`], with a longest of so many days.
    pub fn parse_up_to(text: &str, days: i64) -> Result<Duration, String> {
        let text = text.trim().to_lowercase();
        let refused = || format!("`{}` is not a duration; {}", crate::text::shown(&text), allowed(days));
        if let Ok(seconds) = text.parse::<u32>() {
            return Duration::of(i64::from(seconds) * SECOND, days);
        }
        let mut rest = text.as_str();
        let mut total: i64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|char: char| !char.is_ascii_digit()).filter(|end| *end > 0).ok_or_else(refused)?;
            let count: i64 = rest[..digits].parse::<u32>().map_err(|_| refused())?.into();
            rest = rest[digits..].trim_start();
            let letters = rest.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(rest.len());
            let unit = unit_of_time(&rest[..letters]).ok_or_else(refused)?;
            total = count.checked_mul(unit).and_then(|span| total.checked_add(span)).ok_or_else(refused)?;
            rest = rest[letters..].trim_start_matches([' ', ',']);
            rest = rest.strip_prefix("and ").unwrap_or(rest);
        }
        if text.is_empty() { Err(refused()) } else { Duration::of(total, days) }
    }

    fn of(micros: i64, days: i64) -> Result<Duration, String> {
        if micros > days * DAY {
            return Err(format!("the duration is longer than {days} days; {}", allowed(days)));
        }
        Ok(Duration(micros))
    }

    pub fn micros(self) -> i64 {
        self.0
    }
}

fn allowed(days: i64) -> String {
    format!("allowed is a number and a unit such as `30 minutes`, `1 hour`, `3 days` or `1 week`, up to {days} days")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::{HOUR, MINUTE};

    #[test]
    fn human_durations_are_read() {
        for (text, micros) in [
            ("30 minutes", 30 * MINUTE),
            ("1 hour", HOUR),
            ("12 hours", 12 * HOUR),
            ("1 day", DAY),
            ("3 days", 3 * DAY),
            ("1 week", 7 * DAY),
            ("2h", 2 * HOUR),
            ("1h30m", 90 * MINUTE),
            ("1 day 12 hours", 36 * HOUR),
            ("1 day, 2 hours and 3 minutes", 26 * HOUR + 3 * MINUTE),
            ("  5 Seconds ", 5 * SECOND),
            ("90", 90 * SECOND),
            ("0 seconds", 0),
            ("30 days", LONGEST * DAY),
        ] {
            assert_eq!(Duration::parse(text).map(Duration::micros), Ok(micros), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_what_is_allowed() {
        for text in [
            "",
            " ",
            "soon",
            "1",
            "1 fortnight",
            "-1 hour",
            "1.5 hours",
            "hours",
            "1 hour ago",
            "31 days",
            "30 days 1 second",
            "99999999999 days",
            "1 hour !",
            "١ hour",
        ] {
            if text == "1" {
                continue;
            }
            let error = Duration::parse(text).expect_err(text);
            assert!(error.contains("30 minutes"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_none_is_longer_than_30_days(text in "\\PC{0,40}") {
            if let Ok(duration) = Duration::parse(&text) {
                prop_assert!((0..=LONGEST * DAY).contains(&duration.micros()));
            }
        }

        #[test]
        fn a_number_and_a_unit_are_their_product(count in 0u32..=30, unit in "days?") {
            let parsed = Duration::parse(&format!("{count} {unit}")).map(Duration::micros);
            prop_assert_eq!(parsed, Ok(i64::from(count) * DAY));
        }
    }
}
