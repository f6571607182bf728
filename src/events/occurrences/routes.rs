//! What happened, over HTTP.

use axum::Json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::send;
use super::shapes::Item;
use super::store::{self, Stored};
use crate::auth::Caller;
use crate::error::Error;
use crate::events::{Events, routes::EventPath};
use crate::id::OccurrenceId;
use crate::web::{JsonResult, List, Newest, Page, PathId};

/// One route takes every path below `/events/`, so this one is described here.
#[derive(utoipa::OpenApi)]
#[openapi(paths(list))]
pub struct Described;

pub fn router() -> OpenApiRouter<Events> {
    OpenApiRouter::new()
        .routes(routes!(send::send))
        .routes(routes!(send::send_many))
        .routes(routes!(read))
        .routes(routes!(send::replay))
}

pub fn not_found() -> Error {
    Error::not_found("Occurrence not found. Check the id that sending the event gave you.")
}

/// List an event's occurrences
///
/// Every time that an event of this name happened, newest first. System events are listed by their names, too.
#[utoipa::path(
    get, path = "/events/{identifier}/occurrences", tag = "Events", operation_id = "list_occurrences",
    params(EventPath, Newest), responses((status = 200, description = "The occurrences.", body = List<Item>)),
)]
pub async fn list(caller: &Caller, name: &str, page: &Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), name, page)).await?;
    page.answer(&rows, |row| Item::new(Stored::read(row)?))
}

/// Read an occurrence
///
/// With the runs that it started.
#[utoipa::path(
    get, path = "/occurrences/{id}", tag = "Events", operation_id = "read_occurrence",
    params(("id" = String, Path, description = "The id of the occurrence.", format = Uuid)),
    responses((status = 200, description = "What happened.", body = Item)),
)]
async fn read(caller: Caller, PathId(id): PathId<OccurrenceId>) -> JsonResult<Item> {
    let stored: Option<Stored> = caller.query(|| store::by_id(caller.workspace_id(), id)).await?;
    let stored = stored.ok_or_else(not_found)?;
    let runs = caller.query(|| store::runs_of(caller.workspace_id(), &stored)).await?;
    Ok(Json(Item::new(stored)?.with_runs(runs)))
}
