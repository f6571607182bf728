//! A report within a dialogue: it comes in, is read, and what it changes is committed, before it is
//! acknowledged.

use std::time::Instant as Moment;

use tokio::time::Instant;

use super::session::Session;
use crate::delivery::{Effect, ReturnToken};
use crate::reports::{self, Report};
use crate::smtp_server::{Dots, Lost, Reply};

/// In bytes. A report may bring the whole mail back.
pub const LARGEST: u64 = 48 << 20;

/// How much of it is kept: what a report says stands before the mail that it is about.
const KEPT: usize = 256 << 10;

const NO_REPORT: Reply =
    Reply::new(554, "5.6.0 This is neither a report on a delivery nor a complaint. Nothing else is read here.");
const FROM_SOMEBODY: Reply = Reply::new(554, "5.7.1 A report on a delivery must come from the null sender, `<>`.");
const BARE: Reply = Reply::new(554, "5.6.0 A line of the message ends without CR and LF. Nothing was taken.");

/// A message that is coming in. What is too much of it is passed over.
#[derive(Default)]
struct Incoming {
    kept: Vec<u8>,
    size: u64,
    /// A line that ends otherwise than with CR and LF: somebody might see the end of the message in it.
    has_bare_ends: bool,
    last: u8,
}

impl Incoming {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.size += bytes.len() as u64;
        if self.size > LARGEST {
            let text = format!("5.3.4 The message is too large. At most {LARGEST} bytes are allowed.");
            return Err(Lost::Refused(Reply::told(552, text)));
        }
        for at in memchr::memchr2_iter(b'\r', b'\n', bytes) {
            let before = if at == 0 { self.last } else { bytes[at - 1] };
            let behind = bytes.get(at + 1).copied();
            self.has_bare_ends |= match bytes[at] {
                b'\n' => before != b'\r',
                _ => behind.is_some_and(|behind| behind != b'\n'),
            };
        }
        if self.last == b'\r' && bytes.first().is_some_and(|first| *first != b'\n') {
            self.has_bare_ends = true;
        }
        self.last = bytes.last().copied().unwrap_or(self.last);
        let room = KEPT - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.size <= KEPT as u64
    }
}

impl Session {
    pub(super) async fn data(&mut self) -> Result<Reply, Lost> {
        let Some(transaction) = self.transaction.take() else { return Ok(Reply::new(503, "5.5.1 Say MAIL first.")) };
        let Some(token) = transaction.token else {
            self.transaction = Some(transaction);
            return Ok(Reply::new(503, "5.5.1 Say for whom it is first, with RCPT."));
        };
        self.stream.say(&Reply::new(354, "Send the message, and behind it a line with a single dot."));
        self.stream.flush(self.server.patience.command).await?;
        let patience = self.server.patience;
        let last = Instant::from_std(Moment::now() + patience.message);
        let (mut dots, mut incoming, mut message, mut end) = (Dots::default(), Incoming::default(), Vec::new(), None);
        while end.is_none() {
            let piece = self.stream.piece(last.min(Instant::now() + patience.piece)).await?;
            end = dots.push(piece, &mut message);
            let count = end.unwrap_or(piece.len());
            self.stream.take(count);
            incoming.push(&message)?;
            message.clear();
        }
        // From here on the client waits for us: its connection is not one of those that could go.
        self.stream.connection.head_arrived(false);
        let reply = self.accept(&incoming, token, transaction.is_from_nobody).await;
        self.stream.connection.answered(0);
        self.stream.rest();
        Ok(reply)
    }

    async fn accept(&mut self, incoming: &Incoming, token: ReturnToken, is_from_nobody: bool) -> Reply {
        if incoming.has_bare_ends {
            return BARE;
        }
        let Some(report) = reports::read(&incoming.kept, incoming.is_whole()) else { return NO_REPORT };
        if matches!(report, Report::Delivery(_)) && !is_from_nobody {
            return FROM_SOMEBODY;
        }
        match self.server.feedback.take(token, &report).await {
            Ok(effect) => {
                self.forgive();
                let changed = effect == Effect::Changed;
                tracing::info!(target: "posthorn::inbound", size = incoming.size, changed, "report");
                Reply::new(250, "2.0.0 Read.")
            }
            Err(error) => {
                tracing::warn!(%error, "a report could not be written down");
                Reply::new(451, "4.3.0 It cannot be written down now. Try again in a moment.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_must_end_with_both_however_they_are_cut() {
        for (pieces, is_bare) in [
            (&["a\r\nb\r\n"][..], false),
            (&["a\r", "\nb"], false),
            (&["a\nb"], true),
            (&["a\rb"], true),
            (&["a\r", "b"], true),
            (&["a", "\nb"], true),
            (&["\n"], true),
            (&["\r", "\r\n"], true),
        ] {
            let mut incoming = Incoming::default();
            pieces.iter().for_each(|piece| incoming.push(piece.as_bytes()).expect("room"));
            assert_eq!(incoming.has_bare_ends, is_bare, "{pieces:?}");
        }
    }

    #[test]
    fn of_a_large_message_its_beginning_is_kept() {
        let mut incoming = Incoming::default();
        (0..5).for_each(|_| incoming.push(&[b'x'; 100 << 10]).expect("room"));
        assert_eq!((incoming.kept.len(), incoming.is_whole()), (KEPT, false));
        incoming.size = LARGEST;
        assert!(incoming.push(b"x").is_err());
    }
}
