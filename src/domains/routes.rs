//! The HTTP face of domains.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Domains;
use super::domain::{DomainChange, NewDomain, Subdomain};
use super::keys::make_pair;
use super::keys_store::{self, StoredKey};
use super::records::Expected;
use super::sender::anothers;
use super::shapes::{DomainDetail, Item};
use super::status::awaited_anew;
use super::store::{self, MOST, Moment, Stored};
use crate::auth::{Actor, Caller};
use crate::clock::{Clock, MINUTE, rfc3339};
use crate::db::{Batch, DbError};
use crate::error::{Error, OrMissing};
use crate::id::{DomainId, WorkspaceId};
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, OfDomain, OfState, Page, PathId};
use crate::webhooks::{self, EventType, When};
use crate::work::Claimable;

type Reference = web::Reference<DomainId>;
type Deleted = web::Deleted<DomainId>;

pub fn router() -> OpenApiRouter<Domains> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(read, update, delete))
        .routes(routes!(verify))
        .routes(routes!(rotate))
}

/// Add a domain
///
/// Makes the keys that will sign its mail and answers with the DNS records to set. They are looked for by themselves
/// from then on, or at once by `POST /domains/{id}/verify`. A name that another workspace has verified cannot be added.
#[utoipa::path(
    post, path = "/domains", tag = "Domains", operation_id = "create_domain",
    params(Idempotency), request_body = NewDomain,
    responses((status = 201, description = "The domain is added.", body = DomainDetail), OfDomain),
)]
async fn create(
    caller: Caller,
    State(domains): State<Domains>,
    key: Idempotency,
    body: Body<NewDomain>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &domains.app, &body);
    let new = body.read()?;
    let work = async {
        may_add(&caller, new.name.as_str()).await?;
        let (domain, keys, batch) = domains.prepare(caller.workspace_id(), &new).await?;
        let answer = Answer::created(&DomainDetail::new(&domain, &domains.records(&domain, &keys)))?;
        match request.commit(answer, || batch.clone()).await? {
            Ok(response) => Ok(response),
            Err(DbError::Duplicate(_) | DbError::Unexpected { .. }) => Err(overtaken(&caller, new.name.as_str()).await),
            Err(error) => Err(error.into()),
        }
    };
    let _turn = domains.turn(caller.workspace_id()).await;
    // Boxed: making keys holds much that other requests need not have room for.
    request.run(Box::pin(work)).await
}

/// Adds a domain, as a form asks for it.
pub(super) async fn add(domains: &Domains, actor: &dyn Actor, new: &NewDomain) -> Result<DomainId, Error> {
    let _turn = domains.turn(actor.workspace_id()).await;
    may_add(actor, new.name.as_str()).await?;
    let (domain, _, batch) = domains.prepare(actor.workspace_id(), new).await?;
    match actor.act(batch).await? {
        Ok(_) => Ok(domain.id),
        Err(DbError::Duplicate(_) | DbError::Unexpected { .. }) => Err(overtaken(actor, new.name.as_str()).await),
        Err(error) => Err(error.into()),
    }
}

/// Why a name was not added after all: somebody was faster, and now it is known with what.
async fn overtaken(actor: &dyn Actor, name: &str) -> Error {
    may_add(actor, name).await.err().unwrap_or(Error::Unavailable)
}

/// Refuses a name that cannot be added, before anything costs.
async fn may_add(actor: &dyn Actor, name: &str) -> Result<(), Error> {
    let workspace_id = actor.workspace_id();
    let whose = actor.read(|| store::taken(workspace_id, name)).await?;
    let whose: Vec<WorkspaceId> = whose.iter().map(|row| row.id(0)).collect::<Result<_, _>>()?;
    if whose.contains(&workspace_id) {
        let message = format!("The domain `{name}` has been added already. `GET /domains` lists those there are.");
        return Err(Error::DomainRefused { message });
    }
    if !whose.is_empty() {
        return Err(anothers(name));
    }
    let count = actor.read(|| store::count(workspace_id)).await?;
    match count.first().map_or(Ok(0), |row| row.int(0))? < MOST {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "There are {MOST} domains already, which is as many as there can be. Delete one first."
        ))),
    }
}

pub(super) fn moment(clock: &Clock) -> Moment {
    Moment { wall: clock.now(), steady: clock.steady() }
}

