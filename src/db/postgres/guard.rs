//! Guards of a group, which are sent ahead of it: equal ones are asked once.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::db::{Job, Stmt};

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
        let mut needed: Vec<SmallVec<[usize; 4]>> = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let guards = &job.batch.guards;
            // Most carry what the one before them does: to compare is cheaper than to look up.
            let alike = number.checked_sub(1).filter(|before| jobs[*before].batch.guards == *guards);
            needed.push(match alike {
                Some(before) => needed[before].clone(),
                None => guards.iter().map(&mut place).collect(),
            });
        }
        Guards { stmts, needed }
    }

    /// Whether all guards of a job are among those that hold.
    pub(super) fn let_pass(&self, job: usize, held: &[bool]) -> bool {
        self.needed[job].iter().all(|guard| held[*guard])
    }
}
