//! API keys: `re_` keys that belong to a workspace, kept as hashes, cached.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use quick_cache::sync::Cache;

use super::store;
use crate::clock::{Clock, MINUTE};
use crate::db::{Db, DbError};
use crate::error::Error;
use crate::oauth::scope::Scope;
use crate::secret;

/// What a key may do.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
#[value(rename_all = "snake_case")]
pub enum Permission {
    /// Every route
    FullAccess,
    /// Only the routes that send mail
    SendingAccess,
}

impl Permission {
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::FullAccess => "full_access",
            Permission::SendingAccess => "sending_access",
        }
    }

    pub(super) fn from_store(text: &str) -> Result<Permission, DbError> {
        match text {
            "full_access" => Ok(Permission::FullAccess),
            "sending_access" => Ok(Permission::SendingAccess),
            other => Err(DbError::Broken(format!("unknown permission {other}"))),
        }
    }

    pub(super) fn allows(self, need: Scope) -> bool {
        self == Permission::FullAccess || need == Scope::EmailsSend
    }
}

/// A key as it is shown once: everything the store keeps, and the secret itself.
pub struct NewKey {
    pub id: String,
    pub workspace_id: String,
    pub name: String,
    pub permission: Permission,
    pub secret: String,
    pub created_at: i64,
}

impl NewKey {
    pub fn make(clock: &Clock, workspace_id: &str, name: &str, permission: Permission) -> NewKey {
        NewKey {
            id: clock.ordered_id(),
            workspace_id: workspace_id.into(),
            name: name.into(),
            permission,
            secret: format!("re_{}_{}", secret::letters(8), secret::letters(32)),
            created_at: clock.now(),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        prefix_of(&self.secret).unwrap_or_default()
    }
}

/// The readable part of a key, `re_` and eight letters, if it is shaped like one.
fn prefix_of(secret: &str) -> Option<&str> {
    let rest = secret.strip_prefix("re_")?;
    let (public, private) = rest.split_once('_')?;
    let lettered = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (lettered(public, 8) && lettered(private, 32)).then(|| &secret[..11])
}

/// What is known of a key in use, and under which revision it was learnt.
#[derive(Debug)]
pub struct Known {
    pub id: String,
    pub workspace_id: String,
    pub permission: Permission,
    pub revision: i64,
    /// When its last use was last noted, so that a busy key is not noted each time.
    pub(super) noted: AtomicI64,
}

/// The keys in use. An entry stays good as long as the store's revision is the
/// one it was read under: whoever uses an entry guards his statement with it.
pub struct Keys {
    known: Cache<[u8; 32], Arc<Known>>,
    /// When keys were last used, on the way to the store.
    used: Mutex<HashMap<String, i64>>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys { known: Cache::new(10_000), used: Mutex::default() }
    }
}

impl Keys {
    pub async fn find(&self, db: &Db, secret: &str) -> Result<Arc<Known>, Error> {
        let hash = secret::hash(secret);
        match self.known.get(&hash) {
            Some(known) => Ok(known),
            None => self.load(db, secret).await,
        }
    }

    /// Reads a key from the store, whatever the cache says.
    pub async fn load(&self, db: &Db, secret: &str) -> Result<Arc<Known>, Error> {
        let hash = secret::hash(secret);
        self.known.remove(&hash);
        let prefix = prefix_of(secret).ok_or(Error::InvalidKey)?;
        let (known, kept) = store::find_key(db, prefix).await?.ok_or(Error::InvalidKey)?;
        if !secret::equal(&kept, &hash) {
            return Err(Error::InvalidKey);
        }
        let known = Arc::new(known);
        self.known.insert(hash, known.clone());
        Ok(known)
    }

    /// Notes that a key was used; [`Keys::flush`] brings it to the store.
    pub fn touch(&self, key: &Known, now: i64) {
        if now - key.noted.load(Ordering::Relaxed) < MINUTE {
            return;
        }
        key.noted.store(now, Ordering::Relaxed);
        if let Ok(mut used) = self.used.lock() {
            used.insert(key.id.clone(), now);
        }
    }

    pub async fn flush(&self, db: &Db) -> Result<(), DbError> {
        let used = self.used.lock().map(|mut used| std::mem::take(&mut *used)).unwrap_or_default();
        if used.is_empty() {
            return Ok(());
        }
        db.commit(store::touch_keys(&used)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_has_the_shape_that_keys_have() {
        let key = NewKey::make(&Clock::system(), "w", "n", Permission::FullAccess);
        assert!(key.secret.starts_with("re_"));
        assert_eq!(prefix_of(&key.secret), Some(key.prefix()));
        assert_eq!(key.prefix().len(), 11);
    }

    #[test]
    fn what_is_not_shaped_like_a_key_has_no_prefix() {
        for odd in
            ["", "re_", "re_short", "re_12345678_", "re_1234567é_x", "sk_12345678_12345678901234567890123456789012"]
        {
            assert_eq!(prefix_of(odd), None, "{odd}");
        }
    }
}
