//! How often an address may knock.

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
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let pace = span / count.get();
        let quota = Quota::with_period(pace).unwrap_or(Quota::per_second(count)).allow_burst(count);
        RateLimit { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default(), exempt_loopback }
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
