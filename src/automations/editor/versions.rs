//! The versions that an automation has had, and the way back to one.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use http::StatusCode;

use super::contents::Contents;
use super::difference::{self, Difference};
use super::in_flight::InFlight;
use super::store::{self, StoredVersion};
use super::work::{Work, gone, published, read};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::automations::automation::{self, Status};
use crate::automations::graph::Graph;
use crate::automations::names;
use crate::automations::outline::{StepLine, lines};
use crate::automations::picture::Picture;
use crate::automations::store::{self as automations, Change, GraphText, Stored};
use crate::db::DbError;
use crate::error::Error;
use crate::id::AutomationId;
use crate::web::{self, Form, Layout, PageResult, Shell, Stamp};

/// How many versions the page of an automation lists.
const SHOWN: usize = 20;

pub fn router() -> Router<App> {
    Router::new()
        .route("/automations/{id}/versions/{version}", get(show))
        .route("/automations/{id}/versions/{version}/restore", post(restore))
}

/// A version in the list on the page of its automation.
pub struct VersionRow {
    pub href: String,
    pub version: i64,
    pub event_name: String,
    pub created: Stamp,
    /// How many runs go by it, if any.
    pub in_flight: Option<String>,
    /// Where it is compared with the version before it.
    pub difference: Option<String>,
}

/// Versions in the list on the page of their automation.
pub struct Versions {
    pub rows: Vec<VersionRow>,
    pub older: Option<String>,
    /// What was not counted of the runs that go by them.
    pub caveat: Option<String>,
}

/// The newest versions of an automation.
pub async fn versions<D: Duty>(member: &Member<D>, id: AutomationId) -> Result<Versions, Error> {
    let below = member.asked("below").and_then(|below| below.parse().ok()).unwrap_or(i64::MAX);
    let found: Vec<(i64, String, i64)> = member.query(store::versions(member.workspace_id(), id, below)).await?;
    let in_flight = InFlight::count(member, id).await?;
    let now = member.app.clock.now();
    let row = |(version, event_name, created_at): &(i64, String, i64)| VersionRow {
        href: member.address(&format!("/automations/{id}/versions/{version}")),
        version: *version,
        event_name: event_name.clone(),
        created: Stamp::ago(*created_at, now),
        in_flight: in_flight.by(*version),
        difference: (*version > 1)
            .then(|| member.address(&format!("/automations/{id}/versions/{}..{version}", version - 1))),
    };
    let rows: Vec<VersionRow> = found.iter().take(SHOWN).map(row).collect();
    let last = rows.last().filter(|_| found.len() > SHOWN).map(|last| last.version);
    let older = last.map(|last| member.address(&format!("/automations/{id}?below={last}#versions")));
    Ok(Versions { rows, older, caveat: in_flight.caveat() })
}

#[derive(Template)]
#[template(path = "automations/version.html")]
struct VersionPage {
    layout: Layout,
    shell: Shell,
    back: String,
    name: String,
    version: i64,
    live: i64,
    created: Stamp,
    event_name: String,
    picture: Picture,
    steps: Vec<StepLine>,
    /// What would differ from what is in force.
    differences: Vec<Difference>,
    in_flight: String,
    action: String,
    hidden: Vec<(String, String)>,
    may_manage: bool,
}

type VersionPath = Path<(String, String)>;

/// An automation, and one of its versions.
async fn find<D: Duty>(member: &Member<D>, Path((id, version)): VersionPath) -> Result<(Stored, StoredVersion), Error> {
    let (id, version): (AutomationId, i64) = id.parse().ok().zip(version.parse().ok()).ok_or_else(gone)?;
    let live: Option<Stored> = member.query(automations::by_id(member.workspace_id(), id)).await?;
    let found: Option<StoredVersion> = member.query(store::version(member.workspace_id(), id, version)).await?;
    live.zip(found).ok_or_else(gone)
}

fn purpose(id: AutomationId, version: i64) -> String {
    format!("publish version {version} of automation {id} again")
}

