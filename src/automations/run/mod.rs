//! A run: one contact's way through a graph. Pure: given the graph, the run and
//! the world at a moment, [`Run::advance`] says what the run becomes and what
//! has to happen for it. Whoever commits both together cannot do either twice.

mod advance;
mod send;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::automations::graph::{Action, Exit, Graph, Step};
use crate::clock::{SECOND, time_of};
use crate::id::RunId;
use crate::occurrences::Ending;

pub use advance::{Call, ContactRules, Effect, Heard, HistoryPart, World};

/// How often a step that fails is taken before its run has failed.
const MOST_FAILURES: u32 = 5;

/// Where a run is. The times that it goes on at are steady, those of its trace
/// are what is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Position {
    /// Before a step that can be taken at once.
    Ready {
        step: String,
    },
    /// In a delay.
    Sleeping {
        step: String,
        until: i64,
    },
    /// Waiting for an event, perhaps not for ever.
    Waiting {
        step: String,
        deadline: Option<i64>,
        /// Up to here the contact's history holds nothing that ends the wait.
        #[serde(default)]
        judged: i64,
        /// There was more behind that than one turn reads.
        #[serde(default, skip_serializing_if = "is_false")]
        unread: bool,
    },
    /// A call to the outside has to be made.
    Calling {
        step: String,
        attempt: u32,
        not_before: i64,
    },
    Ended {
        how: Ending,
    },
}

impl Position {
    /// The step that it is at, unless it has ended.
    pub fn step(&self) -> Option<&str> {
        match self {
            Position::Ready { step }
            | Position::Sleeping { step, .. }
            | Position::Waiting { step, .. }
            | Position::Calling { step, .. } => Some(step),
            Position::Ended { .. } => None,
        }
    }
}

/// What is kept of a step that was reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    pub key: String,
    pub status: Status,
    pub started_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    Waiting,
    Completed,
    Failed,
    Skipped,
}

/// A run as it is kept between two commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub position: Position,
    pub trace: Vec<Trace>,
    /// Payloads of events that were waited for, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub waited: Map<String, Value>,
    /// The place of the last occurrence of each name that a wait was ended by: it ends no other.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub consumed: Map<String, Value>,
    /// How often the step it stands before has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// It goes on no sooner than this, after a failure or outside the hours in which mail may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<i64>,
    /// Up to here the contact's history does not hold the event that ends the run.
    #[serde(default, skip_serializing_if = "is_start")]
    pub quiet_to: i64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_start(place: &i64) -> bool {
    *place == 0
}

fn is_false(fact: &bool) -> bool {
    !fact
}

impl Run {
    pub fn start(id: RunId, graph: &Graph) -> Run {
        let step = graph.step(graph.trigger()).map_or(String::new(), |step| step.key.clone());
        Run::at(id, Position::Ready { step })
    }

    fn at(id: RunId, position: Position) -> Run {
        let (waited, consumed) = (Map::new(), Map::new());
        Run { id, position, trace: Vec::new(), waited, consumed, failures: 0, not_before: None, quiet_to: 0 }
    }

    /// A run at its first timer, if that comes before anything that concerns
    /// the contact; else right behind its trigger. Both times are when it began.
    pub fn begun(id: RunId, graph: &Graph, now: i64, steady: i64) -> Run {
        let mut run = Run::start(id, graph);
        let next = graph.next(graph.trigger(), Exit::Default).and_then(|at| graph.step(at));
        let Some((trigger, next)) = graph.step(graph.trigger()).zip(next) else { return run };
        run.pass(graph, &trigger.key, now, None);
        match &next.action {
            Action::Delay { duration } if duration.micros() > 0 => {
                run.sleep(&next.key, now, steady + duration.micros());
            }
            _ => {}
        }
        run
    }

