//! Who uses this instance: workspaces, the people in them, and the one-time
//! link that sets up the first of both.

mod accepted;
mod account;
mod audit_page;
mod device;
mod invitation;
mod letters;
mod login;
mod member;
mod password;
mod reset;
mod second_factor;
mod setup;
mod store;
mod team;
mod team_invitations;
mod team_store;
mod workspaces;

pub use device::{Device, sweep as sweep_devices};
pub use letters::Letters;
pub use second_factor::{reseal, reset as reset_second_factor, secrets as sealed_secrets};
pub use setup::new_link as new_setup_link;
pub use store::{enable_user, find_user, set_password, use_setup_link, users, workspaces};

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::ValueEnum;

pub use accepted::Accepted;
pub use member::{Duty, Look, Manage, Member, no_such_page, show_errors};
pub use store::{Listed as ListedUser, Membership, any_user, may_grant, memberships, owners};

use crate::app::{App, holds_app};
use crate::audit::{self, DoneBy, Entry};
use crate::auth::Hasher;
use crate::clock::{Clock, DAY};
use crate::db::{Batch, Db, DbError, Sql};
use crate::grants;
use crate::id::{Id, UserId, WorkspaceId};
use crate::limits::{Attempts, KeyedLimit};
use crate::text::words;

pub const STATEMENTS: &[&[Sql]] =
    &[device::ALL, reset::ALL, second_factor::ALL, second_factor::PASSKEYS, store::ALL, team_store::ALL];

/// The pages of accounts.
pub fn pages() -> Router<Accounts> {
    setup::router()
        .merge(login::router())
        .merge(reset::router())
        .merge(member::router())
        .merge(account::router())
        .merge(password::router())
        .merge(second_factor::router())
        .merge(team::router())
        .merge(team_invitations::router())
        .merge(invitation::router())
        .merge(workspaces::router())
        .merge(audit_page::router())
}

/// Forgets links that lead nowhere any more.
pub async fn sweep_links(db: &Db, now: i64) -> Result<(), DbError> {
    // Who invited somebody sees for a while that the time is over.
    let invitations = team_store::delete_expired_invitations(now - 30 * DAY);
    db.commit(Batch::from(invitations).and(reset::delete_expired(now)).and(second_factor::delete_old_challenges(now)))
        .await
        .map(drop)
}

/// What accounts need beside what all share. Clones share it.
#[derive(Clone)]
pub struct Accounts {
    app: App,
    hasher: Arc<Hasher>,
    attempts: Arc<LoginAttempts>,
    letters: Arc<dyn Letters>,
}

/// Attempts to log in that failed.
struct LoginAttempts {
    by_account: Attempts,
    by_address: Attempts,
    /// Those who ask for a way to a new password, by address of mail and by where they are.
    resets: KeyedLimit<String>,
    /// Invitations, which are letters to anybody at all, by who invites.
    invitations: KeyedLimit<UserId>,
}

holds_app!(Accounts { app: App });

impl Accounts {
    pub fn new(app: App, letters: Arc<dyn Letters>) -> Accounts {
        let attempts = LoginAttempts {
            by_account: Attempts::new(10),
            by_address: Attempts::new(50),
            resets: KeyedLimit::new(5, Duration::from_secs(3600)),
            invitations: KeyedLimit::new(100, Duration::from_secs(3600)),
        };
        Accounts { app, hasher: Arc::default(), attempts: Arc::new(attempts), letters }
    }

    /// Forgets the attempts that count no more.
    pub fn sweep_limits(&self) {
        let now = self.clock.steady();
        self.attempts.by_account.sweep(now);
        self.attempts.by_address.sweep(now);
        self.attempts.resets.sweep();
        self.attempts.invitations.sweep();
    }
}

/// The workspace that a new instance gets when nobody named one.
pub const FIRST_WORKSPACE: &str = "Default";

#[derive(Debug, Clone)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: String,
}

#[derive(Debug, Clone)]
pub struct User {
    pub id: UserId,
    pub email: String,
    pub created_at: i64,
}

words! {
    /// What a member may do in a workspace.
    #[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Role: ALL, parse {
        Member = "member",
        Admin = "admin",
        Owner = "owner",
    }
}

impl Role {
    /// Who may let an app into the workspace.
    pub fn may_grant(self) -> bool {
        self >= Role::Admin
    }
}

/// An address that identifies a person here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailAddress(String);

impl EmailAddress {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What two spellings of one address have in common.
    pub fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

impl FromStr for EmailAddress {
    type Err = String;

