//! The hold: while it lasts, the API answers and stores, and nothing that waits in
//! the store is worked on. A restored copy is on hold until somebody says that it,
//! and not the original, is to go on.

use crate::clock::{self, Clock};
use crate::db::{Db, DbError, Sql, from_row, statements};

pub const STATEMENTS: &[&[Sql]] = &[ALL];

statements! {
    functions {
        /// Looks for the hold that is in force.
        pub fn find() = Sql::both("SELECT since, reason FROM holds WHERE id = 1");
        /// A guard for whoever claims work: stale while the store is on hold.
        pub fn absent() = Sql::both("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM holds)");
        /// A hold that lasts keeps the time at which it began.
        pub fn set(clock: &Clock, reason: &str) with [clock.now(), reason] = Sql::both(
            "INSERT INTO holds (id, since, reason) VALUES (1, $1, $2)
             ON CONFLICT (id) DO UPDATE SET reason = excluded.reason");
        /// Changes as many rows as there were holds.
        pub fn release() = Sql::both("DELETE FROM holds");
    }
}

/// Why nothing is worked on, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub since: i64,
    pub reason: String,
}

from_row!(Hold { since, reason });

impl Hold {
    /// The hold that is in force, if any.
    pub async fn find(db: &Db) -> Result<Option<Hold>, DbError> {
        db.query(find()).await
    }

    /// For people, in one sentence.
    pub fn sentence(&self) -> String {
        let (since, reason) = (clock::rfc3339(self.since), &self.reason);
        format!("On hold since {since} ({reason}): nothing is sent and no timer fires until `posthorn resume`.")
    }
}
