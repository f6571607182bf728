//! Contacts as older programs ask for them: within an audience, which is a
//! segment by its older name. Such a program thinks that a contact belongs to
//! one audience, and of another with the same address as another contact.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change::{self, Creation, Ties};
use super::contact::{Changes, Contact, Email};
use super::membership_routes::{joined, joining, leave, not_a_member};
use super::path::{Named, PathSegment};
use super::routes as contacts;
use super::shapes::{ContactChange, Deleted, Identifier, Item, NewAudienceContact, Reference, Whole};
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::error::Error;
use crate::id::SegmentId;
use crate::segments;
use crate::web::idempotency::{Answer, Idempotency, KeyHeader};
use crate::web::input::{IdParam, Input, PathId};
use crate::web::pagination::{List, Page, PageParams};
use crate::web::refusals::{OfBody, OfCaller, OfDuplicate, OfKeyOrDuplicate, OfPath, OfQuery};

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Which audience.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the parameter to readers of the API's description")]
pub struct OfAudience {
    /// The id of the audience, which is a segment.
    #[param(format = Uuid)]
    audience_id: String,
}

/// Add a contact to an audience
///
/// A contact of the workspace that has this address joins the audience and is else left as it is.
#[utoipa::path(
    post, path = "/audiences/{id}/contacts", tag = "Audiences", operation_id = "create_audience_contact",
    params(IdParam, KeyHeader),
    request_body = NewAudienceContact,
    responses(
        (status = 201, description = "The contact is in the audience.", body = Reference),
        OfCaller, OfPath, OfBody, OfKeyOrDuplicate,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn create(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    PathId(id): PathId<SegmentId>,
    input: Input,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &input);
    let add = async {
        segments::must_exist(&caller, id).await?;
        let email = Email::parse(input.required("email")?)?;
        let changes = Changes::parse(&input)?;
        let ties = Ties { segment_ids: vec![id], choices: Vec::new() };
        match change::create(&caller, &app, &request, &email, (&changes, &ties)).await? {
            Creation::Taken(Some(contact)) if !is_member(&caller, &contact, id).await? => {
                let answer = Answer::created(&Reference::to(&contact))?;
                let joining = || joining(caller.workspace_id(), &contact, id, app.clock.now());
                joined(request.commit(answer, joining).await?)
            }
            creation => creation.made(),
        }
    };
    request.run(add).await
}

async fn is_member(caller: &Caller<FullAccess>, contact: &Contact, segment_id: SegmentId) -> Result<bool, Error> {
    let is_member = || segments::store::is_member(caller.workspace_id(), segment_id, contact.id);
    Ok(!caller.read(is_member).await?.is_empty())
}

/// The contact, if it is in the audience.
async fn find(caller: &Caller<FullAccess>, named: &Named, segment_id: SegmentId) -> Result<Contact, Error> {
    let contact = named.find(caller).await?;
    if is_member(caller, &contact, segment_id).await? { Ok(contact) } else { Err(not_a_member()) }
}

/// List an audience's contacts
///
/// The same as `GET /segments/{id}/contacts`, under its older name.
#[utoipa::path(
    get, path = "/audiences/{id}/contacts", tag = "Audiences", operation_id = "list_audience_contacts",
    params(IdParam, PageParams),
    responses(
        (status = 200, description = "The contacts, newest first.", body = List<Item>),
        OfCaller, OfPath, OfQuery,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn list(
    caller: Caller<FullAccess>,
    PathId(id): PathId<SegmentId>,
    page: Page,
) -> Result<Json<List<Item>>, Error> {
    contacts::list_of_segment(&caller, id, &page).await
}

/// Read a contact of an audience
///
/// As `GET /contacts/{contact}`, if the contact is in the audience.
#[utoipa::path(
    get, path = "/audiences/{audience_id}/contacts/{contact}", tag = "Audiences",
    operation_id = "read_audience_contact",
    params(OfAudience, Identifier),
    responses(
        (status = 200, description = "The contact.", body = Whole),
        OfCaller, OfPath, OfQuery,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn read(
    caller: Caller<FullAccess>,
    PathSegment(audience_id): PathSegment,
    named: Named,
) -> Result<Json<Whole>, Error> {
    Ok(Json(find(&caller, &named, audience_id).await?.into()))
}

/// Change a contact of an audience
///
/// As `PATCH /contacts/{contact}`, if the contact is in the audience.
#[utoipa::path(
    patch, path = "/audiences/{audience_id}/contacts/{contact}", tag = "Audiences",
    operation_id = "update_audience_contact",
    params(OfAudience, Identifier),
    request_body = Option<ContactChange>,
    responses(
        (status = 200, description = "The contact is changed.", body = Reference),
        OfCaller, OfPath, OfBody, OfDuplicate,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn update(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    PathSegment(audience_id): PathSegment,
    named: Named,
    input: Input,
) -> Result<Json<Reference>, Error> {
    let changes = Changes::parse(&input)?;
    let contact = find(&caller, &named, audience_id).await?;
    Ok(Json(Reference::to(&change::update(&caller, &app, &(&contact).into(), &changes).await?)))
}

/// Delete a contact of an audience
///
/// A contact that is in other segments, too, only leaves this one.
#[utoipa::path(
    delete, path = "/audiences/{audience_id}/contacts/{contact}", tag = "Audiences",
    operation_id = "delete_audience_contact",
    params(OfAudience, Identifier),
    responses(
        (status = 200, description = "The contact is gone from the audience.", body = Deleted),
        OfCaller, OfPath, OfQuery,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn delete(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    PathSegment(audience_id): PathSegment,
    named: Named,
) -> Result<Json<Deleted>, Error> {
    let contact = find(&caller, &named, audience_id).await?;
    // A page reads one row more than it shows, which tells whether there are others.
    let first = Page::parse("", 1)?;
    let segments = || segments::store::page_of_contact(caller.workspace_id(), contact.id, &first);
    if caller.read(segments).await?.len() > 1 {
        leave(&caller, &contact, audience_id).await?;
    } else {
        change::delete(&caller, &app, &contact).await?;
    }
    Ok(Json(Deleted::of(contact)))
}
