//! Who acts in a workspace, whichever way: what programs and people do alike is written once, for both.

use super::caller::{Caller, Need};
use crate::db::{Batch, Db, DbError, Effect, FromRows, Row, Stmt};
use crate::error::Error;
use crate::id::{DomainId, GrantId, WorkspaceId};

/// What became of a commit, as far as it could be tried at all.
pub type Settled = Result<Result<Vec<Effect>, DbError>, Error>;

/// A program with a credential, or a person with a form. What is read and written is so only while that stands.
pub trait Actor: Sync {
    fn workspace_id(&self) -> WorkspaceId;

    /// The grant that it acts under, if any.
    fn grant_id(&self) -> Option<GrantId>;

    /// The only domain that it may send from, if it is held to one.
    fn domain_id(&self) -> Option<DomainId>;

    fn read(&self, stmt: impl Fn() -> Stmt + Send) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// Reads, and makes of the rows what is wanted.
    fn query<R: FromRows>(&self, stmt: impl Fn() -> Stmt + Send) -> impl Future<Output = Result<R, Error>> + Send {
        async move { Ok(R::from_rows(&self.read(stmt).await?)?) }
    }

    /// Commits what `batch` makes.
    fn try_commit(&self, batch: impl Fn() -> Batch + Send) -> impl Future<Output = Settled> + Send;

    fn rows(&self, stmt: Stmt) -> impl Future<Output = Result<Vec<Row>, Error>> + Send {
        self.read(move || stmt.clone())
    }

    /// As [`Actor::rows`], and makes of the rows what is wanted.
    fn found<R: FromRows>(&self, stmt: Stmt) -> impl Future<Output = Result<R, Error>> + Send {
        self.query(move || stmt.clone())
    }

    /// Commits a batch that needs no other preparation.
    fn act(&self, batch: Batch) -> impl Future<Output = Settled> + Send {
        self.try_commit(move || batch.clone())
    }

    fn settle(&self, batch: Batch) -> impl Future<Output = Settled> + Send {
        self.commit_once(batch)
    }

    /// The same, once: a batch that is stale for another reason has to be prepared anew.
    fn commit_once(&self, batch: Batch) -> impl Future<Output = Settled> + Send;
}

impl<N: Need> Actor for Caller<N> {
    fn workspace_id(&self) -> WorkspaceId {
        Caller::workspace_id(self)
    }

    fn grant_id(&self) -> Option<GrantId> {
        Caller::grant_id(self)
    }

    fn domain_id(&self) -> Option<DomainId> {
        Caller::domain_id(self)
    }

    async fn read(&self, stmt: impl Fn() -> Stmt + Send) -> Result<Vec<Row>, Error> {
        Caller::read(self, stmt).await
    }

    async fn try_commit(&self, batch: impl Fn() -> Batch + Send) -> Settled {
        Caller::try_commit(self, batch).await
    }

    async fn commit_once(&self, batch: Batch) -> Settled {
        Caller::commit_once(self, batch).await
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

    fn grant_id(&self) -> Option<GrantId> {
        None
    }

    fn domain_id(&self) -> Option<DomainId> {
        None
    }

    async fn read(&self, stmt: impl Fn() -> Stmt + Send) -> Result<Vec<Row>, Error> {
        Ok(self.db.read(stmt()).await?)
    }

    async fn try_commit(&self, batch: impl Fn() -> Batch + Send) -> Settled {
        self.commit_once(batch()).await
    }

    async fn commit_once(&self, batch: Batch) -> Settled {
        Ok(self.db.commit(batch).await)
    }
}
