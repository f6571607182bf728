//! The HTTP face of automations.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::automation::{self, ReEntry, Status};
use super::graph::Graph;
use super::shapes::{AutomationBody, AutomationDetail, Change, Check, Draft, Item, StatusParam, Stopped};
use super::store::{self, GraphText, NewAutomation, Stored};
use super::unread;
use crate::app::App;
use crate::auth::Caller;
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::AutomationId;
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, OrNull, Page, PathId, Query};
use crate::windows::Window;

/// How often a change is tried that another one got ahead of.
const ATTEMPTS: usize = 8;

type Reference = web::Reference<AutomationId>;
type Deleted = web::Deleted<AutomationId>;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(validate))
        .routes(routes!(read, update, delete))
        .routes(routes!(duplicate))
        .routes(routes!(stop))
}

/// Create an automation
///
/// Makes an automation of a graph: exactly one trigger, every step in reach of it, and no way back. It starts runs as
/// soon as it is enabled.
#[utoipa::path(
    post, path = "/automations", tag = "Automations", operation_id = "create_automation",
    params(Idempotency), request_body = AutomationBody,
    responses((status = 201, description = "The automation is made.", body = Reference)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<AutomationBody>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let AutomationBody { name, status, re_entry, exit_on, send_window, steps, connections } = body.read()?;
    let graph = read_graph(&steps, &connections)?;
    if status == Some(Status::Enabled) {
        automation::must_be_sendable(&app.db, caller.workspace_id(), Some(&graph)).await?;
    }
    let new = NewAutomation {
        workspace_id: caller.workspace_id(),
        id: app.clock.ordered_id(),
        name,
        status: status.unwrap_or(Status::Disabled),
        re_entry: re_entry.unwrap_or(ReEntry::Always).as_str().to_owned(),
        exit_on: exit_on.map(|event| event.as_str().to_owned()),
        send_window: send_window.as_ref().map(Window::to_json),
        signing_secret: automation::new_signing_secret(&app.seal),
        graph: GraphText::from(&graph),
        grant_id: caller.grant_id(),
        now: app.clock.now(),
    };
    let answer = Answer::created(&Reference::to(new.id))?;
    Ok(request.commit(answer, || store::insert(&new)).await??)
}

/// Check a graph
///
/// Tells everything that is wrong with a graph at once, and makes nothing of it; once the graph itself is right, also
/// which templates its steps cannot send.
#[utoipa::path(
    post, path = "/automations/validate", tag = "Automations", operation_id = "validate_automation",
    request_body = Draft, responses((status = 200, description = "What was found.", body = Check)),
)]
async fn validate(caller: Caller, State(app): State<App>, body: Body<Draft>) -> JsonResult<Check> {
    caller.confirm().await?;
    let Draft { steps: OrNull(steps), connections: OrNull(connections), send_window } = body.read()?;
    let graph = (&steps.unwrap_or_default(), &connections.unwrap_or_default());
    unread::warn(graph.0, graph.1)?;
    unread::warn_of_window("send_window", send_window.as_ref())?;
    let findings = automation::findings(&app.db, caller.workspace_id(), graph, send_window.as_ref()).await?;
    Ok(Json(Check { object: "automation_check", valid: findings.is_empty(), findings }))
}

/// List automations
///
/// Newest first, without their graphs.
#[utoipa::path(
    get, path = "/automations", tag = "Automations", operation_id = "list_automations",
    params(Page, StatusParam),
    responses((status = 200, description = "The automations, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page, Query(StatusParam { status }): Query<StatusParam>) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page, status)).await?;
    page.answer(&rows, |row| Ok(Item::read(row)?))
}

/// Read an automation
///
/// With the graph that new runs start with. Every connection names its type.
#[utoipa::path(
    get, path = "/automations/{id}", tag = "Automations", operation_id = "read_automation",
    params(PathId), responses((status = 200, description = "The automation.", body = AutomationDetail)),
)]
async fn read(
    caller: Caller,
    State(app): State<App>,
    PathId(id): PathId<AutomationId>,
) -> JsonResult<AutomationDetail> {
    Ok(Json(AutomationDetail::new(find(&caller, id).await?, &app.seal)?))
}

/// Change an automation
///
/// A new graph is published as the next version, also while the automation is enabled: new runs take it, those in
/// flight keep the one they started with.
#[utoipa::path(
    patch, path = "/automations/{id}", tag = "Automations", operation_id = "update_automation",
    params(PathId), request_body = Change,
    responses((status = 200, description = "The automation is changed.", body = Reference)),
)]
async fn update(
    caller: Caller,
    State(app): State<App>,
    PathId(id): PathId<AutomationId>,
    body: Body<Change>,
) -> JsonResult<Reference> {
    let grant_id = caller.grant_id();
    let change = store::Change { grant_id, steady: app.clock.steady(), ..wanted(body.read()?)? };
    let now = app.clock.now();
    if change.status == Some(Status::Enabled) || (change.graph.is_some() && change.status.is_none()) {
        must_be_sendable(&caller, &app, id, &change).await?;
    }
    for _ in 0..ATTEMPTS {
        let seen: Option<i64> = caller.query(|| store::version_number(caller.workspace_id(), id)).await?;
        let seen = seen.ok_or_else(not_found)?;
        match caller.try_commit(|| store::change(caller.workspace_id(), id, seen, &change, now)).await? {
            // Somebody published, or deleted it, in between: look again.
            Err(DbError::Unexpected { .. }) => continue,
            settled => settled?,
        };
        app.wake_workers_if(change.send_window.is_some());
        return Ok(Json(Reference::to(id)));
    }
    Err(Error::Unavailable)
}

