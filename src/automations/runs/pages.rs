//! Runs in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::Value;

use super::all_pages::Waits;
use super::mail::StepMail;
use super::record::{Record, StepRecord};
use super::routes::RunPath;
use super::store::{self, Named, Stored};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::automations::graph::Graph;
use crate::automations::names;
use crate::automations::pages::Act;
use crate::automations::picture::{self, Names, Picture, Traffic};
use crate::automations::store as automations;
use crate::clock::Clock;
use crate::contacts::ContactLink;
use crate::db::{Batch, DbError, Stmt};
use crate::emails;
use crate::error::Error;
use crate::id::{AutomationId, MessageId, RunId};
use crate::web::{self, ConfirmPage, Form, Layout, Leaf, PageResult, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new()
        .route("/automations/{id}/runs/{run_id}", get(read))
        .route("/automations/{id}/runs/{run_id}/cancel", get(ask_cancel).post(cancel))
        .route("/automations/{id}/runs/{run_id}/retry", post(retry))
        .route("/automations/{id}/runs/{run_id}/messages/{message_id}/drop", get(ask_drop).post(drop_message))
        .route("/automations/{id}/runs/{run_id}/messages/{message_id}/send", post(send_message))
}

/// What became of something, in a word and a colour.
pub struct Badge {
    pub word: &'static str,
    pub look: &'static str,
}

impl Badge {
    pub fn of(status: &str) -> Badge {
        let (word, look) = match status {
            "running" => ("Running", "busy"),
            "waiting" => ("Waiting", "busy"),
            "completed" => ("Completed", "good"),
            "failed" => ("Failed", "bad"),
            "cancelled" => ("Cancelled", "off"),
            "skipped" => ("Skipped", "off"),
            _ => ("Pending", "off"),
        };
        Badge { word, look }
    }
}

/// A run in the list on the page of its automation.
pub struct RunRow {
    pub href: String,
    pub id: RunId,
    pub contact: ContactLink,
    pub version: i64,
    pub status: Badge,
    pub started: Stamp,
    pub ended: Option<Stamp>,
}

/// The part of an automation's runs that was asked for.
pub async fn run_rows<D: Duty>(member: &Member<D>, automation_id: AutomationId) -> Result<Leaf<RunRow>, Error> {
    let page = member.page()?;
    let listed: Vec<Named> = member.query(store::page_named(automation_id, &page)).await?;
    let now = member.app.clock.now();
    let row = |Named { listed: run, contact_id, email, version }: Named| RunRow {
        href: member.address(&format!("/automations/{automation_id}/runs/{}", run.id)),
        contact: ContactLink::new(member, contact_id, email),
        version,
        id: run.id,
        status: Badge::of(&run.status),
        started: Stamp::ago(run.created_at, now),
        ended: run.completed_at.map(|at| Stamp::ago(at, now)),
    };
    let runs = listed.into_iter().map(row).collect();
    Ok(page.leaf(runs, &member.address(&format!("/automations/{automation_id}")), |run| run.id))
}

/// How many of the newest runs are counted at the steps of their automation: each is read whole, and so many take the
/// store some ten milliseconds.
pub const COUNTED: i64 = 2000;

/// Where the newest runs of a version are, and which ways they took.
pub async fn traffic<D: Duty>(
    member: &Member<D>,
    id: AutomationId,
    version: i64,
    graph: &Graph,
) -> Result<Traffic, Error> {
    let states: Vec<String> = member.query(store::newest_states(id, version, COUNTED)).await?;
    let trigger = graph.step(graph.trigger()).map_or("", |step| step.key.as_str());
    Ok(Traffic::of(states.iter().map(String::as_str), trigger))
}

#[derive(Template)]
#[template(path = "automations/run.html")]
struct RunPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    id: RunId,
    status: Badge,
    started: Stamp,
    ended: Option<Stamp>,
    contact: ContactLink,
    waits: Option<Waits>,
    /// The step that failed, and why.
    failed: Option<(String, String)>,
    is_busy: bool,
    automation: String,
    version: i64,
    event_name: String,
    payload: Option<String>,
    picture: Picture,
    steps: Vec<StepRow>,
    /// Where a run in flight is cancelled.
    cancel: Option<String>,
    /// Lets a failed run go on.
    retry: Option<Act>,
}

