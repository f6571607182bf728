//! Delivers the messages that wait in the store.

use std::sync::Arc;

use tokio::sync::watch;

use super::smtp_delivery::{Outcome, SmtpDelivery, wait_after};
use super::store::{self, Claimed};
use crate::app::App;
use crate::db::DbError;
use crate::secret;
use crate::work::{self, Next, Tasks, Worker};

/// How many messages are delivered side by side.
pub(super) const AT_ONCE: usize = 8;

/// Delivers until told to stop.
pub async fn run(app: App, stopping: watch::Receiver<bool>) {
    let Some(relay) = app.config.smtp_url.first() else { return };
    match SmtpDelivery::new(relay, app.config.mail_from.as_ref(), &app.addresses.base) {
        Ok(smtp_delivery) => {
            let clock = app.clock.clone();
            work::run(Delivery { app, smtp_delivery: Arc::new(smtp_delivery) }, clock, stopping).await;
        }
        Err(error) => tracing::error!(%error, "mail cannot be sent through --smtp-url"),
    }
}

struct Delivery {
    app: App,
    smtp_delivery: Arc<SmtpDelivery>,
}

impl Worker for Delivery {
    const NAME: &'static str = "mail";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        let room = AT_ONCE - tasks.count();
        if room > 0 {
            for message in claim(&self.app, room).await? {
                let (app, smtp_delivery) = (self.app.clone(), self.smtp_delivery.clone());
                tasks.spawn(async move { deliver(&app, &smtp_delivery, &message).await });
            }
        }
        Ok(Next::Due(None))
    }
}

/// [`DbError::Stale`] while the store is on hold.
pub(super) async fn claim(app: &App, most: usize) -> Result<Vec<Claimed>, DbError> {
    work::claim_due(&app.db, &app.clock, most).await
}

pub(super) async fn deliver(app: &App, smtp_delivery: &SmtpDelivery, message: &Claimed) {
    let (id, attempt) = (message.id, message.attempt);
    let renew = |lease_until| store::renew(message, lease_until);
    let outcome = work::under_lease::<Claimed, _>((&app.db, &app.clock), renew, smtp_delivery.deliver(message)).await;
    let Some(outcome) = outcome else {
        tracing::warn!(%id, attempt, "a message took longer than its lease, and is another worker's");
        return;
    };
    let label = match &outcome {
        Outcome::Sent => {
            tracing::info!(%id, attempt, "a message was handed to the relay");
            "sent"
        }
        Outcome::Later(error) => {
            tracing::warn!(%id, attempt, error, "a message could not be delivered yet");
            "later"
        }
        Outcome::Never(error) => {
            tracing::warn!(%id, attempt, error, "a message cannot be delivered");
            "never"
        }
    };
    metrics::counter!("posthorn_mail_attempts_total", "outcome" => label).increment(1);
    if let Err(error) = settle(app, message, &outcome).await {
        tracing::error!(%id, attempt, %error, "what became of a message could not be written down");
    }
}

/// Writes down what became of an attempt.
pub(super) async fn settle(app: &App, message: &Claimed, outcome: &Outcome) -> Result<(), DbError> {
    let chance = u16::from_le_bytes(secret::random());
    let stmt = || match outcome {
        Outcome::Sent => store::sent(message),
        Outcome::Never(error) => store::failed(message, error),
        Outcome::Later(error) => match wait_after(message.attempt, chance) {
            Some(wait) => store::later(message, app.clock.steady() + wait, error),
            None => store::failed(message, error),
        },
    };
    work::settle(&app.db, stmt).await
}
