//! Who acts on the store: callers, workers that die or oversleep, people who
//! edit, time that goes back, and a clock that is set. Every action is one read or one commit;
//! chance says whose turn it is. What workers do is next door.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::chance::Chance;
use super::checks::{Ledger, followed, keeps_history, reached, standing};
use super::rows::{Automation, Refused, Request, What};
use super::store::Store;
use super::workers::Worker;
use super::{Flaw, graphs};
use crate::automations::engine::{LEASE, Plan};
use crate::automations::run::Run;
use crate::clock::{HOUR, MINUTE, SECOND};
use crate::id::SegmentId;
use crate::occurrences::Ending;

/// How many actions a seed takes before the faults stop.
const ACTIONS: usize = 120;
/// When histories begin: on a day like others, and in the evenings before clocks are set in Berlin, forward and back.
const STARTS: [i64; 3] = [1_700_000_000, 1_711_825_200, 1_729_969_200];
/// How many addresses there are.
const ADDRESSES: usize = 3;
/// The clock that is shown is set by a multiple of this, forward or back, so that
/// what it showed tells what time it really was.
const ERA: i64 = 1 << 52;
/// More than any run has steps.
const ROUNDS: usize = 10;

/// Somebody who cancels a run, or lets it go on, as it was seen.
struct Visitor {
    run: Run,
    seen: (i64, i64),
}

pub struct World {
    pub store: Store,
    pub chance: Chance,
    pub now: i64,
    /// The latest that it ever was.
    latest: i64,
    /// How far the clock that is shown was set, in eras.
    era: i64,
    pub workers: Vec<Worker>,
    requests: Vec<Request>,
    visitors: Vec<Visitor>,
    /// Faults are over.
    pub is_calm: bool,
    pub story: Option<Vec<String>>,
}

