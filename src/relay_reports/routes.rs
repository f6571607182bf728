//! Where relays post their reports. What is read and proven is answered with 200, whatever follows
//! from it: who is told otherwise sends it again for hours.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::hmac;
use serde_json::{Value, json};

use super::RelayReports;
use super::sns::Said;
use super::store::{self, OLDEST};
use crate::clock::{MINUTE, SECOND};
use crate::db::Stmt;
use crate::delivery::Effect;
use crate::error::Error;
use crate::reports::{self, MailgunPost, Relayed};
use crate::secret;
use crate::web::{Sender, Spool};

/// SNS sends at most 256 KiB, in JSON within JSON; Postmark the beginning of the bounce.
const LIMIT: usize = 1 << 20;

/// How long a report may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// How far a relay's clock may be ahead.
const AHEAD: i64 = 5 * MINUTE;

type Answer = Result<Json<Value>, Error>;

pub fn router() -> Router<RelayReports> {
    Router::new()
        .route("/feedback/ses", post(ses))
        .route("/feedback/mailgun", post(mailgun))
        .route("/feedback/postmark", post(postmark))
        .route("/feedback/postmark/{secret}", post(postmark_by_address))
}

async fn ses(State(state): State<RelayReports>, Extension(Sender(sender)): Extension<Sender>, body: Body) -> Answer {
    if state.config.feedback.ses_topic.is_empty() {
        return Err(not_taken());
    }
    let body = received(&state, body).await?;
    let said = match state.amazon.open(&body, state.clock.steady()).await {
        Err(error @ (Error::Forbidden { .. } | Error::BadRequest { .. } | Error::Unavailable)) => {
            state.forged.check(sender)?;
            return Err(error);
        }
        said => said?,
    };
    match said {
        Said::Message(message) => state.take(&reports::read_ses(&message), None).await,
        Said::Subscribed | Said::Unsubscribed => Ok(answer(0)),
    }
}

async fn mailgun(
    State(state): State<RelayReports>,
    Extension(Sender(sender)): Extension<Sender>,
    body: Body,
) -> Answer {
    let Some(key) = &state.config.feedback.mailgun_signing_key else { return Err(not_taken()) };
    let body = received(&state, body).await?;
    let posted = MailgunPost::read(&body).map_err(|error| unread(&error))?;
    if !is_signed(&posted, key, state.clock.now()) {
        state.forged.check(sender)?;
        return Err(Error::Forbidden { message: "The signature is not Mailgun's, or too old.".into() });
    }
    let once = store::use_token(&secret::hash(&posted.signature.token), state.clock.now());
    match posted.report() {
        Some(report) => state.take(&[report], Some(once)).await,
        None => Ok(answer(0)),
    }
}

/// The signature is over the moment and the token: the moment must be near, and the token is used up.
fn is_signed(posted: &MailgunPost, key: &str, now: i64) -> bool {
    let signature = &posted.signature;
    let Ok(seconds) = signature.timestamp.parse::<i64>() else { return false };
    let age = now.saturating_sub(seconds.saturating_mul(SECOND));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&key, format!("{}{}", signature.timestamp, signature.token).as_bytes());
    let expected: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    secret::equal(expected.as_bytes(), signature.signature.to_ascii_lowercase().as_bytes())
        && (-AHEAD..=OLDEST).contains(&age)
}

async fn postmark(
    State(state): State<RelayReports>,
    sender: Extension<Sender>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let given = basic_password(&headers).unwrap_or_default();
    take_postmark(&state, sender, &given, body).await
}

async fn postmark_by_address(
    State(state): State<RelayReports>,
    sender: Extension<Sender>,
    Path(given): Path<String>,
    body: Body,
) -> Answer {
    take_postmark(&state, sender, &given, body).await
}

async fn take_postmark(
    state: &RelayReports,
    Extension(Sender(sender)): Extension<Sender>,
    given: &str,
    body: Body,
) -> Answer {
    let Some(expected) = &state.config.feedback.postmark_secret else { return Err(not_taken()) };
    if !secret::equal(given.as_bytes(), expected.as_bytes()) {
        state.forged.check(sender)?;
        return Err(Error::Forbidden {
            message: "Put --postmark-secret into the address, or send it as the password of Basic.".into(),
        });
    }
    let body = received(state, body).await?;
    let report = reports::read_postmark(&body).map_err(|error| unread(&error))?;
    state.take(report.as_slice(), None).await
}

/// The whole body. Strangers send it, too: it is not in memory before all of it is there.
async fn received(state: &RelayReports, body: Body) -> Result<Bytes, Error> {
    let body = Spool::receive(state, body, LIMIT, PATIENCE).await?;
    body.part(0..body.len())
}

/// The password of an `Authorization: Basic`, whoever the user is.
fn basic_password(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, coded) = given.split_once(' ')?;
    let decoded = STANDARD.decode(coded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    Some(String::from_utf8(decoded).ok()?.split_once(':')?.1.to_owned())
}

impl RelayReports {
    /// Writes down what was reported of each recipient.
    async fn take(&self, all: &[Relayed], once: Option<Stmt>) -> Answer {
        let mut changed = 0;
        for one in all {
            match self.feedback.take_relayed(one, once.clone()).await? {
                Effect::Changed => changed += 1,
                Effect::Nothing => {}
                Effect::Repeated => {
                    return Err(Error::Forbidden {
                        message: "This report was sent before; nothing was changed.".into(),
                    });
                }
            }
        }
        tracing::info!(recipients = all.len(), changed, "a relay reported");
        Ok(answer(changed))
    }
}

fn answer(changed: usize) -> Json<Value> {
    Json(json!({"object": "feedback", "changed": changed}))
}

/// The same as for any address at which there is nothing.
fn not_taken() -> Error {
    Error::not_found("Reports of this relay are not taken here. See docs/bounces.md.")
}

fn unread(error: &serde_json::Error) -> Error {
    Error::BadRequest { message: format!("The report cannot be read: {error}.") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;

    fn signed(seconds: i64, token: &str, key: &str) -> MailgunPost {
        let tag =
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), format!("{seconds}{token}").as_bytes());
        let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let body = json!({"signature": {"timestamp": seconds.to_string(), "token": token, "signature": signature},
            "event-data": {"event": "opened"}});
        MailgunPost::read(body.to_string().as_bytes()).expect("JSON")
    }

    #[test]
    fn only_a_near_moment_signed_with_the_key_is_believed() {
        let (now, key) = (NOW / SECOND, "key-of-mailgun-0001");
        assert!(is_signed(&signed(now - 60, "token", key), key, NOW));
        assert!(!is_signed(&signed(now - 60, "token", "another-key-of-0001"), key, NOW));
        for seconds in [now - 12 * 3600 - 1, now + 301, i64::MAX, i64::MIN] {
            assert!(!is_signed(&signed(seconds, "token", key), key, NOW), "{seconds}");
        }
        let mut forged = signed(now, "token", key);
        forged.signature.token = "other".into();
        assert!(!is_signed(&forged, key, NOW));
    }

    #[test]
    fn the_password_of_basic_may_hold_colons() {
        let headers = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().expect("a value"))]);
        assert_eq!(basic_password(&headers("Basic dTphOmI=")).as_deref(), Some("a:b"));
        for wrong in ["Bearer dTphOmI=", "Basic", "Basic !", "Basic dQ=="] {
            assert_eq!(basic_password(&headers(wrong)), None, "{wrong}");
        }
    }
}
