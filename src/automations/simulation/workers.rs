//! Workers: what each of them does between two commits is the real code's.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::rows::{Refused, Turn};
use super::world::World;
use crate::automations::engine::{Claimed, Plan, Sight, View, advance, call, is_held};
use crate::automations::run::{HistoryPart, Run};
use crate::clock::SECOND;
use crate::rules::Budget;

/// How often a worker looks again, as the real one does.
const ATTEMPTS: usize = 8;

/// A worker in the middle of a turn.
pub struct Worker {
    pub claimed: Claimed,
    plan: Arc<Plan>,
    before: Run,
    answer: Option<Result<Value, String>>,
    attempts: usize,
    /// What it has read so far.
    seen: Seen,
}

pub enum Seen {
    Nothing,
    Contact(Sight, (i64, i64)),
    All(View),
}

impl World {
    pub fn claim(&mut self) {
        let Some(claimed) = self.store.claim(self.now) else { return };
        self.tell(|| format!("{} is claimed, attempt {}", claimed.id, claimed.attempt));
        let row = self.store.row(claimed.id).map(|row| (row.automation, row.version));
        let Some((automation, version)) = row else { return };
        let before = serde_json::from_str(&claimed.state).expect("a run that reads back");
        let plan = self.store.plan(automation, version);
        self.workers.push(Worker { claimed, plan, before, answer: None, attempts: 0, seen: Seen::Nothing });
    }

    pub fn work_by_chance(&mut self) -> Result<(), String> {
        if self.workers.is_empty() {
            return Ok(());
        }
        // The same worker again, more often than not: a turn is short.
        let last = self.workers.len() - 1;
        let at = if self.chance.percent(50) { last } else { self.chance.below(last + 1) };
        let worker = self.workers.remove(at);
        if let Some(worker) = self.work(worker)? {
            self.workers.push(worker);
        }
        Ok(())
    }

    /// One read or one commit of a worker. `None`: its turn is over.
    pub fn work(&mut self, mut worker: Worker) -> Result<Option<Worker>, String> {
        worker.seen = match std::mem::replace(&mut worker.seen, Seen::Nothing) {
            Seen::Nothing => Seen::Contact(self.store.sight(&worker.claimed), (self.shown(), self.now)),
            Seen::Contact(sight, (now, steady)) => {
                let mut names: Vec<&str> = worker.plan.graph.waited_names().collect();
                names.extend(worker.claimed.exit_on.as_deref());
                let heard = self.store.history(&worker.claimed, &names);
                let exit_on = worker.claimed.exit_on.as_deref();
                let is_ended = heard.iter().any(|heard| Some(heard.name.as_str()) == exit_on);
                let (segments, declared, refused_mail) = (self.store.segments.clone(), Vec::new(), HashMap::new());
                let (history, budget) = (HistoryPart::WHOLE, Budget::default());
                Seen::All(View {
                    sight,
                    heard,
                    history,
                    is_ended,
                    segments,
                    refused_mail,
                    declared,
                    now,
                    steady,
                    budget,
                })
            }
            Seen::All(view) => match self.go_on(&mut worker, &view)? {
                true => return Ok(None),
                false => Seen::Nothing,
            },
        };
        Ok(Some(worker))
    }

    /// A worker has seen everything: it calls, or commits. `true`: it is done.
    fn go_on(&mut self, worker: &mut Worker, view: &View) -> Result<bool, String> {
        worker.attempts += 1;
        if worker.answer.is_none() && call(&worker.claimed, &worker.plan, view, &worker.before).is_some() {
            let is_heard = self.chance.percent(60);
            worker.answer = Some(if is_heard { Ok(json!({"status": 200})) } else { Err("refused".into()) });
            return Ok(false);
        }
        let Worker { claimed, plan, before, answer, .. } = &*worker;
        let (after, effects) = advance(claimed, plan, view, before.clone(), answer.as_ref())?;
        if !self.is_calm && self.chance.percent(3) {
            let mut run = before.clone();
            run.record_failure(self.shown(), self.now, "the store refuses");
            self.tell(|| format!("{} fails and is tried again", run.id));
            let _ = self.store.record_failure(claimed, &run, self.now);
            return Ok(true);
        }
        let turn = Turn {
            claimed,
            contact: view.sight.contact.as_ref(),
            after: &after,
            effects: &effects,
            waiting_for: after.waiting_for(&plan.graph),
            is_held: is_held(claimed, plan, before, &after),
            now: view.steady,
        };
        let settled = self.store.settle(&turn);
        self.tell(|| format!("{} attempt {}: {settled:?} {effects:?} {:?}", after.id, claimed.attempt, after.position));
        match settled {
            Ok(()) => Ok(true),
            Err(Ok(Refused::Lost)) => {
                self.reach("a worker that overslept");
                Ok(true)
            }
            Err(Err(broken)) => Err(broken),
            Err(Ok(_)) if worker.attempts >= ATTEMPTS => {
                self.store.put_off(&worker.claimed, self.now + SECOND);
                Ok(true)
            }
            Err(Ok(_)) => {
                self.reach("a contact that moved on");
                Ok(false)
            }
        }
    }
}
