//! The guards of a group: equal ones are asked once, until a batch of the group
//! takes away what they look for.

use std::collections::HashMap;

use super::writer::WriteConnection;
use crate::db::{Guard, Job, Stmt, guard::Learnt};

/// What a group knows of its guards.
#[derive(Default)]
pub(super) struct Verdicts {
    /// The first column of the row that each found, if one did.
    asked: HashMap<Stmt, Option<i64>>,
    /// The last batch whose shared guards held.
    held: Option<usize>,
    pub learnt: Learnt,
}

impl Verdicts {
    /// Whether all guards of a batch hold.
    pub(super) fn let_pass(
        &mut self,
        writer: &mut WriteConnection<'_>,
        group: &[Job],
        number: usize,
    ) -> rusqlite::Result<bool> {
        let guards = &group[number].batch.guards;
        if self.is_held(group, number) {
            return Ok(true);
        }
        let mut unmoved = true;
        for guard in guards {
            if self.ask(writer, &guard.shared)?.is_some() {
                continue;
            }
            unmoved = false;
            let Some(basis) = &guard.basis else { return Ok(false) };
            let Some(number) = self.ask(writer, &basis.particular)? else { return Ok(false) };
            self.learnt.push(basis, number);
        }
        if unmoved {
            self.held = Some(number);
        }
        Ok(true)
    }

    /// Whether a batch carries the guards of the last one whose guards held, as most
    /// do: to compare is cheaper than to look up.
    pub(super) fn is_held(&self, group: &[Job], number: usize) -> bool {
        let guards = &group[number].batch.guards;
        self.held.is_some_and(|before| Guard::are_shared(&group[before].batch.guards, guards))
    }

    /// What guards said may be true no longer.
    pub(super) fn forget(&mut self) {
        self.asked.clear();
        self.held = None;
    }

    fn ask(&mut self, writer: &mut WriteConnection<'_>, stmt: &Stmt) -> rusqlite::Result<Option<i64>> {
        if let Some(found) = self.asked.get(stmt) {
            return Ok(*found);
        }
        let effect = writer.run(stmt.sql.sqlite, &stmt.params)?;
        let found = effect.rows.first().map(|row| row.int(0).unwrap_or_default());
        self.asked.insert(stmt.clone(), found);
        Ok(found)
    }
}
