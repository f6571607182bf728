//! Segments under their older name, for programs that still call them audiences.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::routes as segments;
use super::shapes::{Item, SegmentBody};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::id::SegmentId;
use crate::web::{Body, Idempotency, JsonResult, List, Page, PathId};

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, delete))
}

/// A new audience.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedAudience)]
pub struct Created {
    #[schema(pattern = "^audience$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: SegmentId,
    #[schema(example = "Newsletter")]
    name: String,
}

/// A segment under its older name.
#[derive(Serialize, ToSchema)]
pub struct Audience {
    #[schema(pattern = "^audience$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: SegmentId,
    #[schema(example = "Newsletter")]
    name: String,
    #[schema(format = DateTime)]
    created_at: String,
}

/// The answer to a deletion.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedAudience)]
pub struct Deleted {
    #[schema(pattern = "^audience$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: SegmentId,
    #[schema(example = true)]
    deleted: bool,
}

/// Create an audience
///
/// The same as `POST /segments`, under its older name.
#[utoipa::path(
    post, path = "/audiences", tag = "Audiences", operation_id = "create_audience",
    params(Idempotency), request_body = SegmentBody,
    responses((status = 201, description = "The audience is made.", body = Created)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<SegmentBody>,
) -> Result<Response, Error> {
    segments::make(&caller, &app, key, body, |id, name| Created { object: "audience", id, name }).await
}

/// List audiences
///
/// The same as `GET /segments`, under its older name.
#[utoipa::path(
    get, path = "/audiences", tag = "Audiences", operation_id = "list_audiences",
    params(Page), responses((status = 200, description = "The audiences, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    segments::list(caller, page).await
}

/// Read an audience
///
/// The same as `GET /segments/{id}`, under its older name.
#[utoipa::path(
    get, path = "/audiences/{id}", tag = "Audiences", operation_id = "read_audience",
    params(PathId), responses((status = 200, description = "The audience.", body = Audience)),
)]
async fn read(caller: Caller, PathId(id): PathId<SegmentId>) -> JsonResult<Audience> {
    let Item { id, name, created_at } = segments::find(&caller, id).await?;
    Ok(Json(Audience { object: "audience", id, name, created_at }))
}

/// Delete an audience
///
/// The same as `DELETE /segments/{id}`, under its older name.
#[utoipa::path(
    delete, path = "/audiences/{id}", tag = "Audiences", operation_id = "delete_audience",
    params(PathId), responses((status = 200, description = "The audience is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, PathId(id): PathId<SegmentId>) -> JsonResult<Deleted> {
    segments::remove(&caller, id).await?;
    Ok(Json(Deleted { object: "audience", id, deleted: true }))
}
