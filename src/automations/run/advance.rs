//! How a run goes on: step by step, as far as the moment allows.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Ending, Position, Run, Status};
use crate::automations::graph::{Action, Exit, Graph, Mail, Step, TemplatedMail};
use crate::clock::{MINUTE, SECOND};
use crate::id::{OccurrenceId, SegmentId};
use crate::rules::{Budget, Values, excerpt, resolve, size};
use crate::windows::{Window, Zone};

/// How often a call to the outside is tried.
pub(super) const MOST_CALLS: u32 = 6;

/// How much a run keeps of what its conditions compared: whoever brings it on reads all of it.
const MOST_FINDINGS: usize = 64 << 10;

/// How much a run keeps of the events that it waited for, for steps that come.
const MOST_WAITED: usize = 1 << 20;

/// Why a step of a run whose contact is gone is not taken.
const GONE: &str = "the contact was deleted";

/// Why a call is not made any more.
const APP_GONE: &str = "the app that made this step has no access to the workspace any more";

/// What rules see of a contact that is gone.
static NOBODY: Value = Value::Null;

/// An occurrence for the run's contact since the run started.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub id: OccurrenceId,
    /// Its place in what happened to the contact.
    pub seq: i64,
    pub name: String,
    pub payload: Value,
    /// When it happened, in the time that timers count in.
    pub at: i64,
}

/// The world at the moment a run goes on.
#[derive(Clone)]
pub struct World<'a> {
    /// What a clock shows.
    pub now: i64,
    /// What timers count in.
    pub steady: i64,
    /// The payload of the event that started the run.
    pub event: &'a Value,
    /// The contact as an object; `None` when it is gone.
    pub contact: Option<Value>,
    /// What the run may wait for, of what happened to the contact, oldest first.
    pub heard: &'a [Heard],
    pub history: HistoryPart,
    /// The event that ends the run wherever it is has come.
    pub is_ended: bool,
    /// Whether its steps may still call the outside.
    pub may_call: bool,
    /// The segments that exist, of those that the graph names.
    pub segments: &'a HashSet<SegmentId>,
    /// Why the mail of a step may not be sent, of those of which that is known, by key.
    pub refused_mail: &'a HashMap<String, String>,
    pub contact_rules: &'a dyn ContactRules,
    /// When the automation's mail may be sent, where its steps say nothing else.
    pub send_window: Option<&'a Window>,
    /// Of contacts that name no zone.
    pub zone: &'a Zone,
    /// What the turn has cost so far.
    pub budget: &'a Budget,
}

/// What a contact can be changed to: variables may turn out to be anything.
pub trait ContactRules: Sync {
    /// `Err` says why a contact cannot take a change.
    fn check(&self, changes: &Value) -> Result<(), String>;
}

/// Which part of what happened since the run started `heard` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryPart {
    /// It begins where the run began.
    pub has_start: bool,
    /// It was read up to here, and there is more behind; `None`: it was read to its end.
    pub read_to: Option<i64>,
}

impl HistoryPart {
    pub const WHOLE: HistoryPart = HistoryPart { has_start: true, read_to: None };
}

/// What has to happen, in the same commit as the run's new state.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Queue a mail.
    SendEmail {
        step: String,
        mail: Box<Mail>,
    },
    /// Queue a mail that is made of a template.
    SendTemplate {
        step: String,
        templated: Box<TemplatedMail>,
    },
    UpdateContact {
        changes: Value,
    },
    DeleteContact,
    AddToSegment {
        segment_id: SegmentId,
    },
}

/// A call that has to be made outside of any commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The same for every attempt.
    pub id: Uuid,
    pub url: String,
    pub body: Value,
    pub attempt: u32,
}

