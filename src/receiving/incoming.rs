//! A message on its way in: spooled as it arrives, read, and in the store before it is acknowledged.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::authentication::{Authenticator, Evidence};
use super::email::{Attachment, Envelope, NewReceived, tell};
use super::retention::forget_lost;
use super::store::{self, CHUNK};
use super::{Receiving, authentication};
use crate::clock::Clock;
use crate::db::{Batch, DbError};
use crate::email_metrics::{Counted, Tally};
use crate::error::Error;
use crate::id::{DomainId, ReceivedEmailId, WorkspaceId};
use crate::limits;
use crate::mime::{Address, Leaf, Lines, Mailbox, Outline, ReceivedHead, text_in};
use crate::web::{Arriving, Spool};

/// In bytes: no longer than a piece of the store, in which the head can then be found.
const LONGEST_HEAD: usize = 128 << 10;

/// In bytes. What is longer is a file.
const LONGEST_BODY: usize = 256 << 10;

/// How much of a message is decoded at a time, and up to which size that is done where it is wanted.
const PIECE: usize = 64 << 10;

/// How many pieces go into a commit: others want to write, too.
const CHUNKS_AT_ONCE: usize = 2;

/// A message that has passed so many servers goes in circles.
const MOST_HOPS: usize = 100;

/// For whom a message is, and who brings it.
pub struct Handover {
    pub workspace_id: WorkspaceId,
    pub domain_id: DomainId,
    /// Empty for nobody.
    pub sender: String,
    pub recipients: Vec<Address>,
    /// What the other side calls itself.
    pub helo: String,
    pub peer: IpAddr,
}

/// A message that is being brought.
pub struct Incoming {
    receiving: Receiving,
    handover: Handover,
    id: ReceivedEmailId,
    lines: Lines,
    received: u64,
    /// Until all of it is there.
    head: Vec<u8>,
    authenticator: Option<Authenticator>,
    outline: Outline,
    digest: Sha256,
    arriving: Arriving,
}

impl Incoming {
    /// Counts a message against who brings it, and for whom.
    pub fn begin(receiving: &Receiving, handover: Handover) -> Result<Incoming, Error> {
        receiving.limits.check(handover.peer, handover.workspace_id)?;
        let mut recipients: Vec<String> = handover.recipients.iter().map(Address::key).collect();
        recipients.sort_unstable();
        let mut digest = Sha256::new();
        digest.update(recipients.join("\n"));
        // No address holds this byte: one thing cannot be taken for two.
        digest.update([0]);
        digest.update(&handover.sender);
        digest.update([0]);
        Ok(Incoming {
            id: receiving.clock.ordered_id(),
            lines: Lines::default(),
            received: 0,
            head: Vec::new(),
            authenticator: None,
            outline: Outline::default(),
            digest,
            arriving: Arriving::new(receiving),
            receiving: receiving.clone(),
            handover,
        })
    }

