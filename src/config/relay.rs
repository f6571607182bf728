//! The address of the relay that takes outgoing mail.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// An SMTP server, from `smtp://user:password@host:port?tls=…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Relay {
    pub host: String,
    pub port: u16,
    pub encryption: Encryption,
    pub credentials: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// `smtps`: from the first byte on.
    Wrapped,
    /// STARTTLS, or nothing is sent.
    Required,
    /// STARTTLS where the relay offers it.
    Opportunistic,
    None,
}

const ALLOWED: &str = "allowed is smtp://[user:password@]host[:port][?tls=required|opportunistic|none] or \
                       smtps://[user:password@]host[:port]; special characters in user and password percent-encoded";

impl FromStr for Relay {
    type Err = String;

    fn from_str(given: &str) -> Result<Relay, String> {
        let (scheme, rest) = given.split_once("://").ok_or(ALLOWED)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (userinfo, authority) = match rest.rsplit_once('@') {
            Some((userinfo, authority)) => (Some(userinfo), authority),
            None => (None, rest),
        };
        let authority: http::uri::Authority = authority.trim_end_matches('/').parse().map_err(|_| ALLOWED)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = match authority.as_str().len() > authority.host().len() {
            true => Some(authority.port_u16().filter(|port| *port > 0).ok_or(ALLOWED)?),
            false => None,
        };
        let credentials = userinfo.map(credentials).transpose()?;
        let encryption = match (scheme, query) {
            ("smtps", "") => Encryption::Wrapped,
            ("smtp", "tls=required") => Encryption::Required,
            ("smtp", "tls=opportunistic") => Encryption::Opportunistic,
            ("smtp", "tls=none") => Encryption::None,
            // A password does not leave this machine unencrypted unless told so.
            ("smtp", "") if credentials.is_some() && !is_this_machine(&host) => Encryption::Required,
            ("smtp", "") => Encryption::Opportunistic,
            _ => return Err(ALLOWED.into()),
        };
        let usual = match encryption {
            Encryption::Wrapped => 465,
            _ if credentials.is_some() => 587,
            _ => 25,
        };
        if host.is_empty() {
            return Err(ALLOWED.into());
        }
        Ok(Relay { host, port: port.unwrap_or(usual), encryption, credentials })
    }
}

impl Relay {
    /// Whether nothing that is said to it leaves this machine.
    pub fn is_this_machine(&self) -> bool {
        is_this_machine(&self.host)
    }
}

fn credentials(userinfo: &str) -> Result<(String, String), String> {
    let (user, password) = userinfo.split_once(':').ok_or(ALLOWED)?;
    let text = |part: &str| percent_decode_str(part).decode_utf8().map(|text| text.into_owned()).map_err(|_| ALLOWED);
    Ok((text(user)?, text(password)?))
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Without the password.
impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Relay({}:{}, {:?})", self.host, self.port, self.encryption)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_the_relay_is_spoken_to() {
        use Encryption::{None as Plain, Opportunistic, Required, Wrapped};
        for (text, host, port, encryption, user) in [
            ("smtp://mail.example", "mail.example", 25, Opportunistic, None),
            ("smtp://mail.example:2525/", "mail.example", 2525, Opportunistic, None),
            ("smtp://u:p@mail.example", "mail.example", 587, Required, Some("u")),
            ("smtp://u:p@127.0.0.1:1025", "127.0.0.1", 1025, Opportunistic, Some("u")),
            ("smtp://u:p@localhost", "localhost", 587, Opportunistic, Some("u")),
            ("smtp://u:p@mail.example?tls=none", "mail.example", 587, Plain, Some("u")),
            ("smtp://mail.example?tls=required", "mail.example", 25, Required, None),
            ("smtps://a%40b:p%3A%2F@mail.example", "mail.example", 465, Wrapped, Some("a@b")),
            ("smtp://[::1]:1025", "::1", 1025, Opportunistic, None),
        ] {
            let relay: Relay = text.parse().expect(text);
            let credentials = user.map(|user| (user.to_owned(), if user == "a@b" { "p:/" } else { "p" }.to_owned()));
            assert_eq!(relay, Relay { host: host.into(), port, encryption, credentials }, "{text}");
        }
    }

    #[test]
    fn an_address_that_says_something_else_is_refused_and_a_password_never_shown() {
        for bad in [
            "",
            "mail.example",
            "http://mail.example",
            "smtp://",
            "smtp://:25",
            "smtp://user@mail.example",
            "smtp://mail.example:0",
            "smtp://mail.example:99999",
            "smtp://mail.example?tls=maybe",
            "smtps://mail.example?tls=none",
            "smtp://a b",
            "smtp://u:%ff@mail.example",
        ] {
            assert!(bad.parse::<Relay>().is_err(), "{bad}");
        }
        let relay: Relay = "smtp://u:hush@mail.example".parse().expect("valid");
        assert!(!format!("{relay:?}").contains("hush"));
    }
}
