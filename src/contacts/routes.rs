//! The HTTP face of contacts.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::Uri;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change::Ties;
use super::contact::{Changes, Email};
use super::path::Named;
use super::shapes::{ContactChange, Deleted, Identifier, Item, NewContact, Reference, Whole};
use super::store::Listed;
use super::{change, store};
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::SegmentId;
use crate::segments;
use crate::topics::{self, Choice};
use crate::web::idempotency::{Idempotency, KeyHeader};
use crate::web::input::Input;
use crate::web::pagination::{List, Page, PageParams};
use crate::web::query::{Params, Sent};
use crate::web::refusals::{OfBody, OfCaller, OfDuplicate, OfKeyOrDuplicate, OfPath, OfQuery};

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Which contacts.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameter to readers of the API's description")]
pub struct Filter {
    /// Keeps to the contacts of one segment.
    #[param(format = Uuid)]
    segment_id: Option<String>,
}

/// Add a contact
///
/// An address belongs to one contact at most: where there is one, it is left as it is, and the answer says which.
#[utoipa::path(
    post, path = "/contacts", tag = "Contacts", operation_id = "create_contact",
    request_body = NewContact,
    responses(
        (status = 201, description = "The contact is added.", body = Reference, links(
            ("read" = (operation_id = "read_contact", parameters(("contact" = "$response.body#/id")))),
            ("update" = (operation_id = "update_contact", parameters(("contact" = "$response.body#/id")))),
            ("segments" = (operation_id = "list_contact_segments", parameters(("contact" = "$response.body#/id")))),
            ("topics" = (operation_id = "list_contact_topics", parameters(("contact" = "$response.body#/id")))),
            ("choose" = (operation_id = "choose_contact_topics", parameters(("contact" = "$response.body#/id")))),
            ("delete" = (operation_id = "delete_contact", parameters(("contact" = "$response.body#/id")))),
        )),
        OfCaller, OfPath, OfBody, OfKeyOrDuplicate,
    ),
    params(KeyHeader),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn create(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    input: Input,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &input);
    let email = Email::parse(input.required("email")?)?;
    let changes = Changes::parse(&input)?;
    let ties = Ties { segment_ids: segment_ids(&input)?, choices: choices(&input)? };
    request.run(async { change::create(&caller, &app, &request, &email, (&changes, &ties)).await?.made() }).await
}

/// The segments that a new contact shall be in.
fn segment_ids(input: &Input) -> Result<Vec<SegmentId>, Error> {
    let mut ids = input.get("segments").map(|value| segments::ids("segments", value)).transpose()?.unwrap_or_default();
    if let Some(value) = input.get("audience_id") {
        let id = segments::id("audience_id", value)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// What a new contact wants to hear of.
fn choices(input: &Input) -> Result<Vec<Choice>, Error> {
    Ok(input.get("topics").map(topics::choices).transpose()?.unwrap_or_default())
}

/// List contacts
///
/// The contacts of the workspace, or of one segment, newest first. Their properties are in the answer to
/// `GET /contacts/{contact}`.
#[utoipa::path(
    get, path = "/contacts", tag = "Contacts", operation_id = "list_contacts",
    params(PageParams, Filter),
    responses(
        (status = 200, description = "The contacts, newest first.", body = List<Item>),
        OfCaller, OfPath, OfQuery,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn list(caller: Caller<FullAccess>, page: Page, uri: Uri) -> Result<Json<List<Item>>, Error> {
    match filter(uri.query().unwrap_or_default())? {
        Some(segment_id) => list_of_segment(&caller, segment_id, &page).await,
        None => items(&page, &caller.read(|| store::page(caller.workspace_id(), &page)).await?),
    }
}

/// The segment that a list shall keep to.
fn filter(query: &str) -> Result<Option<SegmentId>, Error> {
    let params = Params::parse(query);
    for name in ["segment_id", "audience_id"] {
        let given = match params.sent(name) {
            Sent::Absent => continue,
            Sent::Once(value) => value.text().ok().and_then(|text| text.parse().ok()),
            Sent::Repeated(_) => None,
        };
        let message = format!("The `{name}` parameter must be the id of one segment, a UUID.");
        return given.map(Some).ok_or(Error::InvalidParameter { message });
    }
    Ok(None)
}

/// The contacts of a segment that must exist.
pub(super) async fn list_of_segment(
    caller: &Caller<FullAccess>,
    segment_id: SegmentId,
    page: &Page,
) -> Result<Json<List<Item>>, Error> {
    segments::must_exist(caller, segment_id).await?;
    items(page, &caller.read(|| store::page_in_segment(caller.workspace_id(), segment_id, page)).await?)
}

fn items(page: &Page, rows: &[Row]) -> Result<Json<List<Item>>, Error> {
    let items: Result<Vec<Item>, DbError> = rows.iter().map(|row| Ok(Listed::read(row)?.into())).collect();
    Ok(Json(page.list(items?)))
}

/// Read a contact
///
/// By its id, or by its address.
#[utoipa::path(
    get, path = "/contacts/{contact}", tag = "Contacts", operation_id = "read_contact",
    params(Identifier),
    responses(
        (status = 200, description = "The contact.", body = Whole),
        OfCaller, OfPath,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn read(caller: Caller<FullAccess>, named: Named) -> Result<Json<Whole>, Error> {
    Ok(Json(named.find(&caller).await?.into()))
}

/// Change a contact
///
/// Changes what the body names and leaves the rest. Changes that come at the same time do not undo each other.
#[utoipa::path(
    patch, path = "/contacts/{contact}", tag = "Contacts", operation_id = "update_contact",
    params(Identifier),
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
    named: Named,
    input: Input,
) -> Result<Json<Reference>, Error> {
    let changes = Changes::parse(&input)?;
    Ok(Json(Reference::to(&change::update(&caller, &app, &named, &changes).await?)))
}

/// Delete a contact
///
/// It leaves its segments, too, and what it chose of topics is forgotten.
#[utoipa::path(
    delete, path = "/contacts/{contact}", tag = "Contacts", operation_id = "delete_contact",
    params(Identifier),
    responses(
        (status = 200, description = "The contact is gone.", body = Deleted),
        OfCaller, OfPath,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn delete(caller: Caller<FullAccess>, State(app): State<App>, named: Named) -> Result<Json<Deleted>, Error> {
    let contact = named.find(&caller).await?;
    change::delete(&caller, &app, &contact).await?;
    Ok(Json(Deleted::of(contact)))
}