impl World {
    pub fn new(seed: u64, flaw: Option<Flaw>, is_told: bool) -> World {
        let mut chance = Chance::new(seed);
        let mut store = Store::new(flaw);
        for _ in 0..1 + chance.below(3) {
            store.automations.push(Automation {
                is_enabled: chance.percent(85),
                is_deleted: false,
                re_entry: graphs::re_entry(&mut chance),
                exit_on: graphs::exit_on(&mut chance),
                versions: vec![plan(&mut chance)],
            });
        }
        store.segments.insert(graphs::SEGMENTS[0].into());
        let now = chance.one_of(&STARTS) * SECOND;
        World {
            store,
            chance,
            now,
            latest: now,
            era: 0,
            workers: Vec::new(),
            requests: Vec::new(),
            visitors: Vec::new(),
            is_calm: false,
            story: is_told.then(Vec::new),
        }
    }

    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(story) = &mut self.story {
            story.push(format!("{:>12.6} {}", (now - STARTS[0] * SECOND) as f64 / 1e6, line()));
        }
    }

    pub fn reach(&mut self, what: &str) {
        self.store.ledger.reached.insert(what.to_owned());
    }

    /// Lets everything happen; tells what came to pass, or what broke.
    pub fn live(&mut self) -> Result<BTreeSet<String>, String> {
        for _ in 0..ACTIONS {
            self.act()?;
            if self.chance.percent(15) {
                standing(&self.store, self.latest)?;
            }
        }
        standing(&self.store, self.latest)?;
        // Everybody dies, and the process is started again.
        (self.workers, self.requests, self.visitors) = (Vec::new(), Vec::new(), Vec::new());
        self.is_calm = true;
        self.store.sweep();
        self.drain()?;
        self.wake_everybody()?;
        Ledger::all_promises(&self.store)?;
        let mut all = std::mem::take(&mut self.store.ledger.reached);
        for row in &self.store.rows {
            let plan = self.store.plan(row.automation, row.version);
            followed(&plan.graph, &row.run)?;
            reached(&plan.graph, &row.run, &mut all);
        }
        Ok(all)
    }

    fn act(&mut self) -> Result<(), String> {
        match self.chance.below(100) {
            0..=13 => self.prepare(),
            14..=26 => self.request(),
            27..=41 => self.claim(),
            42..=79 => return self.work_by_chance(),
            80..=88 => self.turn_the_clock(),
            89..=90 => self.lose_somebody(),
            91..=93 => self.edit(),
            94..=95 => self.change_segments(),
            96..=97 => self.visit(),
            _ => return self.leave(),
        }
        Ok(())
    }

    /// Somebody asks for something; it is prepared, and not committed yet.
    fn prepare(&mut self) {
        let contact = self.chance.below(self.store.contacts.len().max(1));
        let contact = self.store.contacts.get(contact).cloned();
        let what = match (self.chance.below(12), contact) {
            (0, Some(contact)) => What::Deleted { contact_id: contact.id },
            (1 | 2, Some(mut contact)) => {
                contact.unsubscribed ^= true;
                What::Updated { contact }
            }
            _ => What::Sent {
                address: self.chance.below(ADDRESSES),
                name: self.chance.one_of(&graphs::SENT),
                payload: graphs::payload(&mut self.chance),
            },
        };
        let request = self.prepared(what);
        self.requests.push(request);
    }

    fn prepared(&self, what: What) -> Request {
        Request {
            revision: self.store.revision,
            listeners: self.store.listeners(),
            what,
            at: self.now,
            shown: self.shown(),
        }
    }

    /// One of those requests is committed; where it was prepared under something
    /// old, it is prepared anew.
    fn request(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let at = self.chance.below(self.requests.len());
        let request = self.requests.swap_remove(at);
        match self.store.happen(&request) {
            Ok(()) => self.tell_request(&request),
            Err(Refused::Stale) => {
                self.reach("an event prepared under old automations");
                let again = self.prepared(request.what);
                self.requests.push(again);
            }
            Err(_) => {}
        }
    }

    fn tell_request(&mut self, request: &Request) {
        self.tell(|| match &request.what {
            What::Sent { address, name, payload } => format!("{name} {payload} for u{address}"),
            What::Updated { contact } => format!("{} is changed", contact.id),
            What::Deleted { contact_id } => format!("{contact_id} is deleted"),
        });
    }

    /// What a clock shows.
    pub fn shown(&self) -> i64 {
        self.now + self.era * ERA
    }

    /// Time goes on, or back, or to within a microsecond of a timer; and somebody
    /// sets the clock.
    fn turn_the_clock(&mut self) {
        if self.chance.percent(20) {
            self.era += self.chance.one_of(&[-1, 1]);
        }
        let by = match self.chance.below(10) {
            0 => -self.chance.one_of(&[1, SECOND, HOUR]),
            1..=4 => {
                let timers: Vec<i64> = self.store.rows.iter().filter_map(|row| row.due_at).collect();
                let edge = self.chance.one_of(&[-1, 0, 0, 1]);
                if timers.is_empty() { SECOND } else { self.chance.one_of(&timers) + edge - self.now }.max(0)
            }
            _ => self.chance.one_of(&[1, SECOND, 5 * SECOND, LEASE, MINUTE, 5 * MINUTE, HOUR]),
        };
        self.now += by;
        self.latest = self.latest.max(self.now);
    }

    /// A worker or a request dies with its process.
    fn lose_somebody(&mut self) {
        if self.chance.percent(50) && !self.workers.is_empty() {
            let at = self.chance.below(self.workers.len());
            let lost = self.workers.remove(at);
            self.tell(|| format!("the worker of {} dies", lost.claimed.id));
        } else if !self.requests.is_empty() {
            let at = self.chance.below(self.requests.len());
            self.requests.remove(at);
        }
    }

    /// Somebody edits an automation: each edit raises the revision.
    fn edit(&mut self) {
        let at = self.chance.below(self.store.automations.len());
        let automation = &mut self.store.automations[at];
        if automation.is_deleted {
            return;
        }
        match self.chance.below(12) {
            0..=3 => automation.is_enabled ^= true,
            4..=8 => automation.versions.push(plan(&mut self.chance)),
            9 => automation.re_entry = graphs::re_entry(&mut self.chance),
            10 => automation.exit_on = graphs::exit_on(&mut self.chance),
            _ => (automation.is_deleted, automation.is_enabled) = (true, false),
        }
        self.store.revision += 1;
        self.tell(|| format!("automation {at} is edited"));
    }

    fn change_segments(&mut self) {
        let id = SegmentId::from(self.chance.one_of(&graphs::SEGMENTS));
        if !self.store.segments.remove(&id) {
            self.store.segments.insert(id);
        }
    }

    /// Somebody looks at a run to cancel it or to try again.
    fn visit(&mut self) {
        let all = self.store.rows.len();
        let Some(row) = self.store.rows.get(self.chance.below(all)) else { return };
        self.visitors.push(Visitor { run: row.run.clone(), seen: (row.attempt, row.settled) });
    }

    fn leave(&mut self) -> Result<(), String> {
        let Some(Visitor { mut run, seen }) = self.visitors.pop() else { return Ok(()) };
        match run.ending() {
            None => run.cancel(self.shown()),
            Some(Ending::Failed) if run.retry() => {}
            Some(_) => return Ok(()),
        }
        let before = self.store.row(run.id).map(|row| row.run.clone());
        let id = run.id;
        let changed = self.store.change_run(seen, run, self.now);
        self.tell(|| format!("{id} is cancelled or tried again: {changed:?}"));
        match (changed, before, self.store.row(id)) {
            (Ok(()), Some(before), Some(row)) => keeps_history(&before, &row.run),
            _ => Ok(()),
        }
    }

    /// Works without faults until no timer is left.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..10_000 {
            let Some(due) = self.store.rows.iter().filter_map(|row| row.due_at).min() else {
                return standing(&self.store, self.latest);
            };
            self.now = self.now.max(due);
            self.latest = self.latest.max(self.now);
            self.claim();
            let mut turn = self.workers.pop();
            while let Some(worker) = turn {
                turn = self.work(worker)?;
            }
        }
        Err("there is always more to do".into())
    }

    /// Whoever still waits is sent what is waited for, until nobody does.
    fn wake_everybody(&mut self) -> Result<(), String> {
        self.store.automations.iter_mut().for_each(|automation| automation.is_enabled = false);
        self.store.revision += 1;
        for _ in 0..ROUNDS {
            for address in 0..ADDRESSES {
                for name in ["w1", "w2", "t1"] {
                    let payload = json!({"n": 3, "flag": true});
                    let request = self.prepared(What::Sent { address, name, payload });
                    self.store.happen(&request).map_err(|refused| format!("{refused:?}"))?;
                }
            }
            self.drain()?;
            if !self.store.rows.iter().any(|row| row.run.ending().is_none()) {
                break;
            }
        }
        Ok(())
    }
}

/// The time at which the clock showed this.
pub fn time_shown_as(shown: i64) -> i64 {
    shown.rem_euclid(ERA)
}

fn plan(chance: &mut Chance) -> Arc<Plan> {
    Arc::new(Plan { graph: graphs::graph(chance), signing_secret: None, length: 0 })
}
