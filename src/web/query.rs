//! The parameters of a query string or form body, as they were sent.
//!
//! Nothing is repaired and nothing is dropped: a repeated name stays repeated, a value that is not
//! UTF-8 stays what it is until somebody wants it as text, and the raw bytes of every value stay
//! at hand because `state` has to go back in the encoding it came in.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// The pairs of an `application/x-www-form-urlencoded` text, in the order sent.
#[derive(Clone, Debug, Default)]
pub struct Params<'a> {
    pairs: Vec<(Cow<'a, [u8]>, Value<'a>)>,
}

/// How often a parameter was sent. A repeated one still gives its first value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent<'a> {
    Absent,
    Once(Value<'a>),
    Repeated(Value<'a>),
}

/// One value, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    raw: &'a [u8],
}

/// Why a parameter cannot be used as one piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("is missing")]
    Missing,
    #[error("was sent more than once")]
    Repeated,
    #[error("is not valid UTF-8")]
    NotText,
}

impl<'a> Params<'a> {
    /// Never fails: every byte string is some list of pairs.
    pub fn parse<R: AsRef<[u8]> + ?Sized>(raw: &'a R) -> Params<'a> {
        let pairs = raw
            .as_ref()
            .split(|&byte| byte == b'&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = split_at_equals(pair);
                (decode(name), Value { raw: value })
            })
            .collect();
        Params { pairs }
    }

    pub fn sent(&self, name: &str) -> Sent<'a> {
        let mut values =
            self.pairs.iter().filter(|(sent, _)| sent.as_ref() == name.as_bytes()).map(|(_, value)| *value);
        match (values.next(), values.next()) {
            (None, _) => Sent::Absent,
            (Some(value), None) => Sent::Once(value),
            (Some(first), Some(_)) => Sent::Repeated(first),
        }
    }

    /// The one value of a parameter as text. An empty value counts as missing (RFC 6749 §3.1).
    pub fn text(&self, name: &str) -> Result<Cow<'a, str>, Flaw> {
        match self.sent(name) {
            Sent::Absent => Err(Flaw::Missing),
            Sent::Repeated(_) => Err(Flaw::Repeated),
            Sent::Once(value) => match value.text()? {
                text if text.is_empty() => Err(Flaw::Missing),
                text => Ok(text),
            },
        }
    }

    /// Every pair as text, in the order sent.
    pub fn pairs(&self) -> impl Iterator<Item = (Result<String, Flaw>, Result<String, Flaw>)> {
        self.pairs.iter().map(|(name, value)| {
            let name = std::str::from_utf8(name).map(str::to_owned).map_err(|_| Flaw::NotText);
            (name, value.text().map(Cow::into_owned))
        })
    }

    /// Every value of a parameter that may be sent several times, as far as it is text.
    pub fn all(&self, name: &str) -> Vec<String> {
        let values = self.pairs.iter().filter(|(sent, _)| sent.as_ref() == name.as_bytes());
        values.filter_map(|(_, value)| value.text().ok()).map(Cow::into_owned).collect()
    }
}

impl<'a> Sent<'a> {
    pub fn first(self) -> Option<Value<'a>> {
        match self {
            Sent::Absent => None,
            Sent::Once(value) | Sent::Repeated(value) => Some(value),
        }
    }

    pub fn is_repeated(self) -> bool {
        matches!(self, Sent::Repeated(_))
    }
}

impl<'a> Value<'a> {
    /// The value as it stood in the text, nothing decoded.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    pub fn decoded(self) -> Cow<'a, [u8]> {
        decode(self.raw)
    }

    pub fn text(self) -> Result<Cow<'a, str>, Flaw> {
        match self.decoded() {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
        }
        .ok_or(Flaw::NotText)
    }

    /// Unicode scalars of the decoded value; what is not UTF-8 counts as its replacement
    /// characters.
    pub fn chars(self) -> usize {
        String::from_utf8_lossy(&self.decoded()).chars().count()
    }

    /// Decoding never makes a value longer, so most values need no decoding to be measured.
    pub fn is_longer_than(self, max_chars: usize) -> bool {
        self.raw.len() > max_chars && self.chars() > max_chars
    }

    /// The value as it can stand in a `Location`; see [`echo`].
    pub fn echo(self) -> Cow<'a, str> {
        echo(self.raw)
    }
}

/// Rewrites an encoded value so that it can stand in the query of a `Location` header.
///
/// What was sent in a legal encoding comes back exactly so (`+`, `%20` and `%2f` stay three
/// different spellings). Only bytes that cannot stand there are percent-encoded, which no decoder
/// can tell apart. Applying it twice changes nothing more.
pub fn echo(raw: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(raw)
        && (0..raw.len()).all(|at| may_stand(raw, at))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(raw.len() + 16);
    for (at, &byte) in raw.iter().enumerate() {
        if may_stand(raw, at) {
            out.push(char::from(byte));
        } else {
            out.push_str(percent_encoding::percent_encode_byte(byte));
        }
    }
    Cow::Owned(out)
}

