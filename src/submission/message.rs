//! A message within a dialogue: for whom it is, and how it comes in, behind `DATA` or in pieces.

use std::time::Instant as Moment;

use tokio::time::Instant;

use super::session::{LOG_IN_FIRST, Submitter};
use crate::emails::{Handover, Incoming, LARGEST};
use crate::error::Error;
use crate::mime::Address;
use crate::smtp_server::{Dots, Lost, Reply, Session};

/// What was said of a message that is to come.
pub struct Transaction {
    pub recipients: Vec<Address>,
    pub smtputf8: bool,
    /// The message itself, where it comes in pieces.
    begun: Option<Box<Receiving>>,
}

impl Transaction {
    pub fn new(smtputf8: bool) -> Transaction {
        Transaction { recipients: Vec::new(), smtputf8, begun: None }
    }

    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }
}

/// A message that is coming in. After an error the rest of it is passed over, because it comes
/// all the same.
struct Receiving {
    incoming: Result<Incoming, Error>,
    recipients: usize,
    size: u64,
    began: Moment,
}

impl Receiving {
    async fn push(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.size += bytes.len() as u64;
        if self.size > 2 * LARGEST {
            let error = Error::TooLarge { limit: LARGEST as usize };
            return Err(Lost::Refused(error.into()));
        }
        if let Ok(incoming) = &mut self.incoming
            && let Err(error) = incoming.push(bytes).await
        {
            self.incoming = Err(error);
        }
        Ok(())
    }
}

impl Submitter {
    /// Where a message goes, if one may come now.
    fn receive(&mut self) -> Result<Box<Receiving>, Reply> {
        let caller = self.caller.clone();
        let caller = caller.ok_or(LOG_IN_FIRST)?;
        let transaction = self.transaction.take().ok_or(Reply::new(503, "5.5.1 Say MAIL first."))?;
        if let Some(begun) = transaction.begun {
            return Ok(begun);
        }
        if transaction.recipients.is_empty() {
            self.transaction = Some(transaction);
            return Err(Reply::new(503, "5.5.1 Say for whom it is first, with RCPT."));
        }
        let recipients = transaction.recipients.len();
        let handover = Handover {
            recipients: transaction.recipients,
            helo: self.helo.clone().unwrap_or_default(),
            is_encrypted: self.dialogue.is_encrypted,
            smtputf8: transaction.smtputf8,
        };
        let incoming = Ok(Incoming::new(&self.server.emails, caller, handover));
        Ok(Box::new(Receiving { incoming, recipients, size: 0, began: Moment::now() }))
    }

    fn deadline(&self, began: Moment) -> Instant {
        let patience = &self.server.patience;
        Instant::from_std(began + patience.message).min(Instant::now() + patience.piece)
    }

    pub(super) async fn data(&mut self) -> Result<Reply, Lost> {
        if self.transaction.as_ref().is_some_and(Transaction::has_begun) {
            return Ok(Reply::new(503, "5.5.1 This message comes with BDAT; RSET takes it back."));
        }
        let mut receiving = match self.receive() {
            Ok(receiving) => receiving,
            Err(refusal) => return Ok(refusal),
        };
        self.dialogue.stream.say(&Reply::new(354, "Send the message, and behind it a line with a single dot."));
        self.dialogue.stream.flush(self.time_for_command()).await?;
        let (mut dots, mut message, mut end) = (Dots::default(), Vec::new(), None);
        while end.is_none() {
            let deadline = self.deadline(receiving.began);
            let piece = self.dialogue.stream.piece(deadline).await?;
            end = dots.push(piece, &mut message);
            let count = end.unwrap_or(piece.len());
            self.dialogue.stream.take(count);
            receiving.push(&message).await?;
            message.clear();
        }
        Ok(self.accept(receiving).await)
    }

    /// Takes a piece of a message. Its bytes come whatever is answered.
    pub(super) async fn chunk(&mut self, size: u64, is_last: bool) -> Result<Reply, Lost> {
        // From strangers nothing is taken, not even to be thrown away.
        if self.caller.is_none() {
            return Err(Lost::Refused(LOG_IN_FIRST));
        }
        if size > 2 * LARGEST {
            return Err(Lost::Refused(Error::TooLarge { limit: LARGEST as usize }.into()));
        }
        let mut receiving = self.receive();
        let began = receiving.as_ref().map_or_else(|_| Moment::now(), |receiving| receiving.began);
        let mut rest = size;
        while rest > 0 {
            let deadline = self.deadline(began);
            let piece = self.dialogue.stream.piece(deadline).await?;
            let count = rest.min(piece.len() as u64) as usize;
            if let Ok(receiving) = &mut receiving {
                receiving.push(&piece[..count]).await?;
            }
            self.dialogue.stream.take(count);
            rest -= count as u64;
        }
        let receiving = match receiving {
            Ok(receiving) => receiving,
            Err(refusal) => return Ok(refusal),
        };
        // A message that was refused is over; what follows of it is told to begin anew.
        if is_last || receiving.incoming.is_err() {
            return Ok(self.accept(receiving).await);
        }
        let mut transaction = Transaction::new(false);
        transaction.begun = Some(receiving);
        self.transaction = Some(transaction);
        Ok(Reply::told(250, format!("2.0.0 {size} bytes taken.")))
    }

    /// Queues a message, and answers when it is in the store.
    async fn accept(&mut self, receiving: Box<Receiving>) -> Reply {
        let Receiving { incoming, recipients, size, began } = *receiving;
        // From here on the client waits for us: its connection is not one of those that could go.
        self.dialogue.stream.connection.head_arrived(false);
        let accepted = match incoming {
            Ok(incoming) => Box::pin(incoming.finish()).await,
            Err(error) => Err(error),
        };
        self.dialogue.stream.connection.answered(0);
        self.dialogue.stream.rest();
        if let Err(Error::InvalidKey) = &accepted {
            self.caller = None;
        }
        let reply = match accepted {
            Ok(id) => {
                self.dialogue.forgive();
                Reply::told(250, format!("2.0.0 Queued as {id}"))
            }
            Err(error) => error.into(),
        };
        let (code, micros, sender) = (reply.code, began.elapsed().as_micros() as u64, self.peer.ip());
        tracing::info!(target: "posthorn::submission", code, micros, size, recipients, %sender, "message");
        reply
    }
}
