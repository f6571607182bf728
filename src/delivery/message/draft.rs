//! What a message is composed from.

use super::{Message, Part};
use crate::emails::{self, Envelope, Stored};
use crate::id::Id;
use crate::mime::{self, AttachmentInfo, Content, Header, Letter, Mailbox, Piece};

/// What a message is composed from, read back from the store.
pub(super) struct Draft {
    message_id: String,
    from: Mailbox,
    to: Vec<Mailbox>,
    cc: Vec<Mailbox>,
    reply_to: Vec<Mailbox>,
    headers: Vec<Header>,
    attachments: Vec<AttachmentInfo>,
    text: Option<String>,
}

impl Draft {
    /// `long_html` is how the HTML begins where it does not stand with its mail, and a text is made of it.
    pub(super) fn of(stored: &Stored, from: Mailbox, long_html: Option<String>) -> Result<Draft, String> {
        let Envelope { to, cc, reply_to, headers, attachments, text_size, .. } = &stored.summary.envelope;
        let html = stored.html.as_deref().or(long_html.as_deref());
        let attachment = |attachment: &emails::Attachment| AttachmentInfo {
            filename: attachment.filename.clone(),
            content_type: attachment.content_type.clone(),
            content_id: attachment.content_id.clone(),
            part: attachment.part,
            size: attachment.size,
        };
        // Where the sender gave no text, it is made of the HTML; an empty one of its own means that there is to be none.
        let text = match (&stored.text, html) {
            (Some(text), _) => Some(text.clone()).filter(|text| !text.is_empty()),
            (None, Some(html)) if text_size.is_none() => Some(mime::text_of_html(html)),
            _ => None,
        };
        let message_id = match stored.summary.message_id.as_str() {
            "" => emails::message_id(stored.summary.id, &from.address),
            given => given.to_owned(),
        };
        Ok(Draft {
            message_id,
            from,
            to: mailboxes(to)?,
            cc: mailboxes(cc)?,
            reply_to: mailboxes(reply_to)?,
            headers: headers.iter().map(|(name, value)| Header::new(name, value)).collect::<Result<_, _>>()?,
            attachments: attachments.iter().map(attachment).collect(),
            text,
        })
    }

    pub(super) fn compose(&self, stored: &Stored) -> Message {
        let summary = &stored.summary;
        let part = |size: Option<u64>, part| size.map(|_| Content::Part(part));
        let seed = summary.id.uuid();
        let letter = Letter {
            message_id: &self.message_id,
            date_micros: summary.created_at,
            from: &self.from,
            to: &self.to,
            cc: &self.cc,
            reply_to: &self.reply_to,
            subject: &summary.subject,
            headers: &self.headers,
            text: self.text.as_deref().map(Content::Inline).or(part(summary.envelope.text_size, emails::TEXT_PART)),
            html: stored.html.as_deref().map(Content::Inline).or(part(summary.envelope.html_size, emails::HTML_PART)),
            attachments: &self.attachments,
            boundary_seed: seed.as_bytes(),
        };
        let pieces = mime::compose(&letter).into_iter().map(|piece| match piece {
            Piece::Bytes(bytes) => Part::Bytes(bytes.into()),
            Piece::Part { part, encoding } => {
                let size = summary.envelope.size_of(part).unwrap_or_default();
                Part::Stored { part, size, encoding: Some(encoding) }
            }
        });
        Message {
            email_id: summary.id,
            pieces: pieces.collect(),
            size: 0,
            smtputf8: letter.needs_smtputf8(),
            eightbit: false,
            sender: self.from.address.on_the_wire(),
            sender_domain: self.from.address.ascii_domain().to_owned(),
            return_path: None,
            reports_come: false,
            links: None,
            number: None,
        }
    }
}

fn mailboxes(written: &[String]) -> Result<Vec<Mailbox>, String> {
    written.iter().map(|mailbox| mailbox.parse()).collect()
}