/// `&` cannot occur in a value that came from a query; it is listed so that a value from
/// elsewhere cannot add a parameter either.
fn may_stand(raw: &[u8], at: usize) -> bool {
    match raw[at] {
        b'%' => starts_with_two_hex_digits(&raw[at + 1..]),
        b'"' | b'<' | b'>' | b'#' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'&' => false,
        byte => byte.is_ascii_graphic(),
    }
}

pub fn starts_with_two_hex_digits(bytes: &[u8]) -> bool {
    matches!(bytes, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

fn split_at_equals(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|&byte| byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &[]),
    }
}

/// Form decoding: `+` is a space, `%XX` a byte, and a `%` that starts no escape is itself.
pub fn decode(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'+') {
        return percent_decode(raw).into();
    }
    let spaced: Vec<u8> = raw.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(raw: &str) -> Value<'_> {
        Value { raw: raw.as_bytes() }
    }

    #[test]
    fn decisions_3_absent_once_and_repeated_are_told_apart() {
        let params = Params::parse("a=1&b=2&b=3&&%61%62=4");
        assert_eq!(params.sent("c"), Sent::Absent);
        assert_eq!(params.sent("a"), Sent::Once(only("1")));
        assert_eq!(params.sent("b"), Sent::Repeated(only("2")));
        assert_eq!(params.sent("ab"), Sent::Once(only("4")));
        assert!(Params::parse("").pairs.is_empty());
    }

    #[test]
    fn repetition_is_seen_through_an_encoded_name() {
        assert!(Params::parse("state=a&st%61te=b").sent("state").is_repeated());
        assert!(Params::parse("state&state=").sent("state").is_repeated());
    }

    #[test]
    fn names_are_case_sensitive_and_split_at_the_first_equals_sign() {
        let params = Params::parse("State=a&x=b=c&=d&flag");
        assert_eq!(params.sent("state"), Sent::Absent);
        assert_eq!(params.text("x").as_deref(), Ok("b=c"));
        assert_eq!(params.sent(""), Sent::Once(only("d")));
        assert_eq!(params.sent("flag"), Sent::Once(only("")));
        assert_eq!(params.text("flag"), Err(Flaw::Missing));
    }

    #[test]
    fn form_decoding_of_plus_escapes_and_malformed_escapes() {
        for (raw, decoded) in [
            ("a+b", "a b"),
            ("a%20b", "a b"),
            ("a%2Bb", "a+b"),
            ("%zz", "%zz"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%%41", "%A"),
            ("%+1", "% 1"),
            ("%E2%82%AC", "\u{20ac}"),
        ] {
            assert_eq!(only(raw).text().as_deref(), Ok(decoded), "{raw}");
        }
    }

    #[test]
    fn invalid_utf8_is_an_error_only_when_wanted_as_text() {
        let params = Params::parse("state=%ff%fe&client_id=a");
        assert_eq!(params.text("client_id").as_deref(), Ok("a"));
        assert_eq!(params.text("state"), Err(Flaw::NotText));
        assert_eq!(params.sent("state").first().map(Value::chars), Some(2));
    }

    #[test]
    fn decisions_3_state_comes_back_in_the_encoding_it_was_sent_in() {
        for raw in ["", "a+b", "a%20b", "%2f/%2F", "=a==", "a;b,c", "%00%ff", "[x]'!*()~"] {
            assert_eq!(only(raw).echo(), raw);
        }
    }

    #[test]
    fn bytes_that_cannot_stand_in_a_location_are_encoded() {
        let raw: &[u8] = b"a b\"<>#\\^`{|}%zz%\r\n\x00\x7f\xc3\xa9&";
        let expected = "a%20b%22%3C%3E%23%5C%5E%60%7B%7C%7D%25zz%25%0D%0A%00%7F%C3%A9%26";
        assert_eq!(echo(raw), expected);
        assert_eq!(echo(expected.as_bytes()), expected);
    }

    #[test]
    fn spec_8_characters_are_counted_not_bytes() {
        let emoji = "%F0%9F%93%AF".repeat(1024);
        assert_eq!(only(&emoji).chars(), 1024);
        assert!(!only(&emoji).is_longer_than(1024));
        assert!(only(&format!("{emoji}a")).is_longer_than(1024));
        assert!(only(&"%61".repeat(1025)).is_longer_than(1024));
        assert!(!only(&"a".repeat(1024)).is_longer_than(1024));
    }
}
