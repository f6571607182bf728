//! Whoever reads and changes what a workspace has: a program with a credential, or a person with a form. What a
//! request and a page have in common is written once, for both.

use std::future::Future;

use super::caller::{Caller, Need};
use crate::db::{Batch, Db, DbError, Effect, FromRows, Row, Stmt};
use crate::error::Error;
use crate::id::WorkspaceId;

/// How often a batch is tried that is stale for a reason that is not the actor's.
const ATTEMPTS: usize = 4;

/// What came of a commit: what the store says, where the actor may still do this.
pub type Settled = Result<Result<Vec<Effect>, DbError>, Error>;

pub trait Actor: Sync {
    fn workspace_id(&self) -> WorkspaceId;

    fn rows(&self, stmt: Stmt) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// Commits a batch once, if the actor may still do so. One that is stale for another reason has to be prepared
    /// anew.
    fn settle(&self, batch: Batch) -> impl Future<Output = Settled> + Send;

    /// As [`Actor::rows`], and makes of the rows what is wanted.
    fn found<R: FromRows>(&self, stmt: Stmt) -> impl Future<Output = Result<R, Error>> + Send {
        async { Ok(R::from_rows(&self.rows(stmt).await?)?) }
    }

    /// Commits a batch that needs no other preparation.
    fn act(&self, batch: Batch) -> impl Future<Output = Settled> + Send {
        async move {
            for _ in 0..ATTEMPTS {
                match self.settle(batch.clone()).await? {
                    Err(DbError::Stale) => {}
                    settled => return Ok(settled),
                }
            }
            Err(Error::Unavailable)
        }
    }
}

impl<N: Need> Actor for Caller<N> {
    fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id()
    }

    async fn rows(&self, stmt: Stmt) -> Result<Vec<Row>, Error> {
        self.read(|| stmt.clone()).await
    }

    async fn settle(&self, batch: Batch) -> Settled {
        self.commit_once(batch).await
    }
}

/// Whoever has the store itself in hand, at work in one workspace: a command.
pub struct Operator<'a> {
    pub db: &'a Db,
    pub workspace_id: WorkspaceId,
}

impl Actor for Operator<'_> {
    fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id
    }

    async fn rows(&self, stmt: Stmt) -> Result<Vec<Row>, Error> {
        Ok(self.db.read(stmt).await?)
    }

    async fn settle(&self, batch: Batch) -> Settled {
        Ok(self.db.commit(batch).await)
    }
}
