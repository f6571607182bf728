//! What a run can see when it takes its turn.

use std::collections::{HashMap, HashSet};
use std::iter;

use serde_json::Value;

use super::store::{self, Claimed, Sight};
use super::turn::{LARGE, read_changes};
use super::{Engine, Plan};
use crate::automations::run::{ContactRules, Heard, HistoryPart, Run, World};
use crate::contacts::{self, Contact, Declared};
use crate::db::{DbError, FromRows, Row};
use crate::id::SegmentId;
use crate::rules::{Budget, size};
use crate::segments;

/// Up to how many occurrences one turn hears, and about how many bytes of them. What
/// is behind that is heard in the next one.
const MOST_HEARD: usize = 500;
const MOST_HEARD_BYTES: usize = 1 << 20;

/// How much of a contact's history one look goes through, and how many looks a turn
/// takes: most of what happened may be nothing that the run listens to.
const LOOK: i64 = 5_000;
const MOST_LOOKS: usize = 64;

/// What a run sees.
pub(in crate::automations) struct View {
    pub sight: Sight,
    pub heard: Vec<Heard>,
    pub history: HistoryPart,
    /// The event that ends the run has come.
    pub is_ended: bool,
    pub segments: HashSet<SegmentId>,
    /// Why the mail of a step may not be sent, of those of which that is known, by key.
    pub refused_mail: HashMap<String, String>,
    pub declared: Vec<Declared>,
    pub now: i64,
    pub steady: i64,
    pub budget: Budget,
}

impl View {
    pub fn world(&self) -> World<'_> {
        World {
            now: self.now,
            steady: self.steady,
            event: &self.sight.payload,
            contact: self.sight.contact.as_ref().map(Contact::json),
            heard: &self.heard,
            history: self.history,
            is_ended: self.is_ended,
            may_call: self.sight.may_call,
            segments: &self.segments,
            refused_mail: &self.refused_mail,
            contact_rules: self,
            send_window: self.sight.send_window.as_ref(),
            zone: &self.sight.zone,
            budget: &self.budget,
        }
    }
}

impl ContactRules for View {
    fn check(&self, changes: &Value) -> Result<(), String> {
        let changes = read_changes(changes.clone())?;
        changes.check_types(&self.declared).map_err(|error| error.message().into_owned())
    }
}

impl Engine {
    /// What the run can see now; `None` where it has no place for the memory that this takes. The
    /// contact is read before its history, and held against its sequence when the run is committed.
    pub(super) async fn look(
        &self,
        claimed: &Claimed,
        plan: &Plan,
        run: &Run,
        has_place: bool,
    ) -> Result<Option<View>, DbError> {
        let (now, steady) = (self.app.clock.now(), self.app.clock.steady());
        let most = if has_place { usize::MAX } else { LARGE };
        let Some(sight) = self.sight(claimed, most).await? else { return Ok(None) };
        // Of a contact that is gone it is not known how much happened to it.
        let newest = sight.contact.as_ref().map_or(i64::MAX, |contact| contact.sequence);
        let is_ended = match &claimed.exit_on {
            Some(name) => self.has_happened(claimed, run.quiet_to.max(claimed.since), newest, name).await?,
            None => false,
        };
        let from = run.judged().max(claimed.since);
        let names: Vec<&str> = plan.graph.waited_names().collect();
        let listened = match names.is_empty() || is_ended {
            true => Some((Vec::new(), None)),
            false => self.listen(claimed, (from, newest), &Value::from(names), most).await?,
        };
        let Some((heard, read_to)) = listened.filter(|(heard, _)| has_place || !are_large(&sight, heard)) else {
            return Ok(None);
        };
        let history = HistoryPart { has_start: from == claimed.since, read_to };
        let mut segments = HashSet::new();
        for id in plan.graph.segment_ids() {
            if self.app.db.query(segments::takes_members(claimed.workspace_id, id)).await? {
                segments.insert(id);
            }
        }
        let declared = match plan.graph.sets_properties() {
            true => self.app.db.read(contacts::declared_properties(claimed.workspace_id)).await?,
            false => Vec::new(),
        };
        Ok(Some(View {
            sight,
            heard,
            history,
            is_ended,
            segments,
            refused_mail: HashMap::new(),
            declared: Declared::read_all(&declared)?,
            now,
            steady,
            budget: Budget::light(),
        }))
    }

    /// What it sees beside its history, if that is no more than so many bytes: where they are too many, they are let
    /// go before they are read.
    async fn sight(&self, claimed: &Claimed, most: usize) -> Result<Option<Sight>, DbError> {
        let rows = self.app.db.read(store::sight(claimed)).await?;
        if rows.iter().map(Row::size).sum::<usize>() > most {
            return Ok(None);
        }
        Ok(Some(Option::from_rows(&rows)?.unwrap_or(Sight::NOTHING)))
    }

    /// Whether an event happened to the contact after a moment, up to another.
    async fn has_happened(&self, claimed: &Claimed, mut after: i64, newest: i64, name: &str) -> Result<bool, DbError> {
        while after < newest {
            let until = end_of_look(after, newest);
            if !self.app.db.read(store::happened(claimed.contact_id, (after, until), name)).await?.is_empty() {
                return Ok(true);
            }
            after = until;
            tokio::task::yield_now().await;
        }
        Ok(false)
    }

    /// What happened to the contact after a moment, under these names; and up to
    /// where that is known, if there is more than one turn can hear. `None` where that
    /// is more than so many bytes.
    async fn listen(
        &self,
        claimed: &Claimed,
        (mut after, newest): (i64, i64),
        names: &Value,
        most: usize,
    ) -> Result<Option<(Vec<Heard>, Option<i64>)>, DbError> {
        let names = names.to_string();
        let (mut heard, mut bytes) = (Vec::new(), 0);
        for _ in 0..MOST_LOOKS {
            if after >= newest {
                return Ok(Some((heard, None)));
            }
            if heard.len() >= MOST_HEARD || bytes >= MOST_HEARD_BYTES {
                break;
            }
            let until = end_of_look(after, newest);
            let rows = self.app.db.read(store::history(claimed.contact_id, (after, until), &names)).await?;
            for row in &rows {
                bytes += row.size();
                if bytes > most {
                    return Ok(None);
                }
                heard.push(store::read_heard(row)?);
                if bytes >= MOST_HEARD_BYTES {
                    break;
                }
            }
            let is_last = rows.len() < store::HISTORY_PAGE && bytes < MOST_HEARD_BYTES;
            after = if is_last { until } else { heard.last().map_or(until, |last: &Heard| last.seq) };
            if after < newest {
                tokio::task::yield_now().await;
            }
        }
        Ok(Some((heard, Some(after))))
    }
}

/// Whether they take so much memory that few turns which hold such may be taken at once: where values are many and
/// small, that is more than their text tells.
fn are_large(sight: &Sight, heard: &[Heard]) -> bool {
    let payloads = iter::once(&sight.payload).chain(heard.iter().map(|heard| &heard.payload));
    payloads.map(|payload| size(payload, LARGE)).sum::<usize>() > LARGE
}

/// Up to where one look into a contact's history goes.
fn end_of_look(after: i64, newest: i64) -> i64 {
    if newest == i64::MAX { newest } else { newest.min(after.saturating_add(LOOK)) }
}
