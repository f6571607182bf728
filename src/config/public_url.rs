//! Addresses of ours as others see them.

use std::str::FromStr;

/// An address of ours as others see it: scheme, host, perhaps a port and a
/// path; no slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    authority: std::ops::Range<usize>,
}

impl PublicUrl {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host and port, as a browser sends them in `Host`.
    pub fn authority(&self) -> &str {
        &self.text[self.authority.clone()]
    }

    /// The host alone, as a browser writes it.
    pub fn host(&self) -> &str {
        let authority = self.authority();
        let is_port = |(_, port): &(&str, &str)| !port.contains(']');
        authority.rsplit_once(':').filter(is_port).map_or(authority, |(host, _)| host)
    }

    /// Empty, or a path that starts with a slash and does not end in one.
    pub fn path(&self) -> &str {
        &self.text[self.authority.end..]
    }

    pub fn origin(&self) -> &str {
        &self.text[..self.authority.end]
    }

    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(given: &str) -> Result<PublicUrl, String> {
        let allowed = "allowed is http:// or https://, a host, perhaps a port and a path; no query, no fragment";
        let text = given.trim_end_matches('/').to_owned();
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(allowed)?;
        let start = text.len() - host.len();
        let end = host.find('/').map_or(text.len(), |slash| start + slash);
        let authority: http::uri::Authority = text[start..end].parse().map_err(|_| allowed)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        if authority.as_str().contains('@') || !text[end..].bytes().all(plain) || text[end..].contains("//") {
            return Err(allowed.into());
        }
        // Hosts are the same in any case; `Host` headers come in lower case.
        let mut text = text;
        text[..end].make_ascii_lowercase();
        Ok(PublicUrl { authority: start..end, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_keeps_its_path_and_loses_its_last_slash() {
        let url: PublicUrl = "https://Mail.Example.com:8443/posthorn/".parse().expect("valid");
        assert_eq!(url.as_str(), "https://mail.example.com:8443/posthorn");
        assert_eq!((url.authority(), url.path()), ("mail.example.com:8443", "/posthorn"));
        assert_eq!((url.origin(), url.host()), ("https://mail.example.com:8443", "mail.example.com"));
        for (address, host) in [("http://a", "a"), ("http://[::1]", "[::1]"), ("http://[::1]:3000/x", "[::1]")] {
            assert_eq!(address.parse::<PublicUrl>().expect("valid").host(), host);
        }
    }

    #[test]
    fn a_public_url_without_scheme_or_with_a_query_is_refused() {
        for bad in [
            "mail.example.com",
            "ftp://a",
            "http://",
            "http://a?b",
            "http://a/#c",
            "http://u@a",
            "http://a//b",
            "http://a b",
        ] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
    }
}
