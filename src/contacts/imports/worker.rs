//! Works imports off. Some rows at a time are committed together with how far the
//! import has come, as long as the claim is still the worker's own. So a process
//! that dies leaves an import that goes on behind the last row that is in.

use std::collections::HashMap;

use tokio::sync::watch;
use uuid::Uuid;

use super::apply::{Line, Outcome, Problem, Touched, apply};
use super::store::{self, Advance, CHUNK, Claimed};
use crate::clock::{HOUR, first_id_at};
use crate::contacts::{
    contact::Contact, contact::email_key, properties::Declared, properties_store, write, write::UnsubscribedBy,
};
use crate::csv::{self, Record, Scan};
use crate::db::DbError;
use crate::id::{ContactId, TopicId, WorkspaceId};
use crate::occurrences::{OccurrenceBatch, Occurrences};
use crate::topics::Subscription;
use crate::work::{self, Claimable, Next, Tasks, Worker};

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

/// Works until told to stop.
pub async fn run(app: Occurrences, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    work::run(Imports { app, last: Uuid::nil().into() }, clock, stopping).await;
}

struct Imports {
    app: Occurrences,
    /// The workspace whose import had the last turn; nobody's id before the first.
    last: WorkspaceId,
}

impl Worker for Imports {
    const NAME: &'static str = "imports";

    async fn round(&mut self, _: &mut Tasks) -> Result<Next, DbError> {
        Ok(if round(&self.app, &mut self.last).await? { Next::AtOnce } else { Next::Due(None) })
    }
}

/// How many pieces one commit deletes: others want to write, too.
const SWEPT_AT_ONCE: u64 = 64;

/// Deletes what is left of uploads that broke off.
pub async fn sweep(app: &Occurrences) -> Result<(), DbError> {
    let oldest = first_id_at(app.clock.steady() - HOUR);
    while app.db.commit(store::sweep(oldest, SWEPT_AT_ONCE)).await?.iter().any(|swept| swept.changed == SWEPT_AT_ONCE) {
    }
    Ok(())
}

