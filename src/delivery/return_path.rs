//! Where bounces go: an address that tells of which mail, and to whom it went. It is signed, so
//! that nobody can make mails bounce that he did not get, and survives being written in lower case.

use ring::hmac;

use super::store::Claimed;
use crate::id::Id;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// How much of the signature is kept: an address has 64 octets before its `@`.
const TAG: usize = 10;

/// Makes the addresses of one domain.
pub struct ReturnPath {
    domain: String,
    key: hmac::Key,
}

impl ReturnPath {
    pub fn new(domain: &str, secret: &[u8; 32]) -> ReturnPath {
        ReturnPath { domain: domain.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// Where bounces of a recipient's mail go.
    pub fn of(&self, claimed: &Claimed) -> String {
        // Who has a mail of his own is told by its id.
        let number = if claimed.contact_id.is_some() { 0 } else { claimed.number };
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        let mut bytes = claimed.own_id().uuid().as_bytes().to_vec();
        bytes.extend(number.to_be_bytes());
        let tag = hmac::sign(&self.key, &bytes);
        bytes.extend(&tag.as_ref()[..TAG]);
        format!("{}@{}", base32(&bytes), self.domain)
    }
}

fn base32(bytes: &[u8]) -> String {
    let (mut text, mut buffer, mut bits) = (String::new(), 0_u32, 0);
    for &byte in bytes {
        (buffer, bits) = (buffer << 8 | u32::from(byte), bits + 8);
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(buffer >> bits & 31) as usize]));
        }
        buffer &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[(buffer << (5 - bits) & 31) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_rfc_4648_has_them_in_lower_case() {
        for (bytes, text) in [("", ""), ("f", "my"), ("fo", "mzxq"), ("foo", "mzxw6"), ("foobar", "mzxw6ytboi")] {
            assert_eq!(base32(bytes.as_bytes()), text);
        }
        let longest = base32(&[0xff; 16 + 2 + TAG]);
        assert!(longest.len() <= 64 && longest == longest.to_lowercase(), "{longest}");
    }
}
