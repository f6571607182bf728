//! What a commit will hold: occurrences, what they start and wake, and what is to be done when it is committed.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::listeners::{Cause, Listeners};
use super::store;
use crate::clock::{Clock, rfc3339};
use crate::db::{self, Batch, Effect, Stmt};
use crate::id::{BroadcastId, ContactId, EmailId, OccurrenceId, WorkspaceId};
use crate::segments::{self, Filters};
use crate::webhooks::{self, EventType, When};

/// What happens.
pub struct Occurrence<'a> {
    pub id: OccurrenceId,
    pub name: &'a str,
    pub payload: String,
    /// The occurrence that this one repeats.
    pub replay_of: Option<OccurrenceId>,
}

/// How a statement finds the contact that something happened to.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Whom<'a> {
    Id(ContactId),
    EmailKey(&'a str),
}

impl Whom<'_> {
    pub(super) fn value(self) -> db::Value {
        match self {
            Whom::Id(id) => id.into(),
            Whom::EmailKey(key) => key.into(),
        }
    }
}

/// The moment in a contact's life that an occurrence is.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// How far it lies behind the contact's sequence.
    pub(super) behind: i64,
    /// It only comes to pass for a contact of no higher sequence.
    pub(super) newest: i64,
}

impl Moment {
    /// Whatever just made the contact's sequence what it is.
    pub const NOW: Moment = Moment { behind: 0, newest: i64::MAX };

    /// What came before all else, in the commit that made a contact with this
    /// sequence; nothing for one that was there before.
    pub const fn first(sequence: i64) -> Moment {
        Moment { behind: 1, newest: sequence }
    }
}

/// What a commit will hold: occurrences, the runs that they start with their
/// first timers, and the waking of runs that waited for them.
pub struct OccurrenceBatch<'a> {
    workspace_id: WorkspaceId,
    /// `None`: nobody is told.
    listeners: Option<&'a Listeners>,
    /// What segments that fill themselves go by, and webhooks that listen; `None`: nothing of that kind happens.
    filters: Option<&'a Listeners>,
    clock: &'a Clock,
    now: i64,
    steady: i64,
    pub batch: Batch,
    follow_up: FollowUp,
    /// How many occurrences and runs it makes.
    pub weight: usize,
}

