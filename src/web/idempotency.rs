//! `Idempotency-Key`: a request that is sent again has no second effect and
//! gets the first one's answer. The key is stored in the commit that does what
//! was asked, so neither can be there without the other.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use uuid::Uuid;

use super::body::Body;
use super::parameter;
use crate::app::App;
use crate::auth::Principal;
use crate::clock::HOUR;
use crate::db::{Batch, DbError, Effect, Sql, statements};
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::secret;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const LONGEST: usize = 256;

/// How long an answer is kept.
pub const MEMORY: i64 = 24 * HOUR;

/// How many old keys one commit deletes.
const SWEEP: i64 = 1000;

statements! {
    functions {
        /// Takes the id of a form for what stands in it, which nobody may have done before.
        pub fn take_form(workspace_id: WorkspaceId, id: Uuid, fingerprint: &[u8; 32], now: i64)
            with [workspace_id, id.to_string(), fingerprint, now] = Sql::both(
            "INSERT INTO idempotency_keys (workspace_id, scope, key, fingerprint, status, answer, created_at)
             VALUES ($1, 'form', $2, $3, 303, '', $4)");
        /// What stood in the form that took this id.
        pub fn taken_form(workspace_id: WorkspaceId, id: Uuid) with [workspace_id, id.to_string()] = Sql::both(
            "SELECT fingerprint FROM idempotency_keys WHERE workspace_id = $1 AND scope = 'form' AND key = $2");
        /// Forgets keys whose time is over.
        pub fn sweep(now: i64) with [now - MEMORY, SWEEP] = Sql::both(
            "DELETE FROM idempotency_keys WHERE (workspace_id, scope, key) IN
                 (SELECT workspace_id, scope, key FROM idempotency_keys WHERE created_at <= $1
                  ORDER BY created_at LIMIT $2)");
    }
    /// Takes the key, unless somebody took it within the time that answers are kept.
    TAKE = Sql::both(
        "INSERT INTO idempotency_keys (workspace_id, scope, key, fingerprint, status, answer, sealed, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (workspace_id, scope, key) DO UPDATE SET
             fingerprint = excluded.fingerprint, status = excluded.status, answer = excluded.answer,
             sealed = excluded.sealed, created_at = excluded.created_at
         WHERE idempotency_keys.created_at <= $9");
    FIND = Sql::both(
        "SELECT fingerprint, status, answer, sealed FROM idempotency_keys
         WHERE workspace_id = $1 AND scope = $2 AND key = $3 AND created_at > $4");
}

/// The key that a request came with, if it has one.
pub struct Idempotency(Option<Key>);

impl IntoParams for Idempotency {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let key = parameter::text().min_length(Some(1)).max_length(Some(LONGEST)).pattern(Some("^[!-~]+$"));
        let description = "A key of your choice, of 1 to 256 characters. For 24 hours, the same request under the \
                           same key has no second effect and gets the first one's answer.";
        vec![parameter::optional(ParameterIn::Header, "Idempotency-Key", description, key)]
    }
}

struct Key {
    text: String,
    /// Method and path: the same key elsewhere is another key.
    scope: String,
}

impl<S: Sync> FromRequestParts<S> for Idempotency {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Idempotency, Error> {
        let mut given = parts.headers.get_all(HEADER).iter();
        let text = match (given.next(), given.next()) {
            (None, _) => return Ok(Idempotency(None)),
            (Some(value), None) => parse(value)?,
            (Some(_), Some(_)) => return Err(Error::InvalidIdempotencyKey),
        };
        Ok(Idempotency(Some(Key { text, scope: format!("{} {}", parts.method, parts.uri.path()) })))
    }
}

fn parse(value: &HeaderValue) -> Result<String, Error> {
    let text = value.to_str().ok().filter(|text| (1..=LONGEST).contains(&text.len()));
    text.map(str::to_owned).ok_or(Error::InvalidIdempotencyKey)
}

impl Idempotency {
    /// A key that came otherwise than in a header of a request, if one came; `scope` says how.
    pub fn of(scope: &str, given: Option<&str>) -> Result<Idempotency, Error> {
        let Some(given) = given else { return Ok(Idempotency(None)) };
        let value = HeaderValue::from_str(given).map_err(|_| Error::InvalidIdempotencyKey)?;
        Ok(Idempotency(Some(Key { text: parse(&value)?, scope: scope.to_owned() })))
    }

    /// What the fingerprint of a long body is taken with, if one is wanted.
    pub fn digest(&self) -> Option<Sha256> {
        self.0.as_ref().map(|_| Sha256::new())
    }

    /// The request of a caller with this body.
    pub fn request<'a>(
        self,
        caller: &'a Principal,
        app: &App,
        body: &(impl Fingerprint + ?Sized),
    ) -> IdempotentRequest<'a> {
        let mut digest = self.digest();
        digest.iter_mut().for_each(|digest| body.write(digest));
        self.digested(caller, app, digest)
    }

    /// The same, where [`Idempotency::digest`] has seen the body.
    pub fn digested<'a>(self, caller: &'a Principal, app: &App, digest: Option<Sha256>) -> IdempotentRequest<'a> {
        let key = self.0.zip(digest).map(|(key, digest)| (key, digest.finalize().into()));
        IdempotentRequest { caller, key, now: app.clock.steady() }
    }
}

