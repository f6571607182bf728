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
use crate::db::{Batch, DbError};
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
    Ok(request.commit(answer, || insertion(&caller, &app, id, &new, now)).await??)
}

fn insertion(actor: &dyn Actor, app: &App, id: TopicId, new: &NewTopic, now: i64) -> Batch {
    let mut batch = Batch::from(store::insert(actor.workspace_id(), id, new, now));
    let made = Item::of_new(id, new, now).published(None, false);
    publish(actor, app, (EventType::TopicCreated, &made), &mut batch);
    batch
}

/// Makes a topic, as a form asks for it.
pub(super) async fn add(actor: &dyn Actor, app: &App, id: TopicId, new: &NewTopic) -> Result<(), Error> {
    match actor.act(insertion(actor, app, id, new, app.clock.now())).await? {
        Err(DbError::Duplicate(_)) => Ok(()),
        made => Ok(made.map(drop)?),
    }
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
    change(&caller, &app, id, &body.read()?).await?;
    Ok(Json(Reference::to(id)))
}

/// Changes a topic.
pub(super) async fn change(actor: &dyn Actor, app: &App, id: TopicId, changes: &TopicChange) -> Result<(), Error> {
    let before = find(actor, id).await?;
    if changes.default_subscription.is_some_and(|default| before.default_subscription != default.as_str()) {
        return Err(Error::invalid("The `default_subscription` field of a topic cannot be changed."));
    }
    let changed = before.changed(changes).published(Some(app.clock.now()), false);
    let mut batch = Batch::from(store::change(actor.workspace_id(), id, changes));
    publish(actor, app, (EventType::TopicUpdated, &changed), &mut batch);
    actor.act(batch).await?.or_missing(not_found).map(drop)
}

/// Delete a topic
///
/// What contacts chose of it is forgotten.
#[utoipa::path(
    delete, path = "/topics/{id}", tag = "Topics", operation_id = "delete_topic",
    params(PathId), responses((status = 200, description = "The topic is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, State(app): State<App>, PathId(id): PathId<TopicId>) -> JsonResult<Deleted> {
    remove(&caller, &app, id).await?;
    Ok(Json(Deleted::of(id)))
}

/// Deletes a topic.
pub(super) async fn remove(actor: &dyn Actor, app: &App, id: TopicId) -> Result<(), Error> {
    let gone = find(actor, id).await?.published(Some(app.clock.now()), true);
    let mut batch = store::delete(actor.workspace_id(), id, app.clock.steady());
    publish(actor, app, (EventType::TopicDeleted, &gone), &mut batch);
    actor.act(batch).await?.or_missing(not_found).map(drop)
}

/// Tells webhooks, in the same commit.
fn publish(actor: &dyn Actor, app: &App, (kind, data): (EventType, &Value), batch: &mut Batch) {
    webhooks::publish(batch, &app.clock, actor.workspace_id(), (kind, When::Always, app.clock.now()), data);
}

/// Refuses a topic that the caller's workspace does not have.
pub async fn must_exist(actor: &dyn Actor, id: TopicId) -> Result<(), Error> {
    find(actor, id).await.map(drop)
}

pub fn not_found() -> Error {
    Error::not_found("Topic not found. `GET /topics` lists those there are.")
}

pub(super) async fn find(actor: &dyn Actor, id: TopicId) -> Result<Item, Error> {
    actor.query::<Option<Item>>(|| store::by_id(actor.workspace_id(), id)).await?.ok_or_else(not_found)
}
