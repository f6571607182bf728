//! What a broadcast is, and how far it can be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::timing::Timing;
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::{BroadcastId, EmailId, Id, SegmentId, TemplateVersionId, TopicId, WorkspaceId, own_id};
use crate::text::words;

/// How far a broadcast is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Draft,
    Scheduled,
    /// Its audience is taken and its mail sent, at the same time.
    Sending,
    Paused,
    /// What was not sent by then will not be.
    Canceled,
    Sent,
}

words!(State: ALL, parse {
    Draft = "draft",
    Scheduled = "scheduled",
    Sending = "sending",
    Paused = "paused",
    Canceled = "canceled",
    Sent = "sent",
});

impl State {
    /// As clients know it, of whom none knows more than these words.
    pub fn status(self) -> &'static str {
        match self {
            State::Draft => "draft",
            State::Scheduled => "scheduled",
            State::Sending | State::Paused => "queued",
            State::Canceled | State::Sent => "sent",
        }
    }
}

/// A template that a broadcast is written with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsedTemplate {
    /// Or its alias.
    pub id: String,
    pub variables: Map<String, Value>,
    /// What was published of it when the broadcast was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentTemplate>,
}

/// The version of a template that a broadcast was sent with, whose bodies stand with its mail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentTemplate {
    pub version_id: TemplateVersionId,
    /// What was given, and fallbacks for the rest.
    pub values: Map<String, Value>,
}

impl UsedTemplate {
    /// What its bodies are rendered with.
    pub fn values(&self) -> &Map<String, Value> {
        self.sent.as_ref().map_or(&self.variables, |sent| &sent.values)
    }
}

/// What is said to everybody.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub name: String,
    pub segment_id: SegmentId,
    pub topic_id: Option<TopicId>,
    /// As it was given.
    pub sender: String,
    pub subject: String,
    pub reply_to: Vec<String>,
    pub preview_text: Option<String>,
    pub html: Option<String>,
    pub text: Option<String>,
    pub template: Option<UsedTemplate>,
    pub timing: Timing,
}

/// Why contacts of a segment are left out of its audience, and how many.
pub type LeftOut = BTreeMap<String, i64>;

/// A broadcast as the store has it.
#[derive(Debug, Clone)]
pub struct Broadcast {
    pub id: BroadcastId,
    pub workspace_id: WorkspaceId,
    pub content: Content,
    pub state: State,
    /// What is to be known of it.
    pub reason: Option<String>,
    pub created_at: i64,
    pub scheduled_at: Option<i64>,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    /// Where its recipients wait.
    pub lane: i64,
    pub is_audience_whole: bool,
    /// How many it has by now.
    pub recipients: i64,
    pub left_out: LeftOut,
}

impl Broadcast {
    /// In the order of `store::COLUMNS`.
    pub fn read(row: &Row) -> Result<Broadcast, DbError> {
        let broken = |what: &str| DbError::Broken(format!("{what} of a broadcast"));
        let json = |column: usize, what: &str| -> Result<Value, DbError> {
            serde_json::from_str(&row.text(column)?).map_err(|_| broken(what))
        };
        let template = row.maybe(11, Row::text)?.map(|text| serde_json::from_str(&text)).transpose();
        Ok(Broadcast {
            id: row.id(0)?,
            workspace_id: row.id(1)?,
            content: Content {
                name: row.text(2)?,
                segment_id: row.id(3)?,
                topic_id: row.maybe(4, Row::id)?,
                sender: row.text(5)?,
                subject: row.text(6)?,
                reply_to: serde_json::from_value(json(7, "addresses")?).map_err(|_| broken("addresses"))?,
                preview_text: row.maybe(8, Row::text)?,
                html: row.maybe(9, Row::text)?,
                text: row.maybe(10, Row::text)?,
                template: template.map_err(|_| broken("template"))?,
                timing: Timing::read(row, 22)?,
            },
            state: State::parse(&row.text(12)?).ok_or_else(|| broken("state"))?,
            reason: row.maybe(13, Row::text)?,
            created_at: row.int(14)?,
            scheduled_at: row.maybe(15, Row::int)?,
            started_at: row.maybe(16, Row::int)?,
            ended_at: row.maybe(17, Row::int)?,
            lane: row.int(18)?,
            is_audience_whole: row.bool(19)?,
            recipients: row.int(20)?,
            left_out: serde_json::from_value(json(21, "audience")?).map_err(|_| broken("audience"))?,
        })
    }

    /// The mail that its recipients share.
    pub fn email_id(&self) -> EmailId {
        email_id(self.id)
    }

    /// What to say where it cannot be done now.
    pub fn refusal(&self, what: &str) -> Error {
        Error::Conflict { message: format!("{what}; this one is `{}`.", self.state) }
    }
}

/// The mail that the recipients of a broadcast share.
pub fn email_id(id: BroadcastId) -> EmailId {
    own_id(EmailId::from(id.uuid()), 0)
}
