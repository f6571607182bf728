//! Work that outlasts a commit: a lease that is renewed while it lasts.

use std::time::Duration;

use super::claim::Claimable;
use crate::clock::Clock;
use crate::db::{Db, DbError, Stmt};

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
