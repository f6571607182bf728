//! Emails in the dashboard: what became of them, and which of them wait for somebody.

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Emails;
use super::filter::{self, Filter, MOST_COUNTED, SEARCHED};
use super::state::State;
use super::store::Summary;
use super::{page_one, page_send, page_share, page_time};
use crate::accounts::{Look, Member};
use crate::config::TransportKind;
use crate::db::DbError;
use crate::error::Error;
use crate::id::EmailId;
use crate::text::like;
use crate::web::{self, Layout, Leaf, Page, PageResult, Shell, Stamp};

/// How many a search finds at once.
const MOST_FOUND: usize = 50;

/// How much of what was typed is looked for.
const LONGEST_SEARCH: usize = 254;

pub fn router() -> Router<Emails> {
    Router::new()
        .route("/emails", get(list))
        .route("/emails/new", get(page_send::ask).post(page_send::send))
        .route("/emails/{id}", get(page_one::read))
        .route("/emails/{id}/reschedule", post(page_time::reschedule))
        .route("/emails/{id}/cancel", get(page_time::ask_cancel).post(page_time::cancel))
        .route("/emails/{id}/share", post(page_share::share))
        .route("/emails/{id}/html", get(page_one::show_html))
        .route("/emails/{id}/text", get(page_one::show_text))
        .route("/emails/{id}/attachments/{attachment}", get(page_one::download))
        .route("/emails/{id}/recipients/{number}/{decision}", get(page_one::ask).post(page_one::decide))
        // Mail is made here, of whatever it is made.
        .route("/templates/{id}/test", get(page_send::ask_test).post(page_send::send_test))
        // Where mail was before it had pages of its own.
        .route("/messages", get(moved))
}

async fn moved(member: Member<Look>) -> Response {
    Redirect::permanent(&member.address("/emails")).into_response()
}