/// Refuses a change after which an automation listens that names templates which cannot be sent.
async fn must_be_sendable(caller: &Caller, app: &App, id: AutomationId, change: &store::Change) -> Result<(), Error> {
    let stored = find(caller, id).await?;
    if change.status.is_none() && stored.listed.status != Status::Enabled.as_str() {
        return Ok(());
    }
    let (steps, connections) = match &change.graph {
        Some(graph) => (&graph.steps, &graph.connections),
        None => (&stored.steps, &stored.connections),
    };
    let graph = Graph::stored(steps, connections);
    automation::must_be_sendable(&app.db, caller.workspace_id(), graph.as_ref()).await
}

/// What a body wants changed: at least one thing.
fn wanted(change: Change) -> Result<store::Change, Error> {
    let Change { exit_on, send_window, name, status, re_entry, steps, connections } = change;
    let (web::Change(exit_on), web::Change(send_window)) = (exit_on, send_window);
    let graph = graph_wanted(steps, connections)?;
    let change = store::Change { name, status, re_entry, exit_on, send_window, graph, ..store::Change::default() };
    if change.is_nothing() {
        let message = "The body changes nothing. Send at least one of `name`, `status`, `re_entry`, `exit_on`, \
                       `send_window`, or `steps` together with `connections`.";
        return Err(Error::Missing { message: message.into() });
    }
    Ok(change)
}

/// The graph that a body holds; its caller is told of what nobody reads in it.
fn read_graph(steps: &Value, connections: &Value) -> Result<Graph, Error> {
    let graph = automation::graph(steps, connections)?;
    unread::warn(steps, connections)?;
    Ok(graph)
}

fn graph_wanted(steps: Option<Value>, connections: Option<Value>) -> Result<Option<GraphText>, Error> {
    let alone = |sent: &str, missing: &str| {
        Error::invalid(format!(
            "The `{sent}` field was sent without `{missing}`. A graph is changed as a whole: send both."
        ))
    };
    match (steps, connections) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(alone("steps", "connections")),
        (None, Some(_)) => Err(alone("connections", "steps")),
        (Some(steps), Some(connections)) => Ok(Some(GraphText::from(&read_graph(&steps, &connections)?))),
    }
}

/// Delete an automation
///
/// It starts no more runs, and it and its runs are not to be seen any more.
#[utoipa::path(
    delete, path = "/automations/{id}", tag = "Automations", operation_id = "delete_automation",
    params(PathId), responses((status = 200, description = "The automation is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, State(app): State<App>, PathId(id): PathId<AutomationId>) -> JsonResult<Deleted> {
    let now = app.clock.now();
    caller.try_commit(|| store::delete(caller.workspace_id(), id, now)).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

/// Copy an automation
///
/// The copy has the graph in force, a name that says so, and is disabled.
#[utoipa::path(
    post, path = "/automations/{id}/duplicate", tag = "Automations", operation_id = "duplicate_automation",
    params(PathId, Idempotency), responses((status = 201, description = "The copy is made.", body = Reference)),
)]
async fn duplicate(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    PathId(id): PathId<AutomationId>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &());
    let copy = async {
        let original = find(&caller, id).await?;
        let secret = automation::new_signing_secret(&app.seal);
        let (id, now) = (app.clock.ordered_id(), app.clock.now());
        let new = NewAutomation::copy(caller.workspace_id(), id, original, secret, now).under(caller.grant_id());
        let answer = Answer::created(&Reference::to(new.id))?;
        Ok(request.commit(answer, || store::insert(&new)).await??)
    };
    request.run(copy).await
}

/// Stop an automation
///
/// Disables it: events start no more runs. Those in flight finish.
#[utoipa::path(
    post, path = "/automations/{id}/stop", tag = "Automations", operation_id = "stop_automation",
    params(PathId), responses((status = 200, description = "The automation is disabled.", body = Stopped)),
)]
async fn stop(caller: Caller, State(app): State<App>, PathId(id): PathId<AutomationId>) -> JsonResult<Stopped> {
    let now = app.clock.now();
    caller.changes(find(&caller, id).await?.listed.status == Status::Enabled.as_str());
    let disable = || store::set_status(caller.workspace_id(), id, Status::Disabled, now);
    caller.try_commit(disable).await?.or_missing(not_found)?;
    Ok(Json(Stopped { object: "automation", id, status: "disabled" }))
}

pub(super) fn not_found() -> Error {
    Error::not_found("Automation not found. `GET /automations` lists those there are.")
}

async fn find(caller: &Caller, id: AutomationId) -> Result<Stored, Error> {
    caller.query::<Option<Stored>>(|| store::by_id(caller.workspace_id(), id)).await?.ok_or_else(not_found)
}
