//! Whether the mail of a broadcast goes on. Its recipients wait in a lane of their own, so one that
//! is paused is not looked at, however many they are.

use quick_cache::sync::Cache;

use super::broadcast::State;
use super::store;
use super::timing::Priority;
use crate::clock::{Clock, SECOND};
use crate::db::{Db, DbError, Row};

/// For how long it is believed that a broadcast goes on: what is stopped stops within a second.
const BELIEVED_FOR: i64 = SECOND / 10;

/// Of how many broadcasts that is remembered.
const MOST_KNOWN: usize = 1_000;

/// How many broadcasts can be on their way at the same time; others wait for these.
const MOST_LANES: i64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    GoesOn,
    Paused,
    Canceled,
}

impl Standing {
    fn read(row: &Row, column: usize) -> Result<Standing, DbError> {
        let state = row.maybe(column, Row::text)?.as_deref().and_then(State::parse);
        Ok(match state {
            Some(State::Paused) => Standing::Paused,
            Some(State::Canceled) => Standing::Canceled,
            _ => Standing::GoesOn,
        })
    }
}

/// A lane in which recipients of a broadcast wait.
#[derive(Debug, Clone, Copy)]
pub struct Lane {
    pub number: i64,
    pub standing: Standing,
    /// The higher goes first.
    pub priority: Priority,
}

/// The lanes behind one in which recipients of broadcasts wait, but for those that are paused.
pub async fn waiting(db: &Db, behind: i64) -> Result<Vec<Lane>, DbError> {
    let rows = db.read(store::lanes(behind, MOST_LANES)).await?;
    let lane = |row: &Row| {
        let priority = row.maybe(2, Row::int)?.map_or_else(Priority::default, Priority);
        Ok(Lane { number: row.int(0)?, standing: Standing::read(row, 1)?, priority })
    };
    rows.iter().map(lane).collect()
}

/// How broadcasts stand, as it was a moment ago.
pub struct Standings(Cache<i64, (Standing, i64)>);

impl Default for Standings {
    fn default() -> Standings {
        Standings(Cache::new(MOST_KNOWN))
    }
}

impl Standings {
    pub async fn of(&self, (db, clock): (&Db, &Clock), lane: i64) -> Result<Standing, DbError> {
        let now = clock.steady();
        if let Some((standing, _)) = self.0.get(&lane).filter(|(_, at)| (0..BELIEVED_FOR).contains(&(now - at))) {
            return Ok(standing);
        }
        let rows = db.read(store::state_of_lane(lane)).await?;
        let standing = rows.first().map_or(Ok(Standing::GoesOn), |row| Standing::read(row, 0))?;
        self.0.insert(lane, (standing, now));
        Ok(standing)
    }
}
