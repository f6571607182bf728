//! What is handed in to be sent, whoever hands it in.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::envelope::CHUNK;
use super::store;
use crate::config::WhenUncertain;
use crate::id::{AttachmentId, EmailId, RunId, TemplateId, TopicId, WorkspaceId};
use crate::mime::{Header, Mailbox};
use crate::text::words;

/// Who handed a mail in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Api,
    Submission,
    Automation,
    /// An automation that a system event started: what happens to its mail starts no other.
    Reaction,
    System,
    Command,
    /// To everybody in a segment: one mail in the store, and one for each recipient.
    Broadcast,
    /// A form that asks a stranger whether the address is his.
    Form,
}

words!(Origin {
    Api = "api",
    Submission = "submission",
    Automation = "automation",
    Reaction = "reaction",
    System = "system",
    Command = "command",
    Broadcast = "broadcast",
    Form = "form",
});

/// What is transactional goes before what goes to many. The store keeps the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum Lane {
    Transactional = 0,
    Bulk = 1,
}

/// Something that may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<T> {
    Here(T),
    /// It stands in the store, in pieces, before the mail does.
    Stored {
        size: u64,
    },
}

impl<T: AsRef<[u8]>> Content<T> {
    pub fn size(&self) -> u64 {
        match self {
            Content::Here(content) => content.as_ref().len() as u64,
            Content::Stored { size } => *size,
        }
    }

    /// How many pieces of it stand in the store.
    fn pieces(&self) -> u64 {
        match self {
            Content::Here(_) => 0,
            Content::Stored { size } => size.div_ceil(CHUNK as u64),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttachment {
    pub id: AttachmentId,
    pub filename: Option<String>,
    pub content_type: String,
    /// By which HTML shows it as a picture.
    pub content_id: Option<String>,
    pub content: Content<Vec<u8>>,
}

/// A message that goes as it was written, but for what was added to its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenMessage {
    pub message_id: String,
    /// Whom it goes to, whatever its head says.
    pub recipients: Vec<Mailbox>,
    pub content: Content<Bytes>,
    /// Its head holds what only SMTPUTF8 may carry.
    pub smtputf8: bool,
    /// It holds bytes beyond ASCII.
    pub eightbit: bool,
}

/// What is kept of it beside its pieces: what a server has to offer to get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub size: u64,
    pub smtputf8: bool,
    pub eightbit: bool,
}

impl From<&WrittenMessage> for Written {
    fn from(message: &WrittenMessage) -> Written {
        Written { size: message.content.size(), smtputf8: message.smtputf8, eightbit: message.eightbit }
    }
}

/// A mail that is to be queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEmail {
    pub workspace_id: WorkspaceId,
    pub origin: Origin,
    pub lane: Lane,
    pub when_uncertain: WhenUncertain,
    pub from: Mailbox,
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    pub bcc: Vec<Mailbox>,
    pub reply_to: Vec<Mailbox>,
    pub subject: String,
    pub headers: Vec<Header>,
    pub tags: Vec<(String, String)>,
    pub topic_id: Option<TopicId>,
    /// The template that it was made of.
    pub template_id: Option<TemplateId>,
    pub html: Option<Content<String>>,
    /// Empty where none is to be made of the HTML either.
    pub text: Option<Content<String>>,
    pub attachments: Vec<NewAttachment>,
    /// In wall time.
    pub scheduled_at: Option<i64>,
    /// The step of a run that wants it sent.
    pub run: Option<(RunId, String)>,
    /// The message itself, where it was handed in whole: the rest is then what was read out of it.
    pub written: Option<WrittenMessage>,
}

impl NewEmail {
    /// A transactional mail without anything in it.
    pub fn new(workspace_id: WorkspaceId, origin: Origin, from: Mailbox, to: Vec<Mailbox>) -> NewEmail {
        NewEmail {
            workspace_id,
            origin,
            lane: Lane::Transactional,
            when_uncertain: WhenUncertain::Retry,
            from,
            to,
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: String::new(),
            headers: Vec::new(),
            tags: Vec::new(),
            topic_id: None,
            template_id: None,
            html: None,
            text: None,
            attachments: Vec::new(),
            scheduled_at: None,
            run: None,
            written: None,
        }
    }

    /// By which mail programs will know it.
    pub fn message_id(&self, id: EmailId) -> String {
        let made = || store::message_id(id, &self.from.address);
        self.written.as_ref().map_or_else(made, |message| message.message_id.clone())
    }

    /// How many bytes it holds.
    pub fn size(&self) -> u64 {
        if let Some(message) = &self.written {
            return message.content.size();
        }
        self.size_with(|attachment| attachment)
    }

    /// How many pieces stand in the store before the mail does.
    pub fn pieces(&self) -> u64 {
        let bodies = [&self.html, &self.text].into_iter().flatten().map(Content::pieces);
        let attached = self.attachments.iter().map(|attachment| attachment.content.pieces());
        bodies.chain(attached).sum()
    }

    /// How many bytes count against what a mail may hold: attachments as base64 writes them.
    pub fn encoded_size(&self) -> u64 {
        self.size_with(|attachment| attachment.div_ceil(3) * 4)
    }

    fn size_with(&self, attached: impl Fn(u64) -> u64) -> u64 {
        let of = |content: &Option<Content<String>>| content.as_ref().map_or(0, Content::size);
        let attached: u64 = self.attachments.iter().map(|attachment| attached(attachment.content.size())).sum();
        of(&self.html) + of(&self.text) + attached
    }

    /// Everybody it goes to, each once, however often and wherever they are named.
    pub fn recipients(&self) -> Vec<&Mailbox> {
        if let Some(message) = &self.written {
            return message.recipients.iter().collect();
        }
        let all = self.to.iter().chain(&self.cc).chain(&self.bcc);
        if self.to.len() + self.cc.len() + self.bcc.len() == 1 {
            return all.collect();
        }
        let mut seen = std::collections::HashSet::new();
        all.filter(|mailbox| seen.insert(mailbox.address.key())).collect()
    }
}
