//! A message within a dialogue: a report is read, and mail is kept, and what that changes is committed before
//! it is acknowledged.

use std::time::Instant as Moment;

use tokio::time::Instant;

use super::session::{Recipients, Reporter, Target};
use crate::db::DbError;
use crate::delivery::{Effect, Feedback};
use crate::error::Error;
use crate::receiving::{self, Handover};
use crate::reports::{self, Report};
use crate::smtp_server::{Dots, Lost, Reply, Session};

/// In bytes. A report may bring the whole mail back.
pub const LARGEST: u64 = 48 << 20;

/// How much of it is kept: what a report says stands before the mail that it is about.
const KEPT: usize = 256 << 10;

const NO_REPORT: Reply =
    Reply::new(554, "5.6.0 This is neither a report on a delivery nor a complaint. Nothing else is read here.");
const FROM_SOMEBODY: Reply = Reply::new(554, "5.7.1 A report on a delivery must come from the null sender, `<>`.");
const ONLY_COMPLAINTS: Reply =
    Reply::new(554, "5.6.0 Only complaints are taken at this address; reports on deliveries go to the return path.");
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

/// A message on its way in. After an error the rest of mail is passed over, because it comes all the same.
enum Taking {
    Report { incoming: Incoming, to: Target, is_from_nobody: bool },
    Mail { incoming: Box<Result<receiving::Incoming, Error>>, size: u64, most: u64 },
}

impl Taking {
    async fn push(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        match self {
            Taking::Report { incoming, .. } => incoming.push(bytes),
            Taking::Mail { incoming, size, most } => {
                *size += bytes.len() as u64;
                if *size > *most {
                    let limit = *most as usize;
                    return Err(Lost::Refused(Error::TooLarge { limit }.into()));
                }
                if let Ok(taken) = &mut **incoming
                    && let Err(error) = taken.push(bytes).await
                {
                    **incoming = Err(error);
                }
                Ok(())
            }
        }
    }
}

impl Reporter {
    /// What a message becomes, if one may come now.
    fn begin_message(&mut self) -> Result<Taking, Reply> {
        let transaction = self.transaction.take().ok_or(Reply::new(503, "5.5.1 Say MAIL first."))?;
        match transaction.recipients {
            Recipients::Nobody => {
                self.transaction = Some(transaction);
                Err(Reply::new(503, "5.5.1 Say for whom it is first, with RCPT."))
            }
            Recipients::Report(to) => {
                let is_from_nobody = transaction.sender.is_empty();
                Ok(Taking::Report { incoming: Incoming::default(), to, is_from_nobody })
            }
            Recipients::Mailboxes { workspace_id, domain_id, addresses } => {
                let handover = Handover {
                    workspace_id,
                    domain_id,
                    sender: transaction.sender,
                    recipients: addresses,
                    helo: self.helo.clone().unwrap_or_default(),
                    peer: self.peer,
                };
                let incoming = receiving::Incoming::begin(&self.server.receiving, handover)?;
                Ok(Taking::Mail { incoming: Box::new(Ok(incoming)), size: 0, most: 2 * self.largest() })
            }
        }
    }

    pub(super) async fn data(&mut self) -> Result<Reply, Lost> {
        let mut taking = match self.begin_message() {
            Ok(taking) => taking,
            Err(refusal) => return Ok(refusal),
        };
        self.dialogue.stream.say(&Reply::new(354, "Send the message, and behind it a line with a single dot."));
        self.dialogue.stream.flush(self.server.patience.command).await?;
        let patience = self.server.patience;
        let last = Instant::from_std(Moment::now() + patience.message);
        let (mut dots, mut message, mut end) = (Dots::default(), Vec::new(), None);
        while end.is_none() {
            let piece = self.dialogue.stream.piece(last.min(Instant::now() + patience.piece)).await?;
            end = dots.push(piece, &mut message);
            let count = end.unwrap_or(piece.len());
            self.dialogue.stream.take(count);
            taking.push(&message).await?;
            message.clear();
        }
        // From here on the client waits for us: its connection is not one of those that could go.
        self.dialogue.stream.connection.head_arrived(false);
        let reply = match taking {
            Taking::Report { incoming, to, is_from_nobody } => self.accept(&incoming, to, is_from_nobody).await,
            Taking::Mail { incoming, size, .. } => self.accept_mail(*incoming, size).await,
        };
        self.dialogue.stream.connection.answered(0);
        self.dialogue.stream.rest();
        Ok(reply)
    }

    /// Answers when the mail is in the store.
    async fn accept_mail(&mut self, incoming: Result<receiving::Incoming, Error>, size: u64) -> Reply {
        let taken = match incoming {
            Ok(incoming) => Box::pin(incoming.finish()).await,
            Err(error) => Err(error),
        };
        let reply = match taken {
            Ok(id) => {
                self.dialogue.forgive();
                Reply::told(250, format!("2.0.0 Taken as {id}"))
            }
            Err(error) => error.into(),
        };
        let (code, sender) = (reply.code, self.peer);
        tracing::info!(target: "posthorn::inbound", code, size, %sender, "mail");
        reply
    }

    async fn accept(&mut self, incoming: &Incoming, to: Target, is_from_nobody: bool) -> Reply {
        if incoming.has_bare_ends {
            return BARE;
        }
        let Some(report) = reports::read(&incoming.kept, incoming.is_whole()) else { return NO_REPORT };
        match (&report, to) {
            (Report::Delivery(_), Target::Complaints) => return ONLY_COMPLAINTS,
            (Report::Delivery(_), _) if !is_from_nobody => return FROM_SOMEBODY,
            _ => {}
        }
        match take(&self.server.feedback, to, &report).await {
            Ok(effect) => {
                self.dialogue.forgive();
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

/// Writes down a report. One that came to the address for complaints is about the mail whose return
/// path it names, if we have signed that: anybody can write there.
async fn take(feedback: &Feedback, to: Target, report: &Report) -> Result<Effect, DbError> {
    let token = match (to, report) {
        (Target::ReturnPath(token), _) => Some(token),
        (Target::Complaints, Report::Complaint(complaint)) => {
            let path = complaint.return_path.as_deref().unwrap_or_default();
            feedback.open(path.split('@').next().unwrap_or_default()).await?
        }
        (Target::Complaints, Report::Delivery(_)) => None,
    };
    match token {
        Some(token) => feedback.take(token, report).await,
        None => Ok(Effect::Nothing),
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
