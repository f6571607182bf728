//! A message on its way out of the store, whole or one file of it, piece by piece.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::email::Attachment;
use super::store::{self, CHUNK};
use crate::db::{Db, DbError};
use crate::emails::Pieces;
use crate::id::ReceivedEmailId;
use crate::mime::TransferDecoder;

/// The message from one place to another.
fn raw(db: Db, id: ReceivedEmailId, start: u64, end: u64) -> Pieces {
    let chunk = CHUNK as u64;
    stream::try_unfold((db, start), move |(db, at)| async move {
        if at >= end {
            return Ok(None);
        }
        let rows = db.read(store::chunk(id, (at / chunk) as i64)).await?;
        let lost = || DbError::Broken("a piece of a mail is missing".into());
        let bytes = Bytes::from(rows.first().ok_or_else(lost)?.bytes(0)?);
        let from = (at % chunk) as usize;
        let to = bytes.len().min(((end - at) as usize).saturating_add(from));
        if from >= to {
            return Err(lost());
        }
        Ok(Some((bytes.slice(from..to), (db, at + (to - from) as u64))))
    })
    .boxed()
}

/// The message as it came.
pub fn message(db: &Db, id: ReceivedEmailId, size: u64) -> Pieces {
    raw(db.clone(), id, 0, size)
}

/// A file, decoded.
pub fn file(db: &Db, id: ReceivedEmailId, file: &Attachment) -> Pieces {
    let encoded = raw(db.clone(), id, file.start, file.end);
    let decoder = Some(file.transfer.decoder());
    stream::try_unfold((encoded, decoder), |(mut encoded, mut decoder): (Pieces, Option<TransferDecoder>)| async move {
        let mut out = Vec::new();
        while out.is_empty() {
            match (encoded.next().await.transpose()?, decoder.as_mut()) {
                (Some(bytes), Some(decoder)) => decoder.push(&bytes, &mut out),
                (_, Some(_)) => decoder.take().into_iter().for_each(|decoder| decoder.finish(&mut out)),
                (_, None) => return Ok(None),
            }
        }
        Ok(Some((Bytes::from(out), (encoded, decoder))))
    })
    .boxed()
}

/// The first piece of a message, in which its whole head is.
pub async fn first_piece(db: &Db, id: ReceivedEmailId) -> Result<Vec<u8>, DbError> {
    db.read(store::chunk(id, 0)).await?.first().map_or_else(|| Ok(Vec::new()), |row| row.bytes(0))
}
