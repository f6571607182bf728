//! The records that a domain's owner has to set: what they are called, what they say,
//! and which of them sending cannot do without.

use std::net::IpAddr;

use super::keys::Algorithm;
use super::keys_store::StoredKey;
use super::status::{Findings, RecordStatus};
use super::store::Stored;
use super::tracking;
use crate::app::Addresses;
use crate::config::{Config, Relay, TransportKind};

/// What this server is called by those who look for it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The name that it has in the dialogue with other mail servers.
    pub mail_host: String,
    /// The terms of an SPF record that allow it to send.
    pub spf: Vec<String>,
    /// Where the links of tracked mail lead to.
    pub web_host: String,
}

impl Place {
    pub fn of(config: &Config, addresses: &Addresses) -> Place {
        let web_host = host_of(addresses.base.authority());
        let mail_host = config.mail.helo.clone().unwrap_or_else(|| web_host.clone());
        let spf = match (&config.mail.spf, config.transport()) {
            (Some(terms), _) => terms.split_whitespace().map(str::to_owned).collect(),
            (None, TransportKind::Relay) => config.smtp_url.iter().map(term_of_relay).collect(),
            (None, TransportKind::Capture | TransportKind::Direct) => vec![term(&mail_host)],
        };
        Place { mail_host, spf, web_host }
    }
}

/// Without the port, and without the brackets of an IPv6 address.
fn host_of(authority: &str) -> String {
    let end = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']')).unwrap_or(authority.len());
    authority[..end].trim_matches(['[', ']']).to_owned()
}

fn term_of_relay(relay: &Relay) -> String {
    term(&relay.host)
}

/// What allows a host to send.
fn term(host: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V4(address)) => format!("ip4:{address}"),
        Ok(IpAddr::V6(address)) => format!("ip6:{address}"),
        Err(_) => format!("a:{host}"),
    }
}

/// A record as it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Under which name it is kept what DNS said of it.
    pub key: String,
    pub purpose: Purpose,
    pub name: String,
    pub value: String,
    /// Whether mail cannot be sent without it. Of these the key that signs is nobody
    /// else's, so whoever publishes it has the domain in hand.
    pub is_needed: bool,
}

/// What a record is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Bounces find back.
    ReturnPath,
    /// Others see that this server may send; with the terms that it takes.
    Spf(Vec<String>),
    Dkim,
    Receiving,
    Tracking,
}

impl Purpose {
    /// By the names that clients know; they refuse any other.
    pub fn record(&self) -> &'static str {
        match self {
            Purpose::ReturnPath | Purpose::Spf(_) => "SPF",
            Purpose::Dkim => "DKIM",
            Purpose::Receiving => "Receiving MX",
            Purpose::Tracking => "Tracking",
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Purpose::ReturnPath | Purpose::Receiving => "MX",
            Purpose::Spf(_) | Purpose::Dkim => "TXT",
            Purpose::Tracking => "CNAME",
        }
    }

    /// Of the one MX that there is.
    pub fn priority(&self) -> Option<u16> {
        (self.kind() == "MX").then_some(10)
    }
}

/// The records of a domain that has these keys. `relays` are its own, if it has any.
pub fn expected(domain: &Stored, keys: &[StoredKey], relays: &[Relay], place: &Place) -> Vec<Expected> {
    let below = |label: &str| format!("{label}.{}", domain.name);
    let terms = match relays {
        [] => place.spf.clone(),
        own => own.iter().map(term_of_relay).collect(),
    };
    let return_path = below(&domain.return_path);
    let one = |key: &str, purpose, name: String, value: String, is_needed| Expected {
        key: key.to_owned(),
        purpose,
        name,
        value,
        is_needed,
    };
    let spf = format!("v=spf1 {} ~all", terms.join(" "));
    let mut records = vec![
        one(RETURN_PATH, Purpose::ReturnPath, return_path.clone(), place.mail_host.clone(), false),
        one("spf", Purpose::Spf(terms), return_path, spf, true),
    ];
    for key in keys.iter().filter(|key| key.retired_at.is_none()) {
        // While a new key waits to be published, the old one signs.
        let is_signing = key.seen_at.is_some() || !keys.iter().any(|other| other.signs_instead_of(key));
        let is_needed = key.algorithm == Algorithm::Rsa && is_signing;
        let name = below(&format!("{}._domainkey", key.selector));
        records.push(one(&key.finding(), Purpose::Dkim, name, key.public_value.clone(), is_needed));
    }
    if domain.receiving {
        records.push(one("receiving", Purpose::Receiving, domain.name.clone(), place.mail_host.clone(), false));
    }
    if let Some(label) = &domain.tracking_subdomain {
        records.push(one(&tracking::finding(label), Purpose::Tracking, below(label), place.web_host.clone(), false));
    }
    records
}