/// A body that can be told from others: equal ones write the same.
pub trait Fingerprint {
    fn write(&self, digest: &mut Sha256);
}

/// No body at all.
impl Fingerprint for () {
    fn write(&self, _: &mut Sha256) {}
}

impl<T> Fingerprint for Body<T> {
    fn write(&self, digest: &mut Sha256) {
        write_object(self.fields().iter(), digest);
    }
}

impl Fingerprint for Map<String, Value> {
    fn write(&self, digest: &mut Sha256) {
        write_object(self.iter(), digest);
    }
}

/// A body that is too long to be held at once, as [`Idempotency::digest`] has seen it.
impl Fingerprint for Option<Sha256> {
    fn write(&self, digest: &mut Sha256) {
        self.iter().for_each(|seen| digest.update(seen.clone().finalize()));
    }
}

/// JSON in one spelling: without spaces, the keys of objects in order.
fn write_value(value: &Value, digest: &mut Sha256) {
    match value {
        Value::Object(fields) => write_object(fields.iter(), digest),
        Value::Array(items) => write_array(items, digest),
        plain => digest.update(plain.to_string()),
    }
}

fn write_object<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, digest: &mut Sha256) {
    let mut ordered: Vec<(&String, &Value)> = fields.collect();
    ordered.sort_unstable_by_key(|(key, _)| *key);
    digest.update("{");
    for (at, (key, value)) in ordered.into_iter().enumerate() {
        digest.update(if at > 0 { "," } else { "" });
        digest.update(Value::from(key.as_str()).to_string());
        digest.update(":");
        write_value(value, digest);
    }
    digest.update("}");
}

fn write_array(items: &[Value], digest: &mut Sha256) {
    digest.update("[");
    for (at, item) in items.iter().enumerate() {
        digest.update(if at > 0 { "," } else { "" });
        write_value(item, digest);
    }
    digest.update("]");
}

/// A request that has its effect once: the key it came with, if it has one, is
/// taken in the commit of what was asked for.
pub struct IdempotentRequest<'a> {
    caller: &'a Principal,
    /// The key, and the fingerprint of the body.
    key: Option<(Key, [u8; 32])>,
    now: i64,
}

