//! Fills segments whose filter is new: some contacts at a time, each commit together with how far it has come. Changes
//! of contacts go on meanwhile. One that was judged as it is no more is left alone, and judged anew.

use uuid::Uuid;

use super::facts::{self, Questions};
use super::sent;
use super::store::{self, DueSegment, Judged};
use crate::contacts::Contact;
use crate::db::{Batch, DbError};
use crate::id::{BroadcastId, Id};
use crate::occurrences::Occurrences;
use crate::segments::{Counted, EventCount, Filling};
use crate::work::{Claimable, claim_due};

/// How many contacts one commit judges: whoever wants to change one waits for it.
const CONTACTS: i64 = 200;

/// How many occurrences one commit counts.
const OCCURRENCES: i64 = 1_000;

/// After so many commits another segment has its turn.
const TURN: usize = 20;

/// Fills one segment for a while, if any is due.
pub async fn round(app: &Occurrences) -> Result<bool, DbError> {
    let Some(mut segment) = claim(app).await? else { return Ok(false) };
    for left in (0..TURN).rev() {
        match step(app, &mut segment, left == 0).await {
            Ok(true) => {}
            // The filter is another now, or somebody else fills the segment.
            Ok(false) | Err(DbError::Unexpected { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Claims a segment that is due; [`DbError::Stale`] while the store is on hold.
pub async fn claim(app: &Occurrences) -> Result<Option<DueSegment>, DbError> {
    Ok(claim_due(&app.db, &app.clock, 1).await?.pop())
}

/// Commits one step. Tells whether the next one is ours and due.
pub async fn step(app: &Occurrences, segment: &mut DueSegment, is_last: bool) -> Result<bool, DbError> {
    let asked = segment.filter.events().into_iter().filter(|event| !event.is_always_counted());
    let events: Vec<EventCount> = asked.cloned().collect();
    let (mut batch, last) = match events.get(segment.filling.event) {
        Some(event) => count(app, segment, event).await?,
        None => judge(app, segment).await?,
    };
    let to = match last {
        Some(after) => Some(Filling { after, ..segment.filling.clone() }),
        None => segment.filling.next(events.len()),
    };
    let now = app.clock.steady();
    let due_at = to.as_ref().map(|to| to.due_at(now));
    let goes_on = due_at.is_some_and(|due_at| due_at <= now) && !is_last;
    // While it goes on, the lease is renewed.
    let until = if goes_on { Some(now + DueSegment::LEASE) } else { due_at };
    batch.push(store::advance(segment, to.as_ref(), until));
    app.db.commit(batch).await?;
    segment.filling = to.unwrap_or_else(|| segment.filling.clone());
    Ok(goes_on)
}

/// Counts some of what happened. Returns the last of it; `None`: there is no more.
async fn count(app: &Occurrences, segment: &DueSegment, event: &EventCount) -> Result<(Batch, Option<Uuid>), DbError> {
    match &event.what {
        Counted::Event(name) => count_occurrences(app, segment, (name, event.key)).await,
        Counted::Broadcast(id) => count_mails(app, segment, *id).await,
        // It is counted as it happens, whether a filter asks for it or not.
        Counted::Engagement(..) => Ok((Batch::new(), None)),
    }
}

/// The same of the mails of a broadcast. They may leave long after it was made: those that somebody did not count who
/// did not know the filter yet are looked for among all of them.
async fn count_mails(
    app: &Occurrences,
    segment: &DueSegment,
    id: BroadcastId,
) -> Result<(Batch, Option<Uuid>), DbError> {
    let (workspace_id, key) = (segment.workspace_id, id.uuid());
    let (mails, last) = sent::sent_after(&app.db, (workspace_id, id), segment.filling.after, OCCURRENCES).await?;
    let (mails, mut batch) = (sent::list(&mails), Batch::new());
    if segment.filling.is_settling {
        // Contacts are not gone through once more.
        batch.push(store::judge_uncounted(workspace_id, key, &mails, app.clock.steady()));
    }
    batch.push(store::count_sent(workspace_id, key, &mails));
    Ok((batch, last))
}

async fn count_occurrences(
    app: &Occurrences,
    segment: &DueSegment,
    (name, key): (&str, Uuid),
) -> Result<(Batch, Option<Uuid>), DbError> {
    let (workspace_id, after) = (segment.workspace_id, segment.filling.after);
    let rows = app.db.read(store::occurrences_after(workspace_id, name, after, OCCURRENCES)).await?;
    let Some(last) = rows.last().map(|row| row.id::<Uuid>(0)).transpose()? else {
        return Ok((Batch::new(), None));
    };
    let mut batch = Batch::new().and(store::count_between(workspace_id, name, after, last, key));
    if segment.filling.is_settling {
        // Contacts are not gone through once more.
        batch.push(store::judge_between(workspace_id, name, after, last, app.clock.steady()));
    }
    Ok((batch, Some(last).filter(|_| rows.len() as i64 == OCCURRENCES)))
}

/// Judges some contacts. Returns the last of them; `None`: there are no more.
async fn judge(app: &Occurrences, segment: &DueSegment) -> Result<(Batch, Option<Uuid>), DbError> {
    let (workspace_id, now, steady) = (segment.workspace_id, app.clock.now(), app.clock.steady());
    let rows = app.db.read(store::contacts_after(workspace_id, segment.filling.after, CONTACTS)).await?;
    let contacts: Vec<Contact> = rows.iter().map(Contact::read).collect::<Result<_, _>>()?;
    let Some(last) = contacts.last().map(|contact| contact.id.uuid()) else { return Ok((Batch::new(), None)) };
    let questions = Questions::of(std::iter::once(&segment.filter));
    let facts = facts::read(&app.db, workspace_id, &contacts, &questions, now).await?;
    let (mut within, mut without) = (Vec::new(), Vec::new());
    for (contact, facts) in contacts.iter().zip(&facts) {
        let due_at = segment.filter.turns_at(facts).map(|turn| steady + (turn - now));
        let side = if segment.filter.is_met(facts) { &mut within } else { &mut without };
        side.push(Judged { contact, due_at });
    }
    let all = store::list(within.iter().chain(&without));
    let batch = Batch::new()
        .and(store::fill_in(workspace_id, segment.id, &store::list(&within), now))
        .and(store::take_out(workspace_id, segment.id, &store::list(&without)))
        .and(store::judge_later(workspace_id, &all, steady));
    Ok((batch, Some(last).filter(|_| contacts.len() as i64 == CONTACTS)))
}
