//! Signatures of messages (RFC 6376), relaxed in head and body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::dkim_key::DkimKey;
use super::field::Fields;

/// Named once more than they occur, so that nobody can add another.
const OVERSIGNED: &[&str] = &[
    "From",
    "To",
    "Subject",
    "Date",
    "Reply-To",
    "MIME-Version",
    "Content-Type",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];

/// Signed where they occur.
const SIGNED: &[&str] = &[
    "Sender",
    "Cc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Content-Transfer-Encoding",
    "List-Id",
    "Feedback-ID",
    "Auto-Submitted",
];

/// How much of a list or of base64 stands on one line.
const LINE: usize = 72;

/// A `DKIM-Signature` field with its line break, to be put before `head`: the message's header
/// fields, each with its line break. The same input gives the same signature.
pub fn dkim_signature(
    key: &DkimKey,
    domain: &str,
    selector: &str,
    head: &[u8],
    body_hash: &[u8; 32],
    t_seconds: i64,
) -> Vec<u8> {
    let (names, mut signed) = signed_fields(head);
    let mut field = Fields::default();
    field.begin("DKIM-Signature");
    for tag in [
        "v=1;",
        &format!("a={};", key.algorithm()),
        "c=relaxed/relaxed;",
        &format!("d={domain};"),
        &format!("s={selector};"),
        &format!("t={t_seconds};"),
    ] {
        field.word(tag);
    }
    names_in_lines(&names).iter().for_each(|line| field.word(line));
    field.word(&format!("bh={};", STANDARD.encode(body_hash)));
    field.word("b=");
    // The signature covers its own field as it is without its value and its line break.
    canonical(&field.out, &mut signed);
    signed.truncate(signed.len() - 2);
    let signature = STANDARD.encode(key.sign(&signed));
    let mut rest = signature.as_str();
    while !rest.is_empty() {
        let (line, later) = rest.split_at(rest.len().min(LINE));
        field.word(line);
        rest = later;
    }
    field.end();
    field.out
}

/// The names that a signature lists, and the fields that it covers. Of several fields with
/// one name the last is taken first.
fn signed_fields(head: &[u8]) -> (Vec<&'static str>, Vec<u8>) {
    let fields = fields(head);
    let (mut names, mut signed) = (Vec::new(), Vec::with_capacity(head.len() + 512));
    for (list, once_more) in [(OVERSIGNED, true), (SIGNED, false)] {
        for name in list {
            for field in fields.iter().rev().filter(|field| name_of(field).eq_ignore_ascii_case(name.as_bytes())) {
                names.push(*name);
                canonical(field, &mut signed);
            }
            names.extend(once_more.then_some(*name));
        }
    }
    (names, signed)
}

/// `h=a:b:c;` in words that fit on a line.
fn names_in_lines(names: &[&str]) -> Vec<String> {
    let mut lines = vec!["h=".to_owned()];
    for (at, name) in names.iter().enumerate() {
        let name = format!("{name}{}", if at + 1 < names.len() { ':' } else { ';' });
        match lines.last_mut() {
            Some(line) if line.len() + name.len() <= LINE => line.push_str(&name),
            _ => lines.push(name),
        }
    }
    lines
}

/// The fields of a head, each with its continuations.
pub(super) fn fields(head: &[u8]) -> Vec<&[u8]> {
    let mut fields = Vec::new();
    let mut start = 0;
    for at in memchr::memchr_iter(b'\n', head).map(|at| at + 1).chain([head.len()]) {
        if at > start && !matches!(head.get(at), Some(b' ' | b'\t')) {
            fields.push(&head[start..at]);
            start = at;
        }
    }
    fields
}

pub(super) fn name_of(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == b':').next().unwrap_or(field).trim_ascii_end()
}

/// A field as section 3.4.2 writes it: the name in lower case, on one line, with single spaces.
pub(super) fn canonical(field: &[u8], out: &mut Vec<u8>) {
    let name = name_of(field);
    let value = memchr::memchr(b':', field).map_or(&[][..], |colon| &field[colon + 1..]);
    out.extend(name.iter().map(u8::to_ascii_lowercase));
    out.push(b':');
    let is_space = |byte: &u8| b" \t\r\n".contains(byte);
    for (at, word) in value.split(is_space).filter(|word| !word.is_empty()).enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out.extend_from_slice(b"\r\n");
}
