//! What of domains is sealed in the store: keys and the addresses of relays.

use uuid::Uuid;

use super::{keys_store, store};
use crate::db::{Db, DbError, Row, Stmt};
use crate::id::DomainId;
use crate::seal::Seal;

/// Sees to it that every key and every relay is kept as it would be kept today. Tells how
/// many cannot be opened.
pub async fn reseal(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    Ok(reseal_keys(db, seal).await? + reseal_relays(db, seal).await?)
}

/// Keys behind a row of them, or the first: domain, selector, and what is kept.
pub fn keys(behind: Option<&Row>) -> Result<Stmt, DbError> {
    let (domain_id, selector) = match behind {
        Some(row) => (row.id(0)?, row.text(1)?),
        None => (Uuid::nil().into(), String::new()),
    };
    Ok(keys_store::all_keys((domain_id, &selector)))
}

/// Relays behind a row of them, or the first: domain, and what is kept.
pub fn relays(behind: Option<&Row>) -> Result<Stmt, DbError> {
    Ok(store::all_relays(behind.map_or(Ok(Uuid::nil().into()), |row| row.id(0))?))
}

async fn reseal_keys(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    let (mut unopened, mut after) = (0, (DomainId::from(Uuid::nil()), String::new()));
    loop {
        let rows = db.read(keys_store::all_keys((after.0, &after.1))).await?;
        let Some(last) = rows.last() else { return Ok(unopened) };
        after = (last.id(0)?, last.text(1)?);
        for row in &rows {
            let (domain_id, selector, kept) = (row.id(0)?, row.text(1)?, row.bytes(2)?);
            match seal.open(&kept) {
                None => unopened += 1,
                Some(key) if seal.has_key() && !seal.is_current(&kept) => {
                    db.commit(keys_store::reseal(domain_id, &selector, &kept, &seal.close(&key))).await?;
                }
                Some(_) => {}
            }
        }
    }
}

async fn reseal_relays(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    let (mut unopened, mut after) = (0, DomainId::from(Uuid::nil()));
    loop {
        let rows = db.read(store::all_relays(after)).await?;
        let Some(last) = rows.last() else { return Ok(unopened) };
        after = last.id(0)?;
        for row in &rows {
            let (id, kept) = (row.id(0)?, row.text(1)?);
            match seal.open_text(&kept) {
                None => unopened += 1,
                Some(relays) if seal.has_key() && !kept.starts_with(&seal.text_prefix()) => {
                    db.commit(store::reseal_relays(id, &kept, &seal.close_text(&relays))).await?;
                }
                Some(_) => {}
            }
        }
    }
}
