//! Redirect URIs as raw strings: which may be registered, which request matches a registered one,
//! and how parameters are appended.
//!
//! No URL parser comes near them. Parsers repair (`127.1`, `..`, `\`, default ports), and a
//! repaired string is not the one that was registered.

mod destination;
mod difference;
#[cfg(test)]
mod registration_vectors;
#[cfg(test)]
mod vectors;

use std::net::Ipv6Addr;

use crate::web::{decode, starts_with_two_hex_digits};

pub use destination::{Destination, DestinationKind};
pub use difference::Difference;

const MAX_CHARS: usize = 2048;

/// Everything in front of the port of a loopback URI, spelt exactly.
const LOOPBACK_ORIGINS: [&str; 6] =
    ["http://127.0.0.1", "http://localhost", "http://[::1]", "https://127.0.0.1", "https://localhost", "https://[::1]"];

const LOOPBACK_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Parameters that the callback adds itself. One that is already there would let the registrant
/// decide which of the two a client reads.
const RESERVED_PARAMETERS: [&str; 5] = ["code", "state", "error", "error_description", "iss"];

/// Schemes that run script, read local data, or belong to another protocol. Sorted.
#[rustfmt::skip]
const REFUSED_SCHEMES: [&str; 37] = [
    "about", "acap", "blob", "chrome", "cid", "data", "feed", "file", "filesystem", "ftp", "ftps",
    "gopher", "intent", "jar", "javascript", "jscript", "ldap", "ldaps", "livescript", "mailto",
    "mhtml", "mid", "mocha", "news", "nntp", "res", "resource", "sftp", "sms", "ssh", "tel",
    "telnet", "urn", "vbscript", "view-source", "ws", "wss",
];

/// Whether a request may use `requested` when `registered` is on the client's list: equal as
/// strings, or equal once the port behind a loopback host is deleted from either or both.
pub fn matches(registered: &str, requested: &str) -> bool {
    registered == requested
        || match (without_port(registered), without_port(requested)) {
            (Some(registered), Some(requested)) => registered == requested,
            _ => false,
        }
}

/// Splits a loopback URI into what stands in front of the port and what stands behind it. `None`
/// for everything that is not exactly a loopback host followed by at most one valid port: `:80@`,
/// `:80\` or `localhost.` lead somewhere else.
fn without_port(uri: &str) -> Option<(&'static str, &str)> {
    let (origin, behind) = LOOPBACK_ORIGINS.iter().find_map(|&origin| Some((origin, uri.strip_prefix(origin)?)))?;
    let rest = match behind.strip_prefix(':') {
        None => behind,
        Some(behind) => {
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            let (port, rest) = behind.split_at(digits);
            if !is_port(port) {
                return None;
            }
            rest
        }
    };
    (rest.is_empty() || rest.starts_with(['/', '?'])).then_some((origin, rest))
}

pub fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') && text.parse::<u16>().is_ok()
}

/// Appends `name=value` pairs that are already encoded, leaving every byte of `uri` as it is.
pub fn append(uri: &str, pairs: &[(&str, &str)]) -> String {
    let added: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let mut out = String::with_capacity(uri.len() + added);
    out.push_str(uri);
    let mut has_query = uri.contains('?');
    for (name, value) in pairs {
        if !has_query {
            out.push('?');
        } else if !out.ends_with(['?', '&']) {
            out.push('&');
        }
        has_query = true;
        out.push_str(name);
        out.push('=');
        out.push_str(value);
    }
    out
}

/// A URI that may be registered, kept exactly as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct RedirectUri(String);

