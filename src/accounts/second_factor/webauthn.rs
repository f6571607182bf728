//! Passkeys as the web has them (Web Authentication, level 2): what an authenticator says when it is introduced, and
//! when it is asked. Nobody vouches for it (attestation `none`): it is enough that it is the same one again.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use crate::secret;

/// What an id may take up, as the standard has it.
const LONGEST_ID: usize = 1023;

/// What a public key may take up: RSA with 8,192 bits and its frame.
const LONGEST_KEY: usize = 1100;

/// How a public key begins that says what it is for (RFC 5480, RFC 8410): behind this comes the key alone.
const P256_FRAME: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const ED25519_FRAME: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const RSA_NAME: &[u8] = &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// The person was there; what was introduced follows.
const IS_PRESENT: u8 = 0x01;
const HAS_CREDENTIAL: u8 = 0x40;

/// Why an authenticator is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("what the browser sent cannot be read")]
    Unreadable,
    #[error("it answers another question than the one that was asked")]
    OtherQuestion,
    #[error("it is meant for another site")]
    OtherSite,
    #[error("nobody touched the authenticator")]
    NobodyThere,
    #[error("its kind of key is not known here")]
    UnknownKey,
    #[error("the signature is not that of this passkey")]
    Signature,
    #[error("it was used in the meantime, or copied: its counter went back")]
    Counter,
}

/// Who asks: an authenticator answers nobody else.
pub struct Site<'a> {
    /// The name of the host.
    pub host: &'a str,
    /// As browsers write it.
    pub origin: &'a str,
}

/// What an authenticator said of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Introduced {
    pub id: Vec<u8>,
    pub counter: i64,
    pub key: Vec<u8>,
}

/// What a browser sends, in base64url.
pub struct Introduction<'a> {
    pub client_data: &'a str,
    pub authenticator_data: &'a str,
    /// With its frame (SubjectPublicKeyInfo).
    pub public_key: &'a str,
}

pub struct Assertion<'a> {
    pub client_data: &'a str,
    pub authenticator_data: &'a str,
    pub signature: &'a str,
}

/// What is asked of an authenticator, made of a token that nobody can guess.
pub fn question(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(secret::hash(&format!("passkey {token}")))
}

/// Reads who is introduced.
pub fn introduced(site: &Site<'_>, question: &str, said: &Introduction<'_>) -> Result<Introduced, Refused> {
    check_client(site, "webauthn.create", question, &decoded(said.client_data)?)?;
    let data = decoded(said.authenticator_data)?;
    let said_by = AuthenticatorData::read(site, &data)?;
    let id = said_by.credential_id.ok_or(Refused::Unreadable)?.to_vec();
    let key = decoded(said.public_key)?;
    PublicKey::read(&key)?;
    Ok(Introduced { id, counter: said_by.counter, key })
}

/// Checks that it is one who was introduced. Tells its counter, which is to be kept.
pub fn asserted(
    site: &Site<'_>,
    question: &str,
    said: &Assertion<'_>,
    (key, counter): (&[u8], i64),
) -> Result<i64, Refused> {
    let client_data = decoded(said.client_data)?;
    check_client(site, "webauthn.get", question, &client_data)?;
    let mut signed = decoded(said.authenticator_data)?;
    let now = AuthenticatorData::read(site, &signed)?.counter;
    // Those that do not count say 0 for ever.
    if now <= counter && (now, counter) != (0, 0) {
        return Err(Refused::Counter);
    }
    signed.extend(secret::hash_bytes(&client_data));
    PublicKey::read(key)?.verify(&signed, &decoded(said.signature)?)?;
    Ok(now)
}

fn decoded(text: &str) -> Result<Vec<u8>, Refused> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| Refused::Unreadable)
}

/// What the browser says it was asked, and by whom.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    is_framed: bool,
}

fn check_client(site: &Site<'_>, kind: &str, question: &str, data: &[u8]) -> Result<(), Refused> {
    let data: ClientData = serde_json::from_slice(data).map_err(|_| Refused::Unreadable)?;
    if data.kind != kind || !secret::equal(data.challenge.as_bytes(), question.as_bytes()) {
        return Err(Refused::OtherQuestion);
    }
    if data.origin != site.origin || data.is_framed {
        return Err(Refused::OtherSite);
    }
    Ok(())
}

struct AuthenticatorData<'a> {
    counter: i64,
    credential_id: Option<&'a [u8]>,
}

