//! How much a workspace uses, in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;

use super::{MOST_SHOWN, Usage, usage};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::web::{self, Layout, PageResult, Shell};

pub fn router() -> Router<App> {
    Router::new().route("/usage", get(show))
}

#[derive(Template)]
#[template(path = "usage/page.html")]
struct UsagePage {
    layout: Layout,
    shell: Shell,
    /// What the workspace has, and where it is.
    things: Vec<(&'static str, String, String)>,
    /// Mails of the day and of the month: what was sent, and what came in.
    mails: Vec<(&'static str, i64, i64)>,
    runs: String,
}

/// More than are counted are many.
fn counted(number: i64) -> String {
    if number >= MOST_SHOWN { format!("{MOST_SHOWN} or more") } else { number.to_string() }
}

async fn show(member: Member<Look>, State(app): State<App>) -> PageResult {
    let Usage { emails, contacts, segments, broadcasts, automation_runs, domains, .. } =
        usage(&member, &app, MOST_SHOWN).await?;
    let thing = |name, path: &str, used| (name, member.address(path), counted(used));
    let content = UsagePage {
        layout: member.layout(),
        shell: member.shell("/settings"),
        things: vec![
            thing("Contacts", "/contacts", contacts.used),
            thing("Segments", "/segments", segments.used),
            thing("Broadcasts", "/broadcasts", broadcasts.used),
            thing("Domains", "/domains", domains.used),
        ],
        mails: [("Today", emails.daily), ("This month", emails.monthly)]
            .map(|(when, mails)| (when, mails.sent, mails.received))
            .into(),
        runs: counted(automation_runs.used),
    };
    Ok(web::page(StatusCode::OK, &content))
}
