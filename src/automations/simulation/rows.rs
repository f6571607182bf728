//! What the store in memory holds, and what it is asked to do.

use std::sync::Arc;

use serde_json::Value;

use crate::automations::automation::ReEntry;
use crate::automations::engine::{Claimed, Plan};
use crate::automations::run::{Effect, Run};
use crate::contacts::Contact;
use crate::id::{ContactId, OccurrenceId, RunId};

pub struct Automation {
    pub is_enabled: bool,
    pub is_deleted: bool,
    pub re_entry: ReEntry,
    pub exit_on: Option<String>,
    /// The last one is in force.
    pub versions: Vec<Arc<Plan>>,
}

pub struct Occurrence {
    pub id: OccurrenceId,
    pub name: String,
    pub contact_id: ContactId,
    pub seq: i64,
    pub payload: Value,
    pub at: i64,
}

/// A row of `runs`.
pub struct Row {
    pub id: RunId,
    pub automation: usize,
    pub version: usize,
    pub contact_id: ContactId,
    pub occurrence: usize,
    pub since: i64,
    pub exit_on: Option<String>,
    /// What the text in `state` says.
    pub run: Run,
    pub waiting_for: Option<String>,
    pub due_at: Option<i64>,
    pub attempt: i64,
    pub settled: i64,
}

impl Row {
    pub fn is_running(&self) -> bool {
        self.run.ending().is_none()
    }
}

/// An automation that listens, as it was when somebody looked.
pub struct Listener {
    pub automation: usize,
    pub version: usize,
    pub re_entry: ReEntry,
    pub exit_on: Option<String>,
}

/// What happens to a contact, prepared under a revision of the automations.
pub struct Request {
    pub revision: i64,
    pub listeners: Vec<Listener>,
    pub what: What,
    pub at: i64,
    /// What the clock showed then.
    pub shown: i64,
}

#[derive(Clone)]
pub enum What {
    /// An event for whoever has the address.
    Sent {
        address: usize,
        name: &'static str,
        payload: Value,
    },
    /// Somebody changed the contact that was read.
    Updated {
        contact: Contact,
    },
    Deleted {
        contact_id: ContactId,
    },
}

/// Why a commit was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// What it was prepared under has changed.
    Stale,
    /// The contact has moved on.
    Moved,
    /// The run is another's.
    Lost,
}

/// A turn to be committed.
pub struct Turn<'a> {
    pub claimed: &'a Claimed,
    pub contact: Option<&'a Contact>,
    pub after: &'a Run,
    pub effects: &'a [Effect],
    pub waiting_for: Option<&'a str>,
    pub is_held: bool,
    pub now: i64,
}
