//! What happens to contacts: each thing in one commit.

use axum::response::Response;

use super::contact::{Changes, Contact, Email, email_key};
use super::path::{Named, not_found};
use super::properties::{Declared, Properties};
use super::shapes::Reference;
use super::{arrival, properties_store, store};
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::events::occurrences::{self, Happenings, Moment, system};
use crate::id::{SegmentId, WorkspaceId};
use crate::segments;
use crate::topics::{self, Choice};
use crate::web::idempotency::{Answer, IdempotentRequest};

/// How often a change is tried again that another one came before.
const ATTEMPTS: usize = 20;

/// What a new contact is tied to from the start.
#[derive(Default)]
pub struct Ties {
    pub segment_ids: Vec<SegmentId>,
    /// What it wants to hear of.
    pub choices: Vec<Choice>,
}

impl Ties {
    /// What was missing where a statement of [`created`] found nothing.
    fn missing(&self, statement: usize) -> Error {
        if statement <= self.segment_ids.len() { segments::not_found() } else { topics::not_found() }
    }
}

/// The commit of a new contact. Its first statement is the contact; the others
/// are its segments and what it chose of topics, in their order.
fn created(workspace_id: WorkspaceId, contact: &Contact, ties: &Ties) -> Batch {
    let add = |id: &SegmentId| segments::store::add(workspace_id, *id, contact.id, contact.created_at).expect(1);
    let choose = |choice: &Choice| topics::store::choose(workspace_id, contact.id, choice).expect(1);
    std::iter::once(store::insert(workspace_id, contact))
        .chain(ties.segment_ids.iter().map(add))
        .chain(ties.choices.iter().map(choose))
        .collect()
}

/// The commit of a changed contact, under the version that it was read with.
fn updated(workspace_id: WorkspaceId, contact: &Contact, now: i64) -> Batch {
    store::replace(workspace_id, contact, now).into()
}

/// The commit of a deletion.
fn deleted(workspace_id: WorkspaceId, contact: &Contact) -> Batch {
    store::delete(workspace_id, contact.id)
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

/// Adds a contact to the workspace, as a request asks for it.
pub async fn create(
    caller: &Caller<FullAccess>,
    app: &App,
    request: &IdempotentRequest<'_, FullAccess>,
    email: &Email,
    (changes, ties): (&Changes, &Ties),
) -> Result<Creation, Error> {
    check_types(caller, &changes.properties).await?;
    let contact = changes.create(app.clock.ordered_id(), email, app.clock.now())?;
    let answer = Answer::created(&Reference::to(&contact))?;
    let make = |happenings: &mut Happenings<'_>| {
        request.take(&answer, &mut happenings.batch);
        happenings.batch.append(created(caller.workspace_id(), &contact, ties));
        happenings.tell(system::CONTACT_CREATED, contact.id, &contact.json(), Moment::BIRTH);
    };
    let settled = occurrences::commit(caller, app, make).await?;
    match request.settle(settled, answer).await? {
        Ok(answer) => Ok(Creation::Made(answer)),
        Err(DbError::Duplicate(_)) => Ok(Creation::Taken(holder(caller, email.as_str()).await?)),
        Err(DbError::Unexpected { statement }) => Err(ties.missing(statement)),
        Err(error) => Err(error.into()),
    }
}

/// Changes a contact. What others change at the same time is not undone: the
/// change is applied to the contact as it then is.
pub async fn update(
    caller: &Caller<FullAccess>,
    app: &App,
    named: &Named,
    changes: &Changes,
) -> Result<Contact, Error> {
    check_types(caller, &changes.properties).await?;
    for _ in 0..ATTEMPTS {
        let before = named.find(caller).await?;
        let after = changes.apply(&before)?;
        if after == before {
            return Ok(before);
        }
        let now = app.clock.now();
        let change = |happenings: &mut Happenings<'_>| {
            happenings.batch.append(updated(caller.workspace_id(), &after, now));
            let told = Contact { updated_at: Some(now), ..after.clone() };
            happenings.tell(system::CONTACT_UPDATED, after.id, &told.json(), Moment::NOW);
        };
        match occurrences::commit(caller, app, change).await? {
            Ok(_) => return Ok(after),
            Err(DbError::Unexpected { .. }) => {}
            Err(DbError::Duplicate(_)) => return Err(taken(holder(caller, &after.email).await?)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}

/// Deletes a contact. What is told of it is told first: nothing can happen to
/// whom is not there.
pub async fn delete(caller: &Caller<FullAccess>, app: &App, contact: &Contact) -> Result<(), Error> {
    let remove = |happenings: &mut Happenings<'_>| {
        happenings.batch.push(arrival::touch(caller.workspace_id(), contact.id));
        happenings.tell(system::CONTACT_DELETED, contact.id, &contact.json(), Moment::NOW);
        happenings.part_with(contact.id);
        happenings.batch.append(deleted(caller.workspace_id(), contact));
    };
    match occurrences::commit(caller, app, remove).await? {
        Ok(_) => Ok(()),
        Err(DbError::Unexpected { .. }) => Err(not_found()),
        Err(error) => Err(error.into()),
    }
}

/// Holds given properties to the types that were declared for them.
async fn check_types(caller: &Caller<FullAccess>, properties: &Properties) -> Result<(), Error> {
    if properties.is_empty() {
        return Ok(());
    }
    let rows = caller.read(|| properties_store::all(caller.workspace_id())).await?;
    properties.check(&Declared::read_all(&rows)?)
}

/// Who has this address.
async fn holder(caller: &Caller<FullAccess>, email: &str) -> Result<Option<Contact>, Error> {
    let rows = caller.read(|| store::by_email_key(caller.workspace_id(), &email_key(email))).await?;
    Ok(rows.first().map(Contact::read).transpose()?)
}

fn taken(holder: Option<Contact>) -> Error {
    let message = match holder {
        Some(Contact { id, .. }) => format!("A contact with this address exists already. Its id is `{id}`."),
        None => "A contact with this address exists already.".into(),
    };
    Error::Conflict { message }
}
