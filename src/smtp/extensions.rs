//! What a server offers beyond the bare protocol, read from its answer to EHLO.

use super::reply;

/// What Posthorn calls it that it takes a message once under a key.
const KEYS: &str = "XIDEMPOTENCY";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    pub(super) pipelining: bool,
    pub(super) eight_bit: bool,
    pub(super) smtputf8: bool,
    pub(super) starttls: bool,
    pub(super) auth_plain: bool,
    pub(super) auth_login: bool,
    pub(super) size: Size,
    /// It reports on deliveries as it is asked to (RFC 3461).
    pub(super) dsn: bool,
    /// It takes a message once, however often it is brought under the same key: another Posthorn.
    pub(super) keys: bool,
}

/// What is said of the size of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Size {
    #[default]
    NotOffered,
    /// It may be announced; there is no fixed limit.
    Any,
    AtMost(u64),
}

impl Extensions {
    /// Takes one line of the answer to EHLO, the first being the greeting.
    pub(super) fn line(&mut self, line: &[u8]) {
        let mut words = reply::content(line).split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(keyword) = words.next() else { return };
        let is = |name: &str| keyword.eq_ignore_ascii_case(name.as_bytes());
        if is("PIPELINING") {
            self.pipelining = true;
        } else if is("8BITMIME") {
            self.eight_bit = true;
        } else if is("SMTPUTF8") {
            self.smtputf8 = true;
        } else if is("STARTTLS") {
            self.starttls = true;
        } else if is("DSN") {
            self.dsn = true;
        } else if is(KEYS) {
            self.keys = true;
        } else if is("SIZE") {
            self.size = size(words.next());
        } else if is("AUTH") {
            words.for_each(|mechanism| self.mechanism(mechanism));
        } else if let Some((b"AUTH=", first)) = keyword.split_at_checked(5) {
            // What some wrote before there was a standard.
            self.mechanism(first);
            words.for_each(|mechanism| self.mechanism(mechanism));
        }
    }

    fn mechanism(&mut self, name: &[u8]) {
        self.auth_plain |= name.eq_ignore_ascii_case(b"PLAIN");
        self.auth_login |= name.eq_ignore_ascii_case(b"LOGIN");
    }
}

/// Zero, nothing and nonsense are no limit (RFC 1870).
fn size(given: Option<&[u8]>) -> Size {
    let number = given.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    number.filter(|bytes| *bytes > 0).map_or(Size::Any, Size::AtMost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_read_from_the_lines_of_ehlo() {
        let mut offered = Extensions::default();
        for line in ["mx.example at your service", "pipelining", "SIZE 35882577", "8BITMIME", "STARTTLS", "SmtpUtf8"] {
            offered.line(format!("250-{line}").as_bytes());
        }
        offered.line(b"250-dsn");
        offered.line(b"250-XIDEMPOTENCY");
        offered.line(b"250 AUTH CRAM-MD5 login  PLAIN");
        let all = Extensions {
            pipelining: true,
            eight_bit: true,
            smtputf8: true,
            starttls: true,
            auth_plain: true,
            auth_login: true,
            size: Size::AtMost(35_882_577),
            dsn: true,
            keys: true,
        };
        assert_eq!(offered, all);
    }

    #[test]
    fn odd_offers_are_read_with_care() {
        for (line, expected) in [
            ("250-SIZE", Extensions { size: Size::Any, ..Extensions::default() }),
            ("250-SIZE 0", Extensions { size: Size::Any, ..Extensions::default() }),
            ("250-SIZE 99999999999999999999999", Extensions { size: Size::Any, ..Extensions::default() }),
            ("250-SIZE x", Extensions { size: Size::Any, ..Extensions::default() }),
            ("250-AUTH=LOGIN XOAUTH2", Extensions { auth_login: true, ..Extensions::default() }),
            ("250-AUTH=CRAM-MD5 PLAIN", Extensions { auth_plain: true, ..Extensions::default() }),
            ("250-PIPELININGS", Extensions::default()),
            ("250-DSNX", Extensions::default()),
            ("250-", Extensions::default()),
            ("250", Extensions::default()),
        ] {
            let mut offered = Extensions::default();
            offered.line(line.as_bytes());
            assert_eq!(offered, expected, "{line}");
        }
    }
}
