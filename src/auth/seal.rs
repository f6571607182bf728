//! Hides what the store has to keep but a copy of the store must not give away:
//! the keys that sign access tokens, where the operator set a secret, and answers
//! that hold one, which only the credential that got them can open.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::secret;

const PLAIN: u8 = 0;
const SEALED: u8 = 1;
const NONCE: usize = 12;

/// A secret that the store does not hold, made into a key.
#[derive(Default)]
pub struct Seal(Option<LessSafeKey>);

impl Seal {
    pub fn new(secret: Option<&str>) -> Seal {
        secret.map_or_else(Seal::default, |secret| Seal::of("signing keys", secret))
    }

    /// For one purpose: what was sealed for another cannot be opened with it.
    pub fn of(purpose: &str, secret: &str) -> Seal {
        let key = secret::hash(&format!("{purpose} {secret}"));
        Seal(UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new))
    }

    /// As the store keeps it: one byte that says how, then the rest.
    pub fn close(&self, content: &[u8]) -> Vec<u8> {
        let Some(key) = &self.0 else { return [&[PLAIN], content].concat() };
        let nonce = secret::random::<NONCE>();
        let mut hidden = content.to_vec();
        let sealed = key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut hidden);
        sealed.expect("what is sealed is short enough for it");
        [&[SEALED], &nonce[..], &hidden].concat()
    }

    /// `None` when it was sealed with another secret, or was damaged.
    pub fn open(&self, kept: &[u8]) -> Option<Vec<u8>> {
        match kept.split_first()? {
            (&PLAIN, content) => Some(content.to_vec()),
            (&SEALED, rest) if rest.len() > NONCE => {
                let nonce = Nonce::try_assume_unique_for_key(&rest[..NONCE]).ok()?;
                let mut hidden = rest[NONCE..].to_vec();
                Some(self.0.as_ref()?.open_in_place(nonce, Aad::empty(), &mut hidden).ok()?.to_vec())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_secret_only() {
        let (ours, other, none) = (Seal::new(Some("ours")), Seal::new(Some("other")), Seal::new(None));
        let kept = ours.close(b"key");
        assert!(!kept.windows(3).any(|part| part == b"key"));
        assert_eq!(ours.open(&kept).as_deref(), Some(&b"key"[..]));
        assert_eq!((other.open(&kept), none.open(&kept)), (None, None));
        assert_eq!(ours.open(&kept[..kept.len() - 1]), None);
    }

    #[test]
    fn without_a_secret_it_is_kept_as_it_is_and_can_be_sealed_later() {
        let kept = Seal::new(None).close(b"key");
        assert_eq!(Seal::new(Some("new")).open(&kept).as_deref(), Some(&b"key"[..]));
        assert_eq!(Seal::new(None).open(&[]), None);
    }
}
