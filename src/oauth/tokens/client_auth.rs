//! How a client proves itself at the token and revocation endpoints, and how the
//! parameters are read that it sends there: a form or JSON, each at most once.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;

use crate::db::DbError;
use crate::error::Error;
use crate::limits::{Attempt, counted};
use crate::oauth::OAuth;
use crate::oauth::answer::{self, BODY_LIMIT};
use crate::oauth::clients::{AuthMethod, Known};
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::secret;
use crate::web::{self, Params, decode, refusal};

const UNPROVED: &str = "The client is unknown or could not be authenticated";

/// How many parameters a form may have, known ones and others.
const MOST_PARAMETERS: usize = 100;

/// How often a client is looked at anew before it is told to come back later.
const MOST_VIEWS: usize = 4;

/// Why a client gets no answer to what it asked.
pub enum Denied {
    Refused(Refusal),
    /// 401: the client could not be told who it is. True: it tried HTTP Basic.
    Unproved {
        with_basic: bool,
    },
    Failed(Error),
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Denied {
        Denied::Refused(refusal)
    }
}

impl From<Error> for Denied {
    fn from(error: Error) -> Denied {
        Denied::Failed(error)
    }
}

impl From<DbError> for Denied {
    fn from(error: DbError) -> Denied {
        Denied::Failed(error.into())
    }
}

/// What a client sends, in a form or JSON: empty parameters count as missing, and so do those in the query. One of
/// another type than a string is refused: a `scope` that was not understood must not become all scopes.
pub async fn read<T: DeserializeOwned>(request: Request) -> Result<(HeaderMap, T), Denied> {
    let bad = |_| Refusal::invalid_request("The body must be a JSON object whose values are strings");
    let (parts, body) = request.into_parts();
    let bytes = web::read_body(&parts.headers, body, BODY_LIMIT).await?;
    let mut fields = match is_form(&parts.headers) {
        true => form(&bytes)?,
        false if web::is_json(&parts.headers) => serde_json::from_slice(&bytes).map_err(bad)?,
        false => {
            let text = "The body must be application/x-www-form-urlencoded or application/json";
            return Err(Refusal::invalid_request(text).into());
        }
    };
    fields.retain(|_, value| !value.is_null() && value != "");
    Ok((parts.headers, serde_json::from_value(Value::Object(fields)).map_err(bad)?))
}

fn form(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if memchr::memchr_iter(b'&', bytes).count() >= MOST_PARAMETERS {
        return Err(Refusal::invalid_request(format!("More than {MOST_PARAMETERS} parameters were sent")));
    }
    let mut fields = Map::new();
    for (name, value) in Params::parse(bytes).pairs() {
        let bad = |what| Refusal::invalid_request(format!("A parameter {what}"));
        let name = name.map_err(|_| bad("name is not valid UTF-8"))?;
        let value = value.map_err(|_| bad("is not valid UTF-8"))?;
        if fields.insert(name.clone(), value.into()).is_some() && name != "resource" {
            return Err(bad("was sent more than once"));
        }
    }
    Ok(fields)
}

/// A parameter that must be there.
pub fn required<'a>(name: &str, sent: Option<&'a String>) -> Result<&'a str, Refusal> {
    sent.map(String::as_str).ok_or_else(|| Refusal::invalid_request(format!("{name} is missing")))
}

fn is_form(headers: &HeaderMap) -> bool {
    let label = headers.get(CONTENT_TYPE).and_then(|label| label.to_str().ok()).unwrap_or_default();
    let essence = label.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// A request at the counter where clients prove themselves.
///
/// The client may come from a cache: whatever is given to it must be committed
/// under its guard, or checked by [`insist`]. What is
/// refused under an old view of it is tried again under today's.
pub struct Visit<'a> {
    shown: Shown,
    /// Counts against the address that it comes from, if it fails.
    attempt: Option<Attempt<'a>>,
    views: usize,
}

impl<'a> Visit<'a> {
    pub async fn begin(
        app: &'a OAuth,
        sender: IpAddr,
        headers: &HeaderMap,
        (id, secret): (Option<&String>, Option<&String>),
    ) -> Result<Visit<'a>, Denied> {
        let attempt = match counted(sender, !app.config.limit_loopback) {
            Some(address) => Some(app.limits.token_address.begin(&address, app.clock.steady()).await?),
            None => None,
        };
        Ok(Visit { shown: Shown::read(headers, id, secret)?, attempt, views: 1 })
    }

    /// The client, proved to be the one.
    pub async fn client(&self, app: &OAuth) -> Result<Arc<Known>, Denied> {
        self.shown.prove(app).await
    }

    /// Whether a refusal may come from an old view of the client, which is now
    /// forgotten. If not, the refusal stands, and a failed proof is counted.
    pub async fn looked_too_early(&mut self, app: &OAuth, denied: &Denied) -> Result<bool, Denied> {
        if self.views < MOST_VIEWS && app.clients.forget_if_old(&app.db, &self.shown.id).await? {
            self.views += 1;
            return Ok(true);
        }
        if matches!(denied, Denied::Unproved { .. }) {
            self.attempt.take().into_iter().for_each(Attempt::failed);
        }
        Ok(false)
    }
}