    fn from_str(given: &str) -> Result<EmailAddress, String> {
        let trimmed = given.trim();
        let allowed = "allowed is an address such as name@example.com, of at most 254 characters";
        let Some((local, domain)) = trimmed.rsplit_once('@') else { return Err(allowed.into()) };
        let odd = |char: char| char.is_whitespace() || char.is_control() || "<>()[],;:\"\\@".contains(char);
        let broken = local.is_empty()
            || domain.is_empty()
            || domain.starts_with(['.', '-'])
            || domain.ends_with(['.', '-'])
            || trimmed.chars().count() > 254
            || local.chars().any(odd)
            || domain.chars().any(odd);
        if broken { Err(allowed.into()) } else { Ok(EmailAddress(trimmed.to_owned())) }
    }
}

/// A password that is long enough to be one.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Password {
    type Err = String;

    fn from_str(given: &str) -> Result<Password, String> {
        match given.chars().count() {
            8..=512 => Ok(Password(given.to_owned())),
            _ => Err("a password has 8 to 512 characters".into()),
        }
    }
}

/// Why an account could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("there is a user with this address already")]
    Taken,
    #[error(transparent)]
    Store(#[from] DbError),
}

/// Finds the only workspace, or makes the first. `None` when there are several.
pub async fn only_workspace(db: &Db, clock: &Clock) -> Result<Option<Workspace>, DbError> {
    let mut workspaces = store::workspaces(db).await?;
    if workspaces.is_empty() {
        // Of several processes that try at once, one wins; all then find it.
        let workspace = Workspace { id: clock.ordered_id(), name: FIRST_WORKSPACE.into() };
        let insert = store::insert_first_workspace(&workspace, clock.now());
        let by_command = Entry::new("workspace.created", DoneBy::Command);
        let entry = Entry { target_id: Some(workspace.id.uuid()), target: &workspace.name, ..by_command };
        let note = audit::note(workspace.id, clock, &entry);
        db.commit(Batch::from(store::take_turn()).and(insert).and(note)).await?;
        workspaces = store::workspaces(db).await?;
    }
    let workspace = workspaces.pop();
    Ok(workspace.filter(|_| workspaces.is_empty()))
}

/// The statements that make a person a member of a workspace. Without a role, the
/// first owns it.
pub fn new_user(
    clock: &Clock,
    email: &EmailAddress,
    password_hash: &str,
    workspace: &Workspace,
    role: impl Into<Option<Role>>,
) -> (User, Batch) {
    let user = User { id: clock.ordered_id(), email: email.as_str().into(), created_at: clock.now() };
    let membership = store::insert_membership(workspace.id, user.id, role.into(), user.created_at);
    let inserted = store::insert_user(&user, &email.key(), password_hash);
    (user, Batch::from(store::take_turn()).and(inserted).and(membership))
}

/// Shuts a user out for good from all that was open: sessions, the apps that
/// were let in, and the keys that those made. Enabling the user revives none
/// of it.
pub fn disable_user(user_id: UserId, clock: &Clock) -> Batch {
    let mut batch = store::disable_user(user_id, clock.now());
    batch.append(grants::revoke_of(user_id, None, grants::Reason::UserDisabled, clock));
    batch
}

/// Takes a user out of a workspace, and the apps that were let in there by this user. Who
/// adds the user again revives none of it.
pub fn remove_member(workspace_id: WorkspaceId, user_id: UserId, clock: &Clock) -> Batch {
    let mut batch = store::remove_member(workspace_id, user_id);
    batch.append(grants::revoke_of(user_id, Some(workspace_id), grants::Reason::UserRemoved, clock));
    batch
}

/// Commits what [`new_user`] prepared.
pub async fn create_user(db: &Db, batch: Batch) -> Result<(), AccountError> {
    match db.commit(batch).await {
        Ok(_) => Ok(()),
        Err(DbError::Duplicate(_)) => Err(AccountError::Taken),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_a_name_and_a_domain() {
        for good in ["a@b", "first.last+tag@example.com", "ünï@exämple.com", " padded@example.com "] {
            assert!(good.parse::<EmailAddress>().is_ok(), "{good}");
        }
        for bad in ["", "a", "@b", "a@", "a b@c", "a@b c", "a@.b", "a@b.", "a@@b", "<a@b>", "a\u{0}@b", "a,b@c"] {
            assert!(bad.parse::<EmailAddress>().is_err(), "{bad:?}");
        }
    }
}
