//! How far a mail is, for somebody who watches it.

use serde_json::Value;

use super::state::State;
use super::store;
use crate::db::{Db, DbError, Row, Sql, statements};
use crate::id::EmailId;

/// How much of what happened is told.
const MOST_STEPS: i64 = 1000;

statements! {
    PROGRESS = Sql::both(
        "SELECT number, address, state, due_at, reason, line, attempt, dot_attempt, tries FROM email_recipients
         WHERE email_id = $1 ORDER BY number");
}

/// How far a mail is on its way to one recipient.
#[derive(Debug, Clone)]
pub struct Progress {
    pub number: i64,
    pub address: String,
    pub state: State,
    /// In steady time; `None` where nothing more is done.
    pub due_at: Option<i64>,
    /// Why it waits, or what the last server said.
    pub reason: Option<String>,
    /// Where it waits.
    pub line: String,
    /// How often it was taken up.
    pub attempt: i64,
    /// All of it was sent but the end, and no answer to that was written down yet.
    pub is_ending: bool,
    /// How many attempts came to nothing.
    pub tries: i64,
}

impl Progress {
    fn read(row: &Row) -> Result<Progress, DbError> {
        Ok(Progress {
            number: row.int(0)?,
            address: row.text(1)?,
            state: State::of(row.int(2)?).ok_or_else(|| DbError::Broken("state of a recipient".into()))?,
            due_at: row.maybe(3, Row::int)?,
            reason: row.maybe(4, Row::text)?,
            line: row.text(5)?,
            attempt: row.int(6)?,
            is_ending: row.int(7)? != 0,
            tries: row.int(8)?,
        })
    }
}

/// Something that happened to a mail.
#[derive(Debug, Clone)]
pub struct Step {
    /// As the API names it.
    pub kind: String,
    pub detail: Value,
    /// In wall time.
    pub at: i64,
}

impl Step {
    fn read(row: &Row) -> Result<Step, DbError> {
        Ok(Step {
            kind: row.text(1)?,
            detail: serde_json::from_str(&row.text(2)?).unwrap_or_default(),
            at: row.int(3)?,
        })
    }
}

/// Where a mail's recipients are, and all that happened before.
pub async fn progress(db: &Db, id: EmailId) -> Result<(Vec<Progress>, Vec<Step>), DbError> {
    // In this order: of whoever is at the end here, all steps are there.
    let recipients = db.read(PROGRESS.with([id.into()])).await?.iter().map(Progress::read).collect::<Result<_, _>>()?;
    let steps = db.read(store::events(id, MOST_STEPS)).await?.iter().map(Step::read).collect::<Result<_, _>>()?;
    Ok((recipients, steps))
}
