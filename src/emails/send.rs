//! Mails are handed in: one, or many at once.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use sha2::{Digest, Sha256};

use super::body::EmailToSend;
use super::contents::Pieces;
use super::draft::{self, Draft};
use super::email::{Content, NewAttachment};
use super::queue::{self, Ready};
use super::retention::forget_lost;
use super::sender::may_send;
use super::shapes::{Refused, Sent, SentMany};
use super::templated::{filled, names_template};
use super::{Emails, contents};
use crate::auth::{Actor, Caller, Principal, SendMany, SendOnly};
use crate::domains::Sender;
use crate::error::{Envelope, Error};
use crate::id::{EmailId, WorkspaceId};
use crate::occurrences::ATTEMPTS;
use crate::topics;
use crate::web::{Answer, Body, Fingerprint, Idempotency, IdempotentRequest, LIGHT, LongBody, LongValues, Many};

/// How many mails one request may hand in.
const MOST: usize = 100;

/// Send an email
///
/// The mail is queued when the answer comes, and is then sent or, where it is scheduled, kept until its time; `GET
/// /emails/{id}` tells what became of it. With an `Idempotency-Key`, sending again changes nothing and gets the same
/// answer for 24 hours.
#[utoipa::path(
    post, path = "/emails", tag = "Emails", operation_id = "send_email",
    request_body = EmailToSend,
    responses(
        (status = 200, description = "It is queued.", body = Sent, links(
            ("read" = (operation_id = "read_email", parameters(("id" = "$response.body#/id")))),
        )),
        (status = 404, description = "The workspace has no such template.", body = Envelope),
        (status = 429, description = "Many attachments of the workspace are being fetched from their `path` already. \
            Try again after `Retry-After` seconds.", body = Envelope),
    ),
    params(Idempotency),
    security(("api_key" = []), ("oauth" = ["emails:send"])),
)]
pub async fn send(
    caller: Caller<SendOnly>,
    State(emails): State<Emails>,
    key: Idempotency,
    LongBody { body, values }: LongBody<EmailToSend>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &emails, &body);
    let of = (caller.workspace_id(), emails.clock.ordered_id());
    let filled = match names_template(&body) {
        true => Box::pin(filled(&emails, of, body)).await,
        false => Ok((body, None)),
    };
    let drafted =
        filled.and_then(|(body, template_id)| Ok(Draft::new(&emails, of, draft::read(body)?)?.made_of(template_id)));
    let draft = match drafted {
        Ok(draft) => draft,
        // What is refused now may have been accepted before: its time may have passed since.
        Err(refusal) => return request.run(async { Err(refusal) }).await,
    };
    if draft.pending.is_empty() && draft.email.size() <= LIGHT as u64 {
        return request.run(accept(&emails, &caller, &request, draft)).await;
    }
    // Apart, because few take this way, and every request would hold room for it.
    let large = Box::pin(async {
        // A mail that was stored before is not stored again, only to be thrown away.
        match request.find().await? {
            Some(answer) => Ok(answer),
            None => request.run(accept_large(&emails, &caller, &request, draft, values.as_ref())).await,
        }
    });
    large.await
}

pub async fn accept(
    emails: &Emails,
    caller: &Principal,
    request: &IdempotentRequest<'_>,
    draft: Draft,
) -> Result<Response, Error> {
    let mut ready = ready(emails, caller, draft).await?;
    let answer = Answer::json(StatusCode::OK, &Sent { id: ready.id })?;
    queue::commit(emails, caller, request, answer, std::slice::from_mut(&mut ready)).await
}

/// The same, of a mail whose contents go into the store before it does.
async fn accept_large(
    emails: &Emails,
    caller: &Caller<SendOnly>,
    request: &IdempotentRequest<'_>,
    mut draft: Draft,
    values: Option<&Arc<LongValues>>,
) -> Result<Response, Error> {
    let id = draft.id;
    let sender = allowed(emails, caller, &draft).await?;
    let accepting = async {
        Box::pin(contents::store(emails, caller, id, &mut draft, values)).await?;
        let mut ready = Ready { id, email: draft.email, sender };
        let answer = Answer::json(StatusCode::OK, &Sent { id })?;
        let _turn = emails.admission.write().await?;
        queue::commit(emails, caller, request, answer, std::slice::from_mut(&mut ready)).await
    };
    let accepted = accepting.await;
    if accepted.as_ref().is_err_and(|refusal| refusal.status().is_client_error()) {
        forget_refused(emails, id).await;
    }
    accepted
}

/// Forgets the pieces of a mail that was refused. Where the store has failed, what it may still do with the mail is
/// not known: its pieces are swept later.
pub async fn forget_refused(emails: &Emails, id: EmailId) {
    if let Err(error) = emails.db.commit(forget_lost(id)).await {
        tracing::info!(%error, "pieces of a mail that was refused are left for later");
    }
}

