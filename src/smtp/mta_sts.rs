//! MTA-STS (RFC 8461): a domain says over HTTPS which of its mail servers are
//! real, and that they have to prove it.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::Full;

use crate::dns::{DnsError, Resolver};
use crate::http_client::{Bounds, HttpClient};

/// RFC 8461, 3.3: 64 kB are enough. It allows a minute, for which mail would wait.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(15), bytes: 64 << 10 };

/// RFC 8461, 3.2: a policy is kept for a year at most.
const LONGEST: u64 = 31_557_600;

/// Names of mail servers that one policy may hold.
const MOST_NAMES: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StsMode {
    /// Mail goes to servers that match and have a valid certificate, or waits.
    Enforce,
    /// As if there were no policy; failures are only to be reported.
    Testing,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StsPolicy {
    /// Changes with the policy; stands in DNS.
    pub id: String,
    pub mode: StsMode,
    /// For how long it holds from now on, even where it cannot be read any more.
    pub max_age: Duration,
    mx: Vec<String>,
}

impl StsPolicy {
    /// Whether a mail server is one of the domain's.
    pub fn allows(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let matches = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(parent) => host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == parent),
            None => *pattern == host,
        };
        self.mx.iter().any(matches)
    }
}

/// The policy of a domain, `None` where it has none. `known` is the one that was
/// read before: as long as its id stands in DNS, it is not read again. A known one
/// also stays in force until its time is over where this is an error, or `None`.
pub async fn mta_sts(
    resolver: &Resolver,
    http: &HttpClient,
    domain: &str,
    known: Option<&StsPolicy>,
) -> Result<Option<StsPolicy>, String> {
    let id = match resolver.txt(&format!("_mta-sts.{domain}")).await {
        Ok(texts) => policy_id(&texts),
        Err(DnsError::NoName | DnsError::Missing) => None,
        Err(DnsError::Later(reason)) => return Err(format!("_mta-sts.{domain} cannot be looked up: {reason}")),
    };
    let Some(id) = id else { return Ok(None) };
    if let Some(known) = known.filter(|known| known.id == id) {
        return Ok(Some(known.clone()));
    }
    let url = format!("https://mta-sts.{domain}/.well-known/mta-sts.txt");
    let cannot = |reason: &str| format!("{url} cannot be read: {reason}");
    let request = Request::get(&url).body(Full::<Bytes>::default()).map_err(|error| cannot(&error.to_string()))?;
    let answer = http.send(request, BOUNDS).await.map_err(|error| cannot(&error.to_string()))?;
    if answer.status != StatusCode::OK {
        return Err(cannot(&format!("the answer is {}", answer.status)));
    }
    if !answer.header(CONTENT_TYPE).is_some_and(is_plain_text) {
        return Err(cannot("the answer is not text/plain"));
    }
    policy(&id, &String::from_utf8_lossy(&answer.body)).map(Some).map_err(cannot)
}

fn is_plain_text(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/plain")
}

/// The id of the one record that says it is of this kind. Two are as good as none.
fn policy_id(texts: &[String]) -> Option<String> {
    let mut records = texts.iter().filter(|text| text.starts_with("v=STSv1;"));
    let record = records.next().filter(|_| records.next().is_none())?;
    let fields = record.split(';').filter_map(|field| field.trim().split_once('='));
    let (_, id) = { fields }.find(|(name, _)| name.trim() == "id")?;
    let id = id.trim();
    let is_id = (1..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then(|| id.to_owned())
}

fn policy(id: &str, text: &str) -> Result<StsPolicy, &'static str> {
    let mut version = None;
    let mut mode = None;
    let mut max_age = None;
    let mut mx = Vec::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        // The first of a name counts, and what is not known is passed over.
        match (name.trim(), value.trim()) {
            ("version", value) => drop(version.get_or_insert(value)),
            ("mode", value) => drop(mode.get_or_insert(value)),
            ("max_age", value) => drop(max_age.get_or_insert(value)),
            ("mx", value) if mx.len() < MOST_NAMES => mx.push(value.trim_end_matches('.').to_ascii_lowercase()),
            _ => {}
        }
    }
    if version != Some("STSv1") {
        return Err("its version is not STSv1");
    }
    let mode = match mode {
        Some("enforce") => StsMode::Enforce,
        Some("testing") => StsMode::Testing,
        Some("none") => StsMode::None,
        _ => return Err("its mode is none of enforce, testing, none"),
    };
    let max_age = max_age.and_then(|age| age.parse().ok()).ok_or("its max_age is no number of seconds")?;
    if mx.is_empty() && mode != StsMode::None {
        return Err("it names no mail server");
    }
    Ok(StsPolicy { id: id.to_owned(), mode, max_age: Duration::from_secs(LONGEST.min(max_age)), mx })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\nmx: *.example.net\r\n\
                          mx: backup.example.org.\r\nmax_age: 604800\r\nfuture: x\r\n";

    #[test]
    fn a_policy_says_which_servers_are_real() {
        let policy = policy("20260101", POLICY).expect("a policy");
        assert_eq!((policy.mode, policy.max_age.as_secs()), (StsMode::Enforce, 604_800));
        for real in ["mail.example.com", "MAIL.example.com.", "a.example.net", "backup.example.org"] {
            assert!(policy.allows(real), "{real}");
        }
        for other in ["example.net", "a.b.example.net", ".example.net", "mail.example.com.evil", "evil", ""] {
            assert!(!policy.allows(other), "{other}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for (text, why) in [
            ("", "version"),
            ("version: STSv2\nmode: enforce\nmx: a\nmax_age: 1", "version"),
            ("version: STSv1\nmode: maybe\nmx: a\nmax_age: 1", "mode"),
            ("version: STSv1\nmode: enforce\nmx: a", "max_age"),
            ("version: STSv1\nmode: enforce\nmx: a\nmax_age: soon", "max_age"),
            ("version: STSv1\nmode: enforce\nmax_age: 1", "mail server"),
        ] {
            assert!(policy("1", text).expect_err(text).contains(why), "{text}");
        }
        let none = policy("1", "version: STSv1\nmode: none\nmax_age: 99999999999").expect("no servers needed");
        assert_eq!((none.mode, none.max_age.as_secs()), (StsMode::None, LONGEST));
    }

    #[test]
    fn a_record_names_a_policy_if_it_is_the_only_one() {
        let id = |texts: &[&str]| policy_id(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(id(&["v=STSv1; id=20260101T000000;"]).as_deref(), Some("20260101T000000"));
        assert_eq!(id(&["other", "v=STSv1;id=1"]).as_deref(), Some("1"));
        for none in [&[][..], &["v=STSv1; id=1", "v=STSv1; id=2"], &["v=STSv1;"], &["v=STSv1; id=a b"], &["id=1"]] {
            assert_eq!(id(none), None, "{none:?}");
        }
    }
}