#[derive(Template)]
#[template(path = "emails/list.html")]
struct EmailsPage {
    layout: Layout,
    shell: Shell,
    /// Where one is written, for those who may.
    new: Option<String>,
    /// Nothing leaves this machine.
    captured: bool,
    /// How many mails nobody knows the outcome of, and where they are listed.
    uncertain: Option<(String, String)>,
    here: String,
    search: String,
    searched: i64,
    /// The state that was chosen, which a search keeps.
    state: Option<&'static str>,
    /// The same without what was looked for.
    all: String,
    /// Of which state they are, or all.
    choices: Vec<ChoiceLink>,
    is_filtered: bool,
    emails: Vec<EmailRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct ChoiceLink {
    label: &'static str,
    href: String,
    is_current: bool,
}

struct EmailRow {
    href: String,
    subject: String,
    to: String,
    state: Badge,
    created: Stamp,
}

/// A state: a word, and the look of its badge.
pub struct Badge {
    pub word: &'static str,
    pub look: &'static str,
}

impl From<State> for Badge {
    fn from(state: State) -> Badge {
        let (word, look) = match state {
            State::Scheduled => ("Scheduled", "off"),
            State::Queued => ("Queued", "off"),
            State::Sent => ("Sent", "good"),
            State::Uncertain => ("Uncertain", "busy"),
            State::Delayed => ("Delayed", "busy"),
            State::Delivered => ("Delivered", "good"),
            State::Opened => ("Opened", "good"),
            State::Clicked => ("Clicked", "good"),
            State::Suppressed => ("Suppressed", "bad"),
            State::Failed => ("Failed", "bad"),
            State::Bounced => ("Bounced", "bad"),
            State::Complained => ("Complained", "bad"),
            State::Canceled => ("Canceled", "off"),
        };
        Badge { word, look }
    }
}

async fn list(member: Member<Look>) -> PageResult {
    let (page, chosen) = (member.page()?, chosen(&member)?);
    let search: String = member.asked("search").unwrap_or_default().trim().chars().take(LONGEST_SEARCH).collect();
    let search = search.replace('\0', "");
    let Leaf { items, newer, older } = match search.is_empty() {
        true => {
            let rows = member.read(filter::page(member.workspace_id(), chosen, &page)).await?;
            let stored: Result<Vec<Summary>, DbError> = rows.iter().map(Summary::read).collect();
            page.leaf(stored?, &address_of(&member, chosen, ""), |email| email.id)
        }
        false => found(&member, &page, chosen, &search).await?,
    };
    let now = member.app.clock.now();
    let row = |email: Summary| EmailRow {
        href: member.address(&format!("/emails/{}", email.id)),
        subject: titled(email.subject),
        to: email.envelope.to.join(", "),
        state: email.state.into(),
        created: Stamp::ago(email.created_at, now),
    };
    let content = EmailsPage {
        layout: member.layout(),
        shell: member.shell("/emails"),
        new: member.may_manage().then(|| member.address("/emails/new")),
        captured: member.app.config.transport() == TransportKind::Capture,
        uncertain: uncertain(&member).await?,
        choices: choices(&member, chosen, &search),
        state: chosen.map(|filter| filter.word),
        all: address_of(&member, chosen, ""),
        is_filtered: chosen.is_some() || !search.is_empty(),
        here: member.address("/emails"),
        search,
        searched: SEARCHED,
        emails: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// Those in whose subject or addresses a text stands, among some; the rest is looked through from there on.
async fn found(
    member: &Member<Look>,
    page: &Page,
    chosen: Option<Filter>,
    search: &str,
) -> Result<Leaf<Summary>, Error> {
    let (workspace_id, wanted, (_, behind, _)) = (member.workspace_id(), search.to_lowercase(), page.bounds());
    let pattern = format!("%{}%", like(&wanted, '!'));
    let (containing, last) = filter::search(workspace_id, chosen, behind, &pattern);
    let rows = member.read(containing).await?;
    let stored: Vec<Summary> = rows.iter().map(Summary::read).collect::<Result<_, _>>()?;
    let last = member.read(last).await?;
    let last: Option<EmailId> = last.first().map(|row| row.id(0)).transpose()?;
    let last = if rows.len() == MOST_FOUND { stored.last().map(|email| email.id) } else { last };
    let is_meant = |email: &Summary| {
        let envelope = &email.envelope;
        let addresses = envelope.to.iter().chain(&envelope.cc).chain(&envelope.bcc);
        email.subject.to_lowercase().contains(&wanted)
            || addresses.into_iter().any(|address| address.to_lowercase().contains(&wanted))
    };
    let here = address_of(member, chosen, search);
    let older = last.map(|id| format!("{here}&after={id}"));
    Ok(Leaf { items: stored.into_iter().filter(is_meant).collect(), newer: None, older })
}

/// The state that mails are looked for by, if the address names one.
fn chosen(member: &Member<Look>) -> Result<Option<Filter>, Error> {
    let unknown = || Error::not_found("Mail cannot be looked for by this state.");
    member.asked("state").map(|word| Filter::parse(&word).ok_or_else(unknown)).transpose()
}

/// The list of those in a state in which a text is looked for, as far as either is given.
fn address_of(member: &Member<Look>, filter: Option<Filter>, search: &str) -> String {
    let state = filter.map(|filter| format!("state={}", filter.word));
    let search = (!search.is_empty()).then(|| format!("search={}", utf8_percent_encode(search, NON_ALPHANUMERIC)));
    let query: Vec<String> = state.into_iter().chain(search).collect();
    member.address(&match query.is_empty() {
        true => "/emails".to_owned(),
        false => format!("/emails?{}", query.join("&")),
    })
}

fn choices(member: &Member<Look>, chosen: Option<Filter>, search: &str) -> Vec<ChoiceLink> {
    let link = |filter: Option<Filter>| ChoiceLink {
        label: filter.map_or("All", |filter| Badge::from(filter.state).word),
        href: address_of(member, filter, search),
        is_current: filter == chosen,
    };
    std::iter::once(None).chain(Filter::ALL.map(Some)).map(link).collect()
}

async fn uncertain(member: &Member<Look>) -> Result<Option<(String, String)>, Error> {
    let rows = member.read(filter::count_uncertain(member.workspace_id())).await?;
    let sentence = match rows.first().map_or(Ok(0), |row| row.int(0))? {
        0 => return Ok(None),
        1 => "Of one email nobody knows whether it arrived.".into(),
        count if count > MOST_COUNTED => {
            format!("Of more than {MOST_COUNTED} emails nobody knows whether they arrived.")
        }
        count => format!("Of {count} emails nobody knows whether they arrived."),
    };
    Ok(Some((sentence, address_of(member, Filter::parse("uncertain"), ""))))
}

/// A subject that can be clicked on.
pub fn titled(subject: String) -> String {
    if subject.trim().is_empty() { "(no subject)".into() } else { subject }
}
