//! Messages of Amazon SNS. Anybody can have Amazon sign something, so the topic must be ours, and
//! the certificate comes from the one host that speaks for the topic, over HTTPS; so does whatever
//! confirms a subscription.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use quick_cache::sync::Cache;
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use serde::Deserialize;
use tokio::sync::Semaphore;
use webpki::EndEntityCert;

use crate::clock::DAY;
use crate::config::SnsTopic;
use crate::error::Error;
use crate::http_client::{Bounds, HttpClient, Reach};

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(10), bytes: 64 << 10 };

/// How many certificates are kept, and for how long.
const MOST_CERTIFICATES: usize = 16;
const FRESH: i64 = DAY;

/// How many requests to Amazon are under way at a time.
const AT_ONCE: usize = 2;

/// A message, as SNS posts it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    message_id: Cow<'a, str>,
    #[serde(borrow)]
    topic_arn: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    subject: Option<Cow<'a, str>>,
    token: Option<Cow<'a, str>>,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature_version: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
    #[serde(borrow, rename = "SigningCertURL")]
    signing_cert_url: Cow<'a, str>,
}

/// What SNS had to say.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// Something was published.
    Message(String),
    /// It asked whether we want to hear, and was told so.
    Subscribed,
    Unsubscribed,
}

/// What is known of Amazon.
pub struct Amazon {
    topics: Vec<SnsTopic>,
    http: HttpClient,
    certificates: Cache<String, Arc<Known>>,
    turns: Semaphore,
}

struct Known {
    certificate: CertificateDer<'static>,
    read_at: i64,
}

impl Amazon {
    pub fn new(topics: Vec<SnsTopic>) -> Amazon {
        Amazon::reached_by(HttpClient::new(Reach::Public), topics)
    }

    fn reached_by(http: HttpClient, topics: Vec<SnsTopic>) -> Amazon {
        Amazon { topics, http, certificates: Cache::new(MOST_CERTIFICATES), turns: Semaphore::new(AT_ONCE) }
    }

    /// Opens what was posted, if Amazon signed it for one of our topics.
    pub async fn open(&self, body: &[u8], now: i64) -> Result<Said, Error> {
        let unread = |error| Error::BadRequest { message: format!("This is no message of Amazon SNS: {error}.") };
        let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(unread)?;
        let topic = self.topics.iter().find(|topic| topic.arn == envelope.topic_arn);
        let topic = topic.ok_or_else(|| refused("The topic is none of those that --ses-topic names."))?;
        let signed = envelope.signed().ok_or_else(|| refused("Messages of this type are not signed."))?;
        let certificate = self.certificate(&envelope.signing_cert_url, &topic.host, now).await?;
        if !envelope.is_signed_by(&certificate, signed.as_bytes()) {
            return Err(refused("The signature is not Amazon's."));
        }
        match &*envelope.r#type {
            "Notification" => Ok(Said::Message(envelope.message.into_owned())),
            "SubscriptionConfirmation" => {
                self.confirm(envelope.subscribe_url.as_deref().unwrap_or_default(), topic).await?;
                tracing::info!(topic = topic.arn, "subscribed to a topic of Amazon SNS");
                Ok(Said::Subscribed)
            }
            _ => {
                tracing::warn!(topic = topic.arn, "no longer subscribed to a topic of Amazon SNS");
                Ok(Said::Unsubscribed)
            }
        }
    }

    async fn certificate(&self, url: &str, host: &str, now: i64) -> Result<CertificateDer<'static>, Error> {
        let file = url.strip_prefix("https://").and_then(|rest| rest.strip_prefix(host));
        let name = file.and_then(|file| file.strip_prefix("/SimpleNotificationService-")?.strip_suffix(".pem"));
        let is_name = |name: &str| name.len() <= 100 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !name.is_some_and(is_name) {
            return Err(refused("The certificate is not one that Amazon SNS shows for this topic."));
        }
        let fresh = || self.certificates.get(url).filter(|known| now - known.read_at < FRESH);
        if let Some(known) = fresh() {
            return Ok(known.certificate.clone());
        }
        let _turn = self.turns.acquire().await.map_err(|_| Error::Unavailable)?;
        if let Some(known) = fresh() {
            return Ok(known.certificate.clone());
        }
        let pem = self.get(url).await?;
        let certificate =
            CertificateDer::from_pem_slice(&pem).map_err(|_| refused("The certificate cannot be read."))?;
        self.certificates.insert(url.to_owned(), Arc::new(Known { certificate: certificate.clone(), read_at: now }));
        Ok(certificate)
    }

    async fn confirm(&self, url: &str, topic: &SnsTopic) -> Result<(), Error> {
        let query = url.strip_prefix("https://").and_then(|rest| rest.strip_prefix(topic.host.as_str()));
        if !query.is_some_and(|query| query.starts_with("/?Action=ConfirmSubscription&")) {
            return Err(refused("The address that confirms the subscription is not the topic's."));
        }
        let _turn = self.turns.acquire().await.map_err(|_| Error::Unavailable)?;
        self.get(url).await.map(drop)
    }

    /// What stands at an address of Amazon's that was checked.
    async fn get(&self, url: &str) -> Result<Bytes, Error> {
        let request = Request::get(url).body(Full::default()).map_err(|_| refused("The address cannot be read."))?;
        match self.http.send(request, BOUNDS).await {
            Ok(answer) if answer.status.is_success() => Ok(answer.body),
            Ok(answer) => {
                tracing::warn!(status = answer.status.as_u16(), "Amazon SNS does not give what its message leads to");
                Err(Error::Unavailable)
            }
            Err(error) => {
                tracing::warn!(%error, "Amazon SNS cannot be reached");
                Err(Error::Unavailable)
            }
        }
    }
}

