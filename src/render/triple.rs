//! `{{{KEY}}}` and `{{{KEY|fallback}}}`, which other services write: they become `{{ KEY }}` and
//! `{{ KEY | default("fallback") }}` before the template is read. So they are escaped as well: a
//! contact's first name is a stranger's text.

use std::borrow::Cow;

use super::error::Error;
use super::syntax::is_name;

pub fn rewritten(source: &str) -> Result<Cow<'_, str>, Error> {
    if !source.contains("{{{") {
        return Ok(Cow::Borrowed(source));
    }
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if let Some(inner) = rest.strip_prefix("{{{") {
            let line = || 1 + source[..source.len() - rest.len()].matches('\n').count();
            let end = inner.find("}}}").ok_or_else(|| Error::at(Some(line()), "`{{{` has no `}}}` behind it"))?;
            out.push_str(&double(&inner[..end]).map_err(|message| Error::at(Some(line()), message))?);
            end + 6
        } else {
            let length = untouched(rest);
            out.push_str(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// What stands between triple braces, between double ones.
fn double(inner: &str) -> Result<String, String> {
    let (path, fallback) = inner.split_once('|').map_or((inner, None), |(path, fallback)| (path, Some(fallback)));
    let path = path.trim();
    if !is_path(path) {
        return Err("between `{{{` and `}}}` stand a name and, if need be, `|` and a fallback, as in \
                    {{{FIRST_NAME|there}}}"
            .into());
    }
    let Some(fallback) = fallback else { return Ok(format!("{{{{ {path} }}}}")) };
    if fallback.contains(['{', '}', '\n', '\r']) {
        return Err(format!("the fallback of `{path}` must be one line without braces"));
    }
    let quoted = fallback.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("{{{{ {path} | default(\"{quoted}\") }}}}"))
}

/// A name, and parts of it behind dots.
fn is_path(path: &str) -> bool {
    let mut parts = path.split('.');
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    path.len() <= 200 && parts.next().is_some_and(is_name) && parts.all(is_part)
}

/// How much of a text that begins with a brace is left as it is: a comment, what is raw, a tag
/// with the texts in it, or the brace.
fn untouched(text: &str) -> usize {
    let until = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    if text.starts_with("{##") {
        until("##}")
    } else if text.starts_with("{%") {
        let length = tag(text, "%}");
        let words = text[..length].trim_matches(|char: char| "{%-+} \t\r\n".contains(char));
        if words == "raw" { length + raw(&text[length..]) } else { length }
    } else if text.starts_with("{{") {
        tag(text, "}}")
    } else {
        1
    }
}

/// Up to the tag that ends what is raw.
fn raw(text: &str) -> usize {
    let tags = text.match_indices("{%").map(|(at, _)| at);
    let ends = |at: &usize| text[at + 2..].trim_start_matches(['-', '+']).trim_start().starts_with("endraw");
    tags.into_iter().find(ends).unwrap_or(text.len())
}

/// Up to the end of a tag, which does not lie within a text in quotes.
fn tag(text: &str, end: &str) -> usize {
    let (mut quote, mut at) = (None, 2);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(end.as_bytes()) => return at + end.len(),
            _ => {}
        }
        at += 1;
    }
    text.len()
}
