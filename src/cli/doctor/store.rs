//! What the store itself tells.

use uuid::Uuid;

use super::Finding;
use super::report::{Problem, Report};
use crate::automations;
use crate::clock::{Clock, HOUR, SECOND, rfc3339};
use crate::config::Config;
use crate::credentials;
use crate::db::{DbError, Inspection, Location, Schema};
use crate::domains;
use crate::hold::{self, Hold};
use crate::seal::{self, Seal};

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
        report.add("sealed secrets", or_unread(sealed(inspection, config).await));
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

/// Whether secrets are sealed, and whether they can be opened.
async fn sealed(inspection: &Inspection, config: &Config) -> Result<Finding, DbError> {
    let seal = match Seal::existing(config) {
        Ok(seal) => seal,
        Err(error) => return Ok(Err(Problem::failure(format!("{error:#}"), "put the key file back"))),
    };
    let (mut opened, mut unopened, mut plain) = (0, 0, 0);
    let signing = inspection.read(credentials::all_signing_keys()).await?;
    let dkim = inspection.read(domains::sealed_keys()).await?;
    for kept in signing.iter().map(|row| row.bytes(1)).chain(dkim.iter().map(|row| row.bytes(2))) {
        let kept = kept?;
        let is_plain = Seal::default().open(&kept).is_some();
        match seal.open(&kept) {
            Some(_) if !is_plain => opened += 1,
            Some(_) => plain += 1,
            None => unopened += 1,
        }
    }
    for row in inspection.read(automations::otherwise_sealed(Uuid::nil(), &seal.text_prefix())).await? {
        let kept = row.text(2)?;
        unopened += usize::from(seal.open_text(&kept).is_none());
        plain += usize::from(Seal::default().open_text(&kept).is_some());
    }
    Ok(if unopened > 0 {
        Err(Problem::failure(
            format!(
                "{unopened} secrets were sealed with another key: tokens, webhooks or mail cannot be signed with them"
            ),
            bring_back(config, opened > 0),
        ))
    } else if plain > 0 || !seal.has_key() && matches!(config.store().location, Location::Postgres(_)) {
        Err(Problem::warning(
            "whoever has a copy of the store can sign tokens: its secrets are not sealed",
            "set --secret (POSTHORN_SECRET) to what `openssl rand -base64 32` prints, and restart the server",
        ))
    } else {
        Ok("the secrets in the store are sealed and can be opened".into())
    })
}

/// How the key comes back that seals what cannot be opened. Where today's opens the rest, that one
/// came later: the key before it was in the file that no backup has.
fn bring_back(config: &Config, opens_some: bool) -> String {
    match &config.store().location {
        Location::Sqlite(store) if opens_some || (config.secret.is_none() && !seal::key_file(store).exists()) => {
            format!("put the key file that the store had back as {}", seal::old_key_file(store).display())
        }
        _ => "set --secret (POSTHORN_SECRET) to what the server had".into(),
    }
}
