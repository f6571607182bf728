//! Emails over HTTP: what became of them, and what can still be changed.

use axum::Json;
use axum::extract::{Path, State};
use axum::routing::post;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::contents_read::{self, html_of, text_of};
use super::envelope::Attachment;
use super::links::{self, Link, Signer};
use super::shapes::{Detail, File, Item, Shared};
use super::store::{self, Recipient, Stored, Summary};
use super::waiting::Lines;
use super::{Emails, State as EmailState, decisions_routes, recipients, schedule, send, templated};
use crate::auth::{Actor, Caller};
use crate::clock::HOUR;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::{AttachmentId, EmailId, parts_of};
use crate::web::{self, Body, JsonResult, List, Newest, OfState, Page, PathId, id_in_path};

pub type Reference = web::Reference<EmailId>;

/// How long an attachment can be downloaded by its link.
const DOWNLOADS_FOR: i64 = HOUR;

/// How many recipients of a mail are shown with it.
const MOST_SHOWN: i64 = 200;

pub fn router() -> OpenApiRouter<Emails> {
    let aliases = ["/email", "/emails/sending", "/email/sending"];
    let router = OpenApiRouter::new()
        .routes(routes!(send::send, list))
        .routes(routes!(send::send_many))
        .routes(routes!(templated::send_test))
        .routes(routes!(read, reschedule))
        .routes(routes!(cancel))
        .routes(routes!(decisions_routes::retry))
        .routes(routes!(decisions_routes::give_up))
        .routes(routes!(decisions_routes::mark_delivered))
        .routes(routes!(share))
        .routes(routes!(list_attachments))
        .routes(routes!(read_attachment));
    aliases.into_iter().fold(router, |router, path| router.route(path, post(send::send)))
}

/// What nobody has to show a credential for: the link is one.
pub fn doors() -> OpenApiRouter<Emails> {
    contents_read::router()
}

pub fn not_found() -> Error {
    Error::not_found("Email not found. Check the id that sending it gave you.")
}

pub async fn find(caller: &dyn Actor, id: EmailId) -> Result<Stored, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
    Ok(Stored::read(rows.first().ok_or_else(not_found)?)?)
}

/// A mail, or the one that a recipient of a broadcast got.
pub enum Found {
    Mail(Stored),
    /// `email` is the one that all recipients share.
    Own {
        email: Stored,
        recipient: Recipient,
    },
}

pub async fn find_any(caller: &Caller, id: EmailId) -> Result<Found, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
    if let Some(row) = rows.first() {
        return Ok(Found::Mail(Stored::read(row)?));
    }
    let (shared, number) = parts_of(id);
    let rows = caller.read(|| recipients::recipient(caller.workspace_id(), shared, number)).await?;
    let recipient = Recipient::read(rows.first().ok_or_else(not_found)?)?;
    Ok(Found::Own { email: find(caller, shared).await?, recipient })
}

/// A broadcast has routes of its own for what is refused here.
fn not_shared(email: &Stored) -> Result<(), Error> {
    let message = "This is the mail of a broadcast. Use the routes of the broadcast, which has the same id.";
    if email.is_shared() { Err(Error::Conflict { message: message.into() }) } else { Ok(()) }
}

/// List emails
///
/// The mails of the workspace, newest first, without their contents.
#[utoipa::path(
    get, path = "/emails", tag = "Emails", operation_id = "list_emails",
    params(Newest),
    responses(
        (status = 200, description = "The mails, newest first.", body = List<Item>),
    ),
)]
async fn list(caller: Caller, Newest(page): Newest) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Summary::read(row)?.into()))
}

/// Read an email
///
/// With its contents, as long as they are kept, and with what became of it. The mail of a broadcast is shown as it was
/// written; under the id of the mail that one of its recipients got, as it is written for him: of what is known of the
/// contact now, unless it is still to be tried again.
#[utoipa::path(
    get, path = "/emails/{id}", tag = "Emails", operation_id = "read_email",
    params(PathId),
    responses(
        (status = 200, description = "The mail.", body = Detail),
    ),
)]
async fn read(caller: Caller, State(emails): State<Emails>, PathId(id): PathId<EmailId>) -> JsonResult<Detail> {
    let (email, lines, recipients) = match find_any(&caller, id).await? {
        Found::Own { email, recipient } => {
            let lines = Lines::of_one(&emails.db, email.summary.id, recipient.number).await?;
            (emails.own_mail(email, &recipient).await?, lines, vec![recipient])
        }
        Found::Mail(email) => {
            let rows = emails.db.read(store::first_recipients(email.summary.id, MOST_SHOWN)).await?;
            let recipients = rows.iter().map(Recipient::read).collect::<Result<_, _>>()?;
            let lines = Lines::find(&emails.db, &email).await?;
            (email, lines, recipients)
        }
    };
    let contents = (html_of(&emails.db, &email).await?, text_of(&emails.db, &email).await?);
    let recipients = recipients.into_iter().map(|recipient| lines.told(recipient, &emails.clock)).collect();
    Ok(Json(Detail::new(email, contents, recipients)))
}

