//! Emails in the dashboard: what became of them, and why those wait that wait.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::contents_read::{file, html_of, sandboxed, text_of};
use super::state::State;
use super::store::{self, Recipient, Stored, Summary};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::clock::Clock;
use crate::config::TransportKind;
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::{AttachmentId, EmailId};
use crate::web::{self, Layout, Leaf, PathId, Shell, Stamp};

/// How much of what happened is shown.
const MOST_EVENTS: i64 = 500;

pub fn router() -> Router<App> {
    Router::new()
        .route("/emails", get(list))
        .route("/emails/{id}", get(read))
        .route("/emails/{id}/html", get(show_html))
        .route("/emails/{id}/attachments/{attachment}", get(download))
}

#[derive(Template)]
#[template(path = "emails/list.html")]
struct EmailsPage {
    layout: Layout,
    shell: Shell,
    /// Nothing leaves this machine.
    captured: bool,
    emails: Vec<EmailRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct EmailRow {
    href: String,
    subject: String,
    to: String,
    state: Badge,
    created: Stamp,
}

#[derive(Template)]
#[template(path = "emails/one.html")]
struct EmailPage {
    layout: Layout,
    shell: Shell,
    id: EmailId,
    subject: String,
    message_id: String,
    state: Badge,
    /// Who it is from and for.
    facts: Vec<(&'static str, String)>,
    created: Stamp,
    scheduled: Option<Stamp>,
    recipients: Vec<RecipientRow>,
    /// Where its HTML is shown.
    frame: Option<String>,
    text: Option<String>,
    is_forgotten: bool,
    attachments: Vec<FileRow>,
    history: Vec<HistoryRow>,
    back: String,
}

struct RecipientRow {
    address: String,
    state: Badge,
    why: Option<String>,
}

struct FileRow {
    href: String,
    name: String,
    kind: String,
    size: u64,
}

struct HistoryRow {
    at: Stamp,
    what: String,
    to: Option<String>,
    /// As JSON.
    more: Option<String>,
}

/// A state: a word, and the look of its badge.
struct Badge {
    word: &'static str,
    look: &'static str,
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

async fn list(member: Member<Look>) -> Response {
    member.answer(try_list(&member)).await
}

async fn try_list(member: &Member<Look>) -> Result<Response, Error> {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let stored: Result<Vec<Summary>, DbError> = rows.iter().map(Summary::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/emails"), |email| email.id);
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
        captured: member.app.config.transport() == TransportKind::Capture,
        emails: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// A subject that can be clicked on.
fn titled(subject: String) -> String {
    if subject.trim().is_empty() { "(no subject)".into() } else { subject }
}

async fn find(member: &Member<Look>, id: Result<EmailId, Error>) -> Result<Stored, Error> {
    let gone = || Error::not_found("There is no such email here.");
    let id = id.map_err(|_| gone())?;
    let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
    Ok(Stored::read(rows.first().ok_or_else(gone)?)?)
}

async fn read(member: Member<Look>, id: Result<PathId<EmailId>, Error>) -> Response {
    member.answer(try_read(&member, id)).await
}

async fn try_read(member: &Member<Look>, id: Result<PathId<EmailId>, Error>) -> Result<Response, Error> {
    let email = find(member, id.map(|PathId(id)| id)).await?;
    let (app, id) = (&member.app, email.summary.id);
    let recipients: Result<Vec<Recipient>, DbError> =
        member.read(store::recipients(id)).await?.iter().map(Recipient::read).collect();
    let recipients = recipients?;
    let history = history(&email, &recipients, &member.read(store::events(id, MOST_EVENTS)).await?)?;
    let html = html_of(&app.db, &email).await?;
    let text = text_of(&app.db, &email).await?.filter(|text| !text.is_empty());
    let address = |path: String| member.address(&format!("/emails/{id}{path}"));
    let files = email.summary.envelope.attachments.iter().filter(|_| email.size.is_some()).map(|file| FileRow {
        href: address(format!("/attachments/{}", file.id)),
        name: file.filename.clone().unwrap_or_else(|| "attachment".into()),
        kind: file.content_type.clone(),
        size: file.size,
    });
    let content = EmailPage {
        layout: member.layout(),
        shell: member.shell("/emails"),
        id,
        subject: titled(email.summary.subject.clone()),
        message_id: email.summary.message_id.clone(),
        state: email.summary.state.into(),
        facts: facts(&email),
        created: Stamp::new(email.summary.created_at),
        scheduled: email.summary.scheduled_at.map(Stamp::new),
        recipients: recipients.iter().map(|recipient| recipient_row(recipient, &app.clock)).collect(),
        frame: html.map(|_| address("/html".into())),
        text,
        is_forgotten: email.size.is_none(),
        attachments: files.collect(),
        history,
        back: member.address("/emails"),
    };
    Ok(web::page_framing(StatusCode::OK, &content))
}

fn facts(email: &Stored) -> Vec<(&'static str, String)> {
    let envelope = &email.summary.envelope;
    let tags: Vec<String> = envelope.tags.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let all = [
        ("From", email.summary.sender.clone()),
        ("To", envelope.to.join(", ")),
        ("Cc", envelope.cc.join(", ")),
        ("Bcc", envelope.bcc.join(", ")),
        ("Reply to", envelope.reply_to.join(", ")),
        ("Tags", tags.join(", ")),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn recipient_row(recipient: &Recipient, clock: &Clock) -> RecipientRow {
    RecipientRow { address: recipient.address.clone(), state: recipient.state.into(), why: why(recipient, clock) }
}

/// Why a recipient waits, and until when; or what the last server said.
fn why(recipient: &Recipient, clock: &Clock) -> Option<String> {
    let at = |due: i64| Stamp::exact(clock.shown_at(due)).text;
    let reason = recipient.reason.as_ref();
    match (recipient.state, recipient.due_at) {
        (State::Scheduled, Some(due)) => Some(format!("It is scheduled for {} UTC.", at(due))),
        (State::Uncertain, None) => {
            let said = "Nobody knows whether it arrived; it waits until somebody decides.";
            Some(reason.map_or(said.into(), |reason| format!("{said} {reason}")))
        }
        (_, Some(due)) if due > clock.steady() => {
            let next = format!("It is looked at again at {} UTC.", at(due));
            Some(reason.map_or(next.clone(), |reason| format!("{reason} {next}")))
        }
        (_, Some(_)) => Some(reason.cloned().unwrap_or_else(|| "It is next in its line.".into())),
        (_, None) => reason.cloned(),
    }
}

/// From when it was handed in to what happened last.
fn history(email: &Stored, recipients: &[Recipient], events: &[Row]) -> Result<Vec<HistoryRow>, DbError> {
    let first = if email.summary.scheduled_at.is_some() { "scheduled" } else { "queued" };
    let first = HistoryRow { at: Stamp::exact(email.summary.created_at), what: first.into(), to: None, more: None };
    let one = |row: &Row| {
        let (number, detail) = (row.maybe(0, Row::int)?, row.text(2)?);
        let to = recipients.iter().find(|recipient| Some(recipient.number) == number);
        Ok(HistoryRow {
            at: Stamp::exact(row.int(3)?),
            what: row.text(1)?,
            to: to.map(|recipient| recipient.address.clone()),
            more: Some(detail).filter(|detail| detail != "{}"),
        })
    };
    std::iter::once(Ok(first)).chain(events.iter().map(one)).collect()
}

async fn show_html(member: Member<Look>, id: Result<PathId<EmailId>, Error>) -> Response {
    let show = async {
        let email = find(&member, id.map(|PathId(id)| id)).await?;
        sandboxed(&member.app.db, email).await
    };
    member.answer(show).await
}

async fn download(member: Member<Look>, Path((id, attachment)): Path<(String, String)>) -> Response {
    let save = async {
        let gone = || Error::not_found("There is no such file here.");
        let email = find(&member, id.parse().map_err(|_| gone())).await?;
        let wanted: AttachmentId = attachment.parse().map_err(|_| gone())?;
        let mut files = email.summary.envelope.attachments.iter().filter(|_| email.size.is_some());
        let found = files.find(|file| file.id == wanted).ok_or_else(gone)?;
        Ok(file(&member.app.db, email.summary.id, found))
    };
    member.answer(save).await
}
