//! The keys that sign access tokens: made at need, published, rotated.

use std::sync::{Arc, RwLock};

use serde_json::Value;
use uuid::Uuid;

use super::jwt::{self, Claims, SigningKey};
use super::store;
use crate::clock::{Clock, HOUR, MINUTE, SECOND};
use crate::db::{Db, DbError};
use crate::error::Error;
use crate::seal::Seal;
use crate::secret;

/// How long an access token lives, in seconds.
pub const TOKEN_LIFETIME: i64 = 900;

/// A key signs for so long; then a new one takes over.
const KEY_LIFETIME: i64 = 90 * 24 * HOUR;

/// A retired key is believed until every token that it signed has expired, and
/// a little longer for clocks that disagree.
const BELIEVED_AFTER: i64 = 2 * TOKEN_LIFETIME * SECOND;

/// For how long a process may sign without looking whether its key was retired.
const SIGNS_UNSEEN: i64 = MINUTE;

/// How often tokens that name an unknown key may make us look for new keys.
const RELOAD: i64 = SECOND;

/// Sees to it that every signing key is kept as it would be kept today. Tells how
/// many cannot be opened.
pub async fn reseal(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    let mut unopened = 0;
    for (id, kept) in db.query::<Vec<(String, Vec<u8>)>>(store::all_signing_keys()).await? {
        match seal.open(&kept) {
            None => unopened += 1,
            Some(key) if seal.has_key() && !seal.is_current(&kept) => {
                db.commit(store::reseal_signing_key(&id, &kept, &seal.close(&key))).await?;
            }
            Some(_) => {}
        }
    }
    Ok(unopened)
}

/// The keys as this process knows them; the store is looked at again when a
/// token names one that is not among them.
#[derive(Default)]
pub struct Signing {
    ring: RwLock<Arc<Ring>>,
    seal: Arc<Seal>,
}

#[derive(Default)]
struct Ring {
    /// Newest first.
    keys: Vec<Arc<Held>>,
    loaded_at: i64,
}

struct Held {
    key: SigningKey,
    created_at: i64,
    retired_at: Option<i64>,
}

impl Signing {
    pub fn new(seal: Arc<Seal>) -> Signing {
        Signing { ring: RwLock::default(), seal }
    }

    /// Lets a new key sign from now on, and tells its id; what the old ones
    /// signed is believed until it expires. Other processes notice within a
    /// minute.
    pub async fn rotate(&self, db: &Db, clock: &Clock) -> Result<String, DbError> {
        let (id, key) = (clock.ordered_id::<Uuid>().to_string(), self.seal.close(&SigningKey::generate()));
        db.commit(store::new_signing_key(&id, &key, clock.now())).await?;
        Ok(id)
    }

    /// Whether every key in use can be opened here. If not, another process has
    /// another secret, and could not open a key that is sealed here.
    pub async fn fits(&self, db: &Db, clock: &Clock) -> Result<bool, DbError> {
        let keys = store::signing_keys(db, clock.now() - BELIEVED_AFTER).await?;
        Ok(keys.iter().all(|row| self.seal.open(&row.private_key).is_some()))
    }

    pub async fn sign(&self, db: &Db, clock: &Clock, claims: &Claims) -> Result<String, Error> {
        let now = clock.now();
        let current = |ring: &Ring| {
            let fresh = |held: &&Arc<Held>| held.retired_at.is_none() && now - held.created_at < KEY_LIFETIME;
            ring.keys.iter().find(fresh).cloned()
        };
        let known = self.snapshot();
        let held = match current(&known).filter(|_| (now - known.loaded_at).abs() < SIGNS_UNSEEN) {
            Some(held) => held,
            None => {
                let mut ring = self.load(db, now).await?;
                if current(&ring).is_none() {
                    self.rotate(db, clock).await?;
                    ring = self.load(db, now).await?;
                }
                current(&ring).ok_or(Error::Internal)?
            }
        };
        held.key.sign(claims).ok_or(Error::Internal)
    }

