//! Messages that steps kept while there were no templates. They are sent when their template is published; what has
//! waited for more than a day only if a person still wants it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Engine;
use crate::automations::graph::TemplatedMail;
use crate::automations::runs::HELD_AFTER;
use crate::clock::MINUTE;
use crate::db::{DbError, Sql, from_row, statements};
use crate::emails::{self, Origin, Ready};
use crate::error::Error;
use crate::hold;
use crate::id::{MessageId, RunId, WorkspaceId};
use crate::occurrences::OccurrenceBatch;
use crate::work::{Next, Tasks, Worker};

/// How many are looked at at once.
const PAGE: i64 = 100;

statements! {
    functions {
        fn waiting(after: MessageId, since: i64) with [after, since, PAGE] = Sql::both(
            "SELECT o.id, o.workspace_id, o.run_id, o.step, o.message, c.email, c.first_name, c.last_name, c.unsubscribed
             FROM outbox o LEFT JOIN contacts c ON c.workspace_id = o.workspace_id AND c.id = o.contact_id
             WHERE o.id > $1 AND o.dropped_at IS NULL AND (o.created_at > $2 OR o.wanted_at IS NOT NULL)
             ORDER BY o.id LIMIT $3");
        fn take(id: MessageId) expects 1 = Sql::both("DELETE FROM outbox WHERE id = $1 AND dropped_at IS NULL");
        fn drop_message(id: MessageId, now: i64, reason: &str) = Sql::both(
            "UPDATE outbox SET dropped_at = $2, reason = $3 WHERE id = $1 AND dropped_at IS NULL");
    }
}

struct Waiting {
    id: MessageId,
    workspace_id: WorkspaceId,
    run_id: RunId,
    step: String,
    message: String,
    email: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
    unsubscribed: Option<bool>,
}

from_row!(Waiting { id, workspace_id, run_id, step, message, email, first_name, last_name, unsubscribed });

/// Looks at them once a minute: no new ones come.
pub(super) struct Kept {
    engine: Arc<Engine>,
    next: i64,
}

impl Kept {
    pub fn new(engine: Arc<Engine>) -> Kept {
        Kept { engine, next: i64::MIN }
    }
}

impl Worker for Kept {
    const NAME: &'static str = "kept messages";

    async fn round(&mut self, _: &mut Tasks) -> Result<Next, DbError> {
        let now = self.engine.app.clock.steady();
        if now >= self.next {
            self.engine.send_kept().await?;
            self.next = now + MINUTE;
        }
        Ok(Next::Due(Some(self.next)))
    }
}

impl Engine {
    /// Sends what waits and can be sent now. Tells how many that were.
    pub async fn send_kept(&self) -> Result<usize, DbError> {
        let (mut sent, mut after) = (0, MessageId::from(uuid::Uuid::nil()));
        loop {
            let rows = self.app.db.read(waiting(after, self.app.clock.now() - HELD_AFTER)).await?;
            for row in &rows {
                let message = Waiting::read(row)?;
                after = message.id;
                sent += usize::from(self.send_one(&message).await?);
            }
            if rows.len() < PAGE as usize {
                return Ok(sent);
            }
        }
    }

    async fn send_one(&self, message: &Waiting) -> Result<bool, DbError> {
        let reason = match (&message.email, message.unsubscribed) {
            (None, _) => Some("the contact was deleted"),
            (_, Some(true)) => Some("the contact has unsubscribed"),
            _ => None,
        };
        if let Some(reason) = reason {
            return self.drop_kept(message, reason).await;
        }
        let config: Value = serde_json::from_str(&message.message).unwrap_or_default();
        let contact = json!({
            "email": message.email, "first_name": message.first_name, "last_name": message.last_name, "properties": {},
        });
        let templated = TemplatedMail::new(config, &contact, None);
        // It goes on waiting for a template that nobody has published yet.
        if self.templates.published(message.workspace_id, templated.named()).await?.is_err() {
            return Ok(false);
        }
        let id = self.app.clock.ordered_id();
        let mail = match self.made_of_template((message.workspace_id, id), &templated).await? {
            Ok(mail) => mail,
            Err(reason) => return self.drop_kept(message, &reason).await,
        };
        let domain = mail.from.address.ascii_domain().to_owned();
        let sender = match self.domains.may_send(message.workspace_id, None, &domain).await {
            Ok(sender) => sender,
            Err(Error::DomainRefused { message: reason }) => return self.drop_kept(message, &reason).await,
            Err(other) => return Err(DbError::Unavailable(other.message().into_owned())),
        };
        let of_step = (message.run_id, message.step.as_str());
        let email = self.email_of_step(message.workspace_id, of_step, Origin::Automation, mail);
        self.queue_kept(message, Ready { id, email, sender }).await
    }

    /// Takes the message out of the outbox and queues its mail, in one commit.
    async fn queue_kept(&self, message: &Waiting, mail: Ready) -> Result<bool, DbError> {
        let listeners = self.app.listeners(message.workspace_id).await?;
        let mut occurrences =
            OccurrenceBatch::new(message.workspace_id, &listeners, &self.app.clock, self.app.clock.now());
        occurrences.batch.push(take(message.id));
        occurrences.batch.guard(hold::absent());
        emails::add(&mut occurrences.batch, &self.app.clock, std::slice::from_ref(&mail));
        emails::tell_queued(&mut occurrences, std::slice::from_ref(&mail));
        let (batch, follow_up) = occurrences.follow_up();
        match self.app.db.commit(batch).await {
            Ok(effects) => {
                self.app.wake_workers_if(follow_up.is_urgent(&effects));
                self.app.wake_mail();
                Ok(true)
            }
            // Another process, or a person, was first.
            Err(DbError::Unexpected { .. }) => Ok(false),
            Err(DbError::Stale) => {
                self.app.forget_listeners(message.workspace_id);
                self.forget_senders(std::slice::from_ref(&mail));
                Err(DbError::Stale)
            }
            Err(error) => Err(error),
        }
    }

    async fn drop_kept(&self, message: &Waiting, reason: &str) -> Result<bool, DbError> {
        self.app.db.commit(drop_message(message.id, self.app.clock.now(), reason)).await?;
        Ok(false)
    }
}