/// A file that goes with a mail and is in the store already.
pub struct StoredFile {
    pub filename: Option<String>,
    pub content_type: String,
    pub content_id: Option<String>,
    pub content: Pieces,
}

/// Sends a mail that was put together of one that is there, with its files. `body` has the fields of `POST /emails`
/// but for attachments.
pub async fn send_with_files(
    emails: &Emails,
    caller: &Principal,
    request: &IdempotentRequest<'_>,
    body: Body<EmailToSend>,
    files: Vec<StoredFile>,
) -> Result<Response, Error> {
    let of = (caller.workspace_id(), emails.clock.ordered_id());
    let mut draft = Draft::new(emails, of, draft::read(body)?)?;
    if files.is_empty() {
        return request.run(accept(emails, caller, request, draft)).await;
    }
    emails.admission.admit().await?;
    if let Some(answer) = request.find().await? {
        return Ok(answer);
    }
    let (id, sender) = (draft.id, allowed(emails, caller, &draft).await?);
    let accepting = async {
        attach(emails, caller, id, &mut draft, files).await?;
        let mut ready = Ready { id, email: draft.email, sender };
        let answer = Answer::json(StatusCode::OK, &Sent { id })?;
        let _turn = emails.admission.write().await?;
        queue::commit(emails, caller, request, answer, std::slice::from_mut(&mut ready)).await
    };
    let accepted = request.run(accepting).await;
    if accepted.as_ref().is_err_and(|refusal| refusal.status().is_client_error()) {
        forget_refused(emails, id).await;
    }
    accepted
}

/// Brings files into the store that go with a mail.
pub async fn attach(
    emails: &Emails,
    actor: &dyn Actor,
    id: EmailId,
    draft: &mut Draft,
    files: Vec<StoredFile>,
) -> Result<(), Error> {
    let mut contents = Vec::with_capacity(files.len());
    for StoredFile { filename, content_type, content_id, content } in files {
        let (id, stored) = (emails.clock.ordered_id(), Content::Stored { size: 0 });
        draft.email.attachments.push(NewAttachment { id, filename, content_type, content_id, content: stored });
        contents.push(content);
    }
    Box::pin(contents::store_pieces(emails, actor, id, draft, contents)).await
}

async fn ready(emails: &Emails, caller: &Principal, draft: Draft) -> Result<Ready, Error> {
    let sender = allowed(emails, caller, &draft).await?;
    Ok(Ready { id: draft.id, email: draft.email, sender })
}

/// What holds for mail like this, if the caller may send it.
pub async fn allowed(emails: &Emails, caller: &dyn Actor, draft: &Draft) -> Result<Arc<Sender>, Error> {
    if let Some(topic_id) = draft.email.topic_id {
        topics::must_exist(caller, topic_id).await?;
    }
    may_send(emails, caller, &draft.email).await
}

/// What is done where some of many mails cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// None is.
    Strict,
    /// The others are.
    Permissive,
}

const VALIDATION: &str = "x-batch-validation";

impl<S: Sync> FromRequestParts<S> for Validation {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Validation, Error> {
        match parts.headers.get(VALIDATION).map(http::HeaderValue::as_bytes) {
            None | Some(b"strict") => Ok(Validation::Strict),
            Some(b"permissive") => Ok(Validation::Permissive),
            Some(_) => {
                let message = format!("The header `{VALIDATION}` must be `strict` or `permissive`.");
                Err(Error::BadRequest { message })
            }
        }
    }
}

/// Send many emails
///
/// Up to 100 mails in an array, each as in `POST /emails`, but without `attachments` and `scheduled_at`. All of them
/// are queued in one commit, or none: where one is refused, the message names its place. With `x-batch-validation:
/// permissive`, those that can be sent are queued, and the answer tells of the others.
#[utoipa::path(
    post, path = "/emails/batch", tag = "Emails", operation_id = "send_emails",
    request_body = Vec<EmailToSend>,
    responses(
        (status = 200, description = "They are queued.", body = SentMany),
        (status = 404, description = "The workspace has no template that one of them names.", body = Envelope),
    ),
    params(
        Idempotency,
        ("x-batch-validation" = Option<String>, Header, description = "`strict`, or `permissive`."),
    ),
)]
pub async fn send_many(
    caller: Caller<SendMany>,
    State(emails): State<Emails>,
    key: Idempotency,
    validation: Validation,
    many: Many,
) -> Result<Response, Error> {
    if many.count == 0 || many.count > MOST {
        return Err(Error::invalid(format!("Send 1 to {MOST} emails at once, not {}.", many.count)));
    }
    let (reading, workspace_id, is_large) = (emails.clone(), caller.workspace_id(), many.is_large);
    let mut digest = key.digest();
    let read = move || {
        let drafts: Vec<Result<OneOfMany, Error>> =
            many.places().map(|at| one_of_many(&reading, workspace_id, &many, at, &mut digest)).collect();
        (drafts, digest)
    };
    let (drafts, digest) = if is_large { emails.admission.build(read).await? } else { read() };
    let request = key.request(&caller, &emails, &digest);
    request.run(accept_many(&emails, &caller, &request, validation, drafts)).await
}

