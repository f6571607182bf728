//! Keys that sign mail (RFC 6376, RFC 8463).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use rsa::RsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey;
use rsa::rand_core::OsRng;

/// What stands before the public half of an RSA key of 2048 bits where it says that it is one
/// (`SubjectPublicKeyInfo` of RFC 5280).
const RSA_2048: [u8; 24] = [
    0x30, 0x82, 0x01, 0x22, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    0x03, 0x82, 0x01, 0x0f, 0x00,
];
const RSA_2048_PUBLIC: usize = 270;

/// A key that signs, of RSA with 2048 bits or of Ed25519.
pub struct DkimKey {
    pair: Pair,
    /// As PKCS#8.
    bytes: Vec<u8>,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl DkimKey {
    /// Takes from a tenth of a second to some seconds, on a thread that may be blocked.
    pub fn generate_rsa() -> DkimKey {
        // `ring` makes no keys of this kind; it is what signs with them.
        let key = RsaPrivateKey::new(&mut OsRng, 2048).expect("2048 bits are a size");
        let bytes = key.to_pkcs8_der().expect("a new key can be written");
        DkimKey::from_bytes(bytes.as_bytes()).expect("a new key can be read")
    }

    pub fn generate_ed25519() -> DkimKey {
        let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let bytes = bytes.expect("the operating system gives random bytes");
        DkimKey::from_bytes(bytes.as_ref()).expect("a new key can be read")
    }

    /// The private half, as PKCS#8.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<DkimKey> {
        let pair = match Ed25519KeyPair::from_pkcs8(bytes) {
            Ok(pair) => Pair::Ed25519(pair),
            Err(_) => Pair::Rsa(RsaKeyPair::from_pkcs8(bytes).ok().filter(is_2048)?),
        };
        Some(DkimKey { pair, bytes: bytes.to_vec() })
    }

    /// The text of the DNS record that lets others check what this key signed.
    pub fn dns_value(&self) -> String {
        match &self.pair {
            Pair::Rsa(pair) => {
                let public = [&RSA_2048, pair.public_key().as_ref()].concat();
                format!("v=DKIM1; k=rsa; p={}", STANDARD.encode(public))
            }
            Pair::Ed25519(pair) => format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(pair.public_key())),
        }
    }

    /// As signatures name it.
    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "rsa-sha256",
            Pair::Ed25519(_) => "ed25519-sha256",
        }
    }

    pub(super) fn sign(&self, data: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), data, &mut signature);
                signed.expect("there is room for the signature, and the operating system gives random bytes");
                signature
            }
            // RFC 8463: what is signed is the hash.
            Pair::Ed25519(pair) => pair.sign(digest(&SHA256, data).as_ref()).as_ref().to_vec(),
        }
    }
}

fn is_2048(pair: &RsaKeyPair) -> bool {
    pair.public_key().as_ref().len() == RSA_2048_PUBLIC
}

/// Never shows the key.
impl fmt::Debug for DkimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DkimKey({})", self.algorithm())
    }
}
