//! Occurrences on their way into the store.

use super::{Moment, Occurrence, Whom};
use crate::db::{Sql, Stmt, statements};

/// An occurrence for the contact that the condition finds, as it is at this
/// moment; for SQLite as runs are inserted.
macro_rules! insert {
    ($insert:literal, $whom:literal) => {
        concat!(
            $insert,
            " INTO occurrences (workspace_id, id, name, contact_id, seq, payload, replay_of, created_at, heard)
             SELECT c.workspace_id, $3, $4, c.id, c.version - $5, $6, $7, CAST($8 AS BIGINT), CAST($10 AS BOOLEAN)
             FROM contacts c WHERE c.workspace_id = $1 AND c.",
            $whom,
            " = $2 AND c.version <= $9"
        )
    };
}

statements! {
    INSERT_BY_ID = Sql::each(insert!("INSERT OR FAIL", "id"), insert!("INSERT", "id"));
    INSERT_BY_EMAIL = Sql::each(insert!("INSERT OR FAIL", "email_key"), insert!("INSERT", "email_key"));
}

/// Records an occurrence; `heard` says whether runs may be woken by it.
pub fn insert(
    workspace_id: &str,
    occurrence: &Occurrence<'_>,
    (whom, moment): (Whom<'_>, Moment),
    heard: bool,
    now: i64,
) -> Stmt {
    let sql = match whom {
        Whom::Id(_) => INSERT_BY_ID,
        Whom::EmailKey(_) => INSERT_BY_EMAIL,
    };
    sql.with([
        workspace_id.into(),
        whom.key().into(),
        (&occurrence.id).into(),
        occurrence.name.into(),
        moment.behind.into(),
        (&occurrence.payload).into(),
        occurrence.replay_of.into(),
        now.into(),
        moment.newest.into(),
        heard.into(),
    ])
}
