//! Guards of a group: equal ones are asked once.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::{Job, Stmt};

/// The distinct guards that the jobs of a group carry, and which of them each
/// job needs.
pub(super) struct Guards<'a> {
    pub stmts: Vec<&'a Stmt>,
    needed: Vec<SmallVec<[usize; 4]>>,
}

impl<'a> Guards<'a> {
    pub(super) fn of(jobs: &'a [Job]) -> Guards<'a> {
        let mut stmts: Vec<&Stmt> = Vec::new();
        let mut known: HashMap<&Stmt, usize> = HashMap::new();
        let mut place = |guard: &'a Stmt| {
            *known.entry(guard).or_insert_with(|| {
                stmts.push(guard);
                stmts.len() - 1
            })
        };
        let needed = jobs.iter().map(|job| job.batch.guards.iter().map(&mut place).collect()).collect();
        Guards { stmts, needed }
    }

    /// Whether all guards of a job are among those that hold.
    pub(super) fn let_pass(&self, job: usize, held: &[bool]) -> bool {
        self.needed[job].iter().all(|guard| held[*guard])
    }
}
