//! The runs of all automations, or of one, in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use super::STATUSES;
use super::pages::Badge;
use super::store::{self, Edge, Everywhere, Wanted};
use crate::accounts::{Duty, Look, Member};
use crate::app::App;
use crate::automations::pages::gone;
use crate::automations::store::{self as automations, Stored};
use crate::clock::Clock;
use crate::contacts::{self, ContactLink};
use crate::error::Error;
use crate::id::{AutomationId, Id};
use crate::web::{self, Layout, Leaf, Page, PageResult, RECENT, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new().route("/runs", get(list))
}

/// How many runs a look for those with a status goes through, unless that would not be a page of each automation.
const LOOKED_AT: i64 = 5_000;

#[derive(Template)]
#[template(path = "automations/runs.html")]
struct RunsPage {
    layout: Layout,
    shell: Shell,
    action: String,
    /// Whose runs they are, if it is one automation: its id, its name and its page.
    automation: Option<(AutomationId, String, String)>,
    /// Word, label, whether it is chosen.
    statuses: Vec<(&'static str, &'static str, bool)>,
    email: String,
    is_filtered: bool,
    /// Whether one of them goes on by itself, so that the page is worth looking at again.
    is_busy: bool,
    runs: Vec<Row>,
    stopped: Option<Stopped>,
    newer: Option<String>,
    older: Option<String>,
}

/// Where a look ended that found no whole page.
struct Stopped {
    is_upwards: bool,
    /// When the first run began that it did not go through.
    at: Stamp,
    /// Where it goes on.
    href: String,
}

impl Stopped {
    fn at(edge: &Edge, address: &str, is_upwards: bool) -> Stopped {
        // The next look begins with the run at which this one ended.
        let id = edge.id.uuid().as_u128();
        let (way, beside) = if is_upwards { ("before", id.saturating_sub(1)) } else { ("after", id.saturating_add(1)) };
        let href = format!("{address}&{way}={}", Uuid::from_u128(beside));
        Stopped { is_upwards, at: Stamp::exact(edge.created_at).with_zone(), href }
    }
}

struct Row {
    href: String,
    automation: String,
    automation_href: String,
    contact: ContactLink,
    status: Badge,
    waits: Option<Waits>,
    started: Stamp,
    ended: Option<Stamp>,
}

/// What a run waits for.
pub struct Waits {
    pub until: Option<Stamp>,
    pub event: Option<String>,
}

