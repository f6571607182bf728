//! Bodies that have arrived whole: in memory while they are small, else in a
//! file without a name, which goes with whoever holds it.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Body as _;

use crate::app::App;
use crate::error::Error;
use crate::limits::Room;

/// How much of a body is held in memory. The rest is on disk, however many
/// bodies arrive and however long they take.
pub const IN_MEMORY: usize = 128 << 10;

/// A body.
pub enum Spool {
    Memory(Bytes),
    File {
        file: File,
        size: usize,
        /// Given back with the file.
        _room: Room,
    },
}

impl Spool {
    /// Receives a body of at most `limit` bytes, within `patience`.
    pub async fn receive(app: &App, body: Body, limit: usize, patience: Duration) -> Result<Spool, Error> {
        if body.size_hint().lower() > limit as u64 {
            return Err(Error::TooLarge { limit });
        }
        let mut whole = std::pin::pin!(gather(app, body, limit));
        // Most bodies are there already: those need no clock.
        match whole.as_mut().now_or_never() {
            Some(spool) => spool,
            None => tokio::time::timeout(patience, whole).await.unwrap_or(Err(Error::TooSlow)),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Spool::Memory(bytes) => bytes.len(),
            Spool::File { size, .. } => *size,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of the body. It comes from memory or from what the system has just
    /// written, so a small one is read where it is wanted.
    pub fn read(&self, part: Range<usize>) -> io::Result<Bytes> {
        match self {
            Spool::Memory(bytes) if part.end <= bytes.len() => Ok(bytes.slice(part)),
            Spool::Memory(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Spool::File { file, .. } => {
                let mut bytes = vec![0; part.len()];
                file.read_exact_at(&mut bytes, part.start as u64)?;
                Ok(bytes.into())
            }
        }
    }
}

/// A spool that cannot be written or read is a store that cannot serve.
pub fn unusable(error: &io::Error) -> Error {
    tracing::warn!(%error, "a body could not be spooled to disk");
    Error::Unavailable
}

async fn gather(app: &App, mut body: Body, limit: usize) -> Result<Spool, Error> {
    let (mut held, mut file, mut size) = (Vec::new(), None, 0);
    let mut room = Room::none(&app.spooled);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Error::BadRequest { message: "The body ended before it was complete.".into() })?;
        let Ok(bytes) = frame.into_data() else { continue };
        size += bytes.len();
        if size > limit {
            return Err(Error::TooLarge { limit });
        }
        if size == bytes.len() && body.is_end_stream() && size <= IN_MEMORY {
            // All of it came at once.
            return Ok(Spool::Memory(bytes));
        }
        held.extend_from_slice(&bytes);
        if held.len() >= IN_MEMORY {
            room.grow(held.len())?;
            (held, file) = append(app.config.spool_folder(), held, file).await?;
        }
    }
    if file.is_none() {
        return Ok(Spool::Memory(held.into()));
    }
    room.grow(held.len())?;
    let (_, file) = append(app.config.spool_folder(), held, file).await?;
    file.map(|file| Spool::File { file, size, _room: room }).ok_or(Error::Internal)
}

/// Writes what is held to the file, which is made where there is none yet.
async fn append(folder: PathBuf, mut held: Vec<u8>, file: Option<File>) -> Result<(Vec<u8>, Option<File>), Error> {
    let write = move || {
        let mut file = match file {
            Some(file) => file,
            // Nobody else may read it, and it has no name that could be left behind.
            None => tempfile::tempfile_in(folder)?,
        };
        file.write_all(&held)?;
        held.clear();
        Ok((held, Some(file)))
    };
    let written = tokio::task::spawn_blocking(write).await.map_err(|_| Error::Internal)?;
    written.map_err(|error: io::Error| unusable(&error))
}
