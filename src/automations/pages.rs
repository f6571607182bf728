//! Automations in the dashboard.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::Value;

use super::automation::{self, ReEntry, Status};
use super::graph::Graph;
use super::picture::{self, Picture};
use super::runs::pages::{RunRow, run_rows};
use super::step::Exit;
use super::store::{self, Listed, NewAutomation, Stored};
use crate::accounts::desk::{Desk, Duty, Look, Manage};
use crate::app::App;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::AutomationId;
use crate::web::form::Form;
use crate::web::input::PathId;
use crate::web::layout::{self, Layout, Stamp};
use crate::web::pagination::Leaf;
use crate::web::shell::{ConfirmPage, Shell};

/// Up to here runs are counted.
const MOST_COUNTED: i64 = 1000;

pub fn router() -> Router<App> {
    Router::new()
        .route("/automations", get(list))
        .route("/automations/{id}", get(read))
        .route("/automations/{id}/enable", post(enable))
        .route("/automations/{id}/stop", post(stop))
        .route("/automations/{id}/duplicate", post(duplicate))
        .route("/automations/{id}/delete", get(ask).post(delete))
}

#[derive(Template)]
#[template(path = "automations/list.html")]
struct AutomationsPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    automations: Vec<AutomationRow>,
    /// A command that makes an automation, for the empty list.
    example: String,
    newer: Option<String>,
    older: Option<String>,
}

struct AutomationRow {
    href: String,
    name: String,
    enabled: bool,
    event_name: String,
    version: i64,
    runs: String,
    updated: Stamp,
}

async fn list(desk: Desk<Look>) -> Response {
    desk.answer(try_list(&desk)).await
}

async fn try_list(desk: &Desk<Look>) -> Result<Response, Error> {
    let page = desk.page()?;
    let rows = desk.read(store::page_counted(desk.workspace_id(), &page)).await?;
    let listed: Result<Vec<(Listed, i64)>, DbError> =
        rows.iter().map(|row| Ok((Listed::read(row)?, row.int(7)?))).collect();
    let Leaf { items, newer, older } = page.leaf(listed?, &desk.address("/automations"), |(one, _)| one.id);
    let now = desk.app.clock.now();
    let row = |(one, runs): (Listed, i64)| AutomationRow {
        href: desk.address(&format!("/automations/{}", one.id)),
        name: one.name,
        enabled: one.status == Status::Enabled.as_str(),
        event_name: one.event_name,
        version: one.version,
        runs: if runs > MOST_COUNTED { format!("{MOST_COUNTED}+") } else { runs.to_string() },
        updated: Stamp::ago(one.updated_at, now),
    };
    let content = AutomationsPage {
        layout: desk.layout(),
        shell: desk.shell("/automations"),
        notice: desk.notice("deleted", "The automation is deleted."),
        automations: items.into_iter().map(row).collect(),
        example: first_automation(&desk.app),
        newer,
        older,
    };
    Ok(layout::page(StatusCode::OK, &content))
}

/// A command that makes an automation.
fn first_automation(app: &App) -> String {
    let base = app.addresses.base.as_str();
    format!(
        "curl {base}/automations \\\n  -H \"Authorization: Bearer $POSTHORN_KEY\" \\\n  \
         -H \"Content-Type: application/json\" \\\n  \
         -d '{{\"name\":\"Welcome\",\"steps\":[\
         {{\"key\":\"start\",\"type\":\"trigger\",\"config\":{{\"event_name\":\"user.created\"}}}},\
         {{\"key\":\"wait\",\"type\":\"delay\",\"config\":{{\"duration\":\"1 day\"}}}}],\
         \"connections\":[{{\"from\":\"start\",\"to\":\"wait\"}}]}}'"
    )
}

