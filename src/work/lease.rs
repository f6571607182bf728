//! Work that outlasts a commit: a lease that is renewed while it lasts.

use std::time::Duration;

use super::claim::Claimable;
use crate::clock::Clock;
use crate::db::{Db, DbError, Stmt};

/// Keeps a claim ours: `renew` moves the end of the lease, well before it is reached. Resolves
/// where another worker has claimed the row, or the lease could not be renewed; not at once, even
/// where it was lost before.
pub async fn until_lost<C: Claimable>((db, clock): (&Db, &Clock), renew: impl Fn(i64) -> Stmt) {
    let pause = Duration::from_micros(u64::try_from(C::LEASE).unwrap_or(0) / 3);
    let mut lease_until = clock.steady() + C::LEASE;
    loop {
        tokio::time::sleep(pause).await;
        let renewed = clock.steady() + C::LEASE;
        match db.commit(renew(renewed)).await {
            Ok(_) => lease_until = renewed,
            Err(DbError::Unexpected { .. }) => return,
            Err(_) if clock.steady() < lease_until => {}
            Err(_) => return,
        }
    }
}
