//! What is promised of runs, checked at every commit and in the end. Each check
//! works from the graph and the history alone, not from what the run believes.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::rows::{Occurrence, Row, Turn};
use super::store::Store;
use super::world::time_shown_as;
use crate::automations::automation::ReEntry;
use crate::automations::engine::{LEASE, changed};
use crate::automations::graph::{Action, Exit, Graph};
use crate::automations::run::{Effect, Position, Run, Status, Trace};
use crate::clock::MINUTE;
use crate::id::RunId;
use crate::occurrences::Ending;
use crate::rules::{Budget, Rule, Values};

/// The longest that a run which has something to do may be left alone: a lease,
/// or the pause after the fourth failure.
const LATEST: i64 = if LEASE > 2 * MINUTE { LEASE } else { 2 * MINUTE };

/// What has to be, kept apart from the store.
#[derive(Default)]
pub struct Ledger {
    /// Occurrence, automation and version of every run that was promised.
    promised: Vec<(usize, usize, usize)>,
    /// Run and step of everything that was done.
    done: HashSet<(RunId, String)>,
    /// What came to pass at all.
    pub reached: BTreeSet<String>,
}

impl Ledger {
    /// Notes which automations the newest occurrence has to start.
    pub fn expect(store: &mut Store) {
        let occurrence = store.occurrences.len() - 1;
        let Occurrence { name, contact_id, .. } = &store.occurrences[occurrence];
        for (at, automation) in store.automations.iter().enumerate().filter(|(_, one)| one.is_enabled) {
            let version = automation.versions.len() - 1;
            let was = |(before, of, _): &(usize, usize, usize)| {
                *of == at && store.occurrences[*before].contact_id == *contact_id
            };
            let is = |row: &Row| row.automation == at && row.contact_id == *contact_id && row.is_running();
            let is_let_in = match automation.re_entry {
                ReEntry::Always => true,
                ReEntry::OncePerContact => !store.ledger.promised.iter().any(was),
                ReEntry::OneAtATime => !store.rows.iter().any(is),
            };
            if is_let_in && automation.versions[version].graph.event_name() == name {
                store.ledger.promised.push((occurrence, at, version));
            }
        }
    }

    /// Judges a turn at the moment of its commit.
    pub fn turn(store: &mut Store, turn: &Turn<'_>) -> Result<(), String> {
        let id = &turn.claimed.id;
        let at = store.rows.iter().position(|row| row.id == *id).ok_or("a run that was swept goes on")?;
        let (row, after) = (&store.rows[at], turn.after);
        let plan = store.plan(row.automation, row.version);
        keeps_history(&row.run, after)?;
        let is_new = |entry: &&Trace| {
            let before = row.run.trace.iter().find(|known| known.key == entry.key);
            entry.status == Status::Completed && before.is_none_or(|before| before.status != Status::Completed)
        };
        let fresh: Vec<&Trace> = after.trace.iter().filter(is_new).collect();
        for entry in &fresh {
            is_in_time(&plan.graph, entry)?;
            hears_right(store, row, &plan.graph, after, entry)?;
        }
        acts_right(store, row, &plan.graph, turn, &fresh)?;
        let waits = after.trace.iter().any(|entry| entry.status == Status::Waiting && is_put_off(entry));
        let stands = !store.automations[row.automation].is_deleted;
        if stands && ended_by_event(store, row) && (!turn.effects.is_empty() || after.ending().is_none()) {
            return Err(format!("{id} goes on although the event that ends it has come"));
        }
        if serde_json::from_str::<Run>(&after.to_json()).ok().as_ref() != Some(after) {
            return Err(format!("{id} does not read back as it was kept"));
        }
        if waits {
            store.ledger.reached.insert("a mail that waits for its window".into());
        }
        for key in fresh.into_iter().map(|entry| entry.key.clone()).collect::<Vec<_>>() {
            if !store.ledger.done.insert((*id, key.clone())) {
                return Err(format!("{id} does {key} twice"));
            }
        }
        Ok(())
    }

    /// Every occurrence has exactly the runs that it has to have.
    pub fn all_promises(store: &Store) -> Result<(), String> {
        let stands = |automation: usize| !store.automations[automation].is_deleted;
        let key = |row: &Row| (row.occurrence, row.automation, row.version);
        let mut promised: Vec<_> = store.ledger.promised.iter().copied().filter(|(_, of, _)| stands(*of)).collect();
        let mut runs: Vec<_> = store.rows.iter().filter(|row| stands(row.automation)).map(key).collect();
        promised.sort_unstable();
        runs.sort_unstable();
        if promised == runs { Ok(()) } else { Err(format!("promised {promised:?}, but there is {runs:?}")) }
    }
}

