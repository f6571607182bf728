//! Adds up what commits have counted.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::counts::Counts;
use super::store::{self, Delta, Key};
use crate::app::App;
use crate::db::{Batch, DbError};
use crate::id::WorkspaceId;

/// How many rows one commit adds up: others want to write, too.
const PAGE: i64 = 500;

/// Adds up all that is there. A row goes in the commit that adds it, or not at all, so it counts once
/// whoever else does the same and whenever the process dies.
pub async fn fold(app: &App) -> Result<(), DbError> {
    loop {
        let rows = app.db.read(store::deltas(PAGE)).await?;
        let deltas: Vec<Delta> = rows.iter().map(Delta::read).collect::<Result<_, _>>()?;
        if deltas.is_empty() {
            return Ok(());
        }
        match app.db.commit(added_up(&deltas)).await {
            // Another process was faster with some of them; the next look finds the others.
            Ok(_) | Err(DbError::Unexpected { .. }) => {}
            Err(error) => return Err(error),
        }
        if (deltas.len() as i64) < PAGE {
            return Ok(());
        }
    }
}

fn added_up(deltas: &[Delta]) -> Batch {
    let mut taken: BTreeMap<WorkspaceId, Vec<Uuid>> = BTreeMap::new();
    let (mut sums, mut days): (BTreeMap<&Key, Counts>, BTreeMap<Key, Counts>) = Default::default();
    for Delta { key, id, counts } in deltas {
        taken.entry(key.workspace_id).or_default().push(*id);
        *sums.entry(key).or_default() += *counts;
        *days.entry(key.day()).or_default() += *counts;
    }
    let deleted = taken.iter().map(|(workspace_id, ids)| store::delete(*workspace_id, ids));
    let added = sums.iter().map(|(key, counts)| store::add(key, counts));
    let added_to_days = days.iter().map(|(day, counts)| store::add_to_day(day, counts));
    deleted.chain(added).chain(added_to_days).collect()
}
