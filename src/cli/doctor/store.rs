//! What the store itself tells.

use super::report::{Problem, Report};
use super::{Finding, secrets};
use crate::clock::{Clock, HOUR, SECOND, rfc3339};
use crate::config::Config;
use crate::db::{DbError, Inspection, Location, Schema};
use crate::hold::{self, Hold};

/// Clocks that differ by more than this are worth a word.
const SKEW: i64 = 2 * SECOND;

/// Tells whether the store can be read.
pub async fn examine(inspection: &Inspection, config: &Config, report: &mut Report) -> bool {
    let schema = schema(inspection).await;
    let is_known = schema.is_ok();
    report.add("schema", schema);
    if matches!(config.store().location, Location::Postgres(_)) {
        report.add("durability", or_unread(durability(inspection).await));
    }
    if is_known {
        report.add("clock", or_unread(clock(inspection).await));
        report.add("hold", or_unread(hold(inspection).await));
        report.add("sealed secrets", or_unread(secrets::examine(inspection, config).await));
    }
    is_known
}

/// Why a store cannot be opened, and what to do.
pub fn unopened(location: &Location, error: &anyhow::Error) -> Problem {
    let next = match location {
        Location::Sqlite(path) if !path.exists() => "start the server once: it makes a new store".to_owned(),
        Location::Sqlite(path) => {
            format!("check that this user may read {} and that it is an SQLite file", path.display())
        }
        Location::Postgres(_) => "check that the server runs and that --database-url names the right user, \
                                  password, host and database"
            .to_owned(),
    };
    Problem::failure(format!("{location}: {error:#}"), next)
}

pub fn or_unread(found: Result<Finding, DbError>) -> Finding {
    found.unwrap_or_else(|error| Err(Problem::failure(error.to_string(), "look at the log of the database")))
}

async fn schema(inspection: &Inspection) -> Finding {
    let found = inspection.schema().await;
    match found.map_err(|error| Problem::failure(format!("{error:#}"), "run the Posthorn that the store belongs to"))? {
        Schema::Current => Ok("the store is up to date".into()),
        Schema::Empty => Err(Problem::failure("the store is empty", "start the server once: it makes the tables")),
        Schema::Behind(missing) => Err(Problem::failure(
            format!("the store misses {missing} migrations of this version"),
            "stop the servers of the old version, then run: posthorn migrate",
        )),
    }
}

/// Whether the server keeps what it says it has committed.
async fn durability(inspection: &Inspection) -> Result<Finding, DbError> {
    let server = inspection.server().await?;
    let settings = [
        ("fsync", &server.fsync),
        ("full_page_writes", &server.full_page_writes),
        ("synchronous_commit", &server.synchronous_commit),
    ];
    let off: Vec<&str> = settings.iter().filter(|(_, value)| *value == "off").map(|(name, _)| *name).collect();
    Ok(match off.is_empty() {
        true => Ok("the server flushes what it commits".into()),
        false => Err(Problem::failure(
            format!("{} is off on the PostgreSQL server: acknowledged writes can be lost", off.join(" and ")),
            "set it to on in postgresql.conf and reload the server",
        )),
    })
}

async fn clock(inspection: &Inspection) -> Result<Finding, DbError> {
    let clock = Clock::system();
    let reading = inspection.clock(&clock).await?;
    let seconds = |span: i64| span.abs() / SECOND;
    let next = "let every machine keep its time by NTP; delays are right all the same, they count elapsed time";
    let problem = if reading.skew.abs() > SKEW {
        let way = if reading.skew > 0 { "ahead of" } else { "behind" };
        format!("this machine's clock is {} seconds {way} the database's", seconds(reading.skew))
    } else if reading.behind() > SKEW {
        format!("the clock shows a time {} seconds before what the store has seen", seconds(reading.behind()))
    } else if let Some((at, by)) = reading.stepped.filter(|(at, _)| clock.now() - at < 24 * HOUR) {
        let way = if by > 0 { "forward" } else { "back" };
        format!("the clock was set {} seconds {way} at {}", seconds(by), rfc3339(at))
    } else {
        return Ok(Ok("the clocks agree and were not set within a day".into()));
    };
    Ok(Err(Problem::warning(problem, next)))
}

/// Whether anything is sent at all.
async fn hold(inspection: &Inspection) -> Result<Finding, DbError> {
    Ok(match inspection.query::<Option<Hold>>(hold::find()).await? {
        None => Ok("what is due is worked on".into()),
        Some(hold) => {
            Err(Problem::warning(hold.sentence(), "run `posthorn resume` when this store is the one to go on"))
        }
    })
}
