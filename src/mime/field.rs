//! Header fields as they are written: folded, and in encoded words where ASCII does not do
//! (RFC 5322, RFC 2047, RFC 2231).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::mailbox::{Mailbox, is_phrase, quoted};

/// What no line may be longer than, and what none is where it can be helped (78, and room for
/// a semicolon); in bytes without the line break.
pub(super) const LONGEST_LINE: usize = 998;
const GOOD_LINE: usize = 77;

/// RFC 2047: a line with encoded words, one of them, and what surrounds its content.
const ENCODED_LINE: usize = 76;
const ENCODED_WORD: usize = 75;
const AROUND: usize = "=?utf-8?q?".len() + "?=".len();

/// An encoded word begins where at least so much of it fits on the line.
const LEAST_ROOM: usize = 30;

/// How much of an encoded parameter stands on one line.
const SECTION: usize = 54;

/// Fields, one after another.
#[derive(Default)]
pub(super) struct Fields {
    pub out: Vec<u8>,
    column: usize,
    /// Whether the field has no word yet.
    is_new: bool,
}

impl Fields {
    pub fn begin(&mut self, name: &str) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b':');
        self.column = name.len() + 1;
        self.is_new = true;
    }

    pub fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
        self.column = 0;
    }

    /// A word on this line, or on the next where this one would become too long.
    pub fn word(&mut self, word: &str) {
        self.spaced(" ", word);
    }

    /// The first word stays beside the name of its field if it possibly can: some programs
    /// take a field for empty that goes on in the next line.
    fn spaced(&mut self, space: &str, word: &str) {
        let width = space.len() + word.len();
        if self.column + width > if self.is_new { LONGEST_LINE } else { GOOD_LINE } {
            self.end();
        }
        self.out.extend_from_slice(space.as_bytes());
        self.out.extend_from_slice(word.as_bytes());
        self.column += width;
        self.is_new = false;
    }

    /// A field of the words that are given.
    pub fn words(&mut self, name: &str, words: &[&str]) {
        self.begin(name);
        words.iter().for_each(|word| self.word(word));
        self.end();
    }

    /// A field of free text, as it is where that is allowed, else in encoded words.
    pub fn text(&mut self, name: &str, value: &str, is_as_it_is: impl Fn(&str) -> bool) {
        self.begin(name);
        let value = without_controls(value);
        if is_as_it_is(&value) {
            for (space, word) in words(&value).filter(|(_, word)| !word.is_empty()) {
                self.spaced(if space.is_empty() { " " } else { space }, word);
            }
        } else {
            self.encoded(&value);
        }
        self.end();
    }

    /// A field of addresses; none where there are none.
    pub fn mailboxes(&mut self, name: &str, mailboxes: &[Mailbox]) {
        if mailboxes.is_empty() {
            return;
        }
        self.begin(name);
        for (at, mailbox) in mailboxes.iter().enumerate() {
            let comma = if at + 1 < mailboxes.len() { "," } else { "" };
            let address = mailbox.address.on_the_wire();
            match &mailbox.name {
                None => self.word(&format!("{address}{comma}")),
                Some(name) => {
                    self.phrase(&without_controls(name));
                    self.word(&format!("<{address}>{comma}"));
                }
            }
        }
        self.end();
    }

    fn phrase(&mut self, name: &str) {
        let quoted = quoted(name);
        if !name.bytes().all(is_visible_or_space) || name.contains("=?") || quoted.len() > GOOD_LINE / 2 {
            self.encoded(name);
        } else if is_phrase(name) {
            self.word(name);
        } else {
            self.word(&quoted);
        }
    }

    /// A text in encoded words, none of which ends within a character. Readers leave out the
    /// white space between two of them.
    fn encoded(&mut self, text: &str) {
        let in_q = text.bytes().map(q_width).sum::<usize>() <= text.len().div_ceil(3) * 4;
        let mut rest = text;
        while !rest.is_empty() {
            let fits = |room: usize| fitting(rest, in_q, room.min(ENCODED_WORD) - AROUND);
            let room = ENCODED_LINE.saturating_sub(self.column + 1);
            // Some readers show the white space between words: one word is better than two.
            let is_one = !self.is_new && fits(ENCODED_WORD) == rest.len();
            if room < LEAST_ROOM || is_one && fits(room) < rest.len() {
                self.end();
            }
            let (now, later) = rest.split_at(fits(ENCODED_LINE - self.column - 1));
            let content = if in_q { q_encoded(now) } else { STANDARD.encode(now) };
            self.word(&format!("=?utf-8?{}?{content}?=", if in_q { 'q' } else { 'b' }));
            rest = later;
        }
    }

    /// `; name=value` of a structured field. What is not ASCII, long, or looks like an encoded
    /// word is told twice: as RFC 2231 wants it, and for those who do not know it as well as
    /// ASCII can.
    pub fn parameter(&mut self, name: &str, value: &str) {
        let value = without_controls(value);
        let plain = quoted(&value);
        if value.bytes().all(is_visible_or_space) && plain.len() <= SECTION && !value.contains("=?") {
            self.parameter_end();
            return self.word(&format!("{name}={plain}"));
        }
        let sections = sections(&value);
        for (at, section) in sections.iter().enumerate() {
            let number = if sections.len() == 1 { String::new() } else { format!("*{at}") };
            let charset = if at == 0 { "utf-8''" } else { "" };
            self.parameter_end();
            self.word(&format!("{name}{number}*={charset}{section}"));
        }
        self.parameter_end();
        self.word(&format!("{name}={}", quoted(&in_ascii(&value))));
    }

    /// What separates a parameter from what stands before it.
    fn parameter_end(&mut self) {
        self.out.push(b';');
        self.column += 1;
    }
}

