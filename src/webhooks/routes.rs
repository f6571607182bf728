//! The HTTP face of webhooks.

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::event::EventTypes;
use super::shapes::{AttemptItem, EventDetail, EventItem, Item, Made, WebhookDetail};
use super::store::{self, Changes, MOST};
use super::webhook::{Endpoint, NewWebhook, WebhookChange};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::calls;
use crate::clock::DAY;
use crate::credentials::grant_stands;
use crate::db::{Batch, DbError, Stmt};
use crate::error::{Error, OrMissing};
use crate::id::{WebhookEventId, WebhookId, WorkspaceId};
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, Newest, OfState, Page, PathId};

type Reference = web::Reference<WebhookId>;
type EventReference = web::Reference<WebhookEventId>;
type Deleted = web::Deleted<WebhookId>;

/// How long the secret before signs beside a new one.
const GRACE: i64 = DAY;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(read, update, delete))
        .routes(routes!(rotate))
        .routes(routes!(events))
        .routes(routes!(event))
        .routes(routes!(attempts))
        .routes(routes!(replay))
}

/// The ids in the path of an event.
pub struct EventPath {
    pub webhook: WebhookId,
    pub event: WebhookEventId,
}

impl IntoParams for EventPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let webhook = web::id_in_path("id", "The id of the webhook.");
        vec![webhook, web::id_in_path("event_id", "The id of the event, with or without the `msg_` before it.")]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EventPath {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<EventPath, Error> {
        let wrong = || Error::InvalidParameter { message: "The ids in the path must be UUIDs.".into() };
        let ids = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((webhook, event)) = ids.map_err(|_| wrong())?;
        let event = event.strip_prefix("msg_").unwrap_or(&event);
        let ids = webhook.parse().ok().zip(event.parse().ok());
        ids.map(|(webhook, event)| EventPath { webhook, event }).ok_or_else(wrong)
    }
}

/// Create a webhook
///
/// From now on, every event of the types that it listens to is posted to the endpoint, signed with the secret of the
/// answer in the notation of Standard Webhooks.
#[utoipa::path(
    post, path = "/webhooks", tag = "Webhooks", operation_id = "create_webhook",
    params(Idempotency), request_body = NewWebhook,
    responses((status = 201, description = "The webhook is made.", body = Made)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<NewWebhook>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let NewWebhook { endpoint, events } = body.read()?;
    endpoint.must_be_allowed(app.config.private_webhooks)?;
    let (id, secret) = (app.clock.ordered_id(), calls::new_secret());
    let sealed = app.seal.close_text(&secret);
    let new = NewRow { id, endpoint: &endpoint, events, sealed: &sealed };
    let last = making(&caller, &app, &new).len() - 1;
    let answer = Answer::created(&Made::new(id, secret))?.secret();
    match request.commit(answer, || making(&caller, &app, &new)).await? {
        Err(DbError::Unexpected { statement }) if statement == last => Err(too_many()),
        settled => Ok(settled?),
    }
}

/// A webhook to make.
pub struct NewRow<'a> {
    pub id: WebhookId,
    pub endpoint: &'a Endpoint,
    pub events: EventTypes,
    pub sealed: &'a str,
}

/// A batch that makes a webhook; its last statement fails where there are as many as there may be.
pub fn making(actor: &dyn Actor, app: &App, new: &NewRow<'_>) -> Batch {
    let grant_id = actor.grant_id();
    let new = store::NewWebhook {
        workspace_id: actor.workspace_id(),
        id: new.id,
        endpoint: new.endpoint.as_str(),
        events: new.events,
        secret: new.sealed,
        grant_id,
        now: app.clock.now(),
    };
    let mut batch = Batch::new();
    // It outlives the request: a grant that ends in this moment ends it, too.
    if let Some(grant_id) = grant_id {
        batch = batch.fence(grant_stands(grant_id));
    }
    batch.append(store::insert(&new));
    batch
}

