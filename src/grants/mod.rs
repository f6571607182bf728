//! The end of what people allowed apps to do: of grants, of the keys that were made
//! through them, and of what the apps published that calls the outside.

mod automations;

pub use automations::{AppAutomation, of_grant as automations_of, stop_of_client};

use crate::credentials::raise_access;
use crate::db::{Batch, Sql, statements};
use crate::id::{AutomationId, GrantId, UserId, WorkspaceId};
use crate::text::words;

pub const STATEMENTS: &[&[Sql]] = &[automations::ALL, ALL];

statements! {
    REVOKE = Sql::both(
        "UPDATE oauth_grants SET revoked_at = $2, revoked_reason = $3 WHERE id = $1 AND revoked_at IS NULL")
        .raising();
    REVOKE_IN = Sql::both(
        "UPDATE oauth_grants SET revoked_at = $3, revoked_reason = $4
         WHERE id = $1 AND workspace_id = $2 AND revoked_at IS NULL")
        .raising();
    DELETE_KEYS_OF = Sql::both("DELETE FROM api_keys WHERE grant_id = $1").raising();
    REVOKE_OF = Sql::both(
        "UPDATE oauth_grants SET revoked_at = $2, revoked_reason = $3
         WHERE user_id = $1 AND revoked_at IS NULL AND workspace_id = COALESCE($4, workspace_id)")
        .raising();
    DELETE_KEYS_OF_USER = Sql::both(
        "DELETE FROM api_keys WHERE grant_id IN
             (SELECT id FROM oauth_grants WHERE user_id = $1 AND workspace_id = COALESCE($2, workspace_id))")
        .raising();
    BURN_CODES_OF = Sql::both(
        "UPDATE authorization_codes SET used_at = $2
         WHERE user_id = $1 AND used_at IS NULL AND workspace_id = COALESCE($3, workspace_id)");
}

words! {
    /// Why a grant ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Reason: ALL {
        CodeReuse = "authorization_code_reuse",
        RefreshReuse = "refresh_token_reuse",
        Client = "revoked_by_client",
        Api = "revoked_from_api",
        Dashboard = "revoked_from_dashboard",
        UserDisabled = "user_disabled",
        UserRemoved = "user_removed",
    }
}

/// Ends a grant everywhere at once, the keys that were made through it, and what its
/// app published that calls the outside. An ended one stays as it is: the batch then
/// finds nothing to change.
pub fn revoke(grant_id: GrantId, reason: Reason, now: i64) -> Batch {
    let mut batch = Batch::new()
        .and(REVOKE.with([grant_id.into(), now.into(), reason.as_str().into()]).expect(1))
        .and(DELETE_KEYS_OF.with([grant_id.into()]))
        .and(raise_access());
    batch.append(automations::stop_of_grant(grant_id, now));
    batch
}

/// As [`revoke`], if the grant belongs to the workspace. The automations to keep
/// become the workspace's own.
pub fn revoke_in(
    workspace_id: WorkspaceId,
    grant_id: GrantId,
    reason: Reason,
    keep: &[AutomationId],
    now: i64,
) -> Batch {
    let mut batch = Batch::new()
        .and(REVOKE_IN.with([grant_id.into(), workspace_id.into(), now.into(), reason.as_str().into()]).expect(1))
        .and(DELETE_KEYS_OF.with([grant_id.into()]))
        .and(raise_access());
    keep.iter().for_each(|automation_id| batch.push(automations::keep(grant_id, *automation_id)));
    batch.append(automations::stop_of_grant(grant_id, now));
    batch
}

/// Ends every grant that a user has given, in one workspace or in all, and burns
/// the codes that would become more.
pub fn revoke_of(user_id: UserId, within: Option<WorkspaceId>, reason: Reason, now: i64) -> Batch {
    let mut batch = Batch::new()
        .and(BURN_CODES_OF.with([user_id.into(), now.into(), within.into()]))
        .and(REVOKE_OF.with([user_id.into(), now.into(), reason.as_str().into(), within.into()]))
        .and(DELETE_KEYS_OF_USER.with([user_id.into(), within.into()]))
        .and(raise_access());
    batch.append(automations::stop_of_user(user_id, within, now));
    batch
}
