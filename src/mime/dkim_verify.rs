//! Signatures of messages that came in (RFC 6376, RFC 8301, RFC 8463): what they cover, and whether
//! a key has made them.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ring::digest::{Context, SHA256, digest};
use ring::signature::{ED25519, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};

use super::body_hash::BodyHash;
use super::dkim::{canonical, name_of};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// How many names a signature may list.
const MOST_NAMES: usize = 200;

/// Why a signature counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unverified {
    /// It says something else than the message does.
    Wrong,
    /// It cannot be read, or promises less than it should.
    Unusable,
    Expired,
}

/// A signature, with all that it takes to check it.
#[derive(Debug)]
pub struct Signature {
    /// In lower case.
    pub domain: String,
    pub selector: String,
    is_ed25519: bool,
    is_relaxed_body: bool,
    expires_at: Option<i64>,
    body_hash: Vec<u8>,
    /// What was signed.
    signed: Vec<u8>,
    value: Vec<u8>,
}

/// Tags such as `a=b; c=d`: their names and values, without white space around them.
pub fn tags_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';').filter_map(|tag| tag.split_once('=')).map(|(name, value)| (name.trim(), value.trim()))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    LENIENT.decode(text).ok()
}

impl Signature {
    /// Reads a `DKIM-Signature` among the fields of its head. What a signature leaves open for others to add (`l=`)
    /// is not believed.
    pub fn read(field: &[u8], head: &[&[u8]]) -> Result<Signature, Unverified> {
        let text = str::from_utf8(field).map_err(|_| Unverified::Unusable)?;
        let value = text.split_once(':').ok_or(Unverified::Unusable)?.1;
        let tag = |name: &str| tags_of(value).find(|(found, _)| *found == name).map(|(_, value)| value);
        let needed = |name: &str| tag(name).filter(|value| !value.is_empty()).ok_or(Unverified::Unusable);
        let is_ed25519 = match needed("a")?.to_ascii_lowercase().as_str() {
            "rsa-sha256" => false,
            "ed25519-sha256" => true,
            _ => return Err(Unverified::Unusable),
        };
        let (of_head, of_body) = tag("c").map_or(("simple", "simple"), |c| c.split_once('/').unwrap_or((c, "simple")));
        let is_known = |name: &str| matches!(name, "simple" | "relaxed");
        let names: Vec<&str> = needed("h")?.split(':').map(str::trim).collect();
        let has_from = names.iter().any(|name| name.eq_ignore_ascii_case("from"));
        let is_name = |text: &str| {
            text.len() <= 253 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        let (domain, selector) = (needed("d")?.to_ascii_lowercase(), needed("s")?.to_ascii_lowercase());
        let of_domain = tag("i").and_then(|user| user.rsplit_once('@')).is_none_or(|(_, within)| {
            let within = within.to_ascii_lowercase();
            within == domain || within.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.'))
        });
        let is_sound =
            tag("v") == Some("1") && is_known(of_head) && is_known(of_body) && has_from && tag("l").is_none();
        if !is_sound || !of_domain || names.len() > MOST_NAMES || !is_name(&domain) || !is_name(&selector) {
            return Err(Unverified::Unusable);
        }
        Ok(Signature {
            domain,
            selector,
            is_ed25519,
            is_relaxed_body: of_body == "relaxed",
            expires_at: tag("x").map(|x| x.parse().map_err(|_| Unverified::Unusable)).transpose()?,
            body_hash: decoded(needed("bh")?).ok_or(Unverified::Unusable)?,
            signed: signed_data(&names, head, field, of_head == "relaxed"),
            value: decoded(needed("b")?).ok_or(Unverified::Unusable)?,
        })
    }

    /// Where its key is.
    pub fn key_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// Whether it holds for the body that was seen, at a time in seconds.
    pub fn check_body(&self, hashes: &BodyDigests, now: i64) -> Result<(), Unverified> {
        if self.expires_at.is_some_and(|at| at < now) {
            return Err(Unverified::Expired);
        }
        let seen = if self.is_relaxed_body { &hashes.relaxed } else { &hashes.simple };
        if self.body_hash == seen { Ok(()) } else { Err(Unverified::Wrong) }
    }

    /// Whether a key has made it.
    pub fn check_key(&self, key: &PublicKey) -> Result<(), Unverified> {
        let verified = match (key, self.is_ed25519) {
            (PublicKey::Rsa(key), false) => {
                UnparsedPublicKey::new(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, key)
                    .verify(&self.signed, &self.value)
            }
            (PublicKey::Ed25519(key), true) => {
                UnparsedPublicKey::new(&ED25519, key).verify(digest(&SHA256, &self.signed).as_ref(), &self.value)
            }
            _ => return Err(Unverified::Unusable),
        };
        verified.map_err(|_| Unverified::Wrong)
    }
}

/// The fields that are named, of several with one name the last first, and the signature itself
/// without what it is worth.
fn signed_data(names: &[&str], head: &[&[u8]], own: &[u8], is_relaxed: bool) -> Vec<u8> {
    let mut signed = Vec::new();
    let mut add = |field: &[u8]| match is_relaxed {
        true => canonical(field, &mut signed),
        false => signed.extend_from_slice(field),
    };
    let mut taken = vec![false; head.len()];
    for name in names {
        let found =
            (0..head.len()).rev().find(|&at| !taken[at] && name_of(head[at]).eq_ignore_ascii_case(name.as_bytes()));
        if let Some(at) = found {
            taken[at] = true;
            add(head[at]);
        }
    }
    add(&without_value(own));
    let end = if signed.ends_with(b"\r\n") { 2 } else { 0 };
    signed.truncate(signed.len() - end);
    signed
}

/// A signature's field with an empty `b=`.
fn without_value(field: &[u8]) -> Vec<u8> {
    let colon = memchr::memchr(b':', field).map_or(0, |at| at + 1);
    let mut out = field[..colon].to_vec();
    let mut tags = field[colon..].split(|byte| *byte == b';').peekable();
    while let Some(tag) = tags.next() {
        match memchr::memchr(b'=', tag) {
            Some(at) if tag[..at].trim_ascii() == b"b" => {
                out.extend_from_slice(&tag[..=at]);
                // The line break at the field's end belongs to the field.
                if tags.peek().is_none() && tag.ends_with(b"\r\n") {
                    out.extend_from_slice(b"\r\n");
                }
            }
            _ => out.extend_from_slice(tag),
        }
        if tags.peek().is_some() {
            out.push(b';');
        }
    }
    out
}

/// What a domain says of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// As PKCS#1.
    Rsa(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// Reads a record; `None` where it holds no key, or one that was taken back.
    pub fn read(record: &str) -> Option<PublicKey> {
        let tag = |name: &str| tags_of(record).find(|(found, _)| *found == name).map(|(_, value)| value);
        let is_ours = tag("v").is_none_or(|v| v == "DKIM1")
            && tag("h").is_none_or(|h| h.split(':').any(|hash| hash.trim() == "sha256"))
            && tag("s").is_none_or(|s| s.split(':').any(|kind| matches!(kind.trim(), "*" | "email")));
        let bytes = decoded(tag("p")?).filter(|bytes| is_ours && !bytes.is_empty())?;
        match tag("k").unwrap_or("rsa") {
            "rsa" => Some(PublicKey::Rsa(pkcs1(&bytes)?.to_vec())),
            "ed25519" => Some(PublicKey::Ed25519(bytes)),
            _ => None,
        }
    }
}

/// The key within a `SubjectPublicKeyInfo` (RFC 5280), or what is one by itself.
fn pkcs1(der: &[u8]) -> Option<&[u8]> {
    let (sequence, _) = element(der, 0x30)?;
    let Some((_, rest)) = element(sequence, 0x30) else { return Some(der) };
    let (bits, _) = element(rest, 0x03)?;
    bits.strip_prefix(&[0])
}

/// The content of the next element, if it is of a kind, and what stands behind it.
fn element(der: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => rest.split_first_chunk::<2>().map(|(two, rest)| (usize::from(u16::from_be_bytes(*two)), rest))?,
        short if short < 0x80 => (usize::from(short), rest),
        _ => return None,
    };
    (found == kind).then(|| rest.split_at_checked(length))?
}

