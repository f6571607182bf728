//! The HTTP face of event definitions.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::Uri;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::event::{EventName, Schema};
use super::occurrences;
use super::store::{self, Stored};
use crate::auth::Caller;
use crate::clock::rfc3339;
use crate::error::{Error, OrMissing};
use crate::events::Events;
use crate::id::EventId;
use crate::occurrences::SystemEvent;
use crate::text::shown;
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, OrNull, Page, RECENT};

type Reference = web::Reference<EventId>;
type Deleted = web::Deleted<EventId>;

pub fn router() -> OpenApiRouter<Events> {
    let named = || get(read).patch(update).delete(delete);
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(read, update, delete))
        // Whatever is sent here by POST, these are names like any other.
        .route("/events/send", named())
        .route("/events/send/batch", named())
}

/// The definition of an event.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^event$", nullable = false)]
    object: Option<&'static str>,
    #[schema(value_type = Uuid)]
    id: EventId,
    #[schema(example = "user.created")]
    name: String,
    /// Keys of the payload and their types; null: any payload.
    #[schema(value_type = Option<Schema>, required = true)]
    schema: Option<Box<RawValue>>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    updated_at: Option<String>,
    /// Whether nobody defined it, but the first event that was sent under its name. A name that is misspelt shows so.
    defined_by_use: bool,
}

/// What to define.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewEvent {
    pub(super) name: EventName,
    /// Keys of the payload and their types; null or left out: any payload.
    pub(super) schema: Option<Schema>,
}

/// What to change.
#[derive(Deserialize, ToSchema)]
#[schema(as = EventChange)]
pub struct Change {
    /// The new schema; null removes it.
    #[schema(value_type = Option<Schema>, required = true)]
    schema: OrNull<Schema>,
}

/// Which event: the path behind `/events/`, in which names may hold slashes.
pub struct EventPath(Uri);

impl IntoParams for EventPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The id or the name of the event, percent-encoded. A name finds its newest definition.";
        vec![web::name_in_path("identifier", description, "order.placed")]
    }
}

impl<S: Sync> FromRequestParts<S> for EventPath {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<EventPath, Error> {
        Ok(EventPath(parts.uri.clone()))
    }
}

impl Item {
    fn new(stored: Stored) -> Result<Item, Error> {
        let schema = stored.schema.map(RawValue::from_string).transpose();
        Ok(Item {
            object: None,
            id: stored.id,
            name: stored.name,
            schema: schema.map_err(|_| Error::Internal)?,
            created_at: rfc3339(stored.created_at),
            updated_at: stored.updated_at.map(rfc3339),
            defined_by_use: stored.defined_by_use,
        })
    }
}

/// Define an event
///
/// Defines an event by name, so that automations can be triggered by it. Names need not be unique: the newest
/// definition of a name is the one in force.
#[utoipa::path(
    post, path = "/events", tag = "Events", operation_id = "create_event",
    params(Idempotency), request_body = NewEvent,
    responses((status = 201, description = "The event is defined.", body = Reference)),
)]
async fn create(
    caller: Caller,
    State(app): State<Events>,
    key: Idempotency,
    body: Body<NewEvent>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let NewEvent { name, schema } = read_new(body)?;
    if schema.is_none() {
        warn_of_lost_schema(&caller, &name).await?;
    }
    let (id, now) = (app.clock.ordered_id(), app.clock.now());
    let answer = Answer::created(&Reference::to(id))?;
    let insert = || store::insert(caller.workspace_id(), id, &name, schema.as_ref(), now).into();
    Ok(request.commit(answer, insert).await??)
}

/// A name that is defined without a schema loses the one that it had. Where that cannot be read, nothing is said.
async fn warn_of_lost_schema(caller: &Caller, name: &EventName) -> Result<(), Error> {
    let in_force = caller.query::<Option<Stored>>(|| store::by_name(caller.workspace_id(), name.as_str())).await;
    match in_force.is_ok_and(|found| found.is_some_and(|stored| stored.schema.is_some())) {
        true => web::warn(|| {
            let name = shown(name.as_str());
            format!(
                "The event `{name}` has a schema, and a definition without one replaces it: any payload is accepted then."
            )
        }),
        false => Ok(()),
    }
}

