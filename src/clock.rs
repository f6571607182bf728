//! Time and identity: what an hour is to the product, and ids that sort by it.
//!
//! There are two scales. *Wall time* is what a person reads off a clock; it is
//! shown, and it may be set. *Steady time* is what timers, leases and windows
//! count in: it advances with what really elapses, and a clock that is set does
//! not move it. Both are microseconds since 1970 and agree until a clock is set;
//! [`crate::db::clock`] lets all processes on a store agree on the second.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Serialize, Serializer};
use uuid::{Builder, Uuid};

use crate::id::Id;

pub const SECOND: i64 = 1_000_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// Where elapsed time is read: what also counts while the machine is suspended.
#[cfg(target_os = "linux")]
const ELAPSED: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const ELAPSED: ClockId = ClockId::Monotonic;

/// How many bits of an id tell apart those of one microsecond.
const SERIAL_BITS: u32 = 10;

/// The time, which tests can set. Clones share it.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    source: Source,
    /// The last tick that became an id.
    last: AtomicU64,
}

enum Source {
    /// Steady time is this much ahead of the time elapsed since the machine started.
    System {
        ahead: AtomicI64,
    },
    Fixed {
        wall: AtomicI64,
        steady: AtomicI64,
    },
}

impl Clock {
    /// The machine's clock. Until somebody sets it, its steady time is wall time.
    pub fn system() -> Clock {
        let ahead = AtomicI64::new(wall() - elapsed());
        Clock(Arc::new(Inner { source: Source::System { ahead }, last: AtomicU64::new(0) }))
    }

    /// A clock that stands where it is put.
    pub fn fixed(micros: i64) -> Clock {
        let source = Source::Fixed { wall: AtomicI64::new(micros), steady: AtomicI64::new(micros) };
        Clock(Arc::new(Inner { source, last: AtomicU64::new(0) }))
    }

    /// Lets time pass on a fixed clock; a system clock cannot be moved.
    pub fn advance(&self, micros: i64) {
        self.set_wall(micros);
        if let Source::Fixed { steady, .. } = &self.0.source {
            steady.fetch_add(micros, Ordering::SeqCst);
        }
    }

