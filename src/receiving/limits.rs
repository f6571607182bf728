//! How much may come in: from one address, and for one workspace.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::config::Config;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::limits::RateLimit;

const SPAN: Duration = Duration::from_secs(60);

pub struct Limits {
    addresses: RateLimit,
    workspaces: DefaultKeyedRateLimiter<WorkspaceId>,
    clock: DefaultClock,
}

impl Limits {
    pub fn of(config: &Config) -> Limits {
        let settings = &config.submission;
        let count = NonZeroU32::new(settings.received_rate).unwrap_or(NonZeroU32::MIN);
        Limits {
            addresses: RateLimit::new(settings.inbound_rate, SPAN, !config.limit_loopback),
            workspaces: RateLimiter::keyed(Quota::per_minute(count)),
            clock: DefaultClock::default(),
        }
    }

    /// Counts a message that is about to come.
    pub fn check(&self, address: IpAddr, workspace_id: WorkspaceId) -> Result<(), Error> {
        self.addresses.check(address)?;
        self.workspaces.check_key(&workspace_id).map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            Error::RateLimited { retry_after: wait.as_secs() + 1 }
        })
    }

    pub fn sweep(&self) {
        self.addresses.sweep();
        self.workspaces.retain_recent();
        self.workspaces.shrink_to_fit();
    }
}
