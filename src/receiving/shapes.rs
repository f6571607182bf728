//! Received mail as the API shows it.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::authentication::Authentication;
use super::email::{Attachment, Summary};
use crate::clock::rfc3339;
use crate::id::{AttachmentId, ReceivedEmailId};

/// A mail that came in, as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = ReceivedEmailItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: ReceivedEmailId,
    to: Vec<String>,
    #[schema(example = "Ada <ada@example.com>")]
    from: String,
    #[schema(format = DateTime)]
    created_at: String,
    subject: String,
    cc: Vec<String>,
    /// Nobody sees these, so there are none.
    bcc: Vec<String>,
    reply_to: Vec<String>,
    /// The addresses of yours that it was brought for.
    received_for: Vec<String>,
    /// As its sender wrote it; empty where there is none.
    message_id: String,
    attachments: Vec<FileInfo>,
    /// Whether it comes from whom it says.
    authentication: Authentication,
}

/// What is known of a file.
#[derive(Serialize, ToSchema)]
#[schema(as = ReceivedAttachmentInfo)]
pub struct FileInfo {
    #[schema(value_type = Uuid)]
    id: AttachmentId,
    #[schema(required = true)]
    filename: Option<String>,
    /// In bytes.
    size: u64,
    content_type: String,
    #[schema(required = true)]
    content_id: Option<String>,
    /// `inline` or `attachment`.
    #[schema(example = "attachment")]
    content_disposition: &'static str,
}

impl From<&Attachment> for FileInfo {
    fn from(file: &Attachment) -> FileInfo {
        FileInfo {
            id: file.id,
            filename: file.filename.clone(),
            size: file.size,
            content_type: file.content_type.clone(),
            content_id: file.content_id.clone(),
            content_disposition: file.disposition(),
        }
    }
}

impl From<Summary> for Item {
    fn from(email: Summary) -> Item {
        let envelope = email.envelope;
        Item {
            id: email.id,
            to: envelope.to,
            from: email.sender,
            created_at: rfc3339(email.created_at),
            subject: email.subject,
            cc: envelope.cc,
            bcc: Vec::new(),
            reply_to: envelope.reply_to,
            received_for: envelope.received_for,
            message_id: email.message_id,
            attachments: envelope.attachments.iter().map(FileInfo::from).collect(),
            authentication: envelope.authentication,
        }
    }
}

/// A link that ends.
#[derive(Serialize, ToSchema)]
#[schema(as = DownloadLink)]
pub struct Download {
    /// Whoever has it can download the file until `expires_at`.
    pub download_url: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
}

/// A mail that came in, with what it says.
#[derive(Serialize, ToSchema)]
#[schema(as = ReceivedEmail)]
pub struct Detail {
    #[schema(pattern = "^email$")]
    pub object: &'static str,
    #[serde(flatten)]
    pub item: Item,
    /// Null where there is none, where it is not kept any more, and where it is longer than 256 KiB: it is among
    /// the attachments then.
    #[schema(required = true)]
    pub html: Option<String>,
    /// The same.
    #[schema(required = true)]
    pub text: Option<String>,
    /// The values of its header fields by their names in lower case; of several the first.
    pub headers: BTreeMap<String, String>,
    /// The message as it came; null where it is not kept any more.
    #[schema(required = true)]
    pub raw: Option<Download>,
}

/// A file in a mail that came in.
#[derive(Serialize, ToSchema)]
#[schema(as = ReceivedAttachment)]
pub struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^attachment$", nullable = false)]
    pub object: Option<&'static str>,
    #[serde(flatten)]
    pub info: FileInfo,
    #[serde(flatten)]
    pub link: Download,
}
