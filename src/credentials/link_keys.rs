//! What signs links that need no log-in: they are good for ever, because mail is opened years later.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use super::Signing;
use crate::clock::Clock;
use crate::db::{Db, DbError};
use crate::secret;

/// How much of the signature is kept: nobody can try often enough to guess 96 bits.
const TAG: usize = 12;

/// The keys of one kind of links. Clones share them.
#[derive(Clone)]
pub struct LinkKeys(Arc<[hmac::Key]>);

impl LinkKeys {
    /// They come from the keys that sign access tokens. Of these none is ever forgotten, and the oldest one signs, so a
    /// link is always the same, also in a mail that is tried again after those keys were rotated.
    pub async fn load(signing: &Signing, store: (&Db, &Clock), purpose: &str) -> Result<LinkKeys, DbError> {
        let mut secrets = signing.secrets_for(store, purpose, i64::MAX).await?;
        secrets.reverse();
        if secrets.is_empty() {
            return Err(DbError::Broken("none of the keys that sign links can be opened".into()));
        }
        Ok(LinkKeys::of(&secrets))
    }

    /// The oldest first.
    pub fn of(secrets: &[[u8; 32]]) -> LinkKeys {
        LinkKeys(secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect())
    }

    /// The end of a link: what it says, and that we said it.
    pub fn token(&self, payload: &[u8]) -> String {
        let mut bytes = payload.to_vec();
        if let Some(oldest) = self.0.first() {
            bytes.extend(&hmac::sign(oldest, payload).as_ref()[..TAG]);
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What the end of a link says, if we made it.
    pub fn open(&self, token: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (payload, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG)?)?;
        let signs = |key: &hmac::Key| secret::equal(&hmac::sign(key, payload).as_ref()[..TAG], tag);
        let is_ours = self.0.iter().any(signs);
        bytes.truncate(bytes.len() - TAG);
        is_ours.then_some(bytes)
    }
}
