//! The HTTP face of contacts.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::contact::Changes;
use super::path::Named;
use super::shapes::{ContactDetail, Deleted, Item, NewContact, Reference};
use super::write::UnsubscribedBy;
use super::{change, store};
use crate::auth::Caller;
use crate::db::Row;
use crate::error::Error;
use crate::id::SegmentId;
use crate::occurrences::Occurrences;
use crate::segments;
use crate::web::{Body, Idempotency, JsonResult, List, OfDuplicate, OfKeyOrDuplicate, OfPath, Page, Query};

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Which contacts.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Keeps to the contacts of one segment.
    #[param(value_type = Option<Uuid>)]
    segment_id: Option<SegmentId>,
    #[param(ignore)]
    audience_id: Option<SegmentId>,
}

/// Add a contact
///
/// An address belongs to one contact at most: where there is one, it is left as it is, and the answer says which.
#[utoipa::path(
    post, path = "/contacts", tag = "Contacts", operation_id = "create_contact",
    params(Idempotency), request_body = NewContact,
    responses((status = 201, description = "The contact is added.", body = Reference), OfPath, OfKeyOrDuplicate),
)]
async fn create(
    caller: Caller,
    State(app): State<Occurrences>,
    key: Idempotency,
    body: Body<NewContact>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let (email, changes, ties) = body.read()?.split();
    request.run(async { change::create(&caller, &app, &request, &email, (&changes, &ties)).await?.made() }).await
}

/// List contacts
///
/// The contacts of the workspace, or of one segment, newest first. Their properties are in the answer to
/// `GET /contacts/{contact}`.
#[utoipa::path(
    get, path = "/contacts", tag = "Contacts", operation_id = "list_contacts",
    params(Page, Filter),
    responses((status = 200, description = "The contacts, newest first.", body = List<Item>), OfPath),
)]
async fn list(
    caller: Caller,
    page: Page,
    Query(Filter { segment_id, audience_id }): Query<Filter>,
) -> JsonResult<List<Item>> {
    match segment_id.or(audience_id) {
        Some(segment_id) => list_of_segment(&caller, segment_id, &page).await,
        None => items(&page, &caller.read(|| store::page(caller.workspace_id(), &page)).await?),
    }
}

/// The contacts of a segment that must exist.
pub(super) async fn list_of_segment(caller: &Caller, segment_id: SegmentId, page: &Page) -> JsonResult<List<Item>> {
    segments::must_exist(caller, segment_id).await?;
    items(page, &caller.read(|| store::page_in_segment(caller.workspace_id(), segment_id, page)).await?)
}

fn items(page: &Page, rows: &[Row]) -> JsonResult<List<Item>> {
    page.answer(rows, |row| Ok(Item::read(row)?))
}

/// Read a contact
///
/// By its id, or by its address.
#[utoipa::path(
    get, path = "/contacts/{contact}", tag = "Contacts", operation_id = "read_contact",
    params(Named), responses((status = 200, description = "The contact.", body = ContactDetail)),
)]
async fn read(caller: Caller, named: Named) -> JsonResult<ContactDetail> {
    Ok(Json(named.find(&caller).await?.into()))
}

/// Change a contact
///
/// Changes what the body names and leaves the rest. Changes that come at the same time do not undo each other.
#[utoipa::path(
    patch, path = "/contacts/{contact}", tag = "Contacts", operation_id = "update_contact",
    params(Named), request_body = Option<Changes>,
    responses((status = 200, description = "The contact is changed.", body = Reference), OfDuplicate),
)]
async fn update(
    caller: Caller,
    State(app): State<Occurrences>,
    named: Named,
    body: Body<Changes>,
) -> JsonResult<Reference> {
    let changes = body.read()?;
    Ok(Json(Reference::to(change::update(&caller, &app, &named, &changes, UnsubscribedBy::Api).await?.id)))
}

/// Delete a contact
///
/// It leaves its segments, too, and what it chose of topics is forgotten.
#[utoipa::path(
    delete, path = "/contacts/{contact}", tag = "Contacts", operation_id = "delete_contact",
    params(Named), responses((status = 200, description = "The contact is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, State(app): State<Occurrences>, named: Named) -> JsonResult<Deleted> {
    let contact = named.find(&caller).await?;
    change::delete(&caller, &app, &contact).await?;
    Ok(Json(Deleted::of(contact)))
}
