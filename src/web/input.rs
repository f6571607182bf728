//! The JSON body of a request, and fields read from it with errors that help.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use bytes::Bytes;
use futures_util::FutureExt;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::many;
use super::shape::Shape;
use super::spool::{self, Spool};
use crate::app::App;
use crate::error::Error;
use crate::id::Id;

/// Bodies that are not mail are small.
pub const LIMIT: usize = 1 << 20;

/// Bodies that hold many things are larger.
pub const LIMIT_OF_MANY: usize = 8 << 20;

/// What is built of so short a text is small, whatever its shape.
const TINY: usize = 4 << 10;

/// A request that takes more memory than this waits for its turn among those that do.
pub const LIGHT: usize = 512 << 10;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A JSON object. No body at all reads as an empty one: clients send bodiless
/// posts and empty bodies labelled JSON.
pub struct Input(pub Map<String, Value>);

impl FromRequest<App> for Input {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Input, Error> {
        match json(app, request, LIMIT).await? {
            None => Ok(Input(Map::new())),
            Some(Value::Object(fields)) => Ok(Input(fields)),
            Some(other) => Err(Error::invalid(format!("The body must be a JSON object, but is {}.", kind(&other)))),
        }
    }
}

/// The elements of a JSON array, which are many things at once: each is read on
/// its own, so that no more than one of them is ever built.
pub struct Many {
    /// The texts of up to [`Many::MOST`] of them, in their order.
    pub elements: Vec<Bytes>,
    /// How many there are.
    pub count: usize,
}

impl Many {
    pub const MOST: usize = 1000;
}

impl FromRequest<App> for Many {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Many, Error> {
        let Some(body) = labelled_json(app, request, LIMIT_OF_MANY).await? else {
            return Ok(Many { elements: Vec::new(), count: 0 });
        };
        let is_large = matches!(body, Spool::File { .. });
        built(app, body, is_large, many::split).await?
    }
}

/// The JSON in a body; `None` where there is no body.
pub async fn json(app: &App, request: Request, limit: usize) -> Result<Option<Value>, Error> {
    let Some(body) = labelled_json(app, request, limit).await? else { return Ok(None) };
    let is_large = match &body {
        Spool::Memory(text) => text.len() > TINY && Shape::of(text).weight() > LIGHT,
        Spool::File { .. } => true,
    };
    built(app, body, is_large, parse).await?.map(Some)
}

/// What is built of the text of a body; if it is large, when and where it keeps
/// nobody else waiting.
async fn built<T: Send + 'static>(app: &App, body: Spool, is_large: bool, build: fn(&Bytes) -> T) -> Result<T, Error> {
    if !is_large && let Spool::Memory(text) = &body {
        return Ok(build(text));
    }
    app.admission.admit().await?;
    let read = move || body.read(0..body.len()).map(|text| build(&text));
    app.admission.build(read).await?.map_err(|error| spool::unusable(&error))
}

fn parse(text: &Bytes) -> Result<Value, Error> {
    if text.len() > TINY {
        Shape::of(text).check()?;
    }
    serde_json::from_slice(text).map_err(|error| not_json(&error))
}

pub(super) fn not_json(error: &serde_json::Error) -> Error {
    Error::NotJson { message: format!("The body is not valid JSON: {error}.") }
}

/// A body that says it is JSON; `None` where there is no body.
async fn labelled_json(app: &App, request: Request, limit: usize) -> Result<Option<Spool>, Error> {
    let (parts, body) = request.into_parts();
    let body = Spool::receive(app, body, limit, PATIENCE).await?;
    match body.is_empty() {
        true => Ok(None),
        false if is_json(&parts.headers) => Ok(Some(body)),
        false => Err(Error::UnsupportedMediaType),
    }
}

/// The id in a path, as the API's description shows it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the parameter to readers of the API's description")]
pub struct IdParam {
    /// Its id.
    #[param(format = Uuid)]
    id: String,
}

/// The id in a path.
pub struct PathId<T>(pub T);

impl<T: Id> FromRequestParts<App> for PathId<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<PathId<T>, Error> {
        let wrong = || Error::InvalidParameter { message: "The `id` in the path must be a UUID.".into() };
        let Path(given) = Path::<String>::from_request_parts(parts, app).await.map_err(|_| wrong())?;
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

impl Input {
    /// One of [`Many`], held to what a body of its own is held to.
    pub fn of_element(text: &Bytes) -> Result<Input, Error> {
        if text.len() > LIMIT {
            return Err(Error::TooLarge { limit: LIMIT });
        }
        match kind_of(text) {
            "an object" => match parse(text).map_err(|error| Error::invalid(error.message().into_owned()))? {
                Value::Object(fields) => Ok(Input(fields)),
                _ => Err(Error::Internal),
            },
            kind => Err(Error::invalid(format!("it must be an object, but is {kind}."))),
        }
    }

    /// A field that is there; an explicit null is as good as none.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// As [`Input::get`], for who wants to keep it.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.get_mut(name).map(Value::take).filter(|value| !value.is_null())
    }

    /// A required field. Where it is missing, a field that looks like a
    /// misspelling of it is pointed out.
    pub fn required(&self, name: &'static str) -> Result<&Value, Error> {
        if let Some(value) = self.get(name) {
            return Ok(value);
        }
        let message = match self.lookalike(name) {
            Some(sent) => format!("Missing `{name}` field. The body has `{}`; did you mean `{name}`?", shown(sent)),
            None => format!("Missing `{name}` field."),
        };
        Err(Error::Missing { message })
    }

    fn lookalike(&self, name: &str) -> Option<&str> {
        let plain = |text: &str| text.to_lowercase().replace(['_', '-', ' '], "");
        let wanted = plain(name);
        let close = |sent: &&String| {
            let sent = plain(sent);
            sent == wanted || (sent.len() >= 3 && strsim::osa_distance(&sent, &wanted) <= wanted.len() / 4 + 1)
        };
        self.0.keys().filter(|sent| *sent != name).find(close).map(String::as_str)
    }
}

/// What a JSON value is, in words.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
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

/// Whether a text has more characters than it may. Most have not even as many
/// bytes, and need not be counted.
pub fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// A caller's own word, short enough to be shown in a message.
pub fn shown(text: &str) -> String {
    let mut short: String =
        text.chars().take(60).map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    if is_longer(text, 60) {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: &str) -> Input {
        Input(serde_json::from_str(json).expect("an object"))
    }

    fn complaint(json: &str) -> String {
        input(json).required("name").expect_err("missing").message().into_owned()
    }

    #[test]
    fn decisions_2_null_is_absent() {
        assert!(input(r#"{"name":null}"#).get("name").is_none());
        assert_eq!(complaint(r#"{"name":null}"#), "Missing `name` field.");
    }

    #[test]
    fn decisions_2_a_misspelt_required_field_is_pointed_out() {
        for sent in ["Name", "nmae", "names", "NAME", "_name"] {
            assert!(complaint(&format!(r#"{{"{sent}":"x"}}"#)).contains(&format!("`{sent}`; did you mean")), "{sent}");
        }
        for sent in ["schema", "event", "x", "title"] {
            assert_eq!(complaint(&format!(r#"{{"{sent}":"x"}}"#)), "Missing `name` field.", "{sent}");
        }
    }

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
