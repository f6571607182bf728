//! Which reports were taken that may be sent once.

use crate::clock::{DAY, HOUR};
use crate::db::{Sql, Stmt, statements};

/// How old a report may be that carries such a token: relays try again for eight hours.
pub const OLDEST: i64 = 12 * HOUR;

statements! {
    functions {
        /// Fails as a duplicate where it was sent before.
        pub(super) fn use_token(hash: &[u8; 32], now: i64) with [hash.to_vec(), now] = Sql::both(
            "INSERT INTO relay_tokens (hash, used_at) VALUES ($1, $2)");
        fn forget(before: i64) = Sql::both("DELETE FROM relay_tokens WHERE used_at < $1");
    }
}

/// Forgets what is refused for its age anyway.
pub fn sweep(now: i64) -> Stmt {
    forget(now - OLDEST - DAY)
}
