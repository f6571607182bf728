//! Conditions under which a batch is committed or a read is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::{Sql, Stmt};

/// Must hold in the same transaction, or the batch is refused as stale.
///
/// It excludes nothing: what it has seen may change before the commit. Whatever
/// must not slip through there is a [fence](super::Batch::fence).
#[derive(Debug, Clone)]
pub struct Guard {
    /// A reading statement that must find a row. Equal ones of a group are asked
    /// once, so one that everybody carries costs next to nothing.
    pub(super) shared: Stmt,
    /// What decides where that finds none.
    pub(super) basis: Option<Arc<Basis>>,
}

impl From<Stmt> for Guard {
    fn from(shared: Stmt) -> Guard {
        Guard { shared, basis: None }
    }
}

impl Guard {
    /// Whether two batches have the same shared guards.
    pub(super) fn are_shared(ones: &[Guard], others: &[Guard]) -> bool {
        ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| one.shared == other.shared)
    }
}

/// What a cached entry rests on: a number in the store that it shares with many
/// others, and that is raised whenever something is taken away from one of them.
/// Where the number has moved, the entry's own statement tells whether this one
/// still stands; it then goes on under the number of that moment.
#[derive(Debug)]
pub struct Basis {
    /// Finds a row as long as the number is the one given.
    shared: Sql,
    /// Finds a row as long as the entry stands: the number as it is now.
    pub(super) particular: Stmt,
    number: AtomicI64,
}

impl Basis {
    /// `number` was read together with the entry.
    pub fn new(shared: Sql, particular: Stmt, number: i64) -> Arc<Basis> {
        Arc::new(Basis { shared, particular, number: AtomicI64::new(number) })
    }

    pub fn guard(self: &Arc<Basis>) -> Guard {
        let number = self.number.load(Ordering::Relaxed);
        Guard { shared: self.shared.with([number.into()]), basis: Some(self.clone()) }
    }

    /// The entry was found to stand under this number, by a transaction that is
    /// committed: what one that is undone has read may never have been true.
    pub(super) fn learn(&self, number: i64) {
        self.number.fetch_max(number, Ordering::Relaxed);
    }
}

/// Entries that were found to stand, on the way to a commit.
#[derive(Default)]
pub(super) struct Learnt(Vec<(Arc<Basis>, i64)>);

impl Learnt {
    pub(super) fn push(&mut self, basis: &Arc<Basis>, number: i64) {
        self.0.push((basis.clone(), number));
    }

    /// The transaction that found them is committed.
    pub(super) fn keep(self) {
        self.0.into_iter().for_each(|(basis, number)| basis.learn(number));
    }
}
