//! Erases a person. The contact goes at once; a worker goes through everything else, some rows a commit, and what it
//! has reached stands in the same commit.

use serde_json::{Map, Value};
use tokio::sync::watch;
use uuid::Uuid;

use super::store::{self, Claimed, Mail, Person, Received, Run, Stretch};
use crate::auth::{Actor, Settled};
use crate::clock::Time;
use crate::contacts::path::not_found;
use crate::contacts::{contact::Contact, contact::email_key, write};
use crate::db::{Batch, DbError, FromRow, from_row};
use crate::error::{Error, OrMissing};
use crate::id::{ContactId, EmailId, Id};
use crate::occurrences::{EndedRun, Ending, OccurrenceBatch, Occurrences};
use crate::suppressions::{self, Origin, Suppression};
use crate::work::{self, Claimable, Next, Tasks, Worker};

/// After so many commits another erasure has its turn.
const TURN: usize = 20;

/// What is gone through, one after the other.
const RUNS: i64 = 0;
const EVENTS: i64 = 1;
const MAILS: i64 = 2;
const RECEIVED: i64 = 3;
const TOLD: i64 = 4;
const LOG: i64 = 5;
const REST: i64 = 6;

/// How far the erasure of a person is.
pub struct Erased {
    pub id: ContactId,
    pub created_at: Time,
    pub completed_at: Option<Time>,
}

from_row!(Erased { id, created_at, completed_at });

/// What stands where an address stood.
fn nobody(id: ContactId) -> String {
    format!("erased-{id}@erased.invalid")
}

/// Begins to erase a person: the contact is gone when this returns. `suppress` says whether the address is kept from
/// getting mail ever again.
pub async fn begin(actor: &dyn Actor, app: &Occurrences, contact: &Contact, suppress: bool) -> Result<(), Error> {
    commit(actor, app, contact, suppress, app.clock.now(), |_| {}).await?.or_missing(not_found)?;
    Ok(())
}

/// The same, with something that the batch does `first`.
pub async fn commit(
    actor: &dyn Actor,
    app: &Occurrences,
    contact: &Contact,
    suppress: bool,
    now: i64,
    first: impl Fn(&mut Batch),
) -> Settled {
    let person = Person { workspace_id: actor.workspace_id(), id: contact.id, email_key: email_key(&contact.email) };
    // Whoever is told that the contact is gone need not be told once more what was known of it.
    let bare = Contact {
        email: nobody(contact.id),
        first_name: None,
        last_name: None,
        properties: Map::new(),
        ..contact.clone()
    };
    let fill = |occurrences: &mut OccurrenceBatch<'_>| {
        first(&mut occurrences.batch);
        write::delete(occurrences, &bare);
        occurrences.batch.push(store::insert(&person, now, app.clock.steady()));
        if suppress {
            let (address, reason) = (person.email_key.as_str(), Some(store::ERASED));
            let new = Suppression { address, origin: Origin::Manual, reason, email_id: None };
            suppressions::add_unnamed(occurrences, app.clock.ordered_id(), &new, &bare.email);
        }
    };
    app.commit(actor, fill).await
}

pub async fn find(actor: &dyn Actor, id: ContactId) -> Result<Option<Erased>, Error> {
    actor.query(|| store::erasure(actor.workspace_id(), id)).await
}

/// Works until told to stop.
pub async fn run(app: Occurrences, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    work::run(Erasing(app), clock, stopping).await;
}

struct Erasing(Occurrences);

impl Worker for Erasing {
    const NAME: &'static str = "erasures";

    async fn round(&mut self, _: &mut Tasks) -> Result<Next, DbError> {
        Ok(if round(&self.0).await? { Next::AtOnce } else { Next::Due(None) })
    }
}

