//! Occurrences: each time an event happens to a contact, and what that starts.
//!
//! | Route | |
//! |---|---|
//! | `POST /events/send` | an event happens to a contact; its automations start |
//! | `POST /events/send/batch` | up to 1,000 of them, all or none |
//! | `GET /events/{id or name}/occurrences` | what happened, newest first |
//! | `GET /occurrences/{id}` | one, with the runs that it started |
//! | `POST /occurrences/{id}/replay` | let it happen once more |

pub mod routes;
mod send;
mod shapes;
pub mod store;

use std::sync::Arc;

use serde_json::Value;

use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::automations::entry::{self, Cause};
use crate::automations::triggers::Listeners;
use crate::clock::Clock;
use crate::contacts::arrival::{self, Whom};
use crate::contacts::contact::Email;
use crate::db::{Batch, DbError, Effect};
use crate::error::Error;
use crate::events::store as definitions;
use crate::id::{ContactId, OccurrenceId, WorkspaceId};

/// How often what a commit was prepared under, as it is cached, may change before
/// the commit is prepared under what is read for it alone.
const GUARDED: usize = 4;

/// How often a commit is prepared in all.
const ATTEMPTS: usize = 8;

/// What happens.
pub struct Occurrence<'a> {
    pub id: OccurrenceId,
    pub name: &'a str,
    pub payload: String,
    /// The occurrence that this one repeats.
    pub replay_of: Option<OccurrenceId>,
}

/// Whom it happens to.
pub enum Recipient {
    /// A contact that must be there.
    Known(ContactId),
    /// Whoever has the address; where nobody has it, a contact with this id.
    Address { email: Email, new_id: ContactId },
}

/// The moment in a contact's life that an occurrence is.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// How far it lies behind the contact's version.
    behind: i64,
    /// It only comes to pass for a contact of no higher version.
    newest: i64,
}

impl Moment {
    /// Whatever just made the contact's version what it is.
    pub const NOW: Moment = Moment { behind: 0, newest: i64::MAX };
    /// The making of a contact that is new; nothing for one that is not.
    pub const BIRTH: Moment = Moment { behind: 1, newest: arrival::NEW };
}

/// What a commit will hold: occurrences, the runs that they start with their
/// first timers, and the waking of runs that waited for them.
pub struct Happenings<'a> {
    workspace_id: WorkspaceId,
    listeners: &'a Listeners,
    clock: &'a Clock,
    now: i64,
    steady: i64,
    pub batch: Batch,
    /// Which statements wake runs.
    wakes: Vec<usize>,
    /// Which statements tell of a loop.
    alarms: Vec<usize>,
    /// Which statements must find the contact that was named.
    lookups: Vec<usize>,
    /// Which statements define an event that nobody had defined.
    definitions: Vec<usize>,
    starts_now: bool,
    /// How many occurrences and runs it makes.
    pub weight: usize,
}

impl<'a> Happenings<'a> {
    pub fn new(workspace_id: WorkspaceId, listeners: &'a Listeners, clock: &'a Clock, now: i64) -> Happenings<'a> {
        let mut batch = Batch::new();
        listeners.guard().into_iter().for_each(|guard| batch.guard(guard));
        Happenings {
            workspace_id,
            listeners,
            clock,
            now,
            steady: clock.steady(),
            batch,
            wakes: Vec::new(),
            alarms: Vec::new(),
            lookups: Vec::new(),
            definitions: Vec::new(),
            starts_now: false,
            weight: 0,
        }
    }

    /// The first use of a name defines it. Where another's came first, the batch
    /// fails at this statement.
    pub fn define(&mut self, name: &str) {
        self.definitions.push(self.batch.len());
        self.batch.push(definitions::define_by_use(self.workspace_id, self.clock.ordered_id(), name, self.now));
    }

    /// An event happens to somebody.
    pub fn add(&mut self, occurrence: &Occurrence<'_>, recipient: &Recipient) {
        match recipient {
            Recipient::Known(id) => {
                self.lookups.push(self.batch.len());
                self.batch.lock(id);
                self.batch.push(arrival::touch(self.workspace_id, *id));
                self.record(occurrence, Whom::Id(*id), Moment::NOW);
            }
            Recipient::Address { email, new_id } => {
                let key = email.key();
                self.batch.lock(&key);
                self.batch.push(arrival::meet(self.workspace_id, (email, &key), *new_id, self.now));
                if !self.listeners.to(system::CONTACT_CREATED).is_empty() {
                    let birth = Occurrence {
                        id: self.clock.ordered_id(),
                        name: system::CONTACT_CREATED,
                        payload: system::newborn(*new_id, email, self.now).to_string(),
                        replay_of: None,
                    };
                    self.record(&birth, Whom::EmailKey(&key), Moment::BIRTH);
                }
                self.record(occurrence, Whom::EmailKey(&key), Moment::NOW);
            }
        }
    }

    /// The product tells what it did to a contact, in the commit that does it.
    pub fn tell(&mut self, name: &str, contact_id: ContactId, payload: &Value, moment: Moment) {
        self.batch.lock(contact_id);
        let id = self.clock.ordered_id();
        let occurrence = Occurrence { id, name, payload: payload.to_string(), replay_of: None };
        self.record(&occurrence, Whom::Id(contact_id), moment);
    }

    /// The contact goes: a run that only an event could wake waits in vain.
    pub fn part_with(&mut self, contact_id: ContactId) {
        self.wakes.push(self.batch.len());
        self.batch.push(entry::release(self.workspace_id, contact_id, self.steady));
    }

    fn record(&mut self, occurrence: &Occurrence<'_>, whom: Whom<'_>, moment: Moment) {
        // Nobody can have waited for a contact that was not there.
        let heard = moment.newest == Moment::NOW.newest && self.listeners.may_wake(occurrence.name);
        self.batch.push(store::insert(self.workspace_id, occurrence, (whom, moment), heard, self.now));
        let (workspace_id, occurrence_id) = (self.workspace_id, occurrence.id);
        let cause = Cause { workspace_id, occurrence_id, whom, now: self.now, steady: self.steady };
        let triggers = self.listeners.to(occurrence.name);
        self.weight += 1 + triggers.len();
        let entry = entry::enter(&cause, triggers, (self.clock, self.listeners.fuse()), &mut self.batch);
        self.starts_now |= entry.at_once;
        self.alarms.extend(entry.alarms);
        if heard {
            self.wakes.push(self.batch.len());
            self.batch.push(entry::wake(&cause, occurrence.name));
        }
    }

    /// What is to be done once the batch is committed.
    pub fn aftermath(self) -> (Batch, Aftermath) {
        let Happenings { batch, wakes, alarms, lookups, definitions, starts_now, .. } = self;
        (batch, Aftermath { wakes, alarms, lookups, definitions, starts_now })
    }
}

