//! Messages in the dashboard: what was sent, or captured where nothing leaves
//! the machine.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::store::{self, Stored};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::db::DbError;
use crate::error::Error;
use crate::id::MessageId;
use crate::web::{self, Layout, Leaf, PathId, Shell, Stamp};

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

async fn list(member: Member<Look>) -> Response {
    member.answer(try_list(&member)).await
}

async fn try_list(member: &Member<Look>) -> Result<Response, Error> {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let stored: Result<Vec<Stored>, DbError> = rows.iter().map(Stored::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/messages"), |message| message.id);
    let now = member.app.clock.now();
    let row = |message: Stored| MessageRow {
        href: member.address(&format!("/messages/{}", message.id)),
        subject: message.subject,
        recipient: message.recipient,
        status: Status::of(&message.status),
        created: Stamp::ago(message.created_at, now),
    };
    let content = MessagesPage {
        layout: member.layout(),
        shell: member.shell("/messages"),
        captured: member.app.config.smtp_url.is_empty(),
        messages: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn read(member: Member<Look>, id: Result<PathId<MessageId>, Error>) -> Response {
    member.answer(try_read(&member, id)).await
}

async fn try_read(member: &Member<Look>, id: Result<PathId<MessageId>, Error>) -> Result<Response, Error> {
    let gone = || Error::not_found("There is no such message here.");
    let PathId(id) = id.map_err(|_| gone())?;
    let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
    let message = Stored::read(rows.first().ok_or_else(gone)?)?;
    let content = MessagePage {
        layout: member.layout(),
        shell: member.shell("/messages"),
        subject: message.subject,
        recipient: message.recipient,
        status: Status::of(&message.status),
        created: Stamp::new(message.created_at),
        error: message.error,
        body: message.body,
        back: member.address("/messages"),
    };
    Ok(web::page(StatusCode::OK, &content))
}
