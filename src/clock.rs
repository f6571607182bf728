//! Time and identity: what an hour is to the product, and ids that sort by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

pub const SECOND: i64 = 1_000_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;

/// The time of day in microseconds since 1970, which tests can set.
#[derive(Clone, Default)]
pub struct Clock {
    set: Option<Arc<AtomicI64>>,
    last_id: Arc<AtomicI64>,
}

impl Clock {
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that stands where it is put.
    pub fn fixed(micros: i64) -> Clock {
        Clock { set: Some(Arc::new(AtomicI64::new(micros))), last_id: Arc::default() }
    }

    /// Moves a fixed clock; a system clock cannot be moved.
    pub fn advance(&self, micros: i64) {
        if let Some(set) = &self.set {
            set.fetch_add(micros, Ordering::SeqCst);
        }
    }

    pub fn now(&self) -> i64 {
        if let Some(set) = &self.set {
            return set.load(Ordering::SeqCst);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    /// A UUIDv7 that is greater than every one made here before: each takes a
    /// microsecond of its own, so rows sort in the order in which they were made.
    pub fn ordered_id(&self) -> String {
        let now = self.now();
        let before = self.last_id.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(now.max(last + 1)));
        let tick = now.max(before.unwrap_or(now) + 1) as u64;
        let mut random: [u8; 10] = random_tail();
        // The ten bits behind the milliseconds hold the microseconds within them.
        let within = ((tick % 1000) as u16) << 2;
        random[0] = (within >> 8) as u8;
        random[1] = (within as u8 & 0xfc) | (random[1] & 0x03);
        canonical(Builder::from_unix_timestamp_millis(tick / 1000, &random).into_uuid())
    }

    /// A UUIDv7 of which everything but the millisecond is random: 74 bits that
    /// nobody guesses, for ids that stand in an address a stranger may see.
    pub fn unguessable_id(&self) -> String {
        let millis = self.now() as u64 / 1000;
        canonical(Builder::from_unix_timestamp_millis(millis, &random_tail()).into_uuid())
    }
}

/// The smallest id that a row made at this time could have.
pub fn first_id_at(micros: i64) -> String {
    let millis = u64::try_from(micros / 1000).unwrap_or(0);
    canonical(Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid())
}

fn random_tail() -> [u8; 10] {
    let random = Uuid::new_v4().into_bytes();
    // All but the two bytes in which a v4 says what it is.
    std::array::from_fn(|at| random[[0, 1, 2, 3, 4, 5, 7, 9, 10, 11][at]])
}

fn canonical(id: Uuid) -> String {
    id.as_hyphenated().to_string()
}

/// RFC 3339 in UTC with microseconds, as every answer shows it.
pub fn rfc3339(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |time| format!("{time:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_ids_sort_as_they_were_made_even_within_a_microsecond() {
        let clock = Clock::fixed(1_700_000_000_123_456);
        let ids: Vec<String> = (0..5_000).map(|_| clock.ordered_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 7)));
    }

    #[test]
    fn an_id_is_never_below_the_first_of_its_time() {
        let clock = Clock::fixed(1_700_000_000_123_456);
        assert!(clock.unguessable_id() >= first_id_at(clock.now()));
        assert!(clock.unguessable_id() < first_id_at(clock.now() + 2_000));
    }

    #[test]
    fn decisions_1_times_are_rfc3339_utc_with_microseconds() {
        assert_eq!(rfc3339(1_700_000_000_000_001), "2023-11-14T22:13:20.000001Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000Z");
    }
}