/// Under which name it is kept what DNS says of the host for bounces.
const RETURN_PATH: &str = "return path";

/// Whether bounces, and other reports, were seen to find back.
pub fn leads_back(findings: &Findings) -> bool {
    findings.get(RETURN_PATH).is_some_and(|finding| finding.status == RecordStatus::Verified)
}

/// Where a domain says what others shall do with mail that only claims to be from it.
pub fn dmarc_name(domain: &str) -> String {
    format!("_dmarc.{domain}")
}

/// What to begin with: nothing is refused, and the owner sees who sends.
pub const DMARC_VALUE: &str = "v=DMARC1; p=none;";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::testing::{domain, key};

    fn place() -> Place {
        Place { mail_host: "mail.example".into(), spf: vec!["a:mail.example".into()], web_host: "api.example".into() }
    }

    fn shown(records: &[Expected]) -> Vec<String> {
        let line = |one: &Expected| {
            let needed = if one.is_needed { "!" } else { "" };
            format!("{}{needed} {} {} {}", one.purpose.record(), one.name, one.purpose.kind(), one.value)
        };
        records.iter().map(line).collect()
    }

    #[test]
    fn a_domain_needs_its_signing_key_and_spf_and_is_asked_for_the_rest() {
        let keys = [key("posthorn", Algorithm::Rsa), key("posthorn-ed", Algorithm::Ed25519)];
        let plain = expected(&domain(), &keys, &[], &place());
        assert_eq!(
            shown(&plain),
            [
                "SPF send.example.com MX mail.example",
                "SPF! send.example.com TXT v=spf1 a:mail.example ~all",
                "DKIM! posthorn._domainkey.example.com TXT value of posthorn",
                "DKIM posthorn-ed._domainkey.example.com TXT value of posthorn-ed",
            ]
        );
        let whole = Stored { receiving: true, tracking_subdomain: Some("links".into()), ..domain() };
        let relays = ["smtp://relay.example".parse().expect("a relay"), "smtp://192.0.2.1".parse().expect("a relay")];
        let more = shown(&expected(&whole, &[], &relays, &place()));
        assert_eq!(
            more[1..],
            [
                "SPF! send.example.com TXT v=spf1 a:relay.example ip4:192.0.2.1 ~all",
                "Receiving MX example.com MX mail.example",
                "Tracking links.example.com CNAME api.example",
            ]
        );
    }

    #[test]
    fn the_old_key_is_needed_until_the_new_one_is_seen() {
        let old = StoredKey { seen_at: Some(1), ..key("posthorn", Algorithm::Rsa) };
        let new = key("posthorn2", Algorithm::Rsa);
        let needed = |keys: &[StoredKey]| {
            let records = expected(&domain(), keys, &[], &place());
            let dkim = records.into_iter().filter(|one| one.purpose == Purpose::Dkim);
            dkim.map(|one| (one.key, one.is_needed)).collect::<Vec<_>>()
        };
        let both = needed(&[old.clone(), new.clone()]);
        assert_eq!(both, [("dkim posthorn".to_owned(), true), ("dkim posthorn2".to_owned(), false)]);
        let turned = needed(&[StoredKey { retired_at: Some(2), ..old }, StoredKey { seen_at: Some(2), ..new }]);
        assert_eq!(turned, [("dkim posthorn2".to_owned(), true)]);
    }

    #[test]
    fn a_host_has_no_port() {
        for (authority, host) in
            [("a.example", "a.example"), ("a.example:80", "a.example"), ("[::1]:80", "::1"), ("[::1]", "::1")]
        {
            assert_eq!(host_of(authority), host);
        }
    }
}
