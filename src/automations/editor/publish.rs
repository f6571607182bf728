//! Publishing a draft, and discarding it.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;

use super::difference::{self, Difference};
use super::in_flight::InFlight;
use super::store;
use super::work::{Work, gone, published, read};
use crate::accounts::{Manage, Member};
use crate::app::App;
use crate::automations::automation::{self, AutomationName, ExitEvent, ReEntry, Status};
use crate::automations::graph::Graph;
use crate::automations::names;
use crate::automations::store::{self as automations, Change, GraphText, NewAutomation};
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::{AutomationId, Id};
use crate::web::{self, ConfirmPage, Form, Layout, PageResult, PathId, Shell};
use crate::windows::Window;

pub fn router() -> Router<App> {
    Router::new()
        .route("/automations/{id}/edit/publish", get(ask_to_publish).post(publish))
        .route("/automations/{id}/edit/discard", get(ask_to_discard).post(discard))
}

#[derive(Template)]
#[template(path = "automations/publish.html")]
struct PublishPage {
    layout: Layout,
    shell: Shell,
    trouble: Option<String>,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    name: String,
    /// The version in force; 0: none.
    live: i64,
    next: i64,
    is_enabled: bool,
    is_behind: bool,
    author: Option<String>,
    findings: Vec<(Option<String>, String)>,
    differences: Vec<Difference>,
    in_flight: String,
}

async fn ask_to_publish(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(&member, id).await?;
    publish_page(&member, &work, StatusCode::OK, None).await
}

async fn publish_page(member: &Member<Manage>, work: &Work, status: StatusCode, trouble: Option<String>) -> PageResult {
    let findings = work.findings(member).await?;
    let mut after = work.contents.clone();
    // As it will be kept: so that nothing shows as changed that nobody touched.
    if let Ok(graph) = Graph::parse(&after.steps_json(), &after.connections_json()) {
        after.steps = serde_json::from_value(graph.steps_json()).map_err(|_| Error::Internal)?;
    }
    let differences = match &work.live {
        Some(live) => {
            let before = published(live)?;
            let names =
                names::load(&member.app.db, member.workspace_id(), before.configs().chain(after.configs())).await?;
            difference::between(&before, &after, &names)
        }
        None => Vec::new(),
    };
    let live = work.live_version();
    let is_enabled = work.live.as_ref().is_some_and(|live| live.listed.status == Status::Enabled.as_str());
    let content = PublishPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        trouble,
        back: member.address(&format!("/automations/{}/edit", work.id)),
        action: member.address(&format!("/automations/{}/edit/publish", work.id)),
        hidden: work.hidden(member),
        name: work.contents.name.clone(),
        live,
        next: live + 1,
        is_enabled,
        is_behind: work.is_behind(),
        author: work.draft.as_ref().map(|draft| draft.author.clone()).filter(|author| *author != member.session.email),
        findings: findings.iter().map(|finding| (finding.step.clone(), finding.sentence())).collect(),
        differences,
        in_flight: if live > 0 { InFlight::count(member, work.id).await?.sentence() } else { String::new() },
    };
    Ok(web::page(status, &content))
}

async fn publish(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(&member, id).await?;
    let accepted = work.accept(&member, &form)?.noting("automation.published", id.uuid(), &work.contents.name);
    let changed =
        "The draft or the automation has changed since you loaded this page. Look at what would be published now.";
    if !work.is_seen(&form) || !work.is_live_seen(&form) {
        return publish_page(&member, &work, StatusCode::CONFLICT, Some(changed.into())).await;
    }
    let enable = form.text("enable") == "yes";
    let batch = match publication(&member, &work, enable).await {
        Ok(batch) => batch,
        Err(error @ Error::Invalid { .. }) => {
            let said = Some(error.message().into_owned());
            return publish_page(&member, &work, StatusCode::UNPROCESSABLE_ENTITY, said).await;
        }
        Err(error) => return Err(error.into()),
    };
    match accepted.commit(batch).await? {
        Ok(_) => {
            member.app.wake_workers_if(work.contents.send_window.is_some());
            Ok(member.see_other(&format!("/automations/{id}?published")))
        }
        Err(DbError::Unexpected { .. } | DbError::Duplicate(_)) => {
            let newer = Work::find(&member, id).await?;
            publish_page(&member, &newer, StatusCode::CONFLICT, Some(changed.into())).await
        }
        Err(error) => Err(error.into()),
    }
}

