//! Guards of a group, which are sent behind it: equal ones are asked once.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::db::{Guard, Job, Stmt, guard::Learnt};

/// The distinct guards that the jobs of a group carry, and which of them each
/// job needs.
pub(super) struct Guards<'a> {
    pub stmts: Vec<&'a Stmt>,
    needed: Vec<SmallVec<[Needed; 2]>>,
}

/// A guard, by the places of its statements.
#[derive(Clone, Copy)]
struct Needed {
    shared: usize,
    particular: Option<usize>,
}

/// What the guards say of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    Yes,
    No,
    /// Only particular guards can tell, which were not asked.
    Unasked,
}

impl<'a> Guards<'a> {
    /// Shared guards, and the particular ones on demand.
    pub(super) fn of(jobs: &'a [Job], with_particular: bool) -> Guards<'a> {
        let mut stmts: Vec<&Stmt> = Vec::new();
        let mut known: HashMap<&Stmt, usize> = HashMap::new();
        let mut place = |guard: &'a Stmt| {
            *known.entry(guard).or_insert_with(|| {
                stmts.push(guard);
                stmts.len() - 1
            })
        };
        let mut needed: Vec<SmallVec<[Needed; 2]>> = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let guards = &job.batch.guards;
            // Most carry what the one before them does: to compare is cheaper than to look up.
            let alike = number
                .checked_sub(1)
                .filter(|before| !with_particular && Guard::are_shared(&jobs[*before].batch.guards, guards));
            let mut places = |guard: &'a Guard| Needed {
                shared: place(&guard.shared),
                particular: guard.basis.as_ref().filter(|_| with_particular).map(|basis| place(&basis.particular)),
            };
            needed.push(match alike {
                Some(before) => needed[before].clone(),
                None => guards.iter().map(&mut places).collect(),
            });
        }
        Guards { stmts, needed }
    }

    /// Whether all guards of a job hold, by the first columns of what they found.
    pub(super) fn let_pass(&self, job: (usize, &Job), found: &[Option<i64>], learnt: &mut Learnt) -> Passes {
        let (number, job) = job;
        for (needed, guard) in self.needed[number].iter().zip(&job.batch.guards) {
            if found[needed.shared].is_some() {
                continue;
            }
            match (&guard.basis, needed.particular) {
                (None, _) => return Passes::No,
                (Some(_), None) => return Passes::Unasked,
                (Some(basis), Some(particular)) => match found[particular] {
                    Some(number) => learnt.push(basis, number),
                    None => return Passes::No,
                },
            }
        }
        Passes::Yes
    }
}
