//! The secrets of webhooks are sealed in the store.

use uuid::Uuid;

use super::store::{self, Sealed};
use crate::db::{Db, DbError, Row, Stmt};
use crate::id::WebhookId;
use crate::seal::Seal;

/// Sees to it that every secret is kept as it would be kept today. Tells how many cannot be opened.
pub async fn reseal(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    let (mut unopened, mut after) = (0, WebhookId::from(Uuid::nil()));
    loop {
        let found: Vec<Sealed> = db.query(store::secrets(after)).await?;
        let Some(last) = found.last() else { return Ok(unopened) };
        after = last.id;
        for kept in &found {
            let is_current = |text: &String| text.starts_with(&seal.text_prefix());
            let Some(secret) = seal.open_text(&kept.secret) else {
                unopened += 1;
                continue;
            };
            if seal.has_key() && !(is_current(&kept.secret) && kept.old.as_ref().is_none_or(is_current)) {
                let old = kept.old.as_ref().and_then(|old| seal.open_text(old)).map(|old| seal.close_text(&old));
                db.commit(store::reseal(kept, &seal.close_text(&secret), old)).await?;
            }
        }
    }
}

/// Secrets behind a row of them, or the first: workspace, webhook, what is kept, and what is kept of the secret before.
pub fn secrets(behind: Option<&Row>) -> Result<Stmt, DbError> {
    Ok(store::secrets(behind.map_or(Ok(Uuid::nil().into()), |row| row.id(1))?))
}
