//! The log of requests in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use serde_json::Value;

use super::routes::Item;
use super::store;
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::LogId;
use crate::web::{self, Layout, Leaf, PageResult, PathId, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new().route("/logs", get(list)).route("/logs/{id}", get(show))
}

#[derive(Template)]
#[template(path = "request_log/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    /// For how many days a request is kept.
    days: u32,
    requests: Vec<Request>,
    newer: Option<String>,
    older: Option<String>,
}

struct Request {
    href: String,
    method: String,
    endpoint: String,
    status: i64,
    look: &'static str,
    user_agent: Option<String>,
    at: Stamp,
}

#[derive(Template)]
#[template(path = "request_log/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    back: String,
    request: Request,
    id: LogId,
    sent: Option<String>,
    answered: Option<String>,
}

fn gone() -> Error {
    Error::not_found("There is no such request here. It may be older than requests are kept.")
}

fn request(member: &Member<Look>, item: Item) -> Request {
    Request {
        href: member.address(&format!("/logs/{}", item.id)),
        method: item.method,
        endpoint: item.endpoint,
        status: item.response_status,
        look: match item.response_status {
            ..400 => "good",
            400..500 => "busy",
            _ => "bad",
        },
        user_agent: item.user_agent,
        at: Stamp::exact(item.created_at.0),
    }
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let stored: Result<Vec<Item>, DbError> = rows.iter().map(Item::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/logs"), |item| item.id);
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/logs"),
        days: member.app.config.retention.request_log_retention,
        requests: items.into_iter().map(|item| request(&member, item)).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn show(member: Member<Look>, id: Result<PathId<LogId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let rows = member.read(store::find(member.workspace_id(), id)).await?;
    let row = rows.first().ok_or_else(gone)?;
    let body = |column: usize| -> Result<Option<String>, DbError> {
        let kept = row.maybe(column, Row::text)?;
        let pretty = |text: &str| serde_json::to_string_pretty(&serde_json::from_str::<Value>(text).ok()?).ok();
        Ok(kept.map(|text| pretty(&text).unwrap_or(text)))
    };
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/logs"),
        back: member.address("/logs"),
        request: request(&member, Item::read(row)?),
        id,
        sent: body(6)?,
        answered: body(7)?,
    };
    Ok(web::page(StatusCode::OK, &content))
}
