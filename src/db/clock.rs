//! The steady time that all processes on a store share: where it goes on after
//! a start, and that no clock which is set moves it.
//!
//! While a process runs, it counts elapsed time by itself. The store's own clock
//! (PostgreSQL's; on SQLite that of the machine) plus the row's `shift` says the
//! same to all; where it suddenly does not, that clock was set, and whoever
//! notices first changes the `shift` by as much. So processes that start later,
//! or whose machines count a little faster, join the others.

use std::time::Duration;

use super::{Db, DbError, Engine, Sql, statements};
use crate::clock::{Clock, SECOND};

/// How often the store's clock is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is written down how far time has come.
const NOTED_EVERY: i64 = 5 * SECOND;

/// Clocks that differ by more were set. What is less is made up for little by
/// little: by so much a look, unless it is too little to matter.
const TOLERANCE: i64 = SECOND;
const SLEW: i64 = SECOND / 20;
const NOISE: i64 = SECOND / 100;

statements! {
    functions {
        pub(super) fn look() = Sql::each(
            "SELECT CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER), shift, seen, stepped_at, stepped_by FROM clock",
            "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT), shift, seen, stepped_at, stepped_by
             FROM clock");
        fn note(steady: i64) = Sql::both("UPDATE clock SET seen = $1 WHERE seen < $1");
        /// Holds only as long as nobody else has noticed.
        fn shift(before: i64, after: i64, now: i64, by: i64) expects 1 = Sql::both(
            "UPDATE clock SET shift = $2, stepped_at = $3, stepped_by = $4 WHERE shift = $1");
    }
}

/// A look at the store's clock.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What it shows.
    pub shows: i64,
    /// How far this machine's clock is ahead of it; 0 where waiting for the
    /// answer may explain the difference.
    pub skew: i64,
    /// What has to be added to it to get steady time.
    pub shift: i64,
    /// When it was last found to have been set, and by how much.
    pub stepped: Option<(i64, i64)>,
    seen: i64,
    /// This process's steady time before and after the look.
    steady: (i64, i64),
}

impl Reading {
    pub async fn take(db: &Db, clock: &Clock) -> Result<Reading, DbError> {
        Reading::of(clock, db.read(look())).await
    }

    /// What the answer to [`look`] says, which is awaited here to know how long it took.
    pub(super) async fn of(
        clock: &Clock,
        answer: impl Future<Output = Result<Vec<super::Row>, DbError>>,
    ) -> Result<Reading, DbError> {
        let (wall, steady) = (clock.now(), clock.steady());
        let rows = answer.await?;
        let row = rows.first().ok_or_else(|| DbError::Broken("the table clock is empty".into()))?;
        let int = |column| row.maybe(column, super::Row::int);
        let shows = row.int(0)?;
        Ok(Reading {
            shows,
            skew: -beyond(shows, (wall, clock.now())),
            shift: row.int(1)?,
            stepped: int(3)?.zip(int(4)?),
            seen: row.int(2)?,
            steady: (steady, clock.steady()),
        })
    }

    /// How far the store's clock is behind what the store has seen.
    pub fn behind(&self) -> i64 {
        (self.seen - self.shows - self.shift.max(0)).max(0)
    }

    /// Where steady time goes on for a process that starts. A clock that is
    /// ahead of what was seen is believed, and of two ways to read it the one
    /// that fires fewer timers; one that went back is not.
    fn start(&self) -> i64 {
        let (plain, shifted) = (self.shows, self.shows + self.shift);
        let mut ways = [plain.min(shifted), plain.max(shifted)].into_iter();
        // What was seen may have been noted by a process that was a little ahead.
        ways.find(|time| *time + TOLERANCE >= self.seen).unwrap_or(self.seen).max(self.seen)
    }

    /// How far the store's clock is ahead of this process, under a shift.
    fn ahead(&self, shift: i64) -> i64 {
        beyond(self.shows + shift, self.steady)
    }
}

