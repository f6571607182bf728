//! Whether a mail comes from whom it says: SPF (RFC 7208), DKIM (RFC 6376) and DMARC. It is told,
//! and decides nothing: what is done with it is its workspace's choice.

mod dmarc;
mod spf;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use crate::clock::SECOND;
use crate::dns::{DnsError, Resolver};
use crate::mime::{BodyDigests, BodyHashes, PublicKey, ReceivedHead, Signature, Unverified};

/// How many signatures are looked at.
const MOST_SIGNATURES: usize = 4;

/// How long name servers may take for all of a mail: whoever brings it waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of a check (RFC 8601).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AuthenticationResult)]
pub enum Verdict {
    /// There was nothing to check.
    #[default]
    None,
    Pass,
    Fail,
    SoftFail,
    Neutral,
    /// No name server answered in time.
    TempError,
    /// What was to be checked cannot be read.
    PermError,
}

/// Whether a mail comes from whom it says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = EmailAuthentication)]
pub struct Authentication {
    /// Whether its server may send for the domain of the return path.
    #[schema(required = true)]
    pub spf: Checked,
    /// Whether the domains that signed it did so.
    #[schema(required = true)]
    pub dkim: Vec<Checked>,
    /// Whether one of these is the domain in `from`, as that domain demands.
    #[schema(required = true)]
    pub dmarc: Checked,
}

/// A check, and which domain it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuthenticationCheck)]
pub struct Checked {
    #[schema(required = true)]
    pub result: Verdict,
    #[schema(required = true)]
    pub domain: Option<String>,
}

impl Checked {
    fn new(result: Verdict, domain: &str) -> Checked {
        Checked { result, domain: Some(domain.to_owned()) }
    }
}

/// Who brought a mail, and what it says of itself. Domains are in ASCII and lower case.
pub struct Evidence<'a> {
    pub peer: IpAddr,
    pub helo: &'a str,
    /// Of the return path; empty for nobody.
    pub sender: &'a str,
    /// The domain of its author.
    pub from: Option<&'a str>,
}

/// Looks at a message as it passes by.
pub struct Authenticator {
    signatures: Vec<Result<Signature, Unverified>>,
    /// Where there is a signature.
    hashes: Option<BodyHashes>,
}

impl Authenticator {
    pub fn new(head: &ReceivedHead<'_>) -> Authenticator {
        let is_signature =
            |field: &&&[u8]| field.get(..15).is_some_and(|name| name.eq_ignore_ascii_case(b"DKIM-Signature:"));
        let fields = head.fields();
        let signatures = fields.iter().filter(is_signature).take(MOST_SIGNATURES);
        let signatures: Vec<_> = signatures.map(|field| Signature::read(field, fields)).collect();
        let hashes = signatures.iter().any(Result::is_ok).then(BodyHashes::default);
        Authenticator { signatures, hashes }
    }

    /// Some more of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.hashes.iter_mut().for_each(|hashes| hashes.push(bytes));
    }
}

/// What is known of a mail when all of it was seen. Name servers that do not answer let nobody wait for long.
pub async fn judge(dns: &Resolver, evidence: &Evidence<'_>, seen: Authenticator, now: i64) -> Authentication {
    let Authenticator { signatures, hashes } = seen;
    let (digests, until) = (hashes.map(BodyHashes::finish), Instant::now() + PATIENCE);
    let spf = within(until, spf::check(dns, evidence), || Checked { result: Verdict::TempError, domain: None });
    let digests = digests.as_ref();
    let checks = signatures.iter().map(|signature| async move {
        match (signature, digests) {
            (Ok(signature), Some(digests)) => {
                let late = || Checked::new(Verdict::TempError, &signature.domain);
                within(until, check_signature(dns, signature, digests, now / SECOND), late).await
            }
            _ => Checked { result: Verdict::PermError, domain: None },
        }
    });
    let (spf, dkim) = tokio::join!(spf, futures_util::future::join_all(checks));
    let dmarc = match evidence.from {
        None => Checked { result: Verdict::PermError, domain: None },
        Some(from) => {
            within(until, dmarc::check(dns, from, &spf, &dkim), || Checked::new(Verdict::TempError, from)).await
        }
    };
    Authentication { spf, dkim, dmarc }
}

async fn within(until: Instant, check: impl Future<Output = Checked>, late: impl FnOnce() -> Checked) -> Checked {
    timeout_at(until, check).await.unwrap_or_else(|_| late())
}

async fn check_signature(dns: &Resolver, signature: &Signature, digests: &BodyDigests, seconds: i64) -> Checked {
    let told = |result| Checked::new(result, &signature.domain);
    if let Err(flaw) = signature.check_body(digests, seconds) {
        return told(verdict(flaw));
    }
    match dns.txt(&signature.key_name()).await {
        Ok(records) => match records.iter().find_map(|record| PublicKey::read(record)) {
            Some(key) => told(signature.check_key(&key).map_or_else(verdict, |()| Verdict::Pass)),
            None => told(Verdict::PermError),
        },
        Err(DnsError::Later(_)) => told(Verdict::TempError),
        Err(DnsError::NoName | DnsError::Missing) => told(Verdict::PermError),
    }
}

fn verdict(flaw: Unverified) -> Verdict {
    match flaw {
        Unverified::Wrong | Unverified::Expired => Verdict::Fail,
        Unverified::Unusable => Verdict::PermError,
    }
}
