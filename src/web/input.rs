//! The bodies of requests as they arrive: bounded, labelled, and turned into JSON
//! or into the elements of an array.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, Request};
use bytes::Bytes;
use futures_util::FutureExt;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use uuid::Uuid;

use super::many::Many;
use super::object::Object;
use super::parameter;
use super::shape::Shape;
use super::spool::{self, Spool};
use crate::app::App;
use crate::error::Error;
use crate::id::Id;
use crate::text::kind;

/// Bodies that are not mail are small.
pub const LIMIT: usize = 1 << 20;

/// Bodies that hold many things are larger.
pub const LIMIT_OF_MANY: usize = 8 << 20;

/// How large the payload of an event may be, written without spaces.
pub const PAYLOAD_LIMIT: usize = 256 << 10;

/// What is built of so short a text is small, whatever its shape.
const TINY: usize = 4 << 10;

/// Many things in a text of at most this length are read where they arrive, in less
/// than a millisecond.
const FEW: usize = 32 << 10;

/// A request that takes more memory than this waits for its turn among those that do.
pub const LIGHT: usize = 512 << 10;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

impl<S: Send + Sync> FromRequest<S> for Many
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Many, Error> {
        let app = &App::from_ref(state);
        let Some(body) = labelled_json(app, request, LIMIT_OF_MANY, PATIENCE, Many::check_beginning).await? else {
            return Ok(Many::none());
        };
        if body.len() <= FEW {
            return Many::split(body, false);
        }
        if matches!(body, Spool::File(_)) {
            app.admission.admit().await?;
        }
        app.admission.build(move || Many::split(body.at_hand(LIGHT)?, true)).await?
    }
}

/// The JSON in a body; `None` where there is no body.
pub async fn json(app: &App, request: Request, limit: usize) -> Result<Option<Value>, Error> {
    weighed_json(app, request, limit, parse).await.map(|(read, _)| read)
}

/// What is made of the JSON in a body, and whether it is large.
pub(super) async fn weighed_json<T: Send + 'static>(
    app: &App,
    request: Request,
    limit: usize,
    parse: fn(&Bytes) -> Result<T, Error>,
) -> Result<(Option<T>, bool), Error> {
    let check_beginning = |text: &[u8]| Shape::of(text).check();
    let Some(body) = labelled_json(app, request, limit, PATIENCE, check_beginning).await? else {
        return Ok((None, false));
    };
    if let Spool::Memory(text) = &body
        && is_light(text)
    {
        return Ok((Some(parse(text)?), false));
    }
    app.admission.admit().await?;
    let read = move || body.read(0..body.len()).map(|text| parse(&text));
    let read = app.admission.build(read).await?.map_err(|error| spool::unusable(&error))??;
    Ok((Some(read), true))
}

/// Whether what is built of a text is small enough to be built where it arrives.
pub(super) fn is_light(text: &[u8]) -> bool {
    text.len() <= TINY || Shape::of(text).weight() <= LIGHT
}

pub(super) fn parse<T: DeserializeOwned>(text: &Bytes) -> Result<T, Error> {
    if text.len() > TINY {
        Shape::of(text).check()?;
    }
    serde_json::from_slice(text).map_err(|error| not_json(&error))
}

/// The fields of a body that must be an object.
pub(super) fn parse_object(text: &Bytes) -> Result<Object, Error> {
    match kind_of(text) {
        "an object" => parse(text),
        _ => {
            let other: Value = parse(text)?;
            Err(Error::invalid(format!("The body must be a JSON object, but is {}.", kind(&other))))
        }
    }
}

pub(super) fn not_json(error: &serde_json::Error) -> Error {
    flaw(&error.to_string())
}

pub(super) fn flaw(what: &str) -> Error {
    Error::NotJson { message: format!("The body is not valid JSON: {what}.") }
}

/// A body that says it is JSON; `None` where there is no body. The beginning of a large one
/// may tell that it is refused, and the rest of it is not waited for.
pub(super) async fn labelled_json(
    app: &App,
    request: Request,
    limit: usize,
    patience: Duration,
    check_beginning: fn(&[u8]) -> Result<(), Error>,
) -> Result<Option<Spool>, Error> {
    let (parts, body) = request.into_parts();
    let is_json = is_json(&parts.headers);
    let check_beginning = if is_json { check_beginning } else { |_: &[u8]| Err(Error::UnsupportedMediaType) };
    let body = Spool::receive_checked(app, body, limit, patience, check_beginning).await?;
    match body.is_empty() {
        true => Ok(None),
        false if is_json => Ok(Some(body)),
        false => Err(Error::UnsupportedMediaType),
    }
}

/// The id in a path.
pub struct PathId<T = Uuid>(pub T);

impl<T> IntoParams for PathId<T> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![parameter::id_in_path("id", "Its id.")]
    }
}

impl<S: Send + Sync, T: Id> FromRequestParts<S> for PathId<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathId<T>, Error> {
        let wrong = || Error::InvalidParameter { message: "The `id` in the path must be a UUID.".into() };
        let Path(given) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| wrong())?;
        given.parse().map(PathId).map_err(|_| wrong())
    }
}

/// Reads a whole body of at most `limit` bytes into memory: for small ones.
pub async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Error> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(Error::TooLarge { limit });
    }
    let mut whole = std::pin::pin!(Limited::new(body, limit).collect());
    // Most bodies are there already: those need no clock.
    let read = match whole.as_mut().now_or_never() {
        Some(read) => Ok(read),
        None => tokio::time::timeout(PATIENCE, whole).await,
    };
    match read {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Error::TooLarge { limit }),
        Ok(Err(_)) => Err(Error::BadRequest { message: "The body ended before it was complete.".into() }),
        Err(_) => Err(Error::TooSlow),
    }
}

/// Whether a body is labelled JSON (`application/json`, `application/…+json`).
pub fn is_json(headers: &HeaderMap) -> bool {
    let Some(label) = headers.get(CONTENT_TYPE).and_then(|label| label.to_str().ok()) else { return false };
    let essence = label.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return true;
    }
    let essence = essence.to_ascii_lowercase();
    essence.starts_with("application/") && essence.ends_with("+json")
}

/// What the value of a JSON text is, in words, without reading it.
pub fn kind_of(text: &[u8]) -> &'static str {
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_recognised_by_its_label_in_any_case() {
        let labelled =
            |label: &'static str| HeaderMap::from_iter([(CONTENT_TYPE, http::HeaderValue::from_static(label))]);
        assert!(is_json(&labelled("application/json")) && is_json(&labelled("Application/JSON; charset=utf-8")));
        assert!(is_json(&labelled("application/problem+json")));
        assert!(
            !is_json(&labelled("text/plain"))
                && !is_json(&labelled("application/jsonp"))
                && !is_json(&HeaderMap::new())
        );
    }
}
