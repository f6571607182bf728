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
    fields: Vec<Part>,
}

/// One field of a form.
pub(super) struct Part {
    name: String,
    /// What is said of it where it is a file.
    file: Option<FileLabel>,
    pub(super) place: Range<usize>,
}

struct FileLabel {
    filename: String,
    content_type: Option<String>,
}

/// A file of a form, and where it lies.
pub struct FormFile {
    pub filename: String,
    /// Of what kind the browser takes it to be.
    pub content_type: Option<String>,
    pub place: Range<usize>,
}

/// What stands in a form: what was typed, the files, and where these lie.
pub(super) struct Sorted {
    pub typed: Vec<(String, String)>,
    pub files: Vec<FormFile>,
    pub body: Spool,
}

impl Form {
    /// Looks through a body, which takes a while if it is large.
    pub fn parse(headers: &HeaderMap, body: Spool) -> Result<Form, Error> {
        Form::parse_up_to(headers, body, MOST_FIELDS)
    }

    /// The same, with at most so many fields.
    pub(super) fn parse_up_to(headers: &HeaderMap, body: Spool, most: usize) -> Result<Form, Error> {
        let boundary = boundary(headers).ok_or(Error::NotAForm)?;
        match fields(&boundary, &body, most) {
            Ok(fields) => Ok(Form { body, fields }),
            Err(Flaw::TooMany) => Err(Error::BadRequest { message: format!("The form has more than {most} fields.") }),
            Err(Flaw::Broken(message)) => Err(Error::BadRequest { message: message.into() }),
            Err(Flaw::Unreadable(error)) => Err(spool::unusable(&error)),
        }
    }

    /// Where a field lies, unless it is not there or empty.
    pub fn get(&self, name: &str) -> Option<Range<usize>> {
        let known = self.fields.iter().find(|part| part.name == name);
        known.map(|part| part.place.clone()).filter(|place| !place.is_empty())
    }

    /// What lies somewhere.
    pub fn read(&self, place: Range<usize>) -> Result<Bytes, Error> {
        self.body.part(place)
    }

    /// Takes the fingerprint of all fields, where one is wanted: the same fields in
    /// the same order, whatever the boundary between them.
    pub fn digested(&self, mut digest: Option<Sha256>) -> Result<Option<Sha256>, Error> {
        let Some(digest) = &mut digest else { return Ok(None) };
        for Part { name, place, .. } in &self.fields {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update((place.len() as u64).to_le_bytes());
            for start in place.clone().step_by(BLOCK) {
                digest.update(self.read(start..place.end.min(start + BLOCK))?);
            }
        }
        Ok(Some(digest.clone()))
    }

    /// What was typed, of which all together is no longer than this, and the files. A field for files that was left
    /// empty holds none.
    pub(super) fn sorted(self, longest: usize) -> Result<Sorted, Error> {
        let Form { body, fields } = self;
        let (mut typed, mut files, mut size) = (Vec::new(), Vec::new(), 0);
        for Part { name, file, place } in fields {
            match file {
                Some(FileLabel { filename, .. }) if filename.is_empty() && place.is_empty() => {}
                Some(FileLabel { filename, content_type }) => files.push(FormFile { filename, content_type, place }),
                None => {
                    size += place.len();
                    if size > longest {
                        return Err(Error::TooLarge { limit: longest });
                    }
                    // As in other forms, what is no text is nothing.
                    let text = String::from_utf8(body.part(place)?.into()).ok();
                    typed.extend(text.map(|text| (name, text)));
                }
            }
        }
        Ok(Sorted { typed, files, body })
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
    TooMany,
    Unreadable(io::Error),
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Flaw {
        Flaw::Unreadable(error)
    }
}

const BROKEN: Flaw = Flaw::Broken("The body is not a form with the boundary it names.");
const LONG_HEAD: Flaw = Flaw::Broken("The head of a field of the form is longer than 16384 bytes.");

/// The boundary that the label of a body names.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let label = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (essence, rest) = label.split_once(';')?;
    let named = parameter(rest, "boundary").ok().flatten();
    let named = named.filter(|text| (1..=LONGEST_BOUNDARY).contains(&text.len()));
    named.filter(|_| essence.trim().eq_ignore_ascii_case("multipart/form-data"))
}

/// A parameter of a header, with or without quotes around its value. A quote that is not closed breaks the header.
fn parameter(text: &str, name: &str) -> Result<Option<String>, Flaw> {
    let mut rest = text;
    loop {
        let Some((key, value)) = rest.trim_start_matches([' ', '\t', ';']).split_once('=') else { return Ok(None) };
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => unquoted(quoted).ok_or(BROKEN)?,
            None => {
                let end = value.find(';').unwrap_or(value.len());
                (value[..end].trim().to_owned(), &value[end..])
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Ok(Some(value));
        }
        rest = behind;
    }
}

