//! What is counted, and how it gets into a commit.

use std::ops::AddAssign;

use smallvec::SmallVec;
use uuid::Uuid;

use super::period;
use super::store::{self, Key};
use crate::clock::Clock;
use crate::db::{Batch, Columns, DbError, FromRow, Row};
use crate::id::{BroadcastId, WorkspaceId};

/// What can happen, in the order of the columns. Of a mail to several, each recipient counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    /// A mail server was asked, and said yes or no for good; or the mail was captured.
    Sent,
    Delivered,
    DeliveryDelayed,
    BouncedPermanent,
    BouncedTransient,
    BouncedUndetermined,
    Complained,
    Suppressed,
    Failed,
    Opened,
    /// The first time that a recipient opened it.
    UniqueOpened,
    Clicked,
    UniqueClicked,
    Unsubscribed,
    /// Mail that came in.
    Received,
}

impl Counted {
    pub const ALL: [Counted; COLUMNS] = [
        Counted::Sent,
        Counted::Delivered,
        Counted::DeliveryDelayed,
        Counted::BouncedPermanent,
        Counted::BouncedTransient,
        Counted::BouncedUndetermined,
        Counted::Complained,
        Counted::Suppressed,
        Counted::Failed,
        Counted::Opened,
        Counted::UniqueOpened,
        Counted::Clicked,
        Counted::UniqueClicked,
        Counted::Unsubscribed,
        Counted::Received,
    ];

    /// A bounce by its type, as the history of a mail names it.
    pub fn bounce(kind: Option<&str>) -> Counted {
        match kind {
            Some("Permanent") => Counted::BouncedPermanent,
            Some("Transient") => Counted::BouncedTransient,
            _ => Counted::BouncedUndetermined,
        }
    }
}

const COLUMNS: usize = 15;

/// How often each of them happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([i64; COLUMNS]);

impl Counts {
    pub fn of(&self, what: Counted) -> i64 {
        self.0[what as usize]
    }

    /// Bounces of every kind.
    pub fn bounced(&self) -> i64 {
        let kinds = [Counted::BouncedPermanent, Counted::BouncedTransient, Counted::BouncedUndetermined];
        kinds.into_iter().map(|kind| self.of(kind)).sum()
    }

    pub fn add(&mut self, what: Counted, count: i64) {
        self.0[what as usize] += count;
    }

    pub(super) fn columns(&self) -> [i64; COLUMNS] {
        self.0
    }

    /// From a row of nothing else.
    pub fn read(row: &Row) -> Result<Counts, DbError> {
        Counts::of_row(row)
    }
}

impl FromRow for Counts {
    fn take(columns: &mut Columns<'_>) -> Result<Counts, DbError> {
        let mut counts = Counts::default();
        for count in &mut counts.0 {
            *count = FromRow::take(columns)?;
        }
        Ok(counts)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// What happens in one commit to the mail of one workspace.
#[derive(Default)]
pub struct Tally(SmallVec<[(String, Option<BroadcastId>, Counts); 1]>);

impl Tally {
    /// Counts something that happened to mail from a domain, perhaps to that of a broadcast.
    pub fn count(&mut self, domain: &str, broadcast_id: Option<BroadcastId>, what: Counted) {
        let is_same = |one: &&mut (String, Option<BroadcastId>, Counts)| one.0 == domain && one.1 == broadcast_id;
        match self.0.iter_mut().find(is_same) {
            Some((_, _, counts)) => counts.add(what, 1),
            None => {
                let mut counts = Counts::default();
                counts.add(what, 1);
                self.0.push((domain.to_owned(), broadcast_id, counts));
            }
        }
    }

    /// Adds what was counted to the commit that makes it true.
    pub fn add_to(self, batch: &mut Batch, workspace_id: WorkspaceId, clock: &Clock) {
        let period = period::quarter_of(clock.now());
        for (domain, broadcast_id, counts) in self.0 {
            let broadcast_id = broadcast_id.unwrap_or_else(|| Uuid::nil().into());
            let key = Key { workspace_id, period, domain, broadcast_id };
            batch.push(store::insert_delta(clock.ordered_id(), &key, &counts));
        }
    }
}
