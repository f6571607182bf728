//! Deliveries as workers claim and settle them.

use super::attempt::Attempt;
use super::webhook::Status;
use crate::calls::{InLine, waiting_rows};
use crate::clock::SECOND;
use crate::db::{Batch, DbError, FromRow, Row, Sql, among, from_row, statements};
use crate::id::{WebhookAttemptId, WebhookEventId, WebhookId, WorkspaceId};
use crate::work::{Claimable, claim_rows};

/// How many of a line are given up in one commit.
const GIVEN_UP: i64 = 500;

statements! {
    functions {
        fn settle_one(delivery: &Delivery, status: &str, due_at: Option<i64>, tries: i64)
            with [delivery.webhook_id, delivery.event_id, delivery.attempt, status, due_at, tries] expects 1
            = Sql::both(
            "UPDATE webhook_deliveries SET status = $4, due_at = $5, tries = $6, settled = attempt
             WHERE webhook_id = $1 AND event_id = $2 AND attempt = $3");
        /// What was claimed and not begun is somebody's again, at once.
        pub fn give_back(delivery: &Delivery, due_at: i64)
            with [delivery.webhook_id, delivery.event_id, delivery.attempt, due_at] = Sql::both(
            "UPDATE webhook_deliveries SET due_at = $4, settled = attempt
             WHERE webhook_id = $1 AND event_id = $2 AND attempt = $3");
        fn record(delivery: &Delivery, id: WebhookAttemptId, attempt: &Attempt)
            with [delivery.event_id, delivery.webhook_id, id, attempt.http_status, attempt.response.as_str(),
                attempt.error.as_deref(), attempt.duration, attempt.sent_at] = Sql::both(
            "INSERT INTO webhook_attempts (event_id, webhook_id, id, http_status, response, error, duration, sent_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
        fn begin_to_fail(workspace_id: WorkspaceId, id: WebhookId, since: i64) = Sql::both(
            "UPDATE webhooks SET failing_since = $3 WHERE workspace_id = $1 AND id = $2 AND failing_since IS NULL");
        fn end_to_fail(workspace_id: WorkspaceId, id: WebhookId) = Sql::both(
            "UPDATE webhooks SET failing_since = NULL
             WHERE workspace_id = $1 AND id = $2 AND failing_since IS NOT NULL");
        /// Gives up some of those that wait for a webhook that is disabled or gone.
        pub fn give_up_line(destination: &str) with [destination, GIVEN_UP] = Sql::both(
            "UPDATE webhook_deliveries SET status = 'failed', due_at = NULL, settled = attempt
             WHERE (webhook_id, event_id) IN (SELECT d.webhook_id, d.event_id FROM webhook_deliveries d
                  WHERE d.destination = $1 AND d.due_at IS NOT NULL ORDER BY d.due_at LIMIT $2)");
    }
    reads {
        /// A webhook as it is now.
        pub fn endpoint(workspace_id: WorkspaceId, webhook_id: WebhookId) -> Option<Endpoint> = Sql::both(
            "SELECT endpoint, status, signing_secret, old_secret, old_secret_until, failing_since
             FROM webhooks WHERE workspace_id = $1 AND id = $2");
        /// What it is to be told.
        pub fn payloads(ids: &str) -> Vec<(WebhookEventId, String)> = among!(
            "SELECT id, payload FROM webhook_events WHERE id", ids "$1", "");
    }
    WAITING = waiting_rows!("webhook_deliveries");
    CLAIM = claim_rows!(
        "webhook_deliveries" ("webhook_id", "event_id") where "destination = $4" set ""
        returning "webhook_deliveries.webhook_id, webhook_deliveries.event_id, workspace_id, destination, attempt, tries");
}

/// An event on its way to a webhook.
#[derive(Debug)]
pub struct Delivery {
    pub webhook_id: WebhookId,
    pub event_id: WebhookEventId,
    pub workspace_id: WorkspaceId,
    pub destination: String,
    /// The fence.
    pub attempt: i64,
    /// How many attempts failed.
    pub tries: i64,
}

from_row!(Delivery { webhook_id, event_id, workspace_id, destination, attempt, tries });

impl Claimable for Delivery {
    const QUEUE: &'static str = "webhooks";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Delivery, DbError> {
        FromRow::of_row(row)
    }
}

impl InLine for Delivery {
    const WAITING: Sql = WAITING;
    const CLAIM: Sql = CLAIM;

    fn destination(&self) -> &str {
        &self.destination
    }
}

pub struct Endpoint {
    pub url: String,
    pub status: Status,
    /// Sealed.
    pub secret: String,
    pub old_secret: Option<String>,
    pub old_secret_until: Option<i64>,
    /// In steady time.
    pub failing_since: Option<i64>,
}

from_row!(Endpoint { url, status, secret, old_secret, old_secret_until, failing_since });

/// What became of a delivery: it has arrived, is tried again, or is given up.
pub enum Settled {
    Arrived,
    Again { due_at: i64 },
    GivenUp,
}

/// Writes down what became of a delivery, if nobody else has claimed it since.
pub fn settle(
    delivery: &Delivery,
    endpoint: &Endpoint,
    (id, attempt): (WebhookAttemptId, &Attempt),
    settled: &Settled,
    now: i64,
) -> Batch {
    let (workspace_id, webhook_id) = (delivery.workspace_id, delivery.webhook_id);
    let (status, due_at, tries) = match settled {
        Settled::Arrived => ("success", None, delivery.tries),
        Settled::Again { due_at } => ("pending", Some(*due_at), delivery.tries + 1),
        Settled::GivenUp => ("failed", None, delivery.tries + 1),
    };
    let mut batch = Batch::new().and(settle_one(delivery, status, due_at, tries)).and(record(delivery, id, attempt));
    // The webhook's row is everybody's: it is written where that changes something.
    match (settled, endpoint.failing_since) {
        (Settled::Arrived, Some(_)) => batch.push(end_to_fail(workspace_id, webhook_id)),
        (Settled::Again { .. } | Settled::GivenUp, None) => batch.push(begin_to_fail(workspace_id, webhook_id, now)),
        _ => {}
    }
    batch
}
