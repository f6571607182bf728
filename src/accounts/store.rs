//! Accounts in the store.

use uuid::Uuid;

use super::{Role, User, Workspace};
use crate::auth::delete_sessions_of;
use crate::credentials::raise_access;
use crate::db::{Batch, Db, DbError, Sql, Stmt, from_row, from_word, statements};
use crate::id::{Id, UserId, WorkspaceId};

statements! {
    functions {
        /// Comes first in whatever makes an account or the first workspace, and waits for whoever does so at the
        /// moment: is there a user, or a workspace, is a question that two must not ask at once. On SQLite nobody
        /// writes at once.
        pub(super) fn take_turn() = Sql::each("SELECT 1", "SELECT 1 FROM revisions WHERE topic = 'access' FOR UPDATE");
        pub fn insert_first_workspace(workspace: &Workspace, now: i64)
            with [workspace.id, &workspace.name, now] = Sql::both(
            "INSERT INTO workspaces (id, name, created_at)
             SELECT $1, CAST($2 AS TEXT), CAST($3 AS BIGINT)
             WHERE NOT EXISTS (SELECT 1 FROM workspaces)");
        pub fn insert_user(user: &User, email_key: &str, password_hash: &str)
            with [user.id, &user.email, email_key, password_hash, user.created_at] = Sql::both(
            "INSERT INTO users (id, email, email_key, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)");
        /// A fence for a new session: the password is still the one that was shown, and
        /// the user may log in.
        pub(super) fn login_stands(user_id: UserId, kept: &str) = Sql::each(
            "SELECT 1 FROM users WHERE id = $1 AND password_hash = $2 AND disabled_at IS NULL",
            "SELECT 1 FROM users WHERE id = $1 AND password_hash = $2 AND disabled_at IS NULL FOR SHARE");
        pub fn insert_setup_link(hash: &[u8; 32], now: i64) = Sql::both(
            "INSERT INTO setup_links (hash, created_at) VALUES ($1, $2)");
        pub fn delete_setup_links(before: i64) = Sql::both("DELETE FROM setup_links WHERE created_at < $1");
        pub fn rename_workspace(id: WorkspaceId, name: &str) expects 1 = Sql::both(
            "UPDATE workspaces SET name = $2 WHERE id = $1");
        /// Holds as long as the user may grant access to the workspace.
        pub fn may_grant(workspace_id: WorkspaceId, user_id: UserId) = Sql::both(
            "SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id AND u.disabled_at IS NULL
             WHERE m.workspace_id = $1 AND m.user_id = $2 AND m.role IN ('owner', 'admin')");
    }
    reads {
        pub fn workspaces() -> Vec<Workspace> = Sql::both("SELECT id, name FROM workspaces ORDER BY id LIMIT 1000");
        fn users_behind(id: Uuid) -> Vec<Listed> = Sql::both(
            "SELECT u.id, u.email, u.created_at, m.role, w.name FROM users u
             JOIN memberships m ON m.user_id = u.id JOIN workspaces w ON w.id = m.workspace_id
             WHERE u.id > $1 ORDER BY u.id, w.id LIMIT 1000");
        pub fn any_user() -> bool = Sql::both("SELECT 1 FROM users LIMIT 1");
        /// The id of the user with this address.
        pub fn find_user(email_key: &str) -> Option<UserId> = Sql::both("SELECT id FROM users WHERE email_key = $1");
        /// Whether this link still sets up the instance: it is known, and nobody was
        /// faster.
        pub fn setup_link_is_open(hash: &[u8; 32]) -> bool = Sql::both(
            "SELECT 1 FROM setup_links WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM users)");
        /// The id and password hash of whoever logs in with this address.
        pub(super) fn find_login(email_key: &str) -> Option<(UserId, String)> = Sql::both(
            "SELECT id, password_hash FROM users WHERE email_key = $1 AND disabled_at IS NULL");
        pub(super) fn password_of(user_id: UserId) -> Option<String> = Sql::both(
            "SELECT password_hash FROM users WHERE id = $1 AND disabled_at IS NULL");
        /// The workspaces of a user, the first joined first.
        pub fn memberships(user_id: UserId) -> Vec<Membership> = Sql::both(
            "SELECT w.id, w.name, m.role FROM memberships m JOIN workspaces w ON w.id = m.workspace_id
             WHERE m.user_id = $1 ORDER BY m.created_at, w.id LIMIT 1000");
        /// The addresses of a workspace's owners.
        pub fn owners(workspace_id: WorkspaceId) -> Vec<String> = Sql::both(
            "SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id AND u.disabled_at IS NULL
             WHERE m.workspace_id = $1 AND m.role = 'owner' ORDER BY u.id LIMIT 20");
    }
    INSERT_MEMBERSHIP = Sql::both(
        "INSERT INTO memberships (workspace_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)");
    /// The first of a workspace owns it.
    INSERT_OWNER_OR_MEMBER = Sql::both(
        "INSERT INTO memberships (workspace_id, user_id, role, created_at)
         SELECT $1, $2,
                CASE WHEN EXISTS (SELECT 1 FROM memberships WHERE workspace_id = $1) THEN 'member' ELSE 'owner' END,
                CAST($3 AS BIGINT)");
    SET_PASSWORD = Sql::both("UPDATE users SET password_hash = $2 WHERE email_key = $1").raising();
    CHANGE_PASSWORD = Sql::both(
        "UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2")
        .raising();
    END_SESSIONS = Sql::both(
        "DELETE FROM sessions WHERE user_id = (SELECT id FROM users WHERE email_key = $1)")
        .raising();
    END_RESET_LINKS = Sql::both(
        "DELETE FROM reset_links WHERE user_id = (SELECT id FROM users WHERE email_key = $1)");
    DISABLE_USER = Sql::both("UPDATE users SET disabled_at = $2 WHERE id = $1").raising();
    ENABLE_USER = Sql::both("UPDATE users SET disabled_at = NULL WHERE id = $1");
    REMOVE_MEMBER = Sql::both(
        "DELETE FROM memberships WHERE workspace_id = $1 AND user_id = $2")
        .raising();
    USE_SETUP_LINK = Sql::both(
        "DELETE FROM setup_links WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM users)");
}

from_row!(Workspace { id, name });
from_row!(User { id, email, created_at });
from_word!(Role);

/// Without a role, the first member of a workspace owns it.
pub fn insert_membership(workspace_id: WorkspaceId, user_id: UserId, role: Option<Role>, now: i64) -> Stmt {
    match role {
        Some(role) => INSERT_MEMBERSHIP.with([workspace_id.into(), user_id.into(), role.as_str().into(), now.into()]),
        None => INSERT_OWNER_OR_MEMBER.with([workspace_id.into(), user_id.into(), now.into()]),
    }
}

/// A person as a list shows one, with one membership.
pub struct Listed {
    pub user: User,
    pub role: String,
    pub workspace: String,
}

from_row!(Listed { user, role, workspace });

pub async fn users(db: &Db) -> Result<Vec<Listed>, DbError> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let page = users_behind(db, all.last().map_or(Uuid::nil(), |last| last.user.id.uuid())).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Gives a user another password, and ends all sessions and all links to a new one.
pub fn set_password(email_key: &str, hash: &str) -> Batch {
    let set = SET_PASSWORD.with([email_key.into(), hash.into()]).expect(1);
    Batch::from(set).and(END_SESSIONS.with([email_key.into()])).and(END_RESET_LINKS.with([email_key.into()]))
}

/// Changes a password, if it is still the one that was shown.
pub(super) fn change_password(user_id: UserId, kept: &str, hash: &str) -> Batch {
    CHANGE_PASSWORD.with([user_id.into(), kept.into(), hash.into()]).expect(1).into()
}

/// Uses up a link, and every other with it, unless somebody has an account.
pub fn use_setup_link(hash: &[u8; 32]) -> Batch {
    let used = USE_SETUP_LINK.with([hash.into()]).expect(1);
    Batch::from(take_turn()).and(used).and(delete_setup_links(i64::MAX))
}

/// Shuts a user out at once, and ends the sessions. The user's row comes first: a log-in
/// that holds it is waited for, and its session is seen.
pub(super) fn disable_user(user_id: UserId, now: i64) -> Batch {
    let disabled = DISABLE_USER.with([user_id.into(), now.into()]).expect(1);
    Batch::from(disabled).and(delete_sessions_of(user_id)).and(raise_access())
}

/// Lets a user log in again.
pub fn enable_user(user_id: UserId) -> Batch {
    ENABLE_USER.with([user_id.into()]).expect(1).into()
}

/// Takes a user out of a workspace.
pub(super) fn remove_member(workspace_id: WorkspaceId, user_id: UserId) -> Batch {
    Batch::new().and(REMOVE_MEMBER.with([workspace_id.into(), user_id.into()]).expect(1)).and(raise_access())
}

/// A workspace as one of its members sees it.
#[derive(Debug, Clone)]
pub struct Membership {
    pub workspace: Workspace,
    pub role: Role,
}

from_row!(Membership { workspace, role });