/// What makes the draft the version in force, as a program would do it; and what ends the draft.
async fn publication(member: &Member<Manage>, work: &Work, enable: bool) -> Result<Batch, Error> {
    let contents = &work.contents;
    let graph = automation::graph(&contents.steps_json(), &contents.connections_json())?;
    let name =
        AutomationName::try_from(contents.name.clone()).map_err(|flaw| Error::invalid(format!("The name {flaw}.")))?;
    let exit_on = contents.exit_on.clone().map(ExitEvent::try_from).transpose();
    let exit_on = exit_on.map_err(|flaw| Error::invalid(format!("The event that ends runs {flaw}.")))?;
    let window = contents.send_window.as_ref().map(Window::parse).transpose();
    let send_window = window.map_err(|flaw| Error::invalid(format!("The hours of sending are wrong: {flaw}.")))?;
    let re_entry = ReEntry::parse(&contents.re_entry).unwrap_or(ReEntry::Always);
    let (workspace_id, now) = (member.workspace_id(), member.app.clock.now());
    let was_enabled = work.live.as_ref().is_some_and(|live| live.listed.status == Status::Enabled.as_str());
    if enable || was_enabled {
        automation::must_be_sendable(&member.app.db, workspace_id, Some(&graph)).await?;
    }
    let mut batch = match &work.live {
        None => automations::insert(&NewAutomation {
            workspace_id,
            id: work.id,
            name,
            status: if enable { Status::Enabled } else { Status::Disabled },
            re_entry: re_entry.as_str().to_owned(),
            exit_on: exit_on.map(|event| event.as_str().to_owned()),
            send_window: send_window.as_ref().map(Window::to_json),
            signing_secret: automation::new_signing_secret(&member.app.seal),
            graph: GraphText::from(&graph),
            grant_id: None,
            now,
        }),
        Some(live) => {
            let before = published(live)?;
            let is_new = graph.steps_json() != read::<serde_json::Value>(&live.steps)?
                || graph.connections_json() != read::<serde_json::Value>(&live.connections)?;
            let change = Change {
                name: (before.name != contents.name).then_some(name),
                status: (enable && !was_enabled).then_some(Status::Enabled),
                re_entry: (before.re_entry != contents.re_entry).then_some(re_entry),
                exit_on: (before.exit_on != contents.exit_on).then_some(exit_on),
                send_window: (before.send_window != contents.send_window).then_some(send_window),
                graph: is_new.then(|| GraphText::from(&graph)),
                steady: member.app.clock.steady(),
                ..Change::default()
            };
            automations::change(workspace_id, work.id, live.listed.version, &change, now)
        }
    };
    if work.draft.is_some() {
        batch.append(store::discard(workspace_id, work.id, work.revision()));
    }
    Ok(batch)
}

async fn ask_to_discard(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(&member, id).await?;
    let sentence = match &work.live {
        Some(live) => format!("Its edits are lost. Version {} stays in force as it is.", live.listed.version),
        None => "It was never published: nothing of it stays.".to_owned(),
    };
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        title: "Discard this draft?".into(),
        subject: work.contents.name.clone(),
        sentence,
        action: member.address(&format!("/automations/{id}/edit/discard")),
        hidden: work.hidden(&member),
        button: "Discard".into(),
        cancel: member.address(&format!("/automations/{id}/edit")),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn discard(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(&member, id).await?;
    let accepted = work.accept(&member, &form)?.noting("draft.discarded", id.uuid(), &work.contents.name);
    let conflict = || Error::Conflict {
        message: "Somebody has edited the draft since you loaded this page. Look at it before you discard it.".into(),
    };
    if !work.is_seen(&form) {
        return Err(conflict().into());
    }
    match accepted.commit(store::discard(member.workspace_id(), id, work.revision())).await? {
        Err(DbError::Unexpected { .. }) => return Err(conflict().into()),
        settled => settled?,
    };
    Ok(match work.live {
        Some(_) => member.see_other(&format!("/automations/{id}?discarded")),
        None => member.see_other("/automations?discarded"),
    })
}
