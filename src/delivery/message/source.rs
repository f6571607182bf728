//! The bytes of a message, of which long parts are read from the store as they are wanted.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::{Message, NoMessage, Part};
use crate::db::Db;
use crate::emails;
use crate::id::EmailId;
use crate::mime::Encoder;
use crate::smtp::MessageSource;
use crate::tracking::{LinkWriter, Rewriter};

/// The bytes of a message, in order.
pub struct Source<'a> {
    db: &'a Db,
    email_id: EmailId,
    pieces: std::slice::Iter<'a, Part>,
    /// What is being read from the store.
    reading: Option<Reading>,
    links: Option<&'a Arc<LinkWriter>>,
}

/// A part that is being read from the store.
struct Reading {
    part: i64,
    /// The next piece of it.
    number: i64,
    /// How many bytes are still to come.
    left: u64,
    /// What changes its links.
    rewriter: Option<Rewriter>,
    encoder: Option<Encoder>,
}

impl Reading {
    /// The next piece of it, as it travels.
    fn push(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(rewriter) = &mut self.rewriter {
            let mut rewritten = Vec::with_capacity(bytes.len());
            rewriter.push(&bytes, &mut rewritten);
            bytes = rewritten;
        }
        match &mut self.encoder {
            Some(encoder) => {
                let mut encoded = Vec::new();
                encoder.push(&bytes, &mut encoded);
                encoded
            }
            None => bytes,
        }
    }

    /// What is left of it when all was read.
    fn finish(self) -> Vec<u8> {
        let (mut last, mut encoded) = (Vec::new(), Vec::new());
        self.rewriter.into_iter().for_each(|rewriter| rewriter.finish(&mut last));
        match self.encoder {
            Some(mut encoder) => {
                encoder.push(&last, &mut encoded);
                encoder.finish(&mut encoded);
                encoded
            }
            None => last,
        }
    }
}

impl<'a> Source<'a> {
    pub(super) fn new(db: &'a Db, message: &'a Message) -> Source<'a> {
        let Message { email_id, pieces, links, .. } = message;
        Source { db, email_id: *email_id, pieces: pieces.iter(), reading: None, links: links.as_ref() }
    }

    pub(super) async fn read(&mut self) -> Result<Option<Bytes>, NoMessage> {
        loop {
            if let Some(mut reading) = self.reading.take() {
                let rows = self.db.read(emails::chunk(self.email_id, reading.part, reading.number)).await?;
                let output = match rows.first() {
                    Some(row) => {
                        let bytes = row.bytes(0)?;
                        reading.left = reading.left.checked_sub(bytes.len() as u64).ok_or_else(cut)?;
                        let output = reading.push(bytes);
                        reading.number += 1;
                        self.reading = Some(reading);
                        output
                    }
                    None if reading.left > 0 => return Err(cut()),
                    None => reading.finish(),
                };
                if output.is_empty() {
                    continue;
                }
                return Ok(Some(output.into()));
            }
            match self.pieces.next() {
                None => return Ok(None),
                Some(Part::Bytes(bytes)) => return Ok(Some(bytes.clone())),
                Some(Part::Stored { part, size, encoding }) => {
                    let (part, left, encoder) = (*part, *size, encoding.map(Encoder::new));
                    let rewriter = self.links.filter(|_| part == emails::HTML_PART).map(LinkWriter::rewriter);
                    self.reading = Some(Reading { part, number: 0, left, rewriter, encoder });
                }
            }
        }
    }
}

/// What is sent is what was handed in, or nothing.
fn cut() -> NoMessage {
    NoMessage::Never("a piece of its contents is missing in the store, or is not as long as it was".into())
}

impl MessageSource for Source<'_> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.read().await.map_err(|why| match why {
            NoMessage::Never(reason) => io::Error::other(reason),
            NoMessage::Store(error) => io::Error::other(error),
        })
    }
}
