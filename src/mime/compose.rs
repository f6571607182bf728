//! A message from what is to be said: RFC 5322 around MIME, in pieces, so that the content of
//! files never has to be in memory at once.

use std::str;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use memchr::memmem;

use super::attachment::AttachmentInfo;
use super::encoder::Encoding;
use super::entity::{Entity, Output};
use super::field::{Fields, is_plain};
use super::header::Header;
use super::mailbox::Mailbox;

/// What a message is made of.
pub struct Letter<'a> {
    /// With or without its angle brackets.
    pub message_id: &'a str,
    pub date_micros: i64,
    pub from: &'a Mailbox,
    pub to: &'a [Mailbox],
    pub cc: &'a [Mailbox],
    pub reply_to: &'a [Mailbox],
    pub subject: &'a str,
    pub headers: &'a [Header],
    pub text: Option<Content<'a>>,
    pub html: Option<Content<'a>>,
    pub attachments: &'a [AttachmentInfo],
    /// The mail's id: what separates parts is derived from it, so each attempt is the same
    /// to the byte.
    pub boundary_seed: &'a [u8],
}

impl Letter<'_> {
    /// Whether its header fields hold what only SMTPUTF8 may carry.
    pub fn needs_smtputf8(&self) -> bool {
        let mut mailboxes = [self.to, self.cc, self.reply_to].into_iter().flatten().chain([self.from]);
        mailboxes.any(|mailbox| mailbox.address.needs_smtputf8())
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    Inline(&'a str),
    /// Stands in a part of the store.
    Part(i64),
}

/// The message as it travels: bytes, and places where the content of a part goes, encoded.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Bytes(Vec<u8>),
    Part { part: i64, encoding: Encoding },
}

/// The first piece holds the whole head and the empty line behind it; the last one ends with
/// a line break. No line is longer than 998 bytes, and all of it is ASCII, except where the
/// letter needs SMTPUTF8.
pub fn compose(letter: &Letter<'_>) -> Vec<Piece> {
    let mut output = Output::default();
    head(letter, &mut output.fields);
    Entity::of(letter).write(&mut output);
    output.finish()
}

fn head(letter: &Letter<'_>, fields: &mut Fields) {
    fields.words("Date", &[&date(letter.date_micros)]);
    fields.mailboxes("From", std::slice::from_ref(letter.from));
    if letter.to.is_empty() && letter.cc.is_empty() {
        fields.words("To", &["undisclosed-recipients:;"]);
    }
    fields.mailboxes("To", letter.to);
    fields.mailboxes("Cc", letter.cc);
    fields.mailboxes("Reply-To", letter.reply_to);
    fields.text("Subject", letter.subject, is_plain);
    fields.words("Message-ID", &[&message_id(letter.message_id)]);
    for header in letter.headers {
        fields.text(header.name(), header.value(), str::is_ascii);
    }
    fields.words("MIME-Version", &["1.0"]);
}

/// A moment as header fields tell it.
pub fn date(micros: i64) -> String {
    let time = Timestamp::from_microsecond(micros).unwrap_or_default();
    time.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

fn message_id(id: &str) -> String {
    let inner: String = id.chars().filter(|c| !c.is_control() && !c.is_whitespace() && !"<>".contains(*c)).collect();
    format!("<{inner}>")
}

/// The header fields of a message, each with its line break, and what stands behind the empty
/// line; for a composed message its first piece does. Without an empty line all is head.
pub fn split_head(message: &[u8]) -> (&[u8], &[u8]) {
    if let Some(body) = message.strip_prefix(b"\r\n") {
        return (&[], body);
    }
    match memmem::find(message, b"\r\n\r\n") {
        Some(at) => (&message[..at + 2], &message[at + 4..]),
        None => (message, &[]),
    }
}
