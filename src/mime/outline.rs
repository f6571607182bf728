//! What parts a message has, found as it passes by. Nothing of it is kept but the head of the part
//! that is being read; however it is built, it has a bounded number of parts of a bounded depth.

use mail_parser::{MessageParser, MimeHeaders};

use super::transfer::Transfer;

/// How deep parts may lie in others, and how many there may be. What lies deeper is one content;
/// what comes behind is not looked at.
const DEEPEST: usize = 16;
const MOST_LEAVES: usize = 256;

/// In bytes: of a part's head that is looked at, of a line, of a boundary, of a name.
const LONGEST_HEAD: usize = 16 << 10;
const LONGEST_LINE: usize = 256;
const LONGEST_BOUNDARY: usize = 200;
const LONGEST_NAME: usize = 255;

/// What the names of fields begin with that tell of a content.
const CONTENT: &[u8] = b"content-";

/// A part that has no parts: where its content stands in the message, and what is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub start: u64,
    pub end: u64,
    /// As `text/plain`, in lower case.
    pub content_type: String,
    pub charset: Option<String>,
    pub transfer: Transfer,
    pub filename: Option<String>,
    pub content_id: Option<String>,
    /// `inline`, `attachment`, or whatever else stands there.
    pub disposition: Option<String>,
}

impl Leaf {
    /// Whether it is something to be read, and no file.
    pub fn is_body(&self) -> bool {
        self.filename.is_none() && self.disposition.as_deref() != Some("attachment")
    }
}

/// Reads a message line by line.
pub struct Outline {
    leaves: Vec<Leaf>,
    /// What lines begin with that end a part, from the outermost part inwards.
    marks: Vec<Vec<u8>>,
    place: Place,
    /// As much of the current line as it takes to know it.
    line: Vec<u8>,
    line_start: u64,
    at: u64,
}

enum Place {
    /// Of a head the fields that tell of a content are kept, and `keeps` says whether the last was one.
    Head { kept: Vec<u8>, keeps: bool },
    /// In the last of the leaves.
    Leaf,
    /// Before the first of some parts, or behind the last.
    Between,
    /// There are too many parts.
    Over,
}

impl Place {
    fn head() -> Place {
        Place::Head { kept: Vec::new(), keeps: false }
    }
}

impl Default for Outline {
    fn default() -> Outline {
        Outline { leaves: Vec::new(), marks: Vec::new(), place: Place::head(), line: Vec::new(), line_start: 0, at: 0 }
    }
}