/// Gives one erasure a turn, if any is due.
pub async fn round(app: &Occurrences) -> Result<bool, DbError> {
    let Some(mut claimed) = work::claim_due::<Claimed>(&app.db, &app.clock, 1).await?.pop() else { return Ok(false) };
    for turn in 1..=TURN {
        let due_at = if turn == TURN { app.clock.steady() } else { app.clock.steady() + Claimed::LEASE };
        match step(app, &mut claimed, due_at).await {
            Ok(true) => {}
            // It is done, or somebody else has it now.
            Ok(false) | Err(DbError::Unexpected { .. }) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Erases what is found in some rows. Tells whether there is more to do.
async fn step(app: &Occurrences, claimed: &mut Claimed, due_at: i64) -> Result<bool, DbError> {
    let person = Person { workspace_id: claimed.workspace_id, id: claimed.id, email_key: claimed.email_key.clone() };
    let behind = (claimed.position, claimed.number);
    let mut batch = Batch::new();
    let reached = match claimed.stage {
        RUNS => forget_runs(app, &person, &mut batch).await?.then_some(behind),
        EVENTS => {
            let edge: Option<Uuid> = app.db.query(store::edge_of_events(person.workspace_id, behind.0)).await?;
            let stretch = edge.map(|edge| Stretch { behind, until: (edge, 0) });
            stretch.iter().for_each(|of| batch.push(store::delete_events(&person, *of)));
            stretch.map(|of| of.until)
        }
        MAILS => forget_mails(app, &person, behind, &mut batch).await?,
        RECEIVED => forget_received(app, &person, behind, &mut batch).await?,
        TOLD => forget_told(app, &person, behind, &mut batch).await?,
        LOG => {
            let edge: Option<Uuid> = app.db.query(store::edge_of_log(person.workspace_id, behind.0)).await?;
            let stretch = edge.map(|edge| Stretch { behind, until: (edge, 0) });
            stretch.iter().for_each(|of| batch.push(store::delete_log(&person, *of)));
            stretch.map(|of| of.until)
        }
        _ => None,
    };
    if claimed.stage >= REST {
        let last = Batch::from(store::end(claimed, app.clock.now()))
            .and(store::delete_signups(&person))
            .and(store::delete_places(&person))
            .and(store::thin_suppression(&person));
        app.db.commit(last).await?;
        return Ok(false);
    }
    let (stage, place) = match reached {
        Some(place) => (claimed.stage, place),
        None => (claimed.stage + 1, (Uuid::nil(), 0)),
    };
    // The first statement is the fence.
    let mut all = Batch::from(store::advance(claimed, stage, place, due_at));
    all.append(batch);
    app.db.commit(all).await?;
    (claimed.stage, claimed.position, claimed.number) = (stage, place.0, place.1);
    Ok(true)
}

/// Tells whether there may be more.
async fn forget_runs(app: &Occurrences, person: &Person, batch: &mut Batch) -> Result<bool, DbError> {
    let runs: Vec<Run> = app.db.query(store::runs(person, Uuid::nil())).await?;
    let now = app.clock.now();
    for run in &runs {
        if run.status == "running" {
            let Run { id, automation_id, occurrence_id, created_at: Time(created_at), .. } = *run;
            let (contact_id, ending) = (person.id, Ending::Cancelled);
            let ended = EndedRun { id, automation_id, contact_id, occurrence_id, created_at, ending, now };
            ended.cut_short(batch, &app.clock, person.workspace_id);
        }
        batch.push(store::delete_outbox(run.id));
        batch.push(store::delete_run(run.automation_id, run.id));
    }
    Ok(!runs.is_empty())
}

async fn forget_mails(
    app: &Occurrences,
    person: &Person,
    behind: (Uuid, i64),
    batch: &mut Batch,
) -> Result<Option<(Uuid, i64)>, DbError> {
    let edge: Option<(Uuid, i64)> = app.db.query(store::edge_of_recipients(behind.0, behind.1)).await?;
    let Some(until) = edge else { return Ok(None) };
    let found: Vec<(EmailId, i64)> = app.db.query(store::recipients(person, Stretch { behind, until })).await?;
    for (email_id, number) in found {
        batch.push(store::forget_recipient(email_id, number, &nobody(person.id)));
        batch.push(store::forget_history(email_id, number));
        batch.push(store::forget_values(email_id, number));
        let mail: Option<Mail> = app.db.query(store::mail(email_id)).await?;
        let Some(mail) = mail.filter(|mail| mail.origin != "broadcast") else { continue };
        if mail.is_shared {
            // The body is the others', too. It goes when its time has come.
            batch.push(store::set_envelope(email_id, &without(mail.envelope, person).to_string()));
        } else {
            let envelope = serde_json::json!({"to": [nobody(person.id)]}).to_string();
            batch.push(store::forget_content(email_id, &envelope));
            batch.push(store::forget_pieces(email_id));
            batch.push(store::forget_whole_history(email_id));
        }
    }
    Ok(Some(until))
}

/// An envelope that names somebody else where it named the person.
fn without(mut envelope: Value, person: &Person) -> Value {
    let is_theirs = |address: &str| {
        let address = address.to_lowercase();
        address == person.email_key || address.ends_with(&format!("<{}>", person.email_key))
    };
    for field in ["to", "cc", "bcc", "reply_to"] {
        for address in envelope.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if address.as_str().is_some_and(is_theirs) {
                *address = nobody(person.id).into();
            }
        }
    }
    envelope
}

async fn forget_received(
    app: &Occurrences,
    person: &Person,
    behind: (Uuid, i64),
    batch: &mut Batch,
) -> Result<Option<(Uuid, i64)>, DbError> {
    let edge: Option<Uuid> = app.db.query(store::edge_of_received(person.workspace_id, behind.0)).await?;
    let Some(until) = edge.map(|edge| (edge, 0)) else { return Ok(None) };
    for row in app.db.read(store::received(person, Stretch { behind, until })).await? {
        let received = Received::of_row(&row)?;
        batch.push(store::delete_received(received.id));
        batch.push(store::delete_received_pieces(received.id));
    }
    Ok(Some(until))
}

async fn forget_told(
    app: &Occurrences,
    person: &Person,
    behind: (Uuid, i64),
    batch: &mut Batch,
) -> Result<Option<(Uuid, i64)>, DbError> {
    let edge: Option<Uuid> = app.db.query(store::edge_of_told(behind.0)).await?;
    let Some(until) = edge.map(|edge| (edge, 0)) else { return Ok(None) };
    let told: Vec<Uuid> = app.db.query(store::told(person, Stretch { behind, until })).await?;
    for id in told {
        batch.push(store::delete_deliveries(id.uuid()));
        batch.push(store::delete_told(id));
    }
    Ok(Some(until))
}
