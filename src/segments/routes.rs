//! The HTTP face of segments.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::filter::Filter;
use super::segment::SegmentName;
use super::shapes::{Created, Detail, GivenFilter, Item, SegmentBody, SegmentChange};
use super::store::{self, MOST_SELF_FILLING};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::db::{Batch, DbError, Row};
use crate::error::{Error, OrMissing};
use crate::id::{SegmentId, TopicId, WorkspaceId};
use crate::text::shown;
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, Page, PathId};

type Reference = web::Reference<SegmentId>;
type Deleted = web::Deleted<SegmentId>;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Create a segment
///
/// Makes a set that contacts can be put into, or with a `filter` one that fills itself and stays up to date. Names
/// need not be unique.
#[utoipa::path(
    post, path = "/segments", tag = "Segments", operation_id = "create_segment",
    params(Idempotency), request_body = SegmentBody,
    responses((status = 201, description = "The segment is made.", body = Created)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<SegmentBody>,
) -> Result<Response, Error> {
    make(&caller, &app, key, body, |id, name| Created { object: "segment", id, name }).await
}

/// Makes a segment, and answers with what `shown` makes of its id and name.
pub(super) async fn make<T: Serialize>(
    caller: &Caller,
    app: &App,
    key: Idempotency,
    body: Body<SegmentBody>,
    shown: impl FnOnce(SegmentId, String) -> T,
) -> Result<Response, Error> {
    let request = key.request(caller, app, &body);
    let make = async {
        let SegmentBody { name, filter } = body.read()?;
        let filter = filter.and_then(|GivenFilter(filter)| filter);
        if let Some(filter) = &filter {
            check_filter(caller, filter).await?;
        }
        let id = app.clock.ordered_id();
        let answer = Answer::created(&shown(id, name.as_str().to_owned()))?;
        let insert = || insertion(app, caller.workspace_id(), (id, &name), filter.as_ref());
        match request.commit(answer, insert).await? {
            Err(DbError::Unexpected { .. }) => Err(too_many()),
            made => {
                app.wake_judges_if(filter.is_some());
                Ok(made?)
            }
        }
    };
    request.run(make).await
}

fn insertion(
    app: &App,
    workspace_id: WorkspaceId,
    (id, name): (SegmentId, &SegmentName),
    filter: Option<&Filter>,
) -> Batch {
    let now = app.clock.now();
    match filter {
        Some(filter) => store::insert_self_filling(workspace_id, (id, name), filter, (now, app.clock.steady())),
        None => store::insert(workspace_id, id, name, now).into(),
    }
}

/// Makes a segment, as a form asks for it.
pub async fn add(
    actor: &dyn Actor,
    app: &App,
    (id, name): (SegmentId, &SegmentName),
    filter: Option<&Filter>,
) -> Result<(), Error> {
    if let Some(filter) = filter {
        check_filter(actor, filter).await?;
    }
    match actor.act(insertion(app, actor.workspace_id(), (id, name), filter)).await? {
        Err(DbError::Unexpected { .. }) => Err(too_many()),
        Err(DbError::Duplicate(_)) => Ok(()),
        made => {
            made?;
            app.wake_judges_if(filter.is_some());
            Ok(())
        }
    }
}

/// List segments
///
/// The segments of the workspace, newest first.
#[utoipa::path(
    get, path = "/segments", tag = "Segments", operation_id = "list_segments",
    params(Page), responses((status = 200, description = "The segments, newest first.", body = List<Item>)),
)]
pub(super) async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, Item::read)
}

/// Read a segment
///
/// Its name, its filter if it fills itself, and how many contacts are in it. `GET /segments/{id}/contacts` lists them.
#[utoipa::path(
    get, path = "/segments/{id}", tag = "Segments", operation_id = "read_segment",
    params(PathId), responses((status = 200, description = "The segment.", body = Detail)),
)]
async fn read(caller: Caller, PathId(id): PathId<SegmentId>) -> JsonResult<Detail> {
    Ok(Json(detail(&caller, id).await?))
}

/// What there is to know of a segment.
pub async fn detail(actor: &dyn Actor, id: SegmentId) -> Result<Detail, Error> {
    let row = row(actor, id).await?;
    let count = actor.read(|| store::count(actor.workspace_id(), id)).await?;
    Detail::read(&row, count.first().ok_or(Error::Internal)?.int(0)?)
}

pub(super) async fn find(caller: &Caller, id: SegmentId) -> Result<Item, Error> {
    Item::read(&row(caller, id).await?)
}

async fn row(actor: &dyn Actor, id: SegmentId) -> Result<Row, Error> {
    actor.read(|| store::detail(actor.workspace_id(), id)).await?.pop().ok_or_else(not_found)
}