/// Why a URI may not be registered. The texts say what is allowed and quote nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("is empty; give an absolute URI")]
    Empty,
    #[error("is too long; at most 2048 characters are allowed")]
    TooLong,
    #[error(
        "holds white space, a control character, a backslash, a non-ASCII character or another \
         character that URIs do not allow; percent-encode it, and write international host names \
         in punycode"
    )]
    Character,
    #[error("has a fragment; remove the # and what follows it")]
    Fragment,
    #[error("holds a % that is not followed by two hexadecimal digits; write a plain % as %25")]
    PercentEscape,
    #[error("has no valid scheme; give an absolute URI such as https://app.example/callback")]
    NoScheme,
    #[error(
        "has a scheme that is not allowed; use https, http on a loopback host, or the private-use \
         scheme of an app"
    )]
    RefusedScheme,
    #[error("starts with a host instead of a scheme; write http:// or https:// in front of it")]
    HostForScheme,
    #[error("has nothing behind its scheme; add a path such as :/callback")]
    NothingBehindScheme,
    #[error("has no host; two slashes and a host must follow http: or https:")]
    NoHost,
    #[error("holds a user name or password in front of its host; remove everything up to the @")]
    Userinfo,
    #[error("holds a * in its host; wildcards are not supported, register every host by itself")]
    Wildcard,
    #[error(
        "has an invalid host; use letters, digits, dots, hyphens and underscores, or an IPv6 \
         address in brackets"
    )]
    Host,
    #[error("has an invalid port; a port is a number from 1 to 65535 without leading zeros")]
    Port,
    #[error(
        "uses http on a host that is not a loopback host; use https, or http on exactly \
         127.0.0.1, localhost or [::1]"
    )]
    PlainHttp,
    #[error(
        "has a reserved parameter in its query; code, state, error, error_description and iss \
         are added by the server"
    )]
    ReservedParameter,
}

impl TryFrom<String> for RedirectUri {
    type Error = Reason;

    fn try_from(text: String) -> Result<RedirectUri, Reason> {
        RedirectUri::parse(&text)
    }
}

