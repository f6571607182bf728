//! What occurrences look like over HTTP.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::orders::Order;
use super::store::Stored;
use crate::clock::rfc3339;
use crate::contacts::Email;
use crate::db::from_row;
use crate::error::Error;
use crate::events::event::EventName;
use crate::id::{AutomationId, ContactId, OccurrenceId, RunId};

/// What happens, and to whom: exactly one of `contact_id` and `email`.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"event": "user.created", "email": "ada@example.com", "payload": {"plan": "pro"}}))]
pub struct EventToSend {
    /// The name of the event.
    pub event: EventName,
    /// The id of a contact.
    #[schema(value_type = Option<Uuid>)]
    pub contact_id: Option<ContactId>,
    /// The address of a contact, who is made where nobody has it.
    pub email: Option<Email>,
    /// Anything; keys that the event's schema knows are brought into its types.
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Value>,
}

/// The answer to sending an event.
#[derive(Serialize, ToSchema)]
#[schema(as = SentEvent)]
pub struct Sent {
    #[schema(pattern = "^event$")]
    object: &'static str,
    /// The name of the event.
    #[schema(value_type = String)]
    #[serde(serialize_with = "shared_text")]
    event: Arc<str>,
    /// The id of the occurrence.
    #[schema(value_type = Uuid)]
    id: OccurrenceId,
    /// The occurrence that this one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>, nullable = false)]
    replay_of: Option<OccurrenceId>,
    /// True where nobody had defined the event, and this first use of its name did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = true)]
    defined: Option<bool>,
}

impl Sent {
    pub fn of(order: &Order, defines: bool) -> Sent {
        Sent {
            object: "event",
            event: order.name.clone(),
            id: order.id,
            replay_of: order.replay_of,
            defined: defines.then_some(true),
        }
    }
}

fn shared_text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// The answer to sending many.
#[derive(Serialize, ToSchema)]
#[schema(as = SentEvents)]
pub struct SentMany {
    /// In the order in which they were sent.
    pub data: Vec<Sent>,
}

/// One time that an event happened.
#[derive(Serialize, ToSchema)]
#[schema(as = Occurrence)]
pub struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^occurrence$", nullable = false)]
    object: Option<&'static str>,
    #[schema(value_type = Uuid)]
    id: OccurrenceId,
    #[schema(example = "user.created")]
    event: String,
    #[schema(value_type = Uuid)]
    contact_id: ContactId,
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
    /// The occurrence that this one repeats.
    #[schema(value_type = Option<Uuid>, required = true)]
    replay_of: Option<OccurrenceId>,
    #[schema(format = DateTime)]
    created_at: String,
    /// The runs that it started; only where one occurrence is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    runs: Option<Vec<StartedRun>>,
}

/// A run that an occurrence started.
#[derive(Serialize, ToSchema)]
pub struct StartedRun {
    #[schema(value_type = Uuid)]
    pub automation_id: AutomationId,
    #[schema(value_type = Uuid)]
    pub id: RunId,
    #[schema(pattern = "^(running|completed|failed|cancelled)$")]
    pub status: String,
}

from_row!(StartedRun { automation_id, id, status });

impl Item {
    pub fn new(stored: Stored) -> Result<Item, Error> {
        Ok(Item {
            object: None,
            id: stored.id,
            event: stored.name,
            contact_id: stored.contact_id,
            payload: RawValue::from_string(stored.payload).map_err(|_| Error::Internal)?,
            replay_of: stored.replay_of,
            created_at: rfc3339(stored.created_at),
            runs: None,
        })
    }

    /// The same, as it is shown alone.
    pub fn with_runs(self, runs: Vec<StartedRun>) -> Item {
        Item { object: Some("occurrence"), runs: Some(runs), ..self }
    }
}
