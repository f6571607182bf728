//! The runs of all automations, in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;

use super::STATUSES;
use super::pages::Badge;
use super::store::{self, Everywhere};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::clock::Clock;
use crate::contacts::{self, ContactLink};
use crate::web::{self, Layout, Leaf, PageResult, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new().route("/runs", get(list))
}

#[derive(Template)]
#[template(path = "automations/runs.html")]
struct RunsPage {
    layout: Layout,
    shell: Shell,
    action: String,
    /// Word, label, whether it is chosen.
    statuses: Vec<(&'static str, &'static str, bool)>,
    email: String,
    is_filtered: bool,
    /// Whether one of them goes on by itself, so that the page is worth looking at again.
    is_busy: bool,
    runs: Vec<Row>,
    newer: Option<String>,
    older: Option<String>,
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
    let status = STATUSES.into_iter().find(|status| *status == asked);
    let email = member.asked("email").map(|email| email.trim().to_owned()).unwrap_or_default();
    let workspace_id = member.workspace_id();
    let found: Vec<Everywhere> = if email.is_empty() {
        member.query(store::page_everywhere(workspace_id, &page, status)).await?
    } else {
        let key = contacts::email_key(&email);
        match contacts::find_by_email_key(&member.app.db, workspace_id, &key).await? {
            Some(contact) => member.query(store::page_of_contact(workspace_id, contact.id, &page, status)).await?,
            None => Vec::new(),
        }
    };
    let encoded = percent_encoding::utf8_percent_encode(&email, percent_encoding::NON_ALPHANUMERIC);
    let address = member.address(&format!("/runs?status={}&email={encoded}", status.unwrap_or_default()));
    let Leaf { items, newer, older } = page.leaf(found, &address, |run| run.listed.id);
    let label = |status: &'static str| match status {
        "running" => "Running",
        "completed" => "Completed",
        "failed" => "Failed",
        _ => "Cancelled",
    };
    let content = RunsPage {
        layout: member.layout(),
        shell: member.shell("/runs"),
        action: member.address("/runs"),
        statuses: STATUSES.map(|one| (one, label(one), Some(one) == status)).into(),
        is_filtered: status.is_some() || !email.is_empty(),
        email,
        is_busy: items.iter().any(|run| run.listed.status == "running"),
        runs: items.into_iter().map(|run| row(&member, run)).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
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
