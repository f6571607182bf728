//! Broadcasts over HTTP: made, read, changed and deleted.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{BroadcastChange, NewBroadcast};
use super::broadcast::Broadcast;
use super::shapes::{Detail, Item};
use super::store::{self, Launch};
use super::{Broadcasts, content};
use crate::auth::{Actor, Caller};
use crate::clock::Clock;
use crate::db::DbError;
use crate::emails::parse_schedule;
use crate::error::Error;
use crate::id::{BroadcastId, shared_id};
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, OfPath, OfState, Page, PathId};

pub type Reference = web::Reference<BroadcastId>;
type Deleted = web::Deleted<BroadcastId>;

/// How often a change is tried again that another came before.
const ATTEMPTS: usize = 4;

pub fn router() -> OpenApiRouter<Broadcasts> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read, update, delete))
}

pub fn not_found() -> Error {
    Error::not_found("Broadcast not found. `GET /broadcasts` lists those there are.")
}

pub async fn find(caller: &dyn Actor, id: BroadcastId) -> Result<Broadcast, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
    Ok(Broadcast::read(rows.first().ok_or_else(not_found)?)?)
}

/// When something is to be sent, at once where no time is given.
pub fn launch(scheduled_at: Option<&str>, clock: &Clock) -> Result<Launch, Error> {
    let (now, steady) = (clock.now(), clock.steady());
    let wrong = |flaw: String| Error::invalid(format!("The `scheduled_at` field {flaw}."));
    let at = scheduled_at.map(|text| parse_schedule(text, now)).transpose().map_err(wrong)?;
    Ok(Launch::at(at, now, steady))
}

/// The id of a new broadcast, and the lane in which its recipients will wait.
pub fn new_id(clock: &Clock) -> (BroadcastId, i64) {
    let tick = clock.tick();
    (shared_id(tick.id()), tick.number())
}

/// Create a broadcast
///
/// A mail to everybody in a segment, as a draft; with `send` it is sent, at once or when `scheduled_at` says. In
/// subject and bodies, `{{{FIRST_NAME|there}}}`, `{{{LAST_NAME}}}`, `{{{EMAIL}}}`, `{{{contact.KEY}}}` for a property
/// and `{{{UNSUBSCRIBE_URL}}}` are filled in for each recipient when the mail leaves.
#[utoipa::path(
    post, path = "/broadcasts", tag = "Broadcasts", operation_id = "create_broadcast",
    params(Idempotency), request_body = NewBroadcast,
    responses((status = 201, description = "The broadcast is made.", body = Reference), OfPath),
)]
async fn create(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    key: Idempotency,
    body: Body<NewBroadcast>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &broadcasts, &body);
    let work = async {
        let given = body.read()?;
        let is_sent = given.send.unwrap_or_default();
        if given.scheduled_at.is_some() && !is_sent {
            return Err(Error::invalid("The `scheduled_at` field is for a broadcast with `send`: true."));
        }
        let scheduled_at = given.scheduled_at.clone();
        let content = given.content()?;
        let launch = match is_sent {
            true => launch(scheduled_at.as_deref(), &broadcasts.clock)?,
            false => Launch::NONE,
        };
        match is_sent {
            true => content::check(&broadcasts, &caller, &content).await?,
            false => content::check_ties(&broadcasts, &caller, &content).await?,
        }
        let (id, lane) = new_id(&broadcasts.clock);
        let (whose, now) = ((caller.workspace_id(), id, lane), broadcasts.clock.now());
        let insert = || store::insert(whose, &content, &launch, now).into();
        let answered = request.commit(Answer::created(&Reference::to(id))?, insert).await?;
        broadcasts.launched.notify_one();
        Ok(answered?)
    };
    request.run(work).await
}

/// List broadcasts
///
/// The broadcasts of the workspace, newest first, without their contents.
#[utoipa::path(
    get, path = "/broadcasts", tag = "Broadcasts", operation_id = "list_broadcasts",
    params(Page), responses((status = 200, description = "The broadcasts, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::from(&Broadcast::read(row)?)))
}

/// Read a broadcast
///
/// With its contents, and how far it is. Counts are at most a second old.
#[utoipa::path(
    get, path = "/broadcasts/{id}", tag = "Broadcasts", operation_id = "read_broadcast",
    params(PathId), responses((status = 200, description = "The broadcast.", body = Detail)),
)]
async fn read(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
) -> JsonResult<Detail> {
    let broadcast = find(&caller, id).await?;
    let progress = broadcasts.progress(&broadcast).await?;
    Ok(Json(Detail::new(broadcast, progress)))
}

/// Change a broadcast
///
/// Changes what the body names and leaves the rest, as long as it is a draft.
#[utoipa::path(
    patch, path = "/broadcasts/{id}", tag = "Broadcasts", operation_id = "update_broadcast",
    params(PathId), request_body = Option<BroadcastChange>,
    responses((status = 200, description = "The broadcast is changed.", body = Reference), OfState),
)]
async fn update(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
    body: Body<BroadcastChange>,
) -> JsonResult<Reference> {
    let fields = body.fields().clone();
    for _ in 0..ATTEMPTS {
        let version = caller.read(|| store::version(caller.workspace_id(), id)).await?;
        let version = version.first().ok_or_else(not_found)?.int(0)?;
        let broadcast = find(&caller, id).await?;
        if broadcast.state != super::broadcast::State::Draft {
            return Err(broadcast.refusal("Only a draft can be changed"));
        }
        let change: BroadcastChange = Body::<BroadcastChange>::new(fields.clone()).read()?;
        let content = change.apply(&broadcast.content)?;
        content::check_ties(&broadcasts, &caller, &content).await?;
        match caller.try_commit(|| store::replace(caller.workspace_id(), id, &content, version).into()).await? {
            Err(DbError::Unexpected { .. }) => {}
            settled => {
                settled?;
                return Ok(Json(Reference::to(id)));
            }
        }
    }
    Err(Error::Unavailable)
}

/// Delete a broadcast
///
/// As long as it is a draft. Of one that was sent, what became of its mail is kept.
#[utoipa::path(
    delete, path = "/broadcasts/{id}", tag = "Broadcasts", operation_id = "delete_broadcast",
    params(PathId), responses((status = 200, description = "The broadcast is gone.", body = Deleted), OfState),
)]
async fn delete(caller: Caller, PathId(id): PathId<BroadcastId>) -> JsonResult<Deleted> {
    let broadcast = find(&caller, id).await?;
    match caller.try_commit(|| store::delete(caller.workspace_id(), id).into()).await? {
        Err(DbError::Unexpected { .. }) => Err(broadcast.refusal("Only a draft can be deleted")),
        settled => {
            settled?;
            Ok(Json(Deleted::of(id)))
        }
    }
}
