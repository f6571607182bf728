//! Attachments that are fetched from an address.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::body::LARGEST;
use crate::error::Error;
use crate::http_client::{Bounds, HttpClient, HttpError, Incomplete, Reach};

/// How long all attachments of a mail may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many are fetched at once: each holds some memory.
const AT_ONCE: usize = 16;

/// Fetches files. Clones share it.
#[derive(Clone)]
pub struct Fetcher {
    client: Arc<HttpClient>,
    places: Arc<Semaphore>,
}

impl Fetcher {
    pub fn new(reach: Reach) -> Fetcher {
        Fetcher { client: Arc::new(HttpClient::new(reach)), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

/// When files that are asked for now must have arrived.
pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// A file that is being fetched.
pub struct Fetch {
    answer: Incomplete,
    field: String,
    _place: OwnedSemaphorePermit,
}

impl Fetch {
    pub async fn begin(fetcher: &Fetcher, path: &str, field: &str, deadline: Instant) -> Result<Fetch, Error> {
        let place = timeout_at(deadline, fetcher.places.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Error::Unavailable)?;
        let request = Request::get(path).body(Full::<Bytes>::default());
        let request = request.map_err(|_| refused(field, &reason(&HttpError::Url)))?;
        let time = deadline.saturating_duration_since(Instant::now());
        let bounds = Bounds { time, bytes: LARGEST as usize };
        let answer = fetcher.client.open(request, bounds).await.map_err(|error| failed(field, &error))?;
        if !answer.status.is_success() {
            return Err(refused(field, &format!("its server answered with the status {}", answer.status.as_u16())));
        }
        Ok(Fetch { answer, field: field.to_owned(), _place: place })
    }

    /// Some more of it; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.answer.next().await.map_err(|error| failed(&self.field, &error))
    }
}

fn failed(field: &str, error: &HttpError) -> Error {
    tracing::info!(%error, "an attachment could not be fetched");
    refused(field, &reason(error))
}

fn refused(field: &str, reason: &str) -> Error {
    Error::InvalidAttachment { message: format!("The `{field}.path` field cannot be fetched: {reason}.") }
}

/// Why, as far as it tells nothing of our own network.
fn reason(error: &HttpError) -> String {
    match error {
        HttpError::Url => "it is no `http://` or `https://` address".into(),
        HttpError::Lookup(_) | HttpError::NoAddress | HttpError::NotPublic(_) => {
            "its host is none of the public internet".into()
        }
        HttpError::Connection(_) | HttpError::Name | HttpError::Exchange(_) => "its server does not answer".into(),
        HttpError::TooLarge(limit) => format!("it is larger than {limit} bytes"),
        HttpError::Late(_) => format!("it did not arrive within {} seconds", PATIENCE.as_secs()),
    }
}