/// A version, or what differs between two: `3`, or `2..3`.
async fn show(member: Member<Look>, path: VersionPath) -> PageResult {
    let Path((id, named)) = &path;
    if let Some((from, to)) = named.split_once("..") {
        let [from, to] = [from, to].map(|version| Path((id.clone(), version.to_owned())));
        return compare(&member, from, to).await;
    }
    let (live, found) = find(&member, path).await?;
    let id = live.listed.id;
    let graph = Graph::stored(&found.steps, &found.connections).ok_or(Error::Internal)?;
    let before = published(&live)?;
    let after = Contents { steps: read(&found.steps)?, connections: read(&found.connections)?, ..before.clone() };
    let names = names::load(&member.app.db, member.workspace_id(), before.configs().chain(after.configs())).await?;
    let mut hidden = member.hidden(&purpose(id, found.version));
    hidden.push(("live".into(), live.listed.version.to_string()));
    let content = VersionPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        back: member.address(&format!("/automations/{id}")),
        version: found.version,
        live: live.listed.version,
        created: Stamp::new(found.created_at),
        event_name: found.event_name,
        picture: Picture::draw(&graph, &names, |_| "").zoomed(member.asked("zoom").as_deref()),
        steps: lines(&graph, &names, None),
        differences: difference::between(&before, &after, &names),
        in_flight: InFlight::count(&member, id).await?.sentence(),
        action: member.address(&format!("/automations/{id}/versions/{}/restore", found.version)),
        hidden,
        may_manage: member.may_manage(),
        name: live.listed.name,
    };
    Ok(web::page(StatusCode::OK, &content))
}

#[derive(Template)]
#[template(path = "automations/compare.html")]
struct ComparePage {
    layout: Layout,
    shell: Shell,
    back: String,
    name: String,
    versions: [VersionLink; 2],
    differences: Vec<Difference>,
    /// The same the other way round.
    turned: String,
}

struct VersionLink {
    href: String,
    version: i64,
    event_name: String,
    created: Stamp,
}

async fn compare(member: &Member<Look>, from: VersionPath, to: VersionPath) -> PageResult {
    let (live, from) = find(member, from).await?;
    let (_, to) = find(member, to).await?;
    let (id, base) = (live.listed.id, published(&live)?);
    let contents = |one: &StoredVersion| -> Result<Contents, Error> {
        Ok(Contents { steps: read(&one.steps)?, connections: read(&one.connections)?, ..base.clone() })
    };
    let address = |version: &str| member.address(&format!("/automations/{id}/versions/{version}"));
    let (before, after) = (contents(&from)?, contents(&to)?);
    let names = names::load(&member.app.db, member.workspace_id(), before.configs().chain(after.configs())).await?;
    let differences = difference::between(&before, &after, &names);
    let turned = address(&format!("{}..{}", to.version, from.version));
    let link = |one: StoredVersion| VersionLink {
        href: address(&one.version.to_string()),
        version: one.version,
        event_name: one.event_name,
        created: Stamp::new(one.created_at),
    };
    let content = ComparePage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        back: member.address(&format!("/automations/{id}")),
        name: live.listed.name,
        versions: [link(from), link(to)],
        differences,
        turned,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// Publishes the graph of an older version as the next one.
async fn restore(member: Member<Manage>, path: VersionPath, form: Form) -> PageResult {
    let (live, found) = find(&member, path).await?;
    let (id, seen) = (live.listed.id, live.listed.version);
    let accepted = member.accept(&purpose(id, found.version), &form)?;
    let conflict = || Error::Conflict { message: "Another version was published since you loaded this page.".into() };
    if form.text("live") != seen.to_string() {
        return Err(conflict().into());
    }
    let graph = Graph::stored(&found.steps, &found.connections).ok_or(Error::Internal)?;
    if live.listed.status == Status::Enabled.as_str() {
        automation::must_be_sendable(&member.app.db, member.workspace_id(), Some(&graph)).await?;
    }
    let change = Change { graph: Some(GraphText::from(&graph)), ..Change::default() };
    let batch = automations::change(member.workspace_id(), id, seen, &change, member.app.clock.now());
    match accepted.commit(batch).await? {
        Err(DbError::Unexpected { .. }) => return Err(conflict().into()),
        settled => settled?,
    };
    Ok(member.see_other(&format!("/automations/{id}?restored")))
}

/// A draft of something that has no page of its own yet leads to where it is edited.
pub async fn is_unpublished<D: Duty>(member: &Member<D>, id: AutomationId) -> Result<bool, Error> {
    match Work::find(member, id).await {
        Ok(work) => Ok(work.live.is_none()),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
