//! Decisions of people, over HTTP.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Emails;
use super::body::OneMailbox;
use super::decisions::{Decision, Whom, decide};
use super::routes::{Found, Reference, find_any};
use crate::auth::Caller;
use crate::error::Error;
use crate::id::EmailId;
use crate::web::{Body, JsonResult, OfState, PathId};

/// Of which recipient.
#[derive(Deserialize, ToSchema)]
#[schema(as = EmailDecision)]
pub struct ToWhom {
    /// The address of one recipient. Without it, all are meant of whom there is something to decide.
    #[schema(value_type = Option<String>, example = "ada@example.com")]
    to: Option<OneMailbox>,
}

/// Try an email again
///
/// Lets recipients that wait after an attempt be tried now. Of an uncertain one nobody knows whether it got the mail:
/// it may then get it twice.
#[utoipa::path(
    post, path = "/emails/{id}/retry", tag = "Emails", operation_id = "retry_email",
    params(PathId),
    request_body = Option<ToWhom>,
    responses(
        (status = 200, description = "It is tried.", body = Reference),
        OfState,
    ),
)]
pub async fn retry(
    caller: Caller,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<ToWhom>,
) -> JsonResult<Reference> {
    answer(&caller, &emails, id, body, Decision::Retry).await
}

/// Give up an email
///
/// Recipients that wait after an attempt get no further one: they are `failed`.
#[utoipa::path(
    post, path = "/emails/{id}/drop", tag = "Emails", operation_id = "drop_email",
    params(PathId),
    request_body = Option<ToWhom>,
    responses(
        (status = 200, description = "It is not sent any more.", body = Reference),
        OfState,
    ),
)]
pub async fn give_up(
    caller: Caller,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<ToWhom>,
) -> JsonResult<Reference> {
    answer(&caller, &emails, id, body, Decision::Drop).await
}

/// Mark an email as delivered
///
/// For recipients of whom it is uncertain whether they got the mail: somebody knows that they did.
#[utoipa::path(
    post, path = "/emails/{id}/mark-delivered", tag = "Emails", operation_id = "mark_email_delivered",
    params(PathId),
    request_body = Option<ToWhom>,
    responses(
        (status = 200, description = "It is delivered.", body = Reference),
        OfState,
    ),
)]
pub async fn mark_delivered(
    caller: Caller,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<ToWhom>,
) -> JsonResult<Reference> {
    answer(&caller, &emails, id, body, Decision::MarkDelivered).await
}

async fn answer(
    caller: &Caller,
    emails: &Emails,
    id: EmailId,
    body: Body<ToWhom>,
    decision: Decision,
) -> JsonResult<Reference> {
    let to = body.read()?.to.map(|OneMailbox(mailbox)| mailbox.address.key());
    let (shared, whom) = match find_any(caller, id).await? {
        Found::Own { email, recipient } => (email.summary.id, Whom::Own(recipient.number)),
        Found::Mail(email) if email.is_shared() => return Err(of_many()),
        Found::Mail(_) => (id, to.map_or(Whom::All, Whom::Key)),
    };
    let whose = (caller.workspace_id(), shared);
    decide(emails, whose, decision, &whom, |batch| caller.commit_once(batch)).await?;
    Ok(Json(Reference::to(id)))
}

/// Its recipients may be a million.
fn of_many() -> Error {
    let message = "This is the mail of a broadcast. Decide of one recipient by the id of its own mail, which `GET \
                   /broadcasts/{id}/recipients` tells.";
    Error::Conflict { message: message.into() }
}
