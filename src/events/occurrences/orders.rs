//! What somebody wants to happen, read from a request.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::store::{self, Stored};
use super::{Occurrence, Recipient};
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::contacts::contact::Email;
use crate::error::Error;
use crate::events::event::{EventName, RESERVED_PREFIX};
use crate::events::in_force::InForce;
use crate::events::payload;
use crate::web::idempotency::Fingerprint;
use crate::web::input::{Input, shown};
use crate::web::many::Many;

/// What came with an event: as it was read, or as it lies in the body of a request
/// that sends many, which takes no memory.
enum Payload {
    Read(Option<Value>),
    Unread(Arc<Many>, usize),
}

/// What somebody wants to happen.
pub struct Order {
    pub id: String,
    pub name: Arc<str>,
    /// Which order of the same request is the first with this name.
    pub first: usize,
    payload: Payload,
    pub recipient: Recipient,
    pub replay_of: Option<String>,
}

impl Order {
    pub fn parse(app: &App, mut input: Input) -> Result<Order, Error> {
        let name = input.required("event")?;
        let name = EventName::sent(name)?;
        let recipient = match (input.get("contact_id"), input.get("email")) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("Name the contact by `contact_id` or by `email`, not by both."));
            }
            (None, None) => {
                return Err(Error::Missing {
                    message: "Missing `contact_id` or `email` field: whom does it happen to?".into(),
                });
            }
            (Some(id), None) => Recipient::Known(contact_id(id)?),
            (None, Some(email)) => Recipient::Address { email: Email::parse(email)?, new_id: app.clock.ordered_id() },
        };
        let payload = Payload::Read(input.take("payload"));
        Ok(Order {
            id: app.clock.ordered_id(),
            name: name.as_str().into(),
            first: 0,
            payload,
            recipient,
            replay_of: None,
        })
    }

    /// An occurrence once more.
    pub async fn again(caller: &Caller<FullAccess>, app: &App, id: &str) -> Result<Order, Error> {
        let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
        let stored = Stored::read(rows.first().ok_or_else(super::routes::not_found)?)?;
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
                let payload = many.input(*at)?.take("payload");
                in_force.types.check(payload.as_ref())?.to_string()
            }
        };
        if payload.len() > payload::LIMIT {
            return Err(Error::TooLarge { limit: payload::LIMIT });
        }
        Ok(Occurrence { id: self.id.clone(), name: &self.name, payload, replay_of: self.replay_of.as_deref() })
    }
}

/// Reads an order that takes a while, and the fingerprint of it where one is wanted.
pub fn read_large(app: &App, mut digest: Option<Sha256>, input: Input) -> Result<(Order, Option<Sha256>), Error> {
    digest.iter_mut().for_each(|digest| input.write(digest));
    Ok((Order::parse(app, input)?, digest))
}

/// Reads orders, one at a time, and takes the fingerprint of all of them where one
/// is wanted.
pub fn read_many(app: &App, mut digest: Option<Sha256>, many: Many) -> Result<(Arc<[Order]>, Option<Sha256>), Error> {
    let (mut orders, mut names) = (Vec::<Order>::with_capacity(many.count), HashMap::new());
    let many = Arc::new(many);
    for at in many.places() {
        let placed = |error: Error| error.about(&format!("Event {at}: "));
        let input = many.input(at).map_err(placed)?;
        if let Some(digest) = &mut digest {
            input.write(digest);
            // No JSON holds this byte: one thing cannot be taken for two.
            digest.update([0]);
        }
        let mut order = Order::parse(app, input).map_err(placed)?;
        // A name that many have is there once.
        order.first = *names.entry(order.name.clone()).or_insert(at);
        if let Some(first) = orders.get(order.first) {
            order.name = first.name.clone();
        }
        orders.push(if many.is_large { order.unread(&many, at) } else { order });
    }
    Ok((orders.into(), digest))
}

fn contact_id(value: &Value) -> Result<String, Error> {
    let id = value.as_str().and_then(|text| uuid::Uuid::try_parse(text).ok());
    let id = id.ok_or_else(|| Error::invalid("The `contact_id` field must be the id of a contact, a UUID."))?;
    Ok(id.as_hyphenated().to_string())
}