impl Domains {
    /// A new domain with its keys, and what stores both.
    pub(super) async fn prepare(
        &self,
        workspace_id: WorkspaceId,
        new: &NewDomain,
    ) -> Result<(Stored, Vec<StoredKey>, Batch), Error> {
        let (clock, seal) = (&self.app.clock, &self.app.seal);
        let return_path = new.custom_return_path.clone().unwrap_or_default();
        must_differ(new.tracking_subdomain.as_ref(), return_path.as_str())?;
        let pair = make_pair(&self.key_maker, 0).await?;
        let now = moment(clock);
        let domain = store::new(workspace_id, clock.ordered_id(), new, seal, now);
        let keys: Vec<StoredKey> = pair.iter().map(|key| StoredKey::of(key, seal)).collect();
        let mut batch: Batch = store::insert(&domain, now.steady + MINUTE).into();
        keys.iter().for_each(|key| batch.push(keys_store::insert(domain.id, key, now.wall)));
        self.publish(&mut batch, EventType::DomainCreated, &domain, Some(&self.records(&domain, &keys)));
        Ok((domain, keys, batch))
    }

    /// Tells webhooks what became of a domain, in the same commit; its records where these are known.
    pub(super) fn publish(&self, batch: &mut Batch, kind: EventType, domain: &Stored, records: Option<&[Expected]>) {
        let clock = &self.app.clock;
        let mut data = json!({
            "id": domain.id, "name": domain.name, "status": domain.status, "created_at": rfc3339(domain.created_at),
            "region": domain.region,
        });
        if let Some(records) = records {
            data["records"] = json!(DomainDetail::new(domain, records).records);
        }
        webhooks::publish(batch, clock, domain.workspace_id, (kind, When::Always, clock.now()), &data);
    }

    /// Deletes a domain, and tells of it.
    pub(super) fn deletion(&self, domain: &Stored) -> Batch {
        let mut batch = store::delete(domain.workspace_id, domain.id);
        self.publish(&mut batch, EventType::DomainDeleted, domain, None);
        batch
    }

    /// The next keys of a domain, which sign when their records are seen; none where the
    /// last ones were not published yet.
    pub(super) async fn prepare_rotation(
        &self,
        workspace_id: WorkspaceId,
        id: DomainId,
    ) -> Result<Option<Batch>, Error> {
        let keys = StoredKey::read_all(&self.app.db.read(keys_store::of_domain(id)).await?)?;
        if keys.iter().any(|key| key.seen_at.is_none()) {
            return Ok(None);
        }
        let pair = make_pair(&self.key_maker, keys.len() / 2).await?;
        let now = moment(&self.app.clock);
        let mut batch: Batch = store::await_anew(workspace_id, id, now).into();
        for key in &pair {
            batch.push(keys_store::insert(id, &StoredKey::of(key, &self.app.seal), now.wall));
        }
        Ok(Some(batch))
    }