    /// Takes some more of it. After an error there is nothing more to be done with it.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.received += bytes.len() as u64;
        let largest = self.receiving.config.submission.largest_received();
        if self.received > largest {
            return Err(Error::TooLarge { limit: largest as usize });
        }
        self.lines.check(bytes).map_err(wrong)?;
        self.outline.push(bytes);
        self.digest.update(bytes);
        match &mut self.authenticator {
            Some(authenticator) => authenticator.push(bytes),
            None => self.look_for_body(bytes)?,
        }
        self.arriving.push(bytes).await.map(drop)
    }

    /// The body begins behind the first empty line.
    fn look_for_body(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // The empty line may begin in what was there before.
        let from = self.head.len().saturating_sub(3);
        self.head.extend_from_slice(bytes);
        let end = match self.head.starts_with(b"\r\n") {
            true => Some(0),
            false => memchr::memmem::find(&self.head[from..], b"\r\n\r\n").map(|at| from + at + 2),
        };
        if end.unwrap_or(self.head.len()) > LONGEST_HEAD {
            return Err(wrong(format!("must have a head of at most {LONGEST_HEAD} bytes")));
        }
        if let Some(end) = end {
            let body = self.head.split_off(end);
            let mut authenticator = Authenticator::new(&read_head(&self.head)?);
            authenticator.push(&body[2..]);
            self.authenticator = Some(authenticator);
        }
        Ok(())
    }

    /// Takes it: when the id is there, it is in the store. It may be that of a mail that was brought before.
    pub async fn finish(mut self) -> Result<ReceivedEmailId, Error> {
        let line_end = self.lines.line_end();
        self.push(line_end).await?;
        let head = std::mem::take(&mut self.head);
        let head = read_head(&head)?;
        let (shown, is_automatic) = (head.shown(), head.is_automatic() || self.handover.sender.is_empty());
        let message_id = head.message_id().unwrap_or_default();
        let authenticator = self.authenticator.take().unwrap_or_else(|| Authenticator::new(&head));
        let Incoming { receiving, handover, id, outline, digest, arriving, .. } = self;
        let evidence = Evidence {
            peer: handover.peer,
            helo: &handover.helo,
            sender: &handover.sender,
            from: shown.sender.as_ref().map(|from| from.address.ascii_domain()),
        };
        let authentication = authentication::judge(&receiving.dns, &evidence, authenticator, receiving.clock.now());
        let authentication = authentication.await;
        let spool = Arc::new(arriving.finish().await?);
        let contents = read_out(&receiving, &spool, outline.finish()).await?;
        let text = |list: &[Mailbox]| list.iter().map(Mailbox::to_string).collect();
        let envelope = Envelope {
            to: text(&shown.to),
            cc: text(&shown.cc),
            reply_to: text(&shown.reply_to),
            received_for: handover.recipients.iter().map(|address| address.as_str().to_owned()).collect(),
            return_path: handover.sender,
            attachments: contents.attachments,
            authentication,
        };
        let new = NewReceived {
            id,
            workspace_id: handover.workspace_id,
            domain_id: handover.domain_id,
            digest: digest.finalize().into(),
            shown,
            message_id,
            is_automatic,
            envelope,
            html: contents.html,
            text: contents.text,
            size: spool.len() as u64,
        };
        let taking = Taking { receiving: &receiving, new: &new, spool };
        taking.run().await
    }
}

fn read_head(head: &[u8]) -> Result<ReceivedHead<'_>, Error> {
    let head = ReceivedHead::read(head).map_err(wrong)?;
    match head.count("Received") > MOST_HOPS {
        true => Err(wrong("has passed so many servers that it must be going in circles")),
        false => Ok(head),
    }
}

fn wrong(flaw: impl AsRef<str>) -> Error {
    Error::invalid(format!("The message {}.", flaw.as_ref()))
}

/// What a message holds.
#[derive(Default)]
struct Contents {
    html: Option<String>,
    text: Option<String>,
    attachments: Vec<Attachment>,
}

/// The first text and the first HTML are what the message says; all else are files.
async fn read_out(receiving: &Receiving, spool: &Arc<Spool>, leaves: Vec<Leaf>) -> Result<Contents, Error> {
    let (spool, clock, is_small) = (spool.clone(), receiving.clock.clone(), spool.len() <= PIECE);
    let read = move || {
        let mut contents = Contents::default();
        for leaf in leaves {
            contents.add(leaf, &spool, &clock)?;
        }
        Ok(contents)
    };
    if is_small { read() } else { receiving.admission.build(read).await? }
}

