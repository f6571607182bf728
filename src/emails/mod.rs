//! Emails: what is handed in to be sent, and what became of it.

mod base64;
mod body;
mod contents;
mod contents_read;
mod decisions;
mod decisions_routes;
mod draft;
mod email;
mod envelope;
mod fetch;
mod filter;
mod fuzzing;
mod incoming;
mod line;
mod links;
mod own_mail;
mod page_history;
mod page_one;
mod page_send;
mod page_share;
mod page_time;
mod pages;
mod progress;
mod published;
mod queue;
mod recipients;
mod retention;
mod routes;
mod schedule;
mod send;
mod sender;
mod shapes;
mod state;
mod store;
mod templated;
mod typed;
mod waiting;

pub use body::{AddressList, EmailToSend, LARGEST, MOST_ADDRESSES, Mailboxes, OneMailbox, Subject, check_subject};
pub use contents::Pieces;
pub use contents_read::long_html_alone;
pub use email::{Content, Lane, NewAttachment, NewEmail, Origin, Written, WrittenMessage};
pub use envelope::{Attachment, Envelope, HTML as HTML_PART, MESSAGE as MESSAGE_PART, TEXT as TEXT_PART};
pub use fuzzing::schedule_text;
pub use incoming::{Handover, Incoming};
pub use line::{TEST as TEST_LINE, line};
pub use links::{Link, Signer, open as open_link};
pub use own_mail::OwnMails;
pub use page_one::FileRow;
pub use page_send::{code as sending_as_code, send_fields};
pub use pages::{router as pages, titled};
pub use progress::{Progress, Step, progress};
pub use published::{mails as published_mails, publish};
pub use queue::{
    MailForm, Ready, add, check_sender, hand_in, queue, queued_payload, send as send_by_form, tell_queued,
};
pub use recipients::{
    Listed, NewRecipient, Wanted, add_recipients, addresses, count_by_state, forget_values, keep_values, kept_values,
    lane_waits, page_of_recipients, put_off, wake_put_off, why_lane_waits,
};
pub use retention::sweep;
pub use routes::{doors as link_routes, router as routes};
pub use schedule::parse as parse_schedule;
pub use send::{StoredFile, send_with_files};
pub use sender::line as line_of;
pub use shapes::Sent;
pub use state::{State, count, count_news};
pub use store::{
    FIRST_RECIPIENT, NewEvent, Stored, Summary, add_event, chunk, hand_on, insert, insert_tracked, load, load_small,
    message_id, of_run, raise, summary, tags, tally,
};
pub use typed::TypedMail;

use std::sync::Arc;

use crate::app::holds_app;
use crate::db::Sql;
use crate::domains::Domains;
use crate::http_client::Reach;
use crate::occurrences::Occurrences;
use crate::templates::Templates;
use fetch::Fetcher;

pub const STATEMENTS: &[&[Sql]] =
    &[decisions::ALL, filter::ALL, progress::ALL, recipients::ALL, retention::ALL, store::ALL, waiting::ALL];

/// What emails need: who is told of them, who may send, what they are made of, what fetches attachments, and what writes
/// the mails of broadcasts. Clones share it.
#[derive(Clone)]
pub struct Emails {
    occurrences: Occurrences,
    domains: Domains,
    templates: Templates,
    fetcher: Fetcher,
    own_mails: Arc<dyn OwnMails>,
}

impl Emails {
    pub fn new(
        occurrences: Occurrences,
        domains: Domains,
        templates: Templates,
        own_mails: Arc<dyn OwnMails>,
    ) -> Emails {
        let reach = if occurrences.config.private_webhooks { Reach::Anywhere } else { Reach::Public };
        Emails { fetcher: Fetcher::new(reach), occurrences, domains, templates, own_mails }
    }
}

holds_app!(Emails { occurrences: Occurrences });
