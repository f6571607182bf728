//! What a domain is, and what can be set of it. Valid by construction.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::transport::DomainTransport;
use crate::mime::Address;
use crate::text::words;
use crate::web::Change;

/// What stands before a name in its records: `_domainkey` with a selector is the longest.
const LONGEST_NAME: usize = 200;
const LONGEST_LABEL: usize = 63;

/// The largest first day of a warm-up.
pub const MOST_ON_FIRST_DAY: u32 = 1_000_000;

/// The name of a domain, in ASCII and lower case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(min_length = 4, max_length = 200, pattern = "^[^\\s@]+\\.[^\\s@]+$", example = "example.com")]
pub struct DomainName(String);

impl TryFrom<String> for DomainName {
    type Error = String;

    fn try_from(given: String) -> Result<DomainName, String> {
        let wrong = || "must be the name of a domain, such as `example.com`".to_owned();
        // As senders' addresses are read, so that both come to the same name.
        let address: Address = format!("x@{}", given.trim_end_matches('.')).parse().map_err(|_| wrong())?;
        let name = address.ascii_domain();
        let mut labels = name.split('.').rev();
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let has_top = labels.next().is_some_and(|top| top.len() > 1 && !is_number(top));
        let fits = name.len() <= LONGEST_NAME && name.split('.').all(is_label);
        match has_top && labels.next().is_some() && fits {
            true => Ok(DomainName(name.to_owned())),
            false => Err(wrong()),
        }
    }
}

impl DomainName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_LABEL).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// What stands before a domain's name: one label.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(min_length = 1, max_length = 63, pattern = "^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$", example = "send")]
pub struct Subdomain(String);

impl TryFrom<String> for Subdomain {
    type Error = String;

    fn try_from(given: String) -> Result<Subdomain, String> {
        let label = given.to_ascii_lowercase();
        match is_label(&label) {
            true => Ok(Subdomain(label)),
            false => {
                Err(format!("must be one label of at most {LONGEST_LABEL} letters, digits and hyphens, such as `send`"))
            }
        }
    }
}

impl Default for Subdomain {
    fn default() -> Subdomain {
        Subdomain("send".into())
    }
}

impl Subdomain {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where clients believe the mail leaves from. It changes nothing here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Region {
    #[default]
    #[serde(rename = "us-east-1")]
    UsEast1,
    #[serde(rename = "eu-west-1")]
    EuWest1,
    #[serde(rename = "sa-east-1")]
    SaEast1,
    #[serde(rename = "ap-northeast-1")]
    ApNortheast1,
}

words!(Region {
    UsEast1 = "us-east-1",
    EuWest1 = "eu-west-1",
    SaEast1 = "sa-east-1",
    ApNortheast1 = "ap-northeast-1",
});

/// Whether mail may go over a connection that is not encrypted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DomainTls)]
pub enum TlsPolicy {
    /// Encrypted where the other server can.
    #[default]
    Opportunistic,
    /// Encrypted to a server whose certificate is right, or not at all.
    Enforced,
}

words!(TlsPolicy {
    Opportunistic = "opportunistic",
    Enforced = "enforced",
});

/// Whether a domain does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DomainCapability)]
pub enum Capability {
    Enabled,
    Disabled,
}

impl Capability {
    pub fn of(is_enabled: bool) -> Capability {
        if is_enabled { Capability::Enabled } else { Capability::Disabled }
    }

    pub fn is_enabled(self) -> bool {
        self == Capability::Enabled
    }
}

/// What a domain shall do. What is left out stays as it is; a new domain sends and does not receive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = DomainCapabilitiesChange)]
pub struct Capabilities {
    pub sending: Option<Capability>,
    pub receiving: Option<Capability>,
}

/// How many mails may be sent on the first day; each day after it, twice as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "u32")]
#[schema(as = DomainWarmUp, value_type = u32, minimum = 1, maximum = 1_000_000, example = 200)]
pub struct WarmUp(u32);

impl TryFrom<u32> for WarmUp {
    type Error = String;

    fn try_from(mails: u32) -> Result<WarmUp, String> {
        match mails {
            1..=MOST_ON_FIRST_DAY => Ok(WarmUp(mails)),
            _ => Err(format!("must be a whole number from 1 to {MOST_ON_FIRST_DAY}, or null")),
        }
    }
}

impl WarmUp {
    pub fn mails(self) -> u32 {
        self.0
    }
}

/// What to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "example.com", "click_tracking": true, "tracking_subdomain": "links"}))]
pub struct NewDomain {
    /// Mail is sent from addresses of exactly this domain: a subdomain is a domain of its own.
    pub name: DomainName,
    /// Clients expect one; it changes nothing here.
    #[schema(default = "us-east-1")]
    pub region: Option<Region>,
    /// The subdomain to which bounces go.
    #[schema(default = "send")]
    pub custom_return_path: Option<Subdomain>,
    pub open_tracking: Option<bool>,
    pub click_tracking: Option<bool>,
    #[schema(default = "opportunistic")]
    pub tls: Option<TlsPolicy>,
    pub capabilities: Option<Capabilities>,
    /// The subdomain that links of tracked mail lead to.
    pub tracking_subdomain: Option<Subdomain>,
    /// How mail of this domain leaves; left out, as the server does it.
    pub transport: Option<DomainTransport>,
    pub warm_up: Option<WarmUp>,
}

/// What to change. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"click_tracking": true, "tracking_subdomain": "links", "tls": "enforced"}))]
pub struct DomainChange {
    pub open_tracking: Option<bool>,
    pub click_tracking: Option<bool>,
    pub tls: Option<TlsPolicy>,
    pub capabilities: Option<Capabilities>,
    /// Null removes it.
    #[schema(value_type = Option<Subdomain>)]
    pub tracking_subdomain: Change<Subdomain>,
    /// Null: as the server does it.
    #[schema(value_type = Option<DomainTransport>)]
    pub transport: Change<DomainTransport>,
    /// Begins a warm-up today; null ends it.
    #[schema(value_type = Option<WarmUp>)]
    pub warm_up: Change<WarmUp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_to_one_spelling() {
        for (given, name) in [
            ("example.com", "example.com"),
            ("Mail.Example.COM", "mail.example.com"),
            ("example.com.", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(DomainName::try_from(given.to_owned()).expect(given).as_str(), name);
        }
    }

    #[test]
    fn what_is_no_name_of_a_domain_is_refused() {
        let long = format!("{}.com", ["a"; 120].join("."));
        for given in [
            "",
            "localhost",
            ".",
            "a..b",
            "-a.com",
            "a-.com",
            "a_b.com",
            "127.0.0.1",
            "[::1]",
            "example.c",
            "a b.com",
            "a@b.com",
            "https://example.com",
            "example.com/x",
            "example.com:25",
            &"a".repeat(64),
            &long,
        ] {
            assert!(DomainName::try_from(given.to_owned()).is_err(), "{given}");
        }
    }

    #[test]
    fn a_subdomain_is_one_label() {
        assert_eq!(Subdomain::try_from("Bounces".to_owned()).expect("a label").as_str(), "bounces");
        for given in ["", "a.b", "-a", "a_b", "ä", &"a".repeat(64)] {
            assert!(Subdomain::try_from(given.to_owned()).is_err(), "{given}");
        }
    }
}