fn refused(message: &str) -> Error {
    Error::Forbidden { message: message.to_owned() }
}

impl Envelope<'_> {
    /// What is signed: names and values, a line each.
    fn signed(&self) -> Option<String> {
        let all = match &*self.r#type {
            "Notification" => [
                ("Message", Some(&self.message)),
                ("MessageId", Some(&self.message_id)),
                ("Subject", self.subject.as_ref()),
                ("Timestamp", Some(&self.timestamp)),
                ("TopicArn", Some(&self.topic_arn)),
                ("Type", Some(&self.r#type)),
                ("", None),
            ],
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => [
                ("Message", Some(&self.message)),
                ("MessageId", Some(&self.message_id)),
                ("SubscribeURL", self.subscribe_url.as_ref()),
                ("Timestamp", Some(&self.timestamp)),
                ("Token", self.token.as_ref()),
                ("TopicArn", Some(&self.topic_arn)),
                ("Type", Some(&self.r#type)),
            ],
            _ => return None,
        };
        let lines = all.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}\n{value}\n")));
        Some(lines.collect())
    }

    fn is_signed_by(&self, certificate: &CertificateDer<'_>, signed: &[u8]) -> bool {
        let version = match &*self.signature_version {
            "1" => SignatureVersion::One,
            "2" => SignatureVersion::Two,
            _ => return false,
        };
        let Ok(signature) = STANDARD.decode(self.signature.as_bytes()) else { return false };
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
        certificate.verify_signature(&version, signed, &signature).is_ok()
    }
}

/// How SNS signs: as topics do that nobody has set otherwise, and as Amazon advises.
#[derive(Debug, Clone, Copy)]
enum SignatureVersion {
    One,
    Two,
}

impl SignatureVerificationAlgorithm for SignatureVersion {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let algorithm = match self {
            SignatureVersion::One => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
            SignatureVersion::Two => &RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(algorithm, key).verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_PKCS1_SHA256
    }
}

#[cfg(test)]
#[path = "sns_tests.rs"]
mod tests;
