//! Long contents on their way into the store: in pieces, some at a time, each in a commit of its own.
//! The mail itself comes with the last commit: before that it is nothing, and its pieces are swept
//! away if it stays so.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;

use super::Emails;
use super::base64::Decoder;
use super::body::LARGEST;
use super::draft::{Draft, Pending, Source};
use super::email::Content;
use super::envelope::{CHUNK, FIRST_ATTACHMENT, HTML, MESSAGE, TEXT};
use super::fetch::{self, Fetch, Wanted};
use super::store;
use crate::auth::Actor;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::EmailId;
use crate::web::{LongReader, LongValues, Spool};

/// How many pieces go into a commit: others want to write, too.
const CHUNKS_AT_ONCE: usize = 2;

/// Brings what a draft still lacks into the store, and then it lacks nothing.
pub async fn store(
    emails: &Emails,
    caller: &dyn Actor,
    id: EmailId,
    draft: &mut Draft,
    values: Option<&Arc<LongValues>>,
) -> Result<(), Error> {
    let deadline = fetch::deadline();
    for Pending { part, source } in std::mem::take(&mut draft.pending) {
        let (field, place) = (name_of(part), (id, part));
        let room = room_for(part, draft);
        let size = match source {
            Source::Text(number) => match text(values, number, &field)? {
                Content::Here(text) => {
                    put(draft, part, Content::Here(text));
                    draft.check_size()?;
                    continue;
                }
                Content::Stored { .. } => {
                    keep(emails, caller, place, Feed::long(values, number, None, &field)?, room).await?
                }
            },
            Source::Base64(number) => {
                let feed = Feed::long(values, number, Some(Decoder::default()), &field)?;
                keep(emails, caller, place, feed, room).await?
            }
            Source::Path(path) => {
                let wanted = Wanted { workspace_id: caller.workspace_id(), path: &path, field: &field };
                let fetching = async {
                    let fetch = Fetch::begin(&emails.fetcher, &wanted, deadline).await?;
                    keep(emails, caller, place, Feed::Fetch(Box::new(fetch)), room).await
                };
                emails.admission.outside(Box::pin(fetching)).await??
            }
            Source::Spooled(spool, rest) => keep(emails, caller, place, Feed::Spooled { spool, rest }, room).await?,
        };
        put(draft, part, Content::Stored { size });
    }
    Ok(())
}

/// Brings a message into the store that was handed in whole.
pub async fn store_message(emails: &Emails, caller: &dyn Actor, id: EmailId, message: Arc<Spool>) -> Result<(), Error> {
    let rest = 0..message.len();
    let room = rest.len() as u64;
    keep(emails, caller, (id, MESSAGE), Feed::Spooled { spool: message, rest }, room).await.map(drop)
}

/// Brings files of a draft into the store that are in it elsewhere, in the order of its attachments.
pub async fn store_pieces(
    emails: &Emails,
    caller: &dyn Actor,
    id: EmailId,
    draft: &mut Draft,
    files: Vec<Pieces>,
) -> Result<(), Error> {
    for (pieces, part) in files.into_iter().zip(FIRST_ATTACHMENT..) {
        let room = room_for(part, draft);
        let size = keep(emails, caller, (id, part), Feed::Pieces(pieces), room).await?;
        put(draft, part, Content::Stored { size });
    }
    Ok(())
}

/// How many more bytes a mail may hold in a part.
fn room_for(part: i64, draft: &Draft) -> u64 {
    let room = LARGEST.saturating_sub(draft.email.encoded_size());
    if part < FIRST_ATTACHMENT { room } else { room / 4 * 3 }
}

/// How messages call a part.
fn name_of(part: i64) -> String {
    match part {
        HTML => "html".into(),
        TEXT => "text".into(),
        _ => format!("attachments[{}]", part - FIRST_ATTACHMENT),
    }
}

fn put(draft: &mut Draft, part: i64, content: Content<String>) {
    match (part, content) {
        (HTML, content) => draft.email.html = Some(content),
        (TEXT, content) => draft.email.text = Some(content),
        (_, Content::Stored { size }) => {
            let at = usize::try_from(part - FIRST_ATTACHMENT).unwrap_or(usize::MAX);
            if let Some(attachment) = draft.email.attachments.get_mut(at) {
                attachment.content = Content::Stored { size };
            }
        }
        (_, Content::Here(_)) => {}
    }
}

/// A body that fits beside its mail, or the word that it stands in pieces.
fn text(values: Option<&Arc<LongValues>>, number: usize, field: &str) -> Result<Content<String>, Error> {
    let wrong = || Error::invalid(format!("The `{field}` field must be a string, but is an array."));
    let values = values.filter(|values| !values.is_array(number)).ok_or_else(wrong)?;
    if values.size(number).is_none_or(|size| size > CHUNK) {
        return Ok(Content::Stored { size: 0 });
    }
    let mut reader = values.reader(number).ok_or_else(wrong)?;
    let mut whole = Vec::new();
    while let Some(bytes) = reader.read()? {
        whole.extend(bytes);
    }
    no_nul(&whole, field)?;
    String::from_utf8(whole).map(Content::Here).map_err(|_| Error::Internal)
}

fn no_nul(bytes: &[u8], field: &str) -> Result<(), Error> {
    match bytes.contains(&0) {
        true => Err(Error::invalid(format!("The `{field}` field must not hold the character U+0000."))),
        false => Ok(()),
    }
}