/// The hashes of a body that passes by.
pub struct BodyHashes {
    relaxed: BodyHash,
    simple: Context,
    /// Line breaks that count as soon as something follows them.
    breaks: u64,
    has_return: bool,
}

/// The hashes of a body that has passed by.
pub struct BodyDigests {
    relaxed: [u8; 32],
    simple: [u8; 32],
}

impl Default for BodyHashes {
    fn default() -> BodyHashes {
        let simple = Context::new(&SHA256);
        BodyHashes { relaxed: BodyHash::new(), simple, breaks: 0, has_return: false }
    }
}

impl BodyHashes {
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.relaxed.push(bytes);
        while let Some(&byte) = bytes.first() {
            if std::mem::take(&mut self.has_return) {
                if byte == b'\n' {
                    self.breaks += 1;
                    bytes = &bytes[1..];
                    continue;
                }
                self.write(b"\r");
            }
            if byte == b'\r' {
                self.has_return = true;
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
            self.write(&bytes[..end]);
            bytes = &bytes[end..];
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        for _ in 0..std::mem::take(&mut self.breaks) {
            self.simple.update(b"\r\n");
        }
        self.simple.update(bytes);
    }

    /// A simple body ends with one line break, also an empty one (3.4.3).
    pub fn finish(mut self) -> BodyDigests {
        if std::mem::take(&mut self.has_return) {
            self.write(b"\r");
        }
        self.simple.update(b"\r\n");
        let mut simple = [0; 32];
        simple.copy_from_slice(self.simple.finish().as_ref());
        BodyDigests { relaxed: self.relaxed.finish(), simple }
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::super::dkim::{dkim_signature, fields};
    use super::super::dkim_key::DkimKey;
    use super::*;

    fn digests(body: &str) -> BodyDigests {
        let mut hashes = BodyHashes::default();
        body.as_bytes().chunks(3).for_each(|piece| hashes.push(piece));
        hashes.finish()
    }

    fn check(message: &str, key: &PublicKey, now: i64) -> Result<(), Unverified> {
        let (head, body) = message.split_once("\r\n\r\n").expect("a head");
        let head = format!("{head}\r\n");
        let all = fields(head.as_bytes());
        let own = all.iter().find(|field| name_of(field).eq_ignore_ascii_case(b"dkim-signature")).expect("a signature");
        let signature = Signature::read(own, &all)?;
        signature.check_body(&digests(body), now)?;
        signature.check_key(key)
    }

    const HEAD: &str = "From: Ada <ada@example.com>\r\nSubject: Hello\r\n there\r\nTo: b@example.com\r\n";

    fn signed(key: &DkimKey, body: &str) -> String {
        let mut hash = BodyHash::new();
        hash.push(body.as_bytes());
        let field = dkim_signature(key, "example.com", "s1", HEAD.as_bytes(), &hash.finish(), 1_000);
        format!("{}{HEAD}\r\n{body}", String::from_utf8(field).expect("ASCII"))
    }

    #[test]
    fn what_we_sign_is_verified_and_nothing_else_is() {
        for key in [DkimKey::generate_rsa(), DkimKey::generate_ed25519()] {
            let public = PublicKey::read(&key.dns_value()).expect("a key");
            let message = signed(&key, "Hi  there \r\n\r\n");
            assert_eq!(check(&message, &public, 0), Ok(()));
            let folded = message.replace("Subject: Hello\r\n there", "subject:  Hello there");
            assert_eq!(check(&folded, &public, 0), Ok(()), "white space in the head may change");
            for (from, to) in [("Hello", "Hullo"), ("Hi", "Ho"), ("To: b", "To: c"), ("From: Ada", "From: Eve")] {
                assert_eq!(check(&message.replace(from, to), &public, 0), Err(Unverified::Wrong), "{from}");
            }
            let added = message.replacen("\r\n\r\n", "\r\nFrom: eve@example.com\r\n\r\n", 1);
            assert!(check(&added, &public, 0).is_err(), "nobody can add another sender");
        }
    }

    #[test]
    fn lines_of_white_space_at_the_end_count_for_nothing_in_a_relaxed_body() {
        let key = DkimKey::generate_ed25519();
        let public = PublicKey::read(&key.dns_value()).expect("a key");
        let message = signed(&key, "Hi\r\n");
        for tail in ["\r\n", " \r\n", "\t \r\n\r\n \r\n"] {
            assert_eq!(check(&format!("{message}{tail}"), &public, 0), Ok(()), "{tail:?}");
        }
        assert_eq!(check(&format!("{message} x\r\n"), &public, 0), Err(Unverified::Wrong));
    }

    #[test]
    fn a_simple_body_is_hashed_as_it_stands_but_for_empty_lines_at_its_end() {
        let simple = |body: &str| digests(body).simple;
        let hash = |text: &[u8]| -> [u8; 32] { digest(&SHA256, text).as_ref().try_into().expect("32 bytes") };
        assert_eq!(simple(""), hash(b"\r\n"));
        assert_eq!(simple("a \r\n\r\nb\r\n\r\n\r\n"), hash(b"a \r\n\r\nb\r\n"));
        assert_eq!(simple("a"), hash(b"a\r\n"));
        assert_eq!(simple("a\r\n \r\n"), hash(b"a\r\n \r\n"));
    }

    #[test]
    fn signatures_that_promise_too_little_are_not_believed() {
        let field = |tags: &str| format!("DKIM-Signature: {tags}\r\n");
        let sound = "v=1; a=rsa-sha256; d=example.com; s=s1; h=from:to; bh=AAAA; b=AA\r\n AA";
        let head = [HEAD.as_bytes()];
        assert!(Signature::read(field(sound).as_bytes(), &head).is_ok());
        for (from, to) in [
            ("v=1", "v=2"),
            ("rsa-sha256", "rsa-sha1"),
            ("h=from:to", "h=to:subject"),
            ("h=from", "l=10; h=from"),
            ("d=example.com", "d=example.com; i=@other.example"),
            ("d=example.com", "d=example.com; i=@badexample.com"),
            ("s=s1", "s=a b"),
            ("bh=AAAA", "bh=***"),
            ("; d=example.com", ""),
        ] {
            let odd = field(&sound.replace(from, to));
            assert_eq!(Signature::read(odd.as_bytes(), &head).err(), Some(Unverified::Unusable), "{odd}");
        }
        let old = Signature::read(field(&sound.replace("s=s1", "s=s1; x=100")).as_bytes(), &head).expect("a signature");
        assert_eq!(old.check_body(&digests(""), 101), Err(Unverified::Expired));
        let within = field(&sound.replace("d=example.com", "d=example.com; i=a@mail.example.com"));
        assert!(Signature::read(within.as_bytes(), &head).is_ok());
    }

    #[test]
    fn a_signature_covers_its_field_without_its_value() {
        let field = b"DKIM-Signature: v=1; b=AA\r\n BB; bh=xx;\r\n";
        assert_eq!(without_value(field), b"DKIM-Signature: v=1; b=; bh=xx;\r\n");
        assert_eq!(without_value(b"DKIM-Signature: bh=b; b = AA=\r\n"), b"DKIM-Signature: bh=b; b =\r\n");
    }

    #[test]
    fn records_without_a_key_have_none() {
        for record in ["v=DKIM1; p=", "v=DKIM2; p=AAAA", "k=rsa; p=AAAA", "h=sha1; k=ed25519; p=AAAA", "", "p=***"] {
            assert_eq!(PublicKey::read(record), None, "{record}");
        }
        let raw = STANDARD.encode([7; 32]);
        assert_eq!(PublicKey::read(&format!("k=ed25519; p={raw}")), Some(PublicKey::Ed25519(vec![7; 32])));
    }
}
