//! An address: who, at which domain (RFC 5321, RFC 6531).

use std::fmt;
use std::str::FromStr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// What RFC 5321 allows: a local part, and a whole address in a path.
const LONGEST_LOCAL: usize = 64;
const LONGEST: usize = 254;

/// A valid address. Its local part is a dot-atom, in any script; its domain is a name that
/// the DNS can hold, in any script.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// As it was written.
    text: String,
    /// Where the `@` stands.
    at: usize,
    ascii_domain: String,
}

impl Address {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// The domain as it was written.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The domain as the DNS knows it: ASCII, in lower case.
    pub fn ascii_domain(&self) -> &str {
        &self.ascii_domain
    }

    /// What all spellings of an address have in common, its domain's form in ASCII and that in
    /// another script among them.
    pub fn key(&self) -> String {
        format!("{}@{}", self.local().to_lowercase(), self.ascii_domain)
    }

    /// The same, of an address that was one when it was written down.
    pub fn key_of(address: &str) -> String {
        let parsed = if address.is_ascii() { None } else { address.parse::<Address>().ok() };
        parsed.map_or_else(|| address.to_lowercase(), |address| address.key())
    }

    /// As it stands in envelopes and header fields: with the domain in ASCII, so that only a
    /// local part in another script asks for more than plain SMTP.
    pub fn on_the_wire(&self) -> String {
        format!("{}@{}", self.local(), self.ascii_domain)
    }

    pub fn needs_smtputf8(&self) -> bool {
        !self.local().is_ascii()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = |why: &str| Err(format!("must be an address such as `ada@example.com`: {why}"));
        let Some((local, domain)) = text.rsplit_once('@') else { return wrong("there is no `@`") };
        if local.starts_with('"') {
            return wrong("what stands before the `@` must not be in quotes");
        }
        if local.contains('@') {
            return wrong("there must be only one `@`");
        }
        if !local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char)) {
            return wrong(
                "what stands before the `@` must be letters, digits and !#$%&'*+-/=?^_`{|}~, with single dots between \
                 them",
            );
        }
        if local.len() > LONGEST_LOCAL {
            return wrong("what stands before the `@` must have at most 64 bytes");
        }
        if domain.starts_with('[') {
            return wrong("what stands behind the `@` must be a domain, not an IP address");
        }
        let Some(ascii_domain) = ascii_domain(domain) else {
            return wrong("what stands behind the `@` must be a domain: letters, digits and hyphens between dots");
        };
        let address = Address { text: text.to_owned(), at: local.len(), ascii_domain };
        if text.len() > LONGEST || address.on_the_wire().len() > LONGEST {
            return wrong("it must have at most 254 bytes");
        }
        Ok(address)
    }
}

/// A domain as the DNS knows it, if it can know it.
fn ascii_domain(domain: &str) -> Option<String> {
    let ascii = Uts46::new()
        .to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify)
        .ok()?
        .to_ascii_lowercase();
    // Names end in letters (RFC 3696); what ends in a number is an IP address without its brackets.
    let is_number = ascii.rsplit('.').next().is_none_or(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    (!is_number && !domain.contains(is_invisible)).then_some(ascii)
}

/// `atext` of RFC 5322 and RFC 6532.
pub(super) fn is_atom_char(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) } else { !is_invisible(c) }
}

/// What cannot be seen, or changes how its neighbours are seen: two addresses that differ in
/// it look the same. The two joiners stay, since some scripts are written with them.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_kept_as_it_was_written() {
        let address: Address = "Ada.Lovelace+x@Example.COM".parse().expect("an address");
        assert_eq!(address.as_str(), "Ada.Lovelace+x@Example.COM");
        assert_eq!((address.local(), address.domain()), ("Ada.Lovelace+x", "Example.COM"));
        assert_eq!(address.ascii_domain(), "example.com");
        assert_eq!(address.key(), "ada.lovelace+x@example.com");
        assert_eq!(address.on_the_wire(), "Ada.Lovelace+x@example.com");
        assert!(!address.needs_smtputf8());
    }

    #[test]
    fn domains_and_names_may_be_in_any_script() {
        let ada: Address = "ada@München.DE".parse().expect("an address");
        assert_eq!((ada.domain(), ada.ascii_domain()), ("München.DE", "xn--mnchen-3ya.de"));
        assert!(!ada.needs_smtputf8(), "a domain has an ASCII form");
        let same: Address = "Ada@xn--mnchen-3ya.de".parse().expect("an address");
        assert_eq!(
            (ada.key(), same.key()),
            ("ada@xn--mnchen-3ya.de".into(), ada.key()),
            "one address in two spellings"
        );
        let user: Address = "用户@例子.广告".parse().expect("an address");
        assert!(user.needs_smtputf8());
        assert_eq!(user.on_the_wire(), "用户@xn--fsqu00a.xn--4rr70v");
        assert!("δοκιμή@παράδειγμα.δοκιμή".parse::<Address>().is_ok());
    }

    #[test]
    fn what_mail_cannot_carry_is_refused_with_a_reason() {
        let longest = format!("{}@{}.example", "a".repeat(64), "b".repeat(63));
        assert!(longest.parse::<Address>().is_ok());
        let too_long = format!("aaa@{}example", format!("{}.", "b".repeat(48)).repeat(5));
        for (bad, why) in [
            ("", "no `@`"),
            ("ada", "no `@`"),
            ("@example.com", "letters, digits"),
            ("a@b@example.com", "only one"),
            ("a b@example.com", "letters, digits"),
            (".a@example.com", "single dots"),
            ("a..b@example.com", "single dots"),
            ("a.@example.com", "single dots"),
            ("\"a b\"@example.com", "quotes"),
            ("a<b@example.com", "letters, digits"),
            ("a\r\nBcc: x@example.com", "letters, digits"),
            ("a\0@example.com", "letters, digits"),
            ("a\u{202e}b@example.com", "letters, digits"),
            ("a@", "domain"),
            ("a@[127.0.0.1]", "IP address"),
            ("a@127.0.0.1", "domain"),
            ("a@example.com.", "domain"),
            ("a@-example.com", "domain"),
            ("a@exa mple.com", "domain"),
            ("a@exa_mple.com", "domain"),
            ("a@example..com", "domain"),
            ("a@example.com\r\n", "domain"),
            ("a@xn--a.example", "domain"),
            (&format!("a@{}.example", "b".repeat(64)), "domain"),
            (&format!("{}@example.com", "a".repeat(65)), "64 bytes"),
            (&too_long, "254 bytes"),
        ] {
            let told = bad.parse::<Address>().expect_err(bad);
            assert!(told.starts_with("must be an address") && told.contains(why), "{bad:?}: {told}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_can_stand_in_an_envelope(text in "\\PC{0,20}@\\PC{1,20}") {
            if let Ok(address) = text.parse::<Address>() {
                let wire = address.on_the_wire();
                prop_assert!(wire.len() <= LONGEST && !wire.contains([' ', '<', '>', '\r', '\n']));
                prop_assert!(address.ascii_domain().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
                prop_assert_eq!(wire.parse::<Address>().map(|again| again.on_the_wire()), Ok(wire));
            }
        }
    }
}