fn not_base64(field: &str) -> Error {
    Error::InvalidAttachment { message: format!("The `{field}` field must have `content` in base64.") }
}

/// Where a content comes from, some of it at a time.
enum Feed {
    Long(Long),
    Fetch(Box<Fetch>),
    Spooled { spool: Arc<Spool>, rest: Range<usize> },
    Pieces(Pieces),
}

/// A content that comes from the store, some of it at a time.
pub type Pieces = BoxStream<'static, Result<Bytes, DbError>>;

struct Long {
    reader: LongReader,
    kind: Kind,
    field: String,
}

enum Kind {
    Text,
    Base64(Decoder),
    /// As it was decoded.
    Bytes,
    Over,
}

impl Feed {
    fn long(
        values: Option<&Arc<LongValues>>,
        number: usize,
        decoder: Option<Decoder>,
        field: &str,
    ) -> Result<Feed, Error> {
        let wrong = || not_base64(field);
        let values = values.ok_or_else(wrong)?;
        let kind = match decoder {
            None => Kind::Text,
            Some(_) if values.is_array(number) => Kind::Bytes,
            Some(decoder) => Kind::Base64(decoder),
        };
        let reader = values.reader(number).ok_or_else(wrong)?;
        Ok(Feed::Long(Long { reader, kind, field: field.to_owned() }))
    }
}

impl Feed {
    /// Some more, behind what is held: as much as a commit takes. Tells whether there may be more.
    async fn fill(self, emails: &Emails, mut held: Vec<u8>) -> Result<(Feed, Vec<u8>, bool), Error> {
        let enough = CHUNK * CHUNKS_AT_ONCE;
        match self {
            Feed::Fetch(mut fetch) => {
                let mut goes_on = true;
                while goes_on && held.len() < enough {
                    let next = fetch.next().await?;
                    goes_on = next.is_some();
                    held.extend_from_slice(&next.unwrap_or_default());
                }
                Ok((Feed::Fetch(fetch), held, goes_on))
            }
            Feed::Pieces(mut pieces) => {
                let mut goes_on = true;
                while goes_on && held.len() < enough {
                    let next = pieces.try_next().await?;
                    goes_on = next.is_some();
                    held.extend_from_slice(&next.unwrap_or_default());
                }
                Ok((Feed::Pieces(pieces), held, goes_on))
            }
            Feed::Spooled { spool, rest } => {
                let fill = move || {
                    let end = (rest.start + enough.saturating_sub(held.len())).min(rest.end);
                    held.extend_from_slice(&spool.part(rest.start..end)?);
                    let rest = end..rest.end;
                    let goes_on = !rest.is_empty();
                    Ok((Feed::Spooled { spool, rest }, held, goes_on))
                };
                emails.admission.build(fill).await?
            }
            Feed::Long(mut long) => {
                let fill = move || {
                    let mut goes_on = true;
                    while goes_on && held.len() < enough {
                        goes_on = long.fill(&mut held)?;
                    }
                    Ok((Feed::Long(long), held, goes_on))
                };
                emails.admission.build(fill).await?
            }
        }
    }
}

impl Long {
    /// Some more bytes; `false` behind the last.
    fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        let next = self.reader.read()?;
        let wrong = |_| not_base64(&self.field);
        match (&mut self.kind, next) {
            (Kind::Over, _) | (Kind::Text | Kind::Bytes, None) => return Ok(false),
            (Kind::Text, Some(text)) => {
                no_nul(&text, &self.field)?;
                out.extend(text);
            }
            (Kind::Bytes, Some(bytes)) => out.extend(bytes),
            (Kind::Base64(decoder), Some(text)) => decoder.push(&text, out).map_err(wrong)?,
            (Kind::Base64(decoder), None) => {
                std::mem::take(decoder).finish(out).map_err(wrong)?;
                self.kind = Kind::Over;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Stores a content in pieces, and tells how long it is.
async fn keep(
    emails: &Emails,
    caller: &dyn Actor,
    (id, part): (EmailId, i64),
    mut feed: Feed,
    room: u64,
) -> Result<u64, Error> {
    let (mut held, mut size, mut number, mut goes_on) = (Vec::new(), 0_u64, 0_i64, true);
    while goes_on {
        let before = held.len();
        (feed, held, goes_on) = feed.fill(emails, held).await?;
        size += (held.len() - before) as u64;
        if size > room {
            return Err(too_large(part));
        }
        let ready = if goes_on { held.len() / CHUNK * CHUNK } else { held.len() };
        if ready == 0 {
            continue;
        }
        let chunks = || -> Batch {
            held[..ready].chunks(CHUNK).zip(number..).map(|(chunk, at)| store::add_chunk(id, part, at, chunk)).collect()
        };
        let _turn = emails.admission.write().await?;
        caller.try_commit_part(chunks).await??;
        number += ready.div_ceil(CHUNK) as i64;
        held.drain(..ready);
    }
    Ok(size)
}

fn too_large(part: i64) -> Error {
    if part < FIRST_ATTACHMENT {
        return Error::TooLarge { limit: LARGEST as usize };
    }
    let message = format!(
        "The `{}` field makes the mail too large. With its attachments in base64 it may hold {LARGEST} bytes.",
        name_of(part)
    );
    Error::InvalidAttachment { message }
}
