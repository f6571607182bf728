//! API keys and the access revision in the store.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::credential::Source;
use super::jwt::Claims;
use super::key::{NewKey, Permission};
use super::scope::ScopeSet;
use crate::db::{Basis, Batch, Db, DbError, Sql, Stmt, from_row, from_word, statements};
use crate::id::{ApiKeyId, DomainId, GrantId, Id, WorkspaceId};

/// A key and the revision it is read under, in one look. One that was made
/// through a grant lasts as long as the grant's tokens would.
macro_rules! key {
    ($more:literal, $which:literal) => {
        concat!(
            "SELECT r.number",
            $more,
            " FROM api_keys k JOIN revisions r ON r.topic = 'access' WHERE ",
            $which,
            " AND (k.grant_id IS NULL OR EXISTS (
                 SELECT 1 FROM oauth_grants g
                 JOIN users u ON u.id = g.user_id AND u.disabled_at IS NULL
                 JOIN memberships m ON m.user_id = g.user_id AND m.workspace_id = g.workspace_id
                 JOIN oauth_clients c ON c.id = g.client_id AND c.disabled_at IS NULL
                 WHERE g.id = k.grant_id AND g.revoked_at IS NULL))"
        )
    };
}

statements! {
    functions {
        pub fn insert_key(key: &NewKey)
            with [key.id, key.workspace_id, &key.name, key.permission.as_str(), key.prefix(),
                &crate::secret::hash(&key.secret), key.grant_id, key.created_at, key.domain_id] = Sql::both(
            "INSERT INTO api_keys (id, workspace_id, name, permission, prefix, hash, grant_id, created_at, domain_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
        /// Something was taken away from somebody: what was decided before is decided again.
        pub fn raise_access() expects 1 = Sql::both(
            "UPDATE revisions SET number = number + 1 WHERE topic = 'access'").raising();
        /// A fence for what outlives the grant that it is made through.
        pub fn grant_stands(grant_id: GrantId) = Sql::each(
            "SELECT 1 FROM oauth_grants WHERE id = $1 AND revoked_at IS NULL",
            "SELECT 1 FROM oauth_grants WHERE id = $1 AND revoked_at IS NULL FOR SHARE");
        /// The ids of all signing keys and what is kept of them.
        pub fn all_signing_keys() = Sql::both("SELECT id, private_key FROM signing_keys ORDER BY id DESC LIMIT 1000");
        /// Keeps a signing key otherwise, unless somebody did so meanwhile.
        pub(super) fn reseal_signing_key(id: &str, kept: &[u8], now_kept: &[u8]) = Sql::both(
            "UPDATE signing_keys SET private_key = $3 WHERE id = $1 AND private_key = $2");
        fn key_stands(id: ApiKeyId) = Sql::both(key!("", "k.id = $1"));
        fn touch_key(id: ApiKeyId, now: i64) = Sql::both(
            "UPDATE api_keys SET last_used_at = $2
             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)");
        fn touch_grant(id: GrantId, now: i64) = Sql::both(
            "UPDATE oauth_grants SET last_used_at = $2
             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)");
        fn retire_signing_keys(now: i64) = Sql::both(
            "UPDATE signing_keys SET retired_at = $1 WHERE retired_at IS NULL");
        fn insert_signing_key(id: &str, private_key: &[u8], now: i64) = Sql::both(
            "INSERT INTO signing_keys (id, private_key, created_at) VALUES ($1, $2, $3)");
    }
    reads {
        /// A key by its prefix, and the revision it is read under.
        pub(super) fn find_key(prefix: &str) -> Option<(i64, Found)> = Sql::both(
            key!(", k.id, k.workspace_id, k.permission, k.hash, k.grant_id, k.domain_id", "k.prefix = $1"));
        fn keys_behind(id: Uuid) -> Vec<Listed> = Sql::both(
            "SELECT k.id, k.name, k.permission, k.prefix, k.created_at, k.last_used_at, w.name FROM api_keys k
             JOIN workspaces w ON w.id = k.workspace_id WHERE k.id > $1 ORDER BY k.id LIMIT 1000");
        pub(super) fn signing_keys(retired_after: i64) -> Vec<StoredKey> = Sql::both(
            "SELECT id, private_key, created_at, retired_at FROM signing_keys
             WHERE retired_at IS NULL OR retired_at > $1 ORDER BY id DESC");
    }
    DELETE_KEY = Sql::both("DELETE FROM api_keys WHERE id = $1").raising();
    DELETE_KEYS_OF_DOMAIN = Sql::both("DELETE FROM api_keys WHERE domain_id = $1").raising();
    FIND_TOKEN_GRANT = Sql::both(
        "SELECT r.number, g.workspace_id, g.scopes FROM oauth_grants g
         JOIN revisions r ON r.topic = 'access'
         JOIN users u ON u.id = g.user_id AND u.disabled_at IS NULL
         JOIN memberships m ON m.user_id = g.user_id AND m.workspace_id = g.workspace_id
         JOIN oauth_clients c ON c.id = g.client_id AND c.disabled_at IS NULL
         WHERE g.id = $1 AND g.client_id = $2 AND g.revoked_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM revoked_tokens t WHERE t.id = $3)");
    ACCESS_IS = Sql::both("SELECT 1 FROM revisions WHERE topic = 'access' AND number = $1");
}

/// A key as the store keeps it.
pub(super) struct Found {
    pub id: ApiKeyId,
    pub workspace_id: WorkspaceId,
    pub permission: Permission,
    pub hash: Vec<u8>,
    pub grant_id: Option<GrantId>,
    pub domain_id: Option<DomainId>,
}

from_row!(Found { id, workspace_id, permission, hash, grant_id, domain_id });
from_word!(Permission);

impl Found {
    /// What it rests on, where it was read under this revision.
    pub fn basis(&self, revision: i64) -> Arc<Basis> {
        access(key_stands(self.id), revision)
    }
}

/// A key as a list shows it.
pub struct Listed {
    pub id: ApiKeyId,
    pub name: String,
    pub permission: String,
    pub prefix: String,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub workspace: String,
}

from_row!(Listed { id, name, permission, prefix, created_at, last_used_at, workspace });

pub async fn keys(db: &Db) -> Result<Vec<Listed>, DbError> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let page = keys_behind(db, all.last().map_or(Uuid::nil(), |last| last.id.uuid())).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Deletes a key everywhere at once: every process finds its cache out of date.
pub fn delete_key(id: ApiKeyId) -> Batch {
    Batch::new().and(DELETE_KEY.with([id.into()]).expect(1)).and(raise_access())
}

/// Deletes the keys that are held to a domain, everywhere at once.
pub fn delete_keys_of_domain(domain_id: DomainId) -> Batch {
    Batch::new().and(DELETE_KEYS_OF_DOMAIN.with([domain_id.into()])).and(raise_access())
}

/// Notes the last use of keys and grants.
pub(super) fn touch(used: &HashMap<Source, i64>) -> Batch {
    let note = |(source, now): (&Source, &i64)| match source {
        Source::Key(id) => touch_key(*id, *now),
        Source::Grant(id) => touch_grant(*id, *now),
    };
    used.iter().map(note).collect()
}

/// What an entry rests on that was read under a revision. Where something was
/// taken away from somebody since, `particular` tells whether the entry stands
/// all the same: it then finds the revision of that moment.
pub fn access(particular: Stmt, revision: i64) -> Arc<Basis> {
    Basis::new(ACCESS_IS, particular, revision)
}

/// A signing key as the store keeps it.
pub(super) struct StoredKey {
    pub id: String,
    pub private_key: Vec<u8>,
    pub created_at: i64,
    pub retired_at: Option<i64>,
}

from_row!(StoredKey { id, private_key, created_at, retired_at });

/// A new key to sign with; those before it sign nothing more.
pub fn new_signing_key(id: &str, private_key: &[u8], now: i64) -> Batch {
    Batch::from(retire_signing_keys(now)).and(insert_signing_key(id, private_key, now))
}

/// What is known of the grant of a token.
pub(super) struct TokenGrant {
    pub workspace_id: WorkspaceId,
    pub scopes: ScopeSet,
    pub basis: Arc<Basis>,
}

/// A grant that still stands, for a token that was not given back.
pub(super) async fn find_token_grant(db: &Db, claims: &Claims) -> Result<Option<TokenGrant>, DbError> {
    let find = FIND_TOKEN_GRANT.with([claims.grant.into(), (&claims.client_id).into(), claims.jti.into()]);
    let found: Option<(i64, WorkspaceId, ScopeSet)> = db.query(find.clone()).await?;
    Ok(found.map(|(revision, workspace_id, scopes)| TokenGrant { workspace_id, scopes, basis: access(find, revision) }))
}
