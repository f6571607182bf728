//! Contents that need not be kept any more.

use uuid::Uuid;

use super::state::State;
use crate::app::App;
use crate::clock::{HOUR, first_id_at};
use crate::db::{Batch, DbError, Row, Sql, statements};
use crate::id::EmailId;

statements! {
    functions {
        /// Deletes the pieces of a mail that was not handed in.
        pub fn forget_lost(id: EmailId) = Sql::both(
            "DELETE FROM email_chunks WHERE email_id = $1 AND NOT EXISTS (SELECT 1 FROM emails e WHERE e.id = $1)");
    }
    /// Mails of which there are pieces, between $1 and $2, and which of them were handed in whole.
    IN_PIECES = Sql::both(
        "SELECT DISTINCT c.email_id, e.id FROM email_chunks c LEFT JOIN emails e ON e.id = c.email_id
         WHERE c.email_id > $1 AND c.email_id < $2 ORDER BY c.email_id LIMIT $3");
    /// Mails whose contents are older than they are kept, unless they are still to be sent.
    OUTDATED = Sql::both(
        "SELECT id FROM emails e WHERE created_at < $1 AND size IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM email_recipients r WHERE r.email_id = e.id AND (r.due_at IS NOT NULL OR r.state = $2))
         ORDER BY created_at LIMIT $3");
    FORGET_CONTENT = Sql::both("UPDATE emails SET html = NULL, text = NULL, size = NULL WHERE id = $1");
    FORGET_CHUNKS = Sql::both("DELETE FROM email_chunks WHERE email_id = $1");
    FORGET_VALUES = Sql::both("DELETE FROM email_values WHERE email_id = $1");
}

/// How many mails are looked at at once.
const AT_ONCE: i64 = 200;

/// Deletes what is left of mails that were never handed in whole, and contents that are older than
/// they are kept. What happened to a mail stays.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    sweep_lost(app).await?;
    let since = app.clock.now() - i64::from(app.config.mail.mail_retention) * 24 * HOUR;
    loop {
        let rows = app.db.read(OUTDATED.with([since.into(), (State::Uncertain as i64).into(), AT_ONCE.into()])).await?;
        for row in &rows {
            // One by one: a mail may have many pieces.
            app.db.commit(forget(row.id(0)?)).await?;
        }
        if (rows.len() as i64) < AT_ONCE {
            return Ok(());
        }
    }
}

/// Looks at a few mails at a time and deletes the pieces of one in a commit: others want to write, too.
async fn sweep_lost(app: &App) -> Result<(), DbError> {
    let (mut after, before) = (Uuid::nil(), first_id_at(app.clock.steady() - HOUR));
    loop {
        let rows = app.db.read(IN_PIECES.with([after.into(), before.into(), AT_ONCE.into()])).await?;
        for row in &rows {
            after = row.id(0)?;
            if row.maybe(1, Row::id::<EmailId>)?.is_none() {
                app.db.commit(forget_lost(after.into())).await?;
            }
        }
        if (rows.len() as i64) < AT_ONCE {
            return Ok(());
        }
    }
}

fn forget(id: EmailId) -> Batch {
    let of = || [id.into()];
    Batch::new().and(FORGET_CONTENT.with(of())).and(FORGET_CHUNKS.with(of())).and(FORGET_VALUES.with(of()))
}
