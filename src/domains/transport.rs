//! How mail of one domain leaves, where it is not as the server does it.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::config::{Relay, TransportKind};

const MOST_RELAYS: usize = 5;

/// `capture`, `direct`, or the addresses of relays in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(pattern = "^(capture|direct|smtps?://.+)$", example = "smtp://user:password@relay.example:587")]
pub struct DomainTransport(String);

impl TryFrom<String> for DomainTransport {
    type Error = String;

    fn try_from(given: String) -> Result<DomainTransport, String> {
        match matches!(given.as_str(), "capture" | "direct") || relays(&given).is_some() {
            true => Ok(DomainTransport(given)),
            false => Err(format!(
                "must be `capture`, `direct`, or one to {MOST_RELAYS} relays, separated by commas, such as \
                 `smtp://user:password@relay.example:587`"
            )),
        }
    }
}

impl DomainTransport {
    pub fn kind(&self) -> TransportKind {
        TransportKind::parse(&self.0).unwrap_or(TransportKind::Relay)
    }

    /// The addresses of the relays.
    pub fn relays(&self) -> Option<&str> {
        (self.kind() == TransportKind::Relay).then_some(&self.0)
    }
}

/// Relays in the order in which they are tried.
pub fn relays(given: &str) -> Option<Vec<Relay>> {
    let relays: Vec<Relay> = given.split(',').map(|one| one.trim().parse().ok()).collect::<Option<_>>()?;
    (relays.len() <= MOST_RELAYS).then_some(relays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_is_one_that_there_is() {
        let read = |text: &str| DomainTransport::try_from(text.to_owned());
        assert_eq!(read("capture").map(|transport| transport.kind()), Ok(TransportKind::Capture));
        assert_eq!(
            read("direct").map(|transport| (transport.kind(), transport.relays().is_some())),
            Ok((TransportKind::Direct, false))
        );
        let two = read("smtp://a.example, smtps://u:p@b.example").expect("two relays");
        assert_eq!(two.kind(), TransportKind::Relay);
        let hosts: Vec<String> =
            two.relays().and_then(relays).expect("relays").into_iter().map(|relay| relay.host).collect();
        assert_eq!(hosts, ["a.example", "b.example"]);
        for bad in ["", "relay", "default", "http://a.example", "smtp://a.example,", &["smtp://a"; 6].join(",")] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for kind in [TransportKind::Capture, TransportKind::Relay, TransportKind::Direct] {
            assert_eq!(TransportKind::parse(kind.as_str()), Some(kind));
        }
    }
}