    /// Sets a fixed clock forward or back, without any time passing.
    pub fn set_wall(&self, by: i64) {
        if let Source::Fixed { wall, .. } = &self.0.source {
            wall.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// The time of day: what is shown, and what points in time are held against.
    pub fn now(&self) -> i64 {
        match &self.0.source {
            Source::System { .. } => wall(),
            Source::Fixed { wall, .. } => wall.load(Ordering::SeqCst),
        }
    }

    /// What timers, leases and windows count in. It is stored, and never shown.
    pub fn steady(&self) -> i64 {
        match &self.0.source {
            Source::System { ahead } => elapsed() + ahead.load(Ordering::Relaxed),
            Source::Fixed { steady, .. } => steady.load(Ordering::SeqCst),
        }
    }

    /// What clocks will show at a steady time, if nobody sets them.
    pub fn shown_at(&self, steady: i64) -> i64 {
        self.now() + (steady - self.steady())
    }

    /// Moves steady time: where a process starts, and where it was found to be
    /// off the time that all processes on its store share.
    pub(crate) fn move_steady(&self, by: i64) {
        match &self.0.source {
            Source::System { ahead: at } | Source::Fixed { steady: at, .. } => at.fetch_add(by, Ordering::SeqCst),
        };
    }

    /// Lets every id that is made from now on be greater than those of `micros`.
    pub(crate) fn pass_ids_of(&self, micros: i64) {
        self.0.last.fetch_max(Tick::first_at(micros + 1).0, Ordering::SeqCst);
    }

    /// The next tick; no other of this process is as great.
    pub fn tick(&self) -> Tick {
        let now = Tick::first_at(self.steady()).0;
        let next = |last: u64| Some(now.max(last + 1));
        let before = self.0.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        Tick(now.max(before.unwrap_or(now) + 1))
    }

    /// A UUIDv7 that is greater than every one made here before, so rows sort in
    /// the order in which they were made.
    pub fn ordered_id<T: Id>(&self) -> T {
        self.tick().id()
    }

    /// A UUIDv7 of which everything but the millisecond is random: 74 bits that
    /// nobody guesses, for ids that stand in an address a stranger may see.
    pub fn unguessable_id<T: Id>(&self) -> T {
        let millis = self.steady() as u64 / 1000;
        T::from(Builder::from_unix_timestamp_millis(millis, &random_tail()).into_uuid())
    }
}

/// The time of day, as this machine has it.
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn elapsed() -> i64 {
    let since = clock_gettime(ELAPSED);
    since.tv_sec * SECOND + since.tv_nsec / 1000
}

/// A microsecond of steady time, and a number that tells it from others in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

impl Tick {
    fn first_at(micros: i64) -> Tick {
        Tick(u64::try_from(micros).unwrap_or(0) << SERIAL_BITS)
    }

    /// Its steady time.
    pub fn at(self) -> i64 {
        (self.0 >> SERIAL_BITS) as i64
    }

    /// As a number that no other tick of this process is.
    pub fn number(self) -> i64 {
        self.0 as i64
    }

    /// A UUIDv7 that sorts as the tick does: behind the milliseconds stand the
    /// microseconds within them and the number; the other 54 bits are random.
    pub fn id<T: Id>(self) -> T {
        let (micros, serial) = (self.at() as u128, u128::from(self.0) & ((1 << SERIAL_BITS) - 1));
        let order = (micros % 1000) << SERIAL_BITS | serial;
        let random = Uuid::new_v4().as_u128() & ((1 << 54) - 1);
        let id = (micros / 1000) << 80 | 7 << 76 | (order >> 8) << 64 | 2 << 62 | (order & 0xff) << 54 | random;
        T::from(Uuid::from_u128(id))
    }
}

/// The steady time at which an ordered id was made.
pub fn time_of(id: impl Id) -> i64 {
    let id = id.uuid().as_u128();
    let within = (id >> 66 & 0x3ff).min(999);
    // 48 bits of milliseconds.
    ((id >> 80) * 1000 + within) as i64
}

/// The smallest id that a row made at this steady time could have.
pub fn first_id_at(micros: i64) -> Uuid {
    let millis = u64::try_from(micros / 1000).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

fn random_tail() -> [u8; 10] {
    let random = Uuid::new_v4().into_bytes();
    // All but the two bytes in which a v4 says what it is.
    std::array::from_fn(|at| random[[0, 1, 2, 3, 4, 5, 7, 9, 10, 11][at]])
}

/// How long a unit of time is that people write, in lower case.
pub fn unit_of_time(word: &str) -> Option<i64> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7 * DAY,
        _ => return None,
    })
}

/// A moment of wall time, which answers show in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rfc3339(self.0))
    }
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
        let ids: Vec<Uuid> = (0..5_000).map(|_| clock.ordered_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn an_ordered_id_tells_when_it_was_made() {
        let clock = Clock::fixed(1_700_000_000_123_456);
        for _ in 0..1_000 {
            assert_eq!(time_of(clock.ordered_id::<Uuid>()), clock.steady());
        }
    }

    #[test]
    fn ids_ascend_and_steady_time_goes_on_when_the_clock_is_set_back() {
        let clock = Clock::fixed(1_700_000_000_123_456);
        let (before, steady) = (clock.ordered_id::<Uuid>(), clock.steady());
        clock.set_wall(-HOUR);
        assert_eq!((clock.now(), clock.steady()), (steady - HOUR, steady));
        assert!(clock.ordered_id::<Uuid>() > before);
        clock.pass_ids_of(steady + SECOND);
        assert!(clock.tick().at() > steady + SECOND);
    }

    #[test]
    fn the_time_that_a_machine_counts_passes_as_it_elapses() {
        let clock = Clock::system();
        assert!((clock.steady() - clock.now()).abs() < MINUTE);
        let before = clock.steady();
        clock.move_steady(-HOUR);
        assert!(clock.steady() < before);
    }

    #[test]
    fn an_id_is_never_below_the_first_of_its_time() {
        let clock = Clock::fixed(1_700_000_000_123_456);
        assert!(clock.unguessable_id::<Uuid>() >= first_id_at(clock.now()));
        assert!(clock.unguessable_id::<Uuid>() < first_id_at(clock.now() + 2_000));
    }

    #[test]
    fn decisions_1_times_are_rfc3339_utc_with_microseconds() {
        assert_eq!(rfc3339(1_700_000_000_000_001), "2023-11-14T22:13:20.000001Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000Z");
    }
}
