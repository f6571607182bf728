//! A part of a message that somebody else has written: what it says it is, what parts it has, and
//! its text. However it is built, a bounded part of it is looked at.

use mail_parser::{MessageParser, MimeHeaders, PartType};

use super::compose::split_head;
use super::written_body::parts;

/// In bytes, of a head and of a text.
const LONGEST: usize = 256 << 10;

pub struct Part<'a> {
    /// Its type, as `multipart/report`.
    kind: String,
    boundary: Option<String>,
    encoding: Option<String>,
    body: &'a [u8],
    is_whole: bool,
}

impl<'a> Part<'a> {
    /// Reads a message or a part of one; `is_whole` says that all of it is there.
    pub fn read(entity: &'a [u8], is_whole: bool) -> Part<'a> {
        let (head, body) = split_head(entity);
        let head = [&head[..head.len().min(LONGEST)], b"\r\n"].concat();
        let read = MessageParser::new().with_mime_headers().default_header_ignore().parse_headers(&head);
        let own = read.as_ref().and_then(|read| read.content_type());
        let kind = own.map(|own| format!("{}/{}", own.ctype(), own.subtype().unwrap_or_default())).unwrap_or_default();
        let boundary = own.and_then(|own| own.attribute("boundary")).map(str::to_owned);
        let encoding = read.as_ref().and_then(|read| read.content_transfer_encoding()).map(str::to_owned);
        Part { kind, boundary, encoding, body, is_whole }
    }

    /// Whether it says that it is of this type.
    pub fn is(&self, kind: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind)
    }

    /// The parts that it has.
    pub fn parts(&self) -> Vec<Part<'a>> {
        let Some(boundary) = &self.boundary else { return Vec::new() };
        let found = parts(self.body, boundary.as_bytes(), self.is_whole);
        found.into_iter().map(|(part, is_whole)| Part::read(part, is_whole)).collect()
    }

    /// Its text, whatever it says that it is; `None` where it is cut off, or too long.
    pub fn text(&self) -> Option<String> {
        if !self.is_whole || self.body.len() > LONGEST {
            return None;
        }
        let encoding = self.encoding.as_deref().filter(|word| word.bytes().all(|byte| byte.is_ascii_graphic()));
        let encoding = encoding.unwrap_or("8bit");
        let head = format!("Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n");
        let entity = [head.as_bytes(), self.body].concat();
        let mut read = MessageParser::new().with_mime_headers().default_header_ignore().parse(&entity)?;
        match read.parts.first_mut().map(|part| std::mem::take(&mut part.body)) {
            Some(PartType::Text(text)) => Some(text.into_owned()),
            _ => None,
        }
    }
}
