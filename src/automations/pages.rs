//! Automations in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::json;

use super::automation::{self, ReEntry, Status};
use super::editor::{self, Unpublished, Versions};
use super::graph::Graph;
use super::names;
use super::outline::{StepLine, lines};
use super::picture::Picture;
use super::runs::{COUNTED, RunRow, run_rows, runs_by_status, traffic};
use super::shapes::Item;
use super::store::{self, NewAutomation, Stored};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::db::{Batch, DbError};
use crate::docs::Call;
use crate::error::{Error, OrMissing};
use crate::events::{RESERVED_PREFIX, sending_as_code};
use crate::id::AutomationId;
use crate::web::{self, ConfirmPage, Form, Layout, Leaf, PageResult, PathId, Shell, Stamp};
use crate::windows::Window;

/// Up to here failed runs are counted.
const MOST_FAILED: i64 = 100;

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
    /// What is listed, where, and whether that is here: all, or those with a status.
    statuses: Vec<(&'static str, String, bool)>,
    is_filtered: bool,
    /// Those that were never published.
    drafts: Vec<DraftRow>,
    may_manage: bool,
    new: String,
    /// How an automation is made, for the empty list.
    example: Call,
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
    failed: String,
    /// Where those that failed are listed, if there are any.
    failed_runs: Option<String>,
    updated: Stamp,
}

