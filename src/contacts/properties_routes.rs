//! The HTTP face of declared properties.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::properties::{Declared, Kind, PropertyKey};
use super::properties_store as store;
use super::shapes::{Fallback, NewProperty};
use crate::auth::{Actor, Caller};
use crate::clock::rfc3339;
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::PropertyId;
use crate::occurrences::Occurrences;
use crate::web::{self, Answer, Body, Change, Idempotency, JsonResult, List, OfKeyOrDuplicate, Page, PathId};

type Reference = web::Reference<PropertyId>;
type Deleted = web::Deleted<PropertyId>;

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// What to change.
#[derive(Deserialize, ToSchema)]
pub struct ContactPropertyChange {
    #[schema(ignore)]
    key: Option<Value>,
    #[serde(rename = "type")]
    #[schema(ignore)]
    kind: Option<Value>,
    /// What stands in where a contact has no value, of the property's type; null removes it.
    #[schema(value_type = Option<Fallback>, required = true)]
    fallback_value: Change<Value>,
}

/// A declared property.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactProperty)]
pub struct Item {
    #[schema(pattern = "^contact_property$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: PropertyId,
    #[schema(example = "company")]
    key: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^(string|number)$", example = "string")]
    kind: &'static str,
    #[schema(value_type = Option<Fallback>, required = true)]
    fallback_value: Option<Value>,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Declared> for Item {
    fn from(property: Declared) -> Item {
        Item {
            object: "contact_property",
            id: property.id,
            key: property.key,
            kind: property.kind.as_str(),
            fallback_value: property.fallback,
            created_at: rfc3339(property.created_at),
        }
    }
}

/// Declare a contact property
///
/// From then on contacts can be given only values of this type under this key. Properties that were not declared are
/// fine, too: they take any plain value.
#[utoipa::path(
    post, path = "/contact-properties", tag = "Contact properties", operation_id = "create_contact_property",
    params(Idempotency), request_body = NewProperty,
    responses((status = 201, description = "The property is declared.", body = Reference), OfKeyOrDuplicate),
)]
async fn create(
    caller: Caller,
    State(app): State<Occurrences>,
    idempotency: Idempotency,
    body: Body<NewProperty>,
) -> Result<Response, Error> {
    let request = idempotency.request(&caller, &app, &body);
    let NewProperty { key, kind, fallback_value } = body.read()?;
    let fallback = kind.fallback(fallback_value)?;
    let (id, now) = (app.clock.ordered_id(), app.clock.now());
    let insert = || store::insert(caller.workspace_id(), id, &key, kind, fallback.as_ref(), now).into();
    let answer = Answer::created(&Reference::to(id))?;
    declared(&key, request.commit(answer, insert).await?)
}

/// Declares a property, as a form asks for it.
pub(super) async fn declare(
    actor: &dyn Actor,
    app: &Occurrences,
    (key, kind): (&PropertyKey, Kind),
    fallback: Option<&Value>,
) -> Result<(), Error> {
    let insert = store::insert(actor.workspace_id(), app.clock.ordered_id(), key, kind, fallback, app.clock.now());
    declared(key, actor.act(insert.into()).await?).map(drop)
}

/// What came of a declaration.
fn declared<T>(key: &PropertyKey, committed: Result<T, DbError>) -> Result<T, Error> {
    match committed {
        Ok(made) => Ok(made),
        Err(DbError::Duplicate(_)) => {
            Err(Error::Conflict { message: format!("The property `{}` is declared already.", key.as_str()) })
        }
        Err(DbError::Unexpected { .. }) => Err(Error::invalid(format!(
            "There are {} declared properties already, which is as many as there can be. Delete one first.",
            store::MOST
        ))),
        Err(error) => Err(error.into()),
    }
}

/// List contact properties
///
/// The declared properties of the workspace, newest first.
#[utoipa::path(
    get, path = "/contact-properties", tag = "Contact properties", operation_id = "list_contact_properties",
    params(Page), responses((status = 200, description = "The properties, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Declared::read(row)?.into()))
}

/// Read a contact property
///
/// Its key, its type, and what stands in where a contact has no value.
#[utoipa::path(
    get, path = "/contact-properties/{id}", tag = "Contact properties", operation_id = "read_contact_property",
    params(PathId), responses((status = 200, description = "The property.", body = Item)),
)]
async fn read(caller: Caller, PathId(id): PathId<PropertyId>) -> JsonResult<Item> {
    Ok(Json(find(&caller, id).await?.into()))
}

/// Change a contact property's fallback
///
/// Key and type cannot be changed: declare another property instead.
#[utoipa::path(
    patch, path = "/contact-properties/{id}", tag = "Contact properties", operation_id = "update_contact_property",
    params(PathId), request_body = ContactPropertyChange,
    responses((status = 200, description = "The fallback is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    PathId(id): PathId<PropertyId>,
    body: Body<ContactPropertyChange>,
) -> JsonResult<Reference> {
    let property = find(&caller, id).await?;
    let fallback = changed(&property, body.read()?)?;
    set_fallback(&caller, id, fallback.as_ref()).await?;
    Ok(Json(Reference::to(id)))
}

pub(super) async fn set_fallback(actor: &dyn Actor, id: PropertyId, fallback: Option<&Value>) -> Result<(), Error> {
    let set = store::set_fallback(actor.workspace_id(), id, fallback);
    actor.act(set.into()).await?.or_missing(not_found).map(drop)
}

/// The new fallback. A wish for another key or type is refused: leaving it aside
/// would look as if it were granted.
fn changed(property: &Declared, change: ContactPropertyChange) -> Result<Option<Value>, Error> {
    let ContactPropertyChange { key, kind, fallback_value: Change(fallback) } = change;
    for (field, given, own) in [("key", key, property.key.as_str()), ("type", kind, property.kind.as_str())] {
        if given.is_some_and(|value| value != own) {
            return Err(Error::invalid(format!("The `{field}` field of a property cannot be changed.")));
        }
    }
    let missing = || Error::Missing { message: "Missing `fallback_value` field.".into() };
    property.kind.fallback(fallback.ok_or_else(missing)?)
}

/// Delete a contact property
///
/// Only the declaration goes. Contacts keep their values, which may be of any type from then on.
#[utoipa::path(
    delete, path = "/contact-properties/{id}", tag = "Contact properties", operation_id = "delete_contact_property",
    params(PathId), responses((status = 200, description = "The property is not declared any more.", body = Deleted)),
)]
async fn delete(caller: Caller, PathId(id): PathId<PropertyId>) -> JsonResult<Deleted> {
    remove(&caller, id).await?;
    Ok(Json(Deleted::of(id)))
}

pub(super) async fn remove(actor: &dyn Actor, id: PropertyId) -> Result<(), Error> {
    actor.act(store::delete(actor.workspace_id(), id).into()).await?.or_missing(not_found).map(drop)
}

fn not_found() -> Error {
    Error::not_found("Contact property not found. `GET /contact-properties` lists those there are.")
}

pub(super) async fn find(actor: &dyn Actor, id: PropertyId) -> Result<Declared, Error> {
    let rows = actor.read(|| store::by_id(actor.workspace_id(), id)).await?;
    Ok(Declared::read(rows.first().ok_or_else(not_found)?)?)
}
