//! Emails as the API shows them.

use serde::Serialize;
use utoipa::ToSchema;

use super::envelope::Attachment;
use super::links::{Link, Signer};
use super::store::{Stored, Summary};
use super::waiting::RecipientState;
use crate::clock::rfc3339;
use crate::id::{AttachmentId, EmailId, TopicId};

/// A mail that is queued.
#[derive(Serialize, ToSchema)]
#[schema(as = SentEmail)]
pub struct Sent {
    #[schema(value_type = Uuid)]
    pub id: EmailId,
}

/// Mails that are queued, in the order in which they were handed in.
#[derive(Serialize, ToSchema)]
#[schema(as = SentEmails)]
pub struct SentMany {
    pub data: Vec<Sent>,
    /// Those that were refused, where `x-batch-validation` is `permissive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub errors: Option<Vec<Refused>>,
}

/// A mail that was refused.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = RefusedEmail)]
pub struct Refused {
    /// Its place in the array, from 0 on.
    pub index: usize,
    pub message: String,
}

/// A mail as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: EmailId,
    /// By which mail programs know it; it never changes.
    message_id: String,
    to: Vec<String>,
    #[schema(example = "Acme <hello@acme.example>")]
    from: String,
    #[schema(format = DateTime)]
    created_at: String,
    subject: String,
    #[schema(required = true)]
    bcc: Option<Vec<String>>,
    #[schema(required = true)]
    cc: Option<Vec<String>>,
    #[schema(required = true)]
    reply_to: Option<Vec<String>>,
    /// What became of it: `scheduled`, `queued`, `sent`, `delivery_delayed`, `delivered`, `opened`, `clicked`,
    /// `suppressed`, `failed`, `bounced`, `complained` or `canceled`; of several recipients, the one that matters
    /// most.
    #[schema(example = "delivered")]
    last_event: &'static str,
    #[schema(format = DateTime, required = true)]
    scheduled_at: Option<String>,
}

impl From<Summary> for Item {
    fn from(email: Summary) -> Item {
        let envelope = email.envelope;
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Item {
            id: email.id,
            message_id: email.message_id,
            to: envelope.to,
            from: email.sender,
            created_at: rfc3339(email.created_at),
            subject: email.subject,
            bcc: some(envelope.bcc),
            cc: some(envelope.cc),
            reply_to: some(envelope.reply_to),
            last_event: email.state.as_str(),
            scheduled_at: email.scheduled_at.map(rfc3339),
        }
    }
}

/// A word by which a mail is found again.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailTagOfEmail)]
pub struct Tag {
    name: String,
    value: String,
}

/// A mail with its contents.
#[derive(Serialize, ToSchema)]
#[schema(as = Email)]
pub struct Detail {
    #[schema(pattern = "^email$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    /// Null where there is none, where it is not kept any more, and where it is longer than 1 MiB: a link of
    /// `POST /emails/{id}/share` shows that.
    #[schema(required = true)]
    html: Option<String>,
    /// As it was handed in, up to 1 MiB; one that was made of the HTML is not shown.
    #[schema(required = true)]
    text: Option<String>,
    tags: Vec<Tag>,
    #[schema(value_type = Option<Uuid>, required = true)]
    topic_id: Option<TopicId>,
    /// Each with what became of the mail's way to it; of very many, the first.
    recipients: Vec<RecipientState>,
}

impl Detail {
    /// `html` and `text` are the contents, wherever they stand.
    pub fn new(
        mut email: Stored,
        (html, text): (Option<String>, Option<String>),
        recipients: Vec<RecipientState>,
    ) -> Detail {
        let tags = std::mem::take(&mut email.summary.envelope.tags);
        Detail {
            object: "email",
            html,
            text,
            tags: tags.into_iter().map(|(name, value)| Tag { name, value }).collect(),
            topic_id: email.summary.envelope.topic_id,
            recipients,
            item: email.summary.into(),
        }
    }
}

/// A mail that can be looked at by a link.
#[derive(Serialize, ToSchema)]
#[schema(as = SharedEmail)]
pub struct Shared {
    #[schema(pattern = "^email$")]
    pub object: &'static str,
    #[schema(value_type = Uuid)]
    pub id: EmailId,
    /// Whoever has it can read the mail until it ends.
    pub url: String,
}

/// A file that went with a mail.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailAttachment)]
pub struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^attachment$", nullable = false)]
    object: Option<&'static str>,
    #[schema(value_type = Uuid)]
    id: AttachmentId,
    #[schema(required = true)]
    filename: Option<String>,
    /// In bytes.
    size: u64,
    content_type: String,
    /// `inline` or `attachment`.
    #[schema(example = "attachment")]
    content_disposition: &'static str,
    #[schema(required = true)]
    content_id: Option<String>,
    /// Whoever has it can download the file until `expires_at`.
    download_url: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

impl File {
    pub fn new(attachment: Attachment, link: Link, (base, signer): (&str, &Signer)) -> File {
        File {
            object: None,
            id: attachment.id,
            filename: attachment.filename,
            size: attachment.size,
            content_type: attachment.content_type,
            content_disposition: if attachment.content_id.is_some() { "inline" } else { "attachment" },
            content_id: attachment.content_id,
            download_url: format!("{base}/shared/attachments/{}", signer.token(&link)),
            expires_at: rfc3339(link.expires_at),
        }
    }

    /// The same, where it is not one of a list.
    pub fn alone(self) -> File {
        File { object: Some("attachment"), ..self }
    }
}