impl IdempotentRequest<'_> {
    /// Commits what was asked for and answers; where the key is taken, nothing is
    /// written and the answer is the one of before. A refusal by the store is the
    /// handler's to explain: it counts the statements of its own batch.
    pub async fn commit(
        &self,
        answer: Answer,
        batch: impl Fn() -> Batch + Send + Sync,
    ) -> Result<Result<Response, DbError>, Error> {
        let keyed = || {
            if self.key.is_none() {
                return batch();
            }
            let mut keyed = Batch::new();
            self.take(&answer, &mut keyed);
            keyed.append(batch());
            keyed
        };
        self.caller.makes(|| answer.made_id());
        let settled = self.caller.try_commit(keyed).await?;
        self.settle(settled, answer).await
    }

    /// Takes the key, if there is one, as the first thing that a batch does. Whoever
    /// commits the batch without it has [`IdempotentRequest::settle`] make the answer.
    pub fn take(&self, answer: &Answer, batch: &mut Batch) {
        let Some((key, fingerprint)) = &self.key else { return };
        let body = match answer.is_secret {
            true => STANDARD.encode(self.caller.seal().close(answer.body.as_bytes())),
            false => answer.body.clone(),
        };
        let take = TAKE.with([
            self.caller.workspace_id().into(),
            (&key.scope).into(),
            (&key.text).into(),
            fingerprint.into(),
            i64::from(answer.status.as_u16()).into(),
            body.into(),
            answer.is_secret.into(),
            self.now.into(),
            (self.now - MEMORY).into(),
        ]);
        batch.push(take.expect(1));
    }

    /// What became of a batch that began with [`IdempotentRequest::take`].
    pub async fn settle(
        &self,
        settled: Result<Vec<Effect>, DbError>,
        answer: Answer,
    ) -> Result<Result<Response, DbError>, Error> {
        match settled {
            Ok(_) => Ok(Ok(answer.into_response())),
            Err(DbError::Unexpected { statement }) if self.key.is_some() => match statement.checked_sub(1) {
                Some(statement) => Ok(Err(DbError::Unexpected { statement })),
                None => self.find().await?.map(Ok).ok_or(Error::Unavailable),
            },
            Err(error) => Ok(Err(error)),
        }
    }

    /// Answers as `work` does. What is refused now, because of what has changed
    /// since, may have been done before under the same key.
    pub async fn run(&self, work: impl Future<Output = Result<Response, Error>>) -> Result<Response, Error> {
        match work.await {
            Err(refusal) if refusal.status().is_client_error() => self.find().await?.ok_or(refusal),
            settled => settled,
        }
    }

    /// The answer that was given under the key before, if there was one.
    pub async fn find(&self) -> Result<Option<Response>, Error> {
        let Some((key, fingerprint)) = &self.key else { return Ok(None) };
        let (workspace, since) = (self.caller.workspace_id(), self.now - MEMORY);
        let find = || FIND.with([workspace.into(), (&key.scope).into(), (&key.text).into(), since.into()]);
        let rows = self.caller.read(find).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if !secret::equal(&row.bytes(0)?, fingerprint) {
            return Err(Error::IdempotencyConflict);
        }
        let status = u16::try_from(row.int(1)?).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let is_secret = row.bool(3)?;
        let body = if is_secret { self.unseal(&row.text(2)?)? } else { row.text(2)? };
        let answer = Answer { status: status.ok_or(Error::Internal)?, body, is_secret };
        let mut response = answer.into_response();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(Some(response))
    }

    /// Only the credential that an answer was sealed for can open it.
    fn unseal(&self, kept: &str) -> Result<String, Error> {
        let sealed = STANDARD.decode(kept).map_err(|_| Error::Internal)?;
        let body = self.caller.seal().open(&sealed).ok_or(Error::IdempotencyOfAnother)?;
        String::from_utf8(body).map_err(|_| Error::Internal)
    }
}

/// An answer that can be kept.
pub struct Answer {
    status: StatusCode,
    body: String,
    is_secret: bool,
}

impl Answer {
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Answer, Error> {
        let body = serde_json::to_string(body).map_err(|_| Error::Internal)?;
        Ok(Answer { status, body, is_secret: false })
    }

    /// Something was made.
    pub fn created(body: &impl Serialize) -> Result<Answer, Error> {
        Answer::json(StatusCode::CREATED, body)
    }

    /// The id of what was made.
    fn made_id(&self) -> Option<Uuid> {
        #[derive(Deserialize)]
        struct Made {
            id: Uuid,
        }
        serde_json::from_str::<Made>(&self.body).ok().map(|made| made.id)
    }

    /// The same, of which a copy of the store must tell nothing, and which nobody else keeps either.
    #[must_use]
    pub fn secret(self) -> Answer {
        Answer { is_secret: true, ..self }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = (self.status, [(CONTENT_TYPE, "application/json")], self.body).into_response();
        if self.is_secret {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        response
    }
}
