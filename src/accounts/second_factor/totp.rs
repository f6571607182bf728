//! Codes that change every half minute (RFC 6238): six digits, SHA-1, as every app that makes them expects.

use ring::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY};

use crate::clock::SECOND;
use crate::secret;

const STEP: i64 = 30 * SECOND;

/// Clocks differ: the codes of so many steps before and behind count, too.
const LEEWAY: i64 = 1;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// What an app that makes codes shares with us.
pub struct Secret([u8; 20]);

impl Secret {
    pub fn new() -> Secret {
        Secret(secret::random())
    }

    /// As people type it and as links carry it: base32, without padding.
    pub fn text(&self) -> String {
        // 160 bits are 32 groups of 5.
        let groups = self.0.chunks_exact(5).flat_map(|bytes| {
            let bits = bytes.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            (0..8).rev().map(move |group| bits >> (group * 5) & 31)
        });
        groups.map(|group| char::from(ALPHABET[group as usize])).collect()
    }

    pub fn parse(text: &str) -> Option<Secret> {
        let groups: Option<Vec<u64>> =
            text.bytes().map(|byte| ALPHABET.iter().position(|known| *known == byte).map(|at| at as u64)).collect();
        let bytes: Vec<u8> = groups?
            .chunks_exact(8)
            .flat_map(|eight| {
                let bits = eight.iter().fold(0_u64, |bits, group| bits << 5 | group);
                (0..5).rev().map(move |byte| (bits >> (byte * 8)) as u8)
            })
            .collect();
        <[u8; 20]>::try_from(bytes).ok().map(Secret)
    }

    /// What a QR code says to the app.
    pub fn address(&self, email: &str, host: &str) -> String {
        let encoded =
            |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let (issuer, email) = (encoded(&format!("Posthorn {host}")), encoded(email));
        format!("otpauth://totp/{issuer}:{email}?secret={}&issuer={issuer}", self.text())
    }

    /// The step whose code this is, if it is one of this moment and none that was used before.
    pub fn step_of(&self, code: &str, now: i64, last_step: i64) -> Option<i64> {
        let digits: String = code.chars().filter(|char| !char.is_whitespace()).collect();
        let this = now.div_euclid(STEP);
        let mut steps = (this - LEEWAY..=this + LEEWAY).filter(|step| *step > last_step);
        steps.find(|step| secret::equal(self.code(*step).as_bytes(), digits.as_bytes()))
    }

    fn code(&self, step: i64) -> String {
        let key = hmac::Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.0);
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let tag = tag.as_ref();
        let offset = usize::from(tag.last().copied().unwrap_or_default() & 15);
        let bytes = tag.iter().skip(offset).take(4).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        format!("{:06}", (bytes & 0x7fff_ffff) % 1_000_000)
    }

    /// The code of a moment, as an app would show it.
    #[cfg(test)]
    fn code_at(&self, now: i64) -> String {
        self.code(now.div_euclid(STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret(*b"12345678901234567890")
    }

    #[test]
    fn rfc_6238_codes_are_those_of_its_appendix() {
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(secret().code_at(seconds * SECOND), code);
        }
    }

    #[test]
    fn a_code_counts_once_and_for_a_minute_and_a_half() {
        let now = 2_000_000_000 * SECOND;
        let step = secret().step_of(" 279 037", now, 0).expect("this moment's");
        assert_eq!(secret().step_of("279037", now, step), None, "it was used");
        assert_eq!(secret().step_of("279037", now + 30 * SECOND, 0), Some(step));
        assert_eq!(secret().step_of("279037", now + 90 * SECOND, 0), None);
        assert_eq!(secret().step_of("", now, 0), None);
    }

    #[test]
    fn a_secret_is_base32() {
        assert_eq!(secret().text(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        let read = Secret::parse("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").expect("one");
        assert_eq!(read.text(), secret().text());
        assert!(Secret::parse("GEZD").is_none() && Secret::parse("!").is_none());
    }
}
