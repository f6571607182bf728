//! What somebody else has written, shown in a browser where it can do nothing.

use axum::body::Body;
use axum::response::{Html, IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

/// What a mail may do in a browser: show itself, and nothing else.
const SANDBOX: &str = "sandbox; default-src 'none'; img-src data: cid:; style-src 'unsafe-inline'; font-src data:; \
     base-uri 'none'; \
     frame-ancestors 'self'";

/// HTML as a page of its own, which can do nothing but be looked at.
pub fn sandboxed(html: Body) -> Response {
    let mut response = Html(html).into_response();
    protect(&mut response);
    response
}

/// Lets an answer do nothing in a browser.
pub fn protect(response: &mut Response) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, SANDBOX),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}
