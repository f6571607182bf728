//! The definition of a name that is in force, cached. Whoever uses what is
//! cached guards the commit with it.

use std::sync::Arc;

use super::payload::Types;
use super::store::{self, Stored};
use crate::db::{Db, DbError, Stmt};
use crate::id::WorkspaceId;
use crate::memory::{Held, Room, WeighedCache, weighed_cache};

/// How much is remembered of names and their types.
const KEPT: Room = Room { values: 10_000, bytes: 16 << 20, largest: 256 << 10 };

/// What is known of a name.
pub struct InForce {
    pub types: Types,
    pub is_defined: bool,
    guard: Option<Stmt>,
    /// How long the name is.
    length: usize,
}

impl InForce {
    /// Holds as long as the name means the same. None where that is what it meant at
    /// a moment that has passed.
    pub fn guard(&self) -> Option<Stmt> {
        self.guard.clone()
    }
}

impl Held for InForce {
    fn held(&self) -> u64 {
        // The key has the name, and so has the guard.
        self.types.held() + 2 * self.length as u64
    }
}

pub struct Definitions {
    known: WeighedCache<(WorkspaceId, String), InForce>,
}

impl Default for Definitions {
    fn default() -> Definitions {
        Definitions { known: weighed_cache(&KEPT) }
    }
}

impl Definitions {
    pub async fn of(&self, db: &Db, workspace_id: WorkspaceId, name: &str) -> Result<Arc<InForce>, DbError> {
        let key = key(workspace_id, name);
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let in_force = Arc::new(load(db, workspace_id, name).await?);
        self.known.insert(key, in_force.clone());
        Ok(in_force)
    }

    /// What the name means at this moment, for one commit without a guard: where a
    /// name is defined over and over, that is as if the event had happened then.
    pub async fn of_this_moment(
        &self,
        db: &Db,
        workspace_id: WorkspaceId,
        name: &str,
    ) -> Result<Arc<InForce>, DbError> {
        Ok(Arc::new(InForce { guard: None, ..load(db, workspace_id, name).await? }))
    }

    /// What is known turned out to be old.
    pub fn forget(&self, workspace_id: WorkspaceId, name: &str) {
        self.known.remove(&key(workspace_id, name));
    }
}

async fn load(db: &Db, workspace_id: WorkspaceId, name: &str) -> Result<InForce, DbError> {
    let found: Option<Stored> = db.query(store::by_name(workspace_id, name)).await?;
    Ok(InForce {
        types: Types::of(found.as_ref().and_then(|stored| stored.schema.as_deref())),
        is_defined: found.is_some(),
        guard: Some(match &found {
            Some(stored) => store::is_in_force(workspace_id, stored),
            None => store::is_undefined(workspace_id, name),
        }),
        length: name.len(),
    })
}

fn key(workspace_id: WorkspaceId, name: &str) -> (WorkspaceId, String) {
    (workspace_id, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_counts_the_names() {
        let (definitions, workspace_id) = (Definitions::default(), uuid::Uuid::nil().into());
        let mut most = 0;
        for number in 0..20_000 {
            let name = format!("{number:01024}");
            let guard = Some(store::is_undefined(workspace_id, &name));
            let in_force = InForce { types: Types::default(), is_defined: false, guard, length: name.len() };
            definitions.known.insert(key(workspace_id, &name), Arc::new(in_force));
            most = most.max(2 * 1024 * definitions.known.len() as u64);
        }
        assert!(most > KEPT.bytes / 2 && most <= KEPT.bytes, "{most} bytes of names");
    }
}
