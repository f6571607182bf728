//! Messages in the store.

use crate::db::{DbError, Row, Sql, Stmt, Value, statements};
use crate::id::{MessageId, WorkspaceId};
use crate::web::pagination::Page;

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
    DUE = Sql::both(
        "SELECT 1 FROM messages
         WHERE due_at <= $1 AND status = 'queued' AND (lease_until IS NULL OR lease_until <= $1) LIMIT 1");
    /// The conditions stand twice: PostgreSQL asks those outside again when another process was
    /// faster with a row, and those inside not.
    CLAIM = Sql::both(
        "UPDATE messages SET attempt = attempt + 1, lease_until = $2
         WHERE due_at <= $1 AND status = 'queued' AND (lease_until IS NULL OR lease_until <= $1)
           AND id IN (SELECT id FROM messages
                      WHERE due_at <= $1 AND status = 'queued' AND (lease_until IS NULL OR lease_until <= $1)
                      ORDER BY due_at LIMIT $3)
         RETURNING id, recipient, subject, body, created_at, attempt");
    /// Each holds only as long as nobody else has claimed the message since.
    SENT = Sql::both(
        "UPDATE messages SET status = 'sent', due_at = NULL, lease_until = NULL, error = NULL
         WHERE id = $1 AND attempt = $2 AND status = 'queued'");
    LATER = Sql::both(
        "UPDATE messages SET due_at = $3, lease_until = NULL, error = $4
         WHERE id = $1 AND attempt = $2 AND status = 'queued'");
    FAILED = Sql::both(
        "UPDATE messages SET status = 'failed', due_at = NULL, lease_until = NULL, error = $3
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
    /// Which attempt this is, from 1 on: the fence against who overslept his lease.
    pub attempt: i64,
}

impl Claimed {
    pub fn read(row: &Row) -> Result<Claimed, DbError> {
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

/// Finds a row if any message waits to be delivered.
pub(super) fn due(now: i64) -> Stmt {
    DUE.with([now.into()])
}

/// Claims messages that are due; it returns them.
pub(super) fn claim(now: i64, lease_until: i64, most: i64) -> Stmt {
    CLAIM.with([now.into(), lease_until.into(), most.into()])
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
