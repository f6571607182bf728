//! The body of a form with a file (`multipart/form-data`, RFC 7578), read whole.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem;
use sha2::{Digest, Sha256};

use super::idempotency::Fingerprint;
use crate::error::Error;

/// The longest boundary that RFC 2046 allows.
const LONGEST_BOUNDARY: usize = 70;

/// How many fields a form may have.
const MOST_FIELDS: usize = 32;

/// The fields of a form, by name.
pub struct Form(Vec<(String, Bytes)>);

impl Form {
    pub fn parse(headers: &HeaderMap, body: &Bytes) -> Result<Form, Error> {
        let boundary = boundary(headers).ok_or(Error::NotAForm)?;
        let broken = || Error::BadRequest { message: "The body is not a form with the boundary it names.".into() };
        fields(&boundary, body).map(Form).ok_or_else(broken)
    }

    /// A field, unless it is not there or empty.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes).filter(|bytes| !bytes.is_empty())
    }

    /// A field that holds text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        let text = self.get(name).map(|bytes| std::str::from_utf8(bytes)).transpose();
        text.map_err(|_| Error::invalid(format!("The `{name}` field is not UTF-8 text.")))
    }
}

/// The same fields in the same order, whatever the boundary between them.
impl Fingerprint for Form {
    fn write(&self, digest: &mut Sha256) {
        for (name, value) in &self.0 {
            for part in [name.as_bytes(), value] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
    }
}

/// The boundary that the label of a body names.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let label = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (essence, rest) = label.split_once(';')?;
    let named = parameter(rest, "boundary").filter(|text| (1..=LONGEST_BOUNDARY).contains(&text.len()));
    named.filter(|_| essence.trim().eq_ignore_ascii_case("multipart/form-data"))
}

/// A parameter of a header, with or without quotes around its value.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (key, value) = rest.trim_start_matches([' ', '\t', ';']).split_once('=')?;
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = value.find(';').unwrap_or(value.len());
                (value[..end].trim().to_owned(), &value[end..])
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = behind;
    }
}

/// What stands before the closing quote, and what behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => {
                value.push(char);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((value, &text[at + 1..])),
            _ => value.push(char),
        }
    }
    None
}

/// The parts between the boundaries; `None` where the body does not keep to them.
fn fields(boundary: &str, body: &Bytes) -> Option<Vec<(String, Bytes)>> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = memmem::Finder::new(delimiter.as_bytes());
    // The first boundary may stand at the very beginning, without a line before it.
    let first = &delimiter.as_bytes()[2..];
    let mut at = if body.starts_with(first) { first.len() } else { finder.find(body)? + delimiter.len() };
    let mut found = Vec::new();
    loop {
        let rest = body.get(at..)?;
        if rest.starts_with(b"--") {
            return Some(found);
        }
        // Spaces may stand between a boundary and its line's end.
        let start = at + rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
        let start = start + body.get(start..)?.starts_with(b"\r\n").then_some(2)?;
        let end = start + finder.find(body.get(start..)?)?;
        found.extend(field(&body.slice(start..end))?);
        if found.len() > MOST_FIELDS {
            return None;
        }
        at = end + delimiter.len();
    }
}

/// One part: its head, a blank line, and the value. `Some(None)`: it has no name.
fn field(part: &Bytes) -> Option<Option<(String, Bytes)>> {
    let head = memmem::find(part, b"\r\n\r\n")?;
    let lines = std::str::from_utf8(&part[..head]).ok()?;
    let name = lines.split("\r\n").find_map(|line| {
        let (header, value) = line.split_once(':')?;
        let (_, parameters) = value.split_once(';')?;
        header.eq_ignore_ascii_case("content-disposition").then(|| parameter(parameters, "name"))?
    });
    Some(name.map(|name| (name, part.slice(head + 4..))))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn parse(label: &'static str, body: impl Into<Bytes>) -> Result<Form, Error> {
        Form::parse(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(label))]), &body.into())
    }

    const LABEL: &str = "multipart/form-data; boundary=x";

    #[test]
    fn fields_are_found_by_their_names() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a; name=b.csv\"\r\n\
                    Content-Type: text/csv\r\n\r\nemail\r\n--not it\r\n\r\n--x\r\n\
                    content-disposition: form-data; name=on_conflict\r\n\r\nskip\r\n--x--\r\n";
        let form = parse(LABEL, body).expect("a form");
        assert_eq!(form.get("file").expect("a file"), "email\r\n--not it\r\n".as_bytes());
        assert_eq!(form.text("on_conflict").expect("text"), Some("skip"));
        assert!(form.get("a").is_none());
        let form = parse("Multipart/Form-Data; charset=utf-8; boundary=\"x\"", body).expect("a form");
        assert!(form.get("file").is_some());
    }

    #[test]
    fn what_is_no_form_is_refused() {
        for label in
            ["application/json", "multipart/form-data", "multipart/mixed; boundary=x", "multipart/form-data; boundary="]
        {
            assert!(matches!(parse(label, "--x--"), Err(Error::NotAForm)), "{label}");
        }
        for body in ["", "x", "--x", "--x\r\n", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb", "--y--"] {
            assert!(matches!(parse(LABEL, body), Err(Error::BadRequest { .. })), "{body}");
        }
        assert!(parse(LABEL, "--x--").expect("an empty form").get("file").is_none());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(body in "(--x|\r\n|:|;|\"|=|name|Content-Disposition|-|a| ){0,30}") {
            let _ = parse(LABEL, body);
        }

        #[test]
        fn a_value_comes_through_as_it_is(value in prop::collection::vec(any::<u8>(), 1..100)) {
            let mut body = b"--x\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n".to_vec();
            body.extend(&value);
            body.extend(b"\r\n--x--\r\n");
            if memmem::find(&value, b"\r\n--x").is_none() {
                let form = parse(LABEL, body).expect("a form");
                prop_assert_eq!(form.get("v").expect("a value"), &value);
            }
        }
    }
}
