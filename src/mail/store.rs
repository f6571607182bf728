//! Messages in the store.

use crate::db::{DbError, Row, Sql, Stmt, Value, statements};
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
}

pub struct New<'a> {
    pub id: &'a str,
    pub workspace_id: &'a str,
    pub recipient: &'a str,
    pub subject: &'a str,
    pub body: &'a str,
    /// Kept here and not sent.
    pub captured: bool,
    pub now: i64,
}

pub fn insert(new: &New<'_>) -> Stmt {
    let (status, due_at) = if new.captured { ("captured", Value::Null) } else { ("queued", new.now.into()) };
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
    pub id: String,
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
            id: row.text(0)?,
            recipient: row.text(1)?,
            subject: row.text(2)?,
            body: row.text(3)?,
            status: row.text(4)?,
            created_at: row.int(5)?,
            error: row.maybe(6, Row::text)?,
        })
    }
}

pub fn page(workspace_id: &str, page: &Page) -> Stmt {
    let (upwards, from, rows) = page.bounds();
    let sql = if upwards { NEWER } else { OLDER };
    sql.with([workspace_id.into(), from.into(), rows.into()])
}

pub fn by_id(workspace_id: &str, id: &str) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

/// How many messages there are, counted to a bound, and when the newest came.
pub fn tally(workspace_id: &str) -> Stmt {
    TALLY.with([workspace_id.into()])
}
