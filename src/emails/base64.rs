//! Base64 that comes in pieces: the standard alphabet, with or without padding, spaces and line
//! ends where they please.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What stands there is not base64.
#[derive(Debug, PartialEq, Eq)]
pub struct NotBase64;

#[derive(Default)]
pub struct Decoder {
    /// Characters that are not decoded yet: fewer than four, unless more is being pushed.
    held: Vec<u8>,
    is_over: bool,
}

impl Decoder {
    pub fn push(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
        for &byte in text {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'=' => self.is_over = true,
                _ if self.is_over => return Err(NotBase64),
                _ => self.held.push(byte),
            }
        }
        let whole = self.held.len() / 4 * 4;
        decode(&self.held[..whole], out)?;
        self.held.drain(..whole);
        Ok(())
    }

    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), NotBase64> {
        decode(&self.held, out)
    }
}

fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
    LENIENT.decode_vec(text, out).map_err(|_| NotBase64)
}

/// All of it at once.
pub fn decode_all(text: &str) -> Result<Vec<u8>, NotBase64> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::with_capacity(text.len() / 4 * 3));
    decoder.push(text.as_bytes(), &mut out)?;
    decoder.finish(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_base64_is_refused() {
        for wrong in ["a", "aGk=x", "a-b_", "aG\u{e9}k", "data:text/plain;base64,aGk="] {
            assert_eq!(decode_all(wrong), Err(NotBase64), "{wrong}");
        }
        for (text, bytes) in [("", &b""[..]), ("aGk=", b"hi"), ("aGk", b"hi"), (" aG\r\nk = ", b"hi")] {
            assert_eq!(decode_all(text).as_deref(), Ok(bytes), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_pieces_end(bytes in any::<Vec<u8>>(), size in 1_usize..7, spaced in any::<bool>()) {
            let mut text = STANDARD.encode(&bytes);
            if spaced {
                text = text.chars().flat_map(|char| [char, '\n']).collect();
            }
            let (mut decoder, mut out) = (Decoder::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                decoder.push(piece, &mut out).expect("base64");
            }
            decoder.finish(&mut out).expect("base64");
            prop_assert_eq!(out, bytes);
        }
    }
}
