//! How a workspace shows itself to the people it writes to: a name and a colour.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::colors::{Color, stylesheet};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::db::{DbError, Row, Sql, statements};
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::text::{checked_text, is_one_line};
use crate::web::{Body, Change, JsonResult, Layout};

statements! {
    functions {
        fn of_workspace(workspace_id: WorkspaceId) = Sql::both(
            "SELECT w.name, b.name, b.color FROM workspaces w
             LEFT JOIN workspace_branding b ON b.workspace_id = w.id WHERE w.id = $1");
        /// Changes what is named and leaves the rest, whatever others change meanwhile.
        fn change(workspace_id: WorkspaceId, changes: &BrandingChange)
            with [workspace_id, changes.name.0.is_some(),
                changes.name.0.as_ref().and_then(Option::as_ref).map(|name| name.as_str()), changes.color.0.is_some(),
                changes.color.0.as_ref().and_then(Option::as_ref).map(|color| color.as_str())] = Sql::both(
            "INSERT INTO workspace_branding (workspace_id, name, color) VALUES ($1, $3, $5)
             ON CONFLICT (workspace_id) DO UPDATE SET
                 name = CASE WHEN $2 THEN excluded.name ELSE workspace_branding.name END,
                 color = CASE WHEN $4 THEN excluded.color ELSE workspace_branding.color END");
    }
}

/// What people read above a workspace's pages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    min_length = 1,
    max_length = 100,
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    example = "Ada's Engines"
)]
pub struct BrandName(String);

checked_text!(
    BrandName(name) if is_one_line(name, 100),
    else "must be one line of 1 to 100 characters, not all of them spaces"
);

/// How pages for the people that a workspace writes to look.
#[derive(Debug, Serialize, ToSchema)]
pub struct Branding {
    #[schema(pattern = "^branding$")]
    object: &'static str,
    /// What people read above the pages: the workspace's own name, unless another was set.
    #[schema(value_type = BrandName)]
    pub(super) name: String,
    /// Null where the pages are in the usual colours.
    #[schema(value_type = Option<Color>)]
    pub(super) color: Option<String>,
}

impl Branding {
    fn read(row: &Row) -> Result<Branding, DbError> {
        let name = row.maybe(1, Row::text)?.map_or_else(|| row.text(0), Ok)?;
        Ok(Branding { object: "branding", name, color: row.maybe(2, Row::text)? })
    }
}

/// What to change. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "Ada's Engines", "color": "#1b2440"}))]
pub struct BrandingChange {
    /// Null: the workspace's own name.
    #[schema(value_type = Option<BrandName>)]
    name: Change<BrandName>,
    /// Shades that can be read are made of it, on light and on dark. Null: the usual colours.
    #[schema(value_type = Option<Color>)]
    color: Change<Color>,
}

/// What a public page needs around its content.
#[derive(Clone)]
pub struct Frame {
    /// Empty where it is nobody's page.
    pub name: String,
    pub css: String,
    /// Where the styles of the workspace's colour are.
    pub colors: Option<String>,
}

impl Frame {
    /// Of no workspace.
    pub fn plain(app: &App) -> Frame {
        Frame { name: String::new(), css: Layout::beside_api(app).css, colors: None }
    }

    pub async fn of(app: &App, workspace_id: WorkspaceId) -> Result<Frame, DbError> {
        let rows = app.db.read(of_workspace(workspace_id)).await?;
        let Some(row) = rows.first() else { return Ok(Frame::plain(app)) };
        let Branding { name, color, .. } = Branding::read(row)?;
        let digits = color.and_then(|color| Color::try_from(color).ok()).map(|color| color.digits());
        let path = app.addresses.base.path();
        Ok(Frame { name, colors: digits.map(|digits| format!("{path}/colors/{digits}.css")), ..Frame::plain(app) })
    }
}

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(read, update))
}

/// Read the branding
///
/// The name and the colour that the workspace shows to the people it writes to, on the pages where they unsubscribe
/// and choose.
#[utoipa::path(
    get, path = "/workspace/branding", tag = "Subscriptions", operation_id = "read_branding",
    responses((status = 200, description = "The branding.", body = Branding)),
)]
async fn read(caller: Caller) -> JsonResult<Branding> {
    find(&caller).await.map(Json)
}

/// Change the branding
///
/// Changes what the body names and leaves the rest.
#[utoipa::path(
    patch, path = "/workspace/branding", tag = "Subscriptions", operation_id = "update_branding",
    request_body = Option<BrandingChange>,
    responses((status = 200, description = "The branding as it is now.", body = Branding)),
)]
async fn update(caller: Caller, body: Body<BrandingChange>) -> JsonResult<Branding> {
    save(&caller, &body.read()?).await?;
    find(&caller).await.map(Json)
}

pub(super) async fn save(actor: &dyn Actor, changes: &BrandingChange) -> Result<(), Error> {
    actor.try_commit(|| change(actor.workspace_id(), changes).into()).await??;
    Ok(())
}

pub(super) async fn find(actor: &dyn Actor) -> Result<Branding, Error> {
    let rows = actor.read(|| of_workspace(actor.workspace_id())).await?;
    Ok(Branding::read(rows.first().ok_or(Error::Internal)?)?)
}

/// The styles of a colour; it is anybody's.
pub async fn show_colors(State(_): State<App>, Path(name): Path<String>) -> Response {
    let Some(css) = name.strip_suffix(".css").and_then(stylesheet) else {
        return Error::not_found("There is no such colour.").into_response();
    };
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "public, max-age=86400")], css).into_response()
}