/// Change a segment
///
/// Changes what the body names and leaves the rest. A new `filter` is worked off in the background, and who is in the
/// segment follows it; without one, whoever is in the segment stays in it.
#[utoipa::path(
    patch, path = "/segments/{id}", tag = "Segments", operation_id = "update_segment",
    params(PathId), request_body = Option<SegmentChange>,
    responses((status = 200, description = "The segment is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(app): State<App>,
    PathId(id): PathId<SegmentId>,
    body: Body<SegmentChange>,
) -> JsonResult<Reference> {
    change(&caller, &app, id, body.read()?).await?;
    Ok(Json(Reference::to(id)))
}

/// Changes a segment.
pub async fn change(actor: &dyn Actor, app: &App, id: SegmentId, change: SegmentChange) -> Result<(), Error> {
    let SegmentChange { name, filter } = change;
    must_exist(actor, id).await?;
    // Null and an empty object are no filter; what is left out stays.
    let filter = filter.0.map(|given| given.and_then(|GivenFilter(filter)| filter));
    if let Some(Some(filter)) = &filter {
        check_filter(actor, filter).await?;
    }
    let workspace_id = actor.workspace_id();
    let change = {
        let mut batch: Batch = store::exists(workspace_id, id).expect(1).into();
        name.iter().for_each(|name| batch.push(store::rename(workspace_id, id, name)));
        if let Some(filter) = &filter {
            batch.append(store::change_filter(workspace_id, id, filter.as_ref(), app.clock.steady()));
        }
        batch
    };
    match actor.act(change).await? {
        Err(DbError::Unexpected { statement }) if statement > 0 => {
            must_exist(actor, id).await?;
            return Err(too_many());
        }
        changed => changed.or_missing(not_found)?,
    };
    app.wake_judges_if(filter.is_some());
    Ok(())
}

/// Delete a segment
///
/// The contacts in it stay, and stay in their other segments.
#[utoipa::path(
    delete, path = "/segments/{id}", tag = "Segments", operation_id = "delete_segment",
    params(PathId), responses((status = 200, description = "The segment is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, PathId(id): PathId<SegmentId>) -> JsonResult<Deleted> {
    remove(&caller, id).await?;
    Ok(Json(Deleted::of(id)))
}

pub async fn remove(actor: &dyn Actor, id: SegmentId) -> Result<(), Error> {
    actor.act(store::delete(actor.workspace_id(), id)).await?.or_missing(not_found)?;
    Ok(())
}

/// Refuses a segment that the caller's workspace does not have.
pub async fn must_exist(actor: &dyn Actor, id: SegmentId) -> Result<(), Error> {
    let rows = actor.read(|| store::exists(actor.workspace_id(), id)).await?;
    rows.first().map(|_| ()).ok_or_else(not_found)
}

/// Refuses a segment that the caller's workspace does not have, or that fills itself.
pub async fn must_take_members(caller: &dyn Actor, id: SegmentId) -> Result<(), Error> {
    must_exist(caller, id).await?;
    if is_self_filling(caller, id).await? { Err(fills_itself()) } else { Ok(()) }
}

pub async fn is_self_filling(actor: &dyn Actor, id: SegmentId) -> Result<bool, Error> {
    let rows = actor.read(|| store::detail(actor.workspace_id(), id)).await?;
    Ok(rows.first().map(|row| row.maybe(3, Row::text)).transpose()?.flatten().is_some())
}

/// Why a contact could not be put into a segment.
pub async fn why_not_taken(caller: &dyn Actor, id: SegmentId) -> Result<Error, Error> {
    Ok(if is_self_filling(caller, id).await? { fills_itself() } else { not_found() })
}

/// Refuses a filter that names what is not there: it would be met by nobody.
pub async fn check_filter(actor: &dyn Actor, filter: &Filter) -> Result<(), Error> {
    let properties = filter.properties();
    if !properties.is_empty() {
        let rows = actor.read(|| store::declared_keys(actor.workspace_id())).await?;
        let declared: Vec<String> = rows.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
        if let Some(unknown) = properties.iter().find(|key| !declared.iter().any(|known| known == *key)) {
            return Err(Error::invalid(format!(
                "The `filter` field names the contact property `{}`, which is not declared. \
                 `POST /contact-properties` declares it.",
                shown(unknown)
            )));
        }
    }
    let topics = filter.topics();
    if !topics.is_empty() {
        let rows = actor.read(|| store::topic_ids(actor.workspace_id())).await?;
        let known: Vec<TopicId> = rows.iter().map(|row| row.id(0)).collect::<Result<_, _>>()?;
        if let Some(unknown) = topics.iter().find(|id| !known.contains(id)) {
            return Err(Error::invalid(format!(
                "The `filter` field names the topic `{unknown}`, which is not there. `GET /topics` lists those there are."
            )));
        }
    }
    for id in filter.broadcasts() {
        if actor.read(|| store::has_broadcast(actor.workspace_id(), id)).await?.is_empty() {
            return Err(Error::invalid(format!(
                "The `filter` field names the broadcast `{id}`, which is not there. \
                 `GET /broadcasts` lists those there are."
            )));
        }
    }
    Ok(())
}

pub fn fills_itself() -> Error {
    Error::invalid(
        "This segment fills itself by its `filter`: contacts cannot be put into it or taken out of it. Change the \
         contact, or take the `filter` away.",
    )
}

fn too_many() -> Error {
    Error::invalid(format!("At most {MOST_SELF_FILLING} segments of a workspace can have a `filter`."))
}

pub fn not_found() -> Error {
    Error::not_found("Segment not found. `GET /segments` lists those there are.")
}
