//! Guards of a group: equal ones are asked once.

use super::{Job, Stmt};

/// The distinct guards that the jobs of a group carry.
pub(super) fn distinct(jobs: &[Job]) -> Vec<Stmt> {
    let mut guards: Vec<Stmt> = Vec::new();
    for guard in jobs.iter().flat_map(|job| &job.batch.guards) {
        if !guards.contains(guard) {
            guards.push(guard.clone());
        }
    }
    guards
}

/// Whether all guards of a job are among those that hold.
pub(super) fn holds(job: &Job, guards: &[Stmt], held: &[bool]) -> bool {
    job.batch.guards.iter().all(|guard| guards.iter().zip(held).any(|(asked, held)| *held && asked == guard))
}