impl<'a> OccurrenceBatch<'a> {
    pub fn new(workspace_id: WorkspaceId, listeners: &'a Listeners, clock: &'a Clock, now: i64) -> OccurrenceBatch<'a> {
        let untold = OccurrenceBatch::untold(workspace_id, Some(listeners), clock, now);
        OccurrenceBatch { listeners: Some(listeners), ..untold }
    }

    /// The same, of which nobody is told. Whoever changes a contact has to name the listeners all the same: segments
    /// that fill themselves go by their filters.
    pub fn untold(
        workspace_id: WorkspaceId,
        filters: Option<&'a Listeners>,
        clock: &'a Clock,
        now: i64,
    ) -> OccurrenceBatch<'a> {
        let mut batch = Batch::new();
        filters.and_then(Listeners::guard).into_iter().for_each(|guard| batch.guard(guard));
        OccurrenceBatch {
            workspace_id,
            listeners: None,
            filters,
            clock,
            now,
            steady: clock.steady(),
            batch,
            follow_up: FollowUp::default(),
            weight: 0,
        }
    }

    pub fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id
    }

    /// The time of all that it holds.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The filters that a change of a contact may concern. `None` where there are none, and nobody makes one meanwhile.
    pub fn filters(&self) -> Option<&'a Filters> {
        let listeners = self.filters?;
        (listeners.is_passed() || !listeners.filters().is_empty()).then(|| listeners.filters())
    }

    /// Whether a change of any contact has to be judged anew: filters may be there that are not known.
    pub fn is_unsure_of_filters(&self) -> bool {
        self.filters.is_some_and(Listeners::is_passed)
    }

    /// Has a contact judged anew for the segments that fill themselves.
    pub fn judge_anew(&mut self, contact_id: ContactId) {
        self.follow_up.judges = true;
        self.batch.push(segments::judge_anew(self.workspace_id, contact_id, self.steady));
    }

    /// Has whoever has this address judged anew, if its sequence is no higher.
    pub fn judge_new(&mut self, email_key: &str, sequence: i64) {
        self.follow_up.judges = true;
        self.batch.push(segments::judge_new(self.workspace_id, email_key, sequence, self.steady));
    }

    /// Whether filters ask if the mail of a broadcast left.
    pub fn asks_for_broadcast(&self, id: BroadcastId) -> bool {
        self.filters().is_some_and(|filters| filters.name_broadcast(id))
    }

    /// The mail of a broadcast left for a contact, whose sequence has counted it. `email_id` is the contact's own mail.
    pub fn count_broadcast(&mut self, contact_id: ContactId, id: BroadcastId, email_id: EmailId) {
        self.batch.push(segments::count_broadcast(self.workspace_id, contact_id, id, email_id, self.now));
        self.judge_anew(contact_id);
    }

    /// Counts what whoever has this address did with a mail, under each of these names: see
    /// [`segments::engagement_name`]. It is counted whether a filter asks for it by now or not.
    pub fn count_engagement(&mut self, email_key: &str, names: &[String], email_id: EmailId) {
        for name in names {
            let key = segments::event_key(name);
            self.batch.push(segments::count_engagement(self.workspace_id, email_key, key, self.now, email_id));
        }
        let is_asked = |name: &String| self.filters().is_some_and(|filters| filters.event_key(name).is_some());
        if self.is_unsure_of_filters() || names.iter().any(is_asked) {
            self.judge_new(email_key, i64::MAX);
        }
    }

    /// Whether anybody is told.
    pub fn is_told(&self) -> bool {
        self.listeners.is_some()
    }

    /// Whether an event of this name starts runs.
    pub fn starts_runs(&self, name: &str) -> bool {
        self.listeners.is_some_and(|listeners| listeners.count(name) > 0)
    }

    /// Whether an event of this name starts runs, or may wake one.
    pub fn is_heard(&self, name: &str) -> bool {
        self.listeners.is_some_and(|listeners| listeners.count(name) > 0 || listeners.may_wake(name))
    }

    /// Whether an event of this name may wake a run.
    pub fn is_waited_for(&self, name: &str) -> bool {
        self.listeners.is_some_and(|listeners| listeners.may_wake(name))
    }

    /// Whether a webhook listens to events of this type. It is told of everything, also of what automations are not.
    pub fn is_published(&self, kind: EventType) -> bool {
        self.filters.is_some_and(|listeners| listeners.events().contains(kind))
    }

    /// Tells webhooks that something happened, if one listens; `data` is made only then.
    pub fn publish(&mut self, kind: EventType, data: impl FnOnce() -> Value) {
        self.publish_when(kind, When::Always, data);
    }

    /// The same, of something that only the commit knows to have happened.
    pub fn publish_when(&mut self, kind: EventType, when: When<'_>, data: impl FnOnce() -> Value) {
        let Some(listeners) = self.filters.filter(|listeners| listeners.events().contains(kind)) else { return };
        webhooks::publish(&mut self.batch, self.clock, self.workspace_id, (kind, when, self.now), &data());
        self.follow_up.bell = Some(listeners.bell().clone());
    }

    /// A statement that must find the contact that was named.
    pub fn look_up(&mut self, stmt: Stmt) {
        self.follow_up.lookups.push(self.batch.len());
        self.batch.push(stmt);
    }

    /// The first use of a name defines it. Where another's came first, the batch
    /// fails at this statement.
    pub fn define(&mut self, definition: Stmt) {
        self.follow_up.definitions.push(self.batch.len());
        self.batch.push(definition);
    }

    /// An event happens to a contact, whose sequence has counted it.
    pub fn add(&mut self, occurrence: &Occurrence<'_>, whom: Whom<'_>) {
        self.record(occurrence, (whom, Moment::NOW), true);
    }

    /// The product tells what it did to a contact, in the commit that does it.
    pub fn tell(&mut self, name: &str, whom: Whom<'_>, payload: &Value, moment: Moment) {
        self.tell_those(name, (whom, moment), payload, true);
    }

    /// The same, only to those who wait for it: it starts no runs.
    pub fn tell_waiting(&mut self, name: &str, whom: Whom<'_>, payload: &Value, moment: Moment) {
        self.tell_those(name, (whom, moment), payload, false);
    }

    fn tell_those(&mut self, name: &str, (whom, moment): (Whom<'_>, Moment), payload: &Value, starts: bool) {
        match whom {
            Whom::Id(id) => self.batch.lock(id),
            Whom::EmailKey(key) => self.batch.lock(key),
        }
        let id = self.clock.ordered_id();
        let occurrence = Occurrence { id, name, payload: payload.to_string(), replay_of: None };
        self.record(&occurrence, (whom, moment), starts);
    }

    /// The contact goes: a run that only an event could wake waits in vain.
    pub fn part_with(&mut self, contact_id: ContactId) {
        self.follow_up.wakes.push(self.batch.len());
        self.batch.push(store::release(self.workspace_id, contact_id, self.steady));
    }

    fn record(&mut self, occurrence: &Occurrence<'_>, (whom, moment): (Whom<'_>, Moment), starts: bool) {
        let Some(listeners) = self.listeners else { return };
        // Nobody can have waited for a contact that was not there.
        let heard = moment.newest == Moment::NOW.newest && listeners.may_wake(occurrence.name);
        self.batch.push(store::insert(self.workspace_id, occurrence, (whom, moment), heard, self.now));
        let (workspace_id, occurrence_id) = (self.workspace_id, occurrence.id);
        if let Some(key) = self.filters().and_then(|filters| filters.event_key(occurrence.name)) {
            self.follow_up.judges = true;
            self.batch.push(segments::count_event(workspace_id, occurrence_id, key));
            self.batch.push(segments::judge_after(workspace_id, occurrence_id, self.steady));
        }
        let names_runs = starts && self.is_published(EventType::RunStarted);
        let cause = Cause { workspace_id, occurrence_id, whom, now: self.now, steady: self.steady, names_runs };
        self.weight += 1;
        if starts {
            self.weight += listeners.count(occurrence.name);
            let entry = listeners.start(occurrence.name, &cause, self.clock, &mut self.batch);
            self.follow_up.starts_now |= entry.at_once;
            self.follow_up.alarms.extend(entry.alarms);
            for (automation_id, run_id) in entry.runs {
                let data = || {
                    json!({"id": run_id, "automation_id": automation_id, "occurrence_id": occurrence_id,
                    "event": occurrence.name, "status": "running", "created_at": rfc3339(cause.now)})
                };
                self.publish_when(EventType::RunStarted, When::RunBegan(automation_id, run_id), data);
            }
        }
        if heard {
            self.follow_up.wakes.push(self.batch.len());
            self.batch.push(store::wake(&cause, occurrence.name));
        }
    }

    /// What is to be done once the batch is committed.
    pub fn follow_up(self) -> (Batch, FollowUp) {
        (self.batch, self.follow_up)
    }
}