struct DraftRow {
    href: String,
    name: String,
    author: String,
    updated: Stamp,
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let asked = member.asked("status").unwrap_or_default();
    let status = Status::ALL.into_iter().find(|status| status.as_str() == asked);
    let address = |status: Option<Status>| {
        let query = status.map(|status| format!("?status={}", status.as_str())).unwrap_or_default();
        member.address(&format!("/automations{query}"))
    };
    let listed: Vec<(Item, i64, i64)> = member.query(store::page_counted(member.workspace_id(), &page, status)).await?;
    let Leaf { items, newer, older } = page.leaf(listed, &address(status), |(one, _, _)| one.id);
    let now = member.app.clock.now();
    let row = |(one, runs, failed): (Item, i64, i64)| AutomationRow {
        failed: if failed > MOST_FAILED { format!("{MOST_FAILED}+") } else { failed.to_string() },
        failed_runs: (failed > 0).then(|| member.address(&format!("/runs?status=failed&automation={}", one.id))),
        href: member.address(&format!("/automations/{}", one.id)),
        name: one.name,
        enabled: one.status == Status::Enabled.as_str(),
        event_name: one.event_name,
        version: one.version,
        runs: if runs > MOST_COUNTED { format!("{MOST_COUNTED}+") } else { runs.to_string() },
        updated: Stamp::ago(one.updated_at.0, now),
    };
    // What was never published has no status.
    let unpublished: Vec<Unpublished> = match status {
        Some(_) => Vec::new(),
        None => member.query(editor::unpublished(member.workspace_id())).await?,
    };
    let draft = |draft: Unpublished| DraftRow {
        href: member.address(&format!("/automations/{}/edit", draft.id)),
        name: draft.contents.name,
        author: draft.author,
        updated: Stamp::ago(draft.updated_at, now),
    };
    let content = AutomationsPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        notice: member
            .notice("deleted", "The automation is deleted.")
            .or(member.notice("discarded", "The draft is discarded.")),
        drafts: unpublished.into_iter().map(draft).collect(),
        may_manage: member.may_manage(),
        new: member.address("/automations/new"),
        statuses: [("All", None), ("Enabled", Some(Status::Enabled)), ("Disabled", Some(Status::Disabled))]
            .map(|(word, one)| (word, address(one), one == status))
            .into(),
        is_filtered: status.is_some(),
        automations: items.into_iter().map(row).collect(),
        example: first_automation(&member.app),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// An automation is made, as a program does it.
fn first_automation(app: &App) -> Call {
    let steps = json!([
        {"key": "start", "type": "trigger", "config": {"event_name": "user.created"}},
        {"key": "wait", "type": "delay", "config": {"duration": "1 day"}},
    ]);
    let connections = json!([{"from": "start", "to": "wait"}]);
    let body = json!({"name": "Welcome", "steps": steps, "connections": connections});
    Call::to(app, "POST", "/automations", Some(body))
}

fn reading(app: &App, id: AutomationId) -> Call {
    Call::to(app, "GET", &format!("/automations/{id}"), None)
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
    send_window: Option<String>,
    updated: Stamp,
    picture: Picture,
    steps: Vec<StepLine>,
    /// Of how many runs the counts at the steps are.
    counted: String,
    /// In how many seconds there may be something new.
    refresh: u32,
    /// Who has edited it since it was published, and when.
    draft: Option<(String, Stamp)>,
    versions: Versions,
    /// What the visitor may do here, if that is more than looking.
    acts: Option<Acts>,
    runs: Vec<RunRow>,
    /// What its runs with a status are called, and where they are listed.
    runs_by_status: Vec<(&'static str, String)>,
    newer: Option<String>,
    older: Option<String>,
    code: Call,
}

/// A form with nothing but a button.
pub struct Act {
    pub action: String,
    pub hidden: Vec<(String, String)>,
}

struct Acts {
    edit: String,
    /// Where its event is sent to try it; a system event cannot be, and what is stopped would not answer.
    test: Option<String>,
    /// Enables the automation or stops it, whichever it is not.
    turn: Act,
    duplicate: Act,
    delete: String,
}

pub fn gone() -> Error {
    Error::not_found("There is no such automation here. It may have been deleted already.")
}

async fn find<D: Duty>(member: &Member<D>, id: AutomationId) -> Result<Stored, Error> {
    member.query::<Option<Stored>>(store::by_id(member.workspace_id(), id)).await?.ok_or_else(gone)
}

async fn read(member: Member<Look>, id: Result<PathId<AutomationId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    if editor::is_unpublished(&member, id).await? {
        return Ok(member.see_other(&format!("/automations/{id}/edit")));
    }
    let stored = find(&member, id).await?;
    let graph = Graph::stored(&stored.steps, &stored.connections).ok_or(Error::Internal)?;
    let Leaf { items, newer, older } = run_rows(&member, id).await?;
    let traffic = traffic(&member, id, stored.listed.version, &graph).await?;
    let names = names::load(&member.app.db, member.workspace_id(), graph.configs()).await?;
    let versions = editor::versions(&member, id).await?;
    let now = member.app.clock.now();
    let draft = editor::has_draft(&member, id).await?.map(|(author, at)| (author, Stamp::ago(at, now)));
    let enabled = stored.listed.status == Status::Enabled.as_str();
    let is_system = stored.listed.event_name.starts_with(RESERVED_PREFIX);
    let acts = member.may_manage().then(|| acts(&member, id, enabled, enabled && !is_system));
    let code = match is_system {
        true => reading(&member.app, id),
        false => sending_as_code(&member.app, &stored.listed.event_name, None),
    };
    let content = AutomationPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        notice: member
            .notice("enabled", "The automation is enabled: from now on its event starts runs.")
            .or(member.notice("stopped", "The automation is stopped. Runs in flight finish."))
            .or(member.notice("published", "It is published: new runs take this version."))
            .or(member.notice("restored", "The older version is published again, as the newest."))
            .or(member.notice("discarded", "The draft is discarded. This is what is in force."))
            .or(member.notice("copied", "This is the copy. It is disabled until you enable it.")),
        back: member.address("/automations"),
        name: stored.listed.name,
        enabled,
        version: stored.listed.version,
        event_name: stored.listed.event_name,
        re_entry: re_entry(&stored.re_entry),
        exit_on: stored.exit_on,
        send_window: stored.send_window.as_deref().and_then(Window::stored).map(|window| window.to_string()),
        updated: Stamp::ago(stored.listed.updated_at.0, now),
        picture: Picture::draw(&graph, &names, |_| "").counted(&traffic).zoomed(member.asked("zoom").as_deref()),
        steps: lines(&graph, &names, Some(&traffic)),
        counted: match traffic.runs {
            0 => "No run has come by here yet.".to_owned(),
            1 => "Counted of the only run of this version.".to_owned(),
            many => format!("Counted of {many} runs of this version, among the newest {COUNTED}."),
        },
        refresh: if items.iter().any(|run| run.status.look == "busy") { 5 } else { 30 },
        draft,
        versions,
        acts,
        runs_by_status: runs_by_status(&member, id),
        id,
        runs: items,
        newer,
        older,
        code,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn re_entry(stored: &str) -> &'static str {
    match ReEntry::parse(stored) {
        Some(ReEntry::OncePerContact) => "once for each contact",
        Some(ReEntry::OneAtATime) => "one at a time for each contact",
        _ => "every time",
    }
}

fn acts<D: Duty>(member: &Member<D>, id: AutomationId, enabled: bool, is_sent: bool) -> Acts {
    let path = |act: &str| format!("/automations/{id}/{act}");
    let turn = if enabled { "stop" } else { "enable" };
    let hidden = member.hidden_making(&copying(id), member.app.clock.ordered_id::<AutomationId>());
    Acts {
        edit: member.address(&path("edit")),
        test: is_sent.then(|| member.address("/events/send")),
        turn: Act { action: member.address(&path(turn)), hidden: member.hidden(&purpose(turn, id)) },
        duplicate: Act { action: member.address(&path("duplicate")), hidden },
        delete: member.address(&path("delete")),
    }
}

fn purpose(act: &str, id: AutomationId) -> String {
    format!("{act} automation {id}")
}

fn copying(id: AutomationId) -> String {
    format!("duplicate automation {id} as")
}

async fn enable(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> PageResult {
    turn(&member, id, &form, Status::Enabled, "enable", "enabled").await
}

async fn stop(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> PageResult {
    turn(&member, id, &form, Status::Disabled, "stop", "stopped").await
}

async fn turn(
    member: &Member<Manage>,
    id: Result<PathId<AutomationId>, Error>,
    form: &Form,
    status: Status,
    act: &str,
    done: &str,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    if status == Status::Enabled {
        let stored = find(member, id).await?;
        let graph = Graph::stored(&stored.steps, &stored.connections);
        automation::must_be_sendable(&member.app.db, member.workspace_id(), graph.as_ref()).await?;
    }
    let change = store::set_status(member.workspace_id(), id, status, member.app.clock.now());
    commit(member, &purpose(act, id), form, change).await?;
    Ok(member.see_other(&format!("/automations/{id}?{done}")))
}

async fn commit(member: &Member<Manage>, purpose: &str, form: &Form, batch: Batch) -> Result<(), Error> {
    member.accept(purpose, form)?.commit(batch).await?.or_missing(gone).map(drop)
}

async fn duplicate(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let (copy, accepted): (AutomationId, _) = member.accept_making(&copying(id), &form)?;
    let (original, now) = (find(&member, id).await?, member.app.clock.now());
    let secret = automation::new_signing_secret(&member.app.seal);
    let new = NewAutomation::copy(member.workspace_id(), copy, original, secret, now);
    match accepted.commit(store::insert(&new)).await? {
        Ok(_) | Err(DbError::Duplicate(_)) => Ok(member.see_other(&format!("/automations/{copy}?copied"))),
        Err(error) => Err(error.into()),
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let stored = find(&member, id).await?;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        title: "Delete this automation?".into(),
        subject: stored.listed.name,
        sentence: "It starts no more runs, and its runs are deleted with it. This cannot be undone.".into(),
        action: member.address(&format!("/automations/{id}/delete")),
        hidden: member.hidden(&purpose("delete", id)),
        button: "Delete".into(),
        cancel: member.address(&format!("/automations/{id}")),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let batch = store::delete(member.workspace_id(), id, member.app.clock.now());
    commit(&member, &purpose("delete", id), &form, batch).await?;
    Ok(member.see_other("/automations?deleted"))
}
