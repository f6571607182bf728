//! Looks at requests to the API as they pass: who called, what was sent and what it came to; and tells
//! callers what is left of their allowance.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use super::{Entry, Kept, RequestLog};
use crate::app::App;
use crate::auth::Seen;
use crate::config::RequestLogging;
use crate::limits::Allowance;
use crate::web::{Answering, Observation, Observer, RefusedCall};

/// How much of a body is kept.
const LONGEST_BODY: usize = 4096;

const LONGEST_ENDPOINT: usize = 512;
const LONGEST_USER_AGENT: usize = 256;

/// What is handed in by these has a list of its own, and there may be very much of it.
const BUSY: [&str; 4] = ["/events/send", "/events", "/emails", "/emails/batch"];

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Stands around the routes of the API.
pub struct Calls {
    app: App,
    log: RequestLog,
}

impl Calls {
    pub fn new(app: App, log: RequestLog) -> Calls {
        Calls { app, log }
    }

    fn scope(&self, method: &Method, path: &str) -> Scope {
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        match self.app.config.api.request_log {
            RequestLogging::All => Scope::Everything,
            RequestLogging::Writes if changes && *method == Method::POST && BUSY.contains(&path) => Scope::Refusals,
            RequestLogging::Writes if changes => Scope::Everything,
            RequestLogging::Writes | RequestLogging::Off => Scope::Nothing,
        }
    }
}

/// What the log wants of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Nothing,
    /// That it was refused, without what was sent: then nothing is kept before that is known.
    Refusals,
    Everything,
}

impl Observer for Calls {
    fn begin(&self, request: &mut Request<Body>) -> Option<Box<dyn Observation>> {
        let is_noted = self.scope(request.method(), request.uri().path()) == Scope::Everything;
        if !is_noted && !self.app.allowances.are_limited() {
            return None;
        }
        let seen = Seen::default();
        request.extensions_mut().insert(seen.clone());
        let noted = is_noted.then(|| Noted {
            app: self.app.clone(),
            log: self.log.clone(),
            method: known(request.method()),
            endpoint: cut(request.uri().path(), LONGEST_ENDPOINT),
            user_agent: text(request.headers(), &USER_AGENT).map(|agent| cut(agent, LONGEST_USER_AGENT)),
            sent: keep_body(request),
        });
        Some(Box::new(Call { seen, noted }))
    }

    fn refused<'a>(&'a self, call: RefusedCall<'a>, response: Response) -> Answering<'a> {
        let RefusedCall { workspace_id, method, route } = call;
        let endpoint = route.strip_prefix(self.app.addresses.base.path()).unwrap_or(route);
        if self.scope(method, endpoint) != Scope::Refusals {
            return Box::pin(std::future::ready(response));
        }
        Box::pin(async move {
            let (response, response_body) = kept(response).await;
            self.log.note(Entry {
                workspace_id,
                created_at: self.app.clock.now(),
                method: known(method),
                endpoint: endpoint.to_owned(),
                status: response.status().as_u16(),
                user_agent: None,
                request_body: Kept::Nothing,
                response_body,
            });
            response
        })
    }
}

/// A request that is being answered.
struct Call {
    seen: Seen,
    noted: Option<Noted>,
}

struct Noted {
    app: App,
    log: RequestLog,
    method: &'static str,
    endpoint: String,
    user_agent: Option<String>,
    sent: Arc<Mutex<Kept>>,
}

impl Observation for Call {
    fn finish(self: Box<Self>, mut response: Response) -> Answering<'static> {
        // Who shows no credential that stands is nobody's caller.
        let Some((workspace_id, allowance)) = self.seen.caller() else {
            return Box::pin(std::future::ready(response));
        };
        if let Some(allowance) = allowance {
            tell(response.headers_mut(), allowance);
        }
        let Some(noted) = self.noted else { return Box::pin(std::future::ready(response)) };
        Box::pin(async move {
            let (response, response_body) = kept(response).await;
            let Noted { app, log, method, endpoint, user_agent, sent } = noted;
            let request_body = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
            let (created_at, status) = (app.clock.now(), response.status().as_u16());
            log.note(Entry {
                workspace_id,
                created_at,
                method,
                endpoint,
                status,
                user_agent,
                request_body,
                response_body,
            });
            response
        })
    }
}

/// What a caller has left.
fn tell(headers: &mut HeaderMap, allowance: Allowance) {
    let Allowance { limit, remaining, .. } = allowance;
    headers.insert(LIMIT, limit.into());
    headers.insert(REMAINING, remaining.into());
    headers.insert(RESET, Allowance::RESET.into());
    if let Ok(policy) = HeaderValue::from_str(&format!("{limit};w={}", Allowance::RESET)) {
        headers.insert(POLICY, policy);
    }
}

fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// An answer, and what is kept of it: those that are whole and short.
async fn kept(response: Response) -> (Response, Kept) {
    let (parts, body) = response.into_parts();
    match body.size_hint().exact() {
        Some(length) if length <= LONGEST_BODY as u64 => {}
        _ => return (Response::from_parts(parts, body), Kept::TooLong),
    }
    let Ok(whole) = body.collect().await else { return (Response::from_parts(parts, Body::empty()), Kept::Nothing) };
    let bytes = whole.to_bytes();
    let kept = Kept::Complete(bytes.to_vec());
    (Response::from_parts(parts, Body::from(bytes)), kept)
}

/// Keeps what is read of the body of a request, if that is short.
fn keep_body(request: &mut Request<Body>) -> Arc<Mutex<Kept>> {
    let length = text(request.headers(), &CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    let sent = match length {
        Some(length) if length > LONGEST_BODY => return Arc::new(Mutex::new(Kept::TooLong)),
        _ => Arc::new(Mutex::new(Kept::Nothing)),
    };
    let body = std::mem::take(request.body_mut());
    *request.body_mut() = Body::new(Overheard { body, kept: sent.clone() });
    sent
}

/// A body of which is kept what is read.
struct Overheard {
    body: Body,
    kept: Arc<Mutex<Kept>>,
}

impl Overheard {
    fn keep(&self, bytes: &Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*kept, Kept::Nothing) {
            *kept = Kept::Complete(Vec::new());
        }
        if let Kept::Complete(whole) = &mut *kept {
            match whole.len() + bytes.len() <= LONGEST_BODY {
                true => whole.extend_from_slice(bytes),
                false => *kept = Kept::TooLong,
            }
        }
    }
}

impl HttpBody for Overheard {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            self.keep(bytes);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
