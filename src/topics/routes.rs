//! The HTTP face of topics.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::shapes::Item;
use super::store;
use super::topic::{NewTopic, TopicChange};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::db::Batch;
use crate::error::{Error, OrMissing};
use crate::id::TopicId;
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, Page, PathId};
use crate::webhooks::{self, EventType, When};

type Reference = web::Reference<TopicId>;
type Deleted = web::Deleted<TopicId>;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

/// Create a topic
///
/// Makes something that mail can be about, and says what holds for contacts that have not chosen. Names need not be
/// unique.
#[utoipa::path(
    post, path = "/topics", tag = "Topics", operation_id = "create_topic",
    params(Idempotency), request_body = NewTopic,
    responses((status = 201, description = "The topic is made.", body = Reference)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<NewTopic>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let new = body.read()?;
    let (id, now) = (app.clock.ordered_id(), app.clock.now());
    let answer = Answer::created(&Reference::to(id))?;
    let made = Item::of_new(id, &new, now).published(None, false);
    let insert = || {
        let mut batch = Batch::from(store::insert(caller.workspace_id(), id, &new, now));
        publish(&caller, &app, (EventType::TopicCreated, &made), &mut batch);
        batch
    };
    Ok(request.commit(answer, insert).await??)
}

/// List topics
///
/// The topics of the workspace, newest first.
#[utoipa::path(
    get, path = "/topics", tag = "Topics", operation_id = "list_topics",
    params(Page), responses((status = 200, description = "The topics, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::read(row)?))
}

/// Read a topic
///
/// What it is called, what it is about, and what holds for contacts that have not chosen.
#[utoipa::path(
    get, path = "/topics/{id}", tag = "Topics", operation_id = "read_topic",
    params(PathId), responses((status = 200, description = "The topic.", body = Item)),
)]
async fn read(caller: Caller, PathId(id): PathId<TopicId>) -> JsonResult<Item> {
    Ok(Json(find(&caller, id).await?.alone()))
}

/// Change a topic
///
/// Changes what the body names and leaves the rest. What holds for contacts that have not chosen cannot be changed:
/// it would sign people up for mail, or off, that they never decided on.
#[utoipa::path(
    patch, path = "/topics/{id}", tag = "Topics", operation_id = "update_topic",
    params(PathId), request_body = Option<TopicChange>,
    responses((status = 200, description = "The topic is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(app): State<App>,
    PathId(id): PathId<TopicId>,
    body: Body<TopicChange>,
) -> JsonResult<Reference> {
    let changes = body.read()?;
    let before = find(&caller, id).await?;
    if changes.default_subscription.is_some_and(|default| before.default_subscription != default.as_str()) {
        return Err(Error::invalid("The `default_subscription` field of a topic cannot be changed."));
    }
    let changed = before.changed(&changes).published(Some(app.clock.now()), false);
    let change = || {
        let mut batch = Batch::from(store::change(caller.workspace_id(), id, &changes));
        publish(&caller, &app, (EventType::TopicUpdated, &changed), &mut batch);
        batch
    };
    caller.try_commit(change).await?.or_missing(not_found)?;
    Ok(Json(Reference::to(id)))
}

/// Delete a topic
///
/// What contacts chose of it is forgotten.
#[utoipa::path(
    delete, path = "/topics/{id}", tag = "Topics", operation_id = "delete_topic",
    params(PathId), responses((status = 200, description = "The topic is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, State(app): State<App>, PathId(id): PathId<TopicId>) -> JsonResult<Deleted> {
    let gone = find(&caller, id).await?.published(Some(app.clock.now()), true);
    let delete = || {
        let mut batch = store::delete(caller.workspace_id(), id, app.clock.steady());
        publish(&caller, &app, (EventType::TopicDeleted, &gone), &mut batch);
        batch
    };
    caller.try_commit(delete).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

/// Tells webhooks, in the same commit.
fn publish(caller: &Caller, app: &App, (kind, data): (EventType, &Value), batch: &mut Batch) {
    webhooks::publish(batch, &app.clock, caller.workspace_id(), (kind, When::Always, app.clock.now()), data);
}

/// Refuses a topic that the caller's workspace does not have.
pub async fn must_exist(caller: &impl Actor, id: TopicId) -> Result<(), Error> {
    find(caller, id).await.map(drop)
}

pub fn not_found() -> Error {
    Error::not_found("Topic not found. `GET /topics` lists those there are.")
}

async fn find(caller: &impl Actor, id: TopicId) -> Result<Item, Error> {
    caller.query::<Option<Item>>(|| store::by_id(caller.workspace_id(), id)).await?.ok_or_else(not_found)
}