/// How far a value lies outside of a span.
fn beyond(value: i64, (from, to): (i64, i64)) -> i64 {
    value - value.clamp(from, to.max(from))
}

/// The clock of a process on this store, and who keeps it in step with others.
pub async fn open(db: &Db) -> Result<(Clock, Keeper), DbError> {
    let clock = Clock::system();
    let reading = Reading::take(db, &clock).await?;
    let start = reading.start();
    clock.move_steady(start - clock.steady());
    if start == reading.seen {
        // Since it was last written down how far time had come, ids were made. Only
        // here: what an id tells of time would be ahead of it after every start.
        clock.pass_ids_of(start + NOTED_EVERY + TOLERANCE);
    }
    let keeper = Keeper { db: db.clone(), clock: clock.clone(), shift: reading.shift, skew: 0 };
    Ok((clock, keeper))
}

/// Keeps a process's steady time.
pub struct Keeper {
    db: Db,
    clock: Clock,
    /// The shift as this process last knew it.
    shift: i64,
    /// The skew that was last told of.
    skew: i64,
}

impl Keeper {
    /// Looks at the store's clock for as long as the process lives.
    pub async fn keep(mut self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.look().await {
                tracing::debug!(%error, "the store's clock could not be looked at");
            }
        }
    }

    /// Compares the clocks once.
    pub async fn look(&mut self) -> Result<(), DbError> {
        let reading = Reading::take(&self.db, &self.clock).await?;
        self.tell_skew(reading.skew);
        // Processes on an SQLite file count on the same machine. They need not
        // agree over the row, and one whose clock is faked does not mislead the rest.
        let is_shared = matches!(*self.db.engine, Engine::Postgres(_));
        let shift = if is_shared { reading.shift } else { self.shift };
        let ahead = reading.ahead(shift);
        if ahead.abs() <= TOLERANCE {
            if ahead.abs() > NOISE {
                self.clock.move_steady(ahead.clamp(-SLEW, SLEW));
            }
            self.shift = shift;
        } else if ahead > 0 || shift == self.shift {
            self.absorb(&reading, shift, ahead).await?;
        } else {
            // Somebody else has settled on an earlier time. If that is wrong,
            // timers are late; the other way round they would be early.
            tracing::warn!(seconds = -ahead / SECOND, "timers go back to the time that other processes count in");
            self.clock.move_steady(ahead);
            self.shift = shift;
        }
        metrics::gauge!("posthorn_clock_shift_seconds").set(self.shift as f64 / SECOND as f64);
        let steady = self.clock.steady();
        if steady - reading.seen >= NOTED_EVERY {
            self.db.commit(note(steady)).await?;
        }
        Ok(())
    }

    /// The store's clock was set: time goes on as if it had not been.
    async fn absorb(&mut self, reading: &Reading, shift: i64, by: i64) -> Result<(), DbError> {
        let shifted = shift - by;
        match self.db.commit(self::shift(reading.shift, shifted, reading.shows, by)).await {
            Ok(_) => self.shift = shifted,
            // Another process was faster; the next look shows what it made of it.
            Err(DbError::Unexpected { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        metrics::counter!("posthorn_clock_steps_total").increment(1);
        let way = if by > 0 { "forward" } else { "back" };
        tracing::warn!(seconds = by.abs() / SECOND, way, "the store's clock was set; timers go on by elapsed time");
        Ok(())
    }

    fn tell_skew(&mut self, skew: i64) {
        metrics::gauge!("posthorn_clock_skew_seconds").set(skew as f64 / SECOND as f64);
        if (skew - self.skew).abs() <= TOLERANCE {
            return;
        }
        let seconds = skew as f64 / SECOND as f64;
        match skew.abs() > TOLERANCE {
            true => tracing::warn!(seconds, "this machine's clock is not the database's; timers go by the latter"),
            false => tracing::info!(seconds, "this machine's clock agrees with the database's again"),
        }
        self.skew = skew;
    }
}