/// When to send.
#[derive(Deserialize, ToSchema)]
#[schema(as = EmailChange)]
struct Change {
    /// Up to 30 days ahead: a time in ISO 8601 with its zone, or words such as `in 1 hour`.
    #[schema(example = "tomorrow at 9am")]
    scheduled_at: String,
}

/// Reschedule an email
///
/// Another time for a mail that is scheduled and not sent yet.
#[utoipa::path(
    patch, path = "/emails/{id}", tag = "Emails", operation_id = "reschedule_email",
    params(PathId),
    request_body = Change,
    responses(
        (status = 200, description = "It has its new time.", body = Reference),
        OfState,
    ),
)]
async fn reschedule(
    caller: Caller,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<Change>,
) -> JsonResult<Reference> {
    let scheduled_at = body.read()?.scheduled_at;
    move_to(&emails, &caller, id, &scheduled_at).await.map(|()| Json(Reference::to(id)))
}

/// Gives a scheduled mail another time.
pub async fn move_to(emails: &Emails, actor: &dyn Actor, id: EmailId, scheduled_at: &str) -> Result<(), Error> {
    let (now, steady) = (emails.clock.now(), emails.clock.steady());
    let at = schedule::parse(scheduled_at, now)
        .map_err(|flaw| Error::invalid(format!("The `scheduled_at` field {flaw}.")))?;
    let email = find(actor, id).await?;
    not_shared(&email)?;
    let too_late = |state: EmailState| {
        Error::invalid(format!("Only a scheduled email can be rescheduled; this one is `{}`.", state.as_str()))
    };
    if email.summary.state != EmailState::Scheduled {
        return Err(too_late(email.summary.state));
    }
    let times = (at, steady + at - now);
    let moved = |count| store::reschedule(actor.workspace_id(), id, count, times, now);
    match change(actor, id, moved).await? {
        true => Ok(()),
        false => Err(too_late(EmailState::Queued)),
    }
}

/// Cancel an email
///
/// Takes back a mail that is not on its way yet. One that was taken back stays so.
#[utoipa::path(
    post, path = "/emails/{id}/cancel", tag = "Emails", operation_id = "cancel_email",
    params(PathId),
    responses(
        (status = 200, description = "It will not be sent.", body = Reference),
        OfState,
    ),
)]
async fn cancel(caller: Caller, State(emails): State<Emails>, PathId(id): PathId<EmailId>) -> JsonResult<Reference> {
    take_back(&emails, &caller, id).await.map(|()| Json(Reference::to(id)))
}

/// Takes back a mail that is not on its way yet.
pub async fn take_back(emails: &Emails, actor: &dyn Actor, id: EmailId) -> Result<(), Error> {
    let email = find(actor, id).await?;
    not_shared(&email)?;
    let too_late = |word: &str| {
        Error::invalid(format!("Only an email that is not on its way can be canceled; this one is `{word}`."))
    };
    match email.summary.state {
        EmailState::Canceled => return Ok(()),
        EmailState::Scheduled | EmailState::Queued => {}
        state => return Err(too_late(state.as_str())),
    }
    let (now, event_id) = (emails.clock.now(), emails.clock.ordered_id());
    match change(actor, id, |count| store::cancel(actor.workspace_id(), id, count, now, event_id)).await? {
        true => Ok(()),
        // Somebody else may have taken it back at the same moment.
        false if find(actor, id).await?.summary.state == EmailState::Canceled => Ok(()),
        false => Err(too_late("being sent")),
    }
}

