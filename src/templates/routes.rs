//! The HTTP face of templates.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::{Named, find_version};
use super::shapes::{Detail, Item, Listed};
use super::store::{self, Changed, New, Stored};
use super::template::{Alias, Contents, NewTemplate, TemplateChange, TemplateName};
use super::{Templates, not_found, versions_routes};
use crate::auth::{Caller, FullAccess};
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::{TemplateId, TemplateVersionId};
use crate::web::{
    self, Answer, Body, Idempotency, IdempotentRequest, JsonResult, List, OfDuplicate, OfKeyOrDuplicate, Page,
};

/// How often a change is tried that another one got ahead of.
const ATTEMPTS: usize = 8;

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
    request: &IdempotentRequest<'_, FullAccess>,
    (name, alias): (&TemplateName, Option<&Alias>),
    contents: &Contents,
) -> Result<Response, Error> {
    let id = templates.clock.ordered_id();
    let new = New { id, version_id: templates.clock.ordered_id(), name, alias, contents, now: templates.clock.now() };
    let answer = Answer::created(&Reference::to(id))?;
    let made = request.commit(answer, || store::insert(caller.workspace_id(), &new)).await?;
    made.map_err(|error| taken(error, alias.map(Alias::as_str)))
}

fn taken(error: DbError, alias: Option<&str>) -> Error {
    match (error, alias) {
        (DbError::Duplicate(_), Some(alias)) => {
            Error::Conflict { message: format!("The alias `{alias}` is another template's already.") }
        }
        (other, _) => other.into(),
    }
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
    for _ in 0..ATTEMPTS {
        let seen = named.find(&caller).await?;
        let contents = change.apply(seen.contents.clone());
        let alias = match &change.alias.0 {
            Some(alias) => alias.as_ref().map(Alias::as_str),
            None => seen.alias.as_deref(),
        };
        let changed = Changed {
            name: change.name.as_ref().map_or(seen.name.as_str(), |name| name.as_str()),
            alias,
            contents: (contents != seen.contents).then_some(&contents),
            version_id: templates.clock.ordered_id(),
            now: templates.clock.now(),
        };
        let settled = caller.try_commit(|| store::change(caller.workspace_id(), &seen, &changed)).await?;
        if !is_overtaken(&settled) {
            settled.map_err(|error| taken(error, alias))?;
            return Ok(Json(Reference::to(seen.id)));
        }
    }
    Err(Error::Unavailable)
}

/// Whether somebody changed it, or deleted it, in between.
fn is_overtaken<T>(settled: &Result<T, DbError>) -> bool {
    matches!(settled, Err(DbError::Unexpected { .. }))
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
    let template = named.find(&caller).await?;
    if let Some(automation) = sent_by(&caller, &template).await? {
        let message = format!(
            "The automation `{automation}` sends this template. Disable the automation, or let it send another, first."
        );
        return Err(Error::Conflict { message });
    }
    caller.try_commit(|| store::delete(caller.workspace_id(), template.id)).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(template.id)))
}

/// The name of an enabled automation that sends a template.
async fn sent_by(caller: &Caller, template: &Stored) -> Result<Option<String>, Error> {
    let named = |name: &str| format!("\"template\":{{\"id\":\"{name}\"");
    let by_id = named(&template.id.to_string());
    let by_alias = template.alias.as_deref().map_or_else(|| by_id.clone(), named);
    let containing = |text: &str| format!("%{text}%");
    let of = || store::enabled_automations(caller.workspace_id(), containing(&by_id), containing(&by_alias));
    for row in caller.read(of).await? {
        // The store does not tell upper from lower case, and takes `_` for any character.
        let steps = row.text(1)?;
        if steps.contains(&by_id) || steps.contains(&by_alias) {
            return Ok(Some(row.text(0)?));
        }
    }
    Ok(None)
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
    for _ in 0..ATTEMPTS {
        let seen = named.find(&caller).await?;
        let version_id = wanted.unwrap_or(seen.current_version_id);
        find_version(&caller, &seen, version_id).await?;
        let now = templates.clock.now();
        let settled = caller.try_commit(|| store::publish(caller.workspace_id(), &seen, version_id, now)).await?;
        if !is_overtaken(&settled) {
            settled?;
            return Ok(Json(Reference::to(seen.id)));
        }
    }
    Err(Error::Unavailable)
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
