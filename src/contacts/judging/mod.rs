//! Who belongs into the segments that fill themselves. What a change of a contact decides is written with the change;
//! here is judged what takes a look at more: filters that are new, what happened to a contact, windows that close.

mod due;
mod facts;
mod fill;
mod preview;
mod sent;
mod store;

use tokio::sync::watch;

use crate::db::DbError;
use crate::occurrences::Occurrences;
use crate::segments;
use crate::work::{self, Next, Tasks, Worker};

pub use fill::{claim as claim_segment, step as fill_step};
pub use preview::{Preview, preview_filter, router};
pub use store::ALL;

/// Works until told to stop.
pub async fn run(app: Occurrences, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    work::run(Judging(app), clock, stopping).await;
}

struct Judging(Occurrences);

impl Worker for Judging {
    const NAME: &'static str = "segments";

    async fn round(&mut self, _: &mut Tasks) -> Result<Next, DbError> {
        match round(&self.0).await? {
            true => Ok(Next::AtOnce),
            false => Ok(Next::Due(next(&self.0).await?)),
        }
    }

    async fn woken(&self) {
        self.0.judging_waits().await;
    }
}

/// Judges some contacts that are due, and fills a segment for a while. Tells whether there was anything to do.
pub async fn round(app: &Occurrences) -> Result<bool, DbError> {
    let judged = due::round(app).await?;
    let filled = fill::round(app).await?;
    Ok(take_up_counts(app).await? || filled || judged)
}

/// How many changes of a count are taken up at once.
const TAKEN_UP: i64 = 1_000;

/// Adds what changed of how many are in segments to what was counted before. Tells whether there may be more.
async fn take_up_counts(app: &Occurrences) -> Result<bool, DbError> {
    if app.db.read(segments::has_deltas()).await?.is_empty() {
        return Ok(false);
    }
    let taken = app.db.commit(segments::take_up(TAKEN_UP)).await?;
    Ok(taken.iter().any(|effect| effect.changed == TAKEN_UP as u64))
}

async fn next(app: &Occurrences) -> Result<Option<i64>, DbError> {
    let contact = work::next_due::<store::DueContact>(&app.db).await?;
    let segment = work::next_due::<store::DueSegment>(&app.db).await?;
    Ok(contact.into_iter().chain(segment).min())
}
