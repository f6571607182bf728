//! A step's call to the outside: one signed POST, in the notation that
//! libraries for Standard Webhooks verify.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::automations::run::Call;
use crate::calls::{SigningKey, UNREACHABLE};
use crate::clock::SECOND;
use crate::http_client::{Bounds, HttpClient, HttpError};

/// What a call may take: a time well within a worker's lease.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(8), bytes: 64 << 10 };

/// Why a call came to nothing, for the run's history.
#[derive(Debug)]
pub struct Failure {
    pub reason: String,
    /// There was an answer, if not a good one.
    pub is_answer: bool,
}

pub async fn call(client: &HttpClient, call: &Call, secret: &str, now: i64) -> Result<Value, Failure> {
    let unanswered = |reason| Failure { reason, is_answer: false };
    let request = request(call, secret, now).map_err(|error| unanswered(error.to_string()))?;
    let answer = client.send(request, BOUNDS).await.map_err(|error| unanswered(reason(call, &error)))?;
    let status = answer.status.as_u16();
    match answer.status.is_success() {
        true => Ok(json!({ "status": status })),
        false => Err(Failure { reason: format!("the answer was {status}"), is_answer: true }),
    }
}

fn reason(call: &Call, error: &HttpError) -> String {
    if error.is_about_address() {
        tracing::warn!(call = %call.id, %error, "a webhook leads to no server that may be called");
        return UNREACHABLE.into();
    }
    error.to_string()
}

fn request(call: &Call, secret: &str, now: i64) -> http::Result<Request<Full<Bytes>>> {
    let (id, body) = (call.id.to_string(), call.body.to_string());
    let timestamp = now / SECOND;
    Request::post(&call.url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", SigningKey::new(secret).sign(&id, timestamp, &body))
        .body(Full::from(body))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::http_client::Reach;

    #[tokio::test]
    async fn addresses_that_are_not_public_are_not_called() {
        let call = Call { id: Uuid::nil(), url: "http://127.0.0.1:9/".into(), body: Value::Null, attempt: 1 };
        let refused = super::call(&HttpClient::new(Reach::Public), &call, "whsec_", 0).await.expect_err("refused");
        assert!(refused.reason.contains("not on the public internet") && !refused.is_answer, "{refused:?}");
        let closed =
            super::call(&HttpClient::new(Reach::Anywhere), &call, "whsec_", 0).await.expect_err("nobody listens there");
        assert!(closed.reason.contains("connection failed"), "{closed:?}");
    }

    #[tokio::test]
    async fn a_private_name_is_refused_as_one_that_is_not_known() {
        let reason = async |url: &str| {
            let call = Call { id: Uuid::nil(), url: url.into(), body: Value::Null, attempt: 1 };
            super::call(&HttpClient::new(Reach::Public), &call, "whsec_", 0).await.expect_err("refused").reason
        };
        let private = reason("http://localhost:9/").await;
        assert_eq!(private, reason("http://no-such-host.invalid/").await);
        assert_eq!(private, reason("http://10.0.0.1/").await);
    }
}
