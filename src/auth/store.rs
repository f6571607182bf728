//! Sessions in the store.

use crate::db::{Sql, from_row, statements};
use crate::id::UserId;

statements! {
    functions {
        pub(super) fn insert_session(hash: &[u8; 32], user_id: UserId, now: i64) = Sql::both(
            "INSERT INTO sessions (hash, user_id, created_at, seen_at) VALUES ($1, $2, $3, $3)");
        pub(super) fn see_session(hash: &[u8; 32], now: i64) = Sql::both(
            "UPDATE sessions SET seen_at = $2 WHERE hash = $1");
        pub(super) fn delete_session(hash: &[u8; 32]) = Sql::both("DELETE FROM sessions WHERE hash = $1").raising();
        /// Signs a user out everywhere.
        pub fn delete_sessions_of(user_id: UserId) = Sql::both("DELETE FROM sessions WHERE user_id = $1").raising();
        /// A fence for what only the holder of the session may do: it has not ended.
        pub fn session_stands(hash: &[u8; 32]) = Sql::each(
            "SELECT 1 FROM sessions WHERE hash = $1",
            "SELECT 1 FROM sessions WHERE hash = $1 FOR SHARE");
        pub(super) fn sweep_sessions(created_before: i64, seen_before: i64) = Sql::both(
            "DELETE FROM sessions WHERE created_at < $1 OR seen_at < $2").raising();
    }
    reads {
        pub(super) fn find_session(hash: &[u8; 32]) -> Option<StoredSession> = Sql::both(
            "SELECT s.user_id, u.email, s.created_at, s.seen_at FROM sessions s
             JOIN users u ON u.id = s.user_id AND u.disabled_at IS NULL WHERE s.hash = $1");
    }
}

/// A session of somebody who may still log in.
pub(super) struct StoredSession {
    pub user_id: UserId,
    pub email: String,
    pub created_at: i64,
    pub seen_at: i64,
}

from_row!(StoredSession { user_id, email, created_at, seen_at });
