//! The versions of a template over HTTP, and what they look like as mail.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::{Named, PathVersion};
use super::shapes::{VersionDetail, VersionItem};
use super::store::{self, Version};
use super::work::find_version;
use super::{Rendered, Rendering, Templates};
use crate::auth::{Actor, Caller};
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId};
use crate::web::{Body, JsonResult, List, Page, Query};

pub fn router() -> OpenApiRouter<Templates> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(read)).routes(routes!(preview))
}

/// List a template's versions
///
/// The versions that were published and the draft, newest first, without their contents.
#[utoipa::path(
    get, path = "/templates/{id}/versions", tag = "Templates", operation_id = "list_template_versions",
    params(Named, Page),
    responses((status = 200, description = "The versions, newest first.", body = List<VersionItem>)),
)]
async fn list(caller: Caller, named: Named, page: Page) -> JsonResult<List<VersionItem>> {
    let template = named.find(&caller).await?;
    let rows = caller.read(|| store::versions(caller.workspace_id(), template.id, &page)).await?;
    page.answer(&rows, |row| Ok(VersionItem::new(&Version::read(row)?, &template)))
}

/// What to compare with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ComparedVersion {
    /// The id of another version: what differs from it is told, field by field.
    #[param(value_type = Option<Uuid>)]
    against: Option<TemplateVersionId>,
}

/// Read a template's version
///
/// With `against`, also what differs from another version, line by line.
#[utoipa::path(
    get, path = "/templates/{id}/versions/{version_id}", tag = "Templates", operation_id = "read_template_version",
    params(Named, PathVersion, ComparedVersion),
    responses((status = 200, description = "The version.", body = VersionDetail)),
)]
async fn read(
    caller: Caller,
    named: Named,
    PathVersion(version_id): PathVersion,
    Query(ComparedVersion { against }): Query<ComparedVersion>,
) -> JsonResult<VersionDetail> {
    let template = named.find(&caller).await?;
    let version = find_version(&caller, &template, version_id).await?;
    let against = match against {
        Some(id) => Some(find_version(&caller, &template, id).await?),
        None => None,
    };
    Ok(Json(VersionDetail::new(version, against.as_ref(), &template)))
}

/// With what to render it.
#[derive(Deserialize, ToSchema)]
#[schema(as = TemplatePreviewRequest, example = json!({"variables": {"ORDER_ID": "A-1"}}))]
struct PreviewRequest {
    /// Values of variables. What is missing is shown with a sample.
    #[schema(value_type = Option<Object>)]
    variables: Option<Map<String, Value>>,
    /// Which version; left out: the draft.
    #[schema(value_type = Option<Uuid>)]
    version_id: Option<TemplateVersionId>,
}

/// What a mail would look like.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePreview)]
struct Preview {
    #[schema(pattern = "^template_preview$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    version_id: TemplateVersionId,
    #[schema(required = true)]
    subject: Option<String>,
    html: String,
    #[schema(required = true)]
    text: Option<String>,
    /// The variables that have no value and no fallback. A sample is shown in their place.
    missing: Vec<String>,
}

/// Preview a template
///
/// Renders the draft, or a version, without sending anything.
#[utoipa::path(
    post, path = "/templates/{id}/preview", tag = "Templates", operation_id = "preview_template",
    params(Named), request_body = Option<PreviewRequest>,
    responses((status = 200, description = "What a mail would look like.", body = Preview)),
)]
async fn preview(
    caller: Caller,
    State(templates): State<Templates>,
    named: Named,
    body: Body<PreviewRequest>,
) -> JsonResult<Preview> {
    let PreviewRequest { variables, version_id } = body.read()?;
    let (rendering, rendered, missing) =
        templates.sample(&caller, &named, version_id, variables.unwrap_or_default()).await?;
    let Rendered { subject, html, text } = rendered;
    let version_id = rendering.version_id;
    Ok(Json(Preview { object: "template_preview", version_id, subject, html, text, missing }))
}

impl Templates {
    /// A template as mail: the draft or a version of it, with samples for what is not given, and the
    /// names of that.
    pub async fn sample(
        &self,
        actor: &dyn Actor,
        named: &Named,
        version_id: Option<TemplateVersionId>,
        given: Map<String, Value>,
    ) -> Result<(Rendering, Rendered, Vec<String>), Error> {
        let template = named.find(actor).await?;
        let version = find_version(actor, &template, version_id.unwrap_or(template.current_version_id)).await?;
        self.rendered(template.id, version, given).await
    }

    /// The same, of a version.
    pub(super) async fn rendered(
        &self,
        id: TemplateId,
        version: Version,
        given: Map<String, Value>,
    ) -> Result<(Rendering, Rendered, Vec<String>), Error> {
        let rendering = self.rendering(id, version).await?;
        let render = move || rendering.preview(&given).map(|(rendered, missing)| (rendering, rendered, missing));
        self.admission.build(render).await?.map_err(Error::invalid)
    }
}
