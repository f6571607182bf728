//! How far the filling of a segment has come.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::{SECOND, first_id_at};

/// Longer than any commit takes that was prepared under the filters of before: it is not begun later than ten seconds
/// after its caller wanted it.
const SETTLING: i64 = 30 * SECOND;

/// Where the filling of a segment stands. First the events that its filter counts are gone through, one after the
/// other, then all contacts; and a while later those that somebody made meanwhile who did not know the filter yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filling {
    /// Whether all are judged, but for those few.
    pub is_settling: bool,
    /// Which of the filter's events is gone through; behind the last one, contacts are.
    pub event: usize,
    /// The last id that was gone through.
    pub after: Uuid,
    /// When it began, in steady time.
    pub began_at: i64,
}

impl Filling {
    pub fn begin(steady: i64) -> Filling {
        Filling { is_settling: false, event: 0, after: Uuid::nil(), began_at: steady }
    }

    pub fn stored(text: &str) -> Option<Filling> {
        serde_json::from_str(text).ok()
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Where it goes on behind the last row of an event, or of all contacts; `None`: it is done.
    pub fn next(&self, events: usize) -> Option<Filling> {
        let (is_settling, event) = match (self.event < events, self.is_settling) {
            (true, is_settling) => (is_settling, self.event + 1),
            (false, false) => (true, 0),
            (false, true) => return None,
        };
        let after = if is_settling { first_id_at(self.began_at - SETTLING) } else { Uuid::nil() };
        Some(Filling { is_settling, event, after, began_at: self.began_at })
    }

    /// When it goes on, in steady time.
    pub fn due_at(&self, now: i64) -> i64 {
        if self.is_settling { now.max(self.began_at + SETTLING) } else { now }
    }
}
