//! The clients in use, cached like API keys: an entry is good as long as what it
//! rests on is.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::client::Client;
use super::store;
use crate::db::{Basis, Db, DbError, Guard};
use crate::id::WorkspaceId;

pub struct Known {
    pub client: Client,
    pub secret_hash: Option<Vec<u8>>,
    /// On whose page it stands. That never changes.
    pub(super) workspace_id: Option<WorkspaceId>,
    pub(super) basis: Arc<Basis>,
}

impl Known {
    /// Holds as long as the client is what is known of it.
    pub fn guard(&self) -> Guard {
        self.basis.guard()
    }
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

    /// Forgets a client that has changed since it was read. `false` when what is
    /// known of it is as good as new.
    pub async fn forget_if_old(&self, db: &Db, id: &str) -> Result<bool, DbError> {
        let Some(known) = self.known.get(id) else { return Ok(false) };
        let old = !db.holds(&known.guard()).await?;
        if old {
            self.known.remove(id);
        }
        Ok(old)
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
