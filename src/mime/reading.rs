//! A small reader of messages, written from the standards and not from the code that it
//! judges: tests read with it what was composed.

use std::iter::Peekable;
use std::str::Bytes;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A part of a message, read.
#[derive(Debug)]
pub struct Read {
    /// Unfolded, in their order.
    pub fields: Vec<(String, String)>,
    /// Decoded, where it has no parts.
    pub content: Vec<u8>,
    pub parts: Vec<Read>,
}

impl Read {
    pub fn of(message: &str) -> Read {
        let (head, body) = message.split_once("\r\n\r\n").expect("an empty line");
        let fields: Vec<(String, String)> = head
            .replace("\r\n ", " ")
            .replace("\r\n\t", "\t")
            .split("\r\n")
            .map(|line| line.split_once(':').expect("a name"))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let mut read = Read { fields, content: Vec::new(), parts: Vec::new() };
        let content_type = read.field("Content-Type");
        if content_type.starts_with("multipart/") {
            let boundary = parameter(&content_type, "boundary").expect("a boundary");
            let body = format!("\r\n{body}");
            let (parts, behind) = body.split_once(&format!("\r\n--{boundary}--")).expect("an end");
            assert!(behind.trim().is_empty(), "{behind:?}");
            read.parts = parts.split(&format!("\r\n--{boundary}\r\n")).skip(1).map(Read::of).collect();
        } else {
            read.content = match read.field("Content-Transfer-Encoding").as_str() {
                "base64" => STANDARD.decode(body.replace("\r\n", "")).expect("base64"),
                "quoted-printable" => quoted_printable(body.as_bytes()),
                _ => body.as_bytes().to_vec(),
            };
        }
        read
    }

    /// The only field of this name.
    pub fn field(&self, name: &str) -> String {
        let mut found = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = found.next().unwrap_or_else(|| panic!("no {name} in {:?}", self.fields)).1.clone();
        assert!(found.next().is_none(), "{name} twice in {:?}", self.fields);
        value
    }

    /// The names of its fields, in their order.
    pub fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Its kind, and those of its parts: `mixed(plain png)`.
    pub fn structure(&self) -> String {
        let content_type = self.field("Content-Type");
        let kind = content_type.split(['/', ';']).nth(1).expect("a kind").to_owned();
        if self.parts.is_empty() {
            return kind;
        }
        let parts: Vec<String> = self.parts.iter().map(Read::structure).collect();
        format!("{kind}({})", parts.join(" "))
    }

    /// The name of the file that it is.
    pub fn filename(&self) -> Option<String> {
        let field = self.field("Content-Disposition");
        parameter(&field, "filename*").or_else(|| parameter(&field, "filename"))
    }
}

/// A parameter of a structured field. With `*` behind its name: in RFC 2231's sections.
fn parameter(field: &str, name: &str) -> Option<String> {
    let raw = |name: &str| {
        let start = field.find(&format!("; {name}="))? + name.len() + 3;
        let rest = &field[start..];
        let Some(quoted) = rest.strip_prefix('"') else { return Some(rest.split(';').next()?.to_owned()) };
        let mut chars = quoted.chars();
        let mut value = String::new();
        loop {
            match chars.next()? {
                '"' => return Some(value),
                '\\' => value.push(chars.next()?),
                c => value.push(c),
            }
        }
    };
    let Some(name) = name.strip_suffix('*') else { return raw(name) };
    let sections: String = match raw(&format!("{name}*")) {
        Some(value) => value,
        None => (0..).map_while(|at| raw(&format!("{name}*{at}*"))).collect(),
    };
    let encoded = sections.strip_prefix("utf-8''")?;
    Some(percent_encoding::percent_decode_str(encoded).decode_utf8().expect("UTF-8").into_owned())
}

/// Free text with encoded words: the white space between two of them counts for nothing.
pub fn unencoded(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    let mut was_encoded = false;
    while let Some(start) = rest.find("=?utf-8?") {
        let (before, behind) = rest.split_at(start);
        if !(was_encoded && before.trim().is_empty()) {
            out.push_str(before);
        }
        let behind = &behind["=?utf-8?".len()..];
        let (content, later) = behind[2..].split_once("?=").expect("an end");
        assert!(content.len() + 12 <= 75 && !content.contains([' ', '?']), "{content:?}");
        let bytes = match &behind[..2] {
            "b?" => STANDARD.decode(content).expect("base64"),
            "q?" => quoted_printable(content.replace('_', " ").as_bytes()),
            other => panic!("{other}"),
        };
        out.push_str(std::str::from_utf8(&bytes).expect("a word never ends within a character"));
        (rest, was_encoded) = (later, true);
    }
    out + rest
}

pub fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(text).expect("ASCII").replace("=\r\n", "");
    let mut bytes = text.bytes().peekable();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(if byte == b'=' { digit(&mut bytes) * 16 + digit(&mut bytes) } else { byte });
    }
    out
}

fn digit(bytes: &mut Peekable<Bytes<'_>>) -> u8 {
    let digit = char::from(bytes.next().expect("two digits"));
    assert!(!digit.is_ascii_lowercase());
    digit.to_digit(16).expect("a digit") as u8
}

/// A text with the line breaks of the wire.
pub fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}
