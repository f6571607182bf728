//! The HTTP face of suppressions.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::{Named, not_found};
use super::store::{self, Suppression};
use super::suppression::{Entry, Item, MailAddress, Name, NewSuppression, NewSuppressions, Origin, Removal};
use super::transfer;
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::clock::{Time, rfc3339};
use crate::db::{Batch, DbError, Effect};
use crate::error::Error;
use crate::id::{Id, SuppressionId, WorkspaceId};
use crate::mime::Address;
use crate::web::{self, Answer, Body, Idempotency, IdempotentRequest, JsonResult, List, Page, Query};
use crate::webhooks::EventType;

type Reference = web::Reference<SuppressionId>;
type Deleted = web::Deleted<SuppressionId>;

/// How often what is added is looked at again, where others add and remove the same.
const ATTEMPTS: usize = 8;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(add_many))
        .routes(routes!(remove_many))
        .routes(routes!(transfer::export))
        .routes(routes!(transfer::import))
        .routes(routes!(read, delete))
}

/// Which suppressions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Keeps to those of one origin.
    origin: Option<Origin>,
}

/// The answer to several at once.
#[derive(Serialize, ToSchema)]
#[schema(as = SuppressionBatch)]
pub struct All<T> {
    data: Vec<T>,
}

/// Suppress an address
///
/// It gets no mail of the workspace any more, whichever way that is sent. Where it is suppressed already, the
/// suppression stays as it is, and the answer says which it is.
#[utoipa::path(
    post, path = "/suppressions", tag = "Suppressions", operation_id = "create_suppression",
    params(Idempotency), request_body = NewSuppression,
    responses((status = 201, description = "The address is suppressed.", body = Reference)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<NewSuppression>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let NewSuppression { email } = body.read()?;
    add(&caller, &app, &request, &[email], |ids| match ids {
        [id] => Answer::created(&Reference::to(*id)),
        _ => Err(Error::Internal),
    })
    .await
}

/// Suppress several addresses
///
/// All of them or none. The answer names the suppression of each, in the order in which they came.
#[utoipa::path(
    post, path = "/suppressions/batch/add", tag = "Suppressions", operation_id = "create_suppressions",
    params(Idempotency), request_body = NewSuppressions,
    responses((status = 201, description = "The addresses are suppressed.", body = All<Reference>)),
)]
async fn add_many(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    body: Body<NewSuppressions>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let NewSuppressions { emails } = body.read()?;
    let answer =
        |ids: &[SuppressionId]| Answer::created(&All { data: ids.iter().copied().map(Reference::to).collect() });
    add(&caller, &app, &request, &emails.0, answer).await
}

/// Puts addresses on the list. What is answered is known before it is committed, so those that are
/// there already are looked up first, and must be there still.
async fn add(
    caller: &Caller,
    app: &App,
    request: &IdempotentRequest<'_>,
    emails: &[MailAddress],
    answer: impl Fn(&[SuppressionId]) -> Result<Answer, Error>,
) -> Result<Response, Error> {
    let (workspace, now) = (caller.workspace_id(), app.clock.now());
    let keys: Vec<String> = emails.iter().map(|MailAddress(address)| address.key()).collect();
    for _ in 0..ATTEMPTS {
        let rows = caller.read(|| store::suppressed(workspace, &keys)).await?;
        let known =
            rows.iter().map(|row| Ok((row.text(0)?, row.id(1)?))).collect::<Result<HashMap<_, _>, DbError>>()?;
        let mut ids: HashMap<&str, SuppressionId> = HashMap::new();
        let mut statements = Vec::new();
        for (key, MailAddress(address)) in keys.iter().zip(emails) {
            if ids.contains_key(key.as_str()) {
                continue;
            }
            let id = known.get(key).copied().unwrap_or_else(|| app.clock.ordered_id());
            ids.insert(key, id);
            let batch = match known.contains_key(key) {
                true => store::find(workspace, &Name::Id(id)).expect(1).into(),
                false => adding(app, (workspace, id), address, now),
            };
            statements.push((key, batch));
        }
        // Two that add the same must not wait for each other.
        statements.sort_by_key(|(key, _)| *key);
        let batch = || {
            let mut whole = Batch::new();
            statements.iter().for_each(|(_, batch)| whole.append(batch.clone()));
            whole
        };
        let named: Vec<SuppressionId> = keys.iter().filter_map(|key| ids.get(key.as_str()).copied()).collect();
        caller.changes(keys.iter().any(|key| !known.contains_key(key)));
        match request.commit(answer(&named)?, batch).await? {
            Err(DbError::Unexpected { .. }) => {}
            settled => return Ok(settled?),
        }
    }
    Err(Error::Unavailable)
}