    /// When a run that begins now has to go on. A delay counts from the time in
    /// the run's id, which may be a little ahead.
    pub fn first_due(graph: &Graph, steady: i64, began: i64) -> i64 {
        let next = graph.next(graph.trigger(), Exit::Default).and_then(|at| graph.step(at));
        match next.map(|step| &step.action) {
            Some(Action::Delay { duration }) => began + duration.micros(),
            _ => steady,
        }
    }

    /// A run from the store. One that has not been brought on since it began has
    /// nothing written down: its timers count from the time in its id.
    pub fn stored(state: &str, id: RunId, graph: &Graph, created_at: i64) -> Option<Run> {
        match state {
            "" => Some(Run::begun(id, graph, created_at, time_of(id))),
            _ => serde_json::from_str(state).ok(),
        }
    }

    /// As the store keeps it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn ending(&self) -> Option<Ending> {
        match self.position {
            Position::Ended { how } => Some(how),
            _ => None,
        }
    }

    /// When the run wants to go on by itself; `None` when it has ended or waits
    /// for an event alone. After a failure it has something to go on with, also
    /// where it waits: the event that it failed over has come. What was put off stands before its step.
    pub fn due_at(&self, steady: i64) -> Option<i64> {
        match self.position {
            Position::Ended { .. } => None,
            _ if self.not_before.is_some() => self.not_before,
            Position::Ready { .. } | Position::Waiting { unread: true, .. } => Some(steady),
            Position::Sleeping { until, .. } => Some(until),
            Position::Waiting { deadline, .. } => deadline,
            Position::Calling { not_before, .. } => Some(not_before),
        }
    }

    /// The event that the run waits for.
    pub fn waiting_for<'a>(&self, graph: &'a Graph) -> Option<&'a str> {
        let Position::Waiting { step, .. } = &self.position else { return None };
        match &graph.find(step)?.1.action {
            Action::WaitForEvent { event_name, .. } => Some(event_name),
            _ => None,
        }
    }

    /// Up to where the run need not look into the contact's history again, as long
    /// as it stays where it is.
    pub fn judged(&self) -> i64 {
        match self.position {
            Position::Waiting { judged, .. } => judged,
            _ => 0,
        }
    }

    /// The address of the call that the run stands before, however often it was tried.
    pub fn about_to_call<'a>(&self, graph: &'a Graph) -> Option<&'a str> {
        let Position::Calling { step, .. } = &self.position else { return None };
        match &graph.find(step)?.1.action {
            Action::Webhook { url } => Some(url),
            _ => None,
        }
    }

    /// Whether the history decided over the run in a turn, or has to wake it: at
    /// every wait that it stands at or has come past since it was `before`.
    pub fn leans_on_history(&self, before: &Run, graph: &Graph) -> bool {
        let is_wait = |key: &str| graph.find(key).is_some_and(|(_, step)| step.action.is_wait());
        let fresh = self.trace.iter().filter(|entry| !before.trace.contains(entry));
        self.waiting_for(graph).is_some() || fresh.into_iter().any(|entry| is_wait(&entry.key))
    }

    pub fn cancel(&mut self, now: i64) {
        if self.ending().is_none() {
            self.end(now, Ending::Cancelled);
        }
    }

    /// Puts a failed run back before the step that failed. `false` when it has
    /// not failed.
    pub fn retry(&mut self) -> bool {
        let failed = self.trace.iter().position(|entry| entry.status == Status::Failed);
        let Some(failed) = failed.filter(|_| self.ending() == Some(Ending::Failed)) else { return false };
        let step = self.trace.remove(failed).key;
        self.position = Position::Ready { step };
        (self.failures, self.not_before) = (0, None);
        true
    }

    /// Fails the run where it stands, for a reason that lies outside of it.
    pub fn give_up(&mut self, now: i64, reason: &str) {
        if let Some(step) = self.position.step().map(str::to_owned) {
            self.fail(&step, now, reason);
        }
    }

    /// Notes that the step the run stands before failed for a reason that may
    /// pass. After some tries the run has failed.
    pub fn record_failure(&mut self, now: i64, steady: i64, reason: &str) {
        self.failures += 1;
        if self.failures >= MOST_FAILURES {
            return self.give_up(now, reason);
        }
        // 1 s, 4 s, 16 s, 64 s.
        self.not_before = Some(steady + SECOND * 4_i64.pow(self.failures - 1));
    }

    /// A run of which nothing is left to go on with.
    pub fn lost(id: RunId) -> Run {
        Run::at(id, Position::Ended { how: Ending::Cancelled })
    }

    /// Every step of the graph with what became of it: those that were not
    /// reached are pending, or skipped where nothing leads to them any more.
    pub fn history<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = (&'a Step, Option<&'a Trace>, bool)> {
        let ahead = self.ahead(graph);
        graph.in_order().map(move |(at, step)| {
            let entry = self.trace.iter().find(|entry| entry.key == step.key);
            (step, entry, ahead.contains(&at))
        })
    }

    /// The steps that the run can still come to.
    fn ahead(&self, graph: &Graph) -> Vec<usize> {
        let from = self.position.step().and_then(|step| graph.find(step));
        let mut ahead: Vec<usize> = from.into_iter().map(|(at, _)| at).collect();
        let mut next = 0;
        while let Some(at) = ahead.get(next).copied() {
            next += 1;
            let ways = Exit::ALL.into_iter().filter_map(|exit| graph.next(at, exit));
            let fresh: Vec<usize> = ways.filter(|to| !ahead.contains(to)).collect();
            ahead.extend(fresh);
        }
        ahead
    }

    fn sleep(&mut self, key: &str, now: i64, until: i64) {
        self.entry(key, now).status = Status::Waiting;
        self.position = Position::Sleeping { step: key.to_owned(), until };
    }

    fn pass(&mut self, graph: &Graph, key: &str, now: i64, output: Option<Value>) -> bool {
        self.complete(key, now, output);
        self.go(graph, key, Exit::Default, now)
    }

    fn complete(&mut self, key: &str, now: i64, output: Option<Value>) {
        let entry = self.entry(key, now);
        (entry.status, entry.completed_at, entry.output, entry.error) = (Status::Completed, Some(now), output, None);
    }

    fn skip(&mut self, key: &str, now: i64, reason: &str) {
        let entry = self.entry(key, now);
        (entry.status, entry.completed_at) = (Status::Skipped, Some(now));
        entry.output = Some(json!({ "reason": reason }));
    }

    /// The run has failed at this step. `true`, as there is nothing to wait for.
    fn fail(&mut self, key: &str, now: i64, reason: &str) -> bool {
        let entry = self.entry(key, now);
        (entry.status, entry.completed_at, entry.output) = (Status::Failed, Some(now), None);
        entry.error = Some(json!({ "message": reason }));
        self.position = Position::Ended { how: Ending::Failed };
        true
    }

    /// Ends the run; a step that was waiting is not waited for any more.
    fn end(&mut self, now: i64, how: Ending) {
        for entry in self.trace.iter_mut().filter(|entry| entry.completed_at.is_none()) {
            (entry.status, entry.completed_at, entry.output) = (Status::Skipped, Some(now), None);
        }
        self.position = Position::Ended { how };
    }

    /// Moves on to the next step, or ends where there is none.
    fn go(&mut self, graph: &Graph, key: &str, exit: Exit, now: i64) -> bool {
        let next = graph.find(key).and_then(|(at, _)| graph.next(at, exit)).and_then(|to| graph.step(to));
        match next {
            Some(step) => self.position = Position::Ready { step: step.key.clone() },
            None => self.end(now, Ending::Completed),
        }
        true
    }

    fn entry(&mut self, key: &str, now: i64) -> &mut Trace {
        let at = self.trace.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            self.trace.push(Trace {
                key: key.to_owned(),
                status: Status::Running,
                started_at: now,
                completed_at: None,
                output: None,
                error: None,
            });
            self.trace.len() - 1
        });
        &mut self.trace[at]
    }
}

#[cfg(test)]
mod tests;
