//! API keys: `re_` keys that belong to a workspace and are kept as hashes.

use clap::ValueEnum;

use crate::clock::Clock;
use crate::db::DbError;
use crate::oauth::scope::{Scope, ScopeSet};
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

    /// What a key may do, in the words of scopes.
    pub(super) fn scopes(self) -> ScopeSet {
        match self {
            Permission::FullAccess => Scope::FullAccess.into(),
            Permission::SendingAccess => Scope::EmailsSend.into(),
        }
    }
}

/// A key as it is shown once: everything the store keeps, and the secret itself.
pub struct NewKey {
    pub id: String,
    pub workspace_id: String,
    pub name: String,
    pub permission: Permission,
    pub secret: String,
    /// The grant it is made through, with which it will die.
    pub grant_id: Option<String>,
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
            grant_id: None,
            created_at: clock.now(),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        prefix_of(&self.secret).unwrap_or_default()
    }
}

/// The readable part of a key, `re_` and eight letters, if it is shaped like one.
pub(super) fn prefix_of(secret: &str) -> Option<&str> {
    let rest = secret.strip_prefix("re_")?;
    let (public, private) = rest.split_once('_')?;
    let lettered = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (lettered(public, 8) && lettered(private, 32)).then(|| &secret[..11])
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
