//! Mails on their way into one commit: with the idempotency key that they came under, and with what
//! is told of them.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::draft::Draft;
use super::sender::{line, may_send};
use super::templated::filled;
use super::{Emails, NewEmail, Origin, insert_tracked, store, tags};
use crate::auth::{Actor, Principal};
use crate::clock::{Clock, rfc3339};
use crate::contacts;
use crate::db::{Batch, DbError, Stmt};
use crate::domains::{Domains, Sender};
use crate::error::Error;
use crate::id::{EmailId, Id, WorkspaceId};
use crate::mime::Mailbox;
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, Occurrences, SystemEvent};
use crate::web::{self, Answer, Body, Fingerprint, IdempotentRequest};
use crate::webhooks::EventType;

/// A mail that is ready to be queued.
pub struct Ready {
    pub id: EmailId,
    pub email: NewEmail,
    pub sender: Arc<Sender>,
}

/// Queues mails, all or none, and answers.
pub async fn commit(
    emails: &Emails,
    caller: &Principal,
    request: &IdempotentRequest<'_>,
    mut answer: Answer,
    mails: &mut [Ready],
) -> Result<Response, Error> {
    for attempt in 0..ATTEMPTS {
        match commit_once(emails, caller, request, answer, mails, attempt).await? {
            Ok(answered) => return Ok(answered),
            Err(stale) => answer = stale,
        }
        mails.iter().for_each(|mail| mail.forget_sender(emails));
        for mail in &mut *mails {
            mail.sender = may_send(emails, caller, &mail.email).await?;
        }
    }
    Err(Error::Unavailable)
}

impl Ready {
    /// Who may send as whom has changed, or may have.
    pub fn forget_sender(&self, emails: &Emails) {
        emails.domains.forget_sender(self.email.workspace_id, self.email.from.address.ascii_domain());
    }
}

/// The same, once; the answer comes back where what the mails were prepared under has changed.
pub async fn commit_once(
    emails: &Emails,
    caller: &Principal,
    request: &IdempotentRequest<'_>,
    answer: Answer,
    mails: &[Ready],
    attempt: usize,
) -> Result<Result<Response, Answer>, Error> {
    let workspace_id = caller.workspace_id();
    let listeners = emails.listeners_for(workspace_id, attempt).await?;
    let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &emails.clock, emails.clock.now());
    let mut taken = Batch::new();
    request.take(&answer, &mut taken);
    occurrences.batch.append(taken);
    add(&mut occurrences.batch, &emails.clock, mails);
    tell_queued(&mut occurrences, mails);
    let (batch, follow_up) = occurrences.follow_up();
    let settled = caller.commit_once(batch).await?;
    match &settled {
        Err(DbError::Stale) => {
            emails.forget_listeners(workspace_id);
            return Ok(Err(answer));
        }
        Ok(effects) => {
            emails.wake_workers_if(follow_up.is_urgent(effects));
            emails.wake_mail();
        }
        Err(_) => {}
    }
    Ok(Ok(request.settle(settled, answer).await??))
}

/// A form with which a person sends a mail.
pub struct MailForm {
    /// The id that the mail gets: sent twice, it is one mail.
    pub id: EmailId,
    /// What tells it from one in which something was changed.
    pub fingerprint: [u8; 32],
}

impl MailForm {
    pub fn new(id: EmailId, fields: &Map<String, Value>) -> MailForm {
        let mut digest = Sha256::new();
        fields.write(&mut digest);
        MailForm { id, fingerprint: digest.finalize().into() }
    }

    /// Refuses what was changed after it was sent.
    async fn must_be_same(&self, actor: &dyn Actor) -> Result<(), Error> {
        let rows = actor.read(|| web::taken_form(actor.workspace_id(), self.id.uuid())).await?;
        match rows.first() {
            Some(row) if row.bytes(0)? == self.fingerprint => Ok(()),
            Some(_) => Err(already_sent("This mail was sent already, as it was before; what is changed here was not.")),
            // What stood in it is forgotten by now.
            None => Err(already_sent("This mail was sent already.")),
        }
    }
}

