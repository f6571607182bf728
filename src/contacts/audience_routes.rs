//! Contacts as older programs ask for them: within an audience, which is a
//! segment by its older name. Such a program thinks that a contact belongs to
//! one audience, and of another with the same address as another contact.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change::{self, Creation, Ties};
use super::contact::{Changes, Contact};
use super::membership_routes::{joined, leave, not_a_member};
use super::path::{Named, PathSegment};
use super::shapes::{ContactDetail, Deleted, Item, NewAudienceContact, Reference};
use super::write::UnsubscribedBy;
use super::{routes as contacts, write};
use crate::auth::Caller;
use crate::error::Error;
use crate::id::SegmentId;
use crate::occurrences::Occurrences;
use crate::segments;
use crate::web::{Answer, Body, Idempotency, JsonResult, List, OfDuplicate, OfKeyOrDuplicate, Page, PathId};

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Add a contact to an audience
///
/// A contact of the workspace that has this address joins the audience and is else left as it is.
#[utoipa::path(
    post, path = "/audiences/{id}/contacts", tag = "Audiences", operation_id = "create_audience_contact",
    params(PathId, Idempotency), request_body = NewAudienceContact,
    responses((status = 201, description = "The contact is in the audience.", body = Reference), OfKeyOrDuplicate),
)]
async fn create(
    caller: Caller,
    State(app): State<Occurrences>,
    key: Idempotency,
    PathId(id): PathId<SegmentId>,
    body: Body<NewAudienceContact>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let add = async {
        segments::must_take_members(&caller, id).await?;
        let (email, changes) = body.read()?.split();
        let ties = Ties { segment_ids: vec![id], choices: Vec::new() };
        match change::create(&caller, &app, &request, &email, (&changes, &ties)).await? {
            Creation::Taken(Some(contact)) if !is_member(&caller, &contact, id).await? => {
                let answer = Answer::created(&Reference::to(contact.id))?;
                let join = || write::join_segment(caller.workspace_id(), &contact, id, app.clock.now());
                joined(&caller, id, request.commit(answer, join).await?).await
            }
            creation => creation.made(),
        }
    };
    request.run(add).await
}

async fn is_member(caller: &Caller, contact: &Contact, segment_id: SegmentId) -> Result<bool, Error> {
    let is_member = || segments::is_member(caller.workspace_id(), segment_id, contact.id);
    Ok(!caller.read(is_member).await?.is_empty())
}

/// The contact, if it is in the audience.
async fn find(caller: &Caller, named: &Named, segment_id: SegmentId) -> Result<Contact, Error> {
    let contact = named.find(caller).await?;
    if is_member(caller, &contact, segment_id).await? { Ok(contact) } else { Err(not_a_member()) }
}

/// List an audience's contacts
///
/// The same as `GET /segments/{id}/contacts`, under its older name.
#[utoipa::path(
    get, path = "/audiences/{id}/contacts", tag = "Audiences", operation_id = "list_audience_contacts",
    params(PathId, Page), responses((status = 200, description = "The contacts, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, PathId(id): PathId<SegmentId>, page: Page) -> JsonResult<List<Item>> {
    contacts::list_of_segment(&caller, id, &page).await
}

/// Read a contact of an audience
///
/// As `GET /contacts/{contact}`, if the contact is in the audience.
#[utoipa::path(
    get, path = "/audiences/{audience_id}/contacts/{contact}", tag = "Audiences",
    operation_id = "read_audience_contact",
    params(("audience_id" = String, Path, description = "The id of the audience, which is a segment.", format = Uuid), Named),
    responses((status = 200, description = "The contact.", body = ContactDetail)),
)]
async fn read(caller: Caller, PathSegment(audience_id): PathSegment, named: Named) -> JsonResult<ContactDetail> {
    Ok(Json(find(&caller, &named, audience_id).await?.into()))
}

/// Change a contact of an audience
///
/// As `PATCH /contacts/{contact}`, if the contact is in the audience.
#[utoipa::path(
    patch, path = "/audiences/{audience_id}/contacts/{contact}", tag = "Audiences",
    operation_id = "update_audience_contact",
    params(("audience_id" = String, Path, description = "The id of the audience, which is a segment.", format = Uuid), Named),
    request_body = Option<Changes>,
    responses((status = 200, description = "The contact is changed.", body = Reference), OfDuplicate),
)]
async fn update(
    caller: Caller,
    State(app): State<Occurrences>,
    PathSegment(audience_id): PathSegment,
    named: Named,
    body: Body<Changes>,
) -> JsonResult<Reference> {
    let changes = body.read()?;
    let contact = find(&caller, &named, audience_id).await?;
    Ok(Json(Reference::to(change::update(&caller, &app, &(&contact).into(), &changes, UnsubscribedBy::Api).await?.id)))
}

/// Delete a contact of an audience
///
/// A contact that is in other segments, too, only leaves this one.
#[utoipa::path(
    delete, path = "/audiences/{audience_id}/contacts/{contact}", tag = "Audiences",
    operation_id = "delete_audience_contact",
    params(("audience_id" = String, Path, description = "The id of the audience, which is a segment.", format = Uuid), Named),
    responses((status = 200, description = "The contact is gone from the audience.", body = Deleted)),
)]
async fn delete(
    caller: Caller,
    State(app): State<Occurrences>,
    PathSegment(audience_id): PathSegment,
    named: Named,
) -> JsonResult<Deleted> {
    let contact = find(&caller, &named, audience_id).await?;
    // A page reads one row more than it shows, which tells whether there are others.
    let first = Page::parse("", 1)?;
    let segments = || segments::page_of_contact(caller.workspace_id(), contact.id, &first);
    if caller.read(segments).await?.len() > 1 {
        leave(&caller, &contact, audience_id).await?;
    } else {
        change::delete(&caller, &app, &contact).await?;
    }
    Ok(Json(Deleted::of(contact)))
}
