//! Broadcasts: mail to everybody in a segment. What is said is stored once; each recipient is a row
//! that delivery brings on, and whose mail is written when it leaves, from what is known of the
//! contact at that moment.

mod actions;
mod audience;
mod body;
mod broadcast;
mod content;
mod count;
mod lanes;
mod mailing;
mod own_mail;
mod page_acts;
mod page_edit;
mod page_recipients;
mod page_review;
mod pages;
mod people;
mod progress;
mod recipients;
mod routes;
mod shapes;
mod store;
mod timing;

use std::sync::Arc;

use tokio::sync::Notify;
use utoipa_axum::router::OpenApiRouter;

use crate::app::holds_app;
use crate::db::Sql;
use crate::domains::Domains;
use crate::occurrences::Occurrences;
use crate::templates::Templates;

pub use actions::send_as_operator;
pub use audience::{round as audience_round, run as run_audiences};
pub use lanes::{Lane, Standing, Standings, waiting as waiting_lanes};
pub use mailing::Mailing;
pub use own_mail::MailsToRead;
pub use pages::router as pages;
pub use people::Person;
pub use progress::{Progress, Watched, watch};
pub use timing::{Priority, Timing};

pub const STATEMENTS: &[&[Sql]] = &[own_mail::ALL, people::ALL, store::ALL];

/// What broadcasts need: who is told of their mail, who may send it, what it is made of, and what
/// they were seen to have done by now. Clones share it.
#[derive(Clone)]
pub struct Broadcasts {
    occurrences: Occurrences,
    domains: Domains,
    templates: Templates,
    progress: Arc<progress::Samples>,
    /// Audiences that are being counted for somebody who looks on.
    counts: Arc<count::Counts>,
    /// Rings when one is to be sent.
    launched: Arc<Notify>,
}

impl Broadcasts {
    pub fn new(occurrences: Occurrences, domains: Domains, templates: Templates) -> Broadcasts {
        Broadcasts {
            occurrences,
            domains,
            templates,
            progress: Arc::default(),
            counts: Arc::default(),
            launched: Arc::default(),
        }
    }
}

holds_app!(Broadcasts { occurrences: Occurrences });

pub fn routes() -> OpenApiRouter<Broadcasts> {
    routes::router().merge(actions::router()).merge(recipients::router())
}