impl Waits {
    /// `None` where it goes on at once.
    pub fn new(event: Option<String>, due_at: Option<i64>, clock: &Clock) -> Option<Waits> {
        let until = due_at.filter(|due_at| *due_at > clock.steady()).map(|due_at| Stamp::new(clock.shown_at(due_at)));
        (until.is_some() || event.is_some()).then_some(Waits { until, event })
    }
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let asked = member.asked("status").unwrap_or_default();
    let automation = chosen(&member).await?;
    let wanted = Wanted {
        workspace_id: member.workspace_id(),
        automation_id: automation.as_ref().map(|(id, _)| *id),
        status: STATUSES.into_iter().find(|status| *status == asked),
    };
    let email = member.asked("email").map(|email| email.trim().to_owned()).unwrap_or_default();
    let (found, edge) = find(&member, &page, &wanted, &email).await?;
    let address = address_of(&member, &wanted, &email);
    let Leaf { items, newer, older } = page.leaf(found, &address, |run| run.listed.id);
    let (is_upwards, ..) = page.bounds();
    let goes_on = if is_upwards { newer.is_some() } else { older.is_some() };
    let content = RunsPage {
        layout: member.layout(),
        shell: member.shell("/runs"),
        action: member.address("/runs"),
        automation: automation.map(|(id, name)| (id, name, member.address(&format!("/automations/{id}")))),
        statuses: STATUSES.map(|one| (one, Badge::of(one).word, Some(one) == wanted.status)).into(),
        is_filtered: wanted.status.is_some() || !email.is_empty(),
        email,
        is_busy: items.iter().any(|run| run.listed.status == "running"),
        runs: items.into_iter().map(|run| row(&member, run)).collect(),
        stopped: edge.filter(|_| !goes_on).map(|edge| Stopped::at(&edge, &address, is_upwards)),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// The automation whose runs are wanted, if the address names one, and its name.
async fn chosen(member: &Member<Look>) -> Result<Option<(AutomationId, String)>, Error> {
    let Some(asked) = member.asked("automation").filter(|id| !id.is_empty()) else { return Ok(None) };
    let id: AutomationId = asked.parse().map_err(|_| gone())?;
    let stored: Option<Stored> = member.query(automations::by_id(member.workspace_id(), id)).await?;
    Ok(Some((id, stored.ok_or_else(gone)?.listed.name)))
}

/// The runs of a page, and where the look for them ended, if it ended before there were no more.
async fn find(
    member: &Member<Look>,
    page: &Page,
    wanted: &Wanted,
    email: &str,
) -> Result<(Vec<Everywhere>, Option<Edge>), Error> {
    if !email.is_empty() {
        let key = contacts::email_key(email);
        let runs = match contacts::find_by_email_key(&member.app.db, wanted.workspace_id, &key).await? {
            Some(contact) => member.query(wanted.page_of_contact(contact.id, page)).await?,
            None => Vec::new(),
        };
        return Ok((runs, None));
    }
    let edge = if wanted.are_looked_for() { edge(member, page, wanted).await? } else { None };
    let runs = member.query(wanted.page(page, edge.as_ref().map(|edge| edge.id))).await?;
    Ok((runs, edge))
}

/// Where a look ends that goes through so many runs.
async fn edge(member: &Member<Look>, page: &Page, wanted: &Wanted) -> Result<Option<Edge>, Error> {
    let each = |automations: Option<i64>| (LOOKED_AT / automations.unwrap_or(1).max(1)).max(RECENT as i64);
    let automations = match wanted.automation_id {
        Some(_) => None,
        None => member.query(store::count_automations(wanted.workspace_id)).await?,
    };
    // Where most have few runs, more of the others are gone through.
    match member.query(wanted.longer(page, each(automations))).await? {
        None | Some(0) => Ok(None),
        longer => Ok(member.query(wanted.edge(page, each(longer))).await?),
    }
}

/// The list of the same runs.
fn address_of(member: &Member<Look>, wanted: &Wanted, email: &str) -> String {
    let email = utf8_percent_encode(email, NON_ALPHANUMERIC);
    let automation = wanted.automation_id.map(|id| format!("&automation={id}")).unwrap_or_default();
    member.address(&format!("/runs?status={}&email={email}{automation}", wanted.status.unwrap_or_default()))
}

/// What the runs of an automation with each status are called, and where they are listed.
pub fn runs_by_status<D: Duty>(member: &Member<D>, id: AutomationId) -> Vec<(&'static str, String)> {
    let link = |status: &'static str| {
        (Badge::of(status).word, member.address(&format!("/runs?status={status}&automation={id}")))
    };
    STATUSES.map(link).into()
}

fn row(member: &Member<Look>, run: Everywhere) -> Row {
    let now = member.app.clock.now();
    let automation = member.address(&format!("/automations/{}", run.automation_id));
    let is_running = run.listed.status == "running";
    Row {
        href: format!("{automation}/runs/{}", run.listed.id),
        automation: run.automation,
        automation_href: automation,
        contact: ContactLink::new(member, run.contact_id, run.email),
        status: Badge::of(&run.listed.status),
        waits: Waits::new(run.waiting_for, run.due_at, &member.app.clock).filter(|_| is_running),
        started: Stamp::ago(run.listed.created_at, now),
        ended: run.listed.completed_at.map(|at| Stamp::ago(at, now)),
    }
}
