//! What readers do with mail whose domain wants to know: opens by a picture, clicks by links that lead by way of us.
//! `docs/tracking.md` tells the rules.

mod fold;
mod fuzzing;
mod links;
mod machine;
mod rewrite;
mod routes;
mod store;

use std::sync::Arc;
use std::time::Duration;

pub use fold::{round, run, sweep};
pub use fuzzing::rewritten_links;
pub use links::{Keys, LinkWriter, Place};
pub use rewrite::Rewriter;
pub use routes::router as pages;
pub use store::{LinkCount, Totals, links as clicked_links, of_recipients, totals};

use crate::app::{App, holds_app};
use crate::db::Sql;
use crate::limits::{KeyedLimit, RateLimit};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

/// How many links an address may try in a minute that nobody made.
const FORGED: u32 = 60;

/// How many opens and clicks of one recipient of a mail are counted in a minute.
const OF_RECIPIENT: u32 = 60;

/// What takes opens and clicks. Clones share it.
#[derive(Clone)]
pub struct Tracker {
    app: App,
    keys: Keys,
    limits: Arc<Limits>,
}

struct Limits {
    forged: RateLimit,
    recipient: KeyedLimit<Place>,
}

holds_app!(Tracker { app: App });

impl Tracker {
    pub fn new(app: App) -> Tracker {
        let minute = Duration::from_secs(60);
        let forged = RateLimit::new(FORGED, minute, !app.config.limit_loopback);
        let limits = Limits { forged, recipient: KeyedLimit::new(OF_RECIPIENT, minute) };
        Tracker { app, keys: Keys::default(), limits: Arc::new(limits) }
    }

    /// Forgets what was done so long ago that it counts no more.
    pub fn sweep_limits(&self) {
        self.limits.forged.sweep();
        self.limits.recipient.sweep();
    }
}
