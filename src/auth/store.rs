//! Sessions in the store.

use crate::db::{Db, DbError, Row, Sql, Stmt, statements};
use crate::id::UserId;

statements! {
    INSERT_SESSION = Sql::both("INSERT INTO sessions (hash, user_id, created_at, seen_at) VALUES ($1, $2, $3, $3)");
    FIND_SESSION = Sql::both(
        "SELECT s.user_id, u.email, s.created_at, s.seen_at FROM sessions s
         JOIN users u ON u.id = s.user_id AND u.disabled_at IS NULL WHERE s.hash = $1");
    SEE_SESSION = Sql::both("UPDATE sessions SET seen_at = $2 WHERE hash = $1");
    DELETE_SESSION = Sql::both("DELETE FROM sessions WHERE hash = $1").raising();
    DELETE_SESSIONS_OF = Sql::both("DELETE FROM sessions WHERE user_id = $1").raising();
    SWEEP_SESSIONS = Sql::both("DELETE FROM sessions WHERE created_at < $1 OR seen_at < $2").raising();
    SESSION_STANDS = Sql::each(
        "SELECT 1 FROM sessions WHERE hash = $1",
        "SELECT 1 FROM sessions WHERE hash = $1 FOR SHARE");
}

/// A session of somebody who may still log in.
pub(super) struct StoredSession {
    pub user_id: UserId,
    pub email: String,
    pub created_at: i64,
    pub seen_at: i64,
}

pub(super) async fn find_session(db: &Db, hash: &[u8; 32]) -> Result<Option<StoredSession>, DbError> {
    let rows = db.read(FIND_SESSION.with([hash.into()])).await?;
    let read = |row: &Row| {
        Ok(StoredSession { user_id: row.id(0)?, email: row.text(1)?, created_at: row.int(2)?, seen_at: row.int(3)? })
    };
    rows.first().map(read).transpose()
}

pub(super) fn insert_session(hash: &[u8; 32], user_id: UserId, now: i64) -> Stmt {
    INSERT_SESSION.with([hash.into(), user_id.into(), now.into()])
}

pub(super) fn see_session(hash: &[u8; 32], now: i64) -> Stmt {
    SEE_SESSION.with([hash.into(), now.into()])
}

pub(super) fn delete_session(hash: &[u8; 32]) -> Stmt {
    DELETE_SESSION.with([hash.into()])
}

/// Signs a user out everywhere.
pub fn delete_sessions_of(user_id: UserId) -> Stmt {
    DELETE_SESSIONS_OF.with([user_id.into()])
}

/// A fence for what only the holder of the session may do: it has not ended.
pub fn session_stands(hash: &[u8; 32]) -> Stmt {
    SESSION_STANDS.with([hash.into()])
}

pub(super) fn sweep_sessions(created_before: i64, seen_before: i64) -> Stmt {
    SWEEP_SESSIONS.with([created_before.into(), seen_before.into()])
}
