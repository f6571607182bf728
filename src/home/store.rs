//! What of a workspace needs somebody's attention, counted to a bound.

use crate::clock::first_id_at;
use crate::db::{Sql, from_row, statements};
use crate::id::{DomainId, WorkspaceId};

/// Who has more wants to know that there are many.
pub(super) const MOST: i64 = 100;

statements! {
    functions {
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
