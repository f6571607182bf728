//! One webhook in the dashboard: what it was told, how that went, and telling it again.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;
use uuid::Uuid;

use super::event::EventType;
use super::pages::{Badge, Id, find, purpose};
use super::routes::{EventPath, send_again};
use super::shapes::{AttemptItem, EventDetail, EventItem, Outcome, WebhookDetail};
use super::store;
use super::webhook::Status;
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::error::Error;
use crate::id::{WebhookEventId, WebhookId};
use crate::web::{self, Form, Layout, Leaf, Page, PageResult, PathId, RECENT, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new()
        .route("/webhooks/{id}", get(show))
        .route("/webhooks/{id}/events/{event_id}", get(show_event))
        .route("/webhooks/{id}/events/{event_id}/replay", post(replay))
}

impl From<Outcome> for Badge {
    fn from(outcome: Outcome) -> Badge {
        match outcome {
            Outcome::Pending => Badge { look: "busy", word: "Pending" },
            Outcome::Attempting => Badge { look: "busy", word: "Being sent" },
            Outcome::Success => Badge { look: "good", word: "Delivered" },
            Outcome::Failed => Badge { look: "bad", word: "Failed" },
        }
    }
}

#[derive(Template)]
#[template(path = "webhooks/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    id: WebhookId,
    endpoint: String,
    status: Badge,
    reason: Option<String>,
    created: Stamp,
    types: Vec<&'static str>,
    /// Of those on this page.
    arrived: Option<String>,
    acts: Option<Acts>,
    events: Vec<EventRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct Acts {
    edit: String,
    rotate: String,
    delete: String,
    /// What switches it off or on: label, action, hidden fields.
    switch: (&'static str, String, Vec<(String, String)>),
}

struct EventRow {
    href: String,
    kind: &'static str,
    status: Badge,
    at: Stamp,
}

#[derive(Template)]
#[template(path = "webhooks/event.html")]
struct EventPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    endpoint: String,
    id: WebhookEventId,
    kind: &'static str,
    status: Badge,
    /// Whether it changes by itself.
    is_moving: bool,
    at: Stamp,
    next: Option<Stamp>,
    payload: String,
    attempts: Vec<AttemptRow>,
    /// Action and hidden fields.
    replay: Option<(String, Vec<(String, String)>)>,
}

struct AttemptRow {
    at: Stamp,
    status: String,
    is_good: bool,
    error: Option<String>,
    response: String,
    duration: i64,
}

async fn show(member: Member<Look>, id: Id) -> PageResult {
    let WebhookDetail { item, .. } = find(&member, id).await?;
    let page = member.page()?;
    let stored: Vec<EventItem> = member.query(store::events(item.id, &page)).await?;
    let here = member.address(&format!("/webhooks/{}", item.id));
    let Leaf { items, newer, older } = page.leaf(stored, &here, |event| event.id);
    let now = member.app.clock.now();
    let items: Vec<EventItem> = items.into_iter().map(EventItem::now).collect();
    let settled = items.iter().filter(|event| matches!(event.status, Outcome::Success | Outcome::Failed)).count();
    let arrived = items.iter().filter(|event| event.status == Outcome::Success).count();
    let row = |event: EventItem| EventRow {
        href: format!("{here}/events/{}", event.id),
        kind: event.kind.as_str(),
        status: event.status.into(),
        at: Stamp::exact(event.created_at.0),
    };
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/webhooks"),
        notice: member
            .notice("saved", "The webhook is changed.")
            .or(member.notice("enabled", "It is told from now on."))
            .or(member.notice("disabled", "It is told nothing any more. What waited for it is given up.")),
        back: member.address("/webhooks"),
        id: item.id,
        reason: item.disabled_reason.clone(),
        created: Stamp::ago(item.created_at.0, now),
        types: item.events.iter().map(EventType::as_str).collect(),
        arrived: (settled > 0).then(|| format!("{} % of those on this page have arrived.", arrived * 100 / settled)),
        acts: member.may_manage().then(|| acts(&member, item.id, item.status, &here)),
        status: item.status.into(),
        endpoint: item.endpoint,
        events: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn acts<D: Duty>(member: &Member<D>, id: WebhookId, status: Status, here: &str) -> Acts {
    let (label, word) = match status {
        Status::Enabled => ("Disable", "disable"),
        Status::Disabled => ("Enable", "enable"),
    };
    Acts {
        edit: format!("{here}/edit"),
        rotate: format!("{here}/rotate"),
        delete: format!("{here}/delete"),
        switch: (label, format!("{here}/{word}"), member.hidden(&purpose(word, id))),
    }
}

fn no_event() -> Error {
    Error::not_found("There is no such event of this webhook. It may have been forgotten since.")
}

async fn show_event(member: Member<Look>, path: Result<EventPath, Error>) -> PageResult {
    let path = path.map_err(|_| no_event())?;
    let WebhookDetail { item: webhook, .. } = find(&member, Ok(PathId(path.webhook))).await?;
    let event: Option<EventDetail> = member.query(store::event_of(path.webhook, path.event)).await?;
    let EventDetail { item: event, next_attempt_at, payload, .. } = event.ok_or_else(no_event)?.now(&member.app.clock);
    let newest = Page::parse("", RECENT)?;
    let mut attempts: Vec<AttemptItem> = member.query(store::attempts(path.webhook, path.event, &newest)).await?;
    attempts.truncate(RECENT);
    let row = |attempt: AttemptItem| AttemptRow {
        at: Stamp::exact(attempt.sent_at.0),
        status: match attempt.http_status_code {
            0 => "no answer".into(),
            code => code.to_string(),
        },
        is_good: attempt.error.is_none(),
        error: attempt.error,
        response: attempt.response,
        duration: attempt.duration,
    };
    let back = member.address(&format!("/webhooks/{}", webhook.id));
    let can_replay = member.may_manage() && webhook.status == Status::Enabled;
    let content = EventPage {
        layout: member.layout(),
        shell: member.shell("/webhooks"),
        notice: member.notice("replayed", "It is delivered again."),
        endpoint: webhook.endpoint,
        id: event.id,
        kind: event.kind.as_str(),
        is_moving: matches!(event.status, Outcome::Pending | Outcome::Attempting),
        status: event.status.into(),
        at: Stamp::exact(event.created_at.0),
        next: next_attempt_at.map(|at| Stamp::exact(at.0)),
        payload: serde_json::to_string_pretty(&payload).unwrap_or_default(),
        attempts: attempts.into_iter().map(row).collect(),
        replay: can_replay.then(|| {
            let action = format!("{back}/events/{}/replay", event.id);
            (action, member.hidden_making(&replaying(&path), member.app.clock.ordered_id::<Uuid>()))
        }),
        back,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn replaying(path: &EventPath) -> String {
    format!("replay event {} of webhook {} as", path.event, path.webhook)
}

async fn replay(
    member: Member<Manage>,
    State(app): State<App>,
    path: Result<EventPath, Error>,
    form: Form,
) -> PageResult {
    let path = path.map_err(|_| no_event())?;
    let (id, accepted) = member.accept_making(&replaying(&path), &form)?;
    send_again(&accepted, &app, &path, Some(id)).await?;
    Ok(member.see_other(&format!("/webhooks/{}/events/{}?replayed", path.webhook, path.event)))
}
