//! Tags of HTML, as they are met from left to right.

use memchr::{memchr, memmem};

use super::html_entity::decoded;

pub(super) enum Markup<'a> {
    Tag(Tag<'a>, &'a str),
    /// A comment or the like.
    Ignored(&'a str),
    /// A `<` that stands for itself.
    Text,
}

pub struct Tag<'a> {
    /// In lower case.
    pub name: String,
    pub closes: bool,
    attributes: &'a str,
}

impl<'a> Tag<'a> {
    /// What begins with `<`, and what is behind it. What is never closed reaches to the end.
    pub(super) fn read(markup: &'a str) -> Markup<'a> {
        if let Some(comment) = markup.strip_prefix("<!--") {
            return Markup::Ignored(behind(comment, "-->"));
        }
        if markup.starts_with("<!") || markup.starts_with("<?") {
            return Markup::Ignored(behind(markup, ">"));
        }
        let (closes, inner) = markup.strip_prefix("</").map_or((false, &markup[1..]), |inner| (true, inner));
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Markup::Text;
        }
        let name_end = inner.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').unwrap_or(inner.len());
        let (name, attributes) = inner.split_at(name_end);
        let tag_end = end_of_tag(attributes);
        let name = name.get(..16.min(name.len())).unwrap_or_default().to_ascii_lowercase();
        let behind = attributes.get(tag_end + 1..).unwrap_or_default();
        Markup::Tag(Tag { name, closes, attributes: &attributes[..tag_end] }, behind)
    }

    /// The value of an attribute, decoded; empty where it has none.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            // A name has at least one character, whatever that is.
            let mut ends = rest.char_indices().skip(1).filter(|(_, c)| c.is_ascii_whitespace() || "=/".contains(*c));
            let (found, behind) = rest.split_at(ends.next().map_or(rest.len(), |(at, _)| at));
            let behind = behind.trim_ascii_start();
            let Some(value) = behind.strip_prefix('=').map(str::trim_ascii_start) else {
                if found.eq_ignore_ascii_case(name) {
                    return Some(String::new());
                }
                rest = behind;
                continue;
            };
            let (value, later) = match value.as_bytes().first() {
                Some(quote @ (b'"' | b'\'')) => {
                    let value = &value[1..];
                    let end = memchr(*quote, value.as_bytes()).unwrap_or(value.len());
                    (&value[..end], value.get(end + 1..).unwrap_or_default())
                }
                _ => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
            };
            if found.eq_ignore_ascii_case(name) {
                return Some(decoded(value).into_owned());
            }
            rest = later;
        }
    }
}

/// The tags of a page.
pub fn tags(html: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = html;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[memchr(b'<', rest.as_bytes())?..];
            match Tag::read(rest) {
                Markup::Tag(tag, behind) => {
                    rest = behind;
                    return Some(tag);
                }
                Markup::Ignored(behind) => rest = behind,
                Markup::Text => rest = &rest[1..],
            }
        }
    })
}

/// Where the `>` stands that ends a tag: not within quotes that follow a `=`.
fn end_of_tag(attributes: &str) -> usize {
    let bytes = attributes.as_bytes();
    let mut is_value = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'>' => return at,
            b'"' | b'\'' if is_value => {
                at += 1 + memchr(byte, &bytes[at + 1..]).unwrap_or(bytes.len());
                is_value = false;
            }
            b'=' => is_value = true,
            byte if byte.is_ascii_whitespace() => {}
            _ => is_value = false,
        }
        at += 1;
    }
    bytes.len()
}

fn behind<'a>(text: &'a str, end: &str) -> &'a str {
    memmem::find(text.as_bytes(), end.as_bytes()).map_or("", |at| &text[at + end.len()..])
}

/// What stands behind the end tag of an element whose content is no markup.
pub(super) fn behind_element<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = memmem::find(rest.as_bytes(), b"</") {
        rest = &rest[at + 2..];
        if rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return behind(rest, ">");
        }
    }
    ""
}