pub fn too_many() -> Error {
    Error::invalid(format!("There are {MOST} webhooks already, which is as many as there can be. Delete one first."))
}

/// List webhooks
///
/// The webhooks of the workspace, newest first, without their secrets.
#[utoipa::path(
    get, path = "/webhooks", tag = "Webhooks", operation_id = "list_webhooks",
    params(Page), responses((status = 200, description = "The webhooks, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::read(row)?))
}

/// Read a webhook
///
/// With the secret that its deliveries are signed with.
#[utoipa::path(
    get, path = "/webhooks/{id}", tag = "Webhooks", operation_id = "read_webhook",
    params(PathId), responses((status = 200, description = "The webhook.", body = WebhookDetail)),
)]
async fn read(caller: Caller, State(app): State<App>, PathId(id): PathId<WebhookId>) -> JsonResult<WebhookDetail> {
    Ok(Json(find(&caller, id).await?.opened(&app.seal)))
}

/// Change a webhook
///
/// Changes what the body names and leaves the rest. While a webhook is disabled, nothing is kept for it; what waited
/// for it is given up.
#[utoipa::path(
    patch, path = "/webhooks/{id}", tag = "Webhooks", operation_id = "update_webhook",
    params(PathId), request_body = Option<WebhookChange>,
    responses((status = 200, description = "The webhook is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(app): State<App>,
    PathId(id): PathId<WebhookId>,
    body: Body<WebhookChange>,
) -> JsonResult<Reference> {
    change(&caller, &app, id, body.read()?).await.map(|()| Json(Reference::to(id)))
}

pub async fn change(actor: &dyn Actor, app: &App, id: WebhookId, given: WebhookChange) -> Result<(), Error> {
    let WebhookChange { endpoint, events, status } = given;
    endpoint.iter().try_for_each(|endpoint| endpoint.must_be_allowed(app.config.private_webhooks))?;
    let endpoint = endpoint.as_ref().map(|endpoint| endpoint.as_str());
    let changes = Changes { endpoint, events, status, grant_id: actor.grant_id() };
    let changed = actor.try_commit(|| store::change(actor.workspace_id(), id, &changes)).await?;
    changed.or_missing(not_found).map(drop)
}

/// Delete a webhook
///
/// Nothing is delivered to it any more, and what was is forgotten.
#[utoipa::path(
    delete, path = "/webhooks/{id}", tag = "Webhooks", operation_id = "delete_webhook",
    params(PathId), responses((status = 200, description = "The webhook is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, PathId(id): PathId<WebhookId>) -> JsonResult<Deleted> {
    caller.try_commit(|| store::delete(caller.workspace_id(), id)).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

/// Make a new signing secret
///
/// For a day, deliveries are signed with the new secret and with the one before, so that nobody who verifies them has
/// to change at the same moment.
#[utoipa::path(
    post, path = "/webhooks/{id}/signing-secret/rotate", tag = "Webhooks", operation_id = "rotate_webhook_secret",
    params(PathId, Idempotency), responses((status = 200, description = "The new secret.", body = Made)),
)]
async fn rotate(
    caller: Caller,
    State(app): State<App>,
    PathId(id): PathId<WebhookId>,
    key: Idempotency,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &());
    let secret = calls::new_secret();
    let rotation = rotating(&app, caller.workspace_id(), id, &secret);
    let answer = Answer::json(StatusCode::OK, &Made::new(id, secret))?.secret();
    request.commit(answer, || rotation.clone().into()).await?.or_missing(not_found)
}

/// Gives a webhook another secret.
pub fn rotating(app: &App, workspace_id: WorkspaceId, id: WebhookId, secret: &str) -> Stmt {
    store::rotate(workspace_id, id, &app.seal.close_text(secret), app.clock.steady() + GRACE)
}

