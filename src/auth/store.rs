//! Sessions in the store.

use crate::db::{Sql, from_row, statements};
use crate::id::UserId;

statements! {
    functions {
        pub(super) fn insert_session(
            hash: &[u8; 32], user_id: UserId, now: i64, address: Option<String>, agent: Option<String>,
        ) = Sql::both(
            "INSERT INTO sessions (hash, user_id, created_at, seen_at, address, agent) VALUES ($1, $2, $3, $3, $4, $5)");
        pub(super) fn see_session(hash: &[u8; 32], now: i64) = Sql::both(
            "UPDATE sessions SET seen_at = $2 WHERE hash = $1");
        pub(super) fn delete_session(hash: &[u8; 32]) = Sql::both("DELETE FROM sessions WHERE hash = $1").raising();
        /// Signs a user out everywhere.
        pub fn delete_sessions_of(user_id: UserId) = Sql::both("DELETE FROM sessions WHERE user_id = $1").raising();
        /// Signs a user out in one browser.
        pub fn delete_session_of(user_id: UserId, hash: Vec<u8>) expects 1 = Sql::both(
            "DELETE FROM sessions WHERE user_id = $1 AND hash = $2").raising();
        /// Signs a user out everywhere but here.
        pub fn delete_other_sessions(user_id: UserId, hash: &[u8; 32]) = Sql::both(
            "DELETE FROM sessions WHERE user_id = $1 AND hash <> $2").raising();
        /// A fence for what only the holder of the session may do: it has not ended.
        pub fn session_stands(hash: &[u8; 32]) = Sql::each(
            "SELECT 1 FROM sessions WHERE hash = $1",
            "SELECT 1 FROM sessions WHERE hash = $1 FOR SHARE");
        pub(super) fn sweep_sessions(created_before: i64, seen_before: i64) = Sql::both(
            "DELETE FROM sessions WHERE created_at < $1 OR seen_at < $2").raising();
    }
    reads {
        /// Where a user is signed in, the latest seen first.
        pub fn sessions_of(user_id: UserId) -> Vec<ListedSession> = Sql::both(
            "SELECT hash, created_at, seen_at, address, agent FROM sessions WHERE user_id = $1
             ORDER BY seen_at DESC, created_at DESC LIMIT 200");
        pub(super) fn find_session(hash: &[u8; 32]) -> Option<StoredSession> = Sql::both(
            "SELECT s.user_id, u.email, s.created_at, s.seen_at FROM sessions s
             JOIN users u ON u.id = s.user_id AND u.disabled_at IS NULL WHERE s.hash = $1");
    }
}

/// A session as the list of a user's shows it.
pub struct ListedSession {
    pub hash: Vec<u8>,
    pub created_at: i64,
    pub seen_at: i64,
    pub address: Option<String>,
    pub agent: Option<String>,
}

from_row!(ListedSession { hash, created_at, seen_at, address, agent });

/// A session of somebody who may still log in.
pub(super) struct StoredSession {
    pub user_id: UserId,
    pub email: String,
    pub created_at: i64,
    pub seen_at: i64,
}

from_row!(StoredSession { user_id, email, created_at, seen_at });
