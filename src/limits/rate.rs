//! How often an address may knock.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::error::Error;
use crate::limits::neighbourhood;

/// A number of requests that every address may make in a span of time.
pub struct RateLimit {
    limiter: DefaultKeyedRateLimiter<IpAddr>,
    clock: DefaultClock,
    exempt_loopback: bool,
}

impl RateLimit {
    /// `count` requests at once, one more whenever `span / count` has passed.
    pub fn new(count: u32, span: Duration, exempt_loopback: bool) -> RateLimit {
        RateLimit { limiter: RateLimiter::keyed(quota(count, span)), clock: DefaultClock::default(), exempt_loopback }
    }

    pub fn check(&self, address: IpAddr) -> Result<(), Error> {
        if self.exempt_loopback && address.to_canonical().is_loopback() {
            return Ok(());
        }
        self.limiter.check_key(&neighbourhood(address)).map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            Error::RateLimited { retry_after: wait.as_secs() + 1 }
        })
    }

    /// Forgets the addresses that have their full allowance again.
    pub fn sweep(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}

/// The same of whatever a key names: how often it may happen.
pub struct KeyedLimit<K: Hash + Eq + Clone>(DefaultKeyedRateLimiter<K>);

impl<K: Hash + Eq + Clone> KeyedLimit<K> {
    pub fn new(count: u32, span: Duration) -> KeyedLimit<K> {
        KeyedLimit(RateLimiter::keyed(quota(count, span)))
    }

    /// Whether it may happen once more, which counts.
    pub fn has_room(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }

    pub fn sweep(&self) {
        self.0.retain_recent();
        self.0.shrink_to_fit();
    }
}

/// `count` at once, one more whenever `span / count` has passed.
fn quota(count: u32, span: Duration) -> Quota {
    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    Quota::with_period(span / count.get()).unwrap_or(Quota::per_second(count)).allow_burst(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_gets_its_count_and_then_is_told_when_to_come_back() {
        let limit = RateLimit::new(3, Duration::from_secs(3600), true);
        for _ in 0..3 {
            assert!(limit.check(address("192.0.2.1")).is_ok());
        }
        let refused = limit.check(address("192.0.2.1")).expect_err("over");
        assert!(matches!(refused, Error::RateLimited { retry_after: 1..=1200 }), "{refused:?}");
        assert!(limit.check(address("192.0.2.2")).is_ok());
    }

    #[test]
    fn loopback_is_exempt_unless_a_setting_says_otherwise() {
        let (lenient, strict) =
            (RateLimit::new(1, Duration::from_secs(60), true), RateLimit::new(1, Duration::from_secs(60), false));
        for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!((0..5).all(|_| lenient.check(address(host)).is_ok()));
        }
        assert!(strict.check(address("127.0.0.1")).is_ok());
        assert!(strict.check(address("127.0.0.1")).is_err());
    }

    #[test]
    fn a_household_of_ipv6_addresses_counts_as_one() {
        let limit = RateLimit::new(1, Duration::from_secs(60), true);
        assert!(limit.check(address("2001:db8::1")).is_ok());
        assert!(limit.check(address("2001:db8::2")).is_err());
        assert!(limit.check(address("2001:db8:0:1::1")).is_ok());
    }
}
