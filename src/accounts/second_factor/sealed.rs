//! What apps that make codes share with us is sealed in the store.

use uuid::Uuid;

use super::{all_secrets, reseal_one};
use crate::db::{Db, DbError, Row, Stmt};
use crate::id::UserId;
use crate::seal::Seal;

/// Sees to it that every secret is kept as it would be kept today. Tells how many cannot be opened.
pub async fn reseal(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    let (mut unopened, mut after) = (0, UserId::from(Uuid::nil()));
    loop {
        let found: Vec<(UserId, String)> = db.query(all_secrets(after)).await?;
        let Some((last, _)) = found.last() else { return Ok(unopened) };
        after = *last;
        for (user_id, kept) in &found {
            match seal.open_text(kept) {
                None => unopened += 1,
                Some(secret) if seal.has_key() && !kept.starts_with(&seal.text_prefix()) => {
                    db.commit(reseal_one(*user_id, kept, &seal.close_text(&secret))).await?;
                }
                Some(_) => {}
            }
        }
    }
}

/// Secrets behind a row of them, or the first: user, and what is kept.
pub fn secrets(behind: Option<&Row>) -> Result<Stmt, DbError> {
    Ok(all_secrets(behind.map_or(Ok(Uuid::nil().into()), |row| row.id(0))?))
}