#[derive(Template)]
#[template(path = "automations/one.html")]
struct AutomationPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    id: AutomationId,
    name: String,
    enabled: bool,
    version: i64,
    event_name: String,
    re_entry: &'static str,
    exit_on: Option<String>,
    updated: Stamp,
    picture: Picture,
    steps: Vec<StepLine>,
    /// What the visitor may do here, if he may do more than look.
    acts: Option<Acts>,
    runs: Vec<RunRow>,
    newer: Option<String>,
    older: Option<String>,
}

/// A step in words, for those who do not see the picture.
struct StepLine {
    key: String,
    label: &'static str,
    detail: String,
    /// Which way leads where.
    ways: Vec<(&'static str, String)>,
}

/// A form with nothing but a button.
pub struct Act {
    pub action: String,
    pub hidden: Vec<(String, String)>,
}

struct Acts {
    /// Enables the automation or stops it, whichever it is not.
    turn: Act,
    duplicate: Act,
    delete: String,
}

fn gone() -> Error {
    Error::not_found("There is no such automation here. It may have been deleted already.")
}

async fn find<D: Duty>(desk: &Desk<D>, id: AutomationId) -> Result<Stored, Error> {
    let rows = desk.read(store::by_id(desk.workspace_id(), id)).await?;
    Ok(Stored::read(rows.first().ok_or_else(gone)?)?)
}

async fn read(desk: Desk<Look>, id: Result<PathId<AutomationId>, Error>) -> Response {
    desk.answer(try_read(&desk, id)).await
}

async fn try_read(desk: &Desk<Look>, id: Result<PathId<AutomationId>, Error>) -> Result<Response, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    let stored = find(desk, id).await?;
    let graph = graph(&stored)?;
    let Leaf { items, newer, older } = run_rows(desk, id).await?;
    let enabled = stored.listed.status == Status::Enabled.as_str();
    let content = AutomationPage {
        layout: desk.layout(),
        shell: desk.shell("/automations"),
        notice: desk
            .notice("enabled", "The automation is enabled: from now on its event starts runs.")
            .or(desk.notice("stopped", "The automation is stopped. Runs in flight finish."))
            .or(desk.notice("copied", "This is the copy. It is disabled until you enable it.")),
        back: desk.address("/automations"),
        name: stored.listed.name,
        enabled,
        version: stored.listed.version,
        event_name: stored.listed.event_name,
        re_entry: re_entry(&stored.re_entry),
        exit_on: stored.exit_on,
        updated: Stamp::ago(stored.listed.updated_at, desk.app.clock.now()),
        picture: Picture::draw(&graph, |_| ""),
        steps: lines(&graph),
        acts: desk.may_manage().then(|| acts(desk, id, enabled)),
        id,
        runs: items,
        newer,
        older,
    };
    Ok(layout::page(StatusCode::OK, &content))
}

fn graph(stored: &Stored) -> Result<Graph, Error> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).map_err(|_| Error::Internal);
    Graph::parse(&parsed(&stored.steps)?, &parsed(&stored.connections)?).map_err(|findings| {
        tracing::error!(?findings, "a graph that was accepted once is not any more");
        Error::Internal
    })
}

fn re_entry(stored: &str) -> &'static str {
    match ReEntry::named(stored) {
        Some(ReEntry::OncePerContact) => "once for each contact",
        Some(ReEntry::OneAtATime) => "one at a time for each contact",
        _ => "every time",
    }
}

fn lines(graph: &Graph) -> Vec<StepLine> {
    let way = |at: usize, exit: Exit| {
        let to = graph.step(graph.next(at, exit)?)?;
        Some((picture::label(exit), to.key.clone()))
    };
    let line = |(at, step)| {
        let (_, label, detail) = picture::words(step);
        let ways = Exit::ALL.into_iter().filter_map(|exit| way(at, exit)).collect();
        StepLine { key: step.key.clone(), label, detail, ways }
    };
    graph.in_order().map(line).collect()
}

