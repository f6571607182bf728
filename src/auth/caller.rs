//! The extractor that stands before every handler of the API.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use axum::extract::{FromRef, FromRequestParts};
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use uuid::Uuid;

use super::actor::{ATTEMPTS, Actor, Settled};
use super::audited_call::AuditedCall;
use crate::app::App;
use crate::audit::{self, DoneBy, Noted};
use crate::credentials::{Known, Lookup, Scope, Source};
use crate::db::{Batch, DbError, Effect, FromRows, Row, Stmt};
use crate::error::Error;
use crate::id::{DomainId, GrantId, Id, WorkspaceId};
use crate::limits::Allowance;
use crate::seal::Seal;

/// What a route asks of a credential: section 5 of the spec, as types.
pub trait Need: Send + Sync + 'static {
    const SCOPE: Scope;
    /// What it asks of an API key.
    const OF_KEY: Scope = Self::SCOPE;
}

/// Every route that does not only send.
pub struct FullAccess;

/// The routes that only send.
pub struct SendOnly;

/// A route that only sends, and that section 5 does not list among those: a key that may send
/// may use it, a token needs every right.
pub struct SendMany;

impl Need for SendMany {
    const SCOPE: Scope = Scope::FullAccess;
    const OF_KEY: Scope = Scope::EmailsSend;
}

impl Need for FullAccess {
    const SCOPE: Scope = Scope::FullAccess;
}

impl Need for SendOnly {
    const SCOPE: Scope = Scope::EmailsSend;
}

/// A caller who has shown a credential that allows the route: one with full access, unless the
/// route says that less is enough.
///
/// The credential may come from a cache, so whatever the caller reads or writes
/// goes through it: each statement carries the guard that the credential still
/// stands, and where it doesn't, the credential is looked up anew.
pub struct Caller<N = FullAccess> {
    principal: Principal,
    need: PhantomData<N>,
}

/// A caller, whatever its route asks.
pub struct Principal {
    app: App,
    secret: String,
    known: Arc<Known>,
    /// What the route asks of a token, and of a key.
    needed: Needed,
    /// What the audit log is told.
    audited: Option<AuditedCall>,
}

#[derive(Clone, Copy)]
struct Needed {
    scope: Scope,
    of_key: Scope,
}

impl Needed {
    const fn by<N: Need>() -> Needed {
        Needed { scope: N::SCOPE, of_key: N::OF_KEY }
    }

    fn permit(self, known: &Known) -> Result<(), Error> {
        match known.source {
            Source::Key(_) if known.scopes.allows(self.of_key) => Ok(()),
            Source::Grant(_) if known.scopes.allows(self.scope) => Ok(()),
            Source::Key(_) => Err(Error::RestrictedKey),
            Source::Grant(_) => Err(Error::InsufficientScope),
        }
    }
}

impl<N> Deref for Caller<N> {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.principal
    }
}

impl<N: Need, S: Send + Sync> FromRequestParts<S> for Caller<N>
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Caller<N>, Error> {
        let principal = Principal::of(parts, App::from_ref(state), Needed::by::<N>()).await?;
        Ok(Caller { principal, need: PhantomData })
    }
}

/// In the extensions of a request: why its query is refused, which is nobody's business but its caller's.
#[derive(Clone)]
pub struct RefusedQuery(pub String);

impl<N: Need> Caller<N> {
    /// A caller who has shown an API key, and nothing else, elsewhere than in a header.
    pub async fn with_key(app: &App, secret: &str) -> Result<Caller<N>, Error> {
        let known = app.credentials.find(lookup(app), secret).await?;
        if matches!(known.source, Source::Grant(_)) {
            return Err(Error::InvalidKey);
        }
        let needed = Needed::by::<N>();
        needed.permit(&known)?;
        app.credentials.touch(&known, app.clock.now());
        let principal = Principal { app: app.clone(), secret: secret.to_owned(), known, needed, audited: None };
        principal.confirm().await?;
        Ok(Caller { principal, need: PhantomData })
    }
}

