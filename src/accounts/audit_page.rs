//! Who changed what, for those who manage the workspace.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;

use super::Accounts;
use super::member::{Manage, Member};
use crate::audit::{self, Listed, Via};
use crate::web::{self, Layout, Leaf, PageResult, Shell, Stamp};

pub fn router() -> Router<Accounts> {
    Router::new().route("/audit", get(show))
}

#[derive(Template)]
#[template(path = "accounts/audit.html")]
struct AuditPage {
    layout: Layout,
    shell: Shell,
    days: u32,
    entries: Vec<EntryRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct EntryRow {
    at: Stamp,
    action: String,
    actor: String,
    via: &'static str,
    target: String,
    target_id: Option<String>,
    address: Option<String>,
}

async fn show(member: Member<Manage>) -> PageResult {
    let page = member.page()?;
    let (older, newer) = audit::PAGES;
    let stored: Vec<Listed> = member.query(page.statement(older, newer, member.workspace_id(), [])).await?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/audit"), |one| one.id);
    let content = AuditPage {
        layout: member.layout(),
        shell: member.shell("/audit"),
        days: member.app.config.retention.audit_retention,
        entries: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn row(listed: Listed) -> EntryRow {
    let via = match Via::parse(&listed.via) {
        Some(Via::Session) => "in the dashboard",
        Some(Via::Link) => "by a link",
        Some(Via::Key) => "with an API key",
        Some(Via::Grant) => "through a connected app",
        Some(Via::Command) => "on the command line",
        None => "",
    };
    let nobody = || match Via::parse(&listed.via) {
        Some(Via::Command) => "whoever runs this server".to_owned(),
        _ => "somebody who is gone".to_owned(),
    };
    EntryRow {
        at: Stamp::exact(listed.created_at),
        actor: if listed.actor.is_empty() { nobody() } else { listed.actor },
        via,
        action: listed.action,
        target: listed.target,
        target_id: listed.target_id.map(|id| id.to_string()),
        address: listed.address,
    }
}