impl Contents {
    fn add(&mut self, leaf: Leaf, spool: &Spool, clock: &Clock) -> Result<(), Error> {
        let slot = match leaf.content_type.as_str() {
            "text/plain" if leaf.is_body() => Some(&mut self.text),
            "text/html" if leaf.is_body() => Some(&mut self.html),
            _ => None,
        };
        let slot = slot.filter(|slot| slot.is_none());
        let (size, kept) = decode(&leaf, spool, slot.is_some())?;
        if let (Some(slot), Some(kept)) = (slot, kept) {
            *slot = Some(text_in(leaf.charset.as_deref(), &kept));
            return Ok(());
        }
        self.attachments.push(Attachment {
            id: clock.ordered_id(),
            start: leaf.start,
            end: leaf.end,
            transfer: leaf.transfer,
            size,
            is_inline: leaf.disposition.as_deref() != Some("attachment") && leaf.content_id.is_some(),
            content_type: leaf.content_type,
            filename: leaf.filename,
            content_id: leaf.content_id,
        });
        Ok(())
    }
}

/// How long a content is, and what it is where that is wanted and not too long.
fn decode(leaf: &Leaf, spool: &Spool, is_wanted: bool) -> Result<(u64, Option<Vec<u8>>), Error> {
    let (mut decoder, mut out, mut kept, mut size) = (leaf.transfer.decoder(), Vec::new(), Vec::new(), 0);
    let end = (leaf.end as usize).min(spool.len());
    let mut take = |out: &mut Vec<u8>| {
        size += out.len() as u64;
        if is_wanted && size <= LONGEST_BODY as u64 {
            kept.append(out);
        }
        out.clear();
    };
    for at in (leaf.start as usize..end).step_by(PIECE) {
        decoder.push(&spool.part(at..(at + PIECE).min(end))?, &mut out);
        take(&mut out);
    }
    decoder.finish(&mut out);
    take(&mut out);
    Ok((size, (is_wanted && size <= LONGEST_BODY as u64).then_some(kept)))
}

/// A message that is there whole, on its way into the store.
struct Taking<'a> {
    receiving: &'a Receiving,
    new: &'a NewReceived,
    spool: Arc<Spool>,
}

impl Taking<'_> {
    async fn run(self) -> Result<ReceivedEmailId, Error> {
        match self.spool.len() <= CHUNK {
            true => {
                let message = self.spool.part(0..self.spool.len())?;
                self.commit(Some(message)).await
            }
            false => limits::serving(Box::pin(self.run_large())).await,
        }
    }

    async fn run_large(&self) -> Result<ReceivedEmailId, Error> {
        let admission = &self.receiving.admission;
        admission.admit().await?;
        for (number, at) in (0_i64..).step_by(CHUNKS_AT_ONCE).zip((0..self.spool.len()).step_by(CHUNK * CHUNKS_AT_ONCE))
        {
            let (spool, id) = (self.spool.clone(), self.new.id);
            let end = (at + CHUNK * CHUNKS_AT_ONCE).min(spool.len());
            let chunks = move || {
                let bytes = spool.part(at..end)?;
                let chunk = |(bytes, number): (&[u8], i64)| store::add_chunk(id, number, bytes);
                Ok::<Batch, Error>(bytes.chunks(CHUNK).zip(number..).map(chunk).collect())
            };
            let batch = admission.build(chunks).await??;
            let _turn = admission.write().await?;
            self.receiving.db.commit(batch).await?;
        }
        let _turn = admission.write().await?;
        self.commit(None).await
    }

    async fn commit(&self, message: Option<Bytes>) -> Result<ReceivedEmailId, Error> {
        let new = self.new;
        let committed = self.receiving.occurrences.commit_uncalled(new.workspace_id, |occurrences| {
            let now = occurrences.now();
            occurrences.batch.push(store::insert(new, now));
            message.iter().for_each(|message| occurrences.batch.push(store::add_chunk(new.id, 0, message)));
            tell(occurrences, new);
            let mut tally = Tally::default();
            tally.count(new.domain(), None, Counted::Received);
            tally.add_to(&mut occurrences.batch, new.workspace_id, &self.receiving.clock);
        });
        match committed.await? {
            Ok(_) => Ok(new.id),
            // It was brought before, and our answer did not arrive.
            Err(DbError::Unexpected { .. }) => {
                self.receiving.db.commit(forget_lost(new.id)).await?;
                Ok(new.id)
            }
            Err(error) => Err(error.into()),
        }
    }
}
