//! Who is in which segment.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::contact::Contact;
use super::path::{Named, PathSegment, not_found};
use super::shapes::Item;
use super::{routes as contacts, write};
use crate::auth::{Actor, Caller};
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::{ContactId, SegmentId};
use crate::occurrences::Occurrences;
use crate::segments;
use crate::web::{JsonResult, List, Page, PathId};

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(add, remove)).routes(routes!(contacts_of))
}

/// A contact that is in a segment now. `id` is the segment's, too.
#[derive(Serialize, ToSchema)]
pub struct Membership {
    #[schema(pattern = "^contact_segment$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: SegmentId,
    #[schema(value_type = Uuid)]
    contact_id: ContactId,
    #[schema(value_type = Uuid)]
    segment_id: SegmentId,
}

/// A contact that is no longer in a segment. `id` and `audienceId` are the segment's, too.
#[derive(Serialize, ToSchema)]
pub struct EndedMembership {
    #[schema(pattern = "^contact_segment$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: SegmentId,
    #[schema(value_type = Uuid)]
    contact_id: ContactId,
    #[schema(value_type = Uuid)]
    segment_id: SegmentId,
    #[serde(rename = "audienceId")]
    #[schema(value_type = Uuid)]
    audience_id: SegmentId,
    #[schema(example = true)]
    deleted: bool,
}

/// List a contact's segments
///
/// The segments that the contact is in, newest first.
#[utoipa::path(
    get, path = "/contacts/{contact}/segments", tag = "Contacts", operation_id = "list_contact_segments",
    params(Named, Page),
    responses((status = 200, description = "The segments, newest first.", body = List<segments::Item>)),
)]
async fn list(caller: Caller, named: Named, page: Page) -> JsonResult<List<segments::Item>> {
    let contact = named.find(&caller).await?;
    let rows = caller.read(|| segments::page_of_contact(caller.workspace_id(), contact.id, &page)).await?;
    page.answer(&rows, segments::Item::read)
}

/// Put a contact into a segment
///
/// One that is in it already stays in it.
#[utoipa::path(
    post, path = "/contacts/{contact}/segments/{segment_id}", tag = "Contacts", operation_id = "add_contact_segment",
    params(Named, ("segment_id" = String, Path, description = "The id of the segment.", format = Uuid)),
    responses((status = 200, description = "The contact is in the segment.", body = Membership)),
)]
async fn add(
    caller: Caller,
    State(app): State<Occurrences>,
    named: Named,
    PathSegment(segment_id): PathSegment,
) -> JsonResult<Membership> {
    let contact = named.find(&caller).await?;
    join(&caller, &contact, segment_id, app.clock.now()).await?;
    Ok(Json(Membership { object: "contact_segment", id: segment_id, contact_id: contact.id, segment_id }))
}

/// Puts a contact into a segment.
pub(super) async fn join(actor: &dyn Actor, contact: &Contact, segment_id: SegmentId, now: i64) -> Result<(), Error> {
    let join = write::join_segment(actor.workspace_id(), contact, segment_id, now);
    joined(actor, segment_id, actor.act(join).await?).await.map(drop)
}

/// What came of [`write::join_segment`].
pub(super) async fn joined<T>(
    caller: &dyn Actor,
    segment_id: SegmentId,
    committed: Result<T, DbError>,
) -> Result<T, Error> {
    match committed {
        Err(DbError::Unexpected { statement: 0 }) => Err(not_found()),
        Err(DbError::Unexpected { .. }) => Err(segments::why_not_taken(caller, segment_id).await?),
        committed => Ok(committed?),
    }
}

/// Take a contact out of a segment
///
/// The contact itself stays.
#[utoipa::path(
    delete, path = "/contacts/{contact}/segments/{segment_id}", tag = "Contacts",
    operation_id = "remove_contact_segment",
    params(Named, ("segment_id" = String, Path, description = "The id of the segment.", format = Uuid)),
    responses((status = 200, description = "The contact is not in the segment any more.", body = EndedMembership)),
)]
async fn remove(caller: Caller, named: Named, PathSegment(segment_id): PathSegment) -> JsonResult<EndedMembership> {
    let contact = named.find(&caller).await?;
    leave(&caller, &contact, segment_id).await?;
    Ok(Json(EndedMembership {
        object: "contact_segment",
        id: segment_id,
        contact_id: contact.id,
        audience_id: segment_id,
        segment_id,
        deleted: true,
    }))
}

pub(super) async fn leave(actor: &dyn Actor, contact: &Contact, segment_id: SegmentId) -> Result<(), Error> {
    let leave = write::leave_segment(actor.workspace_id(), contact, segment_id);
    match actor.act(leave).await? {
        Err(DbError::Unexpected { .. }) if segments::is_self_filling(actor, segment_id).await? => {
            Err(segments::fills_itself())
        }
        left => left.or_missing(not_a_member).map(drop),
    }
}

pub(super) fn not_a_member() -> Error {
    Error::not_found("The contact is not in this segment. `GET /contacts/{contact}/segments` lists those it is in.")
}

/// List a segment's contacts
///
/// Who is in the segment, newest contact first.
#[utoipa::path(
    get, path = "/segments/{id}/contacts", tag = "Segments", operation_id = "list_segment_contacts",
    params(PathId, Page), responses((status = 200, description = "The contacts, newest first.", body = List<Item>)),
)]
async fn contacts_of(caller: Caller, PathId(id): PathId<SegmentId>, page: Page) -> JsonResult<List<Item>> {
    contacts::list_of_segment(&caller, id, &page).await
}
