//! Header fields that a sender adds.

use super::field::{LONGEST_LINE, words};

/// In bytes.
const LONGEST_NAME: usize = 76;
const LONGEST_VALUE: usize = 8192;

/// What the product writes itself, or what servers on the way write; in lower case. A name
/// that ends in `-` stands for all that begin so.
const RESERVED: &[&str] = &[
    "from",
    "sender",
    "to",
    "cc",
    "bcc",
    "reply-to",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "content-",
    "dkim-signature",
    "received",
    "return-path",
    "resent-",
    "authentication-results",
    "arc-",
    "x-posthorn-",
    "x-pm-metadata-posthorn",
];

/// A field that may be put into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    name: String,
    value: String,
}

impl Header {
    /// A value may be in any script. One in ASCII is written as it is, so whoever wants
    /// encoded words in a certain place can write them.
    pub fn new(name: &str, value: &str) -> Result<Header, String> {
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_name_byte) {
            return Err("must have a name of 1 to 76 letters, digits, and hyphens or underscores between them".into());
        }
        let lower = name.to_ascii_lowercase();
        let is_reserved =
            |reserved: &&str| if reserved.ends_with('-') { lower.starts_with(reserved) } else { lower == *reserved };
        if RESERVED.iter().any(is_reserved) {
            return Err(format!("must not be {name}: the message has it from elsewhere"));
        }
        check_line(value)?;
        let value = value.trim();
        if value.len() > LONGEST_VALUE {
            return Err("must have at most 8192 bytes".into());
        }
        // A line is broken at white space, and a word stands behind the one before it.
        if value.is_ascii() && words(value).any(|(space, word)| 1 + space.len() + word.len() > LONGEST_LINE) {
            return Err("must have white space at least every 990 characters, so that lines can be broken".into());
        }
        Ok(Header { name: name.to_owned(), value: value.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

/// RFC 5322 allows more; these are what all servers on the way take.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Whether a text may stand in a header field: a line break in it would begin another.
pub fn check_line(text: &str) -> Result<(), String> {
    let is_bad = |c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}');
    if text.contains(is_bad) { Err("must be one line, without control characters".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_senders_add_is_taken() {
        for (name, value) in [
            ("X-Entity-Ref-ID", "123"),
            ("In-Reply-To", "<a@b>"),
            ("References", "<a@b> <c@d>"),
            ("List-Unsubscribe", "<https://example.com/u>"),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
            ("Precedence", "bulk"),
            ("Auto-Submitted", "auto-generated"),
            ("Feedback-ID", "a:b:c"),
            ("X-Name", "Grüße 📯\tund mehr"),
            ("X-Empty", ""),
            ("Tops", "no prefix of a reserved name counts"),
        ] {
            let header = Header::new(name, value).expect(name);
            assert_eq!((header.name(), header.value()), (name, value));
        }
        assert_eq!(Header::new("X-A", " b ").expect("trimmed").value(), "b");
    }

    #[test]
    fn reserved_names_are_refused_however_they_are_written() {
        let names = [
            "From",
            "TO",
            "cc",
            "BCC",
            "Reply-To",
            "subject",
            "Date",
            "message-ID",
            "MIME-Version",
            "Content-Type",
            "content-x",
            "DKIM-Signature",
            "Received",
            "Return-Path",
            "Sender",
            "Resent-From",
            "Authentication-Results",
            "ARC-Seal",
        ];
        for name in names {
            let told = Header::new(name, "x").expect_err(name);
            assert!(told.starts_with(&format!("must not be {name}")), "{told}");
        }
    }

    #[test]
    fn nothing_begins_another_field() {
        for value in ["a\r\nBcc: x@example.com", "a\nb", "a\rb", "a\0b", "a\u{b}b", "a\u{85}b", "a\u{2028}b"] {
            assert!(Header::new("X-A", value).expect_err(value).contains("one line"));
        }
        for name in ["", "X A", "X:", "X-A\r\nBcc", "X-Ä", "X\0", &"x".repeat(77)] {
            assert!(Header::new(name, "x").expect_err(name).contains("name"));
        }
    }

    #[test]
    fn a_value_that_cannot_be_folded_is_refused() {
        assert!(Header::new("X-A", &"x".repeat(997)).is_ok());
        assert!(Header::new("X-A", &"x".repeat(998)).is_err());
        assert!(Header::new("X-A", &"ä".repeat(998)).is_ok(), "encoded words can be broken anywhere");
        assert!(Header::new("X-A", &"x ".repeat(5000)).expect_err("too long").contains("8192"));
    }
}
