//! Access tokens on the wire: JWTs of exactly one kind, ES256 and `at+jwt`
//! (RFC 9068). Nothing in a token chooses how it is checked.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

use crate::id::{GrantId, TokenId, UserId};

/// A key that signs, and whose public half is published.
pub struct SigningKey {
    pub id: String,
    pair: EcdsaKeyPair,
    header: String,
    random: SystemRandom,
}

/// What a token says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub aud: String,
    /// The user who approved.
    pub sub: UserId,
    pub client_id: String,
    pub scope: String,
    pub jti: TokenId,
    pub iat: i64,
    pub exp: i64,
    /// The grant that the token lives and dies with.
    pub grant: GrantId,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    typ: String,
    kid: String,
}

impl SigningKey {
    /// The private half of a new key, as PKCS#8.
    pub fn generate() -> Vec<u8> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        document.expect("the operating system gives random bytes").as_ref().to_vec()
    }

    pub fn load(id: String, pkcs8: &[u8]) -> Option<SigningKey> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        let header = Header { alg: "ES256".into(), typ: "at+jwt".into(), kid: id.clone() };
        let header = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header).ok()?);
        Some(SigningKey { id, pair, header, random })
    }

    pub fn sign(&self, claims: &Claims) -> Option<String> {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
        let mut token = format!("{}.{payload}", self.header);
        let signature = self.pair.sign(&self.random, token.as_bytes()).ok()?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.as_ref(), &mut token);
        Some(token)
    }

    /// The claims of a token that this key signed. Says nothing about time,
    /// issuer or audience.
    pub fn verify(&self, token: &str) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        // The header is ours, to the letter, or the token is not.
        if header != self.header || payload.contains('.') {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    /// The public half as a JWK.
    pub fn public(&self) -> serde_json::Value {
        // An uncompressed point: 4, then both coordinates.
        let point = self.pair.public_key().as_ref();
        serde_json::json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]),
            "y": URL_SAFE_NO_PAD.encode(&point[33..65]),
        })
    }
}

/// The id of the key that a token says it was signed with.
pub fn key_id(token: &str) -> Option<String> {
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
    let header: Header = serde_json::from_slice(&header).ok()?;
    Some(header.kid)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn claims() -> Claims {
        Claims {
            iss: "http://i".into(),
            aud: "http://i".into(),
            sub: Uuid::from_u128(1).into(),
            client_id: "c".into(),
            scope: "full_access".into(),
            jti: Uuid::from_u128(2).into(),
            iat: 1,
            exp: 901,
            grant: Uuid::from_u128(3).into(),
        }
    }

    fn key(id: &str) -> SigningKey {
        SigningKey::load(id.into(), &SigningKey::generate()).expect("a key")
    }

    fn forged(header: &str) -> String {
        let token = key("k").sign(&claims()).expect("signed");
        let rest = token.split_once('.').expect("parts").1;
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
    }

    #[test]
    fn a_token_is_believed_by_the_key_that_signed_it_only() {
        let (ours, other) = (key("k"), key("k"));
        let token = ours.sign(&claims()).expect("signed");
        assert_eq!(ours.verify(&token), Some(claims()));
        assert_eq!(other.verify(&token), None);
        assert_eq!(key_id(&token).as_deref(), Some("k"));
    }

    #[test]
    fn a_token_with_one_changed_byte_is_not_believed() {
        let ours = key("k");
        let token = ours.sign(&claims()).expect("signed");
        for position in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("ascii");
            // The last letter of a signature holds two unused bits; a strict decoder refuses them.
            assert_eq!(ours.verify(&changed), None, "byte {position}");
        }
    }

    #[test]
    fn rfc_9068_no_header_but_ours_is_believed() {
        let ours = key("k");
        for header in [
            r#"{"alg":"none","typ":"at+jwt","kid":"k"}"#,
            r#"{"alg":"HS256","typ":"at+jwt","kid":"k"}"#,
            r#"{"alg":"ES256","typ":"JWT","kid":"k"}"#,
            r#"{"alg":"ES256","typ":"at+jwt","kid":"x"}"#,
            r#"{"alg":"ES256","typ":"at+jwt","kid":"k","crit":["x"]}"#,
        ] {
            assert_eq!(ours.verify(&forged(header)), None, "{header}");
        }
        for odd in ["", ".", "..", "a.b.c", "a.b.c.d", "é.é.é"] {
            assert_eq!(ours.verify(odd), None);
            assert_eq!(key_id(odd), None);
        }
    }
}
