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
use crate::limits::{Background, DiskUse};

/// How much of a body is held in memory. The rest is on disk, however many
/// bodies arrive and however long they take.
pub const IN_MEMORY: usize = 256 << 10;

/// A body.
pub enum Spool {
    Memory(Bytes),
    File(SpoolFile),
}

/// A body on disk, and the room that it takes there.
pub struct SpoolFile {
    /// `None` while it is being written.
    file: Option<File>,
    size: usize,
    used: DiskUse,
    spooler: Background,
}

impl SpoolFile {
    fn new(app: &App) -> SpoolFile {
        SpoolFile { file: None, size: 0, used: app.spooled.clone(), spooler: app.admission.spooler.clone() }
    }

    /// Writes what is held behind what is there, if there is room for it.
    async fn append(&mut self, folder: PathBuf, mut held: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.size += held.len();
        self.used.take(held.len())?;
        let file = self.file.take();
        let write = move || {
            let mut file = match file {
                Some(file) => file,
                // Nobody else may read it, and it has no name that could be left behind.
                None => tempfile::tempfile_in(folder)?,
            };
            file.write_all(&held)?;
            held.clear();
            Ok((held, file))
        };
        let (held, file) = self.spooler.run(write).await?.map_err(|error: io::Error| unusable(&error))?;
        self.file = Some(file);
        Ok(held)
    }

    fn read(&self, part: Range<usize>) -> io::Result<Bytes> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let mut bytes = vec![0; part.len()];
        file.read_exact_at(&mut bytes, part.start as u64)?;
        Ok(bytes.into())
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.used.give_back(self.size);
        // A file without a name goes when it is closed, which takes a while if it is large.
        self.file.take().into_iter().for_each(|file| self.spooler.discard(file));
    }
}

impl Spool {
    /// Receives a body of at most `limit` bytes, within `patience`.
    pub async fn receive(app: &App, body: Body, limit: usize, patience: Duration) -> Result<Spool, Error> {
        Spool::receive_checked(app, body, limit, patience, |_| Ok(())).await
    }

    /// The same, where the beginning of a large body may tell that the rest need not be waited for.
    pub async fn receive_checked(
        app: &App,
        body: Body,
        limit: usize,
        patience: Duration,
        check_beginning: fn(&[u8]) -> Result<(), Error>,
    ) -> Result<Spool, Error> {
        if body.size_hint().lower() > limit as u64 {
            return Err(Error::TooLarge { limit });
        }
        let mut whole = std::pin::pin!(gather(Arriving { check_beginning, ..Arriving::new(app) }, body, limit));
        // Most bodies are there already: those need no clock.
        match whole.as_mut().now_or_never() {
            Some(spool) => spool,
            None => tokio::time::timeout(patience, whole).await.unwrap_or(Err(Error::TooSlow)),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Spool::Memory(bytes) => bytes.len(),
            Spool::File(file) => file.size,
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
            Spool::File(file) => file.read(part),
        }
    }

    /// The same body in memory where it is no longer than this, for one who has a turn to hold
    /// that much and reads it piece by piece.
    pub fn at_hand(self, most: usize) -> Result<Spool, Error> {
        match self {
            Spool::File(file) if file.size <= most => {
                file.read(0..file.size).map(Spool::Memory).map_err(|error| unusable(&error))
            }
            spool => Ok(spool),
        }
    }

    /// The same, where a spool that cannot be read is a store that cannot serve.
    pub fn part(&self, part: Range<usize>) -> Result<Bytes, Error> {
        self.read(part).map_err(|error| unusable(&error))
    }
}

/// A spool that cannot be written or read is a store that cannot serve.
pub fn unusable(error: &io::Error) -> Error {
    tracing::warn!(%error, "a body could not be spooled to disk");
    Error::Unavailable
}

/// A body as it arrives, piece by piece.
pub struct Arriving {
    app: App,
    held: Vec<u8>,
    file: Option<SpoolFile>,
    size: usize,
    /// Asked once, before anything is written to disk.
    check_beginning: fn(&[u8]) -> Result<(), Error>,
}

impl Arriving {
    pub fn new(app: &App) -> Arriving {
        Arriving { app: app.clone(), held: Vec::new(), file: None, size: 0, check_beginning: |_| Ok(()) }
    }

    /// Takes some more of it. Tells whether something was written to disk.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        self.size += bytes.len();
        self.held.extend_from_slice(bytes);
        let is_much = self.held.len() >= IN_MEMORY;
        if is_much {
            self.write().await?;
        }
        Ok(is_much)
    }

    async fn write(&mut self) -> Result<(), Error> {
        if self.file.is_none() {
            (self.check_beginning)(&self.held)?;
        }
        let file = self.file.get_or_insert_with(|| SpoolFile::new(&self.app));
        self.held = file.append(self.app.config.spool_folder(), std::mem::take(&mut self.held)).await?;
        Ok(())
    }

    /// All of it is there.
    pub async fn finish(mut self) -> Result<Spool, Error> {
        if self.file.is_some() {
            self.write().await?;
        }
        Ok(self.file.map_or_else(|| Spool::Memory(self.held.into()), Spool::File))
    }
}

async fn gather(mut arriving: Arriving, mut body: Body, limit: usize) -> Result<Spool, Error> {
    let app = arriving.app.clone();
    let mut turn = None;
    loop {
        if arriving.file.is_some() && turn.is_none() {
            turn = app.admission.receive().await;
        }
        let next = match body.frame().now_or_never() {
            Some(next) => next,
            None => {
                // Who has to wait for the other end lets others have the turn.
                turn = None;
                body.frame().await
            }
        };
        let Some(frame) = next else { break };
        let frame =
            frame.map_err(|_| Error::BadRequest { message: "The body ended before it was complete.".into() })?;
        let Ok(bytes) = frame.into_data() else { continue };
        if arriving.size + bytes.len() > limit {
            return Err(Error::TooLarge { limit });
        }
        if arriving.size == 0 && body.is_end_stream() && bytes.len() <= IN_MEMORY {
            // All of it came at once.
            return Ok(Spool::Memory(bytes));
        }
        if arriving.push(&bytes).await? {
            turn = None;
        }
    }
    arriving.finish().await
}
