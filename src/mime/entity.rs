//! The parts of a message and how they stand in each other (RFC 2045, RFC 2046, RFC 2387).

use super::attachment::AttachmentInfo;
use super::compose::{Content, Letter, Piece};
use super::encoder::{Encoder, Encoding};
use super::field::{Fields, LONGEST_LINE};
use crate::secret;

pub(super) enum Entity<'a> {
    Text { subtype: &'static str, content: Content<'a> },
    File { info: &'a AttachmentInfo, disposition: &'static str },
    Multipart { kind: &'static str, boundary: String, parts: Vec<Entity<'a>> },
}

impl<'a> Entity<'a> {
    /// Text beside HTML, HTML with the files that it shows, and the other files behind both.
    pub fn of(letter: &Letter<'a>) -> Entity<'a> {
        let boundaries = Boundaries::of(letter);
        let shown = |info: &&AttachmentInfo| letter.html.is_some() && info.content_id().is_some();
        let html = letter.html.map(|content| {
            let images = letter.attachments.iter().filter(shown);
            let images = images.map(|info| Entity::File { info, disposition: "inline" });
            let html = Entity::Text { subtype: "html", content };
            boundaries.wrap("related", [html].into_iter().chain(images))
        });
        let text = letter.text.map(|content| Entity::Text { subtype: "plain", content });
        let is_silent = text.is_none() && html.is_none() && letter.attachments.is_empty();
        let nothing = is_silent.then_some(Entity::Text { subtype: "plain", content: Content::Inline("") });
        let said = text.into_iter().chain(html).chain(nothing).collect::<Vec<_>>();
        let said = (!said.is_empty()).then(|| boundaries.wrap("alternative", said));
        let files = letter.attachments.iter().filter(|info| !shown(info));
        let files = files.map(|info| Entity::File { info, disposition: "attachment" });
        boundaries.wrap("mixed", said.into_iter().chain(files))
    }

    /// Its own header fields, an empty line, and its content without a line break at the end.
    pub fn write(&self, output: &mut Output) {
        match self {
            Entity::Text { subtype, content } => text(subtype, content, output),
            Entity::File { info, disposition } => file(info, disposition, output),
            Entity::Multipart { kind, boundary, parts } => {
                output.fields.begin("Content-Type");
                output.fields.word(&format!("multipart/{kind}"));
                if *kind == "related" {
                    output.fields.parameter("type", "text/html");
                }
                output.fields.parameter("boundary", boundary);
                output.fields.end();
                for part in parts {
                    output.bytes(&format!("\r\n--{boundary}\r\n"));
                    part.write(output);
                }
                output.bytes(&format!("\r\n--{boundary}--"));
            }
        }
    }
}

fn text(subtype: &str, content: &Content<'_>, output: &mut Output) {
    let is_plain = matches!(content, Content::Inline(text) if is_seven_bit(text));
    let encoding = if is_plain { "7bit" } else { Encoding::QuotedPrintable.as_str() };
    output.fields.words("Content-Type", &[&format!("text/{subtype};"), "charset=utf-8"]);
    output.fields.words("Content-Transfer-Encoding", &[encoding]);
    output.bytes("\r\n");
    match content {
        Content::Part(part) => output.part(*part, Encoding::QuotedPrintable),
        Content::Inline(text) if is_plain => lines(text, &mut output.fields.out),
        Content::Inline(text) => {
            let mut encoder = Encoder::new(Encoding::QuotedPrintable);
            encoder.push(text.as_bytes(), &mut output.fields.out);
            encoder.finish(&mut output.fields.out);
        }
    }
}

fn file(info: &AttachmentInfo, disposition: &str, output: &mut Output) {
    output.fields.words("Content-Type", &info.content_type().iter().map(String::as_str).collect::<Vec<_>>());
    output.fields.words("Content-Transfer-Encoding", &[Encoding::Base64.as_str()]);
    output.fields.begin("Content-Disposition");
    output.fields.word(disposition);
    if let Some(filename) = &info.filename {
        output.fields.parameter("filename", filename);
    }
    output.fields.end();
    if let Some(id) = info.content_id() {
        output.fields.words("Content-ID", &[&id]);
    }
    output.bytes("\r\n");
    output.part(info.part, Encoding::Base64);
}

/// Whether a text can travel as it is.
fn is_seven_bit(text: &str) -> bool {
    // To look at all of them is faster than to stop at the first that is not plain.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    if !text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        return false;
    }
    let mut start = 0;
    let fits = |end| end - std::mem::replace(&mut start, end + 1) <= LONGEST_LINE;
    memchr::memchr2_iter(b'\r', b'\n', text.as_bytes()).chain([text.len()]).all(fits)
}

/// A text with the line breaks of the wire, however it was given.
fn lines(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(end) = memchr::memchr2(b'\r', b'\n', rest) {
        out.extend_from_slice(&rest[..end]);
        out.extend_from_slice(b"\r\n");
        let is_pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(is_pair)..];
    }
    out.extend_from_slice(rest);
}

/// Pieces as they are written.
#[derive(Default)]
pub(super) struct Output {
    pieces: Vec<Piece>,
    /// What was written behind the last piece.
    pub fields: Fields,
}

impl Output {
    fn bytes(&mut self, text: &str) {
        self.fields.out.extend_from_slice(text.as_bytes());
    }

    fn part(&mut self, part: i64, encoding: Encoding) {
        self.pieces.push(Piece::Bytes(std::mem::take(&mut self.fields.out)));
        self.pieces.push(Piece::Part { part, encoding });
    }

    pub fn finish(mut self) -> Vec<Piece> {
        if !self.fields.out.ends_with(b"\r\n") {
            self.bytes("\r\n");
        }
        self.pieces.push(Piece::Bytes(self.fields.out));
        self.pieces
    }
}

/// What separates the parts of a message. Encoded content cannot hold it, because of its `=_`;
/// and inline content has been searched for it.
struct Boundaries(String);

impl Boundaries {
    fn of(letter: &Letter<'_>) -> Boundaries {
        let texts = [letter.text, letter.html].into_iter().flatten();
        let is_free = |candidate: &String| {
            !texts.clone().any(|content| matches!(content, Content::Inline(text) if text.contains(candidate.as_str())))
        };
        let candidates = (0_u64..).map(|round| {
            let hash = secret::hash_bytes(&[letter.boundary_seed, &round.to_be_bytes()].concat());
            hash[..12].iter().fold("=_".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        });
        Boundaries(candidates.into_iter().find(is_free).unwrap_or_default())
    }

    /// Several parts as one; one stays as it is.
    fn wrap<'a>(&self, kind: &'static str, parts: impl IntoIterator<Item = Entity<'a>>) -> Entity<'a> {
        let mut parts: Vec<_> = parts.into_iter().collect();
        match parts.pop() {
            // A file is attached, even where nothing is said beside it.
            Some(only) if parts.is_empty() && !matches!(only, Entity::File { .. }) => only,
            last => {
                parts.extend(last);
                Entity::Multipart { kind, boundary: format!("{}.{kind}", self.0), parts }
            }
        }
    }
}
