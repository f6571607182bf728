//! Messages that need not be kept any more.

use uuid::Uuid;

use crate::app::App;
use crate::clock::{HOUR, first_id_at};
use crate::db::{Batch, DbError, Row, Sql, statements};
use crate::id::ReceivedEmailId;

statements! {
    functions {
        /// Mails of which there are pieces, between two ids, and which of them were taken.
        fn in_pieces(after: Uuid, before: Uuid, most: i64) = Sql::both(
            "SELECT DISTINCT c.email_id, e.id FROM received_chunks c LEFT JOIN received_emails e ON e.id = c.email_id
             WHERE c.email_id > $1 AND c.email_id < $2 ORDER BY c.email_id LIMIT $3");
        fn outdated(since: i64, most: i64) = Sql::both(
            "SELECT id FROM received_emails WHERE created_at < $1 AND size IS NOT NULL ORDER BY created_at LIMIT $2");
        pub fn forget_lost(id: ReceivedEmailId) = Sql::both(
            "DELETE FROM received_chunks WHERE email_id = $1
               AND NOT EXISTS (SELECT 1 FROM received_emails e WHERE e.id = $1)");
        fn forget_content(id: ReceivedEmailId) = Sql::both(
            "UPDATE received_emails SET html = NULL, text = NULL, size = NULL WHERE id = $1");
        fn forget_chunks(id: ReceivedEmailId) = Sql::both("DELETE FROM received_chunks WHERE email_id = $1");
    }
}

/// How many mails are looked at at once.
const AT_ONCE: i64 = 200;

/// Deletes what is left of mails that were never taken, and messages that are older than they are kept. From whom
/// mail came, and when, stays.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    sweep_lost(app).await?;
    let since = app.clock.now() - i64::from(app.config.mail.mail_retention) * 24 * HOUR;
    loop {
        let rows = app.db.read(outdated(since, AT_ONCE)).await?;
        for row in &rows {
            let id = row.id(0)?;
            // One by one: a mail may have many pieces.
            app.db.commit(Batch::new().and(forget_content(id)).and(forget_chunks(id))).await?;
        }
        if (rows.len() as i64) < AT_ONCE {
            return Ok(());
        }
    }
}

async fn sweep_lost(app: &App) -> Result<(), DbError> {
    let (mut after, before) = (Uuid::nil(), first_id_at(app.clock.steady() - HOUR));
    loop {
        let rows = app.db.read(in_pieces(after, before, AT_ONCE)).await?;
        for row in &rows {
            after = row.id(0)?;
            if row.maybe(1, Row::id::<ReceivedEmailId>)?.is_none() {
                app.db.commit(forget_lost(after.into())).await?;
            }
        }
        if (rows.len() as i64) < AT_ONCE {
            return Ok(());
        }
    }
}
