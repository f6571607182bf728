//! A connection's bytes under watch: request lines have an end, and a peer who
//! neither sends nor reads is not waited for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::connections::Connection;

/// The longest request line that is read.
pub const REQUEST_LINE: usize = 32 << 10;

/// What has to move within a window of time, or the peer counts as gone.
const LEAST: usize = 16 << 10;

/// Pieces of a body below this size are copied: each would otherwise keep the
/// whole buffer that it was read into.
const SMALL_PIECE: usize = 32 << 10;

/// What is still read, and thrown away, of a peer that got a final answer before
/// it had sent everything: closing at once would take the answer back.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1 << 20;

const TOO_LONG: &[u8] = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

pub struct Stream {
    tcp: TcpStream,
    connection: Arc<Connection>,
    line: Line,
    /// Runs while the peer does not take what is written.
    stalled: Option<Window>,
    lingering: Option<Lingering>,
}

/// How much of a request line has been seen.
#[derive(Default)]
struct Line {
    phase: u32,
    length: usize,
    ended: bool,
}

impl Stream {
    pub fn new(tcp: TcpStream, connection: Arc<Connection>) -> Stream {
        Stream { tcp, connection, line: Line::default(), stalled: None, lingering: None }
    }

    /// Whether these bytes make the request line longer than any may be.
    fn line_is_too_long(&mut self, fresh: &[u8]) -> bool {
        let phase = self.connection.phase();
        if phase != self.line.phase {
            self.line = Line { phase, ..Line::default() };
        }
        if self.line.ended || !phase.is_multiple_of(2) {
            return false;
        }
        match memchr::memchr(b'\n', fresh) {
            Some(end) => {
                self.line.ended = true;
                self.line.length += end;
            }
            None => self.line.length += fresh.len(),
        }
        // Up to two bytes of it end the line.
        self.line.length > REQUEST_LINE + 1
    }

    /// Answers before anybody has seen a request, and waits for the peer to stop.
    fn refuse_line(&mut self, cx: &mut Context<'_>) {
        if self.stalled.is_none() {
            let _ = self.tcp.try_write(TOO_LONG);
        }
        let _ = Pin::new(&mut self.tcp).poll_shutdown(cx);
        self.lingering = Some(Lingering::new());
    }

    /// What became of an attempt to write.
    fn written(&mut self, cx: &mut Context<'_>, attempt: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match attempt {
            Poll::Ready(Ok(count)) => {
                self.connection.sent(count);
                self.stalled.iter_mut().for_each(|window| window.moved += count);
                Poll::Ready(Ok(count))
            }
            Poll::Pending => {
                let span = self.connection.bounds().stall;
                match self.stalled.get_or_insert_with(|| Window::new(span)).is_over(cx) {
                    true => Poll::Ready(Err(gone("the peer does not read its answer"))),
                    false => Poll::Pending,
                }
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

fn gone(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(lingering) = &mut this.lingering {
            ready!(lingering.poll(&mut this.tcp, cx));
            return Poll::Ready(Err(gone("the request line was too long")));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.tcp).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        if this.line_is_too_long(fresh) {
            buf.set_filled(before);
            this.refuse_line(cx);
            return Pin::new(this).poll_read(cx, buf);
        }
        match this.connection.received(fresh.len()) {
            true => Poll::Ready(Ok(())),
            false => Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, "others hold too much"))),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let attempt = Pin::new(&mut this.tcp).poll_write(cx, bytes);
        this.written(cx, attempt)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let attempt = Pin::new(&mut this.tcp).poll_write_vectored(cx, pieces);
        this.written(cx, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// Called when everything was written.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.stalled = None;
        Pin::new(&mut this.tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.tcp).poll_shutdown(cx))?;
            if !this.connection.is_mid_request() {
                return Poll::Ready(Ok(()));
            }
        }
        this.lingering.get_or_insert_with(Lingering::new).poll(&mut this.tcp, cx).map(Ok)
    }
}

/// A span of time in which a peer has to move something.
struct Window {
    span: Duration,
    sleep: Pin<Box<Sleep>>,
    moved: usize,
}

impl Window {
    fn new(span: Duration) -> Window {
        Window { span, sleep: Box::pin(sleep(span)), moved: 0 }
    }

    /// Whether too little has moved. While enough has, the next window begins.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if self.moved < LEAST {
                return true;
            }
            self.moved = 0;
            self.sleep.as_mut().reset(Instant::now() + self.span);
        }
        false
    }
}

/// Reads what still comes, for a while, and throws it away.
struct Lingering {
    sleep: Pin<Box<Sleep>>,
    left: usize,
}

impl Lingering {
    fn new() -> Lingering {
        Lingering { sleep: Box::pin(sleep(LINGER)), left: LINGER_BYTES }
    }

    fn poll(&mut self, tcp: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *tcp).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() && self.left > 0 => {
                    self.left = self.left.saturating_sub(buf.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.sleep.as_mut().poll(cx),
            }
        }
    }
}

/// The body of a request, under the same watch.
pub struct RequestBody {
    incoming: Incoming,
    connection: Arc<Connection>,
    stalled: Option<Window>,
}

impl RequestBody {
    pub fn new(incoming: Incoming, connection: Arc<Connection>) -> RequestBody {
        RequestBody { incoming, connection, stalled: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            this.connection.awaits_body();
            let span = this.connection.bounds().stall;
            return match this.stalled.get_or_insert_with(|| Window::new(span)).is_over(cx) {
                true => Poll::Ready(Some(Err(axum::Error::new(gone("the peer does not send its body"))))),
                false => Poll::Pending,
            };
        };
        let ended = frame.is_none() || this.incoming.is_end_stream();
        if ended {
            this.connection.body_arrived();
        }
        Poll::Ready(frame.map(|frame| match frame {
            Ok(frame) => Ok(frame.map_data(|data| {
                this.stalled.iter_mut().for_each(|window| window.moved += data.len());
                if ended || data.len() >= SMALL_PIECE { data } else { Bytes::copy_from_slice(&data) }
            })),
            Err(error) => Err(axum::Error::new(error)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