/// List the events of a webhook
///
/// What it was told, newest first, and what became of each on its way to it.
#[utoipa::path(
    get, path = "/webhooks/{id}/events", tag = "Webhooks", operation_id = "list_webhook_events",
    params(PathId, Newest), responses((status = 200, description = "The events, newest first.", body = List<EventItem>)),
)]
async fn events(caller: Caller, PathId(id): PathId<WebhookId>, Newest(page): Newest) -> JsonResult<List<EventItem>> {
    find(&caller, id).await?;
    let rows = caller.read(|| store::events(id, &page)).await?;
    page.answer(&rows, |row| Ok(EventItem::read(row)?.now()))
}

/// Read an event of a webhook
///
/// With what is posted, and when it is tried next.
#[utoipa::path(
    get, path = "/webhooks/{id}/events/{event_id}", tag = "Webhooks", operation_id = "read_webhook_event",
    params(EventPath), responses((status = 200, description = "The event.", body = EventDetail)),
)]
async fn event(caller: Caller, State(app): State<App>, path: EventPath) -> JsonResult<EventDetail> {
    Ok(Json(find_event(&caller, &path).await?.now(&app.clock)))
}

/// List the attempts to deliver an event
///
/// Newest first, with how the endpoint answered.
#[utoipa::path(
    get, path = "/webhooks/{id}/events/{event_id}/attempts", tag = "Webhooks",
    operation_id = "list_webhook_event_attempts", params(EventPath, Newest),
    responses((status = 200, description = "The attempts, newest first.", body = List<AttemptItem>)),
)]
async fn attempts(caller: Caller, path: EventPath, Newest(page): Newest) -> JsonResult<List<AttemptItem>> {
    find_event(&caller, &path).await?;
    let rows = caller.read(|| store::attempts(path.webhook, path.event, &page)).await?;
    page.answer(&rows, |row| Ok(AttemptItem::read(row)?))
}

/// Deliver an event again
///
/// At once, whatever became of it before, and from the first attempt on. It is the same event: its id is the same.
#[utoipa::path(
    post, path = "/webhooks/{id}/events/{event_id}/replay", tag = "Webhooks", operation_id = "replay_webhook_event",
    params(EventPath),
    responses((status = 200, description = "The event is delivered again.", body = EventReference), OfState),
)]
async fn replay(caller: Caller, State(app): State<App>, path: EventPath) -> JsonResult<EventReference> {
    send_again(&caller, &app, &path, None).await.map(|()| Json(EventReference::to(path.event)))
}

/// Delivers an event anew, once for each form that asks for it.
pub async fn send_again(actor: &dyn Actor, app: &App, path: &EventPath, form: Option<Uuid>) -> Result<(), Error> {
    find_event(actor, path).await?;
    let (workspace_id, now) = (actor.workspace_id(), app.clock.steady());
    let replay = || {
        let mut batch = store::replay(workspace_id, path.webhook, path.event, now);
        form.into_iter().for_each(|id| batch.push(web::take_form(workspace_id, id, &[0; 32], now)));
        batch
    };
    match actor.try_commit(replay).await? {
        Err(DbError::Duplicate(_)) => return Ok(()),
        Err(DbError::Unexpected { statement: 0 }) => {
            let message = "The webhook is disabled. Enable it first.".into();
            return Err(Error::Conflict { message });
        }
        settled => settled.or_missing(no_event)?,
    };
    app.wake_webhooks();
    Ok(())
}

async fn find(caller: &dyn Actor, id: WebhookId) -> Result<WebhookDetail, Error> {
    caller.query::<Option<WebhookDetail>>(|| store::by_id(caller.workspace_id(), id)).await?.ok_or_else(not_found)
}

async fn find_event(caller: &dyn Actor, path: &EventPath) -> Result<EventDetail, Error> {
    find(caller, path.webhook).await?;
    caller.query::<Option<EventDetail>>(|| store::event_of(path.webhook, path.event)).await?.ok_or_else(no_event)
}

fn not_found() -> Error {
    Error::not_found("Webhook not found. `GET /webhooks` lists those there are.")
}

fn no_event() -> Error {
    Error::not_found("Event not found. `GET /webhooks/{id}/events` lists those that the webhook was told.")
}
