//! What a webhook is, and what a request can say of it. Valid by construction.

use std::net::IpAddr;

use http::Uri;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::event::{EventType, EventTypes};
use crate::db::from_word;
use crate::error::Error;
use crate::http_client::is_public;
use crate::text::{checked_text, words};

const LONGEST_ENDPOINT: usize = 2048;

/// How many types of events a request may name; some may be named twice.
const MOST_NAMED: usize = 100;

/// Where events are posted to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(as = WebhookEndpoint, max_length = 2048, pattern = "^https?://", example = "https://example.com/webhooks")]
pub struct Endpoint(String);

checked_text!(
    Endpoint(text) if uri(text).is_some(),
    else format!(
        "must be an https:// address of at most {LONGEST_ENDPOINT} characters, without a user name and a fragment"
    )
);

fn uri(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok().filter(|_| text.len() <= LONGEST_ENDPOINT && !text.contains('#'))?;
    let is_sound = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty());
    is_sound.then_some(uri)
}

impl Endpoint {
    /// Refuses one that could never be called: not encrypted, or an address of our own network. Names are looked at
    /// with every call.
    pub fn must_be_allowed(&self, private_allowed: bool) -> Result<(), Error> {
        let Some(uri) = uri(&self.0).filter(|_| !private_allowed) else { return Ok(()) };
        if uri.scheme_str() != Some("https") {
            return Err(Error::invalid("The `endpoint` field must be an https:// address."));
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(address) if !is_public(address) => {
                Err(Error::invalid("The `endpoint` field must be an address on the public internet."))
            }
            _ => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for EventTypes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventTypes, D::Error> {
        let given = Vec::<EventType>::deserialize(deserializer)?;
        match given.len() {
            1..=MOST_NAMED => Ok(given.into_iter().collect()),
            count => Err(D::Error::custom(format!("must hold 1 to {MOST_NAMED} elements, but has {count}"))),
        }
    }
}

words! {
    /// Whether events are delivered to it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = WebhookStatus)]
    pub enum Status: ALL, parse {
        Enabled = "enabled",
        Disabled = "disabled",
    }
}

from_word!(Status);

/// What to make.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewWebhook {
    pub endpoint: Endpoint,
    /// What it listens to.
    #[schema(value_type = Vec<EventType>, min_items = 1, max_items = 100)]
    pub events: EventTypes,
}

/// What to change. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
pub struct WebhookChange {
    pub endpoint: Option<Endpoint>,
    /// What it listens to from now on.
    #[schema(value_type = Option<Vec<EventType>>, min_items = 1, max_items = 100)]
    pub events: Option<EventTypes>,
    /// Nothing is delivered while it is disabled, and nothing is kept for later.
    pub status: Option<Status>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Result<Endpoint, String> {
        Endpoint::try_from(text.to_owned())
    }

    #[test]
    fn an_endpoint_is_an_address_of_http() {
        let long = format!("https://example.com/{}", "x".repeat(LONGEST_ENDPOINT));
        for wrong in ["", "example.com", "ftp://example.com", "https://", "https://u:p@example.com/", "/x", &long] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
        assert!(endpoint("https://example.com/#x").is_err());
        assert_eq!(
            endpoint("https://example.com:8443/a?b=c").expect("sound").as_str(),
            "https://example.com:8443/a?b=c"
        );
    }

    #[test]
    fn what_could_never_be_called_is_refused_at_once() {
        for (text, allowed) in [
            ("https://example.com/", true),
            ("http://example.com/", false),
            ("https://127.0.0.1/", false),
            ("https://[::1]:8443/", false),
            ("https://10.1.2.3/", false),
            ("https://93.184.216.34/", true),
        ] {
            let given = endpoint(text).expect("sound");
            assert_eq!(given.must_be_allowed(false).is_ok(), allowed, "{text}");
            assert!(given.must_be_allowed(true).is_ok(), "{text}");
        }
    }
}
