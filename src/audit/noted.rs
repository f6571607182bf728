//! A batch that tells the log what it does.

use crate::db::{Batch, DbError, Effect, Stmt};

/// A batch with a note in it, and where that stands.
pub struct Noted {
    pub batch: Batch,
    pub place: Place,
}

#[derive(Debug, Clone, Copy)]
pub enum Place {
    First,
    Last,
    Nowhere,
}

impl Noted {
    /// For what takes away what the note names: behind it the name is gone.
    pub fn before(note: Stmt, batch: Batch) -> Noted {
        let mut noted = Batch::from(note);
        noted.append(batch);
        Noted { batch: noted, place: Place::First }
    }

    /// For what makes or renames what the note names.
    pub fn behind(batch: Batch, note: Stmt) -> Noted {
        Noted { batch: batch.and(note), place: Place::Last }
    }

    pub fn not_at_all(batch: Batch) -> Noted {
        Noted { batch, place: Place::Nowhere }
    }
}

impl Place {
    /// What became of the other statements, which keep their numbers.
    pub fn apart(self, settled: Result<Vec<Effect>, DbError>) -> Result<Vec<Effect>, DbError> {
        match (self, settled) {
            (Place::First, Ok(effects)) => Ok(effects.into_iter().skip(1).collect()),
            (Place::First, Err(DbError::Unexpected { statement })) => {
                Err(DbError::Unexpected { statement: statement.saturating_sub(1) })
            }
            (Place::Last, Ok(mut effects)) => {
                effects.pop();
                Ok(effects)
            }
            (_, settled) => settled,
        }
    }
}
