//! A mail that came in, as the store keeps it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::authentication::Authentication;
use crate::clock::rfc3339;
use crate::contacts;
use crate::db::from_row;
use crate::id::{AttachmentId, DomainId, ReceivedEmailId, WorkspaceId};
use crate::mime::{Mailbox, ReceivedFrom, Transfer};
use crate::occurrences::{OccurrenceBatch, SystemEvent};
use crate::webhooks::EventType;

/// What is kept of it beside its columns, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Envelope {
    pub to: Vec<String>,
    pub cc: Vec<String>,
    pub reply_to: Vec<String>,
    /// The addresses that it was brought for.
    pub received_for: Vec<String>,
    /// Whom bounces would go to; empty for nobody.
    pub return_path: String,
    pub attachments: Vec<Attachment>,
    pub authentication: Authentication,
}

/// A file in it: where it stands in the message, and how it is decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub id: AttachmentId,
    pub start: u64,
    pub end: u64,
    pub transfer: Transfer,
    /// When it is decoded.
    pub size: u64,
    pub content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
    pub is_inline: bool,
}

impl Attachment {
    pub fn disposition(&self) -> &'static str {
        if self.is_inline { "inline" } else { "attachment" }
    }
}

/// As lists show it.
#[derive(Debug, Clone)]
pub struct Summary {
    pub id: ReceivedEmailId,
    pub created_at: i64,
    pub sender: String,
    pub subject: String,
    pub message_id: String,
    pub envelope: Envelope,
    /// `None` where it is not kept any more.
    pub size: Option<i64>,
}

from_row!(Summary { id, created_at, sender, subject, message_id, envelope: json, size });

/// With its bodies.
#[derive(Debug, Clone)]
pub struct Stored {
    pub summary: Summary,
    pub html: Option<String>,
    pub text: Option<String>,
}

from_row!(Stored { summary, html, text });

/// One that is about to be committed.
pub struct NewReceived {
    pub id: ReceivedEmailId,
    pub workspace_id: WorkspaceId,
    pub domain_id: DomainId,
    pub digest: [u8; 32],
    pub shown: ReceivedFrom,
    pub message_id: String,
    /// A program has sent it.
    pub is_automatic: bool,
    pub envelope: Envelope,
    pub html: Option<String>,
    pub text: Option<String>,
    pub size: u64,
}

impl NewReceived {
    /// The domain that it was brought for.
    pub fn domain(&self) -> &str {
        self.envelope.received_for.first().and_then(|address| address.rsplit_once('@')).map_or("", |(_, domain)| domain)
    }

    /// What is told of it.
    pub fn told(&self, created_at: i64) -> Value {
        let file = |file: &Attachment| {
            json!({
                "id": file.id,
                "filename": file.filename,
                "content_type": file.content_type,
                "content_disposition": file.disposition(),
                "content_id": file.content_id,
            })
        };
        json!({
            "email_id": self.id,
            "created_at": rfc3339(created_at),
            "from": self.shown.from,
            "to": self.envelope.to,
            "cc": self.envelope.cc,
            "bcc": [],
            "received_for": self.envelope.received_for,
            "message_id": self.message_id,
            "subject": self.shown.subject,
            "attachments": self.envelope.attachments.iter().map(file).collect::<Vec<_>>(),
            "authentication": self.envelope.authentication,
            "is_automatic": self.is_automatic,
        })
    }
}

/// Webhooks hear of it, and the contact that has the sender's address, if there is one. What a program has sent starts
/// nothing: two programs would answer each other without end.
pub fn tell(occurrences: &mut OccurrenceBatch<'_>, new: &NewReceived) {
    let now = occurrences.now();
    occurrences.publish(EventType::EmailReceived, || new.told(now));
    let Some(Mailbox { address, .. }) = &new.shown.sender else { return };
    if !occurrences.is_heard(SystemEvent::EMAIL_RECEIVED) {
        return;
    }
    let (key, payload) = (address.key(), new.told(now));
    match new.is_automatic {
        true => contacts::tell_waiting_by_email(occurrences, SystemEvent::EMAIL_RECEIVED, &key, &payload),
        false => contacts::tell_by_email(occurrences, SystemEvent::EMAIL_RECEIVED, &key, &payload),
    }
}