/// What a committed batch of occurrences leads to.
#[derive(Default)]
pub struct FollowUp {
    /// Which statements wake runs.
    wakes: Vec<usize>,
    /// Which statements tell of a loop.
    alarms: Vec<usize>,
    /// Which statements must find the contact that was named.
    lookups: Vec<usize>,
    /// Which statements define an event that nobody had defined.
    definitions: Vec<usize>,
    starts_now: bool,
    /// Whether contacts are to be judged anew.
    judges: bool,
    /// Rung where there are events for webhooks.
    bell: Option<Arc<Notify>>,
}

impl FollowUp {
    /// Whether contacts are to be judged anew, for the segments that fill themselves.
    pub fn judges(&self) -> bool {
        self.judges
    }

    /// Whether there is work for a worker at once; whoever delivers to webhooks is told here.
    pub fn is_urgent(&self, effects: &[Effect]) -> bool {
        let has_changed = |at: &usize| effects.get(*at).is_some_and(|effect| effect.changed > 0);
        if self.alarms.iter().any(has_changed) {
            tracing::warn!("an automation was stopped for a contact that started too many of its runs: a loop?");
            metrics::counter!("posthorn_loops_stopped_total").increment(1);
        }
        self.bell.iter().for_each(|bell| bell.notify_one());
        self.starts_now || self.wakes.iter().any(has_changed)
    }

    /// Whether a statement that failed was one that looks for a contact.
    pub fn is_lookup(&self, statement: usize) -> bool {
        self.lookups.contains(&statement)
    }

    /// Whether a statement that failed was one that defines an event.
    pub fn is_definition(&self, statement: usize) -> bool {
        self.definitions.contains(&statement)
    }

    /// Whether an event is defined by this use.
    pub fn defines(&self) -> bool {
        !self.definitions.is_empty()
    }
}
