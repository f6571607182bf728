//! Mails on their way into one commit: with the idempotency key that they came under, and with what
//! is told of them.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};

use super::sender::{line, may_send};
use super::{Emails, NewEmail, insert};
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
    answer: Answer,
    mails: &mut [Ready],
) -> Result<Response, Error> {
    let workspace_id = caller.workspace_id();
    for attempt in 0..ATTEMPTS {
        let listeners = emails.listeners_for(workspace_id, attempt).await?;
        let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &emails.clock, emails.clock.now());
        let mut taken = Batch::new();
        request.take(&answer, &mut taken);
        occurrences.batch.append(taken);
        let mut before: Option<&Arc<Sender>> = None;
        for mail in &*mails {
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
        match caller.commit_once(batch).await? {
            Err(DbError::Stale) => {
                emails.forget_listeners(workspace_id);
                for mail in &mut *mails {
                    emails.domains.forget_sender(workspace_id, mail.email.from.address.ascii_domain());
                    mail.sender = may_send(emails, caller, &mail.email).await?;
                }
            }
            settled => {
                if let Ok(effects) = &settled {
                    emails.wake_workers_if(follow_up.is_urgent(effects));
                    emails.wake_mail();
                }
                return Ok(request.settle(settled, answer).await??);
            }
        }
    }
    Err(Error::Unavailable)
}

/// Tells of mails to contacts. What is scheduled is queued later.
fn tell(occurrences: &mut OccurrenceBatch<'_>, mails: &[Ready]) {
    let mut told: Vec<(String, Value)> = Vec::new();
    for mail in mails.iter().filter(|mail| mail.email.scheduled_at.is_none()) {
        let now = occurrences.now();
        told.extend(
            mail.email.recipients().iter().map(|to| (to.address.key(), payload(mail, to.address.as_str(), now))),
        );
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
        "message_id": email.message_id(*id),
        "from": email.from.to_string(),
        "to": to,
        "subject": email.subject,
        "created_at": rfc3339(now),
    })
}
