//! Reports that relays send by HTTP on mail that they were given: Amazon SES by SNS, Mailgun and
//! Postmark. Each proves in its own way that it is the relay; which mail is meant is said by what we
//! have signed, never by an address.

mod routes;
mod sns;
mod store;

use std::sync::Arc;
use std::time::Duration;

pub use routes::router as routes;
pub use store::sweep;

use crate::app::holds_app;
use crate::db::Sql;
use crate::delivery::Feedback;
use crate::limits::RateLimit;
use crate::occurrences::Occurrences;
use sns::Amazon;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

/// How many reports an address may send in a minute that prove nothing.
const FORGED: u32 = 60;

/// What taking reports needs beside what all share. Clones share it.
#[derive(Clone)]
pub struct RelayReports {
    occurrences: Occurrences,
    feedback: Feedback,
    amazon: Arc<Amazon>,
    forged: Arc<RateLimit>,
}

holds_app!(RelayReports { occurrences: Occurrences });

impl RelayReports {
    pub fn new(occurrences: Occurrences) -> RelayReports {
        let exempt = !occurrences.config.limit_loopback;
        RelayReports {
            feedback: Feedback::new(occurrences.clone()),
            amazon: Arc::new(Amazon::new(occurrences.config.feedback.ses_topic.clone())),
            forged: Arc::new(RateLimit::new(FORGED, Duration::from_secs(60), exempt)),
            occurrences,
        }
    }

    /// Forgets what strangers tried so long ago that it counts no more.
    pub fn sweep_limits(&self) {
        self.forged.sweep();
    }
}
