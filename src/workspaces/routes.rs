//! The HTTP face of what a workspace has settled.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::settings::{Workspace, WorkspaceChange};
use super::store;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, OrMissing};
use crate::id::WorkspaceId;
use crate::web::{self, Body, JsonResult};

type Reference = web::Reference<WorkspaceId>;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(read, update))
}

/// Read the workspace
///
/// The one that the credential is for, with what holds for all of its mail.
#[utoipa::path(
    get, path = "/workspace", tag = "Workspace", operation_id = "read_workspace",
    responses((status = 200, description = "The workspace.", body = Workspace)),
)]
async fn read(caller: Caller) -> JsonResult<Workspace> {
    let rows = caller.read(|| store::by_id(caller.workspace_id())).await?;
    Ok(Json(Workspace::read(rows.first().ok_or_else(not_found)?)?))
}

/// Change the workspace
///
/// Changes what the body names and leaves the rest. It holds for what is sent from now on; what broadcasts have put off
/// is looked at anew.
#[utoipa::path(
    patch, path = "/workspace", tag = "Workspace", operation_id = "update_workspace",
    request_body = Option<WorkspaceChange>,
    responses((status = 200, description = "The workspace is changed.", body = Reference)),
)]
async fn update(caller: Caller, State(app): State<App>, body: Body<WorkspaceChange>) -> JsonResult<Reference> {
    let changes = body.read()?;
    let id = caller.workspace_id();
    caller.try_commit(|| store::change(id, &changes, app.clock.steady())).await?.or_missing(not_found)?;
    Ok(Json(Reference::to(id)))
}

fn not_found() -> Error {
    Error::not_found("The workspace is gone.")
}