impl AuthenticatorData<'_> {
    /// The host's hash (32), flags (1), a counter (4); where somebody is introduced the model (16), the id's length
    /// (2), the id, and the key once more.
    fn read<'a>(site: &Site<'_>, data: &'a [u8]) -> Result<AuthenticatorData<'a>, Refused> {
        let (hash, rest) = data.split_first_chunk::<32>().ok_or(Refused::Unreadable)?;
        let ([flags, counter @ ..], rest) = rest.split_first_chunk::<5>().ok_or(Refused::Unreadable)?;
        if !secret::equal(hash, &secret::hash(site.host)) {
            return Err(Refused::OtherSite);
        }
        if flags & IS_PRESENT == 0 {
            return Err(Refused::NobodyThere);
        }
        let credential_id = (flags & HAS_CREDENTIAL != 0).then(|| credential_id(rest)).transpose()?;
        Ok(AuthenticatorData { counter: u32::from_be_bytes(*counter).into(), credential_id })
    }
}

fn credential_id(data: &[u8]) -> Result<&[u8], Refused> {
    let (_, rest) = data.split_first_chunk::<16>().ok_or(Refused::Unreadable)?;
    let (length, rest) = rest.split_first_chunk::<2>().ok_or(Refused::Unreadable)?;
    let length = usize::from(u16::from_be_bytes(*length));
    rest.get(..length).filter(|id| (1..=LONGEST_ID).contains(&id.len())).ok_or(Refused::Unreadable)
}

/// A key out of its frame.
struct PublicKey<'a> {
    algorithm: &'static dyn VerificationAlgorithm,
    bytes: &'a [u8],
}

impl PublicKey<'_> {
    fn read(framed: &[u8]) -> Result<PublicKey<'_>, Refused> {
        if framed.len() > LONGEST_KEY {
            return Err(Refused::UnknownKey);
        }
        if let Some(bytes) = framed.strip_prefix(P256_FRAME).filter(|bytes| bytes.len() == 65) {
            return Ok(PublicKey { algorithm: &ECDSA_P256_SHA256_ASN1, bytes });
        }
        if let Some(bytes) = framed.strip_prefix(ED25519_FRAME).filter(|bytes| bytes.len() == 32) {
            return Ok(PublicKey { algorithm: &ED25519, bytes });
        }
        let bytes = rsa(framed).ok_or(Refused::UnknownKey)?;
        Ok(PublicKey { algorithm: &RSA_PKCS1_2048_8192_SHA256, bytes })
    }

    fn verify(&self, signed: &[u8], signature: &[u8]) -> Result<(), Refused> {
        UnparsedPublicKey::new(self.algorithm, self.bytes).verify(signed, signature).map_err(|_| Refused::Signature)
    }
}

/// A sequence of the algorithm's name and a string of bits, all of which are used.
fn rsa(framed: &[u8]) -> Option<&[u8]> {
    let (inner, behind) = element(0x30, framed)?;
    let (bits, after) = element(0x03, inner.strip_prefix(RSA_NAME)?)?;
    bits.strip_prefix(&[0]).filter(|_| behind.is_empty() && after.is_empty())
}

