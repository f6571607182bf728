//! What is tracked of a domain's mail.

use serde::{Deserialize, Serialize};

use super::status::{Findings, RecordStatus};

/// What its owner wants to know of readers. A mail keeps what held when it was accepted, so that every attempt is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracking {
    pub opens: bool,
    pub clicks: bool,
    /// The domain's own host that links lead to; `None`: to ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Under which name it is kept what DNS says of a host for links. Another host is looked at anew.
pub fn finding(label: &str) -> String {
    format!("tracking {label}")
}

/// The host that links lead to, once its record was seen.
pub fn host(name: &str, label: Option<&str>, findings: &Findings) -> Option<String> {
    let label = label?;
    let is_seen = findings.get(&finding(label)).is_some_and(|finding| finding.status == RecordStatus::Verified);
    is_seen.then(|| format!("{label}.{name}"))
}
