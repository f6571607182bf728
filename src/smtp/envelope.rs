//! What is handed over on a connection: a message, and who it is from and for.

use std::io;

use bytes::Bytes;

use super::extensions::{Extensions, Size};
use super::reply::Reply;

/// Who a message is from and for, as the dialogue says it.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// Where bounces go; empty for none.
    pub from: &'a str,
    pub to: &'a str,
    /// Bytes of the message.
    pub size: u64,
    /// The message has headers in UTF-8. Addresses are looked at in any case.
    pub smtputf8: bool,
    pub eightbit: bool,
    /// What this message to this recipient is called, on every attempt: in reports on it, and by a server that takes
    /// it once.
    pub id: &'a str,
    /// A server that reports on deliveries is to report success as well.
    pub reports_success: bool,
}

/// A message: its bytes with CRLF at the ends of lines, in pieces.
pub trait MessageSource: Send {
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Bytes>>> + Send;
}

/// A message that is in memory. It is used up.
impl MessageSource for Bytes {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        Ok((!self.is_empty()).then(|| std::mem::take(self)))
    }
}

impl Envelope<'_> {
    /// What the server would refuse, by what it has told of itself.
    pub(super) fn refusal(&self, extensions: &Extensions, host: &str) -> Option<Reply> {
        if !is_writable(self.from) {
            return Some(Reply::local(553, [5, 1, 7], "the sender's address cannot be written in an SMTP command"));
        }
        if self.to.is_empty() || !is_writable(self.to) {
            return Some(Reply::local(553, [5, 1, 3], "the recipient's address cannot be written in an SMTP command"));
        }
        if self.needs_utf8() && !extensions.smtputf8 {
            let text = format!("{host} takes no international addresses (it does not offer SMTPUTF8)");
            return Some(Reply::local(553, [5, 6, 7], text));
        }
        match extensions.size {
            Size::AtMost(limit) if self.size > limit => {
                let size = self.size;
                let text = format!("the message has {size} bytes, and {host} takes {limit} at most");
                Some(Reply::local(552, [5, 3, 4], text))
            }
            _ => None,
        }
    }

    /// What tells a server that takes messages once which this is. Nobody else is sent it.
    pub(super) fn key_field(&self, extensions: &Extensions) -> String {
        match extensions.keys {
            true => format!("Idempotency-Key: {}\r\n", self.id),
            false => String::new(),
        }
    }

    pub(super) fn needs_utf8(&self) -> bool {
        self.smtputf8 || !self.from.is_ascii() || !self.to.is_ascii()
    }
}

/// Whether an address can stand between the angle brackets of a command.
fn is_writable(address: &str) -> bool {
    !address.chars().any(|char| char.is_control() || matches!(char, ' ' | '<' | '>'))
}
