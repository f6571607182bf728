//! What of a workspace needs somebody's attention, counted to a bound.

use uuid::Uuid;

use crate::clock::first_id_at;
use crate::db::{Sql, from_row, statements};
use crate::id::{DomainId, WorkspaceId};

/// Who has more wants to know that there are many.
pub(super) const MOST: i64 = 100;

/// How many events, runs and contacts are gone through to draw what happened in a week, or in a day.
pub(super) const MOST_DRAWN: i64 = 5_000;

statements! {
    functions {
        /// Events by hour since an id; the product's own are no news.
        pub(super) fn events_by_hour(workspace_id: WorkspaceId, since: Uuid)
            with [workspace_id, since, MOST_DRAWN + 1] = Sql::both(
            "SELECT created_at / 3600000000, COUNT(*), SUM(CASE WHEN name LIKE 'svc:%' THEN 0 ELSE 1 END), CAST(0 AS BIGINT)
             FROM (SELECT created_at, name FROM occurrences WHERE workspace_id = $1 AND id >= $2
                   ORDER BY id DESC LIMIT $3) AS newest
             GROUP BY 1");
        /// Runs by the hour in which they began.
        pub(super) fn runs_by_hour(workspace_id: WorkspaceId, since: Uuid)
            with [workspace_id, since, MOST_DRAWN + 1] = Sql::both(
            "SELECT created_at / 3600000000, COUNT(*), COUNT(*), SUM(CASE WHEN status = 'failed' THEN 1 ELSE 0 END)
             FROM (SELECT r.created_at, r.status FROM automations a JOIN runs r ON r.automation_id = a.id AND r.id >= $2
                   WHERE a.workspace_id = $1 AND a.deleted_at IS NULL LIMIT $3) AS some_runs
             GROUP BY 1");
        pub(super) fn contacts_by_hour(workspace_id: WorkspaceId, since: Uuid)
            with [workspace_id, since, MOST_DRAWN + 1] = Sql::both(
            "SELECT created_at / 3600000000, COUNT(*), COUNT(*), CAST(0 AS BIGINT)
             FROM (SELECT created_at FROM contacts WHERE workspace_id = $1 AND id >= $2
                   ORDER BY id DESC LIMIT $3) AS newest
             GROUP BY 1");
        /// Runs that failed since a moment.
        pub(super) fn failed_runs(workspace_id: WorkspaceId, since: i64)
            with [workspace_id, first_id_at(since), MOST + 1] = Sql::both(
            "SELECT r.id FROM automations a JOIN runs r ON r.automation_id = a.id AND r.status = 'failed' AND r.id >= $2
             WHERE a.workspace_id = $1 AND a.deleted_at IS NULL LIMIT $3");
        pub(super) fn held_mail(workspace_id: WorkspaceId) with [workspace_id, MOST + 1] = Sql::both(
            "SELECT email_id FROM email_recipients WHERE workspace_id = $1 AND state = 28 LIMIT $2");
        pub(super) fn faulty_domains(workspace_id: WorkspaceId) with [workspace_id, MOST + 1] = Sql::both(
            "SELECT id, name, status FROM domains WHERE workspace_id = $1 AND status <> 'verified' ORDER BY id LIMIT $2");
        pub(super) fn verified_domain(workspace_id: WorkspaceId) = Sql::both(
            "SELECT 1 FROM domains WHERE workspace_id = $1 AND status = 'verified' LIMIT 1");
        /// Webhooks that nobody has disabled, and that are.
        pub(super) fn failed_webhooks(workspace_id: WorkspaceId) with [workspace_id, MOST + 1] = Sql::both(
            "SELECT id FROM webhooks WHERE workspace_id = $1 AND status = 'disabled' AND disabled_reason IS NOT NULL
             LIMIT $2");
        pub(super) fn any_automation(workspace_id: WorkspaceId) = Sql::both(
            "SELECT 1 FROM automations WHERE workspace_id = $1 AND deleted_at IS NULL LIMIT 1");
    }
}

/// A domain that cannot be sent from, and how far it is.
pub(super) struct FaultyDomain {
    pub id: DomainId,
    pub name: String,
    pub status: String,
}

from_row!(FaultyDomain { id, name, status });
