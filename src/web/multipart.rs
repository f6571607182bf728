//! The body of a form with a file (`multipart/form-data`, RFC 7578), read where
//! it was spooled: what is kept of a field is where it lies.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem::{self, Finder};
use sha2::{Digest, Sha256};

use super::spool::{self, Spool};
use crate::error::Error;

/// The longest boundary that RFC 2046 allows.
const LONGEST_BOUNDARY: usize = 70;

/// How many fields a form may have.
const MOST_FIELDS: usize = 32;

/// How long the head of a field may be, which names it.
const LONGEST_HEAD: usize = 16 << 10;

/// How many spaces may stand behind a boundary.
const MOST_SPACES: usize = 256;

/// How long a field may be that holds text.
const LONGEST_TEXT: usize = 64 << 10;

/// How much of a body is looked at at once.
const BLOCK: usize = 128 << 10;

/// A form, and where its fields lie, by name.
pub struct Form {
    body: Spool,
    fields: Vec<(String, Range<usize>)>,
}

impl Form {
    /// Looks through a body, which takes a while if it is large.
    pub fn parse(headers: &HeaderMap, body: Spool) -> Result<Form, Error> {
        let boundary = boundary(headers).ok_or(Error::NotAForm)?;
        match fields(&boundary, &body) {
            Ok(fields) => Ok(Form { body, fields }),
            Err(Flaw::Broken(message)) => Err(Error::BadRequest { message: message.into() }),
            Err(Flaw::Unreadable(error)) => Err(spool::unusable(&error)),
        }
    }

    /// Where a field lies, unless it is not there or empty.
    pub fn get(&self, name: &str) -> Option<Range<usize>> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, place)| place.clone()).filter(|at| !at.is_empty())
    }

    /// What lies somewhere.
    pub fn read(&self, place: Range<usize>) -> Result<Bytes, Error> {
        self.body.part(place)
    }

    /// Takes the fingerprint of all fields, where one is wanted: the same fields in
    /// the same order, whatever the boundary between them.
    pub fn digested(&self, mut digest: Option<Sha256>) -> Result<Option<Sha256>, Error> {
        let Some(digest) = &mut digest else { return Ok(None) };
        for (name, place) in &self.fields {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update((place.len() as u64).to_le_bytes());
            for start in place.clone().step_by(BLOCK) {
                digest.update(self.read(start..place.end.min(start + BLOCK))?);
            }
        }
        Ok(Some(digest.clone()))
    }

    /// A field that holds text, which is short.
    pub fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(place) = self.get(name) else { return Ok(None) };
        if place.len() > LONGEST_TEXT {
            return Err(Error::invalid(format!("The `{name}` field must not be longer than {LONGEST_TEXT} bytes.")));
        }
        let text = String::from_utf8(self.read(place)?.into());
        text.map(Some).map_err(|_| Error::invalid(format!("The `{name}` field is not UTF-8 text.")))
    }
}

/// Why a body is no form.
#[derive(Debug)]
pub(super) enum Flaw {
    Broken(&'static str),
    Unreadable(io::Error),
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Flaw {
        Flaw::Unreadable(error)
    }
}

const BROKEN: Flaw = Flaw::Broken("The body is not a form with the boundary it names.");
const TOO_MANY: Flaw = Flaw::Broken("The form has more than 32 fields.");
const LONG_HEAD: Flaw = Flaw::Broken("The head of a field of the form is longer than 16384 bytes.");

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

/// Where the parts between the boundaries lie.
pub(super) fn fields(boundary: &str, body: &Spool) -> Result<Vec<(String, Range<usize>)>, Flaw> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = Finder::new(delimiter.as_bytes());
    // The first boundary may stand at the very beginning, without a line before it.
    let first = &delimiter.as_bytes()[2..];
    let mut at = match starts_with(body, 0, first)? {
        true => first.len(),
        false => find(body, &finder, 0)?.ok_or(BROKEN)? + delimiter.len(),
    };
    let mut found = Vec::new();
    for _ in 0..=MOST_FIELDS {
        if starts_with(body, at, b"--")? {
            return Ok(found);
        }
        // Spaces may stand between a boundary and its line's end.
        let behind = read_up_to(body, at, MOST_SPACES)?;
        let start = at + behind.iter().position(|byte| !matches!(byte, b' ' | b'\t')).ok_or(BROKEN)?;
        if !starts_with(body, start, b"\r\n")? {
            return Err(BROKEN);
        }
        let start = start + 2;
        let end = find(body, &finder, start)?.ok_or(BROKEN)?;
        found.extend(field(body, start..end)?);
        at = end + delimiter.len();
    }
    Err(TOO_MANY)
}

