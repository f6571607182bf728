//! What callers show: API keys and access tokens, cached.
//!
//! An entry stays good as long as what it rests on does: whoever uses an entry
//! guards the statement with that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use quick_cache::sync::Cache;

use super::key::prefix_of;
use super::scope::ScopeSet;
use super::signing::Signing;
use super::store;
use crate::clock::{Clock, MINUTE, SECOND};
use crate::db::{Basis, Db, DbError, Guard};
use crate::error::Error;
use crate::id::{ApiKeyId, DomainId, GrantId, WorkspaceId};
use crate::seal::Seal;
use crate::secret;

/// Where credentials are looked up, at what time, and for the API at which address.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    pub db: &'a Db,
    pub clock: &'a Clock,
    pub base: &'a str,
}

/// Where a credential comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    Key(ApiKeyId),
    Grant(GrantId),
}

/// What is known of a credential in use, and what that rests on.
#[derive(Debug)]
pub struct Known {
    pub source: Source,
    pub workspace_id: WorkspaceId,
    pub scopes: ScopeSet,
    /// The grant that it comes from: a token directly, a key by what made it.
    pub grant_id: Option<GrantId>,
    /// The only domain that it may send from, if it is held to one.
    pub domain_id: Option<DomainId>,
    basis: Arc<Basis>,
    /// When a token ends; keys do not.
    expires_at: Option<i64>,
    /// When its last use was last noted, so that a busy one is not noted each time.
    noted: AtomicI64,
}

impl Known {
    /// Holds as long as the credential stands.
    pub fn guard(&self) -> Guard {
        self.basis.guard()
    }
}

pub struct Credentials {
    known: Cache<[u8; 32], Arc<Known>>,
    pub signing: Signing,
    /// When credentials were last used, on the way to the store.
    used: Mutex<HashMap<Source, i64>>,
}

impl Credentials {
    pub fn new(seal: Arc<Seal>) -> Credentials {
        Credentials { known: Cache::new(20_000), signing: Signing::new(seal), used: Mutex::default() }
    }

    pub async fn find(&self, at: Lookup<'_>, secret: &str) -> Result<Arc<Known>, Error> {
        let hash = secret::hash(secret);
        match self.known.get(&hash) {
            Some(known) if known.expires_at.is_none_or(|expiry| at.clock.now() < expiry) => Ok(known),
            // Apart, because few take this way, and every request would hold room for it.
            _ => Box::pin(self.load(at, secret)).await,
        }
    }

    /// What is known of a credential from before.
    pub fn cached(&self, secret: &str) -> Option<Arc<Known>> {
        self.known.get(&secret::hash(secret))
    }

    /// Refuses a credential that is known from before and stands no longer.
    pub async fn confirm(&self, at: Lookup<'_>, secret: &str) -> Result<(), Error> {
        let Some(known) = self.known.get(&secret::hash(secret)) else { return Ok(()) };
        match at.db.holds(&known.guard()).await? {
            true => Ok(()),
            false => self.load(at, secret).await.map(drop),
        }
    }

    /// Reads a credential from the store, whatever the cache says.
    pub async fn load(&self, at: Lookup<'_>, secret: &str) -> Result<Arc<Known>, Error> {
        let hash = secret::hash(secret);
        self.known.remove(&hash);
        let known = match looks_like_token(secret) {
            true => self.load_token(at, secret).await?,
            false => load_key(at, secret, &hash).await?,
        };
        let known = Arc::new(known);
        self.known.insert(hash, known.clone());
        Ok(known)
    }

    async fn load_token(&self, at: Lookup<'_>, token: &str) -> Result<Known, Error> {
        let claims = self.signing.verify(at.db, at.clock, token).await?;
        let base = at.base;
        let expires_at = claims.exp.saturating_mul(SECOND);
        if claims.iss != base || claims.aud != base || at.clock.now() >= expires_at {
            return Err(Error::InvalidToken);
        }
        let grant = store::find_token_grant(at.db, &claims).await?.ok_or(Error::InvalidToken)?;
        let claimed = ScopeSet::parse(&claims.scope).map_err(|_| Error::InvalidToken)?;
        Ok(Known {
            grant_id: Some(claims.grant),
            domain_id: None,
            source: Source::Grant(claims.grant),
            workspace_id: grant.workspace_id,
            scopes: claimed.intersection(grant.scopes),
            basis: grant.basis,
            expires_at: Some(expires_at),
            noted: AtomicI64::new(0),
        })
    }

    /// Notes that a credential was used; [`Credentials::flush`] brings it to the store.
    pub fn touch(&self, known: &Known, now: i64) {
        if now - known.noted.load(Ordering::Relaxed) < MINUTE {
            return;
        }
        known.noted.store(now, Ordering::Relaxed);
        if let Ok(mut used) = self.used.lock() {
            used.insert(known.source, now);
        }
    }

    pub async fn flush(&self, db: &Db) -> Result<(), DbError> {
        let used = self.used.lock().map(|mut used| std::mem::take(&mut *used)).unwrap_or_default();
        if used.is_empty() {
            return Ok(());
        }
        db.commit(store::touch(&used)).await.map(drop)
    }
}

async fn load_key(at: Lookup<'_>, secret: &str, hash: &[u8; 32]) -> Result<Known, Error> {
    let prefix = prefix_of(secret).ok_or(Error::InvalidKey)?;
    let (revision, found) = store::find_key(at.db, prefix).await?.ok_or(Error::InvalidKey)?;
    if !secret::equal(&found.hash, hash) {
        return Err(Error::InvalidKey);
    }
    Ok(Known {
        grant_id: found.grant_id,
        domain_id: found.domain_id,
        source: Source::Key(found.id),
        workspace_id: found.workspace_id,
        scopes: found.permission.scopes(),
        basis: found.basis(revision),
        expires_at: None,
        noted: AtomicI64::new(0),
    })
}

/// Access tokens are JWTs, three parts between dots; keys start with `re_` and
/// hold no dot.
fn looks_like_token(credential: &str) -> bool {
    !credential.starts_with("re_") && credential.split('.').count() == 3
}