/// What a tag holds (DER), and what comes behind it.
fn element(tag: u8, data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = data.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(&length, rest)| (usize::from(length), rest))?,
        0x82 => rest.split_first_chunk::<2>().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest))?,
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    const SITE: Site<'_> = Site { host: "mail.example.com", origin: "https://mail.example.com" };
    const ID: &[u8] = b"an id";

    fn encoded(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn client_data(kind: &str, question: &str, origin: &str) -> String {
        encoded(json!({"type": kind, "challenge": question, "origin": origin, "crossOrigin": false}).to_string())
    }

    fn authenticator_data(host: &str, flags: u8, counter: u32, id: Option<&[u8]>) -> Vec<u8> {
        let mut data = secret::hash(host).to_vec();
        data.push(flags);
        data.extend(counter.to_be_bytes());
        if let Some(id) = id {
            data.extend([7; 16]);
            data.extend(u16::try_from(id.len()).expect("short").to_be_bytes());
            data.extend(id);
            data.extend(b"the key as CBOR");
        }
        data
    }

    struct Authenticator {
        pair: EcdsaKeyPair,
    }

    impl Authenticator {
        fn new() -> Authenticator {
            let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
            let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
            Authenticator { pair: EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).expect("a key") }
        }

        fn key(&self) -> Vec<u8> {
            [P256_FRAME, self.pair.public_key().as_ref()].concat()
        }

        fn sign(&self, data: &[u8], client_data: &str) -> String {
            let signed = [data, &secret::hash_bytes(&decoded(client_data).expect("base64"))].concat();
            encoded(self.pair.sign(&SystemRandom::new(), &signed).expect("a signature"))
        }
    }

    #[test]
    fn one_who_was_introduced_is_known_again() {
        let (known, asked) = (Authenticator::new(), question("token"));
        let said = Introduction {
            client_data: &client_data("webauthn.create", &asked, SITE.origin),
            authenticator_data: &encoded(authenticator_data(SITE.host, 0x41, 1, Some(ID))),
            public_key: &encoded(known.key()),
        };
        let introduced = introduced(&SITE, &asked, &said).expect("a passkey");
        assert_eq!((introduced.id.as_slice(), introduced.counter, &introduced.key), (ID, 1, &known.key()));

        let assert = |kind: &str, asked_then: &str, origin: &str, host: &str, flags: u8, counter: u32| {
            let client_data = client_data(kind, asked_then, origin);
            let data = authenticator_data(host, flags, counter, None);
            let (signature, authenticator_data) = (known.sign(&data, &client_data), encoded(&data));
            let said =
                Assertion { client_data: &client_data, authenticator_data: &authenticator_data, signature: &signature };
            asserted(&SITE, &asked, &said, (&introduced.key, introduced.counter))
        };
        let get = "webauthn.get";
        assert_eq!(assert(get, &asked, SITE.origin, SITE.host, 1, 2), Ok(2));
        for (refused, why) in [
            (assert("webauthn.create", &asked, SITE.origin, SITE.host, 1, 2), Refused::OtherQuestion),
            (assert(get, &question("another"), SITE.origin, SITE.host, 1, 2), Refused::OtherQuestion),
            (assert(get, &asked, "https://mail.example.com.evil.example", SITE.host, 1, 2), Refused::OtherSite),
            (assert(get, &asked, SITE.origin, "evil.example", 1, 2), Refused::OtherSite),
            (assert(get, &asked, SITE.origin, SITE.host, 0, 2), Refused::NobodyThere),
            (assert(get, &asked, SITE.origin, SITE.host, 1, 1), Refused::Counter),
        ] {
            assert_eq!(refused, Err(why));
        }
    }

    #[test]
    fn another_key_another_text_or_half_a_signature_is_refused() {
        let (known, other, asked) = (Authenticator::new(), Authenticator::new(), question("token"));
        let client_data = client_data("webauthn.get", &asked, SITE.origin);
        let data = authenticator_data(SITE.host, 1, 0, None);
        let right = known.sign(&data, &client_data);
        let with = |signature: &str, key: &[u8]| {
            let said = Assertion { client_data: &client_data, authenticator_data: &encoded(&data), signature };
            asserted(&SITE, &asked, &said, (key, 0))
        };
        assert_eq!(with(&right, &known.key()), Ok(0), "one that does not count");
        assert_eq!(with(&right, &other.key()), Err(Refused::Signature));
        assert_eq!(with(&other.sign(&data, &client_data), &known.key()), Err(Refused::Signature));
        assert_eq!(with(&right[..20], &known.key()), Err(Refused::Signature));
        assert_eq!(with("%", &known.key()), Err(Refused::Unreadable));
        assert_eq!(with(&right, b"no key"), Err(Refused::UnknownKey));
    }

    #[test]
    fn keys_of_the_other_kinds_are_read() {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).expect("a key");
        let framed = [ED25519_FRAME, pair.public_key().as_ref()].concat();
        let key = PublicKey::read(&framed).expect("a key");
        assert_eq!(key.verify(b"text", pair.sign(b"text").as_ref()), Ok(()));
        assert_eq!(key.verify(b"other", pair.sign(b"text").as_ref()), Err(Refused::Signature));
        // A sequence that holds the name of RSA and the bits `0 1 2`.
        let framed = [&[0x30, 0x14], RSA_NAME, &[0x03, 0x03, 0, 1, 2]].concat();
        assert_eq!(rsa(&framed), Some([1, 2].as_slice()));
        assert_eq!(rsa(&[framed.as_slice(), &[0]].concat()), None, "something follows");
        assert_eq!(rsa(&framed[..framed.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_or_refused(data: Vec<u8>, flags: u8, id_length: u16) {
            let _ = PublicKey::read(&data).map(|key| key.verify(&data, &data));
            let _ = rsa(&data);
            let mut whole = secret::hash(SITE.host).to_vec();
            whole.push(flags);
            whole.extend(data.iter().take(20));
            whole.extend(id_length.to_be_bytes());
            whole.extend(&data);
            let _ = AuthenticatorData::read(&SITE, &whole);
            let text = encoded(&whole);
            let said = Introduction { client_data: &text, authenticator_data: &text, public_key: &text };
            prop_assert!(introduced(&SITE, "question", &said).is_err());
        }
    }
}
