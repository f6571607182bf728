//! Whether the lines of a message end as they must. What takes a bare CR or LF for the end of a
//! line could be made to see two messages in one.

use memchr::memchr3_iter;

/// Where in a message we are, across the pieces in which it comes.
#[derive(Default)]
pub struct Lines {
    last: Option<u8>,
}

impl Lines {
    /// Looks at the next piece. What is wrong with it is told in words that go behind "the message".
    pub fn check(&mut self, piece: &[u8]) -> Result<(), &'static str> {
        let bare_return = "must have lines that end with CR and LF, but holds a CR alone";
        if self.last == Some(b'\r') && piece.first().is_some_and(|byte| *byte != b'\n') {
            return Err(bare_return);
        }
        for at in memchr3_iter(b'\r', b'\n', 0, piece) {
            let before = if at == 0 { self.last } else { Some(piece[at - 1]) };
            match piece[at] {
                0 => return Err("must not hold the byte 0"),
                b'\n' if before != Some(b'\r') => {
                    return Err("must have lines that end with CR and LF, but holds an LF alone");
                }
                b'\r' if piece.get(at + 1).is_some_and(|byte| *byte != b'\n') => return Err(bare_return),
                _ => {}
            }
        }
        self.last = piece.last().copied().or(self.last);
        Ok(())
    }

    /// What is missing of the last line.
    pub fn line_end(&self) -> &'static [u8] {
        match self.last {
            None | Some(b'\n') => b"",
            Some(b'\r') => b"\n",
            Some(_) => b"\r\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether a message has nothing but whole line ends, read at once.
    fn is_clean(message: &str) -> bool {
        !message.replace("\r\n", "").contains(['\r', '\n', '\0'])
    }

    proptest! {
        #[test]
        fn bare_line_ends_are_found_however_a_message_is_cut(message in "[a\r\n\0]{0,12}|(a|\r\n){0,6}", cut in 0..13usize) {
            let (first, second) = message.split_at(cut.min(message.len()));
            let mut lines = Lines::default();
            let checked = lines.check(first.as_bytes()).and_then(|()| lines.check(second.as_bytes()));
            let whole = checked.is_ok().then(|| format!("{message}{}", String::from_utf8_lossy(lines.line_end())));
            match whole {
                Some(whole) => prop_assert!(is_clean(&whole) && (whole.is_empty() || whole.ends_with("\r\n"))),
                None => prop_assert!(!is_clean(&message)),
            }
        }
    }
}
