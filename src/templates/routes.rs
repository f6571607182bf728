//! The HTTP face of templates.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::Named;
use super::shapes::{Detail, Item, Listed};
use super::template::{Alias, Contents, NewTemplate, TemplateChange, TemplateName};
use super::{Templates, store, versions_routes, work};
use crate::auth::Caller;
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId};
use crate::web::{
    self, Answer, Body, Idempotency, IdempotentRequest, JsonResult, List, OfDuplicate, OfKeyOrDuplicate, Page,
};

type Reference = web::Reference<TemplateId>;
type Deleted = web::Deleted<TemplateId>;

pub fn router() -> OpenApiRouter<Templates> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(read, update, delete))
        .routes(routes!(publish))
        .routes(routes!(duplicate))
        .merge(versions_routes::router())
}

/// Create a template
///
/// Makes a draft. `{{{KEY}}}` in its subject and bodies stands for a variable, `{{{KEY|fallback}}}` for one that may be
/// missing; conditions, loops and filters are described in the documentation. It can be sent once it is published.
#[utoipa::path(
    post, path = "/templates", tag = "Templates", operation_id = "create_template",
    params(Idempotency), request_body = NewTemplate,
    responses((status = 201, description = "The template is made.", body = Reference), OfKeyOrDuplicate),
)]
async fn create(
    caller: Caller,
    State(templates): State<Templates>,
    key: Idempotency,
    body: Body<NewTemplate>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &templates, &body);
    let (name, alias, contents) = read_body(&templates, body).await?.contents();
    make(&caller, &templates, &request, (&name, alias.as_ref()), &contents).await
}

/// Reads a body, a large one where it keeps nobody waiting.
async fn read_body<T: serde::de::DeserializeOwned + Send + 'static>(
    templates: &Templates,
    body: Body<T>,
) -> Result<T, Error> {
    match body.is_large() {
        true => templates.admission.build(move || body.read()).await?,
        false => body.read(),
    }
}

async fn make(
    caller: &Caller,
    templates: &Templates,
    request: &IdempotentRequest<'_>,
    (name, alias): (&TemplateName, Option<&Alias>),
    contents: &Contents,
) -> Result<Response, Error> {
    let id = templates.clock.ordered_id();
    let answer = Answer::created(&Reference::to(id))?;
    let made = request.commit(answer, || work::making(caller, templates, id, (name, alias), contents)).await?;
    made.map_err(|error| work::taken(error, alias.map(Alias::as_str)))
}

/// List templates
///
/// The templates of the workspace, newest first, without their contents.
#[utoipa::path(
    get, path = "/templates", tag = "Templates", operation_id = "list_templates",
    params(Page), responses((status = 200, description = "The templates, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Listed::read(row)?.into()))
}

/// Read a template
///
/// With the version that is edited, which need not be the one that is sent.
#[utoipa::path(
    get, path = "/templates/{id}", tag = "Templates", operation_id = "read_template",
    params(Named), responses((status = 200, description = "The template.", body = Detail)),
)]
async fn read(caller: Caller, named: Named) -> JsonResult<Detail> {
    Ok(Json(named.find(&caller).await?.into()))
}

/// Change a template
///
/// Changes the draft; what was published is sent until the draft is published as well. Name and alias change at once.
#[utoipa::path(
    patch, path = "/templates/{id}", tag = "Templates", operation_id = "update_template",
    params(Named), request_body = Option<TemplateChange>,
    responses((status = 200, description = "The template is changed.", body = Reference), OfDuplicate),
)]
async fn update(
    caller: Caller,
    State(templates): State<Templates>,
    named: Named,
    body: Body<TemplateChange>,
) -> JsonResult<Reference> {
    let change = read_body(&templates, body).await?;
    Ok(Json(Reference::to(work::change(&caller, &templates, &named.0, &change).await?)))
}

/// Delete a template
///
/// With all of its versions. What was sent of it stays. One that an enabled automation sends cannot be deleted.
#[utoipa::path(
    delete, path = "/templates/{id}", tag = "Templates", operation_id = "delete_template",
    params(Named),
    responses((status = 200, description = "The template is gone.", body = Deleted), OfDuplicate),
)]
async fn delete(caller: Caller, named: Named) -> JsonResult<Deleted> {
    Ok(Json(Deleted::of(work::delete(&caller, &named.0).await?)))
}

/// Which version to publish.
#[derive(Deserialize, ToSchema)]
#[schema(as = TemplatePublishing)]
struct Publishing {
    /// One that was published before, or the draft; left out: the draft.
    #[schema(value_type = Option<Uuid>)]
    version_id: Option<TemplateVersionId>,
}

/// Publish a template
///
/// From then on mail is made of the draft, or of the version that is named.
#[utoipa::path(
    post, path = "/templates/{id}/publish", tag = "Templates", operation_id = "publish_template",
    params(Named), request_body = Option<Publishing>,
    responses((status = 200, description = "It is sent from now on.", body = Reference)),
)]
async fn publish(
    caller: Caller,
    State(templates): State<Templates>,
    named: Named,
    body: Body<Publishing>,
) -> JsonResult<Reference> {
    let wanted = body.read()?.version_id;
    Ok(Json(Reference::to(work::publish(&caller, &templates, &named.0, wanted).await?)))
}

/// Copy a template
///
/// The copy is a draft with the contents of the draft, a name that says so, and no alias.
#[utoipa::path(
    post, path = "/templates/{id}/duplicate", tag = "Templates", operation_id = "duplicate_template",
    params(Named, Idempotency), responses((status = 201, description = "The copy is made.", body = Reference)),
)]
async fn duplicate(
    caller: Caller,
    State(templates): State<Templates>,
    key: Idempotency,
    named: Named,
) -> Result<Response, Error> {
    let request = key.request(&caller, &templates, &());
    let copy = async {
        let original = named.find(&caller).await?;
        let name = TemplateName::of_copy(&original.name);
        make(&caller, &templates, &request, (&name, None), &original.contents).await
    };
    request.run(copy).await
}
