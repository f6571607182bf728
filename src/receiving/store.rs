//! Received mail in the store.

use super::email::{NewReceived, Stored};
use crate::db::{Db, DbError, Sql, Stmt, statements};
use crate::id::{ReceivedEmailId, WorkspaceId};
use crate::web::Page;

/// How large a piece of a message is.
pub const CHUNK: usize = 256 << 10;

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, created_at, sender, subject, message_id, envelope, size
             FROM received_emails WHERE workspace_id = $1" by "id";
    }
    functions {
        pub fn by_id(workspace_id: WorkspaceId, id: ReceivedEmailId) = Sql::both(
            "SELECT id, created_at, sender, subject, message_id, envelope, size, html, text
             FROM received_emails WHERE workspace_id = $1 AND id = $2");
        pub fn add_chunk(id: ReceivedEmailId, number: i64, bytes: &[u8]) = Sql::both(
            "INSERT INTO received_chunks (email_id, number, bytes) VALUES ($1, $2, $3)");
        pub fn chunk(id: ReceivedEmailId, number: i64) = Sql::both(
            "SELECT bytes FROM received_chunks WHERE email_id = $1 AND number = $2");
    }
    reads {
        /// One, whoever it belongs to.
        fn find(id: ReceivedEmailId) -> Option<Stored> = Sql::both(
            "SELECT id, created_at, sender, subject, message_id, envelope, size, html, text
             FROM received_emails WHERE id = $1");
    }
    INSERT = Sql::both(
        "INSERT INTO received_emails (id, workspace_id, domain_id, created_at, digest, sender, subject, message_id,
             envelope, html, text, size)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING");
}

/// Adds a mail. Where it was brought before, the batch fails here.
pub fn insert(new: &NewReceived, now: i64) -> Stmt {
    let insert = INSERT.with([
        new.id.into(),
        new.workspace_id.into(),
        new.domain_id.into(),
        now.into(),
        (&new.digest[..]).into(),
        (&new.shown.from).into(),
        (&new.shown.subject).into(),
        (&new.message_id).into(),
        serde_json::to_string(&new.envelope).unwrap_or_default().into(),
        new.html.as_ref().into(),
        new.text.as_ref().into(),
        (new.size as i64).into(),
    ]);
    insert.expect(1)
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// A mail that somebody has a link to.
pub async fn load(db: &Db, id: ReceivedEmailId) -> Result<Option<Stored>, DbError> {
    find(db, id).await
}