/// What a step has done stays written.
pub fn keeps_history(before: &Run, after: &Run) -> Result<(), String> {
    let is_done = |entry: &&Trace| entry.status == Status::Completed;
    match before.trace.iter().filter(is_done).find(|entry| !after.trace.contains(entry)) {
        Some(lost) => Err(format!("{} forgets that it did {}", before.id, lost.key)),
        None => Ok(()),
    }
}

fn action<'a>(graph: &'a Graph, key: &str) -> Option<&'a Action> {
    graph.find(key).map(|(_, step)| &step.action)
}

/// No timer fires early.
fn is_in_time(graph: &Graph, entry: &Trace) -> Result<(), String> {
    let span = match action(graph, &entry.key) {
        Some(Action::Delay { duration }) => duration.micros(),
        Some(Action::WaitForEvent { timeout: Some(timeout), .. }) if timed_out(entry) => timeout.micros(),
        Some(Action::WaitForEvent { timeout: None, .. }) if timed_out(entry) => i64::MAX,
        _ => return Ok(()),
    };
    let took = time_shown_as(entry.completed_at.unwrap_or_default()) - time_shown_as(entry.started_at);
    if took < span { Err(format!("{} fires after {took} of {span}", entry.key)) } else { Ok(()) }
}

fn is_put_off(entry: &Trace) -> bool {
    entry.output.as_ref().is_some_and(|output| output.get("waiting").is_some())
}

/// Whether the window of a step was open when it ended.
fn is_open(store: &Store, graph: &Graph, entry: &Trace) -> bool {
    let step = graph.find(&entry.key);
    let at = entry.completed_at.unwrap_or_default();
    step.and_then(|(_, step)| step.send_window.as_ref()).is_none_or(|window| window.next_opening(at, &store.zone) == at)
}

fn timed_out(entry: &Trace) -> bool {
    entry.output.as_ref().is_some_and(|output| output.get("timed_out").is_some())
}

/// The oldest occurrence that a wait of a run has to take.
fn due_to<'a>(store: &'a Store, row: &Row, graph: &Graph, run: &Run, entry: &Trace) -> Option<&'a Occurrence> {
    let Some(Action::WaitForEvent { event_name, timeout, filter }) = action(graph, &entry.key) else { return None };
    let deadline = timeout.map_or(i64::MAX, |timeout| time_shown_as(entry.started_at) + timeout.micros());
    let earlier = run.trace.iter().take_while(|other| other.key != entry.key);
    let taken = earlier.filter_map(|other| {
        let id = other.output.as_ref()?.get("occurrence_id")?.as_str()?;
        store.occurrences.iter().find(|one| one.id.to_string() == id && one.name == *event_name)
    });
    let after = taken.map(|one| one.seq).max().unwrap_or(0).max(row.since);
    let passes = |rule: &Rule, payload: &Value| is_met(rule, payload, &Value::Null);
    store.occurrences.iter().find(|one| {
        one.contact_id == row.contact_id
            && one.name == *event_name
            && one.seq > after
            && one.at <= deadline
            && filter.as_ref().is_none_or(|rule| passes(rule, &one.payload))
    })
}

/// A wait that is over took the event that it had to take, or timed out because
/// there was none.
fn hears_right(store: &Store, row: &Row, graph: &Graph, run: &Run, entry: &Trace) -> Result<(), String> {
    if !matches!(action(graph, &entry.key), Some(Action::WaitForEvent { .. })) {
        return Ok(());
    }
    let taken = entry.output.as_ref().and_then(|output| output.get("occurrence_id")).and_then(Value::as_str);
    let due = due_to(store, row, graph, run, entry).map(|one| one.id.to_string());
    if taken == due.as_deref() {
        return Ok(());
    }
    Err(format!("{} takes {taken:?} for {}, but should take {due:?}", run.id, entry.key))
}

fn ended_by_event(store: &Store, row: &Row) -> bool {
    let ends = |one: &Occurrence| {
        one.contact_id == row.contact_id && one.seq > row.since && row.exit_on.as_ref() == Some(&one.name)
    };
    row.exit_on.is_some() && store.occurrences.iter().any(ends)
}