impl Outline {
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            let (piece, rest) = bytes.split_at(end);
            let room = match &self.place {
                Place::Head { .. } => LONGEST_HEAD,
                _ => LONGEST_LINE,
            };
            let kept = piece.len().min(room.saturating_sub(self.line.len()));
            self.line.extend_from_slice(&piece[..kept]);
            self.at += piece.len() as u64;
            if piece.ends_with(b"\n") {
                self.end_line();
            }
            bytes = rest;
        }
    }

    /// The parts, when all of it has passed by.
    pub fn finish(mut self) -> Vec<Leaf> {
        if !self.line.is_empty() {
            self.end_line();
        }
        if let Place::Head { kept, .. } = &mut self.place {
            let head = std::mem::take(kept);
            self.begin_part(&head);
        }
        self.end_leaf(self.at);
        self.leaves
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let start = std::mem::replace(&mut self.line_start, self.at);
        if let Some((depth, is_last)) = self.mark(&line) {
            // The line break before the mark belongs to the mark.
            self.end_leaf(start.saturating_sub(2));
            self.marks.truncate(depth + usize::from(!is_last));
            self.place = match is_last {
                true => Place::Between,
                false if self.leaves.len() >= MOST_LEAVES => Place::Over,
                false => Place::head(),
            };
        } else if let Place::Head { kept, keeps } = &mut self.place {
            if line.trim_ascii_end().is_empty() {
                let head = std::mem::take(kept);
                self.begin_part(&head);
            } else {
                let name = line.get(..CONTENT.len()).unwrap_or_default();
                *keeps = if line.starts_with(b" ") || line.starts_with(b"\t") {
                    *keeps
                } else {
                    name.eq_ignore_ascii_case(CONTENT)
                };
                if *keeps && kept.len() + line.len() <= LONGEST_HEAD {
                    kept.extend_from_slice(&line);
                }
            }
        }
        self.line = line;
        self.line.clear();
    }

    /// Which of the parts around this line ends with it, and whether no other follows.
    fn mark(&self, line: &[u8]) -> Option<(usize, bool)> {
        if matches!(self.place, Place::Over) || !line.starts_with(b"--") {
            return None;
        }
        let line = line.trim_ascii_end();
        self.marks.iter().enumerate().rev().find_map(|(depth, mark)| match line.strip_prefix(&mark[..])? {
            b"" => Some((depth, false)),
            b"--" => Some((depth, true)),
            _ => None,
        })
    }

    fn end_leaf(&mut self, end: u64) {
        if let Place::Leaf = self.place
            && let Some(leaf) = self.leaves.last_mut()
        {
            leaf.end = end.max(leaf.start);
        }
    }

    fn begin_part(&mut self, head: &[u8]) {
        let head = [head, b"\r\n"].concat();
        let read = MessageParser::new().with_mime_headers().default_header_ignore().parse_headers(&head);
        let own = read.as_ref().and_then(|read| read.content_type());
        let kind = own.map(|own| (own.ctype().to_ascii_lowercase(), own.subtype().map(str::to_ascii_lowercase)));
        let boundary = own.and_then(|own| own.attribute("boundary")).filter(|boundary| !boundary.is_empty());
        if let (Some((kind, _)), Some(boundary)) = (&kind, boundary)
            && kind == "multipart"
            && self.marks.len() < DEEPEST
            && boundary.len() <= LONGEST_BOUNDARY
        {
            self.marks.push([b"--", boundary.as_bytes()].concat());
            self.place = Place::Between;
            return;
        }
        let disposition = read.as_ref().and_then(|read| read.content_disposition());
        let filename = disposition.and_then(|found| found.attribute("filename"));
        self.leaves.push(Leaf {
            start: self.at,
            end: self.at,
            content_type: content_type(kind),
            charset: own.and_then(|own| own.attribute("charset")).and_then(word),
            transfer: Transfer::named(read.as_ref().and_then(|read| read.content_transfer_encoding())),
            filename: filename.or_else(|| own.and_then(|own| own.attribute("name"))).and_then(name),
            content_id: read.as_ref().and_then(|read| read.content_id()).map(bare).and_then(word),
            disposition: disposition.map(|found| found.ctype().to_ascii_lowercase()).as_deref().and_then(word),
        });
        self.place = Place::Leaf;
    }
}

