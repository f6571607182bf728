//! What webhooks can be told, and how it is put into a commit: an event, and a delivery for each
//! webhook that listens to it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::store;
use crate::clock::{Clock, rfc3339};
use crate::db::{Batch, Columns, DbError, FromRow};
use crate::id::{AutomationId, RunId, SuppressionId, WebhookEventId, WorkspaceId};
use crate::text::{shown, words};
use crate::web;

words! {
    /// The type of an event. The store keeps the place in this list: new ones come behind the last.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum EventType: ALL, parse {
        EmailSent = "email.sent",
        EmailScheduled = "email.scheduled",
        EmailDelivered = "email.delivered",
        EmailDeliveryDelayed = "email.delivery_delayed",
        EmailComplained = "email.complained",
        EmailBounced = "email.bounced",
        EmailOpened = "email.opened",
        EmailClicked = "email.clicked",
        EmailReceived = "email.received",
        EmailFailed = "email.failed",
        EmailSuppressed = "email.suppressed",
        ContactCreated = "contact.created",
        ContactUpdated = "contact.updated",
        ContactDeleted = "contact.deleted",
        ContactTopicsUpdated = "contact.topics.updated",
        DomainCreated = "domain.created",
        DomainUpdated = "domain.updated",
        DomainDeleted = "domain.deleted",
        SuppressionAdded = "suppression.added",
        SuppressionRemoved = "suppression.removed",
        TopicCreated = "topic.created",
        TopicUpdated = "topic.updated",
        TopicDeleted = "topic.deleted",
        RunStarted = "automation.run.started",
        RunCompleted = "automation.run.completed",
        RunFailed = "automation.run.failed",
        RunCancelled = "automation.run.cancelled",
        GrantCreated = "oauth.grant.created",
        GrantRevoked = "oauth.grant.revoked",
    }
}

impl EventType {
    fn bit(self) -> i64 {
        1 << self as i64
    }
}

impl TryFrom<String> for EventType {
    type Error = String;

    fn try_from(text: String) -> Result<EventType, String> {
        let unknown = || format!("must be a type of event such as `email.sent`, but is `{}`", shown(&text));
        EventType::parse(&text).ok_or_else(unknown)
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<EventType, D::Error> {
        EventType::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for EventType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl PartialSchema for EventType {
    #[expect(deprecated, reason = "the example stands where those of derived schemas stand")]
    fn schema() -> RefOr<Schema> {
        let types = EventType::ALL.map(EventType::as_str);
        let schema: ObjectBuilder = web::text_schema().enum_values(Some(types)).example(Some("email.sent".into()));
        schema.description(Some("What happened.")).into()
    }
}

impl ToSchema for EventType {
    fn name() -> Cow<'static, str> {
        "WebhookEventType".into()
    }
}

/// Some types of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTypes(i64);

impl EventTypes {
    pub fn contains(self, one: EventType) -> bool {
        self.0 & one.bit() != 0
    }

    pub fn iter(self) -> impl Iterator<Item = EventType> {
        EventType::ALL.into_iter().filter(move |one| self.contains(*one))
    }

    /// As the store keeps them.
    pub fn bits(self) -> i64 {
        self.0
    }

    pub fn of_bits(bits: i64) -> EventTypes {
        EventTypes(bits)
    }
}

impl FromIterator<EventType> for EventTypes {
    fn from_iter<I: IntoIterator<Item = EventType>>(all: I) -> EventTypes {
        EventTypes(all.into_iter().fold(0, |bits, one| bits | one.bit()))
    }
}

impl FromRow for EventTypes {
    fn take(columns: &mut Columns<'_>) -> Result<EventTypes, DbError> {
        FromRow::take(columns).map(EventTypes)
    }
}

/// Under which condition an event happened, where only the commit that tells of it knows.
#[derive(Debug, Clone, Copy)]
pub enum When<'a> {
    Always,
    /// The contact with this address was made by the commit: its sequence is no higher.
    NewContact {
        email_key: &'a str,
        sequence: i64,
    },
    /// The suppression is there by now.
    Suppressed(SuppressionId),
    /// The contact was let in.
    RunBegan(AutomationId, RunId),
    /// The run was under way until this commit, which deletes it.
    RunCut(AutomationId, RunId),
}

/// Tells whoever listens to it that something happened, in the commit that lets it happen.
/// Whether somebody listens is looked up there: callers for whom that is too much ask before.
pub fn publish(
    batch: &mut Batch,
    clock: &Clock,
    workspace_id: WorkspaceId,
    (kind, when, now): (EventType, When<'_>, i64),
    data: &Value,
) {
    let id: WebhookEventId = clock.ordered_id();
    let payload = format!(r#"{{"type":"{kind}","created_at":"{}","data":{data}}}"#, rfc3339(now));
    let event = store::NewEvent { workspace_id, id, kind, payload: &payload, now };
    batch.push(match when {
        When::Always => store::add_event(&event, kind.bit()),
        When::NewContact { email_key, sequence } => {
            store::add_event_of_new_contact(&event, kind.bit(), email_key, sequence)
        }
        When::Suppressed(suppression_id) => store::add_event_of_suppression(&event, kind.bit(), suppression_id),
        When::RunBegan(automation_id, run_id) => store::add_event_of_run(&event, kind.bit(), automation_id, run_id),
        When::RunCut(automation_id, run_id) => store::add_event_of_cut_run(&event, kind.bit(), automation_id, run_id),
    });
    batch.push(store::add_deliveries(id, kind.bit(), clock.steady()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants;

    /// The store keeps places: one that moves would tell people what they never asked for.
    #[test]
    fn a_type_keeps_its_place() {
        let places = [("email.sent", 0), ("email.suppressed", 10), ("topic.deleted", 22), ("oauth.grant.revoked", 28)];
        for (word, place) in places {
            assert_eq!(EventType::parse(word).map(EventType::bit), Some(1 << place), "{word}");
        }
        assert!(EventType::ALL.len() < 63, "they have to fit into a number");
        assert_eq!(grants::REVOKED, (EventType::GrantRevoked.as_str(), EventType::GrantRevoked.bit()));
    }

    #[test]
    fn a_set_holds_what_it_was_made_of_in_the_order_of_the_list() {
        let set: EventTypes = [EventType::RunFailed, EventType::EmailSent, EventType::RunFailed].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [EventType::EmailSent, EventType::RunFailed]);
        assert!(set.contains(EventType::RunFailed) && !set.contains(EventType::EmailBounced));
        assert_eq!(EventTypes::of_bits(set.bits()), set);
    }
}
