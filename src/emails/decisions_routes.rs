//! Decisions of people, over HTTP.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Emails;
use super::body::OneMailbox;
use super::decisions::{Decision, decide};
use super::routes::{Reference, find};
use super::store::{self, Recipient};
use crate::auth::{Caller, FullAccess};
use crate::error::Error;
use crate::id::EmailId;
use crate::mime::Address;
use crate::web::{Body, OfBody, OfCaller, OfPath, OfState, PathId};

/// Of which recipient.
#[derive(Deserialize, ToSchema)]
#[schema(as = EmailDecision)]
pub struct Whom {
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
    request_body = Option<Whom>,
    responses(
        (status = 200, description = "It is tried.", body = Reference),
        OfCaller, OfPath, OfBody, OfState,
    ),
)]
pub async fn retry(
    caller: Caller<FullAccess>,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<Whom>,
) -> Result<Json<Reference>, Error> {
    answer(&caller, &emails, id, body, Decision::Retry).await
}

/// Give up an email
///
/// Recipients that wait after an attempt get no further one: they are `failed`.
#[utoipa::path(
    post, path = "/emails/{id}/drop", tag = "Emails", operation_id = "drop_email",
    params(PathId),
    request_body = Option<Whom>,
    responses(
        (status = 200, description = "It is not sent any more.", body = Reference),
        OfCaller, OfPath, OfBody, OfState,
    ),
)]
pub async fn give_up(
    caller: Caller<FullAccess>,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<Whom>,
) -> Result<Json<Reference>, Error> {
    answer(&caller, &emails, id, body, Decision::Drop).await
}

/// Mark an email as delivered
///
/// For recipients of whom it is uncertain whether they got the mail: somebody knows that they did.
#[utoipa::path(
    post, path = "/emails/{id}/mark-delivered", tag = "Emails", operation_id = "mark_email_delivered",
    params(PathId),
    request_body = Option<Whom>,
    responses(
        (status = 200, description = "It is delivered.", body = Reference),
        OfCaller, OfPath, OfBody, OfState,
    ),
)]
pub async fn mark_delivered(
    caller: Caller<FullAccess>,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<Whom>,
) -> Result<Json<Reference>, Error> {
    answer(&caller, &emails, id, body, Decision::MarkDelivered).await
}

async fn answer(
    caller: &Caller<FullAccess>,
    emails: &Emails,
    id: EmailId,
    body: Body<Whom>,
    decision: Decision,
) -> Result<Json<Reference>, Error> {
    let to = body.read()?.to.map(|OneMailbox(mailbox)| mailbox.address.key());
    find(caller, id).await?;
    let is_meant = |recipient: &Recipient| to.as_ref().is_none_or(|to| *to == key(recipient));
    if !caller
        .read(|| store::recipients(id))
        .await?
        .iter()
        .any(|row| Recipient::read(row).is_ok_and(|one| is_meant(&one)))
    {
        let message = "The `to` field names no recipient of this email. `GET /emails/{id}` lists them.";
        return Err(Error::invalid(message));
    }
    decide(emails, (caller.workspace_id(), id), decision, is_meant, |batch| caller.commit_once(batch)).await?;
    Ok(Json(Reference::to(id)))
}

/// What all spellings of a recipient's address have in common.
fn key(recipient: &Recipient) -> String {
    recipient.address.parse::<Address>().map_or_else(|_| recipient.address.clone(), |address| address.key())
}