impl Run {
    /// Goes as far as the moment allows: to a delay, a wait, a call or the end; or
    /// to where the turn has cost enough.
    pub fn advance(&mut self, graph: &Graph, world: &mut World<'_>) -> Vec<Effect> {
        (self.failures, self.not_before) = (0, None);
        let mut effects = Vec::new();
        loop {
            if self.ending().is_none() && world.is_ended {
                self.end(world.now, Ending::Cancelled);
            }
            let was_waiting = matches!(self.position, Position::Waiting { .. });
            let moved = match self.position.clone() {
                Position::Ready { step } => self.take(graph, &step, world, &mut effects),
                Position::Sleeping { step, until } if world.steady >= until => {
                    self.complete(&step, world.now, None);
                    self.go(graph, &step, Exit::Default, world.now)
                }
                Position::Waiting { step, deadline, judged, .. } => {
                    self.listen(graph, &step, (deadline, judged), world)
                }
                Position::Calling { step, .. } if !world.may_call => {
                    self.skip(&step, world.now, APP_GONE);
                    self.go(graph, &step, Exit::Default, world.now)
                }
                Position::Sleeping { .. } | Position::Calling { .. } | Position::Ended { .. } => false,
            };
            // For another wait all counts that happened since the start: it has to be read.
            let must_read = was_waiting && world.history != HistoryPart::WHOLE;
            if !moved || must_read || world.budget.is_turn_over() {
                return effects;
            }
        }
    }

    /// What to call, if the run stands before a call whose time has come and
    /// nothing has ended it.
    pub fn call(&self, graph: &Graph, world: &World<'_>) -> Option<Call> {
        let Position::Calling { step, attempt, not_before } = &self.position else { return None };
        let is_due = *not_before <= world.steady && !world.is_ended && world.may_call;
        let (_, found) = graph.find(step).filter(|_| is_due)?;
        let Action::Webhook { url } = &found.action else { return None };
        let contact = world.contact.as_ref().unwrap_or(&NOBODY);
        let values = Values { event: world.event, contact, waited: &self.waited, budget: world.budget };
        let body = match found.config.get("body") {
            // What is too large was refused when the step was taken.
            Some(body) => resolve(body, &values).unwrap_or_default(),
            None => json!({"event": world.event, "contact": contact}),
        };
        Some(Call { id: self.effect_id(step), url: url.clone(), body, attempt: *attempt })
    }

    /// Goes on after a call: with its answer, or with why there was none.
    pub fn called(&mut self, graph: &Graph, world: &mut World<'_>, answer: Result<Value, String>) -> Vec<Effect> {
        let Position::Calling { step, attempt, .. } = self.position.clone() else { return Vec::new() };
        match answer {
            Ok(output) => {
                self.complete(&step, world.now, Some(output));
                self.go(graph, &step, Exit::Default, world.now);
                self.advance(graph, world)
            }
            Err(reason) if attempt >= MOST_CALLS => {
                self.fail(&step, world.now, &reason);
                Vec::new()
            }
            Err(reason) => {
                // 5 s, 25 s, 2 min, 10 min, 52 min.
                let pause = (SECOND * 5_i64.pow(attempt)).min(60 * MINUTE);
                self.entry(&step, world.now).error = Some(json!({"message": reason, "attempt": attempt}));
                self.position = Position::Calling { step, attempt: attempt + 1, not_before: world.steady + pause };
                // It may have been ended during the call.
                self.advance(graph, world)
            }
        }
    }