impl Principal {
    async fn of(parts: &mut Parts, app: App, needed: Needed) -> Result<Principal, Error> {
        let secret = bearer(&parts.headers, &app)?.to_owned();
        let known = app.credentials.find(lookup(&app), &secret).await?;
        let allowance = take_allowance(&app, &known);
        if let Some(seen) = parts.extensions.get::<Seen>() {
            let _ = seen.0.set((known.workspace_id, allowance));
        }
        if allowance.is_some_and(|allowance| allowance.is_exceeded) {
            return Err(Error::RateLimited { retry_after: Allowance::RESET });
        }
        needed.permit(&known)?;
        app.credentials.touch(&known, app.clock.now());
        match parts.extensions.remove() {
            None => {
                let audited = AuditedCall::of(parts, &app);
                Ok(Principal { app, secret, known, needed, audited })
            }
            Some(RefusedQuery(message)) => Err(Error::InvalidParameter { message }),
        }
    }

    pub fn workspace_id(&self) -> WorkspaceId {
        self.known.workspace_id
    }

    /// The grant that the caller acts under, be it with a token or with a key
    /// that was made through one; none for people's own keys. What a caller
    /// makes that gives access carries it on, and dies with the grant.
    pub fn grant_id(&self) -> Option<GrantId> {
        self.known.grant_id
    }

    /// The only domain that the caller may send from, if its key is held to one.
    pub fn domain_id(&self) -> Option<DomainId> {
        self.known.domain_id
    }

    /// Says to what something is done, where the path does not name it by its id.
    pub fn acts_on(&self, id: impl Id) {
        self.audited.iter().for_each(|audited| audited.acts_on(id.uuid()));
    }

    /// Says what is made, where the audit log is told.
    pub fn makes(&self, id: impl FnOnce() -> Option<Uuid>) {
        if let Some(audited) = &self.audited {
            audited.makes(id());
        }
    }

    /// Says whether anything is changed: if not, the audit log is told nothing.
    pub fn changes(&self, whether: bool) {
        self.audited.iter().for_each(|audited| audited.changes(whether));
    }

    /// A batch together with what the audit log is told of it.
    fn noted(&self, batch: Batch) -> Noted {
        let actor = match self.known.source {
            Source::Key(id) => DoneBy::Key(id),
            Source::Grant(id) => DoneBy::Grant(id),
        };
        let Some((audited, entry)) = self.audited.as_ref().and_then(|audited| Some((audited, audited.entry(actor)?)))
        else {
            return Noted::not_at_all(batch);
        };
        let note = audit::note(self.known.workspace_id, &self.app.clock, &entry);
        if audited.is_deletion() { Noted::before(note, batch) } else { Noted::behind(batch, note) }
    }

    /// Hides what only this credential shall open: the store knows it by its hash
    /// alone, so a copy of the store opens nothing.
    pub fn seal(&self) -> Seal {
        Seal::derived("answers", &self.secret)
    }

    /// Commits what `batch` makes, if the credential still stands.
    pub async fn commit(&self, batch: impl Fn() -> Batch + Send + Sync) -> Result<Vec<Effect>, Error> {
        Ok(self.try_commit_with(&batch).await??)
    }

    /// As [`Principal::commit`], for a batch whose refusal by the store has a
    /// meaning to the handler.
    pub async fn try_commit(&self, batch: impl Fn() -> Batch + Send + Sync) -> Settled {
        self.try_commit_with(&batch).await
    }

    /// Commits a batch once, if the credential still stands, together with a row of
    /// the audit log where the route changes how the workspace is set up. One that is
    /// stale for another reason has to be prepared anew.
    pub async fn commit_once(&self, batch: Batch) -> Settled {
        let Noted { batch, place } = self.noted(batch);
        Ok(place.apart(self.commit_part(batch).await?))
    }

    /// Commits some of what a later commit completes: only that one is told in the log.
    pub(super) async fn commit_part(&self, batch: Batch) -> Settled {
        let settled = self.app.db.commit(batch.when(self.known.guard())).await;
        if let Err(DbError::Stale) = settled {
            self.look_up_anew().await?;
        }
        Ok(settled)
    }

