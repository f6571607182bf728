//! Who got a broadcast, and what became of that, in the dashboard.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Broadcasts;
use super::pages::{find, gone};
use super::recipients::{BounceType, Kind, wanted_states};
use crate::accounts::{Look, Member};
use crate::emails::{self, Listed, Wanted};
use crate::error::Error;
use crate::id::{BroadcastId, own_id, parts_of};
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
    /// How lasting the bounce is that was chosen, and those that can be, while it is about bounces.
    bounce_type: String,
    bounce_types: Vec<(&'static str, String, bool)>,
    recipients: Vec<Row>,
    /// Where the look goes on that went through so many.
    stopped: Option<String>,
    window: i64,
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

/// How many recipients one look for some of them goes through.
const WINDOW: i64 = 5_000;

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

/// How lasting a bounce is.
const BOUNCE_TYPES: [(&str, &str); 4] =
    [("All bounces", ""), ("Permanent", "permanent"), ("Transient", "transient"), ("Undetermined", "undetermined")];

/// How an address says how lasting a bounce is; without a word, it is about all of them.
fn lasting(word: &str) -> String {
    if word.is_empty() { String::new() } else { format!("&bounce_type={word}") }
}

async fn list(member: Member<Look>, id: Result<PathId<BroadcastId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let broadcast = find(&member, id).await?;
    let (page, email_id) = (member.page()?, broadcast.email_id());
    let search = member.asked("search").unwrap_or_default();
    let asked = member.asked("type").unwrap_or_default();
    let unknown = || Error::not_found("Recipients cannot be looked for by this.");
    let kind: Option<Kind> = match asked.as_str() {
        "" => None,
        word => Some(Kind::named(word).ok_or_else(unknown)?),
    };
    let asked_bounce = member.asked("bounce_type").unwrap_or_default();
    let bounce_type: Option<BounceType> = match asked_bounce.as_str() {
        "" => None,
        word => Some(BounceType::named(word).ok_or_else(unknown)?),
    };
    // Who looks for nobody in particular finds as many as a page shows at once.
    let is_filtered = kind.is_some() || !search.trim().is_empty();
    let (upwards, from, _) = page.bounds();
    let (_, from) = parts_of(from.into());
    let behind = broadcast.recipients + 1;
    let until = if upwards { from + WINDOW + 1 } else { from.min(behind) - WINDOW - 1 };
    let states = wanted_states(kind, bounce_type);
    let until = Some(until).filter(|until| is_filtered && states.is_some() && (1..behind).contains(until));
    let is_unsubscribed = kind == Some(Kind::Unsubscribed);
    let rows = match states.map(|states| Wanted { states, address: search.trim(), is_unsubscribed, until }) {
        None => Vec::new(),
        Some(wanted) => member.read(emails::page_of_recipients(email_id, &wanted, &page)).await?,
    };
    let all: Vec<Listed> = rows.iter().map(|row| Listed::read(email_id, row)).collect::<Result<_, _>>()?;
    let back = member.address(&format!("/broadcasts/{id}"));
    let here = format!("{back}/recipients");
    let looking = match search.trim() {
        "" => String::new(),
        text => format!("&search={}", utf8_percent_encode(text, NON_ALPHANUMERIC)),
    };
    let this = format!("{here}?type={asked}{}{looking}", lasting(&asked_bounce));
    let Leaf { items, newer, older } = page.leaf(all, &this, |one| one.id);
    let (way, goes_on) = if upwards { ("before", newer.is_some()) } else { ("after", older.is_some()) };
    let stopped = until.filter(|_| !goes_on);
    // The one at which the look ended was not looked at.
    let stopped = stopped.map(|until| if upwards { until - 1 } else { until + 1 });
    let stopped = stopped.map(|last| format!("{this}&{way}={}", own_id(email_id, last)));
    let clock = &member.app.clock;
    let row = |one: Listed| Row {
        href: member.address(&format!("/emails/{}", one.id)),
        address: one.address,
        state: one.state.as_str(),
        reason: one.reason,
        until: one.due_at.map(|at| Stamp::exact(clock.shown_at(at))),
    };
    let bounce_link =
        |word, key: &str, chosen: &str| (word, format!("{here}?type=bounced{}{looking}", lasting(key)), key == chosen);
    let content = RecipientsPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        name: broadcast.content.name,
        kinds: KINDS.map(|(word, key)| (word, format!("{here}?type={key}{looking}"), key == asked)).into(),
        bounce_types: match kind == Some(Kind::Bounced) || bounce_type.is_some() {
            true => BOUNCE_TYPES.map(|(word, key)| bounce_link(word, key, &asked_bounce)).into(),
            false => Vec::new(),
        },
        kind: asked,
        bounce_type: asked_bounce,
        search,
        recipients: items.into_iter().map(row).collect(),
        stopped,
        window: WINDOW,
        newer,
        older,
        back,
        here,
    };
    Ok(web::page(StatusCode::OK, &content))
}
