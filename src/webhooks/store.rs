//! Webhooks, events and deliveries in the store.

use super::event::{EventType, EventTypes};
use super::webhook::Status;
use crate::credentials::grant_stands;
use crate::db::{Batch, Db, DbError, Sql, Stmt, from_row, statements};
use crate::id::{AutomationId, GrantId, RunId, SuppressionId, WebhookEventId, WebhookId, WorkspaceId};
use crate::web::Page;

/// How many webhooks a workspace may have.
pub const MOST: i64 = 100;

/// How many rows of one kind one commit deletes, or gives up.
const SWEEP: i64 = 500;

/// An event, if somebody listens to it and something more is so.
macro_rules! event {
    ($from:literal) => {
        concat!(
            "INSERT INTO webhook_events (id, workspace_id, type, payload, created_at)
             SELECT $2, $1, $3, $4, CAST($5 AS BIGINT) ",
            $from,
            " EXISTS (SELECT 1 FROM webhooks w
                      WHERE w.workspace_id = $1 AND w.status = 'enabled' AND w.events & $6 <> 0)"
        )
    };
}

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, endpoint, events, status, disabled_reason, created_at FROM webhooks WHERE workspace_id = $1"
            by "id";
        OLDER_EVENTS, NEWER_EVENTS =
            "SELECT e.id, e.type, e.created_at, d.status, CASE WHEN d.attempt > d.settled THEN TRUE ELSE FALSE END
             FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id WHERE d.webhook_id = $1"
            by "d.event_id";
        OLDER_ATTEMPTS, NEWER_ATTEMPTS =
            "SELECT id, http_status, response, error, duration, sent_at FROM webhook_attempts
             WHERE webhook_id = $1 AND event_id = $4" by "id";
    }
    functions {
        pub fn by_id(workspace_id: WorkspaceId, id: WebhookId) = Sql::both(
            "SELECT id, endpoint, events, status, disabled_reason, created_at, signing_secret
             FROM webhooks WHERE workspace_id = $1 AND id = $2");
        fn insert_one(new: &NewWebhook<'_>)
            with [new.workspace_id, new.id, new.endpoint, new.events.bits(), Status::Enabled.as_str(), new.secret,
                destination(new.workspace_id, new.id), new.grant_id, new.now, MOST] expects 1 = Sql::both(
            "INSERT INTO webhooks (workspace_id, id, endpoint, events, status, signing_secret, destination, grant_id,
                 created_at)
             SELECT $1, $2, $3, CAST($4 AS BIGINT), $5, $6, $7, $8, CAST($9 AS BIGINT)
             WHERE (SELECT COUNT(*) FROM webhooks WHERE workspace_id = $1) < $10");
        /// Whoever leads it elsewhere answers for it: the workspace, or an app.
        fn set_endpoint(workspace_id: WorkspaceId, id: WebhookId, endpoint: &str, grant_id: Option<GrantId>)
            = Sql::both(
            "UPDATE webhooks SET endpoint = $3, failing_since = NULL,
                 grant_id = CASE WHEN endpoint = $3 THEN grant_id ELSE $4 END
             WHERE workspace_id = $1 AND id = $2");
        fn set_events(workspace_id: WorkspaceId, id: WebhookId, events: i64) = Sql::both(
            "UPDATE webhooks SET events = $3 WHERE workspace_id = $1 AND id = $2");
        /// Whoever enables it answers for it: the workspace, or an app.
        fn enable(workspace_id: WorkspaceId, id: WebhookId, grant_id: Option<GrantId>) = Sql::both(
            "UPDATE webhooks SET status = 'enabled', disabled_reason = NULL, failing_since = NULL, grant_id = $3
             WHERE workspace_id = $1 AND id = $2 AND status <> 'enabled'");
        fn disable_by_hand(workspace_id: WorkspaceId, id: WebhookId) = Sql::both(
            "UPDATE webhooks SET status = 'disabled', disabled_reason = NULL
             WHERE workspace_id = $1 AND id = $2 AND status <> 'disabled'");
        fn stands(workspace_id: WorkspaceId, id: WebhookId) expects 1 = Sql::both(
            "SELECT 1 FROM webhooks WHERE workspace_id = $1 AND id = $2");
        fn disable_one(workspace_id: WorkspaceId, id: WebhookId, reason: &str) expects 1 = Sql::both(
            "UPDATE webhooks SET status = 'disabled', disabled_reason = $3
             WHERE workspace_id = $1 AND id = $2 AND status = 'enabled'");
        /// A new secret; the one before signs beside it for a while.
        pub fn rotate(workspace_id: WorkspaceId, id: WebhookId, secret: &str, until: i64) expects 1 = Sql::both(
            "UPDATE webhooks SET old_secret = signing_secret, old_secret_until = $4, signing_secret = $3
             WHERE workspace_id = $1 AND id = $2");
        fn delete_one(workspace_id: WorkspaceId, id: WebhookId) expects 1 = Sql::both(
            "DELETE FROM webhooks WHERE workspace_id = $1 AND id = $2");
        /// Whoever knows who listens has to look again.
        fn raise(workspace_id: WorkspaceId) = Sql::both(
            "UPDATE workspaces SET automations_revision = automations_revision + 1 WHERE id = $1").raising();
        pub(super) fn add_event(event: &NewEvent<'_>, bit: i64)
            with [event.workspace_id, event.id, event.kind.as_str(), event.payload, event.now, bit]
            = Sql::both(event!("WHERE"));
        pub(super) fn add_event_of_new_contact(event: &NewEvent<'_>, bit: i64, email_key: &str, sequence: i64)
            with [event.workspace_id, event.id, event.kind.as_str(), event.payload, event.now, bit, email_key,
                sequence] = Sql::both(event!(
            "FROM contacts c WHERE c.workspace_id = $1 AND c.email_key = $7 AND c.sequence <= $8 AND"));
        pub(super) fn add_event_of_suppression(event: &NewEvent<'_>, bit: i64, suppression_id: SuppressionId)
            with [event.workspace_id, event.id, event.kind.as_str(), event.payload, event.now, bit, suppression_id]
            = Sql::both(event!("FROM suppressions s WHERE s.workspace_id = $1 AND s.id = $7 AND"));
        pub(super) fn add_event_of_run(event: &NewEvent<'_>, bit: i64, automation_id: AutomationId, run_id: RunId)
            with [event.workspace_id, event.id, event.kind.as_str(), event.payload, event.now, bit, automation_id,
                run_id] = Sql::both(event!("FROM runs r WHERE r.automation_id = $7 AND r.id = $8 AND"));
        pub(super) fn add_event_of_cut_run(event: &NewEvent<'_>, bit: i64, automation_id: AutomationId, run_id: RunId)
            with [event.workspace_id, event.id, event.kind.as_str(), event.payload, event.now, bit, automation_id,
                run_id] = Sql::both(event!(
            "FROM runs r WHERE r.automation_id = $7 AND r.id = $8 AND r.status = 'cancelled'
                 AND r.completed_at IS NULL AND"));
        pub(super) fn add_deliveries(event_id: WebhookEventId, bit: i64, due_at: i64) = Sql::both(
            "INSERT INTO webhook_deliveries (webhook_id, event_id, workspace_id, destination, due_at)
             SELECT w.id, e.id, w.workspace_id, w.destination, CAST($3 AS BIGINT)
             FROM webhook_events e JOIN webhooks w ON w.workspace_id = e.workspace_id
             WHERE e.id = $1 AND w.status = 'enabled' AND w.events & $2 <> 0");
        /// One event on its way to a webhook: with its payload, and when it is tried next.
        pub fn event_of(webhook_id: WebhookId, event_id: WebhookEventId) = Sql::both(
            "SELECT e.id, e.type, e.created_at, d.status, CASE WHEN d.attempt > d.settled THEN TRUE ELSE FALSE END,
                 d.due_at, e.payload
             FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
             WHERE d.webhook_id = $1 AND d.event_id = $2");
        /// Sends an event anew, from the first attempt on. Whoever is at it writes nothing any more.
        fn deliver_again(webhook_id: WebhookId, event_id: WebhookEventId, due_at: i64) expects 1 = Sql::both(
            "UPDATE webhook_deliveries SET status = 'pending', due_at = $3, tries = 0, attempt = attempt + 1,
                 settled = attempt + 1
             WHERE webhook_id = $1 AND event_id = $2");
        fn is_enabled(workspace_id: WorkspaceId, id: WebhookId) expects 1 = Sql::each(
            "SELECT 1 FROM webhooks WHERE workspace_id = $1 AND id = $2 AND status = 'enabled'",
            "SELECT 1 FROM webhooks WHERE workspace_id = $1 AND id = $2 AND status = 'enabled' FOR SHARE");
        fn delete_attempts(from: WebhookEventId, until: WebhookEventId) = Sql::both(
            "DELETE FROM webhook_attempts WHERE event_id >= $1 AND event_id <= $2");
        fn delete_deliveries(from: WebhookEventId, until: WebhookEventId) = Sql::both(
            "DELETE FROM webhook_deliveries WHERE event_id >= $1 AND event_id <= $2");
        fn delete_events(from: WebhookEventId, until: WebhookEventId) = Sql::both(
            "DELETE FROM webhook_events WHERE id >= $1 AND id <= $2");
        /// Secrets of webhooks behind one.
        pub(super) fn secrets(after: WebhookId) = Sql::both(
            "SELECT workspace_id, id, signing_secret, old_secret FROM webhooks WHERE id > $1 ORDER BY id LIMIT 100");
        fn reseal_one(workspace_id: WorkspaceId, id: WebhookId, kept: &str, secret: &str, old: Option<String>)
            = Sql::both(
            "UPDATE webhooks SET signing_secret = $4, old_secret = $5
             WHERE workspace_id = $1 AND id = $2 AND signing_secret = $3");
    }
    reads {
        fn listened_by(workspace_id: WorkspaceId) -> Vec<i64> = Sql::both(
            "SELECT events FROM webhooks WHERE workspace_id = $1 AND status = 'enabled'");
        /// The oldest events before a moment, by its first id.
        fn oldest(before: uuid::Uuid) with [before, SWEEP] -> Vec<WebhookEventId> = Sql::both(
            "SELECT id FROM webhook_events WHERE id < $1 ORDER BY id LIMIT $2");
    }
}

/// What to make.
pub struct NewWebhook<'a> {
    pub workspace_id: WorkspaceId,
    pub id: WebhookId,
    pub endpoint: &'a str,
    pub events: EventTypes,
    /// Sealed.
    pub secret: &'a str,
    pub grant_id: Option<GrantId>,
    pub now: i64,
}

/// What to change; what is left out stays as it is.
pub struct Changes<'a> {
    pub endpoint: Option<&'a str>,
    pub events: Option<EventTypes>,
    pub status: Option<Status>,
    /// Who asks.
    pub grant_id: Option<GrantId>,
}

/// An event that is told.
pub(super) struct NewEvent<'a> {
    pub workspace_id: WorkspaceId,
    pub id: WebhookEventId,
    pub kind: EventType,
    /// As it is sent.
    pub payload: &'a str,
    pub now: i64,
}

/// The secrets of a webhook, as the store keeps them.
pub(super) struct Sealed {
    pub workspace_id: WorkspaceId,
    pub id: WebhookId,
    pub secret: String,
    pub old: Option<String>,
}

from_row!(Sealed { workspace_id, id, secret, old });

/// The line in which the deliveries of a webhook wait.
fn destination(workspace_id: WorkspaceId, id: WebhookId) -> String {
    format!("{workspace_id} {id}")
}

/// Makes a webhook. The second statement fails where there are as many as there may be: the first
/// lets others wait who make one.
pub fn insert(new: &NewWebhook<'_>) -> Batch {
    Batch::new().and(raise(new.workspace_id)).and(insert_one(new))
}

pub fn change(workspace_id: WorkspaceId, id: WebhookId, changes: &Changes<'_>) -> Batch {
    let mut batch = Batch::new();
    let is_tying = changes.endpoint.is_some() || changes.status == Some(Status::Enabled);
    // A grant that ends in this moment would not find what is not committed yet.
    if let Some(grant_id) = changes.grant_id.filter(|_| is_tying) {
        batch = batch.fence(grant_stands(grant_id));
    }
    batch.push(stands(workspace_id, id));
    if let Some(endpoint) = changes.endpoint {
        batch.push(set_endpoint(workspace_id, id, endpoint, changes.grant_id));
    }
    changes.events.iter().for_each(|events| batch.push(set_events(workspace_id, id, events.bits())));
    match changes.status {
        Some(Status::Enabled) => batch.push(enable(workspace_id, id, changes.grant_id)),
        Some(Status::Disabled) => batch.push(disable_by_hand(workspace_id, id)),
        None => {}
    }
    batch.and(raise(workspace_id))
}

/// Disables one that works no more. The first statement fails where it is disabled already.
pub(super) fn disable(workspace_id: WorkspaceId, id: WebhookId, reason: &str) -> Batch {
    Batch::new().and(disable_one(workspace_id, id, reason)).and(raise(workspace_id))
}

/// What waits for it is dropped when it is due.
pub fn delete(workspace_id: WorkspaceId, id: WebhookId) -> Batch {
    Batch::new().and(delete_one(workspace_id, id)).and(raise(workspace_id))
}

/// The first statement fails where the webhook is disabled, the second where it never had the event.
pub fn replay(workspace_id: WorkspaceId, id: WebhookId, event_id: WebhookEventId, steady: i64) -> Batch {
    Batch::new().and(is_enabled(workspace_id, id)).and(deliver_again(id, event_id, steady))
}

/// What the webhooks of a workspace listen to.
pub async fn listened(db: &Db, workspace_id: WorkspaceId) -> Result<EventTypes, DbError> {
    let all = listened_by(db, workspace_id).await?;
    Ok(EventTypes::of_bits(all.into_iter().fold(0, |bits, one| bits | one)))
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn events(webhook_id: WebhookId, page: &Page) -> Stmt {
    page.statement(OLDER_EVENTS, NEWER_EVENTS, webhook_id, [])
}

pub fn attempts(webhook_id: WebhookId, event_id: WebhookEventId, page: &Page) -> Stmt {
    page.statement(OLDER_ATTEMPTS, NEWER_ATTEMPTS, webhook_id, [event_id.into()])
}

/// Deletes some events from before a moment, with all that came of them. Tells whether there may
/// be more.
pub(super) async fn forget(db: &Db, before: uuid::Uuid) -> Result<bool, DbError> {
    let old = oldest(db, before).await?;
    let (Some(&first), Some(&last)) = (old.first(), old.last()) else { return Ok(false) };
    let batch = Batch::new()
        .and(delete_attempts(first, last))
        .and(delete_deliveries(first, last))
        .and(delete_events(first, last));
    db.commit(batch).await?;
    Ok(old.len() as i64 == SWEEP)
}

pub(super) fn reseal(kept: &Sealed, secret: &str, old: Option<String>) -> Stmt {
    reseal_one(kept.workspace_id, kept.id, &kept.secret, secret, old)
}
