//! The address of a client's metadata document, which is the client's id.

use std::ops::Range;

use crate::oauth::redirect_uri::is_port;
use crate::web::starts_with_two_hex_digits;

const MAX_BYTES: usize = 2048;

const SCHEME: &str = "https://";

/// An address that a document may stand at, kept exactly as it was sent: it is
/// compared as a string, and every spelling but one is refused rather than
/// repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentUrl {
    text: String,
    host: Range<usize>,
}

/// Why no document can stand at an address. The texts read on after `client_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("must start with https://")]
    Scheme,
    #[error("is too long for an address; at most 2048 bytes are allowed")]
    TooLong,
    #[error("holds a character that an address may not hold; percent-encode it")]
    Character,
    #[error("has a fragment; remove the # and what follows it")]
    Fragment,
    #[error("has a query; remove the ? and what follows it")]
    Query,
    #[error("holds a user name or password; remove everything up to the @")]
    Userinfo,
    #[error("must name a host by its full domain name in lower case, not by an address")]
    Host,
    #[error("has an invalid port; a port is a number from 1 to 65535 without leading zeros")]
    Port,
    #[error("has no path; a document stands at a path such as /oauth/client.json")]
    NoPath,
    #[error("has a path with . or .. segments; write the path without them")]
    DotSegment,
}

/// Whether a client id can only be the address of a document.
pub fn is_document(client_id: &str) -> bool {
    client_id.starts_with(SCHEME)
}