/// One part: its head, a blank line, and the value. `None`: it has no name.
fn field(body: &Spool, part: Range<usize>) -> Result<Option<(String, Range<usize>)>, Flaw> {
    let start = body.read(part.start..part.end.min(part.start + LONGEST_HEAD))?;
    let Some(head) = memmem::find(&start, b"\r\n\r\n") else {
        return Err(if start.len() < part.len() { LONG_HEAD } else { BROKEN });
    };
    let lines = std::str::from_utf8(&start[..head]).map_err(|_| BROKEN)?;
    let name = lines.split("\r\n").find_map(|line| {
        let (header, value) = line.split_once(':')?;
        let (_, parameters) = value.split_once(';')?;
        header.eq_ignore_ascii_case("content-disposition").then(|| parameter(parameters, "name"))?
    });
    Ok(name.map(|name| (name, part.start + head + 4..part.end)))
}

fn starts_with(body: &Spool, at: usize, text: &[u8]) -> io::Result<bool> {
    Ok(read_up_to(body, at, text.len())? == text)
}

/// What stands at a place: so many bytes, or fewer where the body ends.
fn read_up_to(body: &Spool, at: usize, most: usize) -> io::Result<Bytes> {
    body.read(at.min(body.len())..(at + most).min(body.len()))
}

/// Where a text first stands from a place on.
fn find(body: &Spool, finder: &Finder<'_>, from: usize) -> io::Result<Option<usize>> {
    let mut at = from;
    loop {
        let block = read_up_to(body, at, BLOCK)?;
        if let Some(found) = finder.find(&block) {
            return Ok(Some(at + found));
        }
        if at + block.len() >= body.len() {
            return Ok(None);
        }
        // It may begin at the end of one block and end in the next.
        at += block.len() + 1 - finder.needle().len();
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn parse(label: &'static str, body: impl Into<Bytes>) -> Result<Form, Error> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(label))]);
        Form::parse(&headers, Spool::Memory(body.into()))
    }

    fn value(form: &Form, name: &str) -> Bytes {
        form.read(form.get(name).expect("a field")).expect("its value")
    }

    const LABEL: &str = "multipart/form-data; boundary=x";

    #[test]
    fn fields_are_found_by_their_names() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a; name=b.csv\"\r\n\
                    Content-Type: text/csv\r\n\r\nemail\r\n--not it\r\n\r\n--x\r\n\
                    content-disposition: form-data; name=on_conflict\r\n\r\nskip\r\n--x--\r\n";
        let form = parse(LABEL, body).expect("a form");
        assert_eq!(value(&form, "file"), "email\r\n--not it\r\n".as_bytes());
        assert_eq!(form.text("on_conflict").expect("text").as_deref(), Some("skip"));
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

    #[test]
    fn fields_heads_and_texts_are_bounded() {
        let part =
            |head: &str, value: &str| format!("--x\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n");
        let refusal =
            |body: String| parse(LABEL, body + "--x--").map(|_| ()).expect_err("refused").message().into_owned();
        assert!(parse(LABEL, part("name=a", "").repeat(32) + "--x--").is_ok());
        assert!(refusal(part("name=a", "").repeat(33)).contains("32 fields"));
        assert!(refusal(part("no_name=a", "").repeat(5000)).contains("32 fields"), "be they named or not");
        assert!(refusal(part(&format!("name={}", "a".repeat(20_000)), "")).contains("16384"));
        let form = parse(LABEL, part("name=a", &"x".repeat((64 << 10) + 1)) + "--x--").expect("a form");
        assert!(form.text("a").expect_err("too long").message().contains("`a`"));
    }

    #[test]
    fn a_boundary_is_found_across_the_edge_of_a_block() {
        for padding in BLOCK - 80..BLOCK + 10 {
            let text = "v".repeat(padding);
            let body = format!("--x\r\nContent-Disposition: form-data; name=v\r\n\r\n{text}\r\n--x--");
            assert_eq!(parse(LABEL, body).expect("a form").get("v").expect("a value").len(), padding);
        }
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
                prop_assert_eq!(super::tests::value(&form, "v"), value);
            }
        }
    }
}
