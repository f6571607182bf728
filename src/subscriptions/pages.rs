//! The address behind the link of a mail. GET shows a page and changes nothing, because scanners
//! open every link; POST does what was asked, by a mail program (RFC 8058) or by the page.

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::Preferences;
use super::branding::{Frame, show_colors};
use super::links::{Links, Subscriber};
use super::mail::Unsubscribing;
use super::preferences::{PreferencesPage, Sent, unsubscribe};
use crate::app::App;
use crate::contacts::{SubscriptionChanges, Subscriptions, UnsubscribedBy, change_own_subscriptions};
use crate::error::Error;
use crate::web::{self, MultipartForm, Params, Sender, Spool};

/// No form of ours is larger.
const LIMIT: usize = 64 << 10;

/// The field that a mail program sends, and its value.
const ONE_CLICK: (&str, &str) = ("List-Unsubscribe", "One-Click");

pub fn router() -> Router<Preferences> {
    Router::new().route("/unsubscribe/{token}", get(show).post(act)).route("/colors/{name}", get(show_colors))
}

async fn show(
    State(state): State<Preferences>,
    Extension(sender): Extension<Sender>,
    Path(token): Path<String>,
) -> Response {
    let shown = async {
        let subscriber = state.open(&token, sender).await?;
        let now = find(&state, &subscriber).await?.ok_or_else(gone)?;
        let frame = Frame::of(&state, subscriber.workspace_id).await?;
        Ok(web::page(StatusCode::OK, &PreferencesPage::new(frame, &subscriber, &now)))
    };
    shown.await.unwrap_or_else(|error| problem(&state, &error))
}

async fn act(
    State(state): State<Preferences>,
    Extension(sender): Extension<Sender>,
    Path(token): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let acted = async {
        let subscriber = state.open(&token, sender).await?;
        let body = web::read_body(&headers, body, LIMIT).await?;
        if is_one_click(&headers, &body)? {
            return one_click(&state, &subscriber).await;
        }
        let unread = || Error::BadRequest {
            message: "Send `List-Unsubscribe=One-Click` as a form, or use the page at this address.".into(),
        };
        let sent = Sent::read(&body).ok_or_else(unread)?;
        let changes = |now: &Subscriptions| sent.changes(&subscriber, now);
        let changed = change(&state, &subscriber, changes, UnsubscribedBy::Page).await?.ok_or_else(gone)?;
        let frame = Frame::of(&state, subscriber.workspace_id).await?;
        Ok(web::page(StatusCode::OK, &PreferencesPage::after(frame, &subscriber, sent.action, &changed)))
    };
    acted.await.unwrap_or_else(|error| problem(&state, &error))
}

/// Whoever is gone gets no mail either, so the mail program is told the same.
async fn one_click(state: &Preferences, subscriber: &Subscriber) -> Result<Response, Error> {
    let changes = |now: &Subscriptions| unsubscribe(subscriber, now);
    change(state, subscriber, changes, UnsubscribedBy::OneClick).await?;
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    Ok((headers, "You are unsubscribed.\n").into_response())
}

fn is_one_click(headers: &HeaderMap, body: &Bytes) -> Result<bool, Error> {
    let (field, value) = ONE_CLICK;
    let label = headers.get(CONTENT_TYPE).and_then(|label| label.to_str().ok()).unwrap_or_default();
    let given = match label.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        true => MultipartForm::parse(headers, Spool::Memory(body.clone()))?.text(field)?,
        false => Params::parse(body).text(field).ok().map(|given| given.into_owned()),
    };
    Ok(given.is_some_and(|given| given.trim().eq_ignore_ascii_case(value)))
}

impl Preferences {
    /// Whom a link is about. Who tries many that are none has to wait.
    async fn open(&self, token: &str, Sender(sender): Sender) -> Result<Subscriber, Error> {
        match Links::of(self).await?.open(token) {
            Some(subscriber) => Ok(subscriber),
            None => {
                self.limits.forged.check(sender)?;
                Err(gone())
            }
        }
    }
}

async fn find(state: &Preferences, subscriber: &Subscriber) -> Result<Option<Subscriptions>, Error> {
    Ok(Subscriptions::find(state, subscriber.workspace_id, subscriber.contact_id).await?)
}

/// Changes what a contact gets, within what one contact may change in a while: each change is
/// written down and told.
async fn change(
    state: &Preferences,
    subscriber: &Subscriber,
    changes: impl Fn(&Subscriptions) -> SubscriptionChanges,
    by: UnsubscribedBy,
) -> Result<Option<(Subscriptions, Subscriptions)>, Error> {
    let whose = (subscriber.workspace_id, subscriber.contact_id);
    let attempt = state.limits.changes.begin(&subscriber.contact_id.to_string(), state.clock.steady()).await?;
    let unsubscribing = Unsubscribing::of(state, subscriber, by).await?;
    let changed = change_own_subscriptions(state, whose, changes, by, |batch| unsubscribing.add_to(batch)).await?;
    if changed.as_ref().is_some_and(|(before, after)| before.differs_from(after)) {
        attempt.failed();
    }
    Ok(changed)
}

/// The same for a link that nobody made and for one whose contact is gone.
fn gone() -> Error {
    Error::not_found(
        "It may not have been copied whole. Open it from the e-mail once more, or answer the e-mail and ask its \
         sender to take you off the list.",
    )
}

#[derive(Template)]
#[template(path = "subscriptions/problem.html")]
struct ProblemPage {
    frame: Frame,
    title: &'static str,
    sentence: String,
}

/// An error as a page for people who know nothing of us.
pub fn problem(app: &App, error: &Error) -> Response {
    let (status, sentence) = (error.status(), error.message().into_owned());
    let title = match status {
        StatusCode::NOT_FOUND => "This link does not work",
        StatusCode::TOO_MANY_REQUESTS => "Too many tries",
        StatusCode::SERVICE_UNAVAILABLE => "Back in a moment",
        status if status.is_client_error() => "That did not work",
        _ => "Something went wrong",
    };
    let mut response = web::page(status, &ProblemPage { frame: Frame::plain(app), title, sentence });
    if let Error::RateLimited { retry_after } = error {
        response.headers_mut().insert(RETRY_AFTER, (*retry_after).into());
    }
    response
}
