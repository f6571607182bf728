//! What can be done with a broadcast: sent, stopped, and made again.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::Sending;
use super::broadcast::{Broadcast, Content, State as BroadcastState};
use super::routes::{Reference, find, launch, new_id, not_found};
use super::store::{self, Launch};
use super::{Broadcasts, content};
use crate::auth::{Actor, Caller, SendOnly};
use crate::db::{Batch, DbError};
use crate::emails::{self, State as MailState};
use crate::error::Error;
use crate::id::{BroadcastId, WorkspaceId};
use crate::text::words;
use crate::web::{Answer, Body, Idempotency, JsonResult, OfState, PathId};

pub fn router() -> OpenApiRouter<Broadcasts> {
    OpenApiRouter::new()
        .routes(routes!(send))
        .routes(routes!(cancel))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(duplicate))
}

/// A broadcast that is sent.
#[derive(Serialize, ToSchema)]
#[schema(as = SentBroadcast)]
struct Sent {
    #[schema(value_type = Uuid)]
    id: BroadcastId,
}

/// Send a broadcast
///
/// At once, or when `scheduled_at` says. It goes to everybody who is in its segment then, but for contacts that have
/// unsubscribed, from everything or from its topic, and for those on the suppression list; all of that is looked at
/// again when a contact's mail leaves. A broadcast is sent once: `POST /broadcasts/{id}/duplicate` makes another.
#[utoipa::path(
    post, path = "/broadcasts/{id}/send", tag = "Broadcasts", operation_id = "send_broadcast",
    params(PathId, Idempotency), request_body = Option<Sending>,
    responses((status = 200, description = "It is being sent, or scheduled.", body = Sent), OfState),
    security(("api_key" = []), ("oauth" = ["emails:send"])),
)]
async fn send(
    caller: Caller<SendOnly>,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
    key: Idempotency,
    body: Body<Sending>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &broadcasts, &body);
    let work = async {
        let launch = launch(body.read()?.scheduled_at.as_deref(), &broadcasts.clock)?;
        ready_to_send(&broadcasts, &caller, id).await?;
        let answer = Answer::json(StatusCode::OK, &Sent { id })?;
        let sending = || store::launch(caller.workspace_id(), id, &launch).into();
        match request.commit(answer, sending).await? {
            Err(DbError::Unexpected { .. }) => Err(not_a_draft(&find(&caller, id).await?)),
            settled => {
                broadcasts.launched.notify_one();
                Ok(settled?)
            }
        }
    };
    request.run(work).await
}

fn not_a_draft(found: &Broadcast) -> Error {
    found.refusal("Only a draft can be sent, and once")
}

/// A draft that could be sent at this moment.
async fn ready_to_send(broadcasts: &Broadcasts, actor: &dyn Actor, id: BroadcastId) -> Result<Broadcast, Error> {
    let broadcast = find(actor, id).await?;
    if broadcast.state != BroadcastState::Draft {
        return Err(not_a_draft(&broadcast));
    }
    content::check(broadcasts, actor, &broadcast.content).await?;
    Ok(broadcast)
}

/// Sends a draft on behalf of a person, at once or when the text says.
pub async fn send_by_form(
    broadcasts: &Broadcasts,
    actor: &dyn Actor,
    id: BroadcastId,
    scheduled_at: Option<&str>,
) -> Result<(), Error> {
    let launch = launch(scheduled_at, &broadcasts.clock)?;
    ready_to_send(broadcasts, actor, id).await?;
    match actor.try_commit(|| store::launch(actor.workspace_id(), id, &launch).into()).await? {
        Err(DbError::Unexpected { .. }) => return Err(not_a_draft(&find(actor, id).await?)),
        settled => drop(settled?),
    }
    broadcasts.launched.notify_one();
    Ok(())
}

/// Sends a draft at once, on behalf of an operator, who needs no key.
pub async fn send_as_operator(broadcasts: &Broadcasts, id: BroadcastId) -> Result<(), Error> {
    let rows = broadcasts.db.read(store::load(id)).await?;
    let broadcast = Broadcast::read(rows.first().ok_or_else(not_found)?)?;
    let refusal = || broadcast.refusal("Only a draft can be sent, and once");
    if broadcast.state != BroadcastState::Draft {
        return Err(refusal());
    }
    content::check_sendable(broadcasts, broadcast.workspace_id, None, &broadcast.content).await?;
    let launch = launch(None, &broadcasts.clock)?;
    match broadcasts.db.commit(store::launch(broadcast.workspace_id, id, &launch)).await {
        Err(DbError::Unexpected { .. }) => Err(refusal()),
        settled => Ok(settled.map(drop)?),
    }
}

/// What can be done with one that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Cancel,
    Pause,
    Resume,
}

words!(Act: ALL, parse { Cancel = "cancel", Pause = "pause", Resume = "resume" });

impl Act {
    /// Whether there is something to do.
    pub fn is_open(self, state: BroadcastState) -> bool {
        use BroadcastState::{Paused, Scheduled, Sending};
        match self {
            Act::Cancel => matches!(state, Scheduled | Sending | Paused),
            Act::Pause => state == Sending,
            Act::Resume => state == Paused,
        }
    }

