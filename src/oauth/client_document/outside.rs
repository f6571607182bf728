//! Fetches a document from the server that its address names.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Full;

use super::url::DocumentUrl;
use crate::clock::{HOUR, MINUTE, SECOND};
use crate::http_client::{Bounds, HttpClient, HttpError};
use crate::web;

/// How long a fetch may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The largest document that is read.
const LIMIT: usize = 5 << 10;

/// For how long a document is believed, whatever its server says.
const SHORTEST: i64 = 5 * MINUTE;
const LONGEST: i64 = 24 * HOUR;

/// Why a document could not be fetched. For the log: a stranger is told no more
/// than that it could not, or our network could be mapped by trying.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("the request cannot be written: {0}")]
    Request(#[from] http::Error),
    #[error(transparent)]
    Fetch(#[from] HttpError),
    #[error("the answer is {0} instead of 200; redirects are not followed")]
    Status(StatusCode),
    #[error("the answer is not labelled JSON")]
    NotJson,
}

/// A document as it was served, and for how long it may be believed.
pub struct Fetched {
    pub bytes: Bytes,
    pub good_for: i64,
}

/// Fetches what stands at an address.
pub async fn fetch(client: &HttpClient, url: &DocumentUrl) -> Result<Fetched, Unreachable> {
    let request = Request::get(url.as_str()).header(ACCEPT, "application/json").body(Full::default())?;
    let answer = client.send(request, Bounds { time: PATIENCE, bytes: LIMIT }).await?;
    if answer.status != StatusCode::OK {
        return Err(Unreachable::Status(answer.status));
    }
    if !web::is_json(&answer.headers) {
        return Err(Unreachable::NotJson);
    }
    Ok(Fetched { good_for: good_for(&answer.headers), bytes: answer.body })
}

/// For how long an answer may be believed: what its server says, within bounds.
fn good_for(headers: &HeaderMap) -> i64 {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let directives = lines.flat_map(|line| line.split(',')).map(|one| one.trim().to_ascii_lowercase());
    let mut told = None;
    for directive in directives {
        if directive == "no-store" || directive == "no-cache" {
            return SHORTEST;
        }
        if let Some(seconds) = directive.strip_prefix("max-age=") {
            told = Some(seconds.trim_matches('"').parse::<i64>().unwrap_or(0));
        }
    }
    told.unwrap_or(0).saturating_mul(SECOND).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_believed_for_5_minutes_to_24_hours() {
        for (line, expected) in [
            ("", SHORTEST),
            ("max-age=0", SHORTEST),
            ("max-age=299", SHORTEST),
            ("public, max-age=3600", HOUR),
            ("Max-Age=\"3600\"", HOUR),
            ("max-age=86400", LONGEST),
            ("max-age=999999999999", LONGEST),
            ("max-age=99999999999999999999", SHORTEST),
            ("max-age=-1", SHORTEST),
            ("max-age=x", SHORTEST),
            ("max-age=3600, no-cache", SHORTEST),
            ("no-store", SHORTEST),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, http::HeaderValue::from_static(line))]);
            assert_eq!(good_for(&headers), expected, "{line}");
        }
        assert_eq!(good_for(&HeaderMap::new()), SHORTEST);
    }
}