fn acts<D: Duty>(desk: &Desk<D>, id: AutomationId, enabled: bool) -> Acts {
    let path = |act: &str| format!("/automations/{id}/{act}");
    let turn = if enabled { "stop" } else { "enable" };
    // The form carries the id of the copy to come: sent twice, it makes one copy.
    let copy: AutomationId = desk.app.clock.ordered_id();
    let mut hidden = desk.hidden(&copying(id, copy));
    hidden.push(("copy".into(), copy.to_string()));
    Acts {
        turn: Act { action: desk.address(&path(turn)), hidden: desk.hidden(&purpose(turn, id)) },
        duplicate: Act { action: desk.address(&path("duplicate")), hidden },
        delete: desk.address(&path("delete")),
    }
}

fn purpose(act: &str, id: AutomationId) -> String {
    format!("{act} automation {id}")
}

fn copying(id: AutomationId, copy: AutomationId) -> String {
    format!("copy automation {id} as {copy}")
}

async fn enable(desk: Desk<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> Response {
    desk.answer(turn(&desk, id, &form, Status::Enabled, "enable", "enabled")).await
}

async fn stop(desk: Desk<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> Response {
    desk.answer(turn(&desk, id, &form, Status::Disabled, "stop", "stopped")).await
}

async fn turn(
    desk: &Desk<Manage>,
    id: Result<PathId<AutomationId>, Error>,
    form: &Form,
    status: Status,
    act: &str,
    done: &str,
) -> Result<Response, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    let change = store::set_status(desk.workspace_id(), id, status, desk.app.clock.now());
    commit(desk, &purpose(act, id), form, change).await?;
    Ok(desk.see_other(&format!("/automations/{id}?{done}")))
}

async fn commit(desk: &Desk<Manage>, purpose: &str, form: &Form, batch: Batch) -> Result<(), Error> {
    match desk.accept(purpose, form)?.commit(batch).await? {
        Ok(_) => Ok(()),
        Err(DbError::Unexpected { .. }) => Err(gone()),
        Err(error) => Err(error.into()),
    }
}

async fn duplicate(desk: Desk<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> Response {
    desk.answer(async {
        let PathId(id) = id.map_err(|_| gone())?;
        let copy: AutomationId = form.text("copy").parse().map_err(|_| Error::BadRequest {
            message: "The form does not say which copy it makes. Load the page again.".into(),
        })?;
        let accepted = desk.accept(&copying(id, copy), &form)?;
        let (original, now) = (find(&desk, id).await?, desk.app.clock.now());
        let secret = automation::new_signing_secret(&desk.app.seal);
        let new = NewAutomation::copy(desk.workspace_id(), copy, original, secret, now);
        match accepted.commit(store::insert(&new)).await? {
            Ok(_) | Err(DbError::Duplicate(_)) => Ok(desk.see_other(&format!("/automations/{copy}?copied"))),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

async fn ask(desk: Desk<Manage>, id: Result<PathId<AutomationId>, Error>) -> Response {
    desk.answer(async {
        let PathId(id) = id.map_err(|_| gone())?;
        let stored = find(&desk, id).await?;
        let content = ConfirmPage {
            layout: desk.layout(),
            shell: desk.shell("/automations"),
            title: "Delete this automation?".into(),
            subject: stored.listed.name,
            sentence: "It starts no more runs, and its runs are deleted with it. This cannot be undone.".into(),
            action: desk.address(&format!("/automations/{id}/delete")),
            hidden: desk.hidden(&purpose("delete", id)),
            button: "Delete".into(),
            cancel: desk.address(&format!("/automations/{id}")),
        };
        Ok(layout::page(StatusCode::OK, &content))
    })
    .await
}

async fn delete(desk: Desk<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> Response {
    desk.answer(async {
        let PathId(id) = id.map_err(|_| gone())?;
        let batch = store::delete(desk.workspace_id(), id, desk.app.clock.now());
        commit(&desk, &purpose("delete", id), &form, batch).await?;
        Ok(desk.see_other("/automations?deleted"))
    })
    .await
}
