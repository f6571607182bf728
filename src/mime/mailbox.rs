//! An address with the name of who is behind it: `Ada Lovelace <ada@example.com>`.

use std::fmt;
use std::str::FromStr;

use super::address::{Address, is_atom_char};
use super::header::check_line;

/// In characters.
const LONGEST_NAME: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    pub name: Option<String>,
    pub address: Address,
}

impl From<Address> for Mailbox {
    fn from(address: Address) -> Mailbox {
        Mailbox { name: None, address }
    }
}

impl FromStr for Mailbox {
    type Err = String;

    /// A name may hold what it likes in double quotes; without them it must not look like
    /// several addresses.
    fn from_str(text: &str) -> Result<Mailbox, String> {
        check_line(text)?;
        let text = text.trim();
        let Some(before) = text.strip_suffix('>') else { return Ok(text.parse::<Address>()?.into()) };
        let wrong = |why: &str| format!("must be one address such as `Ada Lovelace <ada@example.com>`: {why}");
        let (name, address) = before.rsplit_once('<').ok_or_else(|| wrong("there is a `>` without a `<`"))?;
        let name = match name.trim().strip_prefix('"') {
            Some(quoted) => unquoted(quoted).ok_or_else(|| wrong("the name's double quotes do not match"))?,
            None if name.contains(['"', '<', '>', ',', ';']) => {
                return Err(wrong("a name that holds one of \" < > , ; must stand in double quotes"));
            }
            None => name.to_owned(),
        };
        let name = name.trim();
        if name.chars().count() > LONGEST_NAME {
            return Err(wrong("the name must have at most 255 characters"));
        }
        Ok(Mailbox { name: (!name.is_empty()).then(|| name.to_owned()), address: address.trim().parse()? })
    }
}

/// What stands before the closing quote, which has to be the end.
fn unquoted(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(plain),
            '\\' => plain.push(chars.next()?),
            c => plain.push(c),
        }
    }
}

/// A name in double quotes.
pub(super) fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push('"');
    for c in name.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

/// Whether a name can stand without quotes: words with single spaces between them.
pub(super) fn is_phrase(name: &str) -> bool {
    name.split(' ').all(|word| !word.is_empty() && word.chars().all(is_atom_char))
}

/// A form that is read back as the same mailbox, for people and for the store.
impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => write!(f, "{}", self.address),
            Some(name) if is_phrase(name) => write!(f, "{name} <{}>", self.address),
            Some(name) => write!(f, "{} <{}>", quoted(name), self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name_of(text: &str) -> Option<String> {
        let mailbox: Mailbox = text.parse().expect(text);
        assert_eq!(mailbox.address.as_str(), "ada@example.com", "{text}");
        assert_eq!(mailbox.to_string().parse().as_ref(), Ok(&mailbox), "{mailbox} is read back");
        mailbox.name
    }

    #[test]
    fn a_name_may_stand_before_an_address() {
        assert_eq!(name_of("ada@example.com"), None);
        assert_eq!(name_of("  <ada@example.com> "), None);
        assert_eq!(name_of("\"\" <ada@example.com>"), None);
        for (text, name) in [
            ("Ada Lovelace <ada@example.com>", "Ada Lovelace"),
            ("Ada<ada@example.com>", "Ada"),
            ("\"Lovelace, Ada\" <ada@example.com>", "Lovelace, Ada"),
            (r#""A \"B\" \\ C" <ada@example.com>"#, r#"A "B" \ C"#),
            ("\"<ada@b>\" < ada@example.com >", "<ada@b>"),
            ("Ada L. (Acme) <ada@example.com>", "Ada L. (Acme)"),
            ("ada@acme.example <ada@example.com>", "ada@acme.example"),
            ("Ада Лавлейс 📯 <ada@example.com>", "Ада Лавлейс 📯"),
            ("=?utf-8?q?A?= <ada@example.com>", "=?utf-8?q?A?="),
        ] {
            assert_eq!(name_of(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_mailbox_is_refused_with_a_reason() {
        for (bad, why) in [
            ("Ada <ada@example.com>, Bob <bob@example.com>", "double quotes"),
            ("ada@example.com, bob@example.com", "address"),
            ("Lovelace, Ada <ada@example.com>", "double quotes"),
            ("\"Ada <ada@example.com>", "do not match"),
            ("\"Ada\" L <ada@example.com>", "do not match"),
            ("Ada ada@example.com>", "without a `<`"),
            ("Ada <>", "no `@`"),
            ("Ada <ada@example.com> x", "address"),
            ("Ada\r\nBcc: bob@example.com <ada@example.com>", "one line"),
            ("Ada\n <ada@example.com>", "one line"),
            ("Ada\0 <ada@example.com>", "one line"),
            (&format!("{} <ada@example.com>", "ä".repeat(256)), "255 characters"),
        ] {
            let told = bad.parse::<Mailbox>().expect_err(bad);
            assert!(told.starts_with("must ") && told.contains(why), "{bad:?}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_written_so_that_it_is_read_back(name in "\\PC{1,40}") {
            let address = "a@example.com".parse().expect("an address");
            let mailbox = Mailbox { name: Some(name.trim().to_owned()), address };
            if !name.trim().is_empty() && check_line(&name).is_ok() {
                prop_assert_eq!(mailbox.to_string().parse(), Ok(mailbox));
            }
        }
    }
}
