//! The definition of a name that is in force, cached. Whoever uses what is
//! cached guards his commit with it.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::payload::Types;
use super::store::{self, Stored};
use crate::db::{Db, DbError, Stmt};

/// What is known of a name.
pub struct InForce {
    pub types: Types,
    pub is_defined: bool,
    guard: Stmt,
}

impl InForce {
    /// Holds as long as the name means the same.
    pub fn guard(&self) -> Stmt {
        self.guard.clone()
    }
}

pub struct Definitions {
    known: Cache<String, Arc<InForce>>,
}

impl Default for Definitions {
    fn default() -> Definitions {
        Definitions { known: Cache::new(10_000) }
    }
}

impl Definitions {
    pub async fn of(&self, db: &Db, workspace_id: &str, name: &str) -> Result<Arc<InForce>, DbError> {
        let key = key(workspace_id, name);
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let found = db.read(store::by_name(workspace_id, name)).await?;
        let found = found.first().map(Stored::read).transpose()?;
        let in_force = Arc::new(InForce {
            types: Types::of(found.as_ref().and_then(|stored| stored.schema.as_deref())),
            is_defined: found.is_some(),
            guard: match &found {
                Some(stored) => store::is_in_force(workspace_id, stored),
                None => store::is_undefined(workspace_id, name),
            },
        });
        self.known.insert(key, in_force.clone());
        Ok(in_force)
    }

    /// What is known turned out to be old.
    pub fn forget(&self, workspace_id: &str, name: &str) {
        self.known.remove(&key(workspace_id, name));
    }
}

fn key(workspace_id: &str, name: &str) -> String {
    [workspace_id, name].concat()
}
