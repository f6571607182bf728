//! What happened, in the dashboard: occurrences of an event, and letting one happen again.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::Value;

use super::Events;
use super::event::RESERVED_PREFIX;
use super::occurrences::{self as happened, Order, StartedRun, StoredOccurrence};
use super::store::{self, Stored};
use crate::accounts::{Accepted, Duty, Look, Manage, Member};
use crate::contacts::ContactLink;
use crate::error::Error;
use crate::id::{ContactId, OccurrenceId};
use crate::web::{self, Form, Layout, Leaf, PageResult, PathId, Shell, Stamp};

/// How much of a payload a list shows.
const MOST_SHOWN: usize = 120;

pub fn router() -> Router<Events> {
    Router::new().route("/occurrences/{id}", get(show)).route("/occurrences/{id}/replay", post(replay))
}

/// One time that an event happened, in a list.
pub struct OccurrenceRow {
    pub href: String,
    pub happened: Stamp,
    pub contact: ContactLink,
    pub payload: String,
    pub is_replay: bool,
}

/// What happened lately under a name, with the way to what happened before.
pub async fn occurrence_rows<D: Duty>(
    member: &Member<D>,
    name: &str,
    address: &str,
) -> Result<Leaf<OccurrenceRow>, Error> {
    let page = member.page()?;
    let found: Vec<StoredOccurrence> = member.query(happened::page(member.workspace_id(), name, &page)).await?;
    let Leaf { items, newer, older } = page.leaf(found, address, |one| one.id);
    let now = member.app.clock.now();
    let ids: Vec<ContactId> = items.iter().map(|one| one.contact_id).collect();
    let contacts = ContactLink::find_all(member, &ids).await?;
    let row = |(one, contact): (StoredOccurrence, ContactLink)| OccurrenceRow {
        href: member.address(&format!("/occurrences/{}", one.id)),
        happened: Stamp::ago(one.created_at, now),
        contact,
        payload: shortened(&one.payload),
        is_replay: one.replay_of.is_some(),
    };
    Ok(Leaf { items: items.into_iter().zip(contacts).map(row).collect(), newer, older })
}

fn shortened(payload: &str) -> String {
    match payload.chars().nth(MOST_SHOWN) {
        Some(_) => payload.chars().take(MOST_SHOWN - 1).chain(['…']).collect(),
        None => payload.to_owned(),
    }
}

#[derive(Template)]
#[template(path = "events/occurrence.html")]
struct OccurrencePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// The event, where it is still defined.
    event: Option<String>,
    id: OccurrenceId,
    name: String,
    happened: Stamp,
    contact: ContactLink,
    payload: String,
    repeats: Option<String>,
    runs: Vec<RunRow>,
    replay: Option<(String, Vec<(String, String)>)>,
}

struct RunRow {
    href: String,
    automation: String,
    status: String,
    look: &'static str,
}

fn gone() -> Error {
    Error::not_found("There is no such occurrence here. What happened long ago is forgotten.")
}

async fn find<D: Duty>(member: &Member<D>, id: Result<PathId<OccurrenceId>, Error>) -> Result<StoredOccurrence, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    member.query::<Option<StoredOccurrence>>(happened::by_id(member.workspace_id(), id)).await?.ok_or_else(gone)
}

fn replaying(id: OccurrenceId) -> String {
    format!("replay occurrence {id} as")
}

async fn show(member: Member<Look>, id: Result<PathId<OccurrenceId>, Error>) -> PageResult {
    let stored = find(&member, id).await?;
    let event: Option<Stored> = member.query(store::by_name(member.workspace_id(), &stored.name)).await?;
    let started: Vec<StartedRun> = member.query(happened::runs_of(member.workspace_id(), &stored)).await?;
    let mut runs = Vec::new();
    for run in started {
        let name: Option<String> =
            member.query(store::automation_name(member.workspace_id(), run.automation_id)).await?;
        runs.push(RunRow {
            href: member.address(&format!("/automations/{}/runs/{}", run.automation_id, run.id)),
            automation: name.unwrap_or_default(),
            look: match run.status.as_str() {
                "running" => "busy",
                "completed" => "good",
                "failed" => "bad",
                _ => "off",
            },
            status: run.status,
        });
    }
    let payload: Value = serde_json::from_str(&stored.payload).unwrap_or_default();
    let may_replay = member.may_manage() && !stored.name.starts_with(RESERVED_PREFIX);
    let again: OccurrenceId = member.app.clock.ordered_id();
    let hidden = member.hidden_making(&replaying(stored.id), again);
    let replay = (member.address(&format!("/occurrences/{}/replay", stored.id)), hidden);
    let content = OccurrencePage {
        layout: member.layout(),
        shell: member.shell("/events"),
        notice: member
            .notice("sent", "It happened. No automation listens, so no run has started.")
            .or(member.notice("started", "It happened, and started these runs."))
            .or(member.notice("again", "It happened once more. This is the new occurrence.")),
        event: event.map(|event| member.address(&format!("/events/{}", event.id))),
        id: stored.id,
        happened: Stamp::new(stored.created_at),
        contact: ContactLink::find(&member, stored.contact_id).await?,
        payload: serde_json::to_string_pretty(&payload).unwrap_or_default(),
        repeats: stored.replay_of.map(|id| member.address(&format!("/occurrences/{id}"))),
        runs,
        replay: may_replay.then_some(replay),
        name: stored.name,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn replay(
    State(events): State<Events>,
    member: Member<Manage>,
    id: Result<PathId<OccurrenceId>, Error>,
    form: Form,
) -> PageResult {
    let stored = find(&member, id).await?;
    let (id, accepted) = member.accept_making(&replaying(stored.id), &form)?;
    let order = Order::once_more(&events, stored)?.of_form(id);
    Ok(happen(&events, &member, &accepted, &order, "again").await?)
}

/// Lets it happen, and leads to the run that it started, or to what happened.
pub(super) async fn happen(
    events: &Events,
    member: &Member<Manage>,
    accepted: &Accepted<'_>,
    order: &Order,
    done: &str,
) -> Result<Response, Error> {
    happened::send_on_page(events, accepted, member.workspace_id(), order).await?;
    let stored: Option<StoredOccurrence> = member.query(happened::by_id(member.workspace_id(), order.id)).await?;
    let runs: Vec<StartedRun> = match &stored {
        Some(stored) => member.query(happened::runs_of(member.workspace_id(), stored)).await?,
        None => Vec::new(),
    };
    Ok(match (runs.as_slice(), done) {
        ([run], "sent") => member.see_other(&format!("/automations/{}/runs/{}?tested", run.automation_id, run.id)),
        ([_, ..], "sent") => member.see_other(&format!("/occurrences/{}?started", order.id)),
        _ => member.see_other(&format!("/occurrences/{}?{done}", order.id)),
    })
}
