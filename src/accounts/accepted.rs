//! Forms that were found to be ours, and what a person does with them.

use std::fmt::Display;
use std::str::FromStr;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::member::{Manage, Member, not_yours};
use super::store;
use crate::audit::{self, Act, Noted};
use crate::auth::{self, Actor, Settled};
use crate::db::{Batch, DbError, Row, Stmt};
use crate::error::Error;
use crate::id::{DomainId, GrantId, WorkspaceId};
use crate::web::Form;

/// A form that was found to be ours: only with one in hand can a page write.
pub struct Accepted<'a> {
    member: &'a Member<Manage>,
    /// What the log will tell.
    act: Act,
    name: String,
}

impl Member<Manage> {
    /// Refuses a form that was not made here for this purpose.
    pub fn accept(&self, purpose: &str, form: &Form) -> Result<Accepted<'_>, Error> {
        let name = ["name", "subject"].into_iter().map(|field| form.text(field)).find(|text| !text.is_empty());
        let accepted = self.accept_token(purpose, &form.text("token"))?;
        Ok(Accepted { name: name.unwrap_or_default(), ..accepted })
    }

    /// The same, of a form of [`Member::hidden_making`], with the id that it carries.
    pub fn accept_making<I: FromStr + Display>(&self, act: &str, form: &Form) -> Result<(I, Accepted<'_>), Error> {
        let id: I = form.text("id").parse().map_err(|_| Error::BadRequest {
            message: "The form does not say what it makes. Load the page again.".into(),
        })?;
        let accepted = self.accept(&format!("{act} {id}"), form)?;
        Ok((id, accepted))
    }

    /// The same, of a form that came in another way, such as with a file.
    pub fn accept_token(&self, purpose: &str, token: &str) -> Result<Accepted<'_>, Error> {
        self.session.check_form(&self.purpose(purpose), token)?;
        Ok(Accepted { member: self, act: Act::of(purpose, &self.path), name: String::new() })
    }
}

impl Accepted<'_> {
    /// Tells the log in other words what is done, and to what.
    #[must_use]
    pub fn noting(self, action: &str, target_id: impl Into<Option<Uuid>>, name: &str) -> Self {
        let act = Act { action: action.to_owned(), target_id: target_id.into() };
        Accepted { act, name: name.to_owned(), ..self }
    }

    /// Commits what `batch` makes, as [`Accepted::commit`] does, for a batch that rests on what others change.
    pub async fn try_commit(&self, batch: impl Fn() -> Batch + Send + Sync) -> Settled {
        self.try_commit_with(&batch).await
    }

    /// Commits, if the visitor may still do this at that moment, together with a row of the log.
    pub async fn commit(&self, batch: Batch) -> Settled {
        match self.commit_once(batch).await? {
            Err(DbError::Stale) => Err(not_yours()),
            settled => Ok(settled),
        }
    }

    async fn commit_noted(&self, batch: Batch) -> Settled {
        let entry = self.member.entry(&self.act.action, self.act.target_id, &self.name);
        // First, because the names of what is deleted are gone behind it.
        let note = audit::note(self.member.workspace_id(), &self.member.app.clock, &entry);
        let Noted { batch, place } = Noted::before(note, batch);
        Ok(place.apart(self.commit_allowed(batch).await?))
    }

    /// Commits, if the visitor may still do this at that moment.
    async fn commit_allowed(&self, batch: Batch) -> Settled {
        let (db, session) = (&self.member.app.db, &self.member.session);
        let allowed = || store::may_grant(self.member.workspace_id(), session.user_id);
        // What is made here may outlive the session: one that ends in this moment makes nothing.
        let fenced = batch.fence(auth::session_stands(&session.hash));
        let settled = db.commit(fenced.when(allowed())).await;
        if matches!(settled, Err(DbError::Stale)) && db.read(allowed()).await?.is_empty() {
            return Err(not_yours());
        }
        Ok(settled)
    }
}

impl Actor for Accepted<'_> {
    fn workspace_id(&self) -> WorkspaceId {
        self.member.workspace_id()
    }

    fn grant_id(&self) -> Option<GrantId> {
        None
    }

    fn domain_id(&self) -> Option<DomainId> {
        None
    }

    fn read_with<'a>(&'a self, stmt: &'a (dyn Fn() -> Stmt + Sync)) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(self.member.read(stmt()))
    }

    fn commit_once(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Box::pin(self.commit_noted(batch))
    }

    fn commit_part(&self, batch: Batch) -> BoxFuture<'_, Settled> {
        Box::pin(self.commit_allowed(batch))
    }
}
