//! Works imports off. Any number of processes share the work: each claims an
//! import under a lease and commits some rows at a time together with how far it
//! has come, as long as the claim is still its own. So a process that dies leaves
//! an import that goes on behind the last row that is in.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;

use super::apply::{Line, Outcome, Problem, Touched, apply};
use super::csv::{self, Record, Scan};
use super::store::{self, Advance, CHUNK, Claimed};
use crate::app::App;
use crate::clock::{HOUR, SECOND, first_id_at};
use crate::contacts::contact::{Contact, email_key};
use crate::contacts::properties::Declared;
use crate::contacts::{properties_store, store as contacts};
use crate::db::{Batch, DbError};
use crate::events::occurrences::{Happenings, Moment, system};
use crate::{hold, segments, topics};

/// How often to look for imports that are due.
const POLL: Duration = Duration::from_secs(1);

/// Far longer than some rows take. A process that dies leaves its import to the
/// others for so long.
const LEASE: i64 = 20 * SECOND;

/// After so many commits another import has its turn.
const TURN: usize = 10;

/// How often rows are tried again that somebody came before.
const ATTEMPTS: usize = 40;

/// How long a row may be. What is longer is a quote that nobody closed.
const LONGEST_ROW: usize = 1 << 20;

/// How much of a file is looked at for one commit.
const MOST_BYTES: usize = 1 << 20;

/// How many rows that failed are kept with their reasons.
const MOST_PROBLEMS: usize = 100;

/// After so many looks that found nothing, what was left behind is swept.
const SWEEP_EVERY: u32 = 60;

/// Works until told to stop; what was begun is committed first.
pub async fn run(app: App, mut stopping: watch::Receiver<bool>) {
    let mut looks = 0_u32;
    while !*stopping.borrow() {
        match round(&app).await {
            Ok(true) => continue,
            // Nothing is due, or the store is on hold.
            Ok(false) | Err(DbError::Stale) => {}
            Err(error) => tracing::warn!(%error, "an import could not be gone on with"),
        }
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(SWEEP_EVERY)
            && let Err(error) = app.db.commit(store::sweep(first_id_at(app.clock.steady() - HOUR))).await
        {
            tracing::warn!(%error, "what is left of broken uploads could not be deleted");
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = stopping.changed() => {}
        }
    }
}

/// Gives one import a turn, if any is due.
pub async fn round(app: &App) -> Result<bool, DbError> {
    let Some(mut import) = claim(app).await? else { return Ok(false) };
    for _ in 0..TURN {
        match step(app, &mut import).await {
            Ok(true) => {}
            Ok(false) => return Ok(true),
            Err(error @ DbError::Broken(_)) => {
                tracing::error!(id = %import.id, %error, "an import failed");
                app.db.commit(store::end(&import, "failed", app.clock.now())).await?;
                return Ok(true);
            }
            // The lease runs out and somebody tries again, from where it stands.
            Err(error) => return Err(error),
        }
    }
    app.db.commit(store::release(&import, app.clock.steady())).await?;
    Ok(true)
}

/// Claims an import that is due; [`DbError::Stale`] while the store is on hold.
pub async fn claim(app: &App) -> Result<Option<Claimed>, DbError> {
    let now = app.clock.steady();
    // Looking costs no write; most of the time that is all there is to do.
    if app.db.read(store::due(now)).await?.is_empty() {
        return Ok(None);
    }
    let claim = Batch::from(store::claim(now, now + LEASE)).when(hold::absent());
    let effects = app.db.commit(claim).await?;
    effects.iter().flat_map(|effect| &effect.rows).next().map(Claimed::read).transpose()
}

/// Imports some rows in one commit. Tells whether there is more to do, for us.
pub async fn step(app: &App, import: &mut Claimed) -> Result<bool, DbError> {
    let declared = app.db.read(properties_store::all(import.workspace_id)).await?;
    let stretch = read(app, import, &Declared::read_all(&declared)?).await?;
    let mut most = stretch.rows.len();
    for _ in 0..ATTEMPTS {
        match commit(app, import, &stretch, most).await {
            Ok(is_done) => return Ok(!is_done),
            // The first statement is the fence: somebody else has the import now.
            Err(DbError::Unexpected { statement: 0 }) => return Ok(false),
            Err(DbError::Stale) => app.triggers.forget(import.workspace_id),
            // Somebody was faster with one of the contacts. The fewer there are, the rarer that is.
            Err(DbError::Unexpected { .. } | DbError::Duplicate(_)) => most = most.div_ceil(2),
            Err(error) => return Err(error),
        }
    }
    Err(DbError::Busy)
}

/// A place in the file, in bytes and in lines.
#[derive(Clone, Copy)]
struct Place {
    position: i64,
    line: i64,
}

/// Some rows of the file, each with the place behind it, and the place behind
/// all that was looked at.
struct Stretch {
    rows: Vec<(Line, Place)>,
    end: Place,
}