    /// Secrets for one purpose that all processes on the store share: the first for what is made
    /// now, and those of before for what was made within `memory`.
    pub async fn secrets_for(
        &self,
        (db, clock): (&Db, &Clock),
        purpose: &str,
        memory: i64,
    ) -> Result<Vec<[u8; 32]>, DbError> {
        let since = clock.now() - memory;
        let mut keys = store::signing_keys(db, since).await?;
        if keys.is_empty() {
            self.rotate(db, clock).await?;
            keys = store::signing_keys(db, since).await?;
        }
        let opened = keys.iter().filter_map(|row| self.seal.open(&row.private_key));
        Ok(opened.map(|key| secret::hash_bytes(&[purpose.as_bytes(), b"\0", &key].concat())).collect())
    }

    /// The claims of a token that one of our keys signed.
    pub async fn verify(&self, db: &Db, clock: &Clock, token: &str) -> Result<Claims, Error> {
        let id = jwt::key_id(token).ok_or(Error::InvalidToken)?;
        let now = clock.now();
        let mut ring = self.snapshot();
        if !ring.keys.iter().any(|held| held.key.id == id) && (now - ring.loaded_at).abs() >= RELOAD {
            ring = self.load(db, now).await?;
        }
        let held = ring.keys.iter().find(|held| held.key.id == id).ok_or(Error::InvalidToken)?;
        if held.retired_at.is_some_and(|retired| now - retired > BELIEVED_AFTER) {
            return Err(Error::InvalidToken);
        }
        held.key.verify(token).ok_or(Error::InvalidToken)
    }

    /// The public keys, for `jwks_uri`.
    pub async fn published(&self, db: &Db, clock: &Clock) -> Result<Vec<Value>, Error> {
        let now = clock.now();
        let ring = self.load(db, now).await?;
        let believed = |held: &&Arc<Held>| held.retired_at.is_none_or(|retired| now - retired <= BELIEVED_AFTER);
        Ok(ring.keys.iter().filter(believed).map(|held| held.key.public()).collect())
    }

    fn snapshot(&self) -> Arc<Ring> {
        self.ring.read().map(|ring| ring.clone()).unwrap_or_default()
    }

    async fn load(&self, db: &Db, now: i64) -> Result<Arc<Ring>, DbError> {
        let mut keys = Vec::new();
        for row in store::signing_keys(db, now - BELIEVED_AFTER).await? {
            let key = self.seal.open(&row.private_key).and_then(|key| SigningKey::load(row.id.clone(), &key));
            let Some(key) = key else {
                // Another process has another --secret: its tokens are not believed here.
                tracing::warn!(key = row.id, "a signing key was sealed with another secret or key file");
                continue;
            };
            keys.push(Arc::new(Held { key, created_at: row.created_at, retired_at: row.retired_at }));
        }
        let ring = Arc::new(Ring { keys, loaded_at: now });
        if let Ok(mut held) = self.ring.write() {
            *held = ring.clone();
        }
        Ok(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, Store};

    fn claims() -> Claims {
        let text = || "x".to_owned();
        let (iat, exp) = (0, 900);
        Claims {
            iss: text(),
            aud: text(),
            sub: Uuid::nil().into(),
            client_id: text(),
            scope: text(),
            jti: Uuid::nil().into(),
            iat,
            exp,
            grant: Uuid::nil().into(),
        }
    }

    #[tokio::test]
    async fn case_345_a_retired_key_signs_nothing_within_a_minute_and_is_believed_until_its_tokens_expire() {
        for store in Store::each().await {
            let clock = Clock::fixed(NOW);
            let app = store.open(&[], clock.clone()).await;
            let signing = Signing::default();
            let first = signing.sign(&app.db, &clock, &claims()).await.expect("a token");
            let elsewhere = Signing::default();
            assert!(elsewhere.fits(&app.db, &clock).await.expect("a look"));
            elsewhere.rotate(&app.db, &clock).await.expect("a key");
            clock.advance(SIGNS_UNSEEN);
            let second = signing.sign(&app.db, &clock, &claims()).await.expect("a token");
            assert_ne!(jwt::key_id(&first), jwt::key_id(&second));
            clock.advance(TOKEN_LIFETIME * SECOND);
            assert!(signing.verify(&app.db, &clock, &first).await.is_ok());
            let published = signing.published(&app.db, &clock).await.expect("keys");
            assert_eq!(published.len(), 2);
            clock.advance(BELIEVED_AFTER);
            assert!(signing.verify(&app.db, &clock, &first).await.is_err());
            assert!(signing.verify(&app.db, &clock, &second).await.is_ok());
            drop(app);
            store.discard().await;
        }
    }
}
