//! Contents as they travel, decoded as they pass by (RFC 2045, 6). What is not as it should be is
//! passed over or kept as it stands: whoever receives something cannot have it written anew.

use serde::{Deserialize, Serialize};

/// How a content was made fit for the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// As it is: `7bit`, `8bit`, `binary`, and what nobody knows.
    Identity,
    Base64,
    QuotedPrintable,
}

impl Transfer {
    pub fn named(name: Option<&str>) -> Transfer {
        match name.map(|name| name.trim().to_ascii_lowercase()).as_deref() {
            Some("base64") => Transfer::Base64,
            Some("quoted-printable") => Transfer::QuotedPrintable,
            _ => Transfer::Identity,
        }
    }

    pub fn decoder(self) -> TransferDecoder {
        match self {
            Transfer::Identity => TransferDecoder::Identity,
            Transfer::Base64 => TransferDecoder::Base64 { held: 0, bits: 0 },
            Transfer::QuotedPrintable => TransferDecoder::QuotedPrintable(Escape::None),
        }
    }
}

/// Decodes a content, wherever its pieces end.
pub enum TransferDecoder {
    Identity,
    Base64 { held: u32, bits: u32 },
    QuotedPrintable(Escape),
}

/// How much of an escape was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    None,
    Begun,
    Digit(u8),
    /// White space behind a `=`: the line may end here, and then counts for nothing.
    Space,
    Return,
}

impl TransferDecoder {
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            TransferDecoder::Identity => out.extend_from_slice(bytes),
            TransferDecoder::Base64 { held, bits } => bytes.iter().for_each(|byte| match sextet(*byte) {
                Some(value) => {
                    (*held, *bits) = (*held << 6 | u32::from(value), *bits + 6);
                    if *bits >= 8 {
                        *bits -= 8;
                        out.push((*held >> *bits) as u8);
                        *held &= (1 << *bits) - 1;
                    }
                }
                // Behind padding another text may begin: some write several, one behind the other.
                None if *byte == b'=' => (*held, *bits) = (0, 0),
                None => {}
            }),
            TransferDecoder::QuotedPrintable(escape) => {
                bytes.iter().for_each(|byte| *escape = unescape(*escape, *byte, out));
            }
        }
    }

    /// What was begun and comes to nothing stands as it is.
    pub fn finish(self, out: &mut Vec<u8>) {
        if let TransferDecoder::QuotedPrintable(escape) = self {
            match escape {
                Escape::None | Escape::Space | Escape::Return => {}
                Escape::Begun => out.push(b'='),
                Escape::Digit(digit) => out.extend([b'=', digit]),
            }
        }
    }
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn unescape(escape: Escape, byte: u8, out: &mut Vec<u8>) -> Escape {
    match (escape, byte) {
        (Escape::None, b'=') => Escape::Begun,
        (Escape::Begun | Escape::Space, b' ' | b'\t') => Escape::Space,
        (Escape::Begun | Escape::Space, b'\r') => Escape::Return,
        (Escape::Begun | Escape::Space | Escape::Return, b'\n') => Escape::None,
        (Escape::Begun, digit) if digit.is_ascii_hexdigit() => Escape::Digit(digit),
        (Escape::Digit(high), low) if low.is_ascii_hexdigit() => {
            out.push(value(high) << 4 | value(low));
            Escape::None
        }
        (escape, byte) => {
            match escape {
                Escape::None => {}
                Escape::Digit(digit) => out.extend([b'=', digit]),
                Escape::Begun | Escape::Space | Escape::Return => out.push(b'='),
            }
            match byte {
                b'=' => return Escape::Begun,
                byte => out.push(byte),
            }
            Escape::None
        }
    }
}

fn value(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or_default() as u8
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    fn decoded(transfer: Transfer, text: &[u8], size: usize) -> Vec<u8> {
        let (mut decoder, mut out) = (transfer.decoder(), Vec::new());
        text.chunks(size).for_each(|piece| decoder.push(piece, &mut out));
        decoder.finish(&mut out);
        out
    }

    #[test]
    fn escapes_are_read_and_what_is_none_stands_as_it_is() {
        for (text, expected) in [
            ("Gr=C3=BC=c3=9fe", "Grüße"),
            ("a=\r\nb= \t\r\nc=\nd", "abcd"),
            ("a=ZZ =4", "a=ZZ =4"),
            ("a==3D=", "a==="),
            ("tail = x", "tail =x"),
        ] {
            for size in 1..5 {
                let out = decoded(Transfer::QuotedPrintable, text.as_bytes(), size);
                assert_eq!(String::from_utf8_lossy(&out), expected, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn base64_is_read_with_whatever_stands_between() {
        for text in ["aGVsbG8=", "aGVs\r\nbG8", "aG Vs*bG8=\r\n"] {
            assert_eq!(decoded(Transfer::Base64, text.as_bytes(), 3), b"hello", "{text}");
        }
        assert_eq!(decoded(Transfer::Base64, b"aGk=aGk=", 1), b"hihi");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_pieces_end(bytes in any::<Vec<u8>>(), size in 1..9_usize) {
            prop_assert_eq!(decoded(Transfer::Base64, STANDARD.encode(&bytes).as_bytes(), size), bytes.clone());
            for transfer in [Transfer::QuotedPrintable, Transfer::Base64, Transfer::Identity] {
                let whole = decoded(transfer, &bytes, usize::MAX);
                prop_assert!(whole.len() <= bytes.len());
                prop_assert_eq!(decoded(transfer, &bytes, size), whole);
            }
        }
    }
}
