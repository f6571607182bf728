//! Attachments that are fetched from an address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::body::LARGEST;
use crate::error::Error;
use crate::http_client::{Bounds, HttpClient, HttpError, Incomplete, Reach};
use crate::id::WorkspaceId;

/// How long all attachments of a mail may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many are fetched at once: each holds some memory.
const AT_ONCE: usize = 16;

/// How many of them may be one workspace's: its servers may be slow, and others want to fetch, too.
const OF_ONE: usize = 4;

/// How many requests of a workspace may wait for its places.
const WAITING: usize = 64;

/// The largest file that fits into a mail, which counts it in base64.
const LARGEST_FILE: u64 = LARGEST / 4 * 3;

/// Fetches files. Clones share it.
#[derive(Clone)]
pub struct Fetcher {
    client: Arc<HttpClient>,
    places: Arc<Semaphore>,
    shares: Arc<Mutex<HashMap<WorkspaceId, Share>>>,
}

/// What one workspace may take.
#[derive(Clone)]
struct Share {
    places: Arc<Semaphore>,
    /// The same, with those who wait.
    line: Arc<Semaphore>,
}

/// The right to fetch a file.
struct Place {
    _line: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Fetcher {
    pub fn new(reach: Reach) -> Fetcher {
        Fetcher {
            client: Arc::new(HttpClient::new(reach)),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            shares: Arc::default(),
        }
    }

    /// A place, as soon as the workspace has one free and there is one.
    async fn place(&self, workspace_id: WorkspaceId, deadline: Instant) -> Result<Place, Error> {
        let share = self.share(workspace_id);
        let line = share.line.try_acquire_owned().map_err(|_| Error::RateLimited { retry_after: 1 })?;
        let wait = async { (share.places.acquire_owned().await, self.places.clone().acquire_owned().await) };
        match timeout_at(deadline, wait).await {
            Ok((Ok(own), Ok(place))) => Ok(Place { _line: line, _own: own, _place: place }),
            _ => Err(Error::Unavailable),
        }
    }

    fn share(&self, workspace_id: WorkspaceId) -> Share {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        // A permit holds on to its semaphore: what nobody else holds is not in use.
        shares.retain(|_, share| Arc::strong_count(&share.line) > 1);
        let new =
            || Share { places: Arc::new(Semaphore::new(OF_ONE)), line: Arc::new(Semaphore::new(OF_ONE + WAITING)) };
        shares.entry(workspace_id).or_insert_with(new).clone()
    }
}

/// When files that are asked for now must have arrived.
pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Where a file is, and for which field of whose mail.
pub struct Wanted<'a> {
    pub workspace_id: WorkspaceId,
    pub path: &'a str,
    pub field: &'a str,
}

/// A file that is being fetched.
pub struct Fetch {
    answer: Incomplete,
    field: String,
    _place: Place,
}

impl Fetch {
    pub async fn begin(fetcher: &Fetcher, wanted: &Wanted<'_>, deadline: Instant) -> Result<Fetch, Error> {
        let Wanted { workspace_id, path, field } = *wanted;
        let place = fetcher.place(workspace_id, deadline).await?;
        let request = Request::get(path).body(Full::<Bytes>::default());
        let request = request.map_err(|_| refused(field, &reason(&HttpError::Url)))?;
        let time = deadline.saturating_duration_since(Instant::now());
        let bounds = Bounds { time, bytes: LARGEST_FILE as usize };
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
