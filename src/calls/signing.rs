//! Secrets and signatures in the notation that libraries for Standard Webhooks read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const PREFIX: &str = "whsec_";

/// A new secret to sign with.
pub fn new_secret() -> String {
    format!("{PREFIX}{}", STANDARD.encode(crate::secret::random::<24>()))
}

/// Signs what is sent at a moment, in seconds.
pub fn signature(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    let key = STANDARD.decode(secret.trim_start_matches(PREFIX)).unwrap_or_default();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published example of the notation.
    #[test]
    fn a_signature_is_what_verifying_libraries_expect() {
        let signed = signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_new_secret_is_24_bytes_in_their_notation() {
        let secret = new_secret();
        let bytes = STANDARD.decode(secret.strip_prefix(PREFIX).expect("the prefix")).expect("base64");
        assert_eq!(bytes.len(), 24);
    }
}
