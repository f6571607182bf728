//! A mail as it travels, the same to the byte on every attempt. Small ones are kept in memory for
//! their other recipients; of large ones only what is around their contents, which are read from
//! the store and encoded piece by piece, once to be hashed and once for each attempt.

mod draft;
mod source;
mod writer;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::Engine;
use super::return_path::ReturnPath;
use super::store::Claimed;
use crate::db::{Db, DbError};
use crate::emails::{self, Stored};
use crate::id::EmailId;
use crate::memory::{Held, Room, WeighedCache, weighed_cache};
use crate::mime;
use crate::tracking::LinkWriter;

use source::Source;

pub use writer::Writer;

/// Up to this size mails are read together.
const READ_TOGETHER: i64 = 16 << 10;

/// How many mails are kept for their other recipients.
const KEPT: Room = Room { values: 2_000, bytes: 8 << 20, largest: 1 << 20 };

/// Why there is nothing to send.
pub enum NoMessage {
    /// And there never will be.
    Never(String),
    Store(DbError),
}

impl From<DbError> for NoMessage {
    fn from(error: DbError) -> NoMessage {
        NoMessage::Store(error)
    }
}

/// A mail as it travels.
pub struct Message {
    email_id: EmailId,
    pieces: Vec<Part>,
    pub size: u64,
    pub smtputf8: bool,
    pub eightbit: bool,
    /// The sender's address, as a dialogue says it.
    sender: String,
    /// Its domain, in ASCII and lower case.
    pub sender_domain: String,
    return_path: Option<ReturnPath>,
    /// What is sent to its return path comes here.
    pub reports_come: bool,
    /// What its links were rewritten by: then it is one recipient's.
    links: Option<Arc<LinkWriter>>,
    number: Option<i64>,
}

enum Part {
    Bytes(Bytes),
    /// Its content stands in the store, so many bytes. Without an encoding it goes as it is.
    Stored {
        part: i64,
        size: u64,
        encoding: Option<mime::Encoding>,
    },
}

impl Message {
    /// Where bounces go.
    pub fn return_path(&self, claimed: &Claimed) -> String {
        self.return_path.as_ref().map_or_else(|| self.sender.clone(), |path| path.of(claimed))
    }

    /// Whether that is an address of ours, and not the sender's own.
    pub fn has_return_path(&self) -> bool {
        self.return_path.is_some()
    }

    pub fn source<'a>(&'a self, db: &'a Db) -> Source<'a> {
        Source::new(db, self)
    }

    /// Whether it is the one that a recipient gets.
    fn is_for(&self, number: i64) -> bool {
        self.number.is_none_or(|whose| whose == number)
    }
}

impl Held for Message {
    fn held(&self) -> u64 {
        let bytes = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Stored { .. } => 0,
        };
        self.pieces.iter().map(|part| (size_of::<Part>() + bytes(part)) as u64).sum()
    }
}

/// Mails that are on their way.
pub struct Messages(WeighedCache<EmailId, Message>);

impl Default for Messages {
    fn default() -> Messages {
        Messages(weighed_cache(&KEPT))
    }
}

impl Engine {
    /// The mail of a recipient. Those who want the same one at the same time wait for one of them.
    pub(in crate::delivery) async fn message(
        &self,
        claimed: &Claimed,
        loaded: Option<Stored>,
    ) -> Result<Arc<Message>, NoMessage> {
        if claimed.contact_id.is_some() {
            return self.own_message(claimed).await.map(Arc::new);
        }
        if let Some(message) = self.message_about_topic(claimed).await? {
            return Ok(Arc::new(message));
        }
        let write = |loaded: Option<Stored>| async {
            let stored = match loaded {
                Some(stored) => stored,
                None => self.writer.load(None, claimed.email_id).await?,
            };
            self.writer.write(stored, Some(claimed.place_in_mail())).await.map(Arc::new)
        };
        let kept = self.messages.0.get_or_insert_async(&claimed.email_id, write(loaded)).await?;
        if kept.is_for(claimed.number) { Ok(kept) } else { write(None).await }
    }

    /// The small mails of recipients, read together; the others are read when it is their turn. None of a broadcast's,
    /// which are made one by one.
    pub(in crate::delivery) async fn load_small<'a>(
        &self,
        of: impl Iterator<Item = &'a Claimed>,
    ) -> HashMap<EmailId, Stored> {
        let ids: HashSet<EmailId> = of.filter(|row| row.contact_id.is_none()).map(|row| row.email_id).collect();
        if ids.len() < 2 {
            return HashMap::new();
        }
        let loaded = emails::load_small(&self.app.db, ids, READ_TOGETHER).await;
        let loaded = loaded.inspect_err(|error| tracing::debug!(%error, "mails could not be read together"));
        loaded.unwrap_or_default().into_iter().map(|stored| (stored.summary.id, stored)).collect()
    }
}
