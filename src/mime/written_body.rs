//! What a message that somebody else has written says: its text and its HTML, as far as they can
//! be read. However it is built, a bounded part of it is looked at.

use mail_parser::{MessageParser, MimeHeaders, PartType};
use memchr::memmem;

use super::compose::split_head;

/// How deep parts may lie in others, and how many there may be, to be read.
const DEEPEST: usize = 8;
const MOST_PARTS: usize = 100;

/// In bytes.
const LONGEST: usize = 256 << 10;

/// The first of each kind that is no file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    pub text: Option<String>,
    pub html: Option<String>,
}

/// Reads a message, or its beginning where it is not whole: what ends with it is then left out.
pub fn bodies(message: &[u8], is_whole: bool) -> Bodies {
    let mut reader = Reader { bodies: Bodies::default(), parts: 0 };
    reader.read(message, is_whole, 0);
    reader.bodies
}

struct Reader {
    bodies: Bodies,
    parts: usize,
}

impl Reader {
    fn read(&mut self, entity: &[u8], is_whole: bool, depth: usize) {
        self.parts += 1;
        if depth > DEEPEST || self.parts > MOST_PARTS {
            return;
        }
        let (head, body) = split_head(entity);
        let head = [&head[..head.len().min(LONGEST)], b"\r\n"].concat();
        let parser = || MessageParser::new().with_mime_headers().default_header_ignore();
        let read = parser().parse_headers(&head);
        let kind = read.as_ref().and_then(|read| read.content_type());
        if let Some(boundary) =
            kind.filter(|kind| kind.ctype() == "multipart").and_then(|kind| kind.attribute("boundary"))
        {
            for (part, is_whole) in parts(body, boundary.as_bytes(), is_whole) {
                self.read(part, is_whole, depth + 1);
            }
            return;
        }
        let is_text =
            kind.is_none_or(|kind| kind.ctype() == "text" && matches!(kind.subtype(), Some("plain" | "html")));
        let disposition = read.as_ref().and_then(|read| read.content_disposition());
        if is_text && is_whole && body.len() <= 4 * LONGEST && !disposition.is_some_and(|kind| kind.is_attachment()) {
            // It is a leaf: nothing in it is taken for a part.
            self.leaf(&[&head, body].concat(), &parser());
        }
    }

    fn leaf(&mut self, entity: &[u8], parser: &MessageParser) {
        let Some(mut read) = parser.parse(entity) else { return };
        let fits = |text: &str| text.len() <= LONGEST;
        match read.parts.first_mut().map(|part| std::mem::take(&mut part.body)) {
            Some(PartType::Html(html)) if self.bodies.html.is_none() && fits(&html) => {
                self.bodies.html = Some(html.replace('\0', ""));
            }
            Some(PartType::Text(text)) if self.bodies.text.is_none() && fits(&text) => {
                self.bodies.text = Some(text.replace('\0', ""));
            }
            _ => {}
        }
    }
}

/// What stands between lines that hold the boundary, each with whether all of it is there.
pub(super) fn parts<'a>(body: &'a [u8], boundary: &[u8], is_whole: bool) -> Vec<(&'a [u8], bool)> {
    let mark = [b"--", boundary].concat();
    let mut marks = Vec::new();
    let begins_line = |at: &usize| *at == 0 || body[..*at].ends_with(b"\r\n");
    for at in memmem::find_iter(body, &mark).filter(begins_line) {
        let rest = &body[at + mark.len()..];
        let is_last = rest.starts_with(b"--");
        let line = memmem::find(rest, b"\r\n").map_or(rest, |end| &rest[..end]);
        if is_last || line.iter().all(u8::is_ascii_whitespace) {
            marks.push((at, (at + mark.len() + line.len() + 2).min(body.len()), is_last));
        }
        if is_last || marks.len() > MOST_PARTS {
            break;
        }
    }
    let end = |next: Option<&(usize, usize, bool)>| next.map_or(body.len(), |(at, ..)| at.saturating_sub(2));
    let part = |at: usize| {
        let (_, start, is_last) = marks[at];
        let next = marks.get(at + 1);
        (!is_last).then(|| (&body[start..end(next).max(start)], is_whole || next.is_some()))
    };
    (0..marks.len()).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTED: &str = "Content-Type: multipart/mixed; boundary=\"a\"\r\n\r\npreamble\r\n--a\r\n\
        Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\
        Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        Gr=FC=DFe\r\n--bb\r\n--b \r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n\
        PHA+SGk8L3A+\r\n--b--\r\n--a\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nfile\r\n--a--\r\n";

    fn read(message: &str) -> Bodies {
        bodies(message.as_bytes(), true)
    }

    #[test]
    fn text_and_html_are_found_and_decoded() {
        let found = read(NESTED);
        assert_eq!(found.text.as_deref(), Some("Grüße\r\n--bb"));
        assert_eq!(found.html.as_deref(), Some("<p>Hi</p>"));
        assert_eq!(read("From: a@b.example\r\n\r\nHi\r\n").text.as_deref(), Some("Hi\r\n"));
        assert_eq!(read("Content-Type: application/pdf\r\n\r\nHi\r\n"), Bodies::default());
    }

    #[test]
    fn what_is_cut_off_is_not_shown_and_what_stands_before_it_is() {
        let cut = &NESTED[..NESTED.find("PHA+").expect("HTML") + 2];
        let found = bodies(cut.as_bytes(), false);
        assert_eq!((found.text.is_some(), found.html), (true, None));
        assert_eq!(bodies(b"A: b\r\n\r\nHi", false), Bodies::default());
    }

    #[test]
    fn parts_within_parts_have_an_end() {
        let mut deep = String::new();
        for level in 0..2_000 {
            deep += &format!("Content-Type: multipart/mixed; boundary=x{level}\r\n\r\n--x{level}\r\n");
        }
        assert_eq!(read(&(deep + "\r\nHi")), Bodies::default());
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(20_000);
        assert_eq!(read(&nested), Bodies::default());
        let many = "--a\r\nContent-Type: image/png\r\n\r\n\r\n".repeat(20_000);
        assert_eq!(read(&format!("Content-Type: multipart/mixed; boundary=a\r\n\r\n{many}")), Bodies::default());
    }
}
