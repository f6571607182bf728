//! Messages in the store.

use crate::clock::SECOND;
use crate::db::{DbError, Row, Sql, Stmt, Value, statements};
use crate::id::{MessageId, WorkspaceId};
use crate::web::Page;
use crate::work::{Claimable, InOrder, claim_rows};

statements! {
    INSERT = Sql::both(
        "INSERT INTO messages (id, workspace_id, recipient, subject, body, status, created_at, due_at, attempt)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)");
    OLDER = Sql::both(
        "SELECT id, recipient, subject, body, status, created_at, error FROM messages
         WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
    NEWER = Sql::both(
        "SELECT id, recipient, subject, body, status, created_at, error FROM messages
         WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3");
    BY_ID = Sql::both(
        "SELECT id, recipient, subject, body, status, created_at, error FROM messages
         WHERE workspace_id = $1 AND id = $2");
    TALLY = Sql::both(
        "SELECT COUNT(*), MAX(created_at) FROM
             (SELECT created_at FROM messages WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
    NEXT = Sql::both(
        "SELECT due_at FROM messages WHERE due_at IS NOT NULL AND status = 'queued' ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!(
        "messages" ("id") where "status = 'queued'" set ""
        returning "messages.id, recipient, subject, body, created_at, attempt");
    /// Each holds only as long as nobody else has claimed the message since.
    SENT = Sql::both(
        "UPDATE messages SET status = 'sent', due_at = NULL, error = NULL
         WHERE id = $1 AND attempt = $2 AND status = 'queued'");
    LATER = Sql::both(
        "UPDATE messages SET due_at = $3, error = $4
         WHERE id = $1 AND attempt = $2 AND status = 'queued'");
    RENEW = Sql::both(
        "UPDATE messages SET due_at = $3 WHERE id = $1 AND attempt = $2 AND status = 'queued'");
    FAILED = Sql::both(
        "UPDATE messages SET status = 'failed', due_at = NULL, error = $3
         WHERE id = $1 AND attempt = $2 AND status = 'queued'");
}

pub struct New<'a> {
    pub id: MessageId,
    pub workspace_id: WorkspaceId,
    pub recipient: &'a str,
    pub subject: &'a str,
    pub body: &'a str,
    /// Kept here and not sent.
    pub captured: bool,
    pub now: i64,
    /// When it is to be sent, in steady time.
    pub due_at: i64,
}

pub fn insert(new: &New<'_>) -> Stmt {
    let (status, due_at) = if new.captured { ("captured", Value::Null) } else { ("queued", new.due_at.into()) };
    INSERT.with([
        new.id.into(),
        new.workspace_id.into(),
        new.recipient.into(),
        new.subject.into(),
        new.body.into(),
        status.into(),
        new.now.into(),
        due_at,
    ])
}

/// A message as the dashboard shows it.
pub struct Stored {
    pub id: MessageId,
    pub recipient: String,
    pub subject: String,
    pub body: String,
    pub status: String,
    pub created_at: i64,
    pub error: Option<String>,
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            id: row.id(0)?,
            recipient: row.text(1)?,
            subject: row.text(2)?,
            body: row.text(3)?,
            status: row.text(4)?,
            created_at: row.int(5)?,
            error: row.maybe(6, Row::text)?,
        })
    }
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn by_id(workspace_id: WorkspaceId, id: MessageId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

/// How many messages there are, counted to a bound, and when the newest came.
pub fn tally(workspace_id: WorkspaceId) -> Stmt {
    TALLY.with([workspace_id.into()])
}

/// A message that somebody is delivering.
pub(super) struct Claimed {
    pub id: MessageId,
    pub recipient: String,
    pub subject: String,
    pub body: String,
    pub created_at: i64,
    /// Which attempt this is, from 1 on: the fence against a worker that overslept its lease.
    pub attempt: i64,
}

impl Claimable for Claimed {
    const QUEUE: &'static str = "mail";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        Ok(Claimed {
            id: row.id(0)?,
            recipient: row.text(1)?,
            subject: row.text(2)?,
            body: row.text(3)?,
            created_at: row.int(4)?,
            attempt: row.int(5)?,
        })
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

pub(super) fn renew(message: &Claimed, lease_until: i64) -> Stmt {
    RENEW.with([message.id.into(), message.attempt.into(), lease_until.into()]).expect(1)
}

pub(super) fn sent(message: &Claimed) -> Stmt {
    SENT.with([message.id.into(), message.attempt.into()]).expect(1)
}

pub(super) fn later(message: &Claimed, due_at: i64, error: &str) -> Stmt {
    LATER.with([message.id.into(), message.attempt.into(), due_at.into(), error.into()]).expect(1)
}

pub(super) fn failed(message: &Claimed, error: &str) -> Stmt {
    FAILED.with([message.id.into(), message.attempt.into(), error.into()]).expect(1)
}
