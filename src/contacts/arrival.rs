//! Contacts as occurrences meet them: known by id, or by an address that may be
//! new. Either way the contact's version counts what happens to it, and the row
//! is locked until the commit, so what happens to one contact has an order.

use super::contact::Email;
use crate::db::{Sql, Stmt, Value, statements};
use crate::id::{ContactId, WorkspaceId};

/// The version of a contact that was made a moment ago, in the same commit.
pub const NEW: i64 = 2;

/// How a statement finds the contact that something happens to.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Whom<'a> {
    Id(ContactId),
    EmailKey(&'a str),
}

impl Whom<'_> {
    pub fn value(self) -> Value {
        match self {
            Whom::Id(id) => id.into(),
            Whom::EmailKey(key) => key.into(),
        }
    }
}

statements! {
    MEET = Sql::both(
        "INSERT INTO contacts (workspace_id, id, email, email_key, unsubscribed, properties, version, created_at)
         VALUES ($1, $2, $3, $4, $5, '{}', 2, $6)
         ON CONFLICT (workspace_id, email_key) DO UPDATE SET version = contacts.version + 1");
    TOUCH = Sql::both("UPDATE contacts SET version = version + 1 WHERE workspace_id = $1 AND id = $2");
    HOLD = Sql::both("UPDATE contacts SET version = version WHERE workspace_id = $1 AND id = $2 AND version = $3");
}

/// Something happens to whoever has this address, of which `key` is the key; a
/// contact is made where nobody has it.
pub fn meet(workspace_id: WorkspaceId, (email, key): (&Email, &str), new_id: ContactId, now: i64) -> Stmt {
    MEET.with([workspace_id.into(), new_id.into(), email.as_str().into(), key.into(), false.into(), now.into()])
}

/// Something happens to a contact that must be there.
pub fn touch(workspace_id: WorkspaceId, id: ContactId) -> Stmt {
    TOUCH.with([workspace_id.into(), id.into()]).expect(1)
}

/// Nothing has happened to a contact since it had this version, and nothing
/// will before the commit.
pub fn hold(workspace_id: WorkspaceId, id: ContactId, version: i64) -> Stmt {
    HOLD.with([workspace_id.into(), id.into(), version.into()]).expect(1)
}
