//! Passwords: argon2id, with the parameters kept beside each hash.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

/// Hashes a password. Takes tens of milliseconds and 19 MiB, on purpose.
pub fn hash(password: &str) -> String {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.expect("argon2 hashes any password of an allowed length").to_string()
}

pub fn verify(password: &str, hash: &str) -> bool {
    let Ok(parsed) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_against_its_own_hash_only() {
        let kept = hash("correct horse");
        assert!(kept.starts_with("$argon2id$"));
        assert!(verify("correct horse", &kept));
        assert!(!verify("wrong horse", &kept));
        assert!(!verify("correct horse", "not a hash"));
    }
}
