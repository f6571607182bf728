//! What an app left that calls the outside: automations that it published, and
//! webhooks that it made or led elsewhere. When the app's access ends, they stop,
//! unless a person says that they shall go on.

use crate::db::{Batch, Sql, from_row, statements};
use crate::id::{AutomationId, GrantId, UserId, WebhookId, WorkspaceId};

/// What is said of webhooks whose app has no access any more.
const ENDED: &str = "The app that made or changed it has no access any more.";

/// As many as a page shows.
const MOST: i64 = 200;

/// Disables those whose version in force was published under such a grant.
macro_rules! stop {
    ($grants:literal) => {
        concat!(
            "UPDATE automations SET status = 'disabled', updated_at = $2
             WHERE status = 'enabled' AND deleted_at IS NULL AND (workspace_id, id, version) IN
                   (SELECT g.workspace_id, b.automation_id, b.version
                    FROM oauth_grants g JOIN automation_version_grants b ON b.grant_id = g.id WHERE ",
            $grants,
            " = $1)"
        )
    };
}

/// Disables the webhooks that were made under such a grant.
macro_rules! stop_webhooks {
    ($grants:literal) => {
        concat!(
            "UPDATE webhooks SET status = 'disabled', disabled_reason = $2
             WHERE status = 'enabled' AND grant_id IN (SELECT g.id FROM oauth_grants g WHERE ",
            $grants,
            " = $1)"
        )
    };
}

/// Whoever prepared a run of one of them, or knows such webhooks, has to look again.
macro_rules! raise {
    ($grants:literal) => {
        concat!(
            "UPDATE workspaces SET automations_revision = automations_revision + 1
             WHERE id IN (SELECT g.workspace_id FROM oauth_grants g
                          WHERE (EXISTS (SELECT 1 FROM automation_version_grants b WHERE b.grant_id = g.id)
                                 OR EXISTS (SELECT 1 FROM webhooks h WHERE h.grant_id = g.id)) AND ",
            $grants,
            " = $1)"
        )
    };
}

statements! {
    functions {
        pub fn of_grant(workspace_id: WorkspaceId, grant_id: GrantId) with [workspace_id, grant_id, MOST] = Sql::both(
            "SELECT a.id, a.name, CASE WHEN a.status = 'enabled' THEN 1 ELSE 0 END
             FROM automation_version_grants b
             JOIN automations a ON a.workspace_id = $1 AND a.id = b.automation_id AND a.version = b.version
             WHERE b.grant_id = $2 AND a.deleted_at IS NULL ORDER BY a.id LIMIT $3");
        pub fn webhooks_of_grant(workspace_id: WorkspaceId, grant_id: GrantId) with [workspace_id, grant_id, MOST] = Sql::both(
            "SELECT id, endpoint, CASE WHEN status = 'enabled' THEN 1 ELSE 0 END
             FROM webhooks WHERE workspace_id = $1 AND grant_id = $2 ORDER BY id LIMIT $3");
        /// Makes an automation the workspace's own.
        fn keep_automation(grant_id: GrantId, automation_id: AutomationId) = Sql::both(
            "DELETE FROM automation_version_grants WHERE grant_id = $1 AND automation_id = $2");
        /// Makes a webhook the workspace's own.
        fn keep_webhook(grant_id: GrantId, webhook_id: WebhookId) = Sql::both(
            "UPDATE webhooks SET grant_id = NULL WHERE grant_id = $1 AND id = $2");
    }
    STOP_OF_GRANT = Sql::both(stop!("g.id"));
    STOP_OF_USER = Sql::both(stop!("g.workspace_id = COALESCE($3, g.workspace_id) AND g.user_id"));
    STOP_OF_CLIENT = Sql::both(stop!("g.client_id"));
    STOP_WEBHOOKS_OF_GRANT = Sql::both(stop_webhooks!("g.id"));
    STOP_WEBHOOKS_OF_USER = Sql::both(stop_webhooks!("g.workspace_id = COALESCE($3, g.workspace_id) AND g.user_id"));
    STOP_WEBHOOKS_OF_CLIENT = Sql::both(stop_webhooks!("g.client_id"));
    RAISE_OF_GRANT = Sql::both(raise!("g.id")).raising();
    RAISE_OF_USER = Sql::both(raise!("g.workspace_id = COALESCE($2, g.workspace_id) AND g.user_id")).raising();
    RAISE_OF_CLIENT = Sql::both(raise!("g.client_id")).raising();
}

/// An automation that ends with a grant.
pub struct AppAutomation {
    pub id: AutomationId,
    pub name: String,
    pub is_enabled: bool,
}

from_row!(AppAutomation { id, name, is_enabled });

/// A webhook that ends with a grant.
pub struct AppWebhook {
    pub id: WebhookId,
    pub endpoint: String,
    pub is_enabled: bool,
}

from_row!(AppWebhook { id, endpoint, is_enabled });

/// What goes on although the access of its app ends.
#[derive(Debug, Default)]
pub struct Kept {
    pub automations: Vec<AutomationId>,
    pub webhooks: Vec<WebhookId>,
}

/// Belongs before what stops the rest: it becomes the workspace's own.
pub fn keep(grant_id: GrantId, kept: &Kept) -> Batch {
    let automations = kept.automations.iter().map(|id| keep_automation(grant_id, *id));
    automations.chain(kept.webhooks.iter().map(|id| keep_webhook(grant_id, *id))).collect()
}

/// Belongs into the commit that ends a grant.
pub fn stop_of_grant(grant_id: GrantId, now: i64) -> Batch {
    Batch::new()
        .and(STOP_OF_GRANT.with([grant_id.into(), now.into()]))
        .and(STOP_WEBHOOKS_OF_GRANT.with([grant_id.into(), ENDED.into()]))
        .and(RAISE_OF_GRANT.with([grant_id.into()]))
}

/// Belongs into the commit that ends all grants of a user, in a workspace or
/// everywhere.
pub fn stop_of_user(user_id: UserId, within: Option<WorkspaceId>, now: i64) -> Batch {
    Batch::new()
        .and(STOP_OF_USER.with([user_id.into(), now.into(), within.into()]))
        .and(STOP_WEBHOOKS_OF_USER.with([user_id.into(), ENDED.into(), within.into()]))
        .and(RAISE_OF_USER.with([user_id.into(), within.into()]))
}

/// Belongs into the commit that takes a client away.
pub fn stop_of_client(client_id: &str, now: i64) -> Batch {
    Batch::new()
        .and(STOP_OF_CLIENT.with([client_id.into(), now.into()]))
        .and(STOP_WEBHOOKS_OF_CLIENT.with([client_id.into(), ENDED.into()]))
        .and(RAISE_OF_CLIENT.with([client_id.into()]))
}