    /// Whether it has been done.
    fn is_done(self, state: BroadcastState) -> bool {
        use BroadcastState::{Canceled, Draft, Paused, Sending, Sent};
        match self {
            Act::Cancel => matches!(state, Canceled | Draft),
            Act::Pause => state == Paused,
            Act::Resume => matches!(state, Sending | Sent),
        }
    }

    pub fn refusal(self, broadcast: &Broadcast) -> Error {
        broadcast.refusal(match self {
            Act::Cancel => "Only a broadcast that is scheduled or being sent can be canceled",
            Act::Pause => "Only a broadcast that is being sent can be paused",
            Act::Resume => "Only a broadcast that is paused can go on",
        })
    }

    pub fn batch(self, broadcasts: &Broadcasts, workspace_id: WorkspaceId, broadcast: &Broadcast) -> Batch {
        let (id, now) = (broadcast.id, broadcasts.clock.now());
        match self {
            Act::Cancel if broadcast.state == BroadcastState::Scheduled => {
                store::cancel_scheduled(workspace_id, id).into()
            }
            Act::Cancel => Batch::from(store::cancel(workspace_id, id, now)).and(emails::raise(
                broadcast.email_id(),
                MailState::Canceled,
                now,
            )),
            Act::Pause => store::pause(workspace_id, id).into(),
            Act::Resume => store::resume(workspace_id, id, broadcasts.clock.steady()).into(),
        }
    }
}

/// How often something is tried that another came before.
const ATTEMPTS: usize = 4;

async fn act(caller: &Caller, broadcasts: &Broadcasts, id: BroadcastId, act: Act) -> JsonResult<Reference> {
    for attempt in 0..ATTEMPTS {
        let broadcast = find(caller, id).await?;
        match broadcast.state {
            // Somebody else may have done it at the same moment.
            state if !act.is_open(state) && attempt > 0 && act.is_done(state) => return Ok(Json(Reference::to(id))),
            state if !act.is_open(state) => return Err(act.refusal(&broadcast)),
            _ => {}
        }
        match caller.try_commit(|| act.batch(broadcasts, caller.workspace_id(), &broadcast)).await? {
            Err(DbError::Unexpected { .. }) => {}
            settled => {
                settled?;
                broadcasts.stirred();
                return Ok(Json(Reference::to(id)));
            }
        }
    }
    Err(Error::Unavailable)
}

impl Broadcasts {
    /// Something changed of what is to be sent.
    pub(super) fn stirred(&self) {
        self.launched.notify_one();
        self.wake_mail();
    }
}

/// Cancel a broadcast
///
/// One that is scheduled is a draft again. Of one that is being sent, what has left has left, and the rest is not
/// sent: it stops within a second.
#[utoipa::path(
    post, path = "/broadcasts/{id}/cancel", tag = "Broadcasts", operation_id = "cancel_broadcast",
    params(PathId), responses((status = 200, description = "The rest is not sent.", body = Reference), OfState),
)]
async fn cancel(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
) -> JsonResult<Reference> {
    act(&caller, &broadcasts, id, Act::Cancel).await
}

/// Pause a broadcast
///
/// It stops within a second, until it is resumed or canceled.
#[utoipa::path(
    post, path = "/broadcasts/{id}/pause", tag = "Broadcasts", operation_id = "pause_broadcast",
    params(PathId), responses((status = 200, description = "It rests.", body = Reference), OfState),
)]
async fn pause(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
) -> JsonResult<Reference> {
    act(&caller, &broadcasts, id, Act::Pause).await
}

/// Resume a broadcast
///
/// One that is paused goes on where it stood.
#[utoipa::path(
    post, path = "/broadcasts/{id}/resume", tag = "Broadcasts", operation_id = "resume_broadcast",
    params(PathId), responses((status = 200, description = "It goes on.", body = Reference), OfState),
)]
async fn resume(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
) -> JsonResult<Reference> {
    act(&caller, &broadcasts, id, Act::Resume).await
}

/// What a copy says, and what it is called.
pub fn copy_of(mut content: Content) -> Content {
    let name: String = content.name.chars().take(240).collect();
    content.name = format!("{name} (copy)");
    if let Some(template) = &mut content.template {
        template.sent = None;
    }
    content
}

/// Duplicate a broadcast
///
/// Makes a draft that says the same to the same segment.
#[utoipa::path(
    post, path = "/broadcasts/{id}/duplicate", tag = "Broadcasts", operation_id = "duplicate_broadcast",
    params(PathId, Idempotency), responses((status = 201, description = "The new draft.", body = Reference)),
)]
async fn duplicate(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
    key: Idempotency,
) -> Result<Response, Error> {
    let request = key.request(&caller, &broadcasts, &());
    let content = copy_of(find(&caller, id).await?.content);
    let (new, lane) = new_id(&broadcasts.clock);
    let (whose, now) = ((caller.workspace_id(), new, lane), broadcasts.clock.now());
    let answer = Answer::created(&Reference::to(new))?;
    Ok(request.commit(answer, || store::insert(whose, &content, &Launch::NONE, now).into()).await??)
}
