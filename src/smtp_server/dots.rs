//! A message as a dialogue carries it behind `DATA`: a dot that begins a line was doubled, and a
//! line that only holds a dot ends it (RFC 5321, 4.5.2). A line ends with CR and LF, and with
//! nothing else: whoever takes less for one can be made to see a second message in the first.

/// Where in a message we are, across the pieces in which it comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dots {
    #[default]
    LineStart,
    Text,
    Return,
    Dot,
    DotReturn,
}

impl Dots {
    /// Reads a piece and writes what it holds of the message. Where the message ends in it, tells
    /// how many bytes of the piece belong to it.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            if *self == Dots::Text {
                let end = memchr::memchr(b'\r', &piece[at..]).map_or(piece.len(), |found| at + found);
                out.extend_from_slice(&piece[at..end]);
                at = end;
                if at == piece.len() {
                    break;
                }
                out.push(b'\r');
                *self = Dots::Return;
                at += 1;
                continue;
            }
            at += 1;
            *self = match (*self, byte) {
                (Dots::LineStart, b'.') => Dots::Dot,
                (Dots::Dot, b'\r') => Dots::DotReturn,
                (Dots::DotReturn, b'\n') => return Some(at),
                (Dots::DotReturn, _) => {
                    out.push(b'\r');
                    Dots::behind(Dots::Return, byte, out)
                }
                (state, _) => Dots::behind(state, byte, out),
            };
        }
        None
    }

    /// A byte of the message itself.
    fn behind(state: Dots, byte: u8, out: &mut Vec<u8>) -> Dots {
        out.push(byte);
        match (state, byte) {
            (Dots::Return, b'\n') => Dots::LineStart,
            (_, b'\r') => Dots::Return,
            _ => Dots::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a message is, and what stands behind it.
    fn read(wire: &[u8], cut: usize) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut dots, mut out) = (Dots::default(), Vec::new());
        let (first, second) = wire.split_at(cut.min(wire.len()));
        if let Some(end) = dots.push(first, &mut out) {
            return (out, Some([&first[end..], second].concat()));
        }
        let end = dots.push(second, &mut out);
        (out, end.map(|end| second[end..].to_vec()))
    }

    #[test]
    fn only_a_dot_between_whole_line_ends_ends_a_message() {
        let (message, rest) = read(b"a\r\n..b\r\n...\r\n.c\r\n.\r\nQUIT\r\n", 3);
        assert_eq!((&message[..], rest.as_deref()), (&b"a\r\n.b\r\n..\r\nc\r\n"[..], Some(&b"QUIT\r\n"[..])));
        assert_eq!(read(b".\r\n", 9), (Vec::new(), Some(Vec::new())));
        for smuggled in [
            "a\n.\nMAIL",
            "a\n.\r\nMAIL",
            "a\r.\r\nMAIL",
            "a\r\n.\nMAIL",
            "a\r\n.\rMAIL",
            "a\r.\rMAIL",
            "a\r\n\0.\r\nMAIL",
        ] {
            assert_eq!(read(smuggled.as_bytes(), 9).1, None, "{smuggled:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_doubled_is_read_as_it_was_however_it_is_cut(
            lines in prop::collection::vec("[.a]{0,3}", 0..8), cut in 0..40usize,
        ) {
            let message: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let stuffed: String = lines.iter().map(|line| format!("{}{line}\r\n", if line.starts_with('.') { "." } else { "" })).collect();
            let (read, rest) = read(format!("{stuffed}.\r\nrest").as_bytes(), cut);
            prop_assert_eq!(String::from_utf8_lossy(&read), message);
            prop_assert_eq!(rest.as_deref(), Some(&b"rest"[..]));
        }
    }
}
