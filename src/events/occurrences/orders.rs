//! What somebody wants to happen, read from a request.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::shapes::EventToSend;
use super::store::{self, Stored};
use crate::auth::Caller;
use crate::contacts::{self, Email};
use crate::error::Error;
use crate::events::{Events, event::RESERVED_PREFIX, in_force::InForce};
use crate::id::{ContactId, OccurrenceId};
use crate::occurrences::{Occurrence, OccurrenceBatch, Whom};
use crate::text::shown;
use crate::web::{Body, Fingerprint, Many, PAYLOAD_LIMIT};

/// What came with an event: as it was read, or as it lies in the body of a request
/// that sends many, which takes no memory.
enum Payload {
    Read(Option<Value>),
    Unread(Arc<Many>, usize),
}

/// Whom it happens to.
pub enum Recipient {
    /// A contact that must be there.
    Known(ContactId),
    /// Whoever has the address; where nobody has it, a contact with this id.
    Address { email: Email, new_id: ContactId },
}

impl Recipient {
    /// An event happens to this contact.
    pub fn receive(&self, occurrences: &mut OccurrenceBatch<'_>, occurrence: &Occurrence<'_>) {
        match self {
            Recipient::Known(id) => {
                contacts::next_sequence(occurrences, *id);
                occurrences.add(occurrence, Whom::Id(*id));
            }
            Recipient::Address { email, new_id } => {
                let key = contacts::upsert_by_email(occurrences, email, *new_id);
                occurrences.add(occurrence, Whom::EmailKey(&key));
            }
        }
    }
}

/// What somebody wants to happen.
pub struct Order {
    pub id: OccurrenceId,
    pub name: Arc<str>,
    /// Which order of the same request is the first with this name.
    pub first: usize,
    payload: Payload,
    pub recipient: Recipient,
    pub replay_of: Option<OccurrenceId>,
}

impl Order {
    pub fn new(app: &Events, event: EventToSend) -> Result<Order, Error> {
        let recipient = match (event.contact_id, event.email) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("Name the contact by `contact_id` or by `email`, not by both."));
            }
            (None, None) => {
                return Err(Error::Missing {
                    message: "Missing `contact_id` or `email` field: whom does it happen to?".into(),
                });
            }
            (Some(id), None) => Recipient::Known(id),
            (None, Some(email)) => Recipient::Address { email, new_id: app.clock.ordered_id() },
        };
        Ok(Order {
            id: app.clock.ordered_id(),
            name: String::from(event.event).into(),
            first: 0,
            payload: Payload::Read(event.payload),
            recipient,
            replay_of: None,
        })
    }

    /// An occurrence once more.
    pub async fn again(caller: &Caller, app: &Events, id: OccurrenceId) -> Result<Order, Error> {
        let stored: Option<Stored> = caller.query(|| store::by_id(caller.workspace_id(), id)).await?;
        Order::once_more(app, stored.ok_or_else(super::routes::not_found)?)
    }

    /// The same, of one that was read.
    pub fn once_more(app: &Events, stored: Stored) -> Result<Order, Error> {
        if stored.name.starts_with(RESERVED_PREFIX) {
            return Err(Error::invalid(format!(
                "`{}` is a system event, which only the product itself lets happen.",
                shown(&stored.name)
            )));
        }
        Ok(Order {
            id: app.clock.ordered_id(),
            name: stored.name.into(),
            first: 0,
            payload: Payload::Read(Some(serde_json::from_str(&stored.payload).map_err(|_| Error::Internal)?)),
            recipient: Recipient::Known(stored.contact_id),
            replay_of: Some(stored.id),
        })
    }

    /// The same, ordered by a form that carries the id of the occurrence.
    pub fn of_form(self, id: OccurrenceId) -> Order {
        Order { id, ..self }
    }

    /// The same, whose payload is read once more when it is wanted.
    fn unread(self, many: &Arc<Many>, at: usize) -> Order {
        match self.payload {
            Payload::Read(Some(_)) => Order { payload: Payload::Unread(many.clone(), at), ..self },
            _ => self,
        }
    }

    /// How long its payload is at most, where it is one of many.
    pub fn size(&self) -> usize {
        match &self.payload {
            Payload::Read(_) => 0,
            Payload::Unread(many, at) => many.size(*at),
        }
    }

    /// The occurrence that it becomes, if its payload fits what is in force.
    pub fn occurrence(&self, in_force: &InForce) -> Result<Occurrence<'_>, Error> {
        let payload = match &self.payload {
            Payload::Read(payload) => in_force.types.check(payload.as_ref())?.to_string(),
            Payload::Unread(many, at) => {
                let payload = many.body::<EventToSend>(*at)?.read()?.payload;
                in_force.types.check(payload.as_ref())?.to_string()
            }
        };
        if payload.len() > PAYLOAD_LIMIT {
            return Err(Error::TooLarge { limit: PAYLOAD_LIMIT });
        }
        Ok(Occurrence { id: self.id, name: &self.name, payload, replay_of: self.replay_of })
    }
}

/// Reads an order that takes a while, and the fingerprint of it where one is wanted.
pub fn read_large(
    app: &Events,
    mut digest: Option<Sha256>,
    body: Body<EventToSend>,
) -> Result<(Order, Option<Sha256>), Error> {
    digest.iter_mut().for_each(|digest| body.write(digest));
    Ok((Order::new(app, body.read()?)?, digest))
}

/// Reads orders, one at a time, and takes the fingerprint of all of them where one
/// is wanted.
pub fn read_many(
    app: &Events,
    mut digest: Option<Sha256>,
    many: Many,
) -> Result<(Arc<[Order]>, Option<Sha256>), Error> {
    let (mut orders, mut names) = (Vec::<Order>::with_capacity(many.count), HashMap::new());
    let many = Arc::new(many);
    for at in many.places() {
        let placed = |error: Error| error.about(&format!("Event {at}: "));
        let body: Body<EventToSend> = many.body(at).map_err(placed)?;
        if let Some(digest) = &mut digest {
            body.write(digest);
            // No JSON holds this byte: one thing cannot be taken for two.
            digest.update([0]);
        }
        let mut order = body.read().and_then(|event| Order::new(app, event)).map_err(placed)?;
        // A name that many have is there once.
        order.first = *names.entry(order.name.clone()).or_insert(at);
        if let Some(first) = orders.get(order.first) {
            order.name = first.name.clone();
        }
        orders.push(if many.is_large { order.unread(&many, at) } else { order });
    }
    Ok((orders.into(), digest))
}