/// Changes a mail whose recipients are all as the batch expects; tells whether they were.
async fn change(caller: &dyn Actor, id: EmailId, batch: impl Fn(usize) -> Batch + Send + Sync) -> Result<bool, Error> {
    let count = caller.read(|| store::recipients(id)).await?.len();
    match caller.try_commit(|| batch(count)).await? {
        Ok(_) => Ok(true),
        Err(DbError::Unexpected { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// For how long.
#[derive(Deserialize, ToSchema)]
#[schema(as = EmailShare)]
struct Sharing {
    /// How long the link is good for, up to 48 hours: `10m`, `2 hours`, `1h 30m`.
    #[schema(example = "2 hours", default = "48 hours")]
    expires_in: Option<String>,
}

/// Share an email
///
/// Makes a link by which the mail can be read without a credential.
#[utoipa::path(
    post, path = "/emails/{id}/share", tag = "Emails", operation_id = "share_email",
    params(PathId),
    request_body = Option<Sharing>,
    responses(
        (status = 200, description = "The link.", body = Shared),
    ),
)]
async fn share(
    caller: Caller,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    body: Body<Sharing>,
) -> JsonResult<Shared> {
    let span = links::span(body.read()?.expires_in.as_deref())?;
    find(&caller, id).await?;
    Ok(Json(Shared { object: "email", id, url: links::share(&emails, id, span).await? }))
}

/// List an email's attachments
///
/// Each with a link to download it, which is good for an hour.
#[utoipa::path(
    get, path = "/emails/{id}/attachments", tag = "Emails", operation_id = "list_email_attachments",
    params(PathId, Page),
    responses(
        (status = 200, description = "The attachments.", body = List<File>),
    ),
)]
async fn list_attachments(
    caller: Caller,
    State(emails): State<Emails>,
    PathId(id): PathId<EmailId>,
    page: Page,
) -> JsonResult<List<File>> {
    let email = find(&caller, id).await?;
    let attachments = page.slice(kept(email), |attachment| attachment.id);
    let files = files(&emails, id, attachments).await?;
    Ok(Json(page.list(files)))
}

/// The attachments of a mail, newest first, as long as they are kept.
fn kept(email: Stored) -> Vec<Attachment> {
    match email.size {
        Some(_) => email.summary.envelope.attachments.into_iter().rev().collect(),
        None => Vec::new(),
    }
}

async fn files(emails: &Emails, email_id: EmailId, attachments: Vec<Attachment>) -> Result<Vec<File>, Error> {
    if attachments.is_empty() {
        return Ok(Vec::new());
    }
    let signer = Signer::new(emails).await?;
    let expires_at = emails.clock.now() + DOWNLOADS_FOR;
    let file = |attachment: Attachment| {
        let link = Link { email_id, part: Some(attachment.part), expires_at };
        File::new(attachment, link, (emails.addresses.base.as_str(), &signer))
    };
    Ok(attachments.into_iter().map(file).collect())
}

/// The ids of a mail and of one of its attachments.
struct AttachmentPath;

impl IntoParams for AttachmentPath {
    fn into_params(
        _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
    ) -> Vec<utoipa::openapi::path::Parameter> {
        vec![id_in_path("id", "The email's id."), id_in_path("attachment_id", "The attachment's id.")]
    }
}

/// Read an email's attachment
///
/// With a link to download it, which is good for an hour.
#[utoipa::path(
    get, path = "/emails/{id}/attachments/{attachment_id}", tag = "Emails", operation_id = "read_email_attachment",
    params(AttachmentPath),
    responses(
        (status = 200, description = "The attachment.", body = File),
    ),
)]
async fn read_attachment(
    caller: Caller,
    State(emails): State<Emails>,
    Path((id, attachment_id)): Path<(String, String)>,
) -> JsonResult<File> {
    let wrong = || Error::InvalidParameter { message: "Both ids in the path must be UUIDs.".into() };
    let id: EmailId = id.parse().map_err(|_| wrong())?;
    let attachment_id: AttachmentId = attachment_id.parse().map_err(|_| wrong())?;
    let attachments = kept(find(&caller, id).await?);
    let found = attachments.into_iter().filter(|attachment| attachment.id == attachment_id).collect();
    let missing = || Error::not_found("Attachment not found. `GET /emails/{id}/attachments` lists those there are.");
    let file = files(&emails, id, found).await?.into_iter().next().ok_or_else(missing)?;
    Ok(Json(file.alone()))
}