/// Refuses to go on with a client that may have changed since it was read.
pub async fn insist(app: &OAuth, client: &Known) -> Result<(), Denied> {
    let current = app.db.holds(&client.guard()).await?;
    if current { Ok(()) } else { Err(DbError::Stale.into()) }
}

/// What a client shows of itself.
struct Shown {
    id: String,
    secret: Option<String>,
    with_basic: bool,
}

impl Shown {
    fn read(headers: &HeaderMap, sent_id: Option<&String>, sent_secret: Option<&String>) -> Result<Shown, Denied> {
        let basic = basic(headers)?;
        let with_basic = basic.is_some();
        let unproved = || Denied::Unproved { with_basic };
        if with_basic && sent_secret.is_some() {
            return Err(Refusal::invalid_request("Credentials were sent in two ways; send them in one").into());
        }
        let (id, secret) = match basic {
            Some((id, _)) if sent_id.is_some_and(|other| *other != id) => return Err(unproved()),
            Some((id, secret)) => (id, Some(secret).filter(|secret| !secret.is_empty())),
            None => (sent_id.ok_or_else(unproved)?.clone(), sent_secret.cloned()),
        };
        // Ids are printable; anything else cannot be in the store.
        if !id.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(unproved());
        }
        Ok(Shown { id, secret, with_basic })
    }

    async fn prove(&self, app: &OAuth) -> Result<Arc<Known>, Denied> {
        let unproved = || Denied::Unproved { with_basic: self.with_basic };
        let known = app.clients.find(&app.db, &self.id).await?.ok_or_else(unproved)?;
        if known.client.disabled_at.is_some() || !is_proved(&known, self.with_basic, self.secret.as_deref()) {
            return Err(unproved());
        }
        Ok(known)
    }
}

fn is_proved(known: &Known, with_basic: bool, secret: Option<&str>) -> bool {
    match (known.client.auth_method, secret) {
        (AuthMethod::None, None) => true,
        (AuthMethod::ClientSecretBasic, Some(secret)) if with_basic => matches_secret(known, secret),
        (AuthMethod::ClientSecretPost, Some(secret)) if !with_basic => matches_secret(known, secret),
        _ => false,
    }
}

fn matches_secret(known: &Known, shown: &str) -> bool {
    known.secret_hash.as_ref().is_some_and(|kept| secret::equal(kept, &secret::hash(shown)))
}

/// The id and secret of an HTTP Basic header, each form-encoded before they
/// were joined (RFC 6749, section 2.3.1).
fn basic(headers: &HeaderMap) -> Result<Option<(String, String)>, Denied> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let malformed = || Denied::Unproved { with_basic: true };
    let text = header.to_str().map_err(|_| malformed())?;
    let (scheme, encoded) = text.split_once(' ').ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(malformed());
    }
    let joined = STANDARD.decode(encoded.trim()).map_err(|_| malformed())?;
    let colon = joined.iter().position(|byte| *byte == b':').ok_or_else(malformed)?;
    let text = |bytes: &[u8]| String::from_utf8(decode(bytes).into_owned()).map_err(|_| malformed());
    Ok(Some((text(&joined[..colon])?, text(&joined[colon + 1..])?)))
}

/// What a client reads, for itself alone, whatever page it runs in.
pub fn answered(settled: Result<impl IntoResponse, Denied>) -> Response {
    let mut response = settled.into_response();
    answer::keep_private(response.headers_mut());
    answer::readable_by_pages(response)
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        match self {
            Denied::Refused(refusal) => answer::refused(StatusCode::BAD_REQUEST, &refusal),
            Denied::Failed(error) => answer::failed(error),
            Denied::Unproved { with_basic } => {
                let refusal = Refusal::new(ErrorCode::InvalidClient, UNPROVED);
                let mut response = answer::refused(StatusCode::UNAUTHORIZED, &refusal);
                if with_basic {
                    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"oauth\""));
                }
                response
            }
        }
    }
}

/// How the description shows a client that could not be authenticated.
pub struct Unproved;

impl utoipa::IntoResponses for Unproved {
    fn responses() -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
        let words = Refusal::new(ErrorCode::InvalidClient, UNPROVED).to_json();
        let header = WWW_AUTHENTICATE.to_string();
        let response = refusal("The client is unknown or could not be authenticated.", "OAuthError", [words], [header]);
        [("401".to_owned(), response)].into()
    }
}