    /// Looks at a domain that was just claimed by [`store::begin`].
    pub(super) async fn check_begun(&self, mut domain: Stored) -> Result<(), Error> {
        awaited_anew(&mut domain.findings);
        match self.check(&domain).await {
            // Somebody looks or changes at this moment: what comes of that is as new.
            Ok(()) | Err(DbError::Unexpected { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// List domains
///
/// The domains of the workspace, newest first. The records of one are told by `GET /domains/{id}`.
#[utoipa::path(
    get, path = "/domains", tag = "Domains", operation_id = "list_domains",
    params(Page), responses((status = 200, description = "The domains, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::from(&Stored::read(row)?)))
}

/// Read a domain
///
/// Its settings, the records to set, and of each what DNS says and what to change.
#[utoipa::path(
    get, path = "/domains/{id}", tag = "Domains", operation_id = "read_domain",
    params(PathId), responses((status = 200, description = "The domain.", body = DomainDetail)),
)]
async fn read(
    caller: Caller,
    State(domains): State<Domains>,
    PathId(id): PathId<DomainId>,
) -> JsonResult<DomainDetail> {
    let domain = find(&caller, id).await?;
    let (expected, _) = domains.expected(&domain).await?;
    Ok(Json(DomainDetail::new(&domain, &expected)))
}

/// Change a domain
///
/// Changes what the body names and leaves the rest. Records that are wanted from then on are looked for by themselves.
#[utoipa::path(
    patch, path = "/domains/{id}", tag = "Domains", operation_id = "update_domain",
    params(PathId), request_body = Option<DomainChange>,
    responses((status = 200, description = "The domain is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(domains): State<Domains>,
    PathId(id): PathId<DomainId>,
    body: Body<DomainChange>,
) -> JsonResult<Reference> {
    change(&domains, &caller, id, &body.read()?).await.map(|()| Json(Reference::to(id)))
}

/// Links lead to a CNAME, beside which a name can have none of the records of a return path.
fn must_differ(tracking: Option<&Subdomain>, return_path: &str) -> Result<(), Error> {
    match tracking.is_some_and(|label| label.as_str() == return_path) {
        true => Err(Error::invalid(format!(
            "The `tracking_subdomain` field must not be `{return_path}`, to which bounces go. Choose another, such as \
             `links`."
        ))),
        false => Ok(()),
    }
}

pub async fn change(domains: &Domains, actor: &dyn Actor, id: DomainId, given: &DomainChange) -> Result<(), Error> {
    let app = &domains.app;
    let before = find(actor, id).await?;
    must_differ(given.tracking_subdomain.0.as_ref().and_then(Option::as_ref), &before.return_path)?;
    let set = || {
        let mut batch = store::change(actor.workspace_id(), id, given, &app.seal, moment(&app.clock));
        domains.publish(&mut batch, EventType::DomainUpdated, &before, None);
        batch
    };
    actor.try_commit(set).await?.or_missing(not_found).map(drop)
}

/// Delete a domain
///
/// Its keys sign nothing more, and API keys that are held to it end with it. The name can be added again, by anybody.
#[utoipa::path(
    delete, path = "/domains/{id}", tag = "Domains", operation_id = "delete_domain",
    params(PathId), responses((status = 200, description = "The domain is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, State(domains): State<Domains>, PathId(id): PathId<DomainId>) -> JsonResult<Deleted> {
    let domain = find(&caller, id).await?;
    caller.try_commit(|| domains.deletion(&domain)).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

/// Verify a domain
///
/// Looks at DNS now; `GET /domains/{id}` then tells of each record what was found and what to change. Records that are
/// not there are awaited for three days from now on.
#[utoipa::path(
    post, path = "/domains/{id}/verify", tag = "Domains", operation_id = "verify_domain",
    params(PathId), responses((status = 200, description = "DNS was looked at.", body = Reference)),
)]
async fn verify(caller: Caller, State(domains): State<Domains>, PathId(id): PathId<DomainId>) -> JsonResult<Reference> {
    let now = domains.app.clock.steady();
    let begin = || store::begin(caller.workspace_id(), id, now + Stored::LEASE, now).into();
    let effects = caller.try_commit(begin).await?.or_missing(not_found)?;
    let begun = effects.first().and_then(|effect| effect.rows.first()).ok_or(Error::Internal)?;
    Box::pin(domains.check_begun(Stored::read(begun)?)).await?;
    Ok(Json(Reference::to(id)))
}

/// Make new DKIM keys
///
/// The next pair of keys, whose records `GET /domains/{id}` then lists beside the old ones. Mail is signed with the old
/// keys until the new records are seen. Leave the old records in place for a week after that.
#[utoipa::path(
    post, path = "/domains/{id}/dkim-keys", tag = "Domains", operation_id = "rotate_dkim_keys",
    params(PathId), responses((status = 200, description = "The keys are made.", body = Reference), OfState),
)]
async fn rotate(caller: Caller, State(domains): State<Domains>, PathId(id): PathId<DomainId>) -> JsonResult<Reference> {
    find(&caller, id).await?;
    let _turn = domains.turn(caller.workspace_id()).await;
    let batch = Box::pin(domains.prepare_rotation(caller.workspace_id(), id)).await?.ok_or_else(unpublished)?;
    match caller.try_commit(|| batch.clone()).await? {
        Err(DbError::Duplicate(_)) => Err(unpublished()),
        settled => settled.or_missing(not_found).map(|_| Json(Reference::to(id))),
    }
}

pub(super) fn unpublished() -> Error {
    let message = "The last DKIM keys of this domain are not published yet. Set their records first.".into();
    Error::Conflict { message }
}

pub(super) fn not_found() -> Error {
    Error::not_found("Domain not found. `GET /domains` lists those there are.")
}

async fn find(caller: &dyn Actor, id: DomainId) -> Result<Stored, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
    Ok(Stored::read(rows.first().ok_or_else(not_found)?)?)
}
