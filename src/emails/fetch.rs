//! Attachments that are fetched from an address.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::Emails;
use super::body::LARGEST;
use crate::error::Error;
use crate::http_client::{Bounds, HttpError, Incomplete};

/// How long an attachment may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file that is being fetched.
pub struct Fetch {
    answer: Incomplete,
    field: String,
}

impl Fetch {
    pub async fn begin(emails: &Emails, path: &str, field: &str) -> Result<Fetch, Error> {
        let request = Request::get(path).body(Full::<Bytes>::default());
        let request = request.map_err(|_| refused(field, &reason(&HttpError::Url)))?;
        let bounds = Bounds { time: PATIENCE, bytes: LARGEST as usize };
        let answer = emails.client.open(request, bounds).await.map_err(|error| failed(field, &error))?;
        if !answer.status.is_success() {
            return Err(refused(field, &format!("its server answered with the status {}", answer.status.as_u16())));
        }
        Ok(Fetch { answer, field: field.to_owned() })
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
        HttpError::Late(time) => format!("it did not arrive within {} seconds", time.as_secs()),
    }
}