/// What stands before the closing quote, and what behind it. Some programs escape quotes and backslashes by a backslash;
/// browsers send a backslash as it is, be it the last letter of a name.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let last = text.rfind('"')?;
    let (mut value, mut escaped) = (String::new(), false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => {
                value.push(char);
                escaped = false;
            }
            '\\' => {
                escaped = text[at + 1..].starts_with('\\') || text[at + 1..].starts_with('"') && at + 1 < last;
                value.extend((!escaped).then_some(char));
            }
            '"' => return Some((value, &text[at + 1..])),
            _ => value.push(char),
        }
    }
    None
}

/// Where the parts between the boundaries lie.
pub(super) fn fields(boundary: &str, body: &Spool, most: usize) -> Result<Vec<Part>, Flaw> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = Finder::new(delimiter.as_bytes());
    // The first boundary may stand at the very beginning, without a line before it.
    let first = &delimiter.as_bytes()[2..];
    let mut at = match starts_with(body, 0, first)? {
        true => first.len(),
        false => find(body, &finder, 0)?.ok_or(BROKEN)? + delimiter.len(),
    };
    let mut found = Vec::new();
    for _ in 0..=most {
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
    Err(Flaw::TooMany)
}

/// One part: its head, a blank line, and the value. `None`: it has no name.
fn field(body: &Spool, part: Range<usize>) -> Result<Option<Part>, Flaw> {
    let start = body.read(part.start..part.end.min(part.start + LONGEST_HEAD))?;
    let Some(head) = memmem::find(&start, b"\r\n\r\n") else {
        return Err(if start.len() < part.len() { LONG_HEAD } else { BROKEN });
    };
    let lines = std::str::from_utf8(&start[..head]).map_err(|_| BROKEN)?;
    let parameters = || values(lines, "content-disposition").filter_map(|value| Some(value.split_once(';')?.1));
    let first = |name| parameters().find_map(|rest| parameter(rest, name).transpose()).transpose();
    let Some(name) = first("name")? else { return Ok(None) };
    let content_type = values(lines, "content-type").next().map(str::to_owned);
    let filename = first("filename")?;
    let file = filename.map(|filename| FileLabel { filename, content_type });
    Ok(Some(Part { name, file, place: part.start + head + 4..part.end }))
}

/// What stands in the lines of a head under a name.
fn values<'a>(lines: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    let fields = lines.split("\r\n").filter_map(|line| line.split_once(':'));
    fields.filter(move |(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
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
    fn files_are_told_from_what_was_typed() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"to\"\r\n\r\na\r\nb\r\n\
                    --x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"Grüße; name=a.pdf\"\r\n\
                    Content-Type: application/pdf\r\n\r\nPDF\r\n\
                    --x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"\"\r\n\r\n\r\n--x--\r\n";
        let sorted = parse(LABEL, body).expect("a form").sorted(10).expect("short");
        assert_eq!(sorted.typed, [("to".to_owned(), "a\r\nb".to_owned())]);
        let [file] = &sorted.files[..] else { panic!("{} files", sorted.files.len()) };
        assert_eq!(
            (file.filename.as_str(), file.content_type.as_deref()),
            ("Grüße; name=a.pdf", Some("application/pdf"))
        );
        assert_eq!(sorted.body.part(file.place.clone()).expect("its content"), "PDF".as_bytes());
        let refusal = parse(LABEL, body).expect("a form").sorted(3).map(drop).expect_err("too long");
        assert!(matches!(refusal, Error::TooLarge { limit: 3 }), "{refusal:?}");
    }

    #[test]
    fn a_file_is_one_whatever_its_name_is() {
        let sent = |name: &str| {
            let head = format!("Content-Disposition: form-data; name=\"f\"; filename=\"{name}\"");
            parse(LABEL, format!("--x\r\n{head}\r\n\r\nPDF\r\n--x--\r\n"))?.sorted(10)
        };
        let names = [
            ("C:\\temp\\x.txt", "C:\\temp\\x.txt"),
            ("weird\\", "weird\\"),
            ("a\\\"b.txt", "a\"b.txt"),
            ("a\\\\b.txt", "a\\b.txt"),
        ];
        for (name, wanted) in names {
            let sorted = sent(name).expect("a form");
            assert_eq!(sorted.files[0].filename, wanted);
        }
        let refusal = sent("a\r\nb.txt").map(drop).expect_err("its head is broken");
        assert!(matches!(refusal, Error::BadRequest { .. }), "{refusal:?}");
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
