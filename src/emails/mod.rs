//! Emails: what is handed in to be sent, and what became of it.

mod base64;
mod body;
mod contents;
mod contents_read;
mod decisions;
mod decisions_routes;
mod draft;
mod email;
mod fetch;
mod filter;
mod fuzzing;
mod incoming;
mod line;
mod links;
mod page_one;
mod pages;
mod progress;
mod queue;
mod retention;
mod routes;
mod schedule;
mod send;
mod sender;
mod shapes;
mod state;
mod store;

pub use body::{LARGEST, MOST_ADDRESSES, check_subject};
pub use email::{Content, Lane, NewAttachment, NewEmail, Origin, Written, WrittenMessage};
pub use fuzzing::schedule_text;
pub use incoming::{Handover, Incoming};
pub use line::{TEST as TEST_LINE, line};
pub use pages::router as pages;
pub use progress::{Progress, Step, progress};
pub use queue::{Ready, add, check_sender, hand_in, queue, queued_payload, tell_queued};
pub use retention::sweep;
pub use routes::{doors as link_routes, router as routes};
pub use state::State;
pub use store::{
    Attachment, Envelope, HTML as HTML_PART, MESSAGE as MESSAGE_PART, NewEvent, Stored, Summary, TEXT as TEXT_PART,
    add_event, chunk, insert, load, message_id, of_run, raise, tally,
};

use crate::app::holds_app;
use crate::db::Sql;
use crate::domains::Domains;
use crate::http_client::Reach;
use crate::occurrences::Occurrences;
use fetch::Fetcher;

pub const STATEMENTS: &[&[Sql]] = &[decisions::ALL, filter::ALL, progress::ALL, retention::ALL, store::ALL];

/// What emails need: who is told of them, who may send, and what fetches attachments. Clones share it.
#[derive(Clone)]
pub struct Emails {
    occurrences: Occurrences,
    domains: Domains,
    fetcher: Fetcher,
}

impl Emails {
    pub fn new(occurrences: Occurrences, domains: Domains) -> Emails {
        let reach = if occurrences.config.private_webhooks { Reach::Anywhere } else { Reach::Public };
        Emails { fetcher: Fetcher::new(reach), occurrences, domains }
    }
}

holds_app!(Emails { occurrences: Occurrences });