struct StepRow {
    key: String,
    kind: &'static str,
    /// What it is about, in words.
    about: String,
    status: Badge,
    started: Option<Stamp>,
    ended: Option<Stamp>,
    output: Option<String>,
    error: Option<String>,
    /// Why it waits.
    waits: Option<String>,
    /// The page of its mail, and how far that is.
    mail: Option<(String, &'static str)>,
    /// Where a message that waits is dropped.
    drop: Option<String>,
    /// Sends one that is held, when its template is there.
    send: Option<Act>,
}

impl StepRow {
    fn new(step: StepRecord, member: &Member<Look>, run: &RunPath, about: String) -> StepRow {
        let (mail, drop, send) = match step.mail {
            Some(StepMail::Queued(id, state)) => {
                (Some((member.address(&format!("/emails/{id}")), state.as_str())), None, None)
            }
            Some(StepMail::Waits(id, is_held)) if member.may_manage() => {
                let send = is_held.then(|| message_act(member, run, id, "send"));
                (None, Some(message_address(member, run, id, "drop")), send)
            }
            _ => (None, None, None),
        };
        let waits = step.output.as_ref().and_then(|output| output.pointer("/waiting/reason")?.as_str());
        StepRow {
            waits: waits.map(str::to_owned),
            mail,
            drop,
            send,
            status: Badge::of(step.status),
            key: step.key,
            kind: step.kind,
            about,
            started: step.started_at.map(|at| Stamp::exact(at.0)),
            ended: step.completed_at.map(|at| Stamp::exact(at.0)),
            output: step.output.as_ref().map(told),
            error: step.error.map(|error| match error.get("message").and_then(Value::as_str) {
                Some(message) => message.to_owned(),
                None => told(&error),
            }),
        }
    }
}

/// JSON as people read it.
fn told(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn gone() -> Error {
    Error::not_found("There is no such run here. It may have been deleted with its automation.")
}

async fn find<D: Duty>(member: &Member<D>, id: &RunPath) -> Result<Record, Error> {
    let rows = member.read(store::by_id(member.workspace_id(), id.automation, id.run)).await?;
    let mut record = Record::new(Stored::read(rows.first().ok_or_else(gone)?)?, &member.app.clock)?;
    if record.may_send() {
        let queued = member.read(emails::of_run(id.run)).await?;
        let kept = member.read(store::kept(id.run)).await?;
        record.link_mail(&queued, &kept, &member.app.clock)?;
    }
    Ok(record)
}

async fn read(member: Member<Look>, id: Result<RunPath, Error>) -> PageResult {
    let id = id.map_err(|_| gone())?;
    let record = find(&member, &id).await?;
    let look = |key: &str| record.steps.iter().find(|step| step.key == key).map_or("", |step| step.status);
    let address = |act: &str| format!("{}/{act}", address_of(&member, &id));
    let status = record.listed.status.as_str();
    let automation: Option<automations::Stored> =
        member.query(automations::by_id(member.workspace_id(), id.automation)).await?;
    let names = names::load(&member.app.db, member.workspace_id(), record.graph.configs()).await?;
    let content = RunPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        notice: member
            .notice("cancelled", "The run is cancelled.")
            .or(member.notice("tested", "The event happened and started this run."))
            .or(member.notice("retried", "The run goes on from the step that failed."))
            .or(member.notice("dropped", "The message will not be sent."))
            .or(member.notice("wanted", "The message is sent as soon as its template is published.")),
        back: member.address(&format!("/automations/{}", id.automation)),
        cancel: (member.may_manage() && status == "running").then(|| address("cancel")),
        retry: (member.may_manage() && status == "failed")
            .then(|| Act { action: address("retry"), hidden: member.hidden(&purpose("retry", &id)) }),
        picture: Picture::draw(&record.graph, &names, look).zoomed(member.asked("zoom").as_deref()),
        status: Badge::of(status),
        started: Stamp::new(record.listed.created_at),
        ended: record.listed.completed_at.map(Stamp::new),
        id: record.listed.id,
        contact: ContactLink::find(&member, record.contact_id).await?,
        waits: Waits::new(
            record.run.waiting_for(&record.graph).map(str::to_owned),
            record.run.due_at(member.app.clock.steady()),
            &member.app.clock,
        )
        .filter(|_| status == "running"),
        failed: record.steps.iter().find(|step| step.status == "failed").map(|step| {
            let error = step.error.as_ref().and_then(|error| error.get("message")?.as_str());
            (step.key.clone(), error.unwrap_or("it says no more").to_owned())
        }),
        is_busy: status == "running",
        automation: automation.map(|one| one.listed.name).unwrap_or_default(),
        version: record.version,
        event_name: record.event_name,
        payload: record.payload.as_ref().map(told),
        steps: record
            .steps
            .into_iter()
            .map(|step| {
                let about = about(&record.graph, &step.key, &names);
                StepRow::new(step, &member, &id, about)
            })
            .collect(),
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// What a step is about.
fn about(graph: &Graph, key: &str, names: &Names) -> String {
    let step = graph.find(key);
    step.map(|(_, step)| picture::described(step.action.type_name(), &step.config, names).2).unwrap_or_default()
}

fn address_of<D: Duty>(member: &Member<D>, id: &RunPath) -> String {
    member.address(&format!("/automations/{}/runs/{}", id.automation, id.run))
}

fn purpose(act: &str, id: &RunPath) -> String {
    format!("{act} run {} of automation {}", id.run, id.automation)
}

async fn ask_cancel(member: Member<Manage>, id: Result<RunPath, Error>) -> PageResult {
    let id = id.map_err(|_| gone())?;
    let record = find(&member, &id).await?;
    let address = address_of(&member, &id);
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        title: "Cancel this run?".into(),
        subject: ContactLink::find(&member, record.contact_id).await?.label,
        sentence: "It goes no further from where it is. What its steps have done stays, mail that they have sent too. \
                   This cannot be undone."
            .into(),
        action: format!("{address}/cancel"),
        hidden: member.hidden(&purpose("cancel", &id)),
        button: "Cancel the run".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn cancel(member: Member<Manage>, id: Result<RunPath, Error>, form: Form) -> PageResult {
    let workspace_id = member.workspace_id();
    let cancel = |record: &mut Record, id: AutomationId, clock: &Clock| record.cancel((workspace_id, id), clock);
    change(&member, id, &form, ("cancel", "cancelled"), cancel).await
}

async fn retry(member: Member<Manage>, id: Result<RunPath, Error>, form: Form) -> PageResult {
    change(&member, id, &form, ("retry", "retried"), Record::retry).await
}

async fn change(
    member: &Member<Manage>,
    id: Result<RunPath, Error>,
    form: &Form,
    (act, done): (&str, &str),
    decide: impl Fn(&mut Record, AutomationId, &Clock) -> Result<Batch, Error>,
) -> PageResult {
    let id = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose(act, &id), form)?;
    for _ in 0..super::routes::ATTEMPTS {
        let batch = decide(&mut find(member, &id).await?, id.automation, &member.app.clock)?;
        match accepted.commit(batch).await? {
            // A worker has brought it on meanwhile: decide again.
            Err(DbError::Unexpected { .. }) => continue,
            settled => settled?,
        };
        return Ok(member.see_other(&format!("/automations/{}/runs/{}?{done}", id.automation, id.run)));
    }
    Err(Error::Unavailable.into())
}

fn message_purpose(act: &str, message: MessageId, id: &RunPath) -> String {
    format!("{act} message {message} of run {}", id.run)
}

fn message_address<D: Duty>(member: &Member<D>, run: &RunPath, id: MessageId, act: &str) -> String {
    format!("{}/messages/{id}/{act}", address_of(member, run))
}

fn message_act(member: &Member<Look>, run: &RunPath, id: MessageId, act: &str) -> Act {
    Act { action: message_address(member, run, id, act), hidden: member.hidden(&message_purpose(act, id, run)) }
}

type MessagePath = Path<(String, String, String)>;

/// The ids in the path of a message.
fn message_path(Path((automation, run, message)): MessagePath) -> Result<(RunPath, MessageId), Error> {
    let run = automation.parse().ok().zip(run.parse().ok()).map(|(automation, run)| RunPath { automation, run });
    run.zip(message.parse().ok()).ok_or_else(gone)
}

/// The key of the step whose message waits.
async fn waiting_step(member: &Member<Manage>, run: &RunPath, message: MessageId) -> Result<String, Error> {
    let waits = |mail: &StepMail| matches!(mail, StepMail::Waits(id, _) if *id == message);
    let mut steps = find(member, run).await?.steps.into_iter();
    let found = steps.find(|step| step.mail.as_ref().is_some_and(waits));
    found.map(|step| step.key).ok_or_else(|| Error::Conflict { message: "The message does not wait any more.".into() })
}

async fn ask_drop(member: Member<Manage>, path: MessagePath) -> PageResult {
    let (run, message) = message_path(path)?;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        title: "Drop this message?".into(),
        subject: waiting_step(&member, &run, message).await?,
        sentence: "It waits for its template, and will not be sent. This cannot be undone.".into(),
        action: message_address(&member, &run, message, "drop"),
        hidden: member.hidden(&message_purpose("drop", message, &run)),
        button: "Drop the message".into(),
        cancel: address_of(&member, &run),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn drop_message(member: Member<Manage>, path: MessagePath, form: Form) -> PageResult {
    decide(&member, path, &form, ("drop", "dropped"), store::drop_message).await
}

async fn send_message(member: Member<Manage>, path: MessagePath, form: Form) -> PageResult {
    decide(&member, path, &form, ("send", "wanted"), store::want_message).await
}

/// What a person decides of a message that waits.
async fn decide(
    member: &Member<Manage>,
    path: MessagePath,
    form: &Form,
    (act, done): (&str, &str),
    decision: fn(RunId, MessageId, i64) -> Stmt,
) -> PageResult {
    let (run, message) = message_path(path)?;
    let accepted = member.accept(&message_purpose(act, message, &run), form)?;
    waiting_step(member, &run, message).await?;
    let decision = decision(run.run, message, member.app.clock.now());
    match accepted.commit(decision.into()).await? {
        // Somebody else was first, which comes to the same.
        Ok(_) | Err(DbError::Unexpected { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(member.see_other(&format!("/automations/{}/runs/{}?{done}", run.automation, run.run)))
}
