//! Emails: what is handed in to be sent, and what became of it.

mod email;
mod line;
mod schedule;
mod state;
mod store;

pub use email::{Content, Lane, NewAttachment, NewEmail, Origin};
pub use line::{TEST as TEST_LINE, line};
pub use state::State;
pub use store::{Attachment, Envelope, NewEvent, Stored, Summary, add_event, chunk, insert, load, message_id, tally};

use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
