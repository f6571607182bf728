//! When the mail of a broadcast is sent, and before which others.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::clock::HOUR;
use crate::db::{DbError, Row};
use crate::windows::Window;

/// Which of several broadcasts goes first: one of 9 before one of 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, ToSchema)]
#[serde(try_from = "Value")]
#[schema(as = BroadcastPriority, value_type = i64, minimum = 1, maximum = 9, example = 5)]
pub struct Priority(pub i64);

impl Default for Priority {
    fn default() -> Priority {
        Priority(5)
    }
}

impl TryFrom<Value> for Priority {
    type Error = &'static str;

    fn try_from(given: Value) -> Result<Priority, &'static str> {
        let priority = given.as_i64().filter(|priority| (1..=9).contains(priority));
        priority.map(Priority).ok_or("must be a whole number from 1 to 9")
    }
}

/// For how long those are waited for who may not get it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "Value")]
#[schema(as = BroadcastHours, value_type = i64, minimum = 1, maximum = 720, example = 72)]
pub struct Hours(pub i64);

impl TryFrom<Value> for Hours {
    type Error = &'static str;

    fn try_from(given: Value) -> Result<Hours, &'static str> {
        let hours = given.as_i64().filter(|hours| (1..=720).contains(hours));
        hours.map(Hours).ok_or("must be a whole number of hours from 1 to 720")
    }
}

/// When a broadcast is sent to its recipients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timing {
    pub send_window: Option<Window>,
    pub priority: Priority,
    pub send_within_hours: Option<Hours>,
}

impl Timing {
    /// Of three columns in a row.
    pub fn read(row: &Row, first: usize) -> Result<Timing, DbError> {
        let broken = || DbError::Broken("timing of a broadcast".into());
        let window = row.maybe(first, Row::text)?;
        Ok(Timing {
            send_window: window.map(|text| Window::stored(&text).ok_or_else(broken)).transpose()?,
            priority: Priority(row.int(first + 1)?),
            send_within_hours: row.maybe(first + 2, Row::int)?.map(Hours),
        })
    }

    /// Until when somebody is waited for, if it was begun at this moment of wall time.
    pub fn ends_at(&self, started_at: i64) -> Option<i64> {
        self.send_within_hours.map(|Hours(hours)| started_at + hours * HOUR)
    }
}