/// A mail of a batch, as far as it can be read without the store.
enum OneOfMany {
    Draft(Box<Draft>),
    Templated(Body<EmailToSend>),
}

fn one_of_many(
    emails: &Emails,
    workspace_id: WorkspaceId,
    many: &Many,
    at: usize,
    digest: &mut Option<Sha256>,
) -> Result<OneOfMany, Error> {
    let body: Result<Body<EmailToSend>, Error> = many.body(at);
    if let Some(digest) = digest {
        body.iter().for_each(|body| body.write(digest));
        // No JSON holds this byte: one thing cannot be taken for two.
        digest.update([0]);
    }
    let body = body?;
    let has = |name: &str| body.fields().get(name).is_some_and(|value| !value.is_null());
    for name in ["attachments", "scheduled_at"] {
        if has(name) {
            let message = format!("The `{name}` field is not supported in a batch. Send this mail by `POST /emails`.");
            return Err(Error::invalid(message));
        }
    }
    if names_template(&body) {
        return Ok(OneOfMany::Templated(body));
    }
    let draft = Draft::new(emails, (workspace_id, emails.clock.ordered_id()), draft::read(body)?)?;
    match draft.pending.is_empty() {
        true => Ok(OneOfMany::Draft(Box::new(draft))),
        false => Err(Error::invalid("The `html` or `text` field must be a string, but is an array.")),
    }
}

async fn accept_many(
    emails: &Emails,
    caller: &Principal,
    request: &IdempotentRequest<'_>,
    validation: Validation,
    drafts: Vec<Result<OneOfMany, Error>>,
) -> Result<Response, Error> {
    let mut many =
        Sorted { validation, mails: Vec::with_capacity(drafts.len()), places: Vec::new(), refused: Vec::new() };
    for (index, draft) in drafts.into_iter().enumerate() {
        let one = async {
            let draft = match draft? {
                OneOfMany::Draft(draft) => *draft,
                OneOfMany::Templated(body) => {
                    let of = (caller.workspace_id(), emails.clock.ordered_id());
                    let (body, template_id) = Box::pin(filled(emails, of, body)).await?;
                    Draft::new(emails, of, draft::read(body)?)?.made_of(template_id)
                }
            };
            ready(emails, caller, draft).await
        };
        let one = one.await;
        many.sort(index, one)?;
    }
    // Whoever commits next to something large waits for it.
    let _turn = match many.mails.iter().map(|mail| mail.email.size()).sum::<u64>() > LIGHT as u64 {
        true => Some(emails.admission.write().await?),
        false => None,
    };
    for attempt in 0..ATTEMPTS {
        match queue::commit_once(emails, caller, request, many.answer()?, &many.mails, attempt).await? {
            Ok(answered) => return Ok(answered),
            Err(_) => many = many.ask_again(emails, caller).await?,
        }
    }
    Err(Error::Unavailable)
}

/// Many mails, those that can be sent and those that are refused.
struct Sorted {
    validation: Validation,
    mails: Vec<Ready>,
    /// Where each of the mails stood.
    places: Vec<usize>,
    refused: Vec<Refused>,
}

impl Sorted {
    fn sort(&mut self, index: usize, one: Result<Ready, Error>) -> Result<(), Error> {
        match one {
            Ok(mail) => {
                self.mails.push(mail);
                self.places.push(index);
            }
            Err(refusal) if !refusal.status().is_client_error() => return Err(refusal),
            Err(refusal) if self.validation == Validation::Strict => {
                return Err(refusal.about(&format!("Email {index}: ")));
            }
            Err(refusal) => self.refused.push(Refused { index, message: refusal.message().into_owned() }),
        }
        Ok(())
    }

    /// The same, where who may send as whom has changed meanwhile.
    async fn ask_again(self, emails: &Emails, caller: &Principal) -> Result<Sorted, Error> {
        let Sorted { validation, mails, places, refused } = self;
        let mut again = Sorted { validation, mails: Vec::with_capacity(mails.len()), places: Vec::new(), refused };
        mails.iter().for_each(|mail| mail.forget_sender(emails));
        for (mail, index) in mails.into_iter().zip(places) {
            let asked = may_send(emails, caller, &mail.email).await;
            again.sort(index, asked.map(|sender| Ready { sender, ..mail }))?;
        }
        again.refused.sort_by_key(|refused| refused.index);
        Ok(again)
    }

    fn answer(&self) -> Result<Answer, Error> {
        let data = self.mails.iter().map(|mail| Sent { id: mail.id }).collect();
        let errors = (self.validation == Validation::Permissive).then(|| self.refused.clone());
        Answer::json(StatusCode::OK, &SentMany { data, errors })
    }
}
