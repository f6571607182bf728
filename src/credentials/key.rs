//! API keys: `re_` keys that belong to a workspace and are kept as hashes.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;
use utoipa::ToSchema;

use super::scope::{Scope, ScopeSet};
use crate::clock::Clock;
use crate::id::{ApiKeyId, DomainId, GrantId, WorkspaceId};
use crate::secret;
use crate::text::words;

words! {
    /// What a key may do.
    #[derive(ValueEnum, Deserialize, ToSchema, Debug, Clone, Copy, PartialEq, Eq)]
    #[value(rename_all = "snake_case")]
    #[serde(rename_all = "snake_case")]
    pub enum Permission: ALL, parse {
        /// Every route
        FullAccess = "full_access",
        /// Only the routes that send mail
        SendingAccess = "sending_access",
    }
}

impl Permission {
    /// What a key may do, in the words of scopes.
    pub(super) fn scopes(self) -> ScopeSet {
        match self {
            Permission::FullAccess => Scope::FullAccess.into(),
            Permission::SendingAccess => Scope::EmailsSend.into(),
        }
    }
}

/// What people call a key. One line, and not only spaces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    as = ApiKeyName,
    min_length = 1,
    max_length = 200,
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    example = "web shop"
)]
pub struct KeyName(String);

impl KeyName {
    pub const LONGEST: usize = 200;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = String;

    fn from_str(given: &str) -> Result<KeyName, String> {
        let name = given.trim();
        // Both are asked of what was given, as the API's description says it.
        let fits = given.chars().count() <= KeyName::LONGEST && !given.chars().any(char::is_control);
        if name.is_empty() || !fits {
            return Err(format!("allowed is a name of 1 to {} characters on one line", KeyName::LONGEST));
        }
        Ok(KeyName(name.to_owned()))
    }
}

impl TryFrom<String> for KeyName {
    type Error = String;

    fn try_from(given: String) -> Result<KeyName, String> {
        given.parse().map_err(|_| format!("must be one line of 1 to {} characters", KeyName::LONGEST))
    }
}

/// A key as it is shown once: everything the store keeps, and the secret itself.
pub struct NewKey {
    pub id: ApiKeyId,
    pub workspace_id: WorkspaceId,
    pub name: String,
    pub permission: Permission,
    pub secret: String,
    /// The grant it is made through, with which it will die.
    pub grant_id: Option<GrantId>,
    /// The only domain that it may send from, with which it will die.
    pub domain_id: Option<DomainId>,
    pub created_at: i64,
}

impl NewKey {
    pub fn make(clock: &Clock, workspace_id: WorkspaceId, name: &str, permission: Permission) -> NewKey {
        NewKey {
            id: clock.ordered_id(),
            workspace_id,
            name: name.into(),
            permission,
            secret: format!("re_{}_{}", secret::letters(8), secret::letters(32)),
            grant_id: None,
            domain_id: None,
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
        let key = NewKey::make(&Clock::system(), uuid::Uuid::nil().into(), "n", Permission::FullAccess);
        assert!(key.secret.starts_with("re_"));
        assert_eq!(prefix_of(&key.secret), Some(key.prefix()));
        assert_eq!(key.prefix().len(), 11);
    }

    #[test]
    fn a_name_is_one_line_of_a_bounded_length() {
        assert_eq!(" web shop ".parse::<KeyName>().expect("a name").as_str(), "web shop");
        assert!("é".repeat(200).parse::<KeyName>().is_ok());
        for bad in ["", "  ", "a\nb", "a\0b", &"x".repeat(201)] {
            assert!(bad.parse::<KeyName>().is_err(), "{bad:?}");
        }
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