/// The automations that listen, for an attempt to commit.
async fn listeners(app: &App, workspace_id: WorkspaceId, attempt: usize) -> Result<Arc<Listeners>, DbError> {
    match attempt < GUARDED {
        true => app.triggers.of(&app.db, workspace_id).await,
        false => app.triggers.of_this_moment(&app.db, workspace_id).await,
    }
}

/// Commits what `fill` lets happen, under the automations that listen at that
/// moment.
pub async fn commit(
    caller: &Caller<FullAccess>,
    app: &App,
    fill: impl Fn(&mut Happenings<'_>),
) -> Result<Result<Vec<Effect>, DbError>, Error> {
    for attempt in 0..ATTEMPTS {
        let listeners = listeners(app, caller.workspace_id(), attempt).await?;
        let mut happenings = Happenings::new(caller.workspace_id(), &listeners, &app.clock, app.clock.now());
        fill(&mut happenings);
        let (batch, aftermath) = happenings.aftermath();
        match caller.commit_once(batch).await? {
            Ok(effects) => {
                app.wake_workers_if(aftermath.is_urgent(&effects));
                return Ok(Ok(effects));
            }
            Err(DbError::Stale) => app.triggers.forget(caller.workspace_id()),
            Err(error) => return Ok(Err(error)),
        }
    }
    Err(Error::Unavailable)
}

/// What a committed batch of happenings leads to.
pub struct Aftermath {
    wakes: Vec<usize>,
    alarms: Vec<usize>,
    lookups: Vec<usize>,
    definitions: Vec<usize>,
    starts_now: bool,
}

impl Aftermath {
    /// Whether there is work for a worker at once.
    pub fn is_urgent(&self, effects: &[Effect]) -> bool {
        let has_changed = |at: &usize| effects.get(*at).is_some_and(|effect| effect.changed > 0);
        if self.alarms.iter().any(has_changed) {
            tracing::warn!("an automation was stopped for a contact that started too many of its runs: a loop?");
            metrics::counter!("posthorn_loops_stopped_total").increment(1);
        }
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

/// What the product itself lets happen.
pub mod system {
    use serde_json::{Value, json};

    use crate::clock::rfc3339;
    use crate::contacts::contact::Email;
    use crate::id::ContactId;

    pub const CONTACT_CREATED: &str = "svc:contact.created";
    pub const CONTACT_UPDATED: &str = "svc:contact.updated";
    pub const CONTACT_DELETED: &str = "svc:contact.deleted";

    pub const ALL: [&str; 3] = [CONTACT_CREATED, CONTACT_UPDATED, CONTACT_DELETED];

    /// A contact of which nothing is known but the address.
    pub fn newborn(id: ContactId, email: &Email, now: i64) -> Value {
        json!({
            "id": id,
            "email": email.as_str(),
            "first_name": null,
            "last_name": null,
            "unsubscribed": false,
            "properties": {},
            "created_at": rfc3339(now),
            "updated_at": null,
        })
    }
}
