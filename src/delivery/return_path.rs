//! Where bounces go: an address that tells of which mail, and to whom it went. It is signed, so
//! that nobody can make mails bounce that he did not get, and survives being written in lower case.

use ring::hmac;
use uuid::Uuid;

use super::store::Claimed;
use crate::config::FeedbackSettings;
use crate::id::{EmailId, Id};
use crate::reports::{MARK_FIELD, MARK_NAME};
use crate::secret;

/// What the keys are for that sign it.
pub const RETURN_PATHS: &str = "return paths of mail";

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// How much of the signature is kept: an address has 64 octets before its `@`.
const TAG: usize = 10;

/// How many bytes are signed, and how many characters all of it has.
const SIGNED: usize = 16 + 2;
const LENGTH: usize = ((SIGNED + TAG) * 8).div_ceil(5);

/// Instead of a recipient's number: which of them is meant is said elsewhere.
pub const ANY_RECIPIENT: u16 = u16::MAX;

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
        let number = u16::try_from(number).unwrap_or(ANY_RECIPIENT);
        format!("{}@{}", token(&self.key, claimed.own_id(), number), self.domain)
    }
}

/// The fields that a mail carries so that relays can say which it was: one that is shown as it is,
/// and one for each relay that only hands back what stands in a field of its own.
pub fn mark_fields(relays: &FeedbackSettings, id: EmailId, secret: &[u8; 32]) -> String {
    let mark = token(&hmac::Key::new(hmac::HMAC_SHA256, secret), id, ANY_RECIPIENT);
    let mut fields = format!("{MARK_FIELD}: {mark}\r\n");
    if relays.mailgun_signing_key.is_some() {
        fields += &format!("X-Mailgun-Variables: {{\"{MARK_NAME}\":\"{mark}\"}}\r\n");
    }
    if relays.postmark_secret.is_some() {
        fields += &format!("X-PM-Metadata-{MARK_NAME}: {mark}\r\n");
    }
    fields
}

fn token(key: &hmac::Key, id: EmailId, number: u16) -> String {
    let mut bytes = id.uuid().as_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    let tag = hmac::sign(key, &bytes);
    bytes.extend(&tag.as_ref()[..TAG]);
    base32(&bytes)
}

/// Whether what stands before an `@` looks like what we make.
pub fn is_token(local: &str) -> bool {
    local.len() == LENGTH && local.bytes().all(|byte| ALPHABET.contains(&byte.to_ascii_lowercase()))
}

/// The id and the number that an address was made of, if it was made with one of these keys.
pub fn open(local: &str, secrets: &[[u8; 32]]) -> Option<(Uuid, u16)> {
    let bytes = of_base32(local).filter(|_| is_token(local))?;
    let (signed, tag) = bytes.split_at_checked(SIGNED)?;
    let is_ours = |secret: &[u8; 32]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        secret::equal(&hmac::sign(&key, signed).as_ref()[..TAG], tag)
    };
    let (id, number) = signed.split_first_chunk::<16>()?;
    let number = u16::from_be_bytes(number.try_into().ok()?);
    secrets.iter().any(is_ours).then(|| (Uuid::from_bytes(*id), number))
}

fn of_base32(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut buffer, mut bits) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let value = ALPHABET.iter().position(|letter| *letter == byte.to_ascii_lowercase())?;
        (buffer, bits) = (buffer << 5 | value as u32, bits + 5);
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
            buffer &= (1 << bits) - 1;
        }
    }
    // What is left over says nothing, so it must not differ either.
    (buffer == 0).then_some(bytes)
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
            assert_eq!(of_base32(&text.to_uppercase()).as_deref(), Some(bytes.as_bytes()));
        }
        let longest = base32(&[0xff; 16 + 2 + TAG]);
        assert!(longest.len() == LENGTH && LENGTH <= 64 && longest == longest.to_lowercase(), "{longest}");
    }

    fn made(id: u128, number: u16, secret: &[u8; 32]) -> String {
        token(&hmac::Key::new(hmac::HMAC_SHA256, secret), Uuid::from_u128(id).into(), number)
    }

    #[test]
    fn only_what_we_have_signed_is_opened_and_nothing_of_it_may_differ() {
        let (old, new, other) = ([1; 32], [2; 32], [3; 32]);
        let token = made(7, 3, &old);
        let found = Some((Uuid::from_u128(7), 3));
        assert_eq!(open(&token, &[new, old]), found);
        assert_eq!(open(&token.to_uppercase(), &[new, old]), found, "letters may change their case on the way");
        assert_eq!(open(&token, &[new, other]), None);
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'a' { b'b' } else { b'a' };
            let forged = String::from_utf8(forged).expect("ASCII");
            assert_eq!(open(&forged, &[new, old]), None, "{at}");
        }
        for odd in ["", "postmaster", &token[1..], &format!("{token}a"), &token.replace(&token[..1], "1")] {
            assert_eq!(open(odd, &[new, old]), None, "{odd}");
        }
    }
}
