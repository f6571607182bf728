//! How many runs are at each step, and which ways they took: counted of what is kept of them.

use std::collections::HashMap;

use serde_json::Value;

use crate::automations::graph::Exit;
use crate::automations::run::{Run, Status};

/// What became of the runs that reached a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visits {
    pub here: usize,
    pub passed: usize,
    pub failed: usize,
}

impl Visits {
    pub fn sentence(self) -> String {
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        format!("{} here now, {} passed{failed}", self.here, self.passed)
    }
}

/// The counts of some runs of one version.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    steps: HashMap<String, Visits>,
    ways: HashMap<(String, Exit), usize>,
    pub runs: usize,
}

/// By which way a step was left that did this.
fn exit(output: Option<&Value>) -> Exit {
    let told = |name: &str| output.and_then(|output| output.get(name));
    match (told("met").and_then(Value::as_bool), told("timed_out").and_then(Value::as_bool)) {
        (Some(true), _) => Exit::ConditionMet,
        (Some(false), _) => Exit::ConditionNotMet,
        (None, Some(true)) => Exit::Timeout,
        // Of the event that was waited for.
        _ if told("occurrence_id").is_some() => Exit::EventReceived,
        _ => Exit::Default,
    }
}

impl Traffic {
    /// Counts runs by their states as the store keeps them: empty until a worker has looked at one.
    pub fn of<'a>(states: impl Iterator<Item = &'a str>, trigger: &str) -> Traffic {
        let mut traffic = Traffic::default();
        for state in states {
            traffic.runs += 1;
            match serde_json::from_str::<Run>(state) {
                Ok(run) => traffic.add(run),
                Err(_) => traffic.steps.entry(trigger.to_owned()).or_default().here += 1,
            }
        }
        traffic
    }

    fn add(&mut self, run: Run) {
        if let Some(step) = run.position.step() {
            self.steps.entry(step.to_owned()).or_default().here += 1;
        }
        for step in run.trace {
            let visits = self.steps.entry(step.key.clone()).or_default();
            match step.status {
                Status::Completed => {
                    visits.passed += 1;
                    *self.ways.entry((step.key, exit(step.output.as_ref()))).or_default() += 1;
                }
                Status::Failed => visits.failed += 1,
                Status::Running | Status::Waiting | Status::Skipped => {}
            }
        }
    }

    pub fn at(&self, key: &str) -> Visits {
        self.steps.get(key).copied().unwrap_or_default()
    }

    /// How many took a way out of a step.
    pub fn taken(&self, key: &str, exit: Exit) -> usize {
        self.ways.get(&(key.to_owned(), exit)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_where_they_are_and_by_the_ways_they_took() {
        let done =
            |key: &str, output: &str| format!(r#"{{"key":"{key}","status":"completed","started_at":1{output}}}"#);
        let state = |at: &str, trace: &[String]| {
            format!(r#"{{"id":"01890000-0000-7000-8000-000000000000","position":{at},"trace":[{}]}}"#, trace.join(","))
        };
        let waiting = r#"{"at":"waiting","step":"paid","deadline":null}"#;
        let ended = r#"{"at":"ended","how":"completed"}"#;
        let (met, not) =
            (done("pro", r#","output":{"met":true,"rules":[]}"#), done("pro", r#","output":{"met":false}"#));
        let late = done("paid", r#","output":{"timed_out":true}"#);
        let heard = done("paid", r#","output":{"event":"order.paid","occurrence_id":"x"}"#);
        let failed = r#"{"key":"tell","status":"failed","started_at":1}"#.to_owned();
        let states = [
            String::new(),
            state(waiting, &[done("start", ""), met.clone()]),
            state(ended, &[done("start", ""), met.clone(), late, failed]),
            state(ended, &[done("start", ""), met, heard]),
            state(ended, &[done("start", ""), not]),
        ];
        let traffic = Traffic::of(states.iter().map(String::as_str), "start");
        assert_eq!(traffic.runs, 5);
        assert_eq!(traffic.at("start"), Visits { here: 1, passed: 4, failed: 0 });
        assert_eq!(traffic.at("paid"), Visits { here: 1, passed: 2, failed: 0 });
        assert_eq!(traffic.at("tell").sentence(), "0 here now, 0 passed, 1 failed");
        let taken = |key: &str, exit| traffic.taken(key, exit);
        assert_eq!([taken("pro", Exit::ConditionMet), taken("pro", Exit::ConditionNotMet)], [3, 1]);
        assert_eq!([taken("paid", Exit::EventReceived), taken("paid", Exit::Timeout)], [1, 1]);
        assert_eq!([taken("start", Exit::Default), taken("tell", Exit::Default)], [4, 0]);
    }
}
