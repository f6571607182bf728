//! A message on its way into the dialogue: a dot that begins a line is doubled,
//! and a line that only holds a dot ends it (RFC 5321, 4.5.2).

/// Where in a message we are, across the pieces in which it comes.
pub(super) struct Dots {
    last: u8,
}

impl Dots {
    /// At the beginning of a message, which is the beginning of a line.
    pub(super) fn new() -> Dots {
        Dots { last: b'\n' }
    }

    /// Writes a piece. A dot behind a bare CR or LF is doubled, too: some servers
    /// take these for the end of a line, and a message within a message for two.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut written = 0;
        for dot in memchr::memchr_iter(b'.', piece) {
            let before = if dot == 0 { self.last } else { piece[dot - 1] };
            if matches!(before, b'\n' | b'\r') {
                out.extend_from_slice(&piece[written..dot]);
                out.push(b'.');
                written = dot;
            }
        }
        out.extend_from_slice(&piece[written..]);
        self.last = piece.last().copied().unwrap_or(self.last);
    }

    /// What is still missing of the message's last line.
    pub(super) fn line_end(&self) -> &'static [u8] {
        match self.last {
            b'\n' => b"",
            b'\r' => b"\n",
            _ => b"\r\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(pieces: &[&[u8]]) -> Vec<u8> {
        let mut dots = Dots::new();
        let mut out = Vec::new();
        for piece in pieces {
            dots.push(piece, &mut out);
        }
        out.extend_from_slice(dots.line_end());
        out
    }

    #[test]
    fn a_dot_that_begins_a_line_is_doubled_and_the_last_line_ended() {
        for (message, expected) in [
            ("", ""),
            ("a", "a\r\n"),
            ("a\r\n", "a\r\n"),
            ("a\r", "a\r\n"),
            (".", "..\r\n"),
            ("a.b\r\n.\r\n..c\r\n", "a.b\r\n..\r\n...c\r\n"),
            ("a\n.\nb", "a\n..\nb\r\n"),
            ("a\r.\rb", "a\r..\rb\r\n"),
        ] {
            assert_eq!(String::from_utf8_lossy(&sent(&[message.as_bytes()])), expected, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn no_message_ends_its_own_transaction_however_it_is_cut(
            message in prop::collection::vec(prop::sample::select(b".\r\nab".to_vec()), 0..60),
            cut in 0..60usize,
        ) {
            let (first, second) = message.split_at(cut.min(message.len()));
            let out = sent(&[first, second]);
            prop_assert_eq!(&out, &sent(&[&message]));
            for end in [&b"\r\n.\r\n"[..], b"\n.\n", b"\n.\r", b"\r.\r", b"\r.\n"] {
                prop_assert!(!out.windows(end.len()).any(|window| window == end), "{:?}", out);
            }
            prop_assert!(!out.starts_with(b".\r\n") && (out.is_empty() || out.ends_with(b"\n")));
        }
    }
}
