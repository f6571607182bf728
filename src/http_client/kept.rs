//! A connection that is kept for requests to one server, one after the other.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::task::JoinSet;

use super::{Dialled, HttpClient, HttpError, Target, addressed, start};

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
    /// It ends when this is dropped.
    _connection: JoinSet<()>,
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
            let (response, line) = self.begin(kept, request).await?;
            let status = response.status();
            let (body, is_whole) = beginning(response.into_body(), most).await;
            self.line = is_whole.then_some(line);
            Ok((status, body))
        });
        sent.await.unwrap_or(Err(HttpError::Late(time)))
    }

    async fn begin(
        &self,
        kept: Option<Line>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Line), HttpError> {
        let (request, target) = addressed(request)?;
        if let Some(mut line) = kept.filter(|line| line.target == target)
            && line.sender.ready().await.is_ok()
            && let Ok(response) = line.sender.send_request(request.clone()).await
        {
            return Ok((response, line));
        }
        let (mut sender, connection) = match self.client.dial_to(&target).await? {
            Dialled::Plain(stream) => start(stream).await?,
            Dialled::Secure(stream) => start(*stream).await?,
        };
        let response = sender.send_request(request).await?;
        Ok((response, Line { target, sender, _connection: connection }))
    }
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