impl RedirectUri {
    pub fn parse(text: &str) -> Result<RedirectUri, Reason> {
        check_characters(text)?;
        let (scheme, behind) = split_scheme(text).ok_or(Reason::NoScheme)?;
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "https" => check_authority(behind).and_then(|host| non_empty(host).map(drop))?,
            "http" => {
                let host = check_authority(behind).and_then(non_empty)?;
                if !LOOPBACK_HOSTS.contains(&host) {
                    return Err(Reason::PlainHttp);
                }
            }
            refused if REFUSED_SCHEMES.contains(&refused) => return Err(Reason::RefusedScheme),
            _ => check_private_use(&scheme, behind)?,
        }
        if has_reserved_parameter(text) {
            return Err(Reason::ReservedParameter);
        }
        Ok(RedirectUri(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

fn check_characters(text: &str) -> Result<(), Reason> {
    let bytes = text.as_bytes();
    let never_in_a_uri = |byte: &u8| !byte.is_ascii_graphic() || br#""<>\^`{|}"#.contains(byte);
    let stray_percent = |(at, &byte): (usize, &u8)| byte == b'%' && !starts_with_two_hex_digits(&bytes[at + 1..]);
    if text.is_empty() {
        Err(Reason::Empty)
    } else if text.chars().count() > MAX_CHARS {
        Err(Reason::TooLong)
    } else if bytes.iter().any(never_in_a_uri) {
        Err(Reason::Character)
    } else if bytes.contains(&b'#') {
        Err(Reason::Fragment)
    } else if bytes.iter().enumerate().any(stray_percent) {
        Err(Reason::PercentEscape)
    } else {
        Ok(())
    }
}

pub fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, behind) = uri.split_once(':')?;
    let valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    valid.then_some((scheme, behind))
}

/// The part between `//` and the path, when there is one.
pub fn authority(behind_scheme: &str) -> Option<&str> {
    let behind = behind_scheme.strip_prefix("//")?;
    let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    Some(&behind[..end])
}

pub fn split_port(authority: &str) -> (&str, Option<&str>) {
    let host_end = match authority.find(']') {
        Some(bracket) if authority.starts_with('[') => bracket + 1,
        _ => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    (host, (!port.is_empty()).then_some(port))
}

/// Checks the authority and gives its host, which is empty where there is none.
fn check_authority(behind_scheme: &str) -> Result<&str, Reason> {
    let authority = authority(behind_scheme).unwrap_or_default();
    if authority.contains('@') {
        return Err(Reason::Userinfo);
    }
    let (host, port) = split_port(authority);
    if host.contains('*') {
        return Err(Reason::Wildcard);
    }
    if !is_host(host) {
        return Err(Reason::Host);
    }
    match port.map(|port| port.strip_prefix(':')) {
        None => Ok(host),
        Some(Some(port)) if is_port(port) => Ok(host),
        Some(Some(_)) => Err(Reason::Port),
        Some(None) => Err(Reason::Host),
    }
}

fn is_host(host: &str) -> bool {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    host.bytes().all(is_host_byte) && !host.starts_with('.') && !host.contains("..")
}

fn non_empty(host: &str) -> Result<&str, Reason> {
    if host.is_empty() { Err(Reason::NoHost) } else { Ok(host) }
}

/// `localhost:3000/cb` and `app.example:8443` are URIs with an odd scheme; what their writer meant
/// is a host and a port.
fn check_private_use(scheme: &str, behind: &str) -> Result<(), Reason> {
    let opaque = behind.split(['/', '?']).next().unwrap_or_default();
    let looks_like_port = !opaque.is_empty() && opaque.bytes().all(|byte| byte.is_ascii_digit());
    if behind.is_empty() {
        Err(Reason::NothingBehindScheme)
    } else if looks_like_port || scheme == "localhost" {
        Err(Reason::HostForScheme)
    } else {
        check_authority(behind).map(drop)
    }
}

/// Names are compared as clients will read them: decoded, in any case, and behind `;` too, which
/// some form parsers take for a separator.
fn has_reserved_parameter(uri: &str) -> bool {
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    query.split(['&', ';']).any(|pair| {
        let name = decode(pair.split('=').next().unwrap_or_default().as_bytes());
        RESERVED_PARAMETERS.iter().any(|reserved| name.eq_ignore_ascii_case(reserved.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_191_to_195_parameters_are_appended_and_the_uri_keeps_its_bytes() {
        let pairs = [("code", "c"), ("state", "s")];
        for (uri, expected) in [
            ("https://a/cb", "https://a/cb?code=c&state=s"),
            ("https://a", "https://a?code=c&state=s"),
            ("https://a/q?tenant=7", "https://a/q?tenant=7&code=c&state=s"),
            ("https://a/q?b;a&%7e=%7E&x", "https://a/q?b;a&%7e=%7E&x&code=c&state=s"),
            ("https://a/q?", "https://a/q?code=c&state=s"),
            ("https://a/q?x&", "https://a/q?x&code=c&state=s"),
            ("https://a/q?x=?", "https://a/q?x=?code=c&state=s"),
            ("com.example.app:/oauth", "com.example.app:/oauth?code=c&state=s"),
            ("http://127.0.0.1:33418", "http://127.0.0.1:33418?code=c&state=s"),
        ] {
            assert_eq!(append(uri, &pairs), expected);
        }
        assert_eq!(append("https://a/cb", &[]), "https://a/cb");
    }

    #[test]
    fn refused_schemes_are_sorted_and_lower_case() {
        assert!(REFUSED_SCHEMES.is_sorted());
        assert!(REFUSED_SCHEMES.iter().all(|s| *s == s.to_ascii_lowercase()));
    }

    #[test]
    fn decisions_3_a_port_is_plain_digits_from_1_to_65535() {
        for good in ["1", "80", "8080", "65535"] {
            assert!(is_port(good), "{good}");
        }
        for bad in ["", "0", "00", "080", "65536", "99999999999999999999", "+80", "-1", "8 0", "8a"] {
            assert!(!is_port(bad), "{bad}");
        }
    }
}
