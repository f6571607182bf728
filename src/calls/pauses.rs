//! Who waits to be called, and who is not called for a while, in the store: all
//! processes keep to the same pauses.

use super::destinations::Pause;
use crate::db::{Sql, from_row, statements};

/// How many destinations one look returns.
pub const PAGE: usize = 200;

statements! {
    functions {
        pub fn pause(destination: &str, pause: Pause, reason: &str)
            with [destination, pause.failures, reason, pause.until] = Sql::both(
            "INSERT INTO call_pauses (destination, failures, reason, paused_until) VALUES ($1, $2, $3, $4)
             ON CONFLICT (destination) DO UPDATE
             SET failures = excluded.failures, reason = excluded.reason, paused_until = excluded.paused_until
             WHERE excluded.failures > call_pauses.failures OR excluded.paused_until > call_pauses.paused_until");
        /// Whoever moves the end of a pause makes the one call that tells how it goes on.
        pub fn probe(destination: &str, pause: Pause, until: i64)
            with [destination, pause.until, until] expects 1 = Sql::both(
            "UPDATE call_pauses SET paused_until = $3 WHERE destination = $1 AND paused_until = $2");
        pub fn end(destination: &str) = Sql::both("DELETE FROM call_pauses WHERE destination = $1");
        /// Nobody waits for them any more, and they were last tried long ago.
        pub fn sweep(until: i64) = Sql::both("DELETE FROM call_pauses WHERE paused_until < $1");
    }
}

/// Every destination of a table behind `$1` with the time at which its first row is due,
/// found in steps from one to the next: a line may be long. `$2` is how many are wanted.
macro_rules! waiting_rows {
    ($table:literal) => {
        $crate::db::Sql::both(concat!(
            "WITH RECURSIVE waiting (destination, place) AS (
                 SELECT (SELECT r.destination FROM ",
            $table,
            " r
                         WHERE r.destination > $1 AND r.destination IS NOT NULL AND r.due_at IS NOT NULL
                         ORDER BY r.destination LIMIT 1), CAST(1 AS BIGINT)
                 UNION ALL
                 SELECT (SELECT r.destination FROM ",
            $table,
            " r
                         WHERE r.destination > w.destination AND r.destination IS NOT NULL AND r.due_at IS NOT NULL
                         ORDER BY r.destination LIMIT 1), w.place + 1
                 FROM waiting w WHERE w.destination IS NOT NULL AND w.place < $2)
             SELECT w.destination,
                    (SELECT r.due_at FROM ",
            $table,
            " r WHERE r.destination = w.destination AND r.due_at IS NOT NULL
                     ORDER BY r.due_at LIMIT 1),
                    p.reason, p.failures, p.paused_until
             FROM waiting w LEFT JOIN call_pauses p ON p.destination = w.destination
             WHERE w.destination IS NOT NULL"
        ))
    };
}
pub(crate) use waiting_rows;

/// A destination that is to be called.
pub struct Waiting {
    pub destination: String,
    /// When the first of its rows is due.
    pub due_at: i64,
    /// Why the last call had no answer.
    pub reason: Option<String>,
    pub pause: Option<Pause>,
}

from_row!(Pause { failures, until });
from_row!(Waiting { destination, due_at, reason, pause });
