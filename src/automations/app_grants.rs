//! Versions that an app published and that call the outside, tied to the app's
//! grant: they call as long as a key of the app would work.

use crate::db::{Sql, Stmt, statements};
use crate::id::{AutomationId, GrantId};

/// Whether a grant still gives access, as for keys that were made through it.
macro_rules! grant_stands {
    ($grant_id:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM oauth_grants g
                     JOIN users u ON u.id = g.user_id AND u.disabled_at IS NULL
                     JOIN memberships m ON m.user_id = g.user_id AND m.workspace_id = g.workspace_id
                     JOIN oauth_clients p ON p.id = g.client_id AND p.disabled_at IS NULL
                     WHERE g.id = ",
            $grant_id,
            " AND g.revoked_at IS NULL)"
        )
    };
}
pub(super) use grant_stands;

statements! {
    functions {
        pub fn tie(automation_id: AutomationId, version: i64, grant_id: GrantId) = Sql::both(
            "INSERT INTO automation_version_grants (automation_id, version, grant_id) VALUES ($1, $2, $3)");
    }
    FREE = Sql::both(concat!(
        "DELETE FROM automation_version_grants WHERE automation_id = $1 AND NOT ",
        grant_stands!("automation_version_grants.grant_id")));
    TAKE_OVER = Sql::both(concat!(
        "UPDATE automation_version_grants SET grant_id = $2 WHERE automation_id = $1 AND NOT ",
        grant_stands!("automation_version_grants.grant_id")));
}

/// Whoever enables what an app without access has left behind answers for it: a
/// person makes it the workspace's own, another app makes it its own.
pub fn adopt(automation_id: AutomationId, grant_id: Option<GrantId>) -> Stmt {
    match grant_id {
        Some(grant_id) => TAKE_OVER.with([automation_id.into(), grant_id.into()]),
        None => FREE.with([automation_id.into()]),
    }
}