/// Puts an address on the list that is not there, and tells webhooks.
fn adding(app: &App, (workspace, id): (WorkspaceId, SuppressionId), address: &Address, now: i64) -> Batch {
    let new = Suppression { address: address.as_str(), origin: Origin::Manual, reason: None, email_id: None };
    let mut batch = Batch::from(store::insert(workspace, id, &new, now).expect(1));
    let data = store::published(id, &new, now);
    store::publish(&mut batch, (&app.clock, workspace), EventType::SuppressionAdded, id, &data);
    batch
}

/// Puts an address on the list; tells whether it was not there.
pub async fn add_one(actor: &dyn Actor, app: &App, MailAddress(address): &MailAddress) -> Result<bool, Error> {
    let (id, now) = (app.clock.ordered_id(), app.clock.now());
    match actor.try_commit(|| adding(app, (actor.workspace_id(), id), address, now)).await? {
        Err(DbError::Unexpected { .. }) => Ok(false),
        settled => Ok(settled.map(|_| true)?),
    }
}

/// Let several addresses have mail again
///
/// All of those that are named by `emails` or by `ids`. The answer names the suppressions that are gone; what was not
/// suppressed is not in it.
#[utoipa::path(
    post, path = "/suppressions/batch/remove", tag = "Suppressions", operation_id = "delete_suppressions",
    request_body = Removal,
    responses((status = 200, description = "None of the addresses is suppressed.", body = All<Deleted>)),
)]
async fn remove_many(caller: Caller, State(app): State<App>, body: Body<Removal>) -> JsonResult<All<Deleted>> {
    let gone = remove(&caller, &app, body.read()?.names()?).await?;
    Ok(Json(All { data: gone.into_iter().map(Deleted::of).collect() }))
}

/// Takes entries off the list, and tells which were there.
pub async fn remove(caller: &dyn Actor, app: &App, mut names: Vec<Name>) -> Result<Vec<SuppressionId>, Error> {
    let workspace = caller.workspace_id();
    names.sort_by_key(|name| match name {
        Name::Id(id) => id.to_string(),
        Name::Key(key) => key.clone(),
    });
    let mut known = Vec::with_capacity(names.len());
    for name in &names {
        let rows = caller.read(|| store::find(workspace, name)).await?;
        known.extend(rows.iter().map(Entry::read).collect::<Result<Vec<_>, _>>()?);
    }
    match known.as_slice() {
        [] => return Ok(Vec::new()),
        [one] => caller.acts_on(one.id.uuid()),
        _ => {}
    }
    let batch = || {
        let mut batch = Batch::new();
        for Entry { id, email, origin, source_id, created_at: Time(created_at), .. } in &known {
            let data = json!({"id": id, "email": email, "origin": origin, "source_id": source_id,
                "created_at": rfc3339(*created_at)});
            store::publish(&mut batch, (&app.clock, workspace), EventType::SuppressionRemoved, *id, &data);
        }
        names.iter().for_each(|name| batch.push(store::delete(workspace, name)));
        batch
    };
    // What webhooks are told stands before, what the actor is held to behind.
    let told = batch().len() - names.len();
    let effects: Vec<Effect> = caller.try_commit(batch).await??;
    let rows = effects.iter().skip(told).take(names.len()).flat_map(|effect| &effect.rows);
    Ok(rows.map(|row| row.id(0)).collect::<Result<_, _>>()?)
}

/// List suppressions
///
/// The addresses that get no mail of the workspace any more, newest first.
#[utoipa::path(
    get, path = "/suppressions", tag = "Suppressions", operation_id = "list_suppressions",
    params(Page, Filter),
    responses((status = 200, description = "The suppressions, newest first.", body = List<Entry>)),
)]
async fn list(caller: Caller, page: Page, Query(Filter { origin }): Query<Filter>) -> JsonResult<List<Entry>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), origin, &page)).await?;
    page.answer(&rows, |row| Ok(Entry::read(row)?))
}

/// Read a suppression
///
/// By its id, or by the address. Not found where the address is not suppressed.
#[utoipa::path(
    get, path = "/suppressions/{suppression}", tag = "Suppressions", operation_id = "read_suppression",
    params(Named), responses((status = 200, description = "The suppression.", body = Item)),
)]
async fn read(caller: Caller, Named(name): Named) -> JsonResult<Item> {
    let rows = caller.read(|| store::find(caller.workspace_id(), &name)).await?;
    Ok(Json(Entry::read(rows.first().ok_or_else(not_found)?)?.alone()))
}

/// Let an address have mail again
///
/// By the id of the suppression, or by the address.
#[utoipa::path(
    delete, path = "/suppressions/{suppression}", tag = "Suppressions", operation_id = "delete_suppression",
    params(Named), responses((status = 200, description = "The address is not suppressed any more.", body = Deleted)),
)]
async fn delete(caller: Caller, State(app): State<App>, Named(name): Named) -> JsonResult<Deleted> {
    let gone = remove(&caller, &app, vec![name]).await?;
    Ok(Json(Deleted::of(*gone.first().ok_or_else(not_found)?)))
}
