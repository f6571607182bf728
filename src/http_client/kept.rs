//! A connection that is kept for requests to one server, one after the other.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Dialled, HttpClient, HttpError, Target, addressed, beside, handshake};

/// A connection that is opened for the first request, and anew where the server has closed it. It is for requests
/// that may arrive twice: one over a connection that turns out to be closed is sent again over another.
pub struct Kept<'a> {
    client: &'a HttpClient,
    line: Option<Line>,
}

/// An open connection, and where it leads.
struct Line {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
    /// Carries what is sent and answered, while it is waited for.
    connection: Fuse<BoxFuture<'static, ()>>,
}

impl Line {
    async fn open<S>(stream: S, target: Target) -> Result<Line, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(stream).await?;
        Ok(Line { target, sender, connection: connection.map(drop).boxed().fuse() })
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, hyper::Error> {
        let Line { sender, connection, .. } = self;
        beside(connection, async {
            sender.ready().await?;
            sender.send_request(request).await
        })
        .await
    }
}

impl HttpClient {
    pub fn keep(&self) -> Kept<'_> {
        Kept { client: self, line: None }
    }
}

impl Kept<'_> {
    /// Sends a request within a time, and reads up to so many bytes of what the answer begins with. The status says
    /// what became of it; an answer that breaks off behind it changes nothing.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        time: Duration,
        most: usize,
    ) -> Result<(StatusCode, Vec<u8>), HttpError> {
        // Whatever goes wrong from here on, the connection is not used again.
        let kept = self.line.take();
        let sent = tokio::time::timeout(time, async {
            let (response, mut line) = begin(self.client, kept, request).await?;
            let status = response.status();
            let (body, is_whole) = beside(&mut line.connection, beginning(response.into_body(), most)).await;
            self.line = is_whole.then_some(line);
            Ok((status, body))
        });
        sent.await.unwrap_or(Err(HttpError::Late(time)))
    }
}

/// Sends a request over the connection that was kept, or else over a new one.
async fn begin(
    client: &HttpClient,
    kept: Option<Line>,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Line), HttpError> {
    let (request, target) = addressed(request)?;
    if let Some(mut line) = kept.filter(|line| line.target == target)
        && let Ok(response) = line.send(request.clone()).await
    {
        return Ok((response, line));
    }
    let mut line = match client.dial_to(&target).await? {
        Dialled::Plain(stream) => Line::open(stream, target).await?,
        Dialled::Secure(stream) => Line::open(*stream, target).await?,
    };
    Ok((line.send(request).await?, line))
}

/// What a body begins with, and whether that is all of it.
async fn beginning(mut body: Incoming, most: usize) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    loop {
        let data = match body.frame().await {
            None => return (kept, true),
            Some(Err(_)) => return (kept, false),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        let room = most - kept.len();
        kept.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return (kept, false);
        }
    }
}
