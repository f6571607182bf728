//! What requests ask of contacts: each thing in one commit.

use axum::response::Response;

use super::contact::{Changes, Contact, Email, email_key};
use super::path::{Named, not_found};
use super::properties::Declared;
use super::shapes::Reference;
use super::write::{self, UnsubscribedBy};
use super::{properties_store, store};
use crate::auth::{Actor, Caller};
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::SegmentId;
use crate::occurrences::{OccurrenceBatch, Occurrences};
use crate::segments;
use crate::topics::{self, Choice};
use crate::web::{Answer, IdempotentRequest};

/// How often a change is tried again that another one came before.
pub(super) const ATTEMPTS: usize = 20;

/// What a new contact is tied to from the start.
#[derive(Default)]
pub struct Ties {
    pub segment_ids: Vec<SegmentId>,
    /// What it wants to hear of.
    pub choices: Vec<Choice>,
}

impl Ties {
    /// What was missing where a statement of [`write::create`] found nothing.
    async fn missing(&self, actor: &dyn Actor, statement: usize) -> Result<Error, Error> {
        match statement.checked_sub(1).and_then(|at| self.segment_ids.get(at)) {
            Some(segment_id) => segments::why_not_taken(actor, *segment_id).await,
            None => Ok(topics::not_found()),
        }
    }
}

/// What came of a wish for a new contact.
pub enum Creation {
    /// It is there, and this is the answer.
    Made(Response),
    /// Somebody has the address; `None`: had it a moment ago.
    Taken(Option<Contact>),
}

impl Creation {
    pub fn made(self) -> Result<Response, Error> {
        match self {
            Creation::Made(answer) => Ok(answer),
            Creation::Taken(holder) => Err(taken(holder)),
        }
    }
}

/// The contact that is to be added.
async fn new(actor: &dyn Actor, app: &Occurrences, email: &Email, changes: &Changes) -> Result<Contact, Error> {
    let declared = declared(actor, changes).await?;
    changes.apply(&Contact::new(app.clock.ordered_id(), email, app.clock.now()), &declared)
}

fn fill(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact, ties: &Ties) {
    let ties = (ties.segment_ids.as_slice(), ties.choices.as_slice());
    let ties = write::ties(occurrences.workspace_id(), contact, ties, contact.created_at);
    write::create(occurrences, contact, ties.map(|tie| tie.expect(1)));
}

/// Adds a contact to the workspace, as a request asks for it.
pub async fn create(
    caller: &Caller,
    app: &Occurrences,
    request: &IdempotentRequest<'_>,
    email: &Email,
    (changes, ties): (&Changes, &Ties),
) -> Result<Creation, Error> {
    let contact = new(caller, app, email, changes).await?;
    let answer = Answer::created(&Reference::to(contact.id))?;
    let make = |occurrences: &mut OccurrenceBatch<'_>| {
        request.take(&answer, &mut occurrences.batch);
        fill(occurrences, &contact, ties);
    };
    let settled = app.commit(caller, make).await?;
    match request.settle(settled, answer).await? {
        Ok(answer) => Ok(Creation::Made(answer)),
        Err(DbError::Duplicate(_)) => Ok(Creation::Taken(holder(caller, email.as_str()).await?)),
        Err(DbError::Unexpected { statement }) => Err(ties.missing(caller, statement).await?),
        Err(error) => Err(error.into()),
    }
}

/// The same, as a form asks for it.
pub async fn add(
    actor: &dyn Actor,
    app: &Occurrences,
    email: &Email,
    (changes, ties): (&Changes, &Ties),
) -> Result<Contact, Error> {
    let contact = new(actor, app, email, changes).await?;
    match app.commit(actor, |occurrences| fill(occurrences, &contact, ties)).await? {
        Ok(_) => Ok(contact),
        Err(DbError::Duplicate(_)) => Err(taken(holder(actor, email.as_str()).await?)),
        Err(DbError::Unexpected { statement }) => Err(ties.missing(actor, statement).await?),
        Err(error) => Err(error.into()),
    }
}

/// Changes a contact. What others change at the same time is not undone: the
/// change is applied to the contact as it then is.
pub async fn update(
    actor: &dyn Actor,
    app: &Occurrences,
    named: &Named,
    changes: &Changes,
    by: UnsubscribedBy,
) -> Result<Contact, Error> {
    let declared = declared(actor, changes).await?;
    for _ in 0..ATTEMPTS {
        let before = named.find(actor).await?;
        let after = changes.apply(&before, &declared)?;
        if after == before {
            return Ok(before);
        }
        let fill = |occurrences: &mut OccurrenceBatch<'_>| {
            write::update(occurrences, &before, &after, by);
        };
        match app.commit(actor, fill).await? {
            Ok(_) => return Ok(after),
            Err(DbError::Unexpected { .. }) => {}
            Err(DbError::Duplicate(_)) => return Err(taken(holder(actor, &after.email).await?)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}

/// Deletes a contact.
pub async fn delete(actor: &dyn Actor, app: &Occurrences, contact: &Contact) -> Result<(), Error> {
    let deleted = app.commit(actor, |occurrences| write::delete(occurrences, contact)).await?;
    deleted.or_missing(not_found).map(drop)
}

/// The types that given properties are held to.
async fn declared(actor: &dyn Actor, changes: &Changes) -> Result<Vec<Declared>, Error> {
    if !changes.sets_properties() {
        return Ok(Vec::new());
    }
    let rows = actor.read(|| properties_store::all(actor.workspace_id())).await?;
    Ok(Declared::read_all(&rows)?)
}

/// Who has this address.
async fn holder(actor: &dyn Actor, email: &str) -> Result<Option<Contact>, Error> {
    let rows = actor.read(|| store::by_email_key(actor.workspace_id(), &email_key(email))).await?;
    Ok(rows.first().map(Contact::read).transpose()?)
}

fn taken(holder: Option<Contact>) -> Error {
    let message = match holder {
        Some(Contact { id, .. }) => format!("A contact with this address exists already. Its id is `{id}`."),
        None => "A contact with this address exists already.".into(),
    };
    Error::Conflict { message }
}