fn already_sent(told: &str) -> Error {
    Error::Conflict { message: format!("{told} To send what stands here as a new mail, send the form once more.") }
}

/// Queues the mail of a person's form.
pub async fn send(
    of: (&Occurrences, &Domains),
    actor: &dyn Actor,
    form: &MailForm,
    email: NewEmail,
) -> Result<(), Error> {
    send_stored(of, actor, form, email, None).await.map(drop)
}

/// The same, of a mail whose long contents are in the store under an id of their own: it takes over all of them, or
/// nothing happens. Tells whether it did; else it was queued before.
pub async fn send_stored(
    (occurrences, domains): (&Occurrences, &Domains),
    actor: &dyn Actor,
    form: &MailForm,
    email: NewEmail,
    stored_as: Option<EmailId>,
) -> Result<bool, Error> {
    let id = form.id;
    let (workspace_id, domain) = (actor.workspace_id(), email.from.address.ascii_domain().to_owned());
    let sender = domains.may_send(workspace_id, actor.domain_id(), &domain).await?;
    let mut mail = Ready { id, email, sender };
    for attempt in 0..ATTEMPTS {
        let listeners = occurrences.listeners_for(workspace_id, attempt).await?;
        let mut told = OccurrenceBatch::new(workspace_id, &listeners, &occurrences.clock, occurrences.clock.now());
        add(&mut told.batch, &occurrences.clock, std::slice::from_ref(&mail));
        if let Some(stored_as) = stored_as {
            told.batch.push(store::take_over(stored_as, id).expect(mail.email.pieces()));
        }
        let now = occurrences.clock.steady();
        told.batch.push(web::take_form(workspace_id, id.uuid(), &form.fingerprint, now));
        tell_queued(&mut told, std::slice::from_ref(&mail));
        let (batch, follow_up) = told.follow_up();
        match actor.commit_once(batch).await? {
            Ok(effects) => {
                occurrences.wake_workers_if(follow_up.is_urgent(&effects));
                occurrences.wake_mail();
                return Ok(true);
            }
            Err(DbError::Duplicate(_)) => return form.must_be_same(actor).await.map(|()| false),
            // Its pieces were swept away: it took them more than an hour to come.
            Err(DbError::Unexpected { .. }) if stored_as.is_some() => return Err(Error::Unavailable),
            Err(DbError::Stale) => {
                occurrences.forget_listeners(workspace_id);
                domains.forget_sender(workspace_id, &domain);
                mail.sender = domains.may_send(workspace_id, actor.domain_id(), &domain).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}

/// Queues a mail that an operator hands in, who needs no key. `fields` are those of `POST /emails`.
pub async fn hand_in(emails: &Emails, workspace_id: WorkspaceId, fields: Map<String, Value>) -> Result<EmailId, Error> {
    let of = (workspace_id, emails.clock.ordered_id());
    let (fields, template_id) = filled(emails, of, Body::new(fields)).await?;
    let Draft { id, email, .. } = Draft::new(emails, of, fields.read()?)?.made_of(template_id);
    queue(emails, (id, NewEmail { origin: Origin::Command, ..email }), None).await?.ok_or(Error::Internal)
}

/// Queues a mail that no caller hands in, if a statement finds what it expects; `None` where it
/// does not.
pub async fn queue(
    emails: &Emails,
    (id, email): (EmailId, NewEmail),
    condition: Option<Stmt>,
) -> Result<Option<EmailId>, Error> {
    let (workspace_id, domain) = (email.workspace_id, email.from.address.ascii_domain().to_owned());
    let sender = emails.domains.may_send(workspace_id, None, &domain).await?;
    let mut mail = Ready { id, email, sender };
    for attempt in 0..ATTEMPTS {
        let listeners = emails.listeners_for(workspace_id, attempt).await?;
        let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &emails.clock, emails.clock.now());
        condition.iter().for_each(|condition| occurrences.batch.push(condition.clone()));
        add(&mut occurrences.batch, &emails.clock, std::slice::from_ref(&mail));
        tell_queued(&mut occurrences, std::slice::from_ref(&mail));
        let (batch, follow_up) = occurrences.follow_up();
        match emails.db.commit(batch).await {
            Ok(effects) => {
                emails.wake_workers_if(follow_up.is_urgent(&effects));
                emails.wake_mail();
                return Ok(Some(id));
            }
            Err(DbError::Unexpected { statement: 0 }) if condition.is_some() => return Ok(None),
            Err(DbError::Stale) => {
                emails.forget_listeners(workspace_id);
                mail.forget_sender(emails);
                mail.sender = emails.domains.may_send(workspace_id, None, &domain).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}

/// Refuses a sender that nobody in the workspace may send as.
pub async fn check_sender(emails: &Emails, workspace_id: WorkspaceId, from: &Mailbox) -> Result<(), Error> {
    emails.domains.may_send(workspace_id, None, from.address.ascii_domain()).await.map(drop)
}

/// Adds mails to a commit, which is refused as stale where they may not be sent any more.
pub fn add(batch: &mut Batch, clock: &Clock, mails: &[Ready]) {
    let mut before: Option<&Arc<Sender>> = None;
    let mut inserts = Batch::new();
    for mail in mails {
        // What is asked of one domain is asked once.
        if before.is_none_or(|before| !Arc::ptr_eq(before, &mail.sender)) {
            batch.guard(mail.sender.guard());
            before = Some(&mail.sender);
        }
        let (tracking, line) = (mail.sender.tracking.as_ref(), |recipient: &_| line(&mail.sender, recipient));
        inserts.append(insert_tracked(&mail.email, mail.id, clock, tracking, line));
    }
    batch.append(inserts.alike_together());
}

/// Tells contacts that mail for them is queued, where somebody listens. What is scheduled is queued
/// later.
pub fn tell_queued(occurrences: &mut OccurrenceBatch<'_>, mails: &[Ready]) {
    for mail in mails.iter().filter(|mail| mail.email.scheduled_at.is_some()) {
        let now = occurrences.now();
        occurrences.publish(EventType::EmailScheduled, || scheduled_data(mail, now));
    }
    if !occurrences.is_heard(SystemEvent::EMAIL_QUEUED) {
        return;
    }
    let mut told: Vec<(String, Value)> = Vec::new();
    for Ready { id, email, .. } in mails.iter().filter(|mail| mail.email.scheduled_at.is_none()) {
        let (message_id, from) = (email.message_id(*id), email.from.to_string());
        let now = occurrences.now();
        told.extend(email.recipients().iter().map(|to| {
            let to = to.address.as_str();
            (contacts::email_key(to), queued_payload(*id, &message_id, (&from, to), &email.subject, now))
        }));
    }
    // Two that lock the same contacts must not wait for each other.
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (key, payload) in told {
        contacts::tell_by_email(occurrences, SystemEvent::EMAIL_QUEUED, &key, &payload);
    }
}

/// What webhooks are told of a mail that is scheduled.
fn scheduled_data(Ready { id, email, .. }: &Ready, now: i64) -> Value {
    let to: Vec<String> = email.to.iter().map(Mailbox::to_string).collect();
    let mut data = json!({
        "email_id": id,
        "message_id": email.message_id(*id),
        "from": email.from.to_string(),
        "to": to,
        "subject": email.subject,
        "created_at": rfc3339(now),
        "scheduled_at": email.scheduled_at.map(rfc3339),
        "tags": tags(&email.tags),
    });
    if let Some(template_id) = email.template_id {
        data["template_id"] = json!(template_id);
    }
    data
}

/// What is told of a mail to one of its recipients when it is queued. There may be many: nothing
/// that grows with their number is in it.
pub fn queued_payload(
    id: EmailId,
    message_id: &str,
    (from, to): (&str, &str),
    subject: &str,
    created_at: i64,
) -> Value {
    json!({
        "email_id": id,
        "message_id": message_id,
        "from": from,
        "to": to,
        "subject": subject,
        "created_at": rfc3339(created_at),
    })
}
