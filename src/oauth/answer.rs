//! How OAuth's endpoints answer: their own error shape, redirects, and the
//! headers that keep both out of caches and referrers.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    CACHE_CONTROL, LOCATION, PRAGMA, REFERRER_POLICY, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::openapi::{RefOr, Response as Described};
use utoipa::{IntoResponses, ToSchema};
use utoipa_axum::router::{UtoipaMethodRouter, UtoipaMethodRouterExt};

use super::refusal::{ErrorCode, Refusal};
use crate::error::Error;
use crate::oauth::OAuth;
use crate::web::refusal;

/// How large the body of a request may be.
pub const BODY_LIMIT: usize = 16 << 10;

/// The shape of an OAuth error (RFC 6749, section 5.2).
#[derive(Serialize, ToSchema)]
#[schema(as = OAuthError)]
pub struct OAuthError {
    /// The kind of error, for programs.
    error: &'static str,
    /// What is wrong and what is allowed, for developers.
    error_description: String,
}

/// A refusal as JSON.
pub fn refused(status: StatusCode, refusal: &Refusal) -> Response {
    let body = OAuthError { error: refusal.error().as_str(), error_description: refusal.description().to_owned() };
    let mut response = (status, Json(body)).into_response();
    keep_private(response.headers_mut());
    response
}

/// A problem of ours, said in OAuth's words.
pub fn failed(error: Error) -> Response {
    let (refusal, retry) = reworded(&error);
    let mut response = refused(error.status(), &refusal);
    if let Some(seconds) = retry {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The refusal that says what an error says, and after how long to try again.
fn reworded(error: &Error) -> (Refusal, Option<u64>) {
    let (code, retry) = match error {
        Error::RateLimited { retry_after } => (ErrorCode::TooManyRequests, Some(*retry_after)),
        Error::Unavailable => (ErrorCode::TemporarilyUnavailable, Some(1)),
        Error::Internal => (ErrorCode::ServerError, None),
        _ => (ErrorCode::InvalidRequest, None),
    };
    (Refusal::new(code, error.message().into_owned()), retry)
}

/// `302 Found`, without a body.
pub fn found(location: &str) -> Response {
    redirected(StatusCode::FOUND, location)
}

/// `303 See Other`: after a form, the browser gets the next address.
pub fn see_other(location: &str) -> Response {
    redirected(StatusCode::SEE_OTHER, location)
}

fn redirected(status: StatusCode, location: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else {
        return failed(Error::Internal);
    };
    let mut response = status.into_response();
    response.headers_mut().insert(LOCATION, location);
    keep_private(response.headers_mut());
    response
}

pub fn keep_private(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// Lets pages of other origins read the answer: no credential is involved that
/// a browser would add by itself.
pub fn readable_by_pages(mut response: Response) -> Response {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Lets pages of other origins use a route: a browser asks first.
pub fn preflighted(route: UtoipaMethodRouter<OAuth>) -> UtoipaMethodRouter<OAuth> {
    route.map(|route| route.options(preflight))
}

/// The answer to a browser that asks whether a page of another origin may call.
async fn preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "POST"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "content-type, authorization, mcp-protocol-version"),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    readable_by_pages((StatusCode::NO_CONTENT, headers).into_response())
}

/// The failures that every endpoint of OAuth describes.
pub struct Failures;

/// The failures of an endpoint that reads a body.
pub struct BodyFailures;

impl IntoResponses for Failures {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        described([
            ("Too many requests from this address.", Error::RateLimited { retry_after: 7 }),
            ("A defect on our side; nothing was stored.", Error::Internal),
            ("The store cannot serve now; nothing was stored.", Error::Unavailable),
        ])
    }
}

impl IntoResponses for BodyFailures {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        described([
            ("The body did not arrive in time.", Error::TooSlow),
            ("The body is too large.", Error::TooLarge { limit: BODY_LIMIT }),
        ])
    }
}

fn described<const N: usize>(failures: [(&str, Error); N]) -> BTreeMap<String, RefOr<Described>> {
    let one = |(sentence, error): (&str, Error)| {
        let (words, retry) = reworded(&error);
        let header = retry.map(|_| RETRY_AFTER.to_string());
        (error.status().as_str().to_owned(), refusal(sentence, "OAuthError", [words.to_json()], header))
    };
    failures.into_iter().map(one).collect()
}