impl DocumentUrl {
    pub fn parse(text: &str) -> Result<DocumentUrl, Flaw> {
        let behind = text.strip_prefix(SCHEME).ok_or(Flaw::Scheme)?;
        check_characters(text)?;
        let authority = behind.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(Flaw::Userinfo);
        }
        let host = match authority.split_once(':') {
            Some((_, port)) if !is_port(port) => return Err(Flaw::Port),
            Some((host, _)) => host,
            None => authority,
        };
        if !is_full_name(host) {
            return Err(Flaw::Host);
        }
        let path = &behind[authority.len()..];
        if path.is_empty() || path == "/" {
            return Err(Flaw::NoPath);
        }
        if path.split('/').any(is_dot_segment) {
            return Err(Flaw::DotSegment);
        }
        let start = SCHEME.len();
        Ok(DocumentUrl { host: start..start + host.len(), text: text.to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn host(&self) -> &str {
        &self.text[self.host.clone()]
    }
}

fn check_characters(text: &str) -> Result<(), Flaw> {
    let bytes = text.as_bytes();
    let never = |byte: &u8| !byte.is_ascii_graphic() || br#""<>\^`{|}"#.contains(byte);
    let stray_percent = |(at, &byte): (usize, &u8)| byte == b'%' && !starts_with_two_hex_digits(&bytes[at + 1..]);
    if bytes.len() > MAX_BYTES {
        Err(Flaw::TooLong)
    } else if bytes.contains(&b'#') {
        Err(Flaw::Fragment)
    } else if bytes.contains(&b'?') {
        Err(Flaw::Query)
    } else if bytes.iter().any(never) || bytes.iter().enumerate().any(stray_percent) {
        Err(Flaw::Character)
    } else {
        Ok(())
    }
}

/// A domain name of at least two labels. The last one is not a number, so no
/// spelling of an address (`127.1`, `0x7f.1`) passes for a name.
fn is_full_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let starts_with_letter = |label: &str| label.starts_with(|first: char| first.is_ascii_lowercase());
    host.len() <= 253
        && host.split('.').all(is_label)
        && host.rsplit_once('.').is_some_and(|(_, last)| starts_with_letter(last))
}

/// `.` or `..`, also where a dot is written `%2e`.
fn is_dot_segment(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_client::port as port_of;

    #[test]
    fn case_409_an_https_address_with_a_path_can_be_a_client_id() {
        for (text, host, port, path) in [
            ("https://app.example/c.json", "app.example", 443, "/c.json"),
            ("https://app.example:8443/o/c", "app.example", 8443, "/o/c"),
            ("https://a-b.xn--bcher-kva.example/~u/%7Ec", "a-b.xn--bcher-kva.example", 443, "/~u/%7Ec"),
            ("https://app.example/c/", "app.example", 443, "/c/"),
            ("https://app.example/..c/.well-known/c", "app.example", 443, "/..c/.well-known/c"),
            ("https://1.app.example/a:b@c", "1.app.example", 443, "/a:b@c"),
        ] {
            let url = DocumentUrl::parse(text).expect(text);
            assert_eq!((url.as_str(), url.host()), (text, host));
            // What is fetched is what the address was checked for.
            let fetched: http::Uri = text.parse().expect(text);
            assert_eq!((fetched.host(), port_of(&fetched), fetched.path()), (Some(host), port, path));
        }
    }

    #[test]
    fn case_410_any_other_address_is_refused_with_the_reason() {
        let long = format!("https://app.example/{}", "a".repeat(2030));
        let long_label = format!("https://{}.example/c", "a".repeat(64));
        for (text, flaw) in [
            ("http://app.example/c", Flaw::Scheme),
            ("HTTPS://app.example/c", Flaw::Scheme),
            ("https:/app.example/c", Flaw::Scheme),
            ("ftp://app.example/c", Flaw::Scheme),
            ("https://app.example", Flaw::NoPath),
            ("https://app.example/", Flaw::NoPath),
            ("https://app.example:8443", Flaw::NoPath),
            ("https://app.example/c#", Flaw::Fragment),
            ("https://app.example#/c", Flaw::Fragment),
            ("https://app.example/c?", Flaw::Query),
            ("https://app.example/c?v=1", Flaw::Query),
            ("https://app.example?/c", Flaw::Query),
            ("https://user@app.example/c", Flaw::Userinfo),
            ("https://user:pw@app.example/c", Flaw::Userinfo),
            ("https://vendor.example:x@evil.example/c", Flaw::Userinfo),
            ("https://app.example/./c", Flaw::DotSegment),
            ("https://app.example/a/../c", Flaw::DotSegment),
            ("https://app.example/a/%2e%2E/c", Flaw::DotSegment),
            ("https://app.example/a/.%2e", Flaw::DotSegment),
            ("https://app.example/.", Flaw::DotSegment),
            ("https://app.example/..", Flaw::DotSegment),
            ("https:///c", Flaw::Host),
            ("https://localhost/c", Flaw::Host),
            ("https://intranet/c", Flaw::Host),
            ("https://OAuth.example/c", Flaw::Host),
            ("https://app.example./c", Flaw::Host),
            ("https://.app.example/c", Flaw::Host),
            ("https://app..example/c", Flaw::Host),
            ("https://-app.example/c", Flaw::Host),
            ("https://app_1.example/c", Flaw::Host),
            ("https://app%2eexample/c", Flaw::Host),
            ("https://127.0.0.1/c", Flaw::Host),
            ("https://127.1/c", Flaw::Host),
            ("https://0x7f.1/c", Flaw::Host),
            ("https://2130706433/c", Flaw::Host),
            ("https://1.2.3.4/c", Flaw::Host),
            ("https://[::1]/c", Flaw::Port),
            ("https://app.example:/c", Flaw::Port),
            ("https://app.example:0/c", Flaw::Port),
            ("https://app.example:0443/c", Flaw::Port),
            ("https://app.example:65536/c", Flaw::Port),
            ("https://app.example:+443/c", Flaw::Port),
            ("https://app.example:443:1/c", Flaw::Port),
            ("https://app.example/a b", Flaw::Character),
            ("https://app.example\\c/", Flaw::Character),
            ("https://app.example/\u{e9}", Flaw::Character),
            ("https://app.example/c\n", Flaw::Character),
            ("https://app.example/%zz", Flaw::Character),
            ("https://app.example/%2", Flaw::Character),
            (&long, Flaw::TooLong),
            (&long_label, Flaw::Host),
        ] {
            assert_eq!(DocumentUrl::parse(text), Err(flaw), "{text}");
        }
    }
}
