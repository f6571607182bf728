//! The store in memory. Every function that changes it is one commit: it checks
//! what the statements of the real one check, and then changes all or nothing.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::Flaw;
use super::checks::Ledger;
use super::rows::{Automation, Listener, Occurrence, Refused, Request, Row, Turn, What};
use crate::automations::automation::ReEntry;
use crate::automations::engine::{Claimed, LEASE, Plan, Sight, changed};
use crate::automations::run::{Effect, Heard, Run};
use crate::contacts::{Contact, FIRST_SEQUENCE};
use crate::id::{ContactId, Id, RunId, SegmentId};
use crate::occurrences::SystemEvent;
use crate::windows::Zone;

pub struct Store {
    pub flaw: Option<Flaw>,
    pub revision: i64,
    pub automations: Vec<Automation>,
    pub contacts: Vec<Contact>,
    pub occurrences: Vec<Occurrence>,
    pub rows: Vec<Row>,
    pub segments: HashSet<SegmentId>,
    /// Where all contacts are: a place where clocks are set.
    pub zone: Zone,
    made: usize,
    pub ledger: Ledger,
}

/// The id of what has a number here.
fn numbered<T: Id>(number: usize) -> T {
    T::from(Uuid::from_u128(number as u128))
}

fn number(id: impl Id) -> usize {
    id.uuid().as_u128() as usize
}

impl Store {
    pub fn new(flaw: Option<Flaw>) -> Store {
        Store {
            flaw,
            revision: 1,
            automations: Vec::new(),
            contacts: Vec::new(),
            occurrences: Vec::new(),
            rows: Vec::new(),
            segments: HashSet::new(),
            zone: Zone::named("Europe/Berlin").expect("a zone"),
            made: 0,
            ledger: Ledger::default(),
        }
    }

    fn id<T: Id>(&mut self) -> T {
        self.made += 1;
        numbered(self.made)
    }

    pub fn plan(&self, automation: usize, version: usize) -> Arc<Plan> {
        self.automations[automation].versions[version].clone()
    }

    pub fn contact(&self, id: ContactId) -> Option<&Contact> {
        self.contacts.iter().find(|contact| contact.id == id)
    }

    fn contact_mut(&mut self, id: ContactId) -> Option<&mut Contact> {
        self.contacts.iter_mut().find(|contact| contact.id == id)
    }