/// Gives one import a turn, if any is due: of another workspace than the last one,
/// where there is one.
pub async fn round(app: &Occurrences, last: &mut WorkspaceId) -> Result<bool, DbError> {
    let Some(mut import) = claim(app, *last).await? else { return Ok(false) };
    *last = import.workspace_id;
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

/// Claims an import that is due, of the workspace next behind the last one;
/// [`DbError::Stale`] while the store is on hold.
pub async fn claim(app: &Occurrences, last: WorkspaceId) -> Result<Option<Claimed>, DbError> {
    Ok(work::claim_due_with(&app.db, &app.clock, 1, [last.into()]).await?.pop())
}

/// Imports some rows in one commit. Tells whether there is more to do, for us.
pub async fn step(app: &Occurrences, import: &mut Claimed) -> Result<bool, DbError> {
    let declared = app.db.read(properties_store::all(import.workspace_id)).await?;
    let stretch = read(app, import, Declared::read_all(&declared)?).await?;
    let mut most = stretch.rows.len();
    for _ in 0..ATTEMPTS {
        match commit(app, import, &stretch, most).await {
            Ok(is_done) => return Ok(!is_done),
            // The first statement is the fence: somebody else has the import now.
            Err(DbError::Unexpected { statement: 0 }) => return Ok(false),
            Err(DbError::Stale) => app.forget_listeners(import.workspace_id),
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
    /// The properties that were declared when the rows were read.
    declared: Vec<Declared>,
}

/// Reads as many rows as go into one commit.
async fn read(app: &Occurrences, import: &Claimed, declared: Vec<Declared>) -> Result<Stretch, DbError> {
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
            Ok(fields) => import.plan.person(&fields, &declared).map_err(|error| error.message().into_owned()),
            Err(flaw) => Err(flaw.into()),
        };
        let said = said.map_err(|message| Problem { line: number, message });
        rows.push((Line { number, said }, Place { position: origin + at as i64, line }));
    }
    Ok(Stretch { rows, end: Place { position: origin + at as i64, line }, declared })
}

/// All that is left of a file whose next row does not end in time.
fn too_long(bytes: usize) -> Record {
    let flaw = "The row is longer than 1 MiB: a quote is never closed. Nothing behind it was read.";
    Record { fields: Err(flaw), bytes, lines: 1 }
}

async fn piece(app: &Occurrences, import: &Claimed, number: i64) -> Result<Vec<u8>, DbError> {
    let rows = app.db.read(store::read_chunk(import, number)).await?;
    rows.first().ok_or_else(|| DbError::Broken("a piece of an import's file is missing".into()))?.bytes(0)
}

/// Commits the first rows of a stretch, and how far the import is then. Tells
/// whether it is done.
async fn commit(app: &Occurrences, import: &mut Claimed, stretch: &Stretch, most: usize) -> Result<bool, DbError> {
    let rows = &stretch.rows[..most];
    // Blank lines behind the last row are nobody's.
    let is_all = most == stretch.rows.len();
    let Place { position, line } = rows.last().filter(|_| !is_all).map_or(stretch.end, |(_, behind)| *behind);
    let lines: Vec<&Line> = rows.iter().map(|(line, _)| line).collect();
    let known = known(app, import, &lines).await?;
    let opted_in = opted_in(app, import, &lines).await?;
    let outcome = apply(&lines, (&import.plan, &stretch.declared), &known, &app.clock);
    let mut problems = import.problems.clone();
    problems.extend(outcome.problems.iter().cloned());
    problems.truncate(MOST_PROBLEMS);
    let now = app.clock.now();
    let to = Advance {
        position,
        line,
        counts: &outcome.counts,
        problems: &problems,
        lease_until: app.clock.steady() + Claimed::LEASE,
    };

    let listeners = app.listeners(import.workspace_id).await?;
    let mut occurrences = OccurrenceBatch::new(import.workspace_id, &listeners, &app.clock, now);
    occurrences.batch.push(store::advance(import, &to));
    fill(&mut occurrences, import, &outcome, &opted_in);
    let is_done = position >= import.size;
    if is_done {
        occurrences.batch.append(store::end(import, "completed", now));
    }
    let (batch, follow_up) = occurrences.follow_up();
    let effects = app.db.commit(batch).await?;
    app.wake_workers_if(follow_up.is_urgent(&effects));
    app.wake_judges_if(follow_up.judges());
    (import.position, import.line, import.problems) = (position, line, problems);
    Ok(is_done)
}

/// The contacts that rows name and that are there, by address.
async fn known(app: &Occurrences, import: &Claimed, lines: &[&Line]) -> Result<HashMap<String, Contact>, DbError> {
    let rows = app.db.read(store::contacts(import.workspace_id, &keys(lines))).await?;
    rows.iter().map(|row| Contact::read(row).map(|contact| (email_key(&contact.email), contact))).collect()
}

/// Which of the topics that the import opts contacts out of they want mail about by now.
async fn opted_in(
    app: &Occurrences,
    import: &Claimed,
    lines: &[&Line],
) -> Result<HashMap<ContactId, Vec<TopicId>>, DbError> {
    let out = import.plan.choices.iter().filter(|choice| choice.subscription == Subscription::OptOut);
    let topic_ids: Vec<TopicId> = out.map(|choice| choice.topic_id).collect();
    let mut opted_in: HashMap<ContactId, Vec<TopicId>> = HashMap::new();
    if topic_ids.is_empty() {
        return Ok(opted_in);
    }
    for row in app.db.read(store::opted_in(import.workspace_id, &keys(lines), &topic_ids)).await? {
        opted_in.entry(row.id(0)?).or_default().push(row.id(1)?);
    }
    Ok(opted_in)
}

/// The addresses that rows name.
fn keys(lines: &[&Line]) -> Vec<String> {
    lines.iter().filter_map(|line| line.said.as_ref().ok().map(|person| person.email.key())).collect()
}

/// What the rows do, and what is told of it. A segment or topic that was deleted
/// meanwhile is left out.
fn fill(
    occurrences: &mut OccurrenceBatch<'_>,
    import: &Claimed,
    outcome: &Outcome,
    opted_in: &HashMap<ContactId, Vec<TopicId>>,
) {
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    let tied = (&*import.plan.segment_ids, &*import.plan.choices);
    for Touched { contact, before } in &outcome.touched {
        let Some(before) = before else {
            write::create(occurrences, contact, write::ties(workspace_id, contact, tied, now));
            continue;
        };
        let opted_out = opted_in.get(&contact.id).map_or(&[][..], Vec::as_slice);
        if contact != before {
            write::update(occurrences, before, contact, UnsubscribedBy::Import);
        } else if !opted_out.is_empty() {
            // What it wanted by then is what it wants still, or it would be told twice.
            occurrences.batch.push(write::hold_sequence(workspace_id, before));
        }
        write::tie(occurrences, contact, tied, opted_out, UnsubscribedBy::Import);
    }
}
