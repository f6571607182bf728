//! `Idempotency-Key`: a request that is sent again has no second effect and
//! gets the first one's answer. The key is stored in the commit that does what
//! was asked, so neither can be there without the other.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::auth::{Caller, Need};
use crate::clock::HOUR;
use crate::db::{DbError, Sql, Stmt, statements};
use crate::error::Error;
use crate::secret;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const LONGEST: usize = 256;

/// How long an answer is kept.
pub const MEMORY: i64 = 24 * HOUR;

/// How many old keys one commit deletes.
const SWEEP: i64 = 1000;

statements! {
    /// Takes the key, unless somebody took it within the time that answers are kept.
    TAKE = Sql::both(
        "INSERT INTO idempotency_keys (workspace_id, scope, key, fingerprint, status, answer, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (workspace_id, scope, key) DO UPDATE SET
             fingerprint = excluded.fingerprint, status = excluded.status, answer = excluded.answer,
             created_at = excluded.created_at
         WHERE idempotency_keys.created_at <= $8");
    FIND = Sql::both(
        "SELECT fingerprint, status, answer FROM idempotency_keys
         WHERE workspace_id = $1 AND scope = $2 AND key = $3 AND created_at > $4");
    FORGET = Sql::both(
        "DELETE FROM idempotency_keys WHERE (workspace_id, scope, key) IN
             (SELECT workspace_id, scope, key FROM idempotency_keys WHERE created_at <= $1
              ORDER BY created_at LIMIT $2)");
}

/// The key of a request, if it has one, and what it stands for.
#[derive(Clone)]
pub struct Idempotency {
    key: Option<String>,
    /// Method and path: the same key elsewhere is another key.
    scope: String,
}

impl FromRequestParts<App> for Idempotency {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Idempotency, Error> {
        let mut given = parts.headers.get_all(HEADER).iter();
        let key = match (given.next(), given.next()) {
            (None, _) => None,
            (Some(value), None) => Some(parse(value)?),
            (Some(_), Some(_)) => return Err(refused()),
        };
        Ok(Idempotency { key, scope: format!("{} {}", parts.method, parts.uri.path()) })
    }
}

fn parse(value: &HeaderValue) -> Result<String, Error> {
    let text = value.to_str().ok().filter(|text| (1..=LONGEST).contains(&text.len()));
    text.map(str::to_owned).ok_or_else(refused)
}

fn refused() -> Error {
    Error::InvalidIdempotencyKey
}

impl Idempotency {
    /// What a key stands for: the body of its request, in one spelling.
    pub fn meaning(&self, body: &impl Serialize) -> Vec<u8> {
        self.key.as_ref().and_then(|_| spelled(body)).unwrap_or_default()
    }

    /// As [`Idempotency::meaning`], of a body that is too long to be spelled at once.
    pub fn meaning_of_many(&self) -> MeaningOfMany {
        MeaningOfMany(self.key.as_ref().map(|_| Sha256::new()))
    }

    /// The statement that has to come first in the batch, if there is a key.
    pub fn take(&self, workspace_id: &str, body: &[u8], answer: &Answer, now: i64) -> Option<Stmt> {
        let key = self.key.as_ref()?;
        let stmt = TAKE.with([
            workspace_id.into(),
            (&self.scope).into(),
            key.into(),
            (&secret::hash_bytes(body)).into(),
            i64::from(answer.status.as_u16()).into(),
            (&answer.body).into(),
            now.into(),
            (now - MEMORY).into(),
        ]);
        Some(stmt.expect(1))
    }

    /// Whether a batch failed because its key was taken.
    pub fn was_taken(&self, error: &DbError) -> bool {
        self.key.is_some() && matches!(error, DbError::Unexpected { statement: 0 })
    }

    /// The answer that was given under the key before, if there was one.
    pub async fn find<N: Need>(&self, caller: &Caller<N>, body: &[u8], now: i64) -> Result<Option<Response>, Error> {
        let Some(key) = self.key.as_deref() else { return Ok(None) };
        let since = now - MEMORY;
        let find = || FIND.with([caller.workspace_id().into(), (&self.scope).into(), key.into(), since.into()]);
        let rows = caller.read(find).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if !secret::equal(&row.bytes(0)?, &secret::hash_bytes(body)) {
            return Err(Error::IdempotencyConflict);
        }
        let status = u16::try_from(row.int(1)?).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let answer = Answer { status: status.ok_or(Error::Internal)?, body: row.text(2)? };
        let mut response = answer.into_response();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(Some(response))
    }
}

/// What a key stands for where many things are sent at once: the digest of how
/// they are spelled.
pub struct MeaningOfMany(Option<Sha256>);

impl MeaningOfMany {
    pub fn add(&mut self, one: &impl Serialize) {
        if let Some(digest) = &mut self.0 {
            digest.update(spelled(one).unwrap_or_default());
            // No JSON holds this byte: one thing cannot be taken for two.
            digest.update([0]);
        }
    }

    pub fn finish(self) -> Vec<u8> {
        self.0.map(|digest| digest.finalize().to_vec()).unwrap_or_default()
    }
}

/// The same for every spelling of a body: the keys of its objects are in order.
fn spelled(body: &impl Serialize) -> Option<Vec<u8>> {
    let mut value = serde_json::to_value(body).ok()?;
    value.sort_all_objects();
    serde_json::to_vec(&value).ok()
}

/// An answer that can be kept.
pub struct Answer {
    status: StatusCode,
    body: String,
}

impl Answer {
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Answer, Error> {
        Ok(Answer { status, body: serde_json::to_string(body).map_err(|_| Error::Internal)? })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (self.status, [(CONTENT_TYPE, "application/json")], self.body).into_response()
    }
}

/// Forgets keys whose time is over.
pub fn sweep(now: i64) -> Stmt {
    FORGET.with([(now - MEMORY).into(), SWEEP.into()])
}
