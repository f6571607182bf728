//! How people end and choose what they get: links that need no log-in, what mail programs do with
//! one click, and the page on which a person chooses, in the name and colour of its workspace.

mod branding;
mod branding_page;
mod colors;
mod links;
mod mail;
mod pages;
mod preferences;

use std::sync::Arc;
use std::time::Duration;

pub use branding::{Frame, router as routes};
pub use branding_page::router as dashboard;
pub use links::{Links, Subscriber};
pub use pages::{problem, router as pages};

use crate::app::holds_app;
use crate::db::Sql;
use crate::limits::{Attempts, RateLimit};
use crate::occurrences::Occurrences;

pub const STATEMENTS: &[&[Sql]] = &[branding::ALL, mail::ALL];

/// The keys under which templates name the link with which their recipient unsubscribes.
pub const URL_KEYS: [&str; 2] = ["UNSUBSCRIBE_URL", "RESEND_UNSUBSCRIBE_URL"];

/// How many links an address may try in a minute that nobody made.
const FORGED: u32 = 60;

/// How often a contact may change what it gets, in a quarter of an hour.
const CHANGES: u32 = 60;

/// What pages that people choose on need beside what all share. Clones share it.
#[derive(Clone)]
pub struct Preferences {
    occurrences: Occurrences,
    limits: Arc<Limits>,
}

struct Limits {
    forged: RateLimit,
    changes: Attempts,
}

holds_app!(Preferences { occurrences: Occurrences });

impl Preferences {
    pub fn new(occurrences: Occurrences) -> Preferences {
        let exempt = !occurrences.config.limit_loopback;
        let forged = RateLimit::new(FORGED, Duration::from_secs(60), exempt);
        let limits = Limits { forged, changes: Attempts::new(CHANGES) };
        Preferences { occurrences, limits: Arc::new(limits) }
    }

    /// Forgets what strangers tried so long ago that it counts no more.
    pub fn sweep_limits(&self) {
        self.limits.forged.sweep();
        self.limits.changes.sweep(self.clock.steady());
    }
}
