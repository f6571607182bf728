//! What a server answers, put together line by line.

use std::fmt;

/// How much of an answer's text is kept.
const MOST_TEXT: usize = 1000;

/// Lines of one answer. The longest ones are those of greylisting and of policies.
const MOST_LINES: usize = 100;

/// Bytes of one answer. RFC 5321 has 512 a line; some send pages.
pub(super) const MOST_BYTES: usize = 16 << 10;

/// A server's answer: a code, the code of RFC 3463 where there is one, and what
/// can be shown of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub code: u16,
    pub enhanced: Option<[u16; 3]>,
    pub text: String,
}

impl Reply {
    /// What we say ourselves, of what the server has told us.
    pub(super) fn local(code: u16, enhanced: [u16; 3], text: impl Into<String>) -> Reply {
        Reply { code, enhanced: Some(enhanced), text: text.into() }
    }

    pub fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// Whether the server said no, for now or for good.
    pub fn is_negative(&self) -> bool {
        self.code >= 400
    }

    pub fn is_permanent(&self) -> bool {
        self.code >= 500
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some([class, subject, detail]) = self.enhanced {
            write!(f, " {class}.{subject}.{detail}")?;
        }
        if self.text.is_empty() { Ok(()) } else { write!(f, " {}", self.text) }
    }
}

/// Why something is not an answer of an SMTP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadReply {
    #[error("the server's answer does not begin with a code")]
    NoCode,
    #[error("the server's answer does not end")]
    Endless,
}

/// An answer of which some lines have come.
#[derive(Debug, Default)]
pub(super) struct Partial {
    lines: usize,
    bytes: usize,
    enhanced: Option<[u16; 3]>,
    text: String,
}

impl Partial {
    /// Takes the next line, without its end. The answer is whole with a line that
    /// announces no further one; its code is the answer's.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<Reply>, BadReply> {
        let (code, is_last) = code(line).ok_or(BadReply::NoCode)?;
        self.lines += 1;
        self.bytes += line.len();
        if self.lines > MOST_LINES || self.bytes > MOST_BYTES {
            return Err(BadReply::Endless);
        }
        let mut text = content(line);
        if let Some((enhanced, rest)) = enhanced(text).filter(|(enhanced, _)| enhanced[0] == code / 100) {
            (self.enhanced, text) = (Some(enhanced), rest);
        }
        self.add(text);
        Ok(is_last.then(|| Reply { code, enhanced: self.enhanced, text: std::mem::take(&mut self.text) }))
    }

    /// Keeps what can be shown, as long as there is room.
    fn add(&mut self, text: &[u8]) {
        let room = MOST_TEXT.saturating_sub(self.text.len());
        let text = &text[..text.len().min(room)];
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push(' ');
        }
        for chunk in text.utf8_chunks() {
            self.text.extend(chunk.valid().chars().map(|char| if char.is_control() { ' ' } else { char }));
            if !chunk.invalid().is_empty() {
                self.text.push('?');
            }
        }
    }
}

/// The code of a line, and whether no other line follows.
fn code(line: &[u8]) -> Option<(u16, bool)> {
    let [a @ b'2'..=b'5', b, c, rest @ ..] = line else { return None };
    if !b.is_ascii_digit() || !c.is_ascii_digit() {
        return None;
    }
    let is_last = match rest.first() {
        None | Some(b' ') => true,
        Some(b'-') => false,
        Some(_) => return None,
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    Some((digit(a) * 100 + digit(b) * 10 + digit(c), is_last))
}

/// What stands behind the code of a line.
pub(super) fn content(line: &[u8]) -> &[u8] {
    line.get(4..).unwrap_or_default().trim_ascii()
}

/// The code of RFC 3463 at the beginning of a text, and what follows it.
fn enhanced(text: &[u8]) -> Option<([u16; 3], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let mut numbers = text[..end].split(|byte| *byte == b'.');
    let mut number = || {
        let digits = numbers.next().filter(|digits| (1..=3).contains(&digits.len()))?;
        digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0')))
    };
    let found = [number()?, number()?, number()?];
    numbers.next().is_none().then(|| (found, text[end..].trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(lines: &[&str]) -> Result<Option<Reply>, BadReply> {
        let mut partial = Partial::default();
        let mut last = Ok(None);
        for line in lines {
            assert_eq!(last, Ok(None), "ended early: {lines:?}");
            last = partial.line(line.as_bytes());
        }
        last
    }

    fn whole(lines: &[&str]) -> Reply {
        reply(lines).expect("an answer").expect("a whole one")
    }

    #[test]
    fn an_answer_is_put_together_from_its_lines() {
        for (lines, code, enhanced, text) in [
            (&["250 ok"][..], 250, None, "ok"),
            (&["250"], 250, None, ""),
            (&["250 "], 250, None, ""),
            (&["250 2.1.5 fine"], 250, Some([2, 1, 5]), "fine"),
            (&["550-5.1.1 no such", "550 5.1.1 user"], 550, Some([5, 1, 1]), "no such user"),
            (&["550-first", "550-", "550 last"], 550, None, "first last"),
            (&["421 4.7.28 slow"], 421, Some([4, 7, 28]), "slow"),
            // Another class than the answer's, too many numbers, too many digits: text.
            (&["250 5.1.1 odd"], 250, None, "5.1.1 odd"),
            (&["250 2.1 odd"], 250, None, "2.1 odd"),
            (&["250 2.1.5.6 odd"], 250, None, "2.1.5.6 odd"),
            (&["250 2.1.5000 odd"], 250, None, "2.1.5000 odd"),
            // The last line counts.
            (&["250-well", "550 no"], 550, None, "well no"),
            (&["550 a\tb\u{7f}c"], 550, None, "a b c"),
        ] {
            assert_eq!(whole(lines), Reply { code, enhanced, text: text.into() }, "{lines:?}");
        }
        let mut partial = Partial::default();
        let reply = partial.line(b"550 caf\xe9 closed").expect("an answer").expect("a whole one");
        assert_eq!(reply.text, "caf? closed");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for line in ["", "25", "25x ok", "150 wait", "650 what", "250ok", "\u{1b}[2J", "HTTP/1.1 400 Bad Request"] {
            assert_eq!(reply(&[line]), Err(BadReply::NoCode), "{line}");
        }
        assert_eq!(reply(&["250-ok"]), Ok(None));
        assert_eq!(reply(&["250-ok"; 101]), Err(BadReply::Endless));
        assert_eq!(reply(&["250-".to_owned().as_str(); 100]), Ok(None));
    }

    #[test]
    fn a_long_answer_is_kept_shortened() {
        let long = format!("550-5.7.1 {}", "x".repeat(4000));
        let reply = whole(&[&long, &long, "550 5.7.1 end"]);
        assert_eq!((reply.code, reply.enhanced), (550, Some([5, 7, 1])));
        assert!((1000..1010).contains(&reply.text.len()), "{}", reply.text.len());
        let mut partial = Partial::default();
        assert_eq!(partial.line(&[b"550-".as_slice(), &[b'x'; MOST_BYTES]].concat()), Err(BadReply::Endless));
    }

    #[test]
    fn an_answer_is_shown_as_it_came() {
        assert_eq!(whole(&["550-5.1.1 no such", "550 5.1.1 user"]).to_string(), "550 5.1.1 no such user");
        assert_eq!(whole(&["250"]).to_string(), "250");
    }
}