/// Goes through what a turn did in its order: every step sees the contact as
/// the steps before it left it, and every effect belongs to one step.
fn acts_right(store: &Store, row: &Row, graph: &Graph, turn: &Turn<'_>, fresh: &[&Trace]) -> Result<(), String> {
    let mut contact = turn.contact.cloned();
    let mut effects = turn.effects.iter();
    let event = &store.occurrences[row.occurrence].payload;
    for entry in fresh {
        let wrong = |what: &str| Err(format!("{} at {}: {what}", row.id, entry.key));
        match action(graph, &entry.key) {
            Some(Action::Condition { rule }) => {
                let seen = contact.as_ref().map_or(Value::Null, |contact| contact.json());
                let met = is_met(rule, event, &seen);
                if entry.output.as_ref().map(|output| &output["met"]) != Some(&Value::Bool(met)) {
                    return wrong("judged by something else than is there");
                }
            }
            Some(Action::SendEmail) => match (effects.next(), &contact) {
                (Some(Effect::SendEmail { step, .. }), Some(contact))
                    if !contact.unsubscribed && *step == entry.key =>
                {
                    if !is_open(store, graph, entry) {
                        return wrong("a mail outside of its window");
                    }
                }
                _ => return wrong("a mail that should not be"),
            },
            Some(Action::ContactUpdate) => match (effects.next(), &contact) {
                (Some(Effect::UpdateContact { changes }), Some(before)) => {
                    contact = Some(changed(before, changes.clone(), &[])?);
                }
                _ => return wrong("a change that should not be"),
            },
            Some(Action::AddToSegment { segment_id }) => match effects.next() {
                Some(Effect::AddToSegment { segment_id: given }) if given == segment_id => {}
                _ => return wrong("a member that should not be"),
            },
            Some(Action::ContactDelete) if effects.next() != Some(&Effect::DeleteContact) => {
                return wrong("a deletion that should not be");
            }
            _ => {}
        }
    }
    if effects.next().is_some() { Err(format!("{} has an effect without a step", row.id)) } else { Ok(()) }
}

/// Whether every run in flight will go on: it has a timer, or an event can wake
/// it; and what it waits for has not come already.
pub fn standing(store: &Store, latest: i64) -> Result<(), String> {
    for row in store.rows.iter().filter(|row| row.is_running()) {
        let automation = &store.automations[row.automation];
        if automation.is_deleted {
            continue;
        }
        let plan = store.plan(row.automation, row.version);
        let can_be_woken = row.waiting_for.is_some()
            && row.waiting_for.as_deref() == row.run.waiting_for(&plan.graph)
            && store.contact(row.contact_id).is_some();
        if row.due_at.is_none() && !can_be_woken {
            return Err(format!("{} is never woken: {:?}", row.id, row.run.position));
        }
        let waits = match &row.run.position {
            Position::Waiting { step, .. } => row.run.trace.iter().find(|entry| entry.key == *step),
            _ => None,
        };
        let has_come = waits.and_then(|entry| due_to(store, row, &plan.graph, &row.run, entry));
        let is_late = row.due_at.is_none_or(|due| due > latest + LATEST);
        if is_late && (has_come.is_some() || ended_by_event(store, row)) {
            return Err(format!("{} sleeps through what has come: {:?}", row.id, row.run.position));
        }
    }
    Ok(())
}

/// Whether a run went one way through its own graph, and to an end.
pub fn followed(graph: &Graph, run: &Run) -> Result<(), String> {
    let mut next = Some(graph.trigger());
    for entry in &run.trace {
        let at = next.filter(|at| graph.step(*at).is_some_and(|step| step.key == entry.key));
        let at = at.ok_or_else(|| format!("{} came to {} by no way of its graph", run.id, entry.key))?;
        let output = |name: &str| entry.output.as_ref().and_then(|output| output.get(name));
        let exit = match graph.step(at).map(|step| &step.action) {
            Some(Action::Condition { .. }) if output("met") == Some(&Value::Bool(true)) => Exit::ConditionMet,
            Some(Action::Condition { .. }) => Exit::ConditionNotMet,
            Some(Action::WaitForEvent { .. }) if output("occurrence_id").is_some() => Exit::EventReceived,
            Some(Action::WaitForEvent { .. }) => Exit::Timeout,
            _ => Exit::Default,
        };
        next = graph.next(at, exit);
    }
    match run.ending() {
        None => Err(format!("{} never ends: {:?}", run.id, run.position)),
        Some(Ending::Completed) if next.is_some() => Err(format!("{} ends before its time", run.id)),
        Some(_) => Ok(()),
    }
}

/// Notes what became of a run, so that no kind of history is missing for long.
pub fn reached(graph: &Graph, run: &Run, reached: &mut BTreeSet<String>) {
    for entry in &run.trace {
        let kind = action(graph, &entry.key).map_or("nothing", Action::type_name);
        let how = match entry.output.as_ref() {
            Some(output) if output.get("timed_out").is_some() => "timed out",
            Some(output) if output.get("met") == Some(&Value::Bool(true)) => "met",
            Some(output) if output.get("reason").is_some() => "skipped with a reason",
            _ => "",
        };
        reached.insert(format!("{kind} {:?} {how}", entry.status).trim_end().to_lowercase());
    }
    reached.insert(format!("{:?}", run.ending()));
}

fn is_met(rule: &Rule, event: &Value, contact: &Value) -> bool {
    let values = Values { event, contact, waited: &Map::new(), budget: &Budget::default() };
    rule.is_met(&values).expect("a rule that costs little")
}
