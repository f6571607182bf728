//! Who acts in a workspace, whichever way: what programs and people do alike is written once, for both.

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::caller::{Caller, Need, Principal};
use crate::db::{Batch, Db, DbError, Effect, FromRows, Row, Stmt};
use crate::error::Error;
use crate::id::{DomainId, GrantId, WorkspaceId};

/// What became of a commit, as far as it could be tried at all.
pub type Settled = Result<Result<Vec<Effect>, DbError>, Error>;

/// How often something is tried that rests on what others change: a credential that was given back to its
/// caller a moment after it had been taken away (its app was disabled and enabled), or what a batch was made of.
pub(super) const ATTEMPTS: usize = 4;

/// A program with a credential, or a person with a form. What is read and written is so only while that stands.
///
/// What is written for any actor is compiled once, so the futures stand behind a pointer.
pub trait Actor: Sync {
    fn workspace_id(&self) -> WorkspaceId;

    /// The grant that it acts under, if any.
    fn grant_id(&self) -> Option<GrantId>;

    /// The only domain that it may send from, if it is held to one.
    fn domain_id(&self) -> Option<DomainId>;

    fn read_with<'a>(&'a self, stmt: &'a (dyn Fn() -> Stmt + Sync)) -> BoxFuture<'a, Result<Vec<Row>, Error>>;

    /// Commits a batch once: one that is stale for another reason has to be prepared anew.
    fn commit_once(&self, batch: Batch) -> BoxFuture<'_, Settled>;

    /// Commits some of what a later commit completes: only that one is told in the log.
    fn commit_part(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        self.commit_once(batch)
    }

    /// Says to what it does something that the log tells, where it was named otherwise than by its id.
    fn acts_on(&self, _: Uuid) {}

    /// Commits what `batch` makes, which rests on what others change: anew where it was stale.
    fn try_commit_with<'a>(&'a self, batch: &'a (dyn Fn() -> Batch + Sync)) -> BoxFuture<'a, Settled> {
        Box::pin(async {
            for _ in 0..ATTEMPTS {
                match self.commit_once(batch()).await? {
                    Err(DbError::Stale) => {}
                    settled => return Ok(settled),
                }
            }
            Err(Error::Unavailable)
        })
    }
}

impl dyn Actor + '_ {
    pub async fn read(&self, stmt: impl Fn() -> Stmt + Send + Sync) -> Result<Vec<Row>, Error> {
        self.read_with(&stmt).await
    }

    /// Reads, and makes of the rows what is wanted.
    pub async fn query<R: FromRows>(&self, stmt: impl Fn() -> Stmt + Send + Sync) -> Result<R, Error> {
        Ok(R::from_rows(&self.read_with(&stmt).await?)?)
    }

    /// Commits what `batch` makes.
    pub async fn try_commit(&self, batch: impl Fn() -> Batch + Send + Sync) -> Settled {
        self.try_commit_with(&batch).await
    }

    /// Commits some of what a later commit completes.
    pub async fn try_commit_part(&self, batch: impl Fn() -> Batch + Send + Sync) -> Settled {
        for _ in 0..ATTEMPTS {
            match self.commit_part(batch()).await? {
                Err(DbError::Stale) => {}
                settled => return Ok(settled),
            }
        }
        Err(Error::Unavailable)
    }

    /// Commits a batch that needs no other preparation.
    pub async fn act(&self, batch: Batch) -> Settled {
        self.try_commit_with(&|| batch.clone()).await
    }
}

impl Actor for Principal {
    fn workspace_id(&self) -> WorkspaceId {
        Principal::workspace_id(self)
    }

    fn grant_id(&self) -> Option<GrantId> {
        Principal::grant_id(self)
    }

    fn domain_id(&self) -> Option<DomainId> {
        Principal::domain_id(self)
    }

    fn read_with<'a>(&'a self, stmt: &'a (dyn Fn() -> Stmt + Sync)) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Principal::read_with(self, stmt)
    }

    fn commit_once(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Box::pin(Principal::commit_once(self, batch))
    }

    fn commit_part(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Box::pin(Principal::commit_part(self, batch))
    }

    fn acts_on(&self, id: Uuid) {
        Principal::acts_on(self, id);
    }
}

impl<N: Need> Actor for Caller<N> {
    fn workspace_id(&self) -> WorkspaceId {
        Actor::workspace_id(&**self)
    }

    fn grant_id(&self) -> Option<GrantId> {
        Actor::grant_id(&**self)
    }

    fn domain_id(&self) -> Option<DomainId> {
        Actor::domain_id(&**self)
    }

    fn read_with<'a>(&'a self, stmt: &'a (dyn Fn() -> Stmt + Sync)) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Actor::read_with(&**self, stmt)
    }

    fn commit_once(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Actor::commit_once(&**self, batch)
    }

    fn commit_part(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Actor::commit_part(&**self, batch)
    }

    fn acts_on(&self, id: Uuid) {
        Actor::acts_on(&**self, id);
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

    fn read_with<'a>(&'a self, stmt: &'a (dyn Fn() -> Stmt + Sync)) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async { Ok(self.db.read(stmt()).await?) })
    }

    fn commit_once(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Box::pin(async { Ok(self.db.commit(batch).await) })
    }
}
