//! Broadcasts as the API shows them.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::broadcast::{Broadcast, State, UsedTemplate};
use super::progress::Progress;
use crate::clock::rfc3339;
use crate::id::{BroadcastId, SegmentId, TemplateVersionId, TopicId};
use crate::windows::Window;

/// A broadcast as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = BroadcastItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: BroadcastId,
    name: String,
    #[schema(value_type = Uuid)]
    segment_id: SegmentId,
    /// The same, by its older name.
    #[schema(value_type = Uuid)]
    audience_id: SegmentId,
    /// `draft`, `scheduled`, `queued` or `sent`.
    #[schema(example = "queued")]
    status: &'static str,
    /// More precisely: `draft`, `scheduled`, `preparing`, `sending`, `paused`, `canceled` or `sent`.
    #[schema(example = "sending")]
    state: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    scheduled_at: Option<String>,
    /// When the last of its mails had ended.
    #[schema(format = DateTime, required = true)]
    sent_at: Option<String>,
}

impl From<&Broadcast> for Item {
    fn from(broadcast: &Broadcast) -> Item {
        let segment_id = broadcast.content.segment_id;
        Item {
            id: broadcast.id,
            name: broadcast.content.name.clone(),
            segment_id,
            audience_id: segment_id,
            status: broadcast.state.status(),
            state: state_word(broadcast),
            created_at: rfc3339(broadcast.created_at),
            scheduled_at: broadcast.scheduled_at.map(rfc3339),
            sent_at: broadcast.ended_at.map(rfc3339),
        }
    }
}

/// How far it is, in a word.
pub fn state_word(broadcast: &Broadcast) -> &'static str {
    match broadcast.state {
        State::Sending if !broadcast.is_audience_whole => "preparing",
        state => state.as_str(),
    }
}

/// A template that a broadcast is written with.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateOfBroadcast)]
struct TemplateShown {
    id: String,
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
    /// The version that was sent; null before.
    #[schema(value_type = Option<Uuid>, required = true)]
    version_id: Option<TemplateVersionId>,
}

impl From<UsedTemplate> for TemplateShown {
    fn from(used: UsedTemplate) -> TemplateShown {
        let version_id = used.sent.map(|sent| sent.version_id);
        TemplateShown { id: used.id, variables: used.variables, version_id }
    }
}

/// A broadcast, and how far it is.
#[derive(Serialize, ToSchema)]
#[schema(as = Broadcast)]
pub struct Detail {
    #[schema(pattern = "^broadcast$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    #[schema(example = "Acme <news@acme.example>")]
    from: String,
    subject: String,
    #[schema(required = true)]
    reply_to: Option<Vec<String>>,
    #[schema(required = true)]
    preview_text: Option<String>,
    #[schema(required = true)]
    html: Option<String>,
    #[schema(required = true)]
    text: Option<String>,
    #[schema(required = true)]
    template: Option<TemplateShown>,
    #[schema(value_type = Option<Uuid>, required = true)]
    topic_id: Option<TopicId>,
    /// Null: it is sent at any time.
    #[schema(required = true)]
    send_window: Option<Window>,
    /// Which of several broadcasts goes first: one of 9 before one of 1.
    #[schema(minimum = 1, maximum = 9)]
    priority: i64,
    #[schema(required = true)]
    send_within_hours: Option<i64>,
    #[schema(format = DateTime, required = true)]
    started_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    ended_at: Option<String>,
    /// What is to be known of it: why it was not sent, or what its audience lacks.
    #[schema(required = true)]
    reason: Option<String>,
    /// Null before it is sent.
    #[schema(required = true)]
    progress: Option<Progress>,
}

impl Detail {
    pub fn new(broadcast: Broadcast, progress: Option<Progress>) -> Detail {
        let item = Item::from(&broadcast);
        let content = broadcast.content;
        Detail {
            object: "broadcast",
            item,
            from: content.sender,
            subject: content.subject,
            reply_to: Some(content.reply_to).filter(|list| !list.is_empty()),
            preview_text: content.preview_text,
            html: content.html,
            text: content.text,
            template: content.template.map(Into::into),
            topic_id: content.topic_id,
            send_window: content.timing.send_window,
            priority: content.timing.priority.0,
            send_within_hours: content.timing.send_within_hours.map(|hours| hours.0),
            started_at: broadcast.started_at.map(rfc3339),
            ended_at: broadcast.ended_at.map(rfc3339),
            reason: broadcast.reason,
            progress,
        }
    }
}
