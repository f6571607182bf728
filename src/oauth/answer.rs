//! How OAuth's endpoints answer: their own error shape, redirects, and the
//! headers that keep both out of caches and referrers.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    CACHE_CONTROL, LOCATION, PRAGMA, REFERRER_POLICY, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::refusal::{ErrorCode, Refusal};
use crate::error::Error;

/// The shape of an OAuth error (RFC 6749, section 5.2).
#[derive(Serialize, ToSchema)]
#[schema(as = OAuthError)]
pub struct OAuthError {
    error: &'static str,
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
    let (code, retry) = match &error {
        Error::RateLimited { retry_after } => (ErrorCode::TooManyRequests, Some(*retry_after)),
        Error::Unavailable => (ErrorCode::TemporarilyUnavailable, Some(1)),
        Error::Internal => (ErrorCode::ServerError, None),
        _ => (ErrorCode::InvalidRequest, None),
    };
    let mut response = refused(error.status(), &Refusal::new(code, error.message().into_owned()));
    if let Some(seconds) = retry {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
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

/// The answer to a browser that asks whether a page of another origin may call.
pub async fn preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "POST"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "content-type, authorization, mcp-protocol-version"),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    readable_by_pages((StatusCode::NO_CONTENT, headers).into_response())
}
