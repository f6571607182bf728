//! One attempt to deliver an event: a signed POST, and what came back.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;

use crate::calls::{SigningKey, UNREACHABLE};
use crate::clock::SECOND;
use crate::http_client::{HttpError, Kept};
use crate::id::WebhookEventId;

/// What a call may take: a time well within a worker's lease.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of an answer is read and kept.
const KEPT: usize = 1 << 10;

/// What is sent.
pub struct Message<'a> {
    pub event_id: WebhookEventId,
    pub endpoint: &'a str,
    pub payload: &'a str,
    /// Whoever verifies with any of them is content.
    pub keys: &'a [SigningKey],
}

/// What came of it.
#[derive(Debug)]
pub struct Attempt {
    /// 0: there was no answer.
    pub http_status: i64,
    pub response: String,
    /// Why it does not count as delivered.
    pub error: Option<String>,
    /// In milliseconds.
    pub duration: i64,
    pub sent_at: i64,
}

impl Attempt {
    /// Nothing was sent, because nothing unsigned is.
    pub fn unsigned(now: i64) -> Attempt {
        let error = "the secret that signs the delivery cannot be opened; `posthorn doctor` says why";
        Attempt { http_status: 0, response: String::new(), error: Some(error.into()), duration: 0, sent_at: now }
    }

    pub fn is_answered(&self) -> bool {
        self.http_status > 0
    }

    /// The endpoint wants nothing any more.
    pub fn is_gone(&self) -> bool {
        self.http_status == i64::from(StatusCode::GONE.as_u16())
    }
}

pub async fn make(connection: &mut Kept<'_>, message: &Message<'_>, now: i64) -> Attempt {
    let begun = Instant::now();
    let outcome = exchange(connection, message, now).await;
    let duration = i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX);
    match outcome {
        Ok((status, response)) => {
            let error = (!status.is_success()).then(|| format!("the answer was {}", status.as_u16()));
            Attempt { http_status: status.as_u16().into(), response, error, duration, sent_at: now }
        }
        Err(error) => {
            let error = Some(reason(message, &error));
            Attempt { http_status: 0, response: String::new(), error, duration, sent_at: now }
        }
    }
}

async fn exchange(
    connection: &mut Kept<'_>,
    message: &Message<'_>,
    now: i64,
) -> Result<(StatusCode, String), HttpError> {
    let request = request(message, now).map_err(|_| HttpError::Url)?;
    let (status, answer) = connection.send(request, PATIENCE, KEPT).await?;
    Ok((status, String::from_utf8_lossy(&answer).replace('\0', "\u{fffd}")))
}

fn reason(message: &Message<'_>, error: &HttpError) -> String {
    if error.is_about_address() {
        tracing::warn!(event = %message.event_id, %error, "a webhook leads to no server that may be called");
        return UNREACHABLE.into();
    }
    error.to_string()
}

/// What Standard Webhooks calls id, time and signature, and what they were called before.
const IDS: [HeaderName; 2] = [HeaderName::from_static("webhook-id"), HeaderName::from_static("svix-id")];
const TIMES: [HeaderName; 2] =
    [HeaderName::from_static("webhook-timestamp"), HeaderName::from_static("svix-timestamp")];
const SIGNATURES: [HeaderName; 2] =
    [HeaderName::from_static("webhook-signature"), HeaderName::from_static("svix-signature")];

fn request(message: &Message<'_>, now: i64) -> http::Result<Request<Full<Bytes>>> {
    let (id, timestamp) = (format!("msg_{}", message.event_id), now / SECOND);
    let signatures = message.keys.iter().map(|key| key.sign(&id, timestamp, message.payload));
    let signatures = signatures.collect::<Vec<_>>().join(" ");
    let mut request = Request::post(message.endpoint).body(Full::from(message.payload.to_owned()))?;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let values = [HeaderValue::try_from(id)?, HeaderValue::from(timestamp), HeaderValue::try_from(signatures)?];
    for (names, value) in [IDS, TIMES, SIGNATURES].into_iter().zip(values) {
        names.into_iter().for_each(|name| drop(headers.insert(name, value.clone())));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_signed_with_every_secret_under_both_names() {
        let secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), "whsec_AAAA".to_owned()];
        let event_id = uuid::Uuid::nil().into();
        let keys = secrets.map(|secret| SigningKey::new(&secret));
        let message = Message { event_id, endpoint: "https://example.com/", payload: "{}", keys: &keys };
        let request = request(&message, 1_614_265_330 * SECOND).expect("a request");
        let header = |name: &str| request.headers()[name].to_str().expect("text").to_owned();
        let id = "msg_00000000-0000-0000-0000-000000000000";
        assert_eq!((header("webhook-id"), header("svix-id")), (id.into(), id.into()));
        assert_eq!(header("webhook-timestamp"), "1614265330");
        let both = keys.map(|key| key.sign(id, 1_614_265_330, "{}")).join(" ");
        assert_eq!((header("webhook-signature"), header("svix-signature")), (both.clone(), both));
    }
}
