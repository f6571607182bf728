//! What webhooks, their events and the attempts to deliver them look like in answers.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::event::{EventType, EventTypes};
use super::webhook::Status;
use crate::clock::{Clock, Time};
use crate::db::{from_row, from_word};
use crate::id::{WebhookAttemptId, WebhookEventId, WebhookId};
use crate::seal::Seal;
use crate::text::words;

from_word!(EventType, Outcome);

/// A webhook as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookItem)]
pub struct Item {
    #[schema(pattern = "^webhook$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    pub(super) id: WebhookId,
    #[schema(example = "https://example.com/webhooks")]
    pub(super) endpoint: String,
    #[serde(serialize_with = "as_list")]
    #[schema(value_type = Vec<EventType>)]
    pub(super) events: EventTypes,
    pub(super) status: Status,
    /// Why it was disabled, where nobody did it; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "The endpoint answered 410 Gone.")]
    pub(super) disabled_reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Time,
}

from_row!(Item { object = "webhook", id, endpoint, events, status, disabled_reason, created_at });

fn as_list<S: serde::Serializer>(events: &EventTypes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(events.iter())
}

/// A webhook with what verifies its calls.
#[derive(Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookDetail {
    #[serde(flatten)]
    pub(super) item: Item,
    /// What every delivery is signed with; null where it cannot be opened here.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", required = true)]
    signing_secret: Option<String>,
}

from_row!(WebhookDetail { item, signing_secret });

impl WebhookDetail {
    /// With the secret as its owner knows it.
    pub fn opened(self, seal: &Seal) -> WebhookDetail {
        let signing_secret = self.signing_secret.and_then(|kept| seal.open_text(&kept));
        WebhookDetail { signing_secret, ..self }
    }
}

/// The answer to whoever made a webhook, or a new secret for it.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookSecret)]
pub struct Made {
    #[schema(pattern = "^webhook$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: WebhookId,
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    signing_secret: String,
}

impl Made {
    pub fn new(id: WebhookId, signing_secret: String) -> Made {
        Made { object: "webhook", id, signing_secret }
    }
}

words! {
    /// What became of an event on its way to a webhook: it waits, is being sent, has arrived, or was given up.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = WebhookEventStatus)]
    pub enum Outcome: ALL, parse {
        Pending = "pending",
        Attempting = "attempting",
        Success = "success",
        Failed = "failed",
    }
}

/// An event that was told to a webhook.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookEventItem)]
pub struct EventItem {
    /// The id that every delivery of the event carries behind `msg_`.
    #[schema(value_type = Uuid)]
    pub(super) id: WebhookEventId,
    #[serde(rename = "type")]
    pub(super) kind: EventType,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Time,
    pub(super) status: Outcome,
    #[serde(skip)]
    #[schema(ignore)]
    is_under_way: bool,
}

from_row!(EventItem { id, kind, created_at, status, is_under_way });

impl EventItem {
    /// As it is at this moment.
    pub fn now(self) -> EventItem {
        let is_being_sent = self.status == Outcome::Pending && self.is_under_way;
        EventItem { status: if is_being_sent { Outcome::Attempting } else { self.status }, ..self }
    }
}

/// An event with what is sent of it.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookEvent)]
pub struct EventDetail {
    #[schema(pattern = "^webhook_event$")]
    object: &'static str,
    #[serde(flatten)]
    pub(super) item: EventItem,
    /// When it is tried next; null where it is not.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub(super) next_attempt_at: Option<Time>,
    /// What is posted: `type`, `created_at` and `data`.
    #[schema(value_type = Object)]
    pub(super) payload: Value,
}

from_row!(EventDetail { object = "webhook_event", item, next_attempt_at, payload: json });

impl EventDetail {
    /// As it is at this moment, in the time that clocks show.
    pub fn now(self, clock: &Clock) -> EventDetail {
        let next_attempt_at = self.next_attempt_at.map(|Time(due)| Time(clock.shown_at(due)));
        EventDetail { item: self.item.now(), next_attempt_at, ..self }
    }
}

/// One attempt to deliver an event.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookAttempt)]
pub struct AttemptItem {
    #[schema(value_type = Uuid)]
    id: WebhookAttemptId,
    /// 0 where there was no answer.
    #[schema(example = 200)]
    pub(super) http_status_code: i64,
    /// How the answer began, up to 1 KiB.
    pub(super) response: String,
    /// Why it did not count as delivered; left out where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "the answer was 500")]
    pub(super) error: Option<String>,
    /// In milliseconds.
    #[schema(example = 42)]
    pub(super) duration: i64,
    #[schema(value_type = String, format = DateTime)]
    pub(super) sent_at: Time,
}

from_row!(AttemptItem { id, http_status_code, response, error, duration, sent_at });
