//! Where a redirect leads, in words for the consent page.

use super::{LOOPBACK_HOSTS, authority, split_port, split_scheme};

/// Made from a redirect URI that was proved; of any other text it gives something to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// The host with its port; for an app's own scheme, the scheme and the host if it has one.
    pub shown: &'a str,
    pub kind: DestinationKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    Website,
    /// A program listening on the user's own computer.
    Loopback,
    /// An app on the user's device that claimed a private-use scheme.
    CustomScheme,
}

impl<'a> Destination<'a> {
    pub fn of(uri: &'a str) -> Destination<'a> {
        let (scheme, behind) = split_scheme(uri).unwrap_or((uri, ""));
        let authority = authority(behind);
        if !["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
            let shown = scheme.len() + 1 + authority.map_or(0, |authority| authority.len() + 2);
            return Destination { shown: uri.get(..shown).unwrap_or(uri), kind: DestinationKind::CustomScheme };
        }
        let shown = authority.unwrap_or_default();
        let (host, _) = split_port(shown);
        let is_loopback = LOOPBACK_HOSTS.iter().any(|own| host.eq_ignore_ascii_case(own));
        let kind = if is_loopback { DestinationKind::Loopback } else { DestinationKind::Website };
        Destination { shown, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_214_and_215_the_consent_page_learns_where_the_redirect_leads() {
        use DestinationKind::{CustomScheme, Loopback, Website};
        for (uri, shown, kind) in [
            ("https://app.example/cb?x", "app.example", Website),
            ("https://app.example:8443", "app.example:8443", Website),
            ("https://localhost.evil.test/cb", "localhost.evil.test", Website),
            ("https://[2001:db8::1]:8/cb", "[2001:db8::1]:8", Website),
            ("http://127.0.0.1:49152/cb", "127.0.0.1:49152", Loopback),
            ("http://[::1]?x", "[::1]", Loopback),
            ("HTTPS://LocalHost/cb", "LocalHost", Loopback),
            ("cursor://anysphere.mcp/cb", "cursor://anysphere.mcp", CustomScheme),
            ("com.example.app:/oauth", "com.example.app:", CustomScheme),
            ("myapp:///cb", "myapp://", CustomScheme),
        ] {
            assert_eq!(Destination::of(uri), Destination { shown, kind }, "{uri}");
        }
    }
}
