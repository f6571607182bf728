//! Judges contacts that are due: something happened to them that filters ask for, or a window closes.

use futures_util::future::join_all;

use super::facts::{self, Questions};
use super::store::{self, DueContact};
use crate::contacts::{Contact, hold_sequence};
use crate::db::{Batch, DbError};
use crate::occurrences::Occurrences;
use crate::segments;
use crate::work::{claim_due, unless_lost};

/// How many are claimed at once.
const BATCH: usize = 100;

/// How often one is judged again that has changed meanwhile.
const ATTEMPTS: usize = 5;

/// Judges some that are due. Tells whether there were any.
pub async fn round(app: &Occurrences) -> Result<bool, DbError> {
    let claimed: Vec<DueContact> = claim_due(&app.db, &app.clock, BATCH).await?;
    for judged in join_all(claimed.iter().map(|contact| judge(app, contact))).await {
        judged?;
    }
    Ok(!claimed.is_empty())
}

async fn judge(app: &Occurrences, due: &DueContact) -> Result<(), DbError> {
    for _ in 0..ATTEMPTS {
        let listeners = app.listeners(due.workspace_id).await?;
        let filters = listeners.filters();
        let rows = app.db.read(store::contact(due.workspace_id, due.id)).await?;
        let Some(contact) = rows.first().map(Contact::read).transpose()? else {
            return unless_lost(app.db.commit(store::end(due)).await);
        };
        let questions = Questions::of(filters.iter().map(|(_, filter)| filter));
        let (now, steady) = (app.clock.now(), app.clock.steady());
        let read = facts::read(&app.db, due.workspace_id, std::slice::from_ref(&contact), &questions, now).await?;
        let Some(facts) = read.first() else { continue };
        let mut batch = Batch::new().and(hold_sequence(due.workspace_id, &contact));
        batch.lock(contact.id);
        listeners.guard().into_iter().for_each(|guard| batch.guard(guard));
        for (segment_id, filter) in filters.iter() {
            batch.push(match filter.is_met(facts) {
                true => segments::fill_in(due.workspace_id, segment_id, due.id, now),
                false => segments::take_out(due.workspace_id, segment_id, due.id),
            });
        }
        let turn = filters.iter().filter_map(|(_, filter)| filter.turns_at(facts)).min();
        batch.push(match turn {
            Some(turn) => store::settle(due, steady + (turn - now)),
            None => store::end(due),
        });
        match app.db.commit(batch).await {
            Ok(_) => return Ok(()),
            // Something has happened to it since it was read.
            Err(DbError::Unexpected { statement: 0 }) => {}
            // Something happened since it was claimed: it is due once more.
            Err(DbError::Unexpected { .. }) => return Ok(()),
            Err(DbError::Stale) => app.forget_listeners(due.workspace_id),
            Err(error) => return Err(error),
        }
    }
    // Others have a turn first.
    unless_lost(app.db.commit(store::settle(due, app.clock.steady())).await)
}