/// A body meant for `POST /events/send` comes here often.
fn read_new(body: Body<NewEvent>) -> Result<NewEvent, Error> {
    let is_sent = body.fields().get("event").is_some_and(|event| !event.is_null());
    body.read().map_err(|error| match error {
        Error::Missing { .. } if is_sent => Error::Missing {
            message: "Missing `name` field. This route defines an event by its `name`; the body looks like one that sends it.".into(),
        },
        other => other,
    })
}

/// List events
///
/// Every definition of the workspace, newest first, those that a newer one of the same name has replaced included.
#[utoipa::path(
    get, path = "/events", tag = "Events", operation_id = "list_events",
    params(Page), responses((status = 200, description = "The definitions, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Item::new(Stored::read(row)?))
}

/// Read an event
///
/// By its id, or by its name: then the definition in force is returned.
#[utoipa::path(
    get, path = "/events/{*identifier}", tag = "Events", operation_id = "read_event",
    params(EventPath), responses((status = 200, description = "The definition.", body = Item)),
)]
async fn read(caller: Caller, EventPath(uri): EventPath) -> Result<Response, Error> {
    match find(&caller, uri.path()).await {
        Ok(stored) => {
            let mut item = Item::new(stored)?;
            item.object = Some("event");
            Ok(Json(item).into_response())
        }
        Err(missing) => match uri.path().strip_suffix("/occurrences") {
            Some(path) => read_occurrences(&caller, path, &uri).await,
            None => Err(missing),
        },
    }
}

/// What happened under a name, or under the name that an id stands for. Here
/// because names may hold slashes, so one route has to take all paths. A name
/// that is not defined may have been once, or be the product's own.
async fn read_occurrences(caller: &Caller, path: &str, uri: &Uri) -> Result<Response, Error> {
    let page = Page::parse(uri.query().unwrap_or_default(), RECENT)?;
    let name = match find(caller, path).await {
        Ok(stored) => stored.name,
        Err(missing) => {
            let name = name_in(path).ok_or(missing)?;
            let happened = caller.read(|| occurrences::any(caller.workspace_id(), &name)).await?;
            if happened.is_empty() && !SystemEvent::ALL.contains(&name.as_str()) {
                return Err(not_found());
            }
            name
        }
    };
    Ok(occurrences::list(caller, &name, &page).await?.into_response())
}

/// What stands behind `/events/` in a path, decoded.
fn name_in(path: &str) -> Option<String> {
    let encoded = path.strip_prefix("/events/")?;
    let name = percent_decode_str(encoded).decode_utf8().ok()?;
    (!name.contains('\0')).then(|| name.into_owned())
}

/// Change an event's schema
///
/// Replaces the whole schema. An event that was defined by use is yours from then on. The name cannot be changed:
/// define another event instead.
#[utoipa::path(
    patch, path = "/events/{*identifier}", tag = "Events", operation_id = "update_event",
    params(EventPath), request_body = Change,
    responses((status = 200, description = "The schema is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(app): State<Events>,
    EventPath(uri): EventPath,
    body: Body<Change>,
) -> JsonResult<Reference> {
    let OrNull(schema) = body.read()?.schema;
    let id = find(&caller, uri.path()).await?.id;
    caller.acts_on(id);
    let now = app.clock.now();
    let set = || store::set_schema(caller.workspace_id(), id, schema.as_ref(), now).into();
    caller.try_commit(set).await?.or_missing(not_found)?;
    Ok(Json(Reference::to(id)))
}

/// Delete an event
///
/// Deletes one definition. Where the name was defined before, that older definition is in force again.
#[utoipa::path(
    delete, path = "/events/{*identifier}", tag = "Events", operation_id = "delete_event",
    params(EventPath), responses((status = 200, description = "The definition is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, EventPath(uri): EventPath) -> JsonResult<Deleted> {
    let id = find(&caller, uri.path()).await?.id;
    caller.acts_on(id);
    caller.try_commit(|| store::delete(caller.workspace_id(), id).into()).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

/// Finds an event by what stands behind `/events/` in the path: an id, or else
/// a name, which may hold slashes of its own.
async fn find(caller: &Caller, path: &str) -> Result<Stored, Error> {
    let key = name_in(path).ok_or_else(not_found)?;
    if let Ok(id) = key.parse()
        && let Some(stored) = caller.query(|| store::by_id(caller.workspace_id(), id)).await?
    {
        return Ok(stored);
    }
    caller.query::<Option<_>>(|| store::by_name(caller.workspace_id(), &key)).await?.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("Event not found. Check the id or the name; names are case-sensitive.")
}
