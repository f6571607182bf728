//! The bytes of a dialogue: lines that are read one by one, answers that are written together,
//! each within its time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::reply::Reply;
use crate::web::Connection;

/// The longest line of all, that of a log-in (RFC 4954).
const LONGEST_LINE: usize = 12_288;

/// How much of a message is read at a time.
const PIECE: usize = 32 << 10;

/// What is still read from a client that is being left, so that it sees why.
const LINGERING: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);

pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Why a dialogue is over.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("the client closed the connection")]
    Closed,
    #[error("the client was too slow")]
    Late,
    #[error("there is no memory for what the client sends")]
    NoMemory,
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The client is told why.
    #[error("the client broke a rule")]
    Refused(Reply),
}

impl Lost {
    /// What the client is told, where there is still one.
    pub fn last_words(self) -> Option<Reply> {
        match self {
            Lost::Refused(reply) => Some(reply),
            Lost::Late => Some(Reply::new(421, "4.4.2 You were silent for too long.")),
            Lost::NoMemory => Some(Reply::new(421, "4.3.2 Too much at once. Try again in a moment.")),
            Lost::Closed | Lost::Broken(_) => None,
        }
    }
}

pub struct Stream {
    io: Box<dyn Io>,
    input: BytesMut,
    output: Vec<u8>,
    pub connection: Arc<Connection>,
}

impl Stream {
    pub fn new(io: impl Io + 'static, connection: Arc<Connection>) -> Stream {
        Stream { io: Box::new(io), input: BytesMut::new(), output: Vec::new(), connection }
    }

    /// Puts an answer behind those that wait to be written.
    pub fn say(&mut self, reply: &Reply) {
        reply.write(&mut self.output);
    }

    pub async fn flush(&mut self, limit: Duration) -> Result<(), Lost> {
        if self.output.is_empty() {
            return Ok(());
        }
        let write = async {
            self.io.write_all(&self.output).await?;
            self.io.flush().await
        };
        let written = timeout(limit, write).await;
        self.output.clear();
        written.map_err(|_| Lost::Late)?.map_err(Lost::from)
    }

    /// Whether the next line is there already: what is answered can then wait for its answer.
    pub fn has_line(&self) -> bool {
        memchr::memchr(b'\n', &self.input).is_some()
    }

    /// Reads a line, without its end. All of it has to come within the time. It may be given up
    /// and tried again: nothing is lost.
    pub async fn line(&mut self, limit: Duration) -> Result<Bytes, Lost> {
        let deadline = Instant::now() + limit;
        let mut scanned = 0;
        loop {
            let end = memchr::memchr(b'\n', &self.input[scanned..]).map(|found| scanned + found);
            if end.unwrap_or(self.input.len()) > LONGEST_LINE {
                return Err(Lost::Refused(Reply::new(500, "5.5.2 The line is too long.")));
            }
            if let Some(end) = end {
                let mut line = self.input.split_to(end + 1).freeze();
                line.truncate(line.len() - 1);
                return match line.strip_suffix(b"\r") {
                    Some(text) if !text.contains(&b'\r') => Ok(line.slice(..line.len() - 1)),
                    _ => Err(Lost::Refused(Reply::new(500, "5.5.2 Lines must end with CR and LF, and hold neither."))),
                };
            }
            scanned = self.input.len();
            self.read(1024, deadline).await?;
        }
    }

    async fn read(&mut self, room: usize, deadline: Instant) -> Result<(), Lost> {
        self.input.reserve(room);
        let count = timeout_at(deadline, self.io.read_buf(&mut self.input)).await.map_err(|_| Lost::Late)??;
        match count {
            0 => Err(Lost::Closed),
            _ if self.connection.received(count) => Ok(()),
            _ => Err(Lost::NoMemory),
        }
    }

    /// Some bytes of a message, within the time; they are taken by [`Stream::take`].
    pub async fn piece(&mut self, deadline: Instant) -> Result<&[u8], Lost> {
        if self.input.is_empty() {
            self.read(PIECE, deadline).await?;
        }
        Ok(&self.input)
    }

    pub fn take(&mut self, count: usize) {
        self.input.advance(count);
    }

    /// Leaves little behind between two messages.
    pub fn rest(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// The same connection, encrypted from here on. What was sent in clear behind the command for
    /// it is dropped: nobody knows who has said that.
    pub async fn encrypt(&mut self, acceptor: TlsAcceptor, limit: Duration) -> Result<(), Lost> {
        let in_clear = std::mem::replace(&mut self.io, Box::new(tokio::io::empty()));
        self.input = BytesMut::new();
        let io = timeout(limit, acceptor.accept(in_clear)).await.map_err(|_| Lost::Late)??;
        self.io = Box::new(io);
        Ok(())
    }

    /// Takes leave. A client that is still sending would lose the last answer if nobody read.
    pub async fn close(&mut self) {
        let leave = async {
            self.flush(LINGER).await.ok()?;
            self.io.shutdown().await.ok()?;
            let (mut rest, mut buffer) = (LINGERING, vec![0; 4096]);
            while rest > 0 {
                let count = self.io.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
                rest = rest.saturating_sub(count);
            }
            Some(())
        };
        let _ = timeout(LINGER, leave).await;
    }
}
