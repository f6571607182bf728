//! The bytes of a dialogue: commands that are written together, answers that are
//! read one by one, each within its time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::reply::{BadReply, MOST_BYTES, Partial, Reply};

/// What an idle connection may keep for its next message.
const MOST_KEPT: usize = 16 << 10;

/// Room for the answers of a server to a few commands.
const ROOM: usize = 1 << 10;

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Why no answer came, or a command did not get out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("the server closed the connection")]
    Closed,
    #[error("the server took longer than {} seconds", .0.as_secs_f32())]
    Late(Duration),
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error(transparent)]
    NoReply(#[from] BadReply),
}

pub(super) struct Stream {
    io: Box<dyn Io>,
    input: BytesMut,
    output: Vec<u8>,
}

impl Stream {
    pub(super) fn new(io: impl Io + 'static) -> Stream {
        Stream { io: Box::new(io), input: BytesMut::new(), output: Vec::new() }
    }

    /// What will be written next.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    pub(super) fn push(&mut self, parts: &[&str]) {
        for part in parts {
            self.output.extend_from_slice(part.as_bytes());
        }
        self.output.extend_from_slice(b"\r\n");
    }

    /// Writes what was pushed.
    pub(super) async fn flush(&mut self, limit: Duration) -> Result<(), Lost> {
        let write = async {
            self.io.write_all(&self.output).await?;
            self.io.flush().await
        };
        let written = timeout(limit, write).await;
        self.output.clear();
        written.map_err(|_| Lost::Late(limit))?.map_err(Lost::from)
    }

    /// Leaves little behind for a connection that waits for its next message.
    pub(super) fn rest(&mut self) {
        if self.output.capacity() > MOST_KEPT {
            self.output = Vec::new();
        }
    }

    /// Reads one answer. All of it has to come within the time: a server that
    /// drips is as late as one that is silent.
    pub(super) async fn reply(&mut self, limit: Duration) -> Result<Reply, Lost> {
        self.reply_lines(limit, |_| ()).await
    }

    /// Reads one answer and shows each of its lines.
    pub(super) async fn reply_lines(&mut self, limit: Duration, seen: impl FnMut(&[u8])) -> Result<Reply, Lost> {
        timeout(limit, self.read_reply(seen)).await.unwrap_or(Err(Lost::Late(limit)))
    }

    async fn read_reply(&mut self, mut seen: impl FnMut(&[u8])) -> Result<Reply, Lost> {
        let mut partial = Partial::default();
        let mut scanned = 0;
        loop {
            while let Some(found) = memchr::memchr(b'\n', &self.input[scanned..]) {
                let end = scanned + found;
                let line = self.input[..end].strip_suffix(b"\r").unwrap_or(&self.input[..end]);
                let reply = partial.line(line)?;
                seen(line);
                self.input.advance(end + 1);
                scanned = 0;
                if let Some(reply) = reply {
                    return Ok(reply);
                }
            }
            scanned = self.input.len();
            if scanned > MOST_BYTES {
                return Err(BadReply::Endless.into());
            }
            // So that what has come is read at once.
            self.input.reserve(ROOM);
            if self.io.read_buf(&mut self.input).await? == 0 {
                return Err(Lost::Closed);
            }
        }
    }

    /// Whether the server has said something that nobody has read, or has hung up.
    pub(super) fn has_spoken(&mut self) -> bool {
        !self.input.is_empty() || self.io.read_buf(&mut self.input).now_or_never().is_some()
    }

    /// Whether something was sent behind the last answer that was read.
    pub(super) fn has_more(&self) -> bool {
        !self.input.is_empty()
    }

    /// The same connection, encrypted from here on.
    pub(super) async fn encrypt(
        self,
        tls: Arc<ClientConfig>,
        host: &str,
        limit: Duration,
    ) -> Result<Stream, HandshakeError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| HandshakeError::Name)?;
        let handshake = timeout(limit, TlsConnector::from(tls).connect(name, self.io));
        match handshake.await {
            Ok(Ok(io)) => Ok(Stream::new(io)),
            Ok(Err(error)) => Err(HandshakeError::Failed(error)),
            Err(_) => Err(HandshakeError::Late(limit)),
        }
    }
}

/// Why a connection could not be encrypted.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the server's name cannot be in a certificate")]
    Name,
    #[error("the TLS handshake failed: {0}")]
    Failed(io::Error),
    #[error("the TLS handshake took longer than {} seconds", .0.as_secs_f32())]
    Late(Duration),
}
