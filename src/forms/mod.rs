//! Forms with which strangers subscribe: a page of ours, or a form on somebody's own page that is
//! sent to it. Whoever fills one in gets a mail, and is subscribed only by what he does behind its
//! link: nobody can subscribe somebody else.

mod confirmation;
mod dashboard;
mod form;
mod pages;
mod routes;
mod signup;
mod store;

use std::sync::Arc;
use std::time::Duration;

pub use dashboard::router as dashboard;
pub use pages::router as pages;
pub use routes::router as routes;
pub use store::sweep;

use crate::app::holds_app;
use crate::db::Sql;
use crate::emails::Emails;
use crate::limits::{Attempts, RateLimit};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

/// How many forms an address may send in an hour.
const FROM_ADDRESS: u32 = 20;

/// How many mails a form sends in a quarter of an hour.
const OF_FORM: u32 = 300;

/// What forms need beside what all share. Clones share it.
#[derive(Clone)]
pub struct Forms {
    emails: Emails,
    limits: Arc<Limits>,
}

struct Limits {
    by_address: RateLimit,
    by_form: Attempts,
}

holds_app!(Forms { emails: Emails });

impl Forms {
    pub fn new(emails: Emails) -> Forms {
        let exempt = !emails.config.limit_loopback;
        let by_address = RateLimit::new(FROM_ADDRESS, Duration::from_secs(3600), exempt);
        Forms { emails, limits: Arc::new(Limits { by_address, by_form: Attempts::new(OF_FORM) }) }
    }

    /// Forgets what strangers did so long ago that it counts no more.
    pub fn sweep_limits(&self) {
        self.limits.by_address.sweep();
        self.limits.by_form.sweep(self.clock.steady());
    }
}