    /// Takes one step. `true` when the run can go on at once.
    fn take(&mut self, graph: &Graph, key: &str, world: &mut World<'_>, effects: &mut Vec<Effect>) -> bool {
        let now = world.now;
        let Some((_, step)) = graph.find(key) else {
            self.fail(key, now, "the step is not in the graph");
            return true;
        };
        match &step.action {
            Action::Trigger { .. } => self.pass(graph, key, now, None),
            Action::Delay { duration } if duration.micros() == 0 => self.pass(graph, key, now, None),
            Action::Delay { duration } => {
                self.sleep(key, now, world.steady + duration.micros());
                false
            }
            Action::Condition { rule } => {
                let contact = world.contact.as_ref().unwrap_or(&NOBODY);
                let values = Values { event: world.event, contact, waited: &self.waited, budget: world.budget };
                let (met, findings) = match rule.judge(&values, self.room_for_findings()) {
                    Ok(judged) => judged,
                    Err(reason) => return self.fail(key, now, &reason),
                };
                let mut output = json!({"met": met, "rules": findings.evidence});
                if findings.left_out > 0 {
                    output["rules_left_out"] = findings.left_out.into();
                }
                self.complete(key, now, Some(output));
                self.go(graph, key, if met { Exit::ConditionMet } else { Exit::ConditionNotMet }, now)
            }
            Action::WaitForEvent { timeout, .. } => {
                self.entry(key, now).status = Status::Waiting;
                let deadline = timeout.map(|timeout| world.steady + timeout.micros());
                self.position = Position::Waiting { step: key.to_owned(), deadline, judged: 0, unread: false };
                true
            }
            Action::Webhook { .. } if !world.may_call => {
                self.skip(key, now, APP_GONE);
                self.go(graph, key, Exit::Default, now)
            }
            Action::Webhook { .. } => {
                let contact = world.contact.as_ref().unwrap_or(&NOBODY);
                let values = Values { event: world.event, contact, waited: &self.waited, budget: world.budget };
                if let Some(Err(reason)) = step.config.get("body").map(|body| resolve(body, &values)) {
                    return self.fail(key, now, &reason);
                }
                self.entry(key, now).status = Status::Running;
                self.position = Position::Calling { step: key.to_owned(), attempt: 1, not_before: world.steady };
                false
            }
            Action::Exit => {
                self.complete(key, now, None);
                self.end(now, Ending::Completed);
                true
            }
            Action::SendEmail | Action::SendTemplate => self.send(graph, step, world, effects),
            Action::ContactUpdate => self.update_contact(graph, step, world, effects),
            Action::AddToSegment { segment_id } => self.add_to_segment(graph, (key, *segment_id), world, effects),
            Action::ContactDelete if world.contact.is_none() => self.lose_contact(key, now),
            Action::ContactDelete => {
                effects.push(Effect::DeleteContact);
                world.contact = None;
                self.complete(key, now, None);
                self.end(now, Ending::Completed);
                true
            }
        }
    }

    /// There is nobody left whom the step could do anything to.
    pub(super) fn lose_contact(&mut self, key: &str, now: i64) -> bool {
        self.skip(key, now, GONE);
        self.end(now, Ending::Cancelled);
        true
    }

    fn update_contact(&mut self, graph: &Graph, step: &Step, world: &mut World<'_>, effects: &mut Vec<Effect>) -> bool {
        let (key, now) = (step.key.as_str(), world.now);
        let Some(contact) = world.contact.as_mut() else { return self.lose_contact(key, now) };
        let values = Values { event: world.event, contact, waited: &self.waited, budget: world.budget };
        let resolved = resolve(&step.config, &values);
        let changes = match resolved.and_then(|changes| world.contact_rules.check(&changes).map(|()| changes)) {
            Ok(changes) => changes,
            Err(reason) => return self.fail(key, now, &reason),
        };
        apply(contact, &changes);
        effects.push(Effect::UpdateContact { changes: changes.clone() });
        self.pass(graph, key, now, Some(shortened(&changes)))
    }

