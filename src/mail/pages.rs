//! Messages in the dashboard: what was sent, or captured where nothing leaves
//! the machine.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::store::{self, Stored};
use crate::accounts::desk::{Desk, Look};
use crate::app::App;
use crate::db::DbError;
use crate::error::Error;
use crate::id::MessageId;
use crate::web::input::PathId;
use crate::web::layout::{self, Layout, Stamp};
use crate::web::pagination::Leaf;
use crate::web::shell::Shell;

pub fn router() -> Router<App> {
    Router::new().route("/messages", get(list)).route("/messages/{id}", get(read))
}

#[derive(Template)]
#[template(path = "mail/list.html")]
struct MessagesPage {
    layout: Layout,
    shell: Shell,
    /// Nothing leaves this machine.
    captured: bool,
    messages: Vec<MessageRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct MessageRow {
    href: String,
    subject: String,
    recipient: String,
    status: Status,
    created: Stamp,
}

#[derive(Template)]
#[template(path = "mail/message.html")]
struct MessagePage {
    layout: Layout,
    shell: Shell,
    subject: String,
    recipient: String,
    status: Status,
    created: Stamp,
    /// Why it could not be sent.
    error: Option<String>,
    body: String,
    back: String,
}

/// What became of a message: a word, and the look of its badge.
struct Status {
    word: &'static str,
    look: &'static str,
}

impl Status {
    fn of(stored: &str) -> Status {
        let (word, look) = match stored {
            "captured" => ("Captured", "off"),
            "sent" => ("Sent", "good"),
            "failed" => ("Failed", "bad"),
            _ => ("Waiting", "off"),
        };
        Status { word, look }
    }
}

async fn list(desk: Desk<Look>) -> Response {
    desk.answer(try_list(&desk)).await
}

async fn try_list(desk: &Desk<Look>) -> Result<Response, Error> {
    let page = desk.page()?;
    let rows = desk.read(store::page(desk.workspace_id(), &page)).await?;
    let stored: Result<Vec<Stored>, DbError> = rows.iter().map(Stored::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &desk.address("/messages"), |message| message.id);
    let now = desk.app.clock.now();
    let row = |message: Stored| MessageRow {
        href: desk.address(&format!("/messages/{}", message.id)),
        subject: message.subject,
        recipient: message.recipient,
        status: Status::of(&message.status),
        created: Stamp::ago(message.created_at, now),
    };
    let content = MessagesPage {
        layout: desk.layout(),
        shell: desk.shell("/messages"),
        captured: desk.app.config.smtp_url.is_none(),
        messages: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(layout::page(StatusCode::OK, &content))
}

async fn read(desk: Desk<Look>, id: Result<PathId<MessageId>, Error>) -> Response {
    desk.answer(try_read(&desk, id)).await
}

async fn try_read(desk: &Desk<Look>, id: Result<PathId<MessageId>, Error>) -> Result<Response, Error> {
    let gone = || Error::not_found("There is no such message here.");
    let PathId(id) = id.map_err(|_| gone())?;
    let rows = desk.read(store::by_id(desk.workspace_id(), id)).await?;
    let message = Stored::read(rows.first().ok_or_else(gone)?)?;
    let content = MessagePage {
        layout: desk.layout(),
        shell: desk.shell("/messages"),
        subject: message.subject,
        recipient: message.recipient,
        status: Status::of(&message.status),
        created: Stamp::new(message.created_at),
        error: message.error,
        body: message.body,
        back: desk.address("/messages"),
    };
    Ok(layout::page(StatusCode::OK, &content))
}
