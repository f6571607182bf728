//! Work that outlasts a commit: a lease that is renewed while it lasts, and an end
//! that gets into the store.

use std::time::Duration;

use super::claim::Claimable;
use crate::clock::Clock;
use crate::db::{Db, DbError, Stmt};

/// How often to try to write down what became of something, which otherwise would
/// be done again.
const TRIES: u32 = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// Does work for as long as the claim is ours: `renew` moves the end of the lease,
/// well before it is reached. `None` where another worker has claimed the row, or
/// the lease could not be renewed: the work was dropped where it stood.
pub async fn under_lease<C: Claimable, T>(
    (db, clock): (&Db, &Clock),
    renew: impl Fn(i64) -> Stmt,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = keep(db, clock, C::LEASE, renew) => None,
    }
}

/// Renews a lease until it is lost.
async fn keep(db: &Db, clock: &Clock, lease: i64, renew: impl Fn(i64) -> Stmt) {
    let pause = Duration::from_micros(u64::try_from(lease).unwrap_or(0) / 3);
    let mut lease_until = clock.steady() + lease;
    loop {
        tokio::time::sleep(pause).await;
        let renewed = clock.steady() + lease;
        match db.commit(renew(renewed)).await {
            Ok(_) => lease_until = renewed,
            Err(DbError::Unexpected { .. }) => return,
            Err(_) if clock.steady() < lease_until => {}
            Err(_) => return,
        }
    }
}

/// Writes down what became of claimed work, and tries again where the store is out
/// for a moment.
pub async fn settle(db: &Db, stmt: impl Fn() -> Stmt) -> Result<(), DbError> {
    for tries in 1.. {
        match db.commit(stmt()).await {
            Err(DbError::Busy | DbError::Unavailable(_)) if tries < TRIES => {}
            settled => return settled.map(drop),
        }
        tokio::time::sleep(BETWEEN_TRIES * tries).await;
    }
    Ok(())
}
