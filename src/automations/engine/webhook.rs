//! A step's call to the outside: one signed POST, in the notation that
//! libraries for Standard Webhooks verify.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Full;
use ring::hmac;
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::destinations::port;
use crate::automations::run::Call;
use crate::web::address::is_public;
use crate::web::fetch::{self, Answer};

/// How long one call may take, well within a worker's lease.
const PATIENCE: Duration = Duration::from_secs(8);

/// How much of an answer is read.
const LIMIT: usize = 64 << 10;

/// What is said of a host that cannot be called. Whether its name is unknown or leads
/// into our own network is for the log alone: the difference would map the network.
const UNREACHABLE: &str =
    "the host is not known, or not on the public internet, which only --private-webhooks would allow";

/// Why a call came to nothing, for the run's history.
#[derive(Debug)]
pub struct Failure {
    pub reason: String,
    /// There was an answer, if not a good one.
    pub is_answer: bool,
}

/// The way out.
pub struct Outside {
    tls: Arc<ClientConfig>,
    /// Whether addresses that are not on the public internet may be called.
    private: bool,
}

impl Outside {
    pub fn new(private: bool) -> Outside {
        Outside { tls: fetch::public_tls(), private }
    }

    pub async fn call(&self, call: &Call, secret: &str, now: i64) -> Result<Value, Failure> {
        let unanswered = |reason| Failure { reason, is_answer: false };
        let answered = tokio::time::timeout(PATIENCE, self.exchange(call, secret, now)).await;
        let answered = answered.map_err(|_| unanswered(format!("no answer within {} seconds", PATIENCE.as_secs())))?;
        let answer = answered.map_err(unanswered)?;
        let status = answer.status.as_u16();
        match answer.status.is_success() {
            true => Ok(json!({ "status": status })),
            false => Err(Failure { reason: format!("the answer was {status}"), is_answer: true }),
        }
    }

    async fn exchange(&self, call: &Call, secret: &str, now: i64) -> Result<Answer, String> {
        let uri: Uri = call.url.parse().map_err(|_| "the address cannot be read")?;
        let is_secure = uri.scheme_str() == Some("https");
        let authority = uri.authority().ok_or("the address has no host")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let stream = self.dial(host, port(&uri)).await?;
        let request = request(&uri, call, secret, now)?;
        let answer = match is_secure {
            true => {
                let stream = fetch::secured(stream, host, self.tls.clone()).await.map_err(|error| error.to_string())?;
                fetch::exchange(stream, request, LIMIT).await
            }
            false => fetch::exchange(stream, request, LIMIT).await,
        };
        answer.map_err(|error| error.to_string())
    }

    /// Connects to an address of the host. All of them are looked at first: one
    /// that is not public condemns the rest.
    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let found: Vec<SocketAddr> = match tokio::net::lookup_host((host, port)).await {
            Ok(found) => found.collect(),
            Err(error) => {
                tracing::warn!(host, %error, "the host of a webhook cannot be looked up");
                return Err(UNREACHABLE.into());
            }
        };
        if let Some(address) = found.iter().find(|address| !self.private && !is_public(address.ip())) {
            tracing::warn!(host, address = %address.ip(), "a webhook leads to an address that is not public");
            return Err(UNREACHABLE.into());
        }
        let mut failure = UNREACHABLE.to_owned();
        for address in found {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = format!("the connection failed: {error}"),
            }
        }
        Err(failure)
    }
}

fn request(uri: &Uri, call: &Call, secret: &str, now: i64) -> Result<Request<Full<Bytes>>, String> {
    let (id, body) = (call.id.to_string(), call.body.to_string());
    let timestamp = now / crate::clock::SECOND;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Request::post(path)
        .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("Posthorn/", env!("CARGO_PKG_VERSION")))
        .header("webhook-id", &id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature(secret, &id, timestamp, &body))
        .body(Full::from(body))
        .map_err(|_| "the request cannot be written".into())
}

fn signature(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap_or_default();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// A published example of the notation.
    #[test]
    fn a_signature_is_what_verifying_libraries_expect() {
        let signed = signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[tokio::test]
    async fn addresses_that_are_not_public_are_not_called() {
        let call = Call { id: Uuid::nil(), url: "http://127.0.0.1:9/".into(), body: Value::Null, attempt: 1 };
        let refused = Outside::new(false).call(&call, "whsec_", 0).await.expect_err("refused");
        assert!(refused.reason.contains("not on the public internet") && !refused.is_answer, "{refused:?}");
        let closed = Outside::new(true).call(&call, "whsec_", 0).await.expect_err("nobody listens there");
        assert!(closed.reason.contains("connection failed"), "{closed:?}");
    }

    #[tokio::test]
    async fn a_private_name_is_refused_as_one_that_is_not_known() {
        let reason = async |url: &str| {
            let call = Call { id: Uuid::nil(), url: url.into(), body: Value::Null, attempt: 1 };
            Outside::new(false).call(&call, "whsec_", 0).await.expect_err("refused").reason
        };
        let private = reason("http://localhost:9/").await;
        assert_eq!(private, reason("http://no-such-host.invalid/").await);
        assert_eq!(private, reason("http://10.0.0.1/").await);
    }
}
