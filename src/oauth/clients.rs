//! The clients in use, cached like API keys: an entry is good under the
//! revision it was read under.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::client::Client;
use super::store;
use crate::auth::store::access_is;
use crate::db::{Db, DbError};

pub struct Known {
    pub client: Client,
    pub secret_hash: Option<Vec<u8>>,
    pub revision: i64,
}

pub struct Clients {
    known: Cache<String, Arc<Known>>,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients { known: Cache::new(10_000) }
    }
}

impl Clients {
    pub async fn find(&self, db: &Db, id: &str) -> Result<Option<Arc<Known>>, DbError> {
        match self.known.get(id) {
            Some(known) => Ok(Some(known)),
            None => self.load(db, id).await,
        }
    }

    /// The client as it is now, for those who act on it without a commit that
    /// would notice a change.
    pub async fn current(&self, db: &Db, id: &str) -> Result<Option<Arc<Known>>, DbError> {
        if let Some(known) = self.known.get(id)
            && !db.read(access_is(known.revision)).await?.is_empty()
        {
            return Ok(Some(known));
        }
        self.load(db, id).await
    }

    /// Reads a client from the store, whatever the cache says.
    pub async fn load(&self, db: &Db, id: &str) -> Result<Option<Arc<Known>>, DbError> {
        self.known.remove(id);
        let known = store::find_client(db, id).await?.map(Arc::new);
        if let Some(known) = &known {
            self.known.insert(id.to_owned(), known.clone());
        }
        Ok(known)
    }
}