    fn add_to_segment(
        &mut self,
        graph: &Graph,
        (key, segment_id): (&str, SegmentId),
        world: &World<'_>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if world.contact.is_none() {
            return self.lose_contact(key, world.now);
        }
        if !world.segments.contains(&segment_id) {
            return self.fail(key, world.now, "the segment does not exist, or fills itself");
        }
        effects.push(Effect::AddToSegment { segment_id });
        self.pass(graph, key, world.now, Some(json!({"segment_id": segment_id})))
    }

    /// Looks whether the event has come, or the time is up. Decided by when the
    /// event happened, not by when we look.
    fn listen(&mut self, graph: &Graph, key: &str, wait: (Option<i64>, i64), world: &World<'_>) -> bool {
        let (deadline, judged) = wait;
        let Some((_, step)) = graph.find(key) else { return false };
        let Action::WaitForEvent { event_name, filter, .. } = &step.action else { return false };
        let after = self.consumed.get(event_name).and_then(Value::as_i64).unwrap_or(0).max(judged);
        let contact = world.contact.as_ref().unwrap_or(&NOBODY);
        let mut judged = judged;
        for heard in world.heard.iter().filter(|heard| heard.name == *event_name && heard.seq > after) {
            if world.budget.is_turn_over() {
                self.position = Position::Waiting { step: key.to_owned(), deadline, judged, unread: true };
                return false;
            }
            let values = Values { event: &heard.payload, contact, waited: &self.waited, budget: world.budget };
            let is_in_time = deadline.is_none_or(|deadline| heard.at <= deadline);
            match filter.as_ref().filter(|_| is_in_time).map_or(Ok(is_in_time), |rule| rule.is_met(&values)) {
                Ok(true) => return self.hear(graph, key, heard, world.now),
                Ok(false) => judged = heard.seq,
                Err(reason) => return self.fail(key, world.now, &reason),
            }
        }
        if let Some(read_to) = world.history.read_to {
            let judged = read_to.max(judged);
            self.position = Position::Waiting { step: key.to_owned(), deadline, judged, unread: true };
            return false;
        }
        if deadline.is_some_and(|deadline| world.steady >= deadline) {
            self.complete(key, world.now, Some(json!({"timed_out": true})));
            return self.go(graph, key, Exit::Timeout, world.now);
        }
        // Nothing happens to whom is not there; but time passes.
        if deadline.is_none() && world.contact.is_none() {
            return self.lose_contact(key, world.now);
        }
        let judged = world.heard.last().map_or(judged, |last| last.seq.max(judged));
        self.position = Position::Waiting { step: key.to_owned(), deadline, judged, unread: false };
        false
    }

    /// The event that it waited for has come.
    fn hear(&mut self, graph: &Graph, key: &str, heard: &Heard, now: i64) -> bool {
        let others = self.waited.iter().filter(|(name, _)| **name != heard.name).map(|(_, payload)| payload);
        if others.chain([&heard.payload]).map(|payload| size(payload, MOST_WAITED)).sum::<usize>() > MOST_WAITED {
            let reason = format!("the events that the run waited for come to more than {} KiB", MOST_WAITED >> 10);
            return self.fail(key, now, &reason);
        }
        let output = json!({"event": heard.name, "occurrence_id": heard.id});
        self.waited.insert(heard.name.clone(), heard.payload.clone());
        self.consumed.insert(heard.name.clone(), heard.seq.into());
        self.complete(key, now, Some(output));
        self.go(graph, key, Exit::EventReceived, now)
    }

    /// How many bytes of comparisons the history has room for.
    fn room_for_findings(&self) -> usize {
        let kept = self.trace.iter().filter_map(|entry| entry.output.as_ref()?.get("rules"));
        MOST_FINDINGS.saturating_sub(kept.map(|rules| size(rules, MOST_FINDINGS)).sum())
    }

    /// The id of what a step makes: the same however often it is made.
    fn effect_id(&self, step: &str) -> Uuid {
        let hash = crate::secret::hash(&format!("{} {step}", self.id));
        let bytes: [u8; 16] = std::array::from_fn(|at| hash[at]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// Each field as a history keeps it.
pub(super) fn shortened(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), excerpt(value))).collect(),
        other => excerpt(other),
    }
}

/// Applies a change to a contact as the rest of the run will see it. A property
/// that is set to null is gone.
pub fn apply(contact: &mut Value, changes: &Value) {
    let Some(changes) = changes.as_object() else { return };
    for (name, value) in changes {
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (key, value) in properties {
                    match contact["properties"].as_object_mut() {
                        Some(known) if value.is_null() => drop(known.shift_remove(key)),
                        _ => contact["properties"][key] = value.clone(),
                    }
                }
            }
            // Null says nothing here: only names can be emptied.
            ("properties", _) | ("unsubscribed", Value::Null) => {}
            _ => contact[name] = value.clone(),
        }
    }
}
