//! Who changed what: a row in the same commit as the change. It keeps names, because it outlives what it tells of.

mod action;
mod noted;

pub use action::{Act, done};
pub use noted::Noted;

use std::net::IpAddr;

use uuid::Uuid;

use crate::clock::{Clock, DAY};
use crate::db::{Batch, Db, DbError, Sql, Stmt, from_row, statements};
use crate::id::{ApiKeyId, GrantId, Id, UserId, WorkspaceId};
use crate::text::words;

pub const STATEMENTS: &[&[Sql]] = &[ALL];

/// How many rows a commit forgets.
const PAGE: i64 = 500;

words! {
    /// By what right something was done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Via: ALL, parse {
        Session = "session",
        /// One that only its addressee knows: an invitation, a way to a new password, the set-up of the server.
        Link = "link",
        Key = "key",
        Grant = "grant",
        Command = "command",
    }
}

/// Who did it.
#[derive(Debug, Clone, Copy)]
pub enum DoneBy {
    Person(UserId),
    /// The same, by a link.
    LinkHolder(UserId),
    Key(ApiKeyId),
    Grant(GrantId),
    Command,
}

impl DoneBy {
    fn via(self) -> Via {
        match self {
            DoneBy::Person(_) => Via::Session,
            DoneBy::LinkHolder(_) => Via::Link,
            DoneBy::Key(_) => Via::Key,
            DoneBy::Grant(_) => Via::Grant,
            DoneBy::Command => Via::Command,
        }
    }

    fn id(self) -> Option<Uuid> {
        match self {
            DoneBy::Person(id) | DoneBy::LinkHolder(id) => Some(id.uuid()),
            DoneBy::Key(id) => Some(id.uuid()),
            DoneBy::Grant(id) => Some(id.uuid()),
            DoneBy::Command => None,
        }
    }
}

/// Something that was done.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// Such as `key.deleted`.
    pub action: &'a str,
    pub actor: DoneBy,
    pub target_id: Option<Uuid>,
    /// What the target is called; empty where the store is to be asked.
    pub target: &'a str,
    pub address: Option<IpAddr>,
}

impl<'a> Entry<'a> {
    pub fn new(action: &'a str, actor: DoneBy) -> Entry<'a> {
        Entry { action, actor, target_id: None, target: "", address: None }
    }
}

/// Names as the store knows them at this moment: of whoever did it, and of what it was done to.
macro_rules! named {
    ($from:literal) => {
        concat!(
            "INSERT INTO audit_log (workspace_id, id, created_at, action, via, actor_id, actor, target_id, target,
                 address)
             SELECT w.id, $2, CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS TEXT), $6, COALESCE(
                 (SELECT u.email FROM users u WHERE u.id = $6),
                 (SELECT k.name FROM api_keys k WHERE k.id = $6),
                 (SELECT c.name FROM oauth_grants g JOIN oauth_clients c ON c.id = g.client_id WHERE g.id = $6), ''),
                 $7, COALESCE(NULLIF(CAST($8 AS TEXT), ''),
                 (SELECT t.email FROM users t WHERE t.id = $7),
                 (SELECT t.name FROM api_keys t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT c.name FROM oauth_grants t JOIN oauth_clients c ON c.id = t.client_id
                      WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM domains t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM automations t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM broadcasts t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM templates t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM segments t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM topics t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM events t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.key FROM contact_properties t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.name FROM forms t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.endpoint FROM webhooks t WHERE t.workspace_id = w.id AND t.id = $7),
                 (SELECT t.email FROM invitations t WHERE t.workspace_id = w.id AND t.id = $7), ''),
                 CAST($9 AS TEXT)
             FROM ",
            $from
        )
    };
}

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, created_at, action, via, actor, target_id, target, address
             FROM audit_log WHERE workspace_id = $1" by "id";
    }
    functions {
        fn forget(before: i64) with [before, PAGE] = Sql::both(
            "DELETE FROM audit_log WHERE (workspace_id, id) IN
                 (SELECT workspace_id, id FROM audit_log WHERE created_at < $1 ORDER BY created_at LIMIT $2)");
    }
    INSERT = Sql::both(named!("workspaces w WHERE w.id = $1"));
    INSERT_FOR = Sql::both(named!("workspaces w JOIN memberships m ON m.workspace_id = w.id WHERE m.user_id = $1"));
    INSERT_OF_KEY = Sql::both(named!("workspaces w JOIN api_keys of ON of.workspace_id = w.id WHERE of.id = $1"));
}

/// A row as the list shows it.
pub struct Listed {
    pub id: Uuid,
    pub created_at: i64,
    pub action: String,
    pub via: String,
    pub actor: String,
    pub target_id: Option<Uuid>,
    pub target: String,
    pub address: Option<String>,
}

from_row!(Listed { id, created_at, action, via, actor, target_id, target, address });

/// The statements of a page of the list: towards older and towards newer rows.
pub const PAGES: (Sql, Sql) = (OLDER, NEWER);

/// Notes what was done in a workspace. It belongs before whatever takes away what it names.
pub fn note(workspace_id: WorkspaceId, clock: &Clock, entry: &Entry<'_>) -> Stmt {
    insert(INSERT, workspace_id.uuid(), clock, entry)
}

/// Notes what was done to an account, in every workspace of the user.
pub fn note_of_user(user_id: UserId, clock: &Clock, entry: &Entry<'_>) -> Stmt {
    insert(INSERT_FOR, user_id.uuid(), clock, entry)
}

/// Notes what was done to an API key, in its workspace.
pub fn note_of_key(key_id: ApiKeyId, clock: &Clock, action: &str, actor: DoneBy) -> Stmt {
    let entry = Entry { target_id: Some(key_id.uuid()), ..Entry::new(action, actor) };
    insert(INSERT_OF_KEY, key_id.uuid(), clock, &entry)
}

fn insert(sql: Sql, whose: Uuid, clock: &Clock, entry: &Entry<'_>) -> Stmt {
    let target: String = entry.target.chars().filter(|char| *char != '\0').take(200).collect();
    sql.with([
        whose.into(),
        clock.ordered_id::<Uuid>().into(),
        clock.now().into(),
        entry.action.into(),
        entry.actor.via().as_str().into(),
        entry.actor.id().into(),
        entry.target_id.into(),
        target.into(),
        entry.address.map(|address| address.to_canonical().to_string()).into(),
    ])
}

/// Forgets what is older than so many days.
pub async fn forget_old(db: &Db, clock: &Clock, days: u32) -> Result<(), DbError> {
    let before = clock.now() - i64::from(days) * DAY;
    loop {
        let effects = db.commit(Batch::from(forget(before))).await?;
        if effects.iter().all(|effect| effect.changed == 0) {
            return Ok(());
        }
    }
}
