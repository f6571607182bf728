//! What is kept of a mail beside its columns, and its long parts, which stand in pieces.

use serde::{Deserialize, Serialize};

use super::email::{Content, NewEmail, Written};
use crate::domains::Tracking;
use crate::id::{AttachmentId, TemplateId, TopicId};
use crate::mime::Mailbox;

/// How large a piece of something long is; what is no longer than one stands with its mail.
pub const CHUNK: usize = 256 << 10;

/// The parts of a mail that may stand in pieces.
pub const HTML: i64 = 0;
pub const TEXT: i64 = 1;
/// The message as it was handed in, and as it travels.
pub const MESSAGE: i64 = 2;
/// Attachments are numbered from here on.
pub const FIRST_ATTACHMENT: i64 = 16;

/// What is kept of a mail beside its columns, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Envelope {
    pub to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reply_to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<TopicId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_id: Option<TemplateId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// How long the HTML is, where it stands in pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html_size: Option<u64>,
    /// The same, of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_size: Option<u64>,
    /// Where the whole message was handed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// What is tracked of it, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking: Option<Tracking>,
}

/// An attachment, whose content stands in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub id: AttachmentId,
    /// Under which number its pieces stand.
    pub part: i64,
    pub size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    pub content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
}

impl Envelope {
    pub(super) fn of(new: &NewEmail) -> Envelope {
        let written = |mailboxes: &[Mailbox]| mailboxes.iter().map(Mailbox::to_string).collect();
        let attachments = new.attachments.iter().zip(FIRST_ATTACHMENT..).map(|(attachment, part)| Attachment {
            id: attachment.id,
            part,
            size: attachment.content.size(),
            filename: attachment.filename.clone(),
            content_type: attachment.content_type.clone(),
            content_id: attachment.content_id.clone(),
        });
        Envelope {
            to: written(&new.to),
            cc: written(&new.cc),
            bcc: written(&new.bcc),
            reply_to: written(&new.reply_to),
            headers: new.headers.iter().map(|header| (header.name().to_owned(), header.value().to_owned())).collect(),
            tags: new.tags.clone(),
            topic_id: new.topic_id,
            template_id: new.template_id,
            attachments: attachments.collect(),
            html_size: new.html.as_ref().and_then(size_in_pieces),
            text_size: new.text.as_ref().and_then(size_in_pieces),
            written: new.written.as_ref().map(Written::from),
            tracking: None,
        }
    }

    /// How many bytes a part has that stands in pieces.
    pub fn size_of(&self, part: i64) -> Option<u64> {
        match part {
            HTML => self.html_size,
            TEXT => self.text_size,
            part => self.attachments.iter().find(|attachment| attachment.part == part).map(|found| found.size),
        }
    }
}

/// How long something is that stands in pieces; `None` where it stands with its mail.
fn size_in_pieces(content: &Content<String>) -> Option<u64> {
    inline(content).is_none().then(|| content.size())
}

/// What stands with its mail.
pub(super) fn inline(content: &Content<String>) -> Option<&String> {
    match content {
        Content::Here(text) if text.len() <= CHUNK => Some(text),
        _ => None,
    }
}