/// The words of a text, each with the white space before it.
pub(super) fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(|c| c != ' ' && c != '\t').unwrap_or(rest.len());
        let (space, behind) = rest.split_at(start);
        let (word, later) = behind.split_at(behind.find([' ', '\t']).unwrap_or(behind.len()));
        rest = later;
        (!space.is_empty() || !word.is_empty()).then_some((space, word))
    })
}

/// Whether readers see a text as it is: nothing in it is taken for an encoded word, and lines
/// can be broken at its white space.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(is_visible_or_space)
        && text == text.trim()
        && !text.contains("=?")
        && words(text).all(|(space, word)| space.len() + word.len() < LONGEST_LINE)
}

fn is_visible_or_space(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

/// Whoever composes has checked what was given. Should something have slipped through, it
/// still does not begin another field.
fn without_controls(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\t';
    if text.contains(is_bad) { text.replace(is_bad, " ").into() } else { text.into() }
}

/// How many bytes of the text fit, in whole characters.
fn fitting(text: &str, in_q: bool, room: usize) -> usize {
    let (mut end, mut in_q_width) = (0, 0);
    for c in text.chars() {
        let next = end + c.len_utf8();
        in_q_width += text.as_bytes()[end..next].iter().map(|byte| q_width(*byte)).sum::<usize>();
        if (if in_q { in_q_width } else { next.div_ceil(3) * 4 }) > room {
            break;
        }
        end = next;
    }
    end
}

fn q_width(byte: u8) -> usize {
    if is_q_plain(byte) || byte == b' ' { 1 } else { 3 }
}

/// What stands for itself in an encoded word wherever that may stand.
fn is_q_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!*+-/".contains(&byte)
}

fn q_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('_'),
            byte if is_q_plain(byte) => out.push(char::from(byte)),
            byte => out.push_str(&format!("={byte:02X}")),
        }
    }
    out
}

/// A value with percent signs, in sections that end with a character.
fn sections(value: &str) -> Vec<String> {
    let mut sections = vec![String::new()];
    for c in value.chars() {
        let mut bytes = [0; 4];
        let mut encoded = String::new();
        for byte in c.encode_utf8(&mut bytes).bytes() {
            // `attribute-char` of RFC 2231.
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`{|}~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        }
        match sections.last_mut() {
            Some(section) if section.len() + encoded.len() <= SECTION => section.push_str(&encoded),
            _ => sections.push(encoded),
        }
    }
    sections
}

/// A file name as well as ASCII can tell it: short, and with its ending.
fn in_ascii(value: &str) -> String {
    let plain = |c: char| if is_atom(c) { c } else { '_' };
    let (stem, ending) = value.rsplit_once('.').filter(|(_, ending)| ending.len() <= 8).unwrap_or((value, ""));
    let stem = stem.chars().take(40).map(plain);
    let ending = ending.chars().map(plain);
    if ending.clone().next().is_none() { stem.collect() } else { stem.chain(['.']).chain(ending).collect() }
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || " -_.+()".contains(c)
}