    pub fn row(&mut self, id: RunId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.id == id)
    }

    /// Who listens now.
    pub fn listeners(&self) -> Vec<Listener> {
        let enabled = self.automations.iter().enumerate().filter(|(_, automation)| automation.is_enabled);
        let listener = |(at, automation): (usize, &Automation)| Listener {
            automation: at,
            version: automation.versions.len() - 1,
            re_entry: automation.re_entry,
            exit_on: automation.exit_on.clone(),
        };
        enabled.map(listener).collect()
    }

    /// Lets something happen, with the runs that it starts and those it wakes.
    pub fn happen(&mut self, request: &Request) -> Result<(), Refused> {
        if request.revision != self.revision && self.flaw != Some(Flaw::NoGuard) {
            return Err(Refused::Stale);
        }
        match &request.what {
            What::Sent { address, name, payload } => {
                let id = self.meet(*address, request);
                self.record(request, name, id, 0, payload);
            }
            What::Updated { contact } => {
                let stored = self.contact_mut(contact.id).filter(|stored| stored.sequence == contact.sequence);
                *stored.ok_or(Refused::Moved)? = Contact { sequence: contact.sequence + 1, ..contact.clone() };
                self.record(request, SystemEvent::CONTACT_UPDATED, contact.id, 0, &contact.json());
            }
            What::Deleted { contact_id } => {
                self.contact_mut(*contact_id).ok_or(Refused::Moved)?.sequence += 1;
                self.record(request, SystemEvent::CONTACT_DELETED, *contact_id, 0, &Value::Null);
                self.remove_contact(*contact_id, request.at);
            }
        }
        Ok(())
    }

    /// The contact with the address, one step on; made where there is none.
    fn meet(&mut self, address: usize, request: &Request) -> ContactId {
        let email = format!("u{address}@example.com");
        if let Some(contact) = self.contacts.iter_mut().find(|contact| contact.email == email) {
            contact.sequence += 1;
            return contact.id;
        }
        let id = self.id();
        self.contacts.push(Contact {
            id,
            email,
            first_name: None,
            last_name: None,
            unsubscribed: false,
            properties: serde_json::Map::new(),
            sequence: FIRST_SEQUENCE,
            created_at: request.at,
            updated_at: None,
        });
        self.record(request, SystemEvent::CONTACT_CREATED, id, 1, &Value::Null);
        id
    }

    fn record(&mut self, request: &Request, name: &str, contact_id: ContactId, behind: i64, payload: &Value) {
        let at = request.at;
        let seq = self.contact(contact_id).map_or(0, |contact| contact.sequence) - behind;
        let id = self.id();
        let occurrence = Occurrence { id, name: name.into(), contact_id, seq, payload: payload.clone(), at };
        self.occurrences.push(occurrence);
        Ledger::expect(self);
        for listener in &request.listeners {
            let plan = self.plan(listener.automation, listener.version);
            if plan.graph.event_name() == name && self.lets_in(listener, contact_id) {
                self.enter(listener, &plan, contact_id, seq, (at, request.shown));
            }
        }
        if self.flaw != Some(Flaw::NoWake) {
            self.wake(contact_id, name, at);
        }
    }

    fn lets_in(&self, listener: &Listener, contact_id: ContactId) -> bool {
        let mut before =
            self.rows.iter().filter(|row| row.automation == listener.automation && row.contact_id == contact_id);
        match listener.re_entry {
            ReEntry::Always => true,
            ReEntry::OncePerContact => before.next().is_none(),
            ReEntry::OneAtATime => !before.any(Row::is_running),
        }
    }

    fn enter(&mut self, listener: &Listener, plan: &Plan, contact_id: ContactId, since: i64, (now, shown): (i64, i64)) {
        let run = Run::begun(self.id(), &plan.graph, shown, now);
        self.rows.push(Row {
            id: run.id,
            automation: listener.automation,
            version: listener.version,
            contact_id,
            occurrence: self.occurrences.len() - 1,
            since,
            exit_on: listener.exit_on.clone(),
            due_at: run.due_at(now),
            run,
            waiting_for: None,
            attempt: 0,
            settled: 0,
        });
    }

    fn wake(&mut self, contact_id: ContactId, name: &str, now: i64) {
        for row in self.rows.iter_mut().filter(|row| row.contact_id == contact_id && row.is_running()) {
            let listens = row.waiting_for.as_deref() == Some(name) || row.exit_on.as_deref() == Some(name);
            if listens && row.due_at.is_none_or(|due| due > now) {
                row.due_at = Some(now);
            }
        }
    }

    /// Who waited for the contact alone has nothing to wait for any more.
    fn remove_contact(&mut self, id: ContactId, now: i64) {
        self.contacts.retain(|contact| contact.id != id);
        for row in self.rows.iter_mut().filter(|row| row.contact_id == id && row.is_running()) {
            row.due_at = row.due_at.or(Some(now));
        }
    }

    /// Claims the run that has been due for longest.
    pub fn claim(&mut self, now: i64) -> Option<Claimed> {
        let is_due = |row: &&mut Row| row.due_at.is_some_and(|due| due <= now);
        let row = self.rows.iter_mut().filter(is_due).min_by_key(|row| row.due_at)?;
        row.due_at = Some(now + LEASE);
        row.attempt += 1;
        Some(Claimed {
            automation_id: numbered(row.automation),
            id: row.id,
            workspace_id: numbered(0),
            version: row.version as i64,
            contact_id: row.contact_id,
            occurrence_id: numbered(row.occurrence),
            since: row.since,
            exit_on: row.exit_on.clone(),
            state: row.run.to_json(),
            attempt: row.attempt,
            settled: row.settled,
            // The state is always written out here.
            created_at: 0,
            destination: None,
        })
    }

    pub fn sight(&self, claimed: &Claimed) -> Sight {
        Sight {
            contact: self.contact(claimed.contact_id).cloned(),
            payload: self.occurrences[number(claimed.occurrence_id)].payload.clone(),
            automation_stands: !self.automations[number(claimed.automation_id)].is_deleted,
            may_call: true,
            send_window: None,
            zone: self.zone.clone(),
        }
    }

    pub fn history(&self, claimed: &Claimed, names: &[&str]) -> Vec<Heard> {
        let of_run = |one: &&Occurrence| {
            one.contact_id == claimed.contact_id && one.seq > claimed.since && names.contains(&one.name.as_str())
        };
        let heard = |one: &Occurrence| Heard {
            id: one.id,
            seq: one.seq,
            name: one.name.clone(),
            payload: one.payload.clone(),
            at: one.at,
        };
        self.occurrences.iter().filter(of_run).map(heard).collect()
    }

    fn fence(&self, claimed: &Claimed) -> Result<usize, Refused> {
        let ours = |row: &Row| row.id == claimed.id && row.attempt == claimed.attempt && row.is_running();
        let loose = |row: &Row| row.id == claimed.id;
        let found = match self.flaw {
            Some(Flaw::NoFence) => self.rows.iter().position(loose),
            _ => self.rows.iter().position(ours),
        };
        found.ok_or(Refused::Lost)
    }

    /// Commits a turn: what it does to the contact, then where the run is now.
    /// `Err(Ok(_))` is a refusal, `Err(Err(_))` a broken promise.
    pub fn settle(&mut self, turn: &Turn<'_>) -> Result<(), Result<Refused, String>> {
        let fence = self.fence(turn.claimed);
        let is_torn = self.flaw == Some(Flaw::Torn);
        self.check_contact(turn).map_err(Ok)?;
        if !is_torn {
            fence.as_ref().map_err(|_| Ok(Refused::Lost))?;
        }
        Ledger::turn(self, turn).map_err(Err)?;
        self.apply(turn).map_err(Err)?;
        let at = fence.map_err(Ok)?;
        self.write(at, turn.after, turn.waiting_for, turn.now);
        Ok(())
    }

    fn check_contact(&self, turn: &Turn<'_>) -> Result<(), Refused> {
        let is_changed = turn.effects.iter().any(|effect| matches!(effect, Effect::UpdateContact { .. }));
        let is_deleted = turn.effects.contains(&Effect::DeleteContact);
        let stored = self.contact(turn.claimed.contact_id).map(|contact| contact.sequence);
        let seen = turn.contact.map(|contact| contact.sequence);
        let is_held = turn.is_held && self.flaw != Some(Flaw::NoHold);
        let is_bound = is_held || (is_changed && !is_deleted);
        let has_moved = is_bound && seen.is_some() && stored != seen;
        if has_moved || (is_deleted && stored.is_none()) { Err(Refused::Moved) } else { Ok(()) }
    }

    fn apply(&mut self, turn: &Turn<'_>) -> Result<(), String> {
        let id = turn.claimed.contact_id;
        for effect in turn.effects {
            match effect {
                Effect::UpdateContact { changes } => {
                    let stored = self.contact_mut(id).ok_or("nobody to change")?;
                    *stored = changed(stored, changes.clone(), &[])?;
                }
                Effect::DeleteContact => self.remove_contact(id, turn.now),
                Effect::AddToSegment { .. } | Effect::SendEmail { .. } | Effect::SendTemplate { .. } => {}
            }
        }
        let is_changed = turn.effects.iter().any(|effect| matches!(effect, Effect::UpdateContact { .. }));
        if let Some(contact) = self.contact_mut(id).filter(|_| is_changed) {
            contact.sequence += 1;
        }
        Ok(())
    }

    fn write(&mut self, at: usize, run: &Run, waiting_for: Option<&str>, now: i64) {
        let row = &mut self.rows[at];
        row.due_at = run.due_at(now);
        row.run = run.clone();
        row.waiting_for = waiting_for.map(str::to_owned);
        row.settled = row.attempt;
    }

    /// Settles a run that did nothing.
    pub fn record_failure(&mut self, claimed: &Claimed, run: &Run, now: i64) -> Result<(), Refused> {
        let at = self.fence(claimed)?;
        self.write(at, run, None, now);
        Ok(())
    }

    pub fn put_off(&mut self, claimed: &Claimed, due_at: i64) {
        if let Ok(at) = self.fence(claimed) {
            self.rows[at].due_at = Some(due_at);
        }
    }

    /// Somebody ends a run, or lets a failed one go on, as it was seen.
    pub fn change_run(&mut self, seen: (i64, i64), run: Run, now: i64) -> Result<(), Refused> {
        let row = self.row(run.id).filter(|row| (row.attempt, row.settled) == seen).ok_or(Refused::Lost)?;
        row.due_at = run.ending().is_none().then_some(now);
        (row.run, row.waiting_for, row.attempt) = (run, None, row.attempt + 1);
        row.settled = row.attempt;
        Ok(())
    }

    pub fn sweep(&mut self) {
        let automations = &self.automations;
        self.rows.retain(|row| !automations[row.automation].is_deleted);
    }
}
