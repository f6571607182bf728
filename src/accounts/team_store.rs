//! Members and invitations in the store.

use super::Role;
use crate::clock::Clock;
use crate::db::{Batch, Sql, Stmt, from_row, statements};
use crate::grants::{self, Reason};
use crate::id::{InvitationId, UserId, WorkspaceId};

statements! {
    functions {
        /// Comes first where owners may become fewer: two who go at once would each rely on the other. On SQLite nobody
        /// writes at once.
        fn lock_team(workspace_id: WorkspaceId) = Sql::each(
            "SELECT 1 FROM workspaces WHERE id = $1",
            "SELECT 1 FROM workspaces WHERE id = $1 FOR UPDATE");
        /// Finds its row where somebody else owns the workspace, too, or the user does not.
        fn another_owns(workspace_id: WorkspaceId, user_id: UserId) expects 1 = Sql::both(
            "UPDATE memberships SET role = role WHERE workspace_id = $1 AND user_id = $2 AND (role <> 'owner' OR EXISTS (
                 SELECT 1 FROM memberships o JOIN users u ON u.id = o.user_id AND u.disabled_at IS NULL
                 WHERE o.workspace_id = $1 AND o.user_id <> $2 AND o.role = 'owner'))");
        /// Only an owner decides about owners.
        fn is_in_reach(workspace_id: WorkspaceId, user_id: UserId, of_owner: bool) expects 1 = Sql::both(
            "UPDATE memberships SET role = role
             WHERE workspace_id = $1 AND user_id = $2 AND (CAST($3 AS BOOLEAN) OR role <> 'owner')");
        fn set_role(workspace_id: WorkspaceId, user_id: UserId, role: &str) expects 1 = Sql::both(
            "UPDATE memberships SET role = $3 WHERE workspace_id = $1 AND user_id = $2").raising();
        /// Holds as long as the user owns the workspace.
        pub(super) fn owns(workspace_id: WorkspaceId, user_id: UserId) = Sql::both(
            "SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id AND u.disabled_at IS NULL
             WHERE m.workspace_id = $1 AND m.user_id = $2 AND m.role = 'owner'");
        pub(super) fn insert_workspace(workspace_id: WorkspaceId, name: &str, now: i64) = Sql::both(
            "INSERT INTO workspaces (id, name, created_at) VALUES ($1, $2, $3)");
        /// An address is invited once: who invites it again makes a new link of it. The same form does nothing again.
        pub(super) fn invite(new: &Invitation, hash: &[u8; 32], email_key: &str, invited_by: UserId, now: i64)
            with [new.id, new.workspace_id, hash, &new.email, email_key, new.role.as_str(), invited_by, now,
                new.expires_at] expects 1 = Sql::both(
            "INSERT INTO invitations (id, workspace_id, hash, email, email_key, role, invited_by, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (workspace_id, email_key) DO UPDATE SET id = excluded.id, hash = excluded.hash,
                 role = excluded.role, invited_by = excluded.invited_by, created_at = excluded.created_at,
                 expires_at = excluded.expires_at
             WHERE invitations.id <> excluded.id");
        /// Makes a new link of an invitation that is there.
        pub(super) fn renew(new: &Invitation, hash: &[u8; 32], email_key: &str, invited_by: UserId, now: i64)
            with [new.id, new.workspace_id, hash, email_key, new.role.as_str(), invited_by, now, new.expires_at]
            expects 1 = Sql::both(
            "UPDATE invitations SET hash = $3, role = $5, invited_by = $6, created_at = $7, expires_at = $8
             WHERE id = $1 AND workspace_id = $2 AND email_key = $4");
        pub(super) fn withdraw(workspace_id: WorkspaceId, id: InvitationId) expects 1 = Sql::both(
            "DELETE FROM invitations WHERE workspace_id = $1 AND id = $2");
        /// Uses up a link, if whoever invited may still do so.
        pub(super) fn use_invitation(hash: &[u8; 32], now: i64) expects 1 = Sql::both(
            "DELETE FROM invitations WHERE hash = $1 AND expires_at > $2 AND EXISTS (
                 SELECT 1 FROM memberships inviter JOIN users u ON u.id = inviter.user_id AND u.disabled_at IS NULL
                 WHERE inviter.workspace_id = invitations.workspace_id AND inviter.user_id = invitations.invited_by
                     AND (inviter.role = 'owner' OR (inviter.role = 'admin' AND invitations.role <> 'owner')))");
        pub(super) fn delete_expired_invitations(now: i64) = Sql::both(
            "DELETE FROM invitations WHERE expires_at < $1");
    }
    reads {
        pub(super) fn members(workspace_id: WorkspaceId) -> Vec<Listed> = Sql::both(
            "SELECT u.id, u.email, m.role, m.created_at, u.disabled_at,
                 (SELECT MAX(s.seen_at) FROM sessions s WHERE s.user_id = u.id)
             FROM memberships m JOIN users u ON u.id = m.user_id
             WHERE m.workspace_id = $1 ORDER BY m.created_at, u.id LIMIT 1000");
        pub(super) fn member(workspace_id: WorkspaceId, user_id: UserId) -> Option<Listed> = Sql::both(
            "SELECT u.id, u.email, m.role, m.created_at, u.disabled_at, NULL
             FROM memberships m JOIN users u ON u.id = m.user_id
             WHERE m.workspace_id = $1 AND m.user_id = $2");
        pub(super) fn invitations(workspace_id: WorkspaceId) -> Vec<ListedInvitation> = Sql::both(
            "SELECT i.id, i.workspace_id, i.email, i.role, i.expires_at, w.name,
                 (SELECT u.email FROM users u WHERE u.id = i.invited_by)
             FROM invitations i JOIN workspaces w ON w.id = i.workspace_id
             WHERE i.workspace_id = $1 ORDER BY i.created_at DESC, i.id LIMIT 1000");
        /// The invitation that a link carries.
        pub(super) fn find_invitation(hash: &[u8; 32]) -> Option<ListedInvitation> = Sql::both(
            "SELECT i.id, i.workspace_id, i.email, i.role, i.expires_at, w.name,
                 (SELECT u.email FROM users u WHERE u.id = i.invited_by)
             FROM invitations i JOIN workspaces w ON w.id = i.workspace_id WHERE i.hash = $1");
    }
}

/// A member as the team's page shows one.
pub(super) struct Listed {
    pub id: UserId,
    pub email: String,
    pub role: Role,
    pub joined_at: i64,
    pub disabled_at: Option<i64>,
    pub seen_at: Option<i64>,
}

from_row!(Listed { id, email, role, joined_at, disabled_at, seen_at });

/// Somebody who is asked to join.
pub(super) struct Invitation {
    pub id: InvitationId,
    pub workspace_id: WorkspaceId,
    pub email: String,
    pub role: Role,
    pub expires_at: i64,
}

from_row!(Invitation { id, workspace_id, email, role, expires_at });

/// The same, with what a page tells of it.
pub(super) struct ListedInvitation {
    pub invitation: Invitation,
    pub workspace: String,
    pub invited_by: Option<String>,
}

from_row!(ListedInvitation { invitation, workspace, invited_by });

/// Where the statements of a change stand that may not find their row.
pub(super) const REACH: usize = 1;
pub(super) const LAST_OWNER: usize = 2;

/// What comes before any change of a member: whoever changes it may, and an owner is left.
fn may_change(workspace_id: WorkspaceId, user_id: UserId, by_owner: bool, stays_owner: bool) -> Batch {
    let batch = Batch::from(lock_team(workspace_id)).and(is_in_reach(workspace_id, user_id, by_owner));
    if stays_owner { batch } else { batch.and(another_owns(workspace_id, user_id)) }
}

/// Gives a member another role. Who may let in no apps any more loses those that were let in.
pub(super) fn change_role(
    workspace_id: WorkspaceId,
    user_id: UserId,
    role: Role,
    by_owner: bool,
    clock: &Clock,
) -> Batch {
    let mut batch = may_change(workspace_id, user_id, by_owner, role == Role::Owner);
    batch.push(set_role(workspace_id, user_id, role.as_str()));
    if !role.may_grant() {
        batch.append(grants::revoke_of(user_id, Some(workspace_id), Reason::UserRemoved, clock));
    }
    batch
}

/// Takes a member out, and the apps that were let in by this member.
pub(super) fn remove(workspace_id: WorkspaceId, user_id: UserId, by_owner: bool, clock: &Clock) -> Batch {
    let mut batch = may_change(workspace_id, user_id, by_owner, false);
    batch.append(super::remove_member(workspace_id, user_id, clock));
    batch
}

/// Makes another member the owner in the place of this one.
pub(super) fn transfer(workspace_id: WorkspaceId, from: UserId, to: UserId) -> Batch {
    let roles = [(to, Role::Owner), (from, Role::Admin)];
    let set = |(user_id, role): (UserId, Role)| -> Stmt { set_role(workspace_id, user_id, role.as_str()) };
    // In its place: behind the change, nobody who handed it over owns it.
    let mut batch = Batch::from(lock_team(workspace_id)).fence(owns(workspace_id, from));
    roles.map(set).into_iter().for_each(|stmt| batch.push(stmt));
    batch
}
