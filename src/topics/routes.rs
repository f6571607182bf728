//! The HTTP face of topics.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::shapes::Item;
use super::store;
use super::topic::{NewTopic, TopicChange};
use crate::app::App;
use crate::auth::{Caller, Need};
use crate::error::{Error, OrMissing};
use crate::id::TopicId;
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, Page, PathId};

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
    let insert = || store::insert(caller.workspace_id(), id, &new, now).into();
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
async fn update(caller: Caller, PathId(id): PathId<TopicId>, body: Body<TopicChange>) -> JsonResult<Reference> {
    let changes = body.read()?;
    if let Some(default) = changes.default_subscription
        && find(&caller, id).await?.default_subscription != default.as_str()
    {
        return Err(Error::invalid("The `default_subscription` field of a topic cannot be changed."));
    }
    caller.try_commit(|| store::change(caller.workspace_id(), id, &changes).into()).await?.or_missing(not_found)?;
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
    let delete = || store::delete(caller.workspace_id(), id, app.clock.steady());
    caller.try_commit(delete).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

/// Refuses a topic that the caller's workspace does not have.
pub async fn must_exist<N: Need>(caller: &Caller<N>, id: TopicId) -> Result<(), Error> {
    find(caller, id).await.map(drop)
}

pub fn not_found() -> Error {
    Error::not_found("Topic not found. `GET /topics` lists those there are.")
}

async fn find<N: Need>(caller: &Caller<N>, id: TopicId) -> Result<Item, Error> {
    caller.query::<Option<Item>>(|| store::by_id(caller.workspace_id(), id)).await?.ok_or_else(not_found)
}
