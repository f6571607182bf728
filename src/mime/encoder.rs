//! How content that is not plain text travels, made as it is read: base64 for files,
//! quoted-printable for text (RFC 2045).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Base64,
    QuotedPrintable,
}

impl Encoding {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Encoding::Base64 => "base64",
            Encoding::QuotedPrintable => "quoted-printable",
        }
    }
}

/// Takes content as it comes and gives it encoded, in lines of at most 76 characters with
/// line breaks between them and none at the end.
pub struct Encoder(State);

enum State {
    Base64(Base64),
    QuotedPrintable(QuotedPrintable),
}

impl Encoder {
    pub fn new(encoding: Encoding) -> Encoder {
        Encoder(match encoding {
            Encoding::Base64 => State::Base64(Base64::default()),
            Encoding::QuotedPrintable => State::QuotedPrintable(QuotedPrintable::default()),
        })
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.0 {
            State::Base64(base64) => base64.push(bytes, out),
            State::QuotedPrintable(text) => text.push(bytes, out),
        }
    }

    pub fn finish(self, out: &mut Vec<u8>) {
        match self.0 {
            State::Base64(mut base64) => base64.flush(out),
            State::QuotedPrintable(mut text) => text.settle(true, out),
        }
    }
}

/// How many bytes make a line of 76 characters.
const LINE: usize = 57;

#[derive(Default)]
struct Base64 {
    /// Less than a line.
    held: Vec<u8>,
    has_lines: bool,
}

impl Base64 {
    fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve((self.held.len() + bytes.len()).div_ceil(LINE) * 78);
        if !self.held.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(LINE - self.held.len()));
            self.held.extend_from_slice(now);
            bytes = later;
            if self.held.len() == LINE {
                self.flush(out);
            }
        }
        let mut lines = bytes.chunks_exact(LINE);
        for line in &mut lines {
            self.line(line, out);
        }
        self.held.extend_from_slice(lines.remainder());
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.line(&held, out);
        }
    }

    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.has_lines {
            out.extend_from_slice(b"\r\n");
        }
        self.has_lines = true;
        let start = out.len();
        out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        STANDARD.encode_slice(bytes, &mut out[start..]).expect("three bytes are four letters");
    }
}

/// How long a line becomes before the `=` that says that it goes on.
const COLUMNS: usize = 75;

#[derive(Default)]
struct QuotedPrintable {
    column: usize,
    /// A space or tab: how it is written depends on whether a line ends behind it.
    held: Option<u8>,
    /// A line break was a carriage return so far; a line feed belongs to it.
    is_after_return: bool,
}

impl QuotedPrintable {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len() + bytes.len() / 16);
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            // Most of a text is written as it is.
            let literal = rest.iter().position(|byte| !is_literal(*byte)).unwrap_or(rest.len());
            if literal > 0 {
                self.settle(false, out);
                self.write_literal(&rest[..literal], out);
                self.is_after_return = false;
                rest = &rest[literal..];
                continue;
            }
            if !(*byte == b'\n' && self.is_after_return) {
                self.byte(*byte, out);
            }
            self.is_after_return = *byte == b'\r';
            rest = after;
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        let ends_line = byte == b'\r' || byte == b'\n';
        self.settle(ends_line, out);
        match byte {
            b'\r' | b'\n' => {
                out.extend_from_slice(b"\r\n");
                self.column = 0;
            }
            b' ' | b'\t' => self.held = Some(byte),
            byte => self.write(&hex(byte), out),
        }
    }

    fn write_literal(&mut self, mut text: &[u8], out: &mut Vec<u8>) {
        while !text.is_empty() {
            // Where the line is full, its first byte begins the next.
            let (now, later) = text.split_at(text.len().min((COLUMNS - self.column).max(1)));
            self.write(now, out);
            text = later;
        }
    }

    fn settle(&mut self, ends_line: bool, out: &mut Vec<u8>) {
        if let Some(space) = self.held.take() {
            if ends_line { self.write(&hex(space), out) } else { self.write(&[space], out) }
        }
    }

    fn write(&mut self, word: &[u8], out: &mut Vec<u8>) {
        if self.column + word.len() > COLUMNS {
            out.extend_from_slice(b"=\r\n");
            self.column = 0;
        }
        out.extend_from_slice(word);
        self.column += word.len();
    }
}

/// Whether it stands for itself, wherever it stands.
fn is_literal(byte: u8) -> bool {
    matches!(byte, b'!'..=b'<' | b'>'..=b'~')
}

fn hex(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'=', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mime::reading::{quoted_printable, with_crlf};

    /// In pieces that end at these places.
    fn encoded(encoding: Encoding, bytes: &[u8], cuts: &[usize]) -> String {
        let mut encoder = Encoder::new(encoding);
        let mut out = Vec::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            encoder.push(&bytes[pair[0]..pair[1]], &mut out);
        }
        encoder.finish(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn spaces_at_the_end_of_a_line_are_told() {
        let text = |text: &str| encoded(Encoding::QuotedPrintable, text.as_bytes(), &[]);
        assert_eq!(text("a \nb\t\r\n c  "), "a=20\r\nb=09\r\n c =20");
        assert_eq!(text("1 = ä\0"), "1 =3D =C3=A4=00");
        assert_eq!(text("a\rb\nc\r\nd\n\r\n"), "a\r\nb\r\nc\r\nd\r\n\r\n");
        assert_eq!(text(&"x".repeat(76)), format!("{}=\r\nx", "x".repeat(75)));
        assert_eq!(text(&" ".repeat(76)), format!("{}=\r\n=20", " ".repeat(75)));
    }

    proptest! {
        #[test]
        fn base64_is_the_same_however_it_comes(bytes in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(any::<usize>(), 0..6)) {
            let text = encoded(Encoding::Base64, &bytes, &cuts);
            prop_assert!(text.split("\r\n").all(|line| line.len() <= 76) && !text.ends_with("\r\n"));
            prop_assert_eq!(STANDARD.decode(text.replace("\r\n", "")), Ok(bytes));
        }

        #[test]
        fn quoted_printable_is_read_back(text in "(\\PC|[ \t\r\n=.]){0,200}", cuts in prop::collection::vec(any::<usize>(), 0..6)) {
            let encoded = encoded(Encoding::QuotedPrintable, text.as_bytes(), &cuts);
            for line in encoded.split("\r\n") {
                prop_assert!(line.len() <= 76 && !line.contains(['\r', '\n']) && !line.ends_with([' ', '\t']), "{line:?}");
            }
            prop_assert_eq!(quoted_printable(encoded.as_bytes()), with_crlf(&text).into_bytes());
        }
    }
}
