//! Who got a broadcast, and what became of that, in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Broadcasts;
use super::pages::{find, gone};
use super::recipients::Kind;
use crate::accounts::{Look, Member};
use crate::emails::{self, Listed, State as MailState, Wanted};
use crate::error::Error;
use crate::id::BroadcastId;
use crate::web::{self, Layout, Leaf, PageResult, PathId, Shell, Stamp};

pub fn router() -> Router<Broadcasts> {
    Router::new().route("/broadcasts/{id}/recipients", get(list))
}

#[derive(Template)]
#[template(path = "broadcasts/recipients.html")]
struct RecipientsPage {
    layout: Layout,
    shell: Shell,
    name: String,
    back: String,
    here: String,
    kind: String,
    search: String,
    /// What they are called, where they are listed, and whether that is here.
    kinds: Vec<(&'static str, String, bool)>,
    recipients: Vec<Row>,
    newer: Option<String>,
    older: Option<String>,
}

struct Row {
    href: String,
    address: String,
    state: &'static str,
    reason: Option<String>,
    until: Option<Stamp>,
}

/// Those that are offered.
const KINDS: [(&str, &str); 10] = [
    ("All", ""),
    ("Waiting", "queued"),
    ("Delayed", "delivery_delayed"),
    ("Uncertain", "uncertain"),
    ("Delivered", "delivered"),
    ("Opened", "opened"),
    ("Clicked", "clicked"),
    ("Bounced", "bounced"),
    ("Complained", "complained"),
    ("Unsubscribed", "unsubscribed"),
];

async fn list(member: Member<Look>, id: Result<PathId<BroadcastId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let broadcast = find(&member, id).await?;
    let (page, email_id) = (member.page()?, broadcast.email_id());
    let search = member.asked("search").unwrap_or_default();
    let asked = member.asked("type").unwrap_or_default();
    let kind: Option<Kind> = match asked.as_str() {
        "" => None,
        word => Some(Kind::named(word).ok_or_else(|| Error::not_found("Recipients cannot be looked for by this."))?),
    };
    let wanted = Wanted {
        states: kind.map_or(&MailState::ALL[..], Kind::states),
        address: search.trim(),
        is_unsubscribed: kind == Some(Kind::Unsubscribed),
    };
    let rows = member.read(emails::page_of_recipients(email_id, &wanted, &page)).await?;
    let all: Vec<Listed> = rows.iter().map(|row| Listed::read(email_id, row)).collect::<Result<_, _>>()?;
    let back = member.address(&format!("/broadcasts/{id}"));
    let here = format!("{back}/recipients");
    let looking = match search.trim() {
        "" => String::new(),
        text => format!("&search={}", utf8_percent_encode(text, NON_ALPHANUMERIC)),
    };
    let Leaf { items, newer, older } = page.leaf(all, &format!("{here}?type={asked}{looking}"), |one| one.id);
    let clock = &member.app.clock;
    let row = |one: Listed| Row {
        href: member.address(&format!("/emails/{}", one.id)),
        address: one.address,
        state: one.state.as_str(),
        reason: one.reason,
        until: one.due_at.map(|at| Stamp::exact(clock.shown_at(at))),
    };
    let content = RecipientsPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        name: broadcast.content.name,
        kinds: KINDS.map(|(word, key)| (word, format!("{here}?type={key}{looking}"), key == asked)).into(),
        kind: asked,
        search,
        recipients: items.into_iter().map(row).collect(),
        newer,
        older,
        back,
        here,
    };
    Ok(web::page(StatusCode::OK, &content))
}
