//! The end of what people allowed apps to do: of grants, of the keys that were made
//! through them, and of what the apps published or made that calls the outside. Every grant
//! that ends, ends here, so webhooks are told of each.

mod automations;
mod told;

pub use automations::{
    AppAutomation, AppWebhook, Kept, of_grant as automations_of, stop_of_client, webhooks_of_grant as webhooks_of,
};
pub use told::REVOKED;

use crate::clock::Clock;
use crate::credentials::raise_access;
use crate::db::{Batch, Sql, Value, statements};
use crate::id::{GrantId, UserId, WorkspaceId};
use crate::text::words;

pub const STATEMENTS: &[&[Sql]] = &[automations::ALL, told::ALL, ALL];

/// Nobody else ends them before this commit does. Whoever made something through one of them is waited for, and seen.
macro_rules! lock {
    ($which:literal) => {
        Sql::each(
            concat!("SELECT 1 FROM oauth_grants WHERE ", $which, " = $1 AND workspace_id = COALESCE($2, workspace_id)"),
            concat!(
                "SELECT 1 FROM oauth_grants WHERE ",
                $which,
                " = $1 AND workspace_id = COALESCE($2, workspace_id) AND revoked_at IS NULL ORDER BY id FOR UPDATE"
            ),
        )
    };
}

/// Ends those that stand, in one workspace or in all.
macro_rules! revoke {
    ($which:literal) => {
        Sql::both(concat!(
            "UPDATE oauth_grants SET revoked_at = $3, revoked_reason = $4
             WHERE ",
            $which,
            " = $1 AND workspace_id = COALESCE($2, workspace_id) AND revoked_at IS NULL"
        ))
        .raising()
    };
}

/// Deletes the keys that were made through them.
macro_rules! delete_keys {
    ($which:literal) => {
        Sql::both(concat!(
            "DELETE FROM api_keys WHERE grant_id IN
                 (SELECT id FROM oauth_grants WHERE ",
            $which,
            " = $1 AND workspace_id = COALESCE($2, workspace_id))"
        ))
        .raising()
    };
}

statements! {
    LOCK = lock!("id");
    LOCK_OF_USER = lock!("user_id");
    LOCK_OF_CLIENT = lock!("client_id");
    REVOKE = revoke!("id");
    REVOKE_OF_USER = revoke!("user_id");
    REVOKE_OF_CLIENT = revoke!("client_id");
    DELETE_KEYS = delete_keys!("id");
    DELETE_KEYS_OF_USER = delete_keys!("user_id");
    DELETE_KEYS_OF_CLIENT = delete_keys!("client_id");
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
        ClientDeleted = "client_deleted",
    }
}

/// Which grants end: in one workspace, or wherever they are.
enum Which<'a> {
    One(GrantId, Option<WorkspaceId>),
    OfUser(UserId, Option<WorkspaceId>),
    OfClient(&'a str),
}

impl Which<'_> {
    /// What statements find them by.
    fn params(&self) -> [Value; 2] {
        match *self {
            Which::One(id, within) => [id.into(), within.into()],
            Which::OfUser(id, within) => [id.into(), within.into()],
            Which::OfClient(id) => [id.into(), None::<WorkspaceId>.into()],
        }
    }

    /// What their apps published or made that calls the outside.
    fn stop(&self, now: i64) -> Batch {
        match *self {
            Which::One(id, _) => automations::stop_of_grant(id, now),
            Which::OfUser(id, within) => automations::stop_of_user(id, within, now),
            Which::OfClient(id) => stop_of_client(id, now),
        }
    }
}

/// Ends grants everywhere at once, and all that hangs on them but what is to be kept.
fn end(which: &Which<'_>, reason: Reason, keep: Batch, (clock, now): (&Clock, i64)) -> Batch {
    let [named, within] = which.params();
    let params = [named.clone(), within.clone(), now.into(), reason.as_str().into()];
    let (lock, revoke, delete_keys) = match which {
        Which::One(..) => (LOCK, REVOKE.with(params).expect(1), DELETE_KEYS),
        Which::OfUser(..) => (LOCK_OF_USER, REVOKE_OF_USER.with(params), DELETE_KEYS_OF_USER),
        Which::OfClient(_) => (LOCK_OF_CLIENT, REVOKE_OF_CLIENT.with(params), DELETE_KEYS_OF_CLIENT),
    };
    let mut batch = Batch::from(lock.with([named.clone(), within.clone()]));
    batch.append(keep);
    batch.append(which.stop(now));
    batch.append(told::tell(which, reason, clock, now));
    batch.and(revoke).and(delete_keys.with([named, within])).and(raise_access())
}

/// Ends a grant, the keys that were made through it, and what its app published that
/// calls the outside. An ended one stays as it is: the batch then finds nothing to
/// change.
pub fn revoke(grant_id: GrantId, reason: Reason, clock: &Clock) -> Batch {
    end(&Which::One(grant_id, None), reason, Batch::new(), (clock, clock.now()))
}

/// As [`revoke`], if the grant belongs to the workspace. What is kept becomes the
/// workspace's own.
pub fn revoke_in(
    workspace_id: WorkspaceId,
    grant_id: GrantId,
    reason: Reason,
    kept: &Kept,
    at: (&Clock, i64),
) -> Batch {
    end(&Which::One(grant_id, Some(workspace_id)), reason, automations::keep(grant_id, kept), at)
}

/// Ends every grant that a user has given, in one workspace or in all, and burns
/// the codes that would become more.
pub fn revoke_of(user_id: UserId, within: Option<WorkspaceId>, reason: Reason, clock: &Clock) -> Batch {
    let now = clock.now();
    let mut batch = Batch::from(BURN_CODES_OF.with([user_id.into(), now.into(), within.into()]));
    batch.append(end(&Which::OfUser(user_id, within), reason, Batch::new(), (clock, now)));
    batch
}

/// Ends every grant of a client that is deleted.
pub fn revoke_of_client(client_id: &str, clock: &Clock) -> Batch {
    end(&Which::OfClient(client_id), Reason::ClientDeleted, Batch::new(), (clock, clock.now()))
}
