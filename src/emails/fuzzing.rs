//! Entry points for fuzzers: each takes any bytes and panics when a promise is broken.

use super::schedule;
use crate::clock::HOUR;

/// Friday, 2 January 2026, 15:30 UTC.
const NOW: i64 = 1_767_367_800_000_000;

/// Any bytes as the time of a mail: one that is understood lies within the next 30 days. Tells
/// whether it was.
pub fn schedule_text(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let at = schedule::parse(text, NOW);
    at.iter().for_each(|at| assert!((NOW + 1..=NOW + 30 * 24 * HOUR).contains(at), "{text:?}: {at}"));
    if let Some(span) = schedule::parse_span(text) {
        assert!(span >= 0, "{text:?}: {span}");
    }
    at.is_ok()
}
