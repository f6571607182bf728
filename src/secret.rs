//! Secrets: made from the system's randomness, kept as hashes, never printed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Random letters and digits, each equally likely.
pub fn letters(count: usize) -> String {
    let mut text = String::with_capacity(count);
    while text.len() < count {
        // 248 is the largest multiple of 62 in a byte; what is above would favour some letters.
        let fair = random::<64>().into_iter().filter(|byte| *byte < 248);
        text.extend(fair.take(count - text.len()).map(|byte| char::from(ALPHABET[usize::from(byte) % 62])));
    }
    text
}

/// 256 random bits as base64url.
pub fn token() -> String {
    URL_SAFE_NO_PAD.encode(random::<32>())
}

pub fn hash(secret: &str) -> [u8; 32] {
    hash_bytes(secret.as_bytes())
}

pub fn hash_bytes(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Compares in a time that tells nothing about where two hashes differ.
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_hold_256_bits_and_never_repeat() {
        assert_eq!(token().len(), 43);
        assert_ne!(token(), token());
        assert_eq!(letters(40).len(), 40);
        assert!(letters(200).bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