/// Reads as many rows as go into one commit.
async fn read(app: &App, import: &Claimed, declared: &[Declared]) -> Result<Stretch, DbError> {
    let (most, size) = (import.plan.rows_at_once(), CHUNK as i64);
    let mut chunk = import.position / size;
    let origin = chunk * size;
    let (mut window, mut at, mut line) = (Vec::new(), (import.position % size) as usize, import.line);
    let mut rows = Vec::new();
    while origin + (at as i64) < import.size && rows.len() < most && at < MOST_BYTES {
        let is_last = origin + window.len() as i64 >= import.size;
        let rest = window.get(at..).unwrap_or_default();
        let record = match csv::scan(rest, is_last) {
            Scan::Record(record) => record,
            Scan::More if rest.len() <= LONGEST_ROW => {
                window.extend(piece(app, import, chunk).await?);
                chunk += 1;
                // To look through a piece takes a while, and others have work, too.
                tokio::task::yield_now().await;
                continue;
            }
            Scan::More | Scan::End => too_long((import.size - origin) as usize - at),
        };
        at += record.bytes;
        let number = line;
        line += record.lines;
        let said = match record.fields {
            Ok(fields) if fields.is_empty() => continue,
            Ok(fields) => import.plan.person(&fields, declared).map_err(|error| error.message().into_owned()),
            Err(flaw) => Err(flaw.into()),
        };
        let said = said.map_err(|message| Problem { line: number, message });
        rows.push((Line { number, said }, Place { position: origin + at as i64, line }));
    }
    Ok(Stretch { rows, end: Place { position: origin + at as i64, line } })
}

/// All that is left of a file whose next row does not end in time.
fn too_long(bytes: usize) -> Record {
    let flaw = "The row is longer than 1 MiB: a quote is never closed. Nothing behind it was read.";
    Record { fields: Err(flaw), bytes, lines: 1 }
}

async fn piece(app: &App, import: &Claimed, number: i64) -> Result<Vec<u8>, DbError> {
    let rows = app.db.read(store::read_chunk(import, number)).await?;
    rows.first().ok_or_else(|| DbError::Broken("a piece of an import's file is missing".into()))?.bytes(0)
}

/// Commits the first rows of a stretch, and how far the import is then. Tells
/// whether it is done.
async fn commit(app: &App, import: &mut Claimed, stretch: &Stretch, most: usize) -> Result<bool, DbError> {
    let rows = &stretch.rows[..most];
    // Blank lines behind the last row are nobody's.
    let is_all = most == stretch.rows.len();
    let Place { position, line } = rows.last().filter(|_| !is_all).map_or(stretch.end, |(_, behind)| *behind);
    let lines: Vec<&Line> = rows.iter().map(|(line, _)| line).collect();
    let known = known(app, import, &lines).await?;
    let outcome = apply(&lines, &import.plan, &known, &app.clock);
    let mut problems = import.problems.clone();
    problems.extend(outcome.problems.iter().cloned());
    problems.truncate(MOST_PROBLEMS);
    let now = app.clock.now();
    let to = Advance {
        position,
        line,
        counts: &outcome.counts,
        problems: &problems,
        lease_until: app.clock.steady() + LEASE,
    };

    let listeners = app.triggers.of(&app.db, import.workspace_id).await?;
    let mut happenings = Happenings::new(import.workspace_id, &listeners, &app.clock, now);
    happenings.batch.push(store::advance(import, &to));
    fill(&mut happenings, import, &outcome, now);
    let is_done = position >= import.size;
    if is_done {
        happenings.batch.append(store::end(import, "completed", now));
    }
    let (batch, aftermath) = happenings.aftermath();
    let effects = app.db.commit(batch).await?;
    app.wake_workers_if(aftermath.is_urgent(&effects));
    (import.position, import.line, import.problems) = (position, line, problems);
    Ok(is_done)
}

/// The contacts that rows name and that are there, by address.
async fn known(app: &App, import: &Claimed, lines: &[&Line]) -> Result<HashMap<String, Contact>, DbError> {
    let key = |line: &&Line| line.said.as_ref().ok().map(|person| person.email.key());
    let keys: Vec<String> = lines.iter().filter_map(key).collect();
    let rows = app.db.read(store::contacts(import.workspace_id, &keys)).await?;
    rows.iter().map(|row| Contact::read(row).map(|contact| (email_key(&contact.email), contact))).collect()
}

/// What the rows do, and what is told of it. A segment or topic that was deleted
/// meanwhile is left out.
fn fill(happenings: &mut Happenings<'_>, import: &Claimed, outcome: &Outcome, now: i64) {
    let workspace = &import.workspace_id;
    for Touched { contact, is_new, is_changed } in &outcome.touched {
        if *is_new {
            happenings.batch.push(contacts::insert(*workspace, contact));
        } else if *is_changed {
            happenings.batch.push(contacts::replace(*workspace, contact, now));
        }
        for segment_id in &import.plan.segment_ids {
            happenings.batch.push(segments::store::add(*workspace, *segment_id, contact.id, now));
        }
        for choice in &import.plan.choices {
            happenings.batch.push(topics::store::choose(*workspace, contact.id, choice));
        }
        if *is_new {
            happenings.tell(system::CONTACT_CREATED, contact.id, &contact.json(), Moment::BIRTH);
        } else if *is_changed {
            let told = Contact { updated_at: Some(now), ..contact.clone() };
            happenings.tell(system::CONTACT_UPDATED, contact.id, &told.json(), Moment::NOW);
        }
    }
}
