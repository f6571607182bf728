//! Claiming rows, and the fence that a claim is.

use crate::clock::Clock;
use crate::db::{Batch, Db, DbError, Row, Sql, Value};
use crate::hold;

/// The statement that claims rows of a table which are due. `$1` is now, `$2` the
/// end of the lease and `$3` how many are wanted; the condition and the order may have
/// more.
/// The columns of the key are to be returned as `table.column`.
macro_rules! claim_rows {
    (
        $table:literal ($first:literal $(, $more:literal)*)
        where $which:literal
        $(first $order:literal)?
        set $set:literal
        returning $($columns:tt)+
    ) => {
        $crate::db::Sql::each(
            concat!(
                "UPDATE ", $table, " SET ", $set, "due_at = $2, attempt = attempt + 1
                 WHERE (", $first $(, ", ", $more)*, ") IN
                     (SELECT ", $first $(, ", ", $more)*, " FROM ", $table, "
                      WHERE due_at <= $1 AND ", $which, " ORDER BY ", $($order,)? "due_at LIMIT $3)
                 RETURNING ", $($columns)+
            ),
            // What another process is claiming at this moment is its own.
            concat!(
                "WITH due AS MATERIALIZED
                     (SELECT ", $first $(, ", ", $more)*, " FROM ", $table, "
                      WHERE due_at <= $1 AND ", $which, " ORDER BY ", $($order,)? "due_at LIMIT $3 FOR UPDATE SKIP LOCKED)
                 UPDATE ", $table, " SET ", $set, "due_at = $2, attempt = attempt + 1 FROM due
                 WHERE ", $table, ".", $first, " = due.", $first $(, " AND ", $table, ".", $more, " = due.", $more)*, "
                 RETURNING ", $($columns)+
            ),
        )
    };
}
pub(crate) use claim_rows;

/// A row that is claimed before it is worked on.
pub trait Claimable: Sized {
    /// What metrics call such rows.
    const QUEUE: &'static str;
    /// How long a claim lasts, in steady time. A process that dies leaves what it
    /// had claimed to the others for so long.
    const LEASE: i64;

    fn read(row: &Row) -> Result<Self, DbError>;
}

/// Rows of which whichever is due first is claimed first.
pub trait InOrder: Claimable {
    /// Finds when the next one is due.
    const NEXT: Sql;
    /// Claims some that are due, and returns them: made by [`claim_rows`].
    const CLAIM: Sql;
}

/// When the next row is due, in steady time.
pub async fn next_due<C: InOrder>(db: &Db) -> Result<Option<i64>, DbError> {
    db.read(C::NEXT.with([])).await?.first().map(|row| row.int(0)).transpose()
}

/// Claims rows that are due; [`DbError::Stale`] while the store is on hold.
pub async fn claim_due<C: InOrder>(db: &Db, clock: &Clock, most: usize) -> Result<Vec<C>, DbError> {
    claim_due_with(db, clock, most, []).await
}

/// As [`claim_due`], for a statement with more parameters.
pub async fn claim_due_with<C: InOrder, const N: usize>(
    db: &Db,
    clock: &Clock,
    most: usize,
    more: [Value; N],
) -> Result<Vec<C>, DbError> {
    let now = clock.steady();
    // Looking costs no write; most of the time that is all there is to do.
    if next_due::<C>(db).await?.is_none_or(|due| due > now) {
        return Ok(Vec::new());
    }
    let params = [now.into(), (now + C::LEASE).into(), (most as i64).into()];
    claim_by(db, C::CLAIM.with_all(params.into_iter().chain(more).collect())).await
}

/// Claims what the statements of a batch claim; [`DbError::Stale`] while the store
/// is on hold.
pub async fn claim_by<C: Claimable>(db: &Db, batch: impl Into<Batch>) -> Result<Vec<C>, DbError> {
    let effects = db.commit(batch.into().when(hold::absent())).await?;
    let claimed: Vec<C> = effects.iter().flat_map(|effect| &effect.rows).map(C::read).collect::<Result<_, _>>()?;
    metrics::counter!("posthorn_work_claimed_total", "queue" => C::QUEUE).increment(claimed.len() as u64);
    Ok(claimed)
}

/// What another worker has claimed since is that worker's.
pub fn unless_lost<T>(committed: Result<T, DbError>) -> Result<(), DbError> {
    match committed {
        Ok(_) | Err(DbError::Unexpected { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
