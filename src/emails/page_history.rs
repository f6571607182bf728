//! What happened to a mail, as its page tells it.

use serde_json::{Map, Value};

use super::store::{Recipient, Stored};
use crate::db::{DbError, Row};
use crate::web::Stamp;

pub struct HistoryRow {
    pub at: Stamp,
    pub what: String,
    pub to: Option<String>,
    /// As JSON.
    pub more: Option<String>,
}

/// From when it was handed in to what happened last.
pub fn history(email: &Stored, recipients: &[Recipient], events: &[Row]) -> Result<Vec<HistoryRow>, DbError> {
    let first = if email.summary.scheduled_at.is_some() { "scheduled" } else { "queued" };
    let first = HistoryRow { at: Stamp::exact(email.summary.created_at), what: first.into(), to: None, more: None };
    let one = |row: &Row| {
        let (number, detail) = (row.maybe(0, Row::int)?, with_visitor(row.text(2)?, row.maybe(4, Row::text)?));
        let to = recipients.iter().find(|recipient| Some(recipient.number) == number);
        Ok(HistoryRow {
            at: Stamp::exact(row.int(3)?),
            what: row.text(1)?,
            to: to.map(|recipient| recipient.address.clone()),
            more: Some(detail).filter(|detail| detail != "{}"),
        })
    };
    std::iter::once(Ok(first)).chain(events.iter().map(one)).collect()
}

/// What happened, together with who did it as long as that is kept.
fn with_visitor(detail: String, visitor: Option<String>) -> String {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    match visitor.and_then(|visitor| read(&visitor)).zip(read(&detail)) {
        Some((visitor, detail)) => Value::Object(detail.into_iter().chain(visitor).collect()).to_string(),
        None => detail,
    }
}
