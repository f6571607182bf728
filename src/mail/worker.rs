//! Delivers the messages that wait in the store. Any number of processes share
//! the work: each claims what is due under a lease, and writes what became of it
//! only while the claim is still its own.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;

use super::postman::{Outcome, Postman, wait_after};
use super::store::{self, Claimed};
use crate::app::App;
use crate::clock::SECOND;
use crate::db::{Batch, DbError};
use crate::{hold, secret};

/// How often to look for messages that are due.
const POLL: Duration = Duration::from_secs(1);

/// How many messages are taken at once; all of them are delivered side by side.
const BATCH: i64 = 8;

/// Longer than a delivery may take. A process that dies leaves its messages to
/// the others for so long.
const LEASE: i64 = 30 * SECOND;

/// How often to try to write down what became of a message, which otherwise
/// would be sent again.
const TRIES: u64 = 4;

/// Delivers until told to stop; what was begun is finished first.
pub async fn run(app: App, mut stopping: watch::Receiver<bool>) {
    let Some(relay) = &app.config.smtp_url else { return };
    let postman = match Postman::new(relay, app.config.mail_from.as_ref(), &app.addresses.base) {
        Ok(postman) => postman,
        Err(error) => {
            tracing::error!(%error, "mail cannot be sent through --smtp-url");
            return;
        }
    };
    while !*stopping.borrow() {
        let taken = match round(&app, &postman).await {
            Ok(taken) => taken,
            // On hold.
            Err(DbError::Stale) => 0,
            Err(error) => {
                tracing::warn!(%error, "messages that are due could not be read");
                0
            }
        };
        if taken < BATCH as usize {
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                _ = stopping.changed() => {}
            }
        }
    }
}

/// Claims what is due and delivers it. Tells how much that was.
pub(super) async fn round(app: &App, postman: &Postman) -> Result<usize, DbError> {
    // Looking costs no write; most of the time that is all there is to do.
    if app.db.read(store::due(app.clock.steady())).await?.is_empty() {
        return Ok(0);
    }
    let claimed = claim(app).await?;
    join_all(claimed.iter().map(|message| deliver(app, postman, message))).await;
    Ok(claimed.len())
}

/// [`DbError::Stale`] while the store is on hold.
pub(super) async fn claim(app: &App) -> Result<Vec<Claimed>, DbError> {
    let now = app.clock.steady();
    let claim = Batch::from(store::claim(now, now + LEASE, BATCH)).when(hold::absent());
    let effects = app.db.commit(claim).await?;
    effects.iter().flat_map(|effect| &effect.rows).map(Claimed::read).collect()
}

async fn deliver(app: &App, postman: &Postman, message: &Claimed) {
    let outcome = postman.deliver(message).await;
    let (id, attempt) = (message.id, message.attempt);
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
    let mut tries = 1;
    loop {
        let stmt = match outcome {
            Outcome::Sent => store::sent(message),
            Outcome::Never(error) => store::failed(message, error),
            Outcome::Later(error) => match wait_after(message.attempt, chance) {
                Some(wait) => store::later(message, app.clock.steady() + wait, error),
                None => store::failed(message, error),
            },
        };
        match app.db.commit(stmt).await {
            Ok(_) => return Ok(()),
            Err(DbError::Busy | DbError::Unavailable(_)) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(250 * tries)).await;
    }
}
