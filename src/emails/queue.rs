//! Mails on their way into one commit: with the idempotency key that they came under, and with what
//! is told of them.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};

use super::sender::{line, may_send};
use super::{Emails, NewEmail, insert, message_id};
use crate::auth::{Caller, Need};
use crate::clock::rfc3339;
use crate::contacts;
use crate::db::{Batch, DbError};
use crate::domains::Sender;
use crate::error::Error;
use crate::id::EmailId;
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, SystemEvent};
use crate::web::{Answer, IdempotentRequest};

/// A mail that is ready to be queued.
pub struct Ready {
    pub id: EmailId,
    pub email: NewEmail,
    pub sender: Arc<Sender>,
}

/// Queues mails, all or none, and answers.
pub async fn commit<N: Need>(
    emails: &Emails,
    caller: &Caller<N>,
    request: &IdempotentRequest<'_, N>,
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
pub async fn commit_once<N: Need>(
    emails: &Emails,
    caller: &Caller<N>,
    request: &IdempotentRequest<'_, N>,
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
    let mut before: Option<&Arc<Sender>> = None;
    for mail in mails {
        // What is asked of one domain is asked once.
        if before.is_none_or(|before| !Arc::ptr_eq(before, &mail.sender)) {
            occurrences.batch.guard(mail.sender.guard());
            before = Some(&mail.sender);
        }
        let line = |recipient: &_| line(&mail.sender, recipient);
        occurrences.batch.append(insert(&mail.email, mail.id, &emails.clock, line));
    }
    if occurrences.is_heard(SystemEvent::EMAIL_QUEUED) {
        tell(&mut occurrences, mails);
    }
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

/// Tells of mails to contacts. What is scheduled is queued later.
fn tell(occurrences: &mut OccurrenceBatch<'_>, mails: &[Ready]) {
    let mut told: Vec<(String, Value)> = Vec::new();
    for mail in mails.iter().filter(|mail| mail.email.scheduled_at.is_none()) {
        let now = occurrences.now();
        let recipients = mail.email.recipients();
        let written = recipients.iter().map(|to| to.address.as_str());
        told.extend(written.map(|to| (contacts::email_key(to), payload(mail, to, now))));
    }
    // Two that lock the same contacts must not wait for each other.
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (key, payload) in told {
        contacts::tell_by_email(occurrences, SystemEvent::EMAIL_QUEUED, &key, &payload);
    }
}

/// What events say of a mail to one of its recipients. There may be many: nothing that grows with
/// their number is in it.
fn payload(mail: &Ready, to: &str, now: i64) -> Value {
    let Ready { id, email, .. } = mail;
    json!({
        "email_id": id,
        "message_id": message_id(*id, &email.from.address),
        "from": email.from.to_string(),
        "to": to,
        "subject": email.subject,
        "created_at": rfc3339(now),
    })
}
