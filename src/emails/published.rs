//! What webhooks are told of mails: an event for each recipient, in the commit of what happened to it.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::state::State;
use super::store::{self, Summary};
use crate::clock::rfc3339;
use crate::db::{Db, DbError};
use crate::id::EmailId;
use crate::occurrences::OccurrenceBatch;
use crate::webhooks::EventType;

/// The mails of which webhooks are told something, read once each; none where nobody listens.
pub async fn mails<'a>(
    db: &Db,
    occurrences: &OccurrenceBatch<'_>,
    news: impl Iterator<Item = (EmailId, &'a [(State, Value)])>,
) -> Result<HashMap<EmailId, Summary>, DbError> {
    let is_told = |news: &[(State, Value)]| {
        news.iter().filter_map(|(state, _)| event_type(*state)).any(|kind| occurrences.is_published(kind))
    };
    let wanted: HashSet<EmailId> = news.filter(|(_, news)| is_told(news)).map(|(id, _)| id).collect();
    let found = try_join_all(wanted.into_iter().map(|id| store::summary(db, id))).await?;
    Ok(found.into_iter().flatten().map(|mail| (mail.id, mail)).collect())
}

/// Tells what happened to a recipient, whose own mail is called `told_as`.
pub fn publish(
    occurrences: &mut OccurrenceBatch<'_>,
    mail: &Summary,
    (told_as, address): (EmailId, &str),
    news: &[(State, Value)],
) {
    for (state, detail) in news {
        let Some(kind) = event_type(*state) else { continue };
        occurrences.publish(kind, || data(mail, (told_as, address), *state, detail));
    }
}

fn data(mail: &Summary, (told_as, address): (EmailId, &str), state: State, detail: &Value) -> Value {
    let mut data = json!({
        "email_id": told_as,
        "message_id": mail.message_id,
        "from": mail.sender,
        "to": [address],
        "subject": mail.subject,
        "created_at": rfc3339(mail.created_at),
        "tags": store::tags(&mail.envelope.tags),
    });
    if let Some(template_id) = mail.envelope.template_id {
        data["template_id"] = json!(template_id);
    }
    // The mail of one recipient of a broadcast has an id of its own.
    if told_as != mail.id {
        data["broadcast_id"] = json!(mail.id);
        if let Some((_, domain)) = mail.message_id.rsplit_once('@') {
            data["message_id"] = json!(format!("<{told_as}@{domain}"));
        }
    }
    match state {
        State::Bounced => data["bounce"] = detail["bounce"].clone(),
        State::Complained if !detail["complaint"].is_null() => data["complaint"] = detail["complaint"].clone(),
        State::Failed => data["failed"] = json!({"reason": detail["reason"]}),
        State::Suppressed => data["suppressed"] = json!({"message": detail["reason"], "type": "suppressed"}),
        State::Opened => data["open"] = detail.clone(),
        State::Clicked => data["click"] = detail.clone(),
        State::Delayed | State::Uncertain => data["delayed"] = json!({"reason": detail["reason"]}),
        _ => {}
    }
    data
}

fn event_type(state: State) -> Option<EventType> {
    match state {
        State::Sent => Some(EventType::EmailSent),
        State::Delivered => Some(EventType::EmailDelivered),
        State::Uncertain | State::Delayed => Some(EventType::EmailDeliveryDelayed),
        State::Opened => Some(EventType::EmailOpened),
        State::Clicked => Some(EventType::EmailClicked),
        State::Bounced => Some(EventType::EmailBounced),
        State::Complained => Some(EventType::EmailComplained),
        State::Failed => Some(EventType::EmailFailed),
        State::Suppressed => Some(EventType::EmailSuppressed),
        _ => None,
    }
}