fn content_type(kind: Option<(String, Option<String>)>) -> String {
    let is_token = |text: &str| {
        (1..=100).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    match kind {
        None => "text/plain".into(),
        // What could not be taken apart is a file.
        Some((kind, Some(subtype))) if kind != "multipart" && is_token(&kind) && is_token(&subtype) => {
            format!("{kind}/{subtype}")
        }
        Some(_) => "application/octet-stream".into(),
    }
}

fn bare(id: &str) -> &str {
    id.trim().trim_start_matches('<').trim_end_matches('>')
}

/// One word of ASCII.
fn word(text: &str) -> Option<String> {
    let fits = (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.to_owned())
}

/// The name of a file, without a path.
fn name(text: &str) -> Option<String> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|char| !char.is_control()).take(LONGEST_NAME).collect();
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A text in a charset, as far as it can be read; without U+0000, which a store cannot keep.
pub fn text_in(charset: Option<&str>, content: &[u8]) -> String {
    let charset = charset.unwrap_or("utf-8").replace(['"', '\\'], "");
    let head = format!("Content-Type: text/plain; charset=\"{charset}\"\r\nContent-Transfer-Encoding: 8bit\r\n\r\n");
    let entity = [head.as_bytes(), content].concat();
    let read = MessageParser::new().with_mime_headers().default_header_ignore().parse(&entity);
    let text = read.as_ref().and_then(|read| read.parts.first()).and_then(|part| part.text_contents());
    text.map_or_else(|| String::from_utf8_lossy(content).into_owned(), str::to_owned).replace('\0', "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(message: &str, size: usize) -> Vec<Leaf> {
        let mut outline = Outline::default();
        message.as_bytes().chunks(size).for_each(|piece| outline.push(piece));
        outline.finish()
    }

    const NESTED: &str = "Content-Type: multipart/mixed; boundary=\"a\"\r\n\r\npreamble\r\n--a\r\n\
        Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\
        Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        Gr=FC=DFe\r\n--bb\r\n--b \r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n\
        PHA+SGk8L3A+\r\n--b--\r\n--a\r\nContent-Type: Image/PNG; name=\"x\"\r\nContent-ID: <logo@x>\r\n\
        Content-Disposition: attachment; filename=\"../../lo go.png\"\r\n\r\nfile\r\n--a--\r\nepilogue\r\n";

    #[test]
    fn parts_are_found_wherever_the_message_is_cut() {
        let whole = read(NESTED, usize::MAX);
        let shown: Vec<(&str, &str)> = whole
            .iter()
            .map(|leaf| (leaf.content_type.as_str(), &NESTED[leaf.start as usize..leaf.end as usize]))
            .collect();
        assert_eq!(shown, [("text/plain", "Gr=FC=DFe\r\n--bb"), ("text/html", "PHA+SGk8L3A+"), ("image/png", "file")]);
        let file = &whole[2];
        assert_eq!((file.filename.as_deref(), file.content_id.as_deref()), (Some("lo go.png"), Some("logo@x")));
        assert!(!file.is_body() && whole[0].is_body());
        assert_eq!(text_in(whole[0].charset.as_deref(), b"Gr\xfc\xdfe"), "Grüße");
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(read(NESTED, size), whole, "pieces of {size}");
        }
    }

    #[test]
    fn a_message_without_parts_is_one() {
        let plain = "From: a@b.example\r\n\r\nHi\r\n";
        let [leaf] = &read(plain, 4)[..] else { panic!("one part") };
        assert_eq!(
            (leaf.content_type.as_str(), &plain[leaf.start as usize..leaf.end as usize]),
            ("text/plain", "Hi\r\n")
        );
        let headless = read("\r\nHi", 1);
        assert_eq!((headless[0].start, headless[0].end), (2, 4));
        let only_head = read("Subject: x", 3);
        assert_eq!((only_head[0].start, only_head[0].end), (10, 10));
    }

    #[test]
    fn bombs_are_bounded() {
        let mut deep = String::new();
        for level in 0..10_000 {
            deep += &format!("Content-Type: multipart/mixed; boundary=x{level}\r\n\r\n--x{level}\r\n");
        }
        let found = read(&(deep + "\r\nHi"), 1000);
        assert_eq!((found.len(), found[0].content_type.as_str()), (1, "application/octet-stream"));
        let many = "--a\r\nContent-Type: image/png\r\n\r\n\r\n".repeat(20_000);
        let found = read(&format!("Content-Type: multipart/mixed; boundary=a\r\n\r\n{many}"), 1000);
        assert_eq!(found.len(), MOST_LEAVES);
        let head = format!("{}\r\nHi", "X-A: b\r\n".repeat(100_000));
        assert_eq!(read(&head, 1000).len(), 1);
        let late = format!("{}Content-Type: text/html\r\n\r\nHi", "Received: x\r\n".repeat(5_000));
        assert_eq!(read(&late, 1000)[0].content_type, "text/html");
    }

    proptest! {
        #[test]
        fn any_lines_are_read_alike_however_they_are_cut(
            lines in prop::collection::vec(prop::sample::select(vec![
                "Content-Type: multipart/mixed; boundary=a", "Content-Type: multipart/x; boundary=\"b b\"", "", "--a", "--a--",
                "--b b", "--b b--", "--", "x", "Content-Type: text/html", "Content-Type: message/rfc822", " boundary=c", "--c",
            ]), 0..30),
            size in 1..40_usize,
        ) {
            let message: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let whole = read(&message, usize::MAX);
            prop_assert_eq!(&read(&message, size), &whole);
            let mut before = 0;
            for leaf in &whole {
                prop_assert!(before <= leaf.start && leaf.start <= leaf.end && leaf.end <= message.len() as u64);
                before = leaf.end;
            }
        }
    }
}
