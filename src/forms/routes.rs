//! The HTTP face of forms.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::form::{Form, FormChange, Item, NewForm};
use super::{Forms, store};
use crate::auth::{Actor, Caller};
use crate::db::{Batch, DbError};
use crate::error::{Error, OrMissing};
use crate::id::FormId;
use crate::mime::Mailbox;
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, OfPath, Page, PathId};
use crate::{emails, segments, topics};

type Reference = web::Reference<FormId>;
type Deleted = web::Deleted<FormId>;

pub fn router() -> OpenApiRouter<Forms> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Create a form
///
/// Makes a form with which strangers subscribe. It is off unless `enabled` says otherwise.
#[utoipa::path(
    post, path = "/forms", tag = "Subscriptions", operation_id = "create_form",
    params(Idempotency), request_body = NewForm,
    responses((status = 201, description = "The form is made.", body = Reference), OfPath),
)]
async fn create(
    caller: Caller,
    State(forms): State<Forms>,
    key: Idempotency,
    body: Body<NewForm>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &forms, &body);
    let form = Form::new(forms.clock.ordered_id(), body.read()?, forms.clock.now());
    let made = async {
        check(&forms, &caller, &form).await?;
        let answer = Answer::created(&Reference::to(form.id))?;
        Ok(request.commit(answer, || store::insert(caller.workspace_id(), &form).into()).await??)
    };
    request.run(made).await
}

/// List forms
///
/// The forms of the workspace, newest first.
#[utoipa::path(
    get, path = "/forms", tag = "Subscriptions", operation_id = "list_forms",
    params(Page), responses((status = 200, description = "The forms, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, State(forms): State<Forms>, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::of(Form::read(row)?, &forms)))
}

/// Read a form
///
/// With the address of its page, and the HTML for a page of your own.
#[utoipa::path(
    get, path = "/forms/{id}", tag = "Subscriptions", operation_id = "read_form",
    params(PathId), responses((status = 200, description = "The form.", body = Item)),
)]
async fn read(caller: Caller, State(forms): State<Forms>, PathId(id): PathId<FormId>) -> JsonResult<Item> {
    Ok(Json(Item::of(find(&caller, id).await?, &forms)))
}

/// Change a form
///
/// Changes what the body names and leaves the rest.
#[utoipa::path(
    patch, path = "/forms/{id}", tag = "Subscriptions", operation_id = "update_form",
    params(PathId), request_body = Option<FormChange>,
    responses((status = 200, description = "The form is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(forms): State<Forms>,
    PathId(id): PathId<FormId>,
    body: Body<FormChange>,
) -> JsonResult<Reference> {
    change(&forms, &caller, id, body.read()?).await?;
    Ok(Json(Reference::to(id)))
}

/// Delete a form
///
/// Who was asked and has not answered yet cannot confirm any more.
#[utoipa::path(
    delete, path = "/forms/{id}", tag = "Subscriptions", operation_id = "delete_form",
    params(PathId), responses((status = 200, description = "The form is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, PathId(id): PathId<FormId>) -> JsonResult<Deleted> {
    remove(&caller, id).await?;
    Ok(Json(Deleted::of(id)))
}

fn not_found() -> Error {
    Error::not_found("Form not found. `GET /forms` lists those there are.")
}

pub(super) async fn find(actor: &dyn Actor, id: FormId) -> Result<Form, Error> {
    let rows = actor.read(|| store::by_id(actor.workspace_id(), id)).await?;
    Ok(Form::read(rows.first().ok_or_else(not_found)?)?)
}

pub(super) async fn add(forms: &Forms, actor: &dyn Actor, id: FormId, new: NewForm) -> Result<(), Error> {
    let form = Form::new(id, new, forms.clock.now());
    check(forms, actor, &form).await?;
    match actor.try_commit(|| store::insert(actor.workspace_id(), &form).into()).await? {
        Err(DbError::Duplicate(_)) => Ok(()),
        made => Ok(made.map(drop)?),
    }
}

pub(super) async fn change(forms: &Forms, actor: &dyn Actor, id: FormId, changes: FormChange) -> Result<(), Error> {
    let form = find(actor, id).await?.changed(changes);
    check(forms, actor, &form).await?;
    actor.try_commit(|| store::replace(actor.workspace_id(), &form).into()).await?.or_missing(not_found)?;
    Ok(())
}

pub(super) async fn remove(actor: &dyn Actor, id: FormId) -> Result<(), Error> {
    let workspace_id = actor.workspace_id();
    let delete = || Batch::new().and(store::delete(workspace_id, id)).and(store::delete_signups(workspace_id, id));
    actor.try_commit(delete).await?.or_missing(not_found)?;
    Ok(())
}

/// Refuses a form whose mail could not be sent, or that leads to nothing.
async fn check(forms: &Forms, actor: &dyn Actor, form: &Form) -> Result<(), Error> {
    if let Some(segment_id) = form.segment_id {
        segments::must_exist(actor, segment_id).await?;
    }
    for topic_id in &form.topics.0 {
        topics::must_exist(actor, *topic_id).await?;
    }
    let from: Mailbox = form.from.parse().map_err(|_| Error::Internal)?;
    emails::check_sender(&forms.emails, actor.workspace_id(), &from).await
}
