//! The HTTP face of segments.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::segment::SegmentName;
use super::store;
use crate::app::App;
use crate::auth::{Caller, FullAccess, Need};
use crate::clock::rfc3339;
use crate::db::Row;
use crate::error::{Error, OrMissing};
use crate::id::SegmentId;
use crate::web::{self, Answer, Body, Idempotency, List, Page, PathId};

type Reference = web::Reference<SegmentId>;
type Deleted = web::Deleted<SegmentId>;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, rename, delete))
}

/// What to make or to change.
#[derive(Deserialize, ToSchema)]
#[schema(as = SegmentWish)]
pub struct SegmentBody {
    name: SegmentName,
    #[serde(rename = "filter")]
    #[schema(ignore)]
    _filter: Option<NoFilter>,
}

/// A segment that fills itself cannot be made. Leaving the wish aside would give
/// one that stays empty.
struct NoFilter;

impl<'de> Deserialize<'de> for NoFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NoFilter, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(conditions) if conditions.is_empty() => Ok(NoFilter),
            _ => Err(D::Error::custom("is not supported: contacts are put into a segment one by one. Leave it out")),
        }
    }
}

/// A new segment.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedSegment)]
pub struct Created {
    #[schema(pattern = "^segment$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: SegmentId,
    #[schema(example = "Newsletter")]
    name: String,
}

/// A named set of contacts.
#[derive(Serialize, ToSchema)]
#[schema(as = Segment)]
pub struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^segment$", nullable = false)]
    pub(super) object: Option<&'static str>,
    #[schema(value_type = Uuid)]
    pub(super) id: SegmentId,
    #[schema(example = "Newsletter")]
    pub(super) name: String,
    #[schema(format = DateTime)]
    pub(super) created_at: String,
}

impl Item {
    pub fn read(row: &Row) -> Result<Item, Error> {
        Ok(Item { object: None, id: row.id(0)?, name: row.text(1)?, created_at: rfc3339(row.int(2)?) })
    }
}

/// Create a segment
///
/// Makes a set that contacts can be put into. Names need not be unique.
#[utoipa::path(
    post, path = "/segments", tag = "Segments", operation_id = "create_segment",
    params(Idempotency), request_body = SegmentBody,
    responses((status = 201, description = "The segment is made.", body = Created)),
)]
async fn create(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    body: Body<SegmentBody>,
) -> Result<Response, Error> {
    make(&caller, &app, key, body, |id, name| Created { object: "segment", id, name }).await
}

/// Makes a segment, and answers with what `shown` makes of its id and name.
pub(super) async fn make<T: Serialize>(
    caller: &Caller<FullAccess>,
    app: &App,
    key: Idempotency,
    body: Body<SegmentBody>,
    shown: impl FnOnce(SegmentId, String) -> T,
) -> Result<Response, Error> {
    let request = key.request(caller, app, &body);
    let name = body.read()?.name;
    let (id, now) = (app.clock.ordered_id(), app.clock.now());
    let answer = Answer::created(&shown(id, name.as_str().to_owned()))?;
    let insert = || store::insert(caller.workspace_id(), id, &name, now).into();
    Ok(request.commit(answer, insert).await??)
}

/// List segments
///
/// The segments of the workspace, newest first.
#[utoipa::path(
    get, path = "/segments", tag = "Segments", operation_id = "list_segments",
    params(Page), responses((status = 200, description = "The segments, newest first.", body = List<Item>)),
)]
pub(super) async fn list(caller: Caller<FullAccess>, page: Page) -> Result<Json<List<Item>>, Error> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, Item::read)
}

/// Read a segment
///
/// Its name, and since when there is one. `GET /segments/{id}/contacts` lists who is in it.
#[utoipa::path(
    get, path = "/segments/{id}", tag = "Segments", operation_id = "read_segment",
    params(PathId), responses((status = 200, description = "The segment.", body = Item)),
)]
async fn read(caller: Caller<FullAccess>, PathId(id): PathId<SegmentId>) -> Result<Json<Item>, Error> {
    Ok(Json(Item { object: Some("segment"), ..find(&caller, id).await? }))
}

pub(super) async fn find(caller: &Caller<FullAccess>, id: SegmentId) -> Result<Item, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
    Item::read(rows.first().ok_or_else(not_found)?)
}

/// Rename a segment
///
/// Changes its name; who is in it stays.
#[utoipa::path(
    patch, path = "/segments/{id}", tag = "Segments", operation_id = "rename_segment",
    params(PathId), request_body = SegmentBody,
    responses((status = 200, description = "The segment has its new name.", body = Reference)),
)]
async fn rename(
    caller: Caller<FullAccess>,
    PathId(id): PathId<SegmentId>,
    body: Body<SegmentBody>,
) -> Result<Json<Reference>, Error> {
    let name = body.read()?.name;
    caller.try_commit(|| store::rename(caller.workspace_id(), id, &name).into()).await?.or_missing(not_found)?;
    Ok(Json(Reference::to(id)))
}

/// Delete a segment
///
/// The contacts in it stay, and stay in their other segments.
#[utoipa::path(
    delete, path = "/segments/{id}", tag = "Segments", operation_id = "delete_segment",
    params(PathId), responses((status = 200, description = "The segment is gone.", body = Deleted)),
)]
async fn delete(caller: Caller<FullAccess>, PathId(id): PathId<SegmentId>) -> Result<Json<Deleted>, Error> {
    remove(&caller, id).await?;
    Ok(Json(Deleted::of(id)))
}

pub(super) async fn remove(caller: &Caller<FullAccess>, id: SegmentId) -> Result<(), Error> {
    caller.try_commit(|| store::delete(caller.workspace_id(), id)).await?.or_missing(not_found)?;
    Ok(())
}

/// Refuses a segment that the caller's workspace does not have.
pub async fn must_exist<N: Need>(caller: &Caller<N>, id: SegmentId) -> Result<(), Error> {
    let rows = caller.read(|| store::exists(caller.workspace_id(), id)).await?;
    rows.first().map(|_| ()).ok_or_else(not_found)
}

pub fn not_found() -> Error {
    Error::not_found("Segment not found. `GET /segments` lists those there are.")
}