    pub async fn read(&self, stmt: impl Fn() -> Stmt + Send + Sync) -> Result<Vec<Row>, Error> {
        self.read_with(&stmt).await
    }

    pub(super) fn read_with<'a>(
        &'a self,
        stmt: &'a (dyn Fn() -> Stmt + Sync),
    ) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(async {
            for _ in 0..ATTEMPTS {
                match self.app.db.read_when(Some(&self.known.guard()), stmt()).await {
                    Err(DbError::Stale) => self.look_up_anew().await?,
                    settled => return Ok(settled?),
                }
            }
            Err(Error::Unavailable)
        })
    }

    /// As [`Principal::read`], and makes of the rows what is wanted.
    pub async fn query<R: FromRows>(&self, stmt: impl Fn() -> Stmt + Send + Sync) -> Result<R, Error> {
        Ok(R::from_rows(&self.read_with(&stmt).await?)?)
    }

    /// Refuses a credential that no longer stands, for a route that neither
    /// reads nor writes.
    pub async fn confirm(&self) -> Result<(), Error> {
        match self.app.db.holds(&self.known.guard()).await? {
            true => Ok(()),
            false => self.look_up_anew().await,
        }
    }

    /// Reads the credential from the store.
    async fn look_up_anew(&self) -> Result<(), Error> {
        self.needed.permit(&*Box::pin(self.app.credentials.load(lookup(&self.app), &self.secret)).await?)
    }
}

/// Goes with a request, for whoever wants to know afterwards who has called, and what it may still ask for.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<OnceLock<(WorkspaceId, Option<Allowance>)>>);

impl Seen {
    /// Where a credential was shown that stands: its workspace, and what is left of its allowance.
    pub fn caller(&self) -> Option<(WorkspaceId, Option<Allowance>)> {
        self.0.get().copied()
    }
}

fn take_allowance(app: &App, known: &Known) -> Option<Allowance> {
    let key = match known.source {
        Source::Key(id) => id.uuid(),
        Source::Grant(id) => id.uuid(),
    };
    app.allowances.take(key, known.workspace_id.uuid(), app.clock.steady())
}

fn lookup(app: &App) -> Lookup<'_> {
    Lookup { db: &app.db, clock: &app.clock, base: app.addresses.base.as_str() }
}

/// The credential behind `Authorization: Bearer`. The scheme is read in any
/// case; exactly one space stands between the two.
fn bearer<'a>(headers: &'a HeaderMap, app: &App) -> Result<&'a str, Error> {
    let missing = || Error::Unauthenticated { metadata: app.addresses.resource_metadata() };
    let mut headers = headers.get_all(AUTHORIZATION).iter();
    let header = headers.next().ok_or_else(missing)?;
    if headers.next().is_some() {
        let message = "Two `Authorization` headers were sent. Send one.".into();
        return Err(Error::BadRequest { message });
    }
    match header.to_str() {
        Ok(text) => credential(text).ok_or_else(missing),
        Err(_) => Err(Error::InvalidKey),
    }
}

fn credential(header: &str) -> Option<&str> {
    let (scheme, credential) = header.split_once(' ')?;
    let is_one = scheme.eq_ignore_ascii_case("bearer") && !credential.is_empty() && !credential.contains(' ');
    is_one.then_some(credential)
}

/// Refuses the credential of an `Authorization` header if it is known from before
/// and stands no longer.
pub async fn confirm(app: &App, shown: &HeaderValue) -> Result<(), Error> {
    match shown.to_str().ok().and_then(credential) {
        Some(secret) => app.credentials.confirm(lookup(app), secret).await,
        None => Ok(()),
    }
}

/// Whose the credential of an `Authorization` header is, where it is known from before.
pub fn workspace_of(app: &App, shown: &HeaderValue) -> Option<WorkspaceId> {
    let secret = shown.to_str().ok().and_then(credential)?;
    Some(app.credentials.cached(secret)?.workspace_id)
}
