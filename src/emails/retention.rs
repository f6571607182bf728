//! Contents that need not be kept any more.

use super::store;
use crate::app::App;
use crate::clock::{HOUR, first_id_at};
use crate::db::DbError;

/// How many mails are looked at at once.
const AT_ONCE: i64 = 200;

/// Deletes what is left of mails that were never handed in whole, and contents that are older than
/// they are kept. What happened to a mail stays.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    app.db.commit(store::sweep(first_id_at(app.clock.steady() - HOUR).into())).await?;
    let since = app.clock.now() - i64::from(app.config.mail.mail_retention) * 24 * HOUR;
    loop {
        let rows = app.db.read(store::outdated(since, AT_ONCE)).await?;
        for row in &rows {
            // One by one: a mail may have many pieces.
            app.db.commit(store::forget_content(row.id(0)?)).await?;
        }
        if (rows.len() as i64) < AT_ONCE {
            return Ok(());
        }
    }
}
