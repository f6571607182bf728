//! Secrets and signatures in the notation that libraries for Standard Webhooks read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const PREFIX: &str = "whsec_";

/// A new secret to sign with.
pub fn new_secret() -> String {
    format!("{PREFIX}{}", STANDARD.encode(crate::secret::random::<24>()))
}

/// A secret that signs.
pub struct SigningKey(hmac::Key);

impl SigningKey {
    pub fn new(secret: &str) -> SigningKey {
        let key = STANDARD.decode(secret.trim_start_matches(PREFIX)).unwrap_or_default();
        SigningKey(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    /// Signs what is sent at a moment, in seconds.
    pub fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let mut signing = hmac::Context::with_key(&self.0);
        signing.update(format!("{id}.{timestamp}.").as_bytes());
        signing.update(body.as_bytes());
        format!("v1,{}", STANDARD.encode(signing.sign()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published example of the notation.
    #[test]
    fn a_signature_is_what_verifying_libraries_expect() {
        let key = SigningKey::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_new_secret_is_24_bytes_in_their_notation() {
        let secret = new_secret();
        let bytes = STANDARD.decode(secret.strip_prefix(PREFIX).expect("the prefix")).expect("base64");
        assert_eq!(bytes.len(), 24);
    }
}
