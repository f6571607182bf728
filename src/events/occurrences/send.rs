//! An event happens: to one contact, to many, or once more.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;

use super::shapes::{Sent, SentMany};
use super::store::{self, Stored};
use super::{ATTEMPTS, Aftermath, Happenings, Occurrence, Recipient};
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::automations::triggers::Listeners;
use crate::contacts::contact::Email;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::events::event::{EventName, RESERVED_PREFIX};
use crate::events::in_force::InForce;
use crate::events::payload;
use crate::web::idempotency::{Answer, Idempotency};
use crate::web::input::{Id, Input, LIGHT, Many, shown};
use crate::web::refusals::{OfBody, OfCaller, OfPath, OfSend};

/// How many occurrences and runs one commit may make: whoever commits next has to
/// wait for it.
const MOST_WEIGHT: usize = 20_000;

/// After so many events of one request, others have their turn.
const AT_A_STRETCH: usize = 16;

/// Send an event
///
/// The event happens to a contact, named by `contact_id` or by `email`; an address that nobody has makes a new
/// contact. Every enabled automation that the event triggers starts a run. When the answer comes, the occurrence, the
/// runs and their first timers are stored. With an `Idempotency-Key`, sending again changes nothing and gets the same
/// answer for 24 hours.
#[utoipa::path(
    post, path = "/events/send", tag = "Events", operation_id = "send_event",
    request_body = super::shapes::EventToSend,
    responses(
        (status = 202, description = "It happened.", body = Sent, links(
            ("read" = (operation_id = "read_occurrence", parameters(("id" = "$response.body#/id")))),
        )),
        OfCaller, OfBody, OfSend,
    ),
    params(super::shapes::KeyHeader),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn send(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    input: Input,
) -> Result<Response, Error> {
    let body = key.meaning(&input.0);
    let order = Order::parse(&app, input)?;
    let answer = Answer::json(StatusCode::ACCEPTED, &Sent::of(&order))?;
    Errand { caller: &caller, app: &app, orders: std::slice::from_ref(&order), key: &key, body, answer }.run().await
}

/// Send many events
///
/// Up to 1,000 events in an array, each as in `POST /events/send`. All of them happen, in this order, or none: where
/// one is refused, the message names its place.
#[utoipa::path(
    post, path = "/events/send/batch", tag = "Events", operation_id = "send_events",
    request_body = Vec<super::shapes::EventToSend>,
    responses(
        (status = 202, description = "They happened.", body = SentMany),
        OfCaller, OfBody, OfSend,
    ),
    params(super::shapes::KeyHeader),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn send_many(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    many: Many,
) -> Result<Response, Error> {
    if many.count == 0 || many.count > Many::MOST {
        return Err(Error::invalid(format!("Send 1 to {} events at once, not {}.", Many::MOST, many.count)));
    }
    let (reading, stated) = (app.clone(), key.clone());
    let read = move || read_orders(&reading, &stated, many);
    let (orders, body) = app.admission.build(read).await??;
    let answer = Answer::json(StatusCode::ACCEPTED, &SentMany::of(&orders))?;
    Errand { caller: &caller, app: &app, orders: &orders, key: &key, body, answer }.run().await
}

/// Reads orders, one at a time, and what the key stands for with all of them.
fn read_orders(app: &App, key: &Idempotency, many: Many) -> Result<(Vec<Order>, Vec<u8>), Error> {
    let mut meaning = key.meaning_of_many();
    let mut orders = Vec::with_capacity(many.count);
    for (at, element) in many.elements.into_iter().enumerate() {
        let placed = |error: Error| error.about(&format!("Event {at}: "));
        let input = Input::of_element(&element).map_err(placed)?;
        meaning.add(&input.0);
        orders.push(Order::parse(app, input).map_err(placed)?.unread(&element));
    }
    Ok((orders, meaning.finish()))
}

/// Replay an occurrence
///
/// The same event happens to the same contact again, with the same payload, and starts the automations that are
/// enabled now. The new occurrence names the one that it repeats.
#[utoipa::path(
    post, path = "/occurrences/{id}/replay", tag = "Events", operation_id = "replay_occurrence",
    responses(
        (status = 202, description = "It happened once more.", body = Sent),
        OfCaller, OfPath, OfSend,
    ),
    params(("id" = String, Path, description = "The id of the occurrence.", format = Uuid), super::shapes::KeyHeader),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn replay(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    Id(id): Id,
) -> Result<Response, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), &id)).await?;
    let stored = Stored::read(rows.first().ok_or_else(super::routes::not_found)?)?;
    if stored.name.starts_with(RESERVED_PREFIX) {
        return Err(Error::invalid(format!(
            "`{}` is a system event, which only the product itself lets happen.",
            shown(&stored.name)
        )));
    }
    let payload = serde_json::from_str(&stored.payload).map_err(|_| Error::Internal)?;
    let order = Order {
        id: app.clock.ordered_id(),
        name: stored.name,
        payload: Payload::Read(Some(payload)),
        recipient: Recipient::Known(stored.contact_id),
        replay_of: Some(stored.id),
    };
    let answer = Answer::json(StatusCode::ACCEPTED, &Sent::of(&order))?;
    let body = key.meaning(&id);
    Errand { caller: &caller, app: &app, orders: std::slice::from_ref(&order), key: &key, body, answer }.run().await
}

/// What came with an event: as it was read, or where it lies in the body of a
/// request that sends many, which takes no memory of its own.
enum Payload {
    Read(Option<Value>),
    Unread(Bytes),
}

/// What somebody wants to happen.
pub struct Order {
    pub id: String,
    pub name: String,
    payload: Payload,
    recipient: Recipient,
    pub replay_of: Option<String>,
}

impl Order {
    fn parse(app: &App, mut input: Input) -> Result<Order, Error> {
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
        Ok(Order { id: app.clock.ordered_id(), name: name.as_str().to_owned(), payload, recipient, replay_of: None })
    }

    /// The same, one of many, which was read from this text.
    fn unread(self, element: &Bytes) -> Order {
        let Payload::Read(Some(payload)) = &self.payload else { return self };
        let fields: HashMap<String, &RawValue> = serde_json::from_slice(element).unwrap_or_default();
        let text = match fields.get("payload") {
            Some(text) => element.slice_ref(text.get().as_bytes()),
            None => payload.to_string().into(),
        };
        Order { payload: Payload::Unread(text), ..self }
    }

    /// How long its payload is, where it is one of many.
    fn size(&self) -> usize {
        match &self.payload {
            Payload::Read(_) => 0,
            Payload::Unread(text) => text.len(),
        }
    }

    /// The occurrence that it becomes, if its payload fits what is in force.
    fn occurrence(&self, in_force: &InForce) -> Result<Occurrence<'_>, Error> {
        let payload = match &self.payload {
            Payload::Read(payload) => in_force.types.check(payload.as_ref())?.to_string(),
            Payload::Unread(text) => {
                let payload: Value = serde_json::from_slice(text).map_err(|_| Error::Internal)?;
                in_force.types.check(Some(&payload))?.to_string()
            }
        };
        if payload.len() > payload::LIMIT {
            return Err(Error::TooLarge { limit: payload::LIMIT });
        }
        Ok(Occurrence { id: self.id.clone(), name: &self.name, payload, replay_of: self.replay_of.as_deref() })
    }
}

fn contact_id(value: &Value) -> Result<String, Error> {
    let id = value.as_str().and_then(|text| uuid::Uuid::try_parse(text).ok());
    let id = id.ok_or_else(|| Error::invalid("The `contact_id` field must be the id of a contact, a UUID."))?;
    Ok(id.as_hyphenated().to_string())
}

/// Orders on their way into one commit.
struct Errand<'a> {
    caller: &'a Caller<FullAccess>,
    app: &'a App,
    orders: &'a [Order],
    key: &'a Idempotency,
    /// What the key stands for.
    body: Vec<u8>,
    answer: Answer,
}

impl Errand<'_> {
    /// Lets everything happen that was ordered. What it is prepared under (the
    /// caller's right, the automations, the definitions) comes from caches and is
    /// guarded in the commit; where it has changed, all is prepared again.
    async fn run(self) -> Result<Response, Error> {
        let Errand { caller, app, key, .. } = self;
        let mut revision = caller.revision();
        // Whoever commits next to something large waits for it.
        let _turn = match self.orders.iter().map(Order::size).sum::<usize>() > LIGHT {
            true => Some(app.admission.write().await?),
            false => None,
        };
        for _ in 0..ATTEMPTS {
            let listeners = app.triggers.of(&app.db, caller.workspace_id()).await?;
            let (batch, aftermath) = match self.prepare(&listeners).await {
                Ok(prepared) => prepared,
                Err(refusal) if self.is_current(&listeners).await? => {
                    // What is refused now may have happened before, under its key.
                    return match key.find(caller, &self.body, app.clock.now()).await? {
                        Some(answer) => Ok(answer),
                        None => Err(refusal),
                    };
                }
                Err(_) => {
                    self.forget();
                    continue;
                }
            };
            match caller.commit_under(&mut revision, batch).await? {
                Ok(effects) => {
                    app.wake_workers_if(aftermath.is_urgent(&effects));
                    return Ok(self.answer.into_response());
                }
                Err(DbError::Stale) => self.forget(),
                Err(error) if key.was_taken(&error) => {
                    return key.find(caller, &self.body, app.clock.now()).await?.ok_or(Error::Unavailable);
                }
                Err(DbError::Unexpected { statement }) if aftermath.is_lookup(statement) => {
                    return Err(Error::not_found("Contact not found. Check its id, or name the contact by `email`."));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Unavailable)
    }

    async fn prepare(&self, listeners: &Listeners) -> Result<(Batch, Aftermath), Error> {
        let Errand { caller, app, orders, key, .. } = self;
        let (workspace_id, now) = (caller.workspace_id(), app.clock.now());
        let mut happenings = Happenings::new(workspace_id, listeners, &app.clock, now);
        if let Some(stmt) = key.take(workspace_id, &self.body, &self.answer, now) {
            happenings.batch.push(stmt);
        }
        let mut names: Vec<(&str, Arc<InForce>)> = Vec::new();
        for (at, order) in orders.iter().enumerate() {
            if at % AT_A_STRETCH == AT_A_STRETCH - 1 {
                tokio::task::yield_now().await;
            }
            let known = names.iter().find(|(name, _)| *name == order.name).map(|(_, known)| known.clone());
            let in_force = match known {
                Some(known) => known,
                None => {
                    let found = app.definitions.of(&app.db, workspace_id, &order.name).await?;
                    names.push((&order.name, found.clone()));
                    happenings.batch.guard(found.guard());
                    found
                }
            };
            let placed = |error: Error| if orders.len() > 1 { error.about(&format!("Event {at}: ")) } else { error };
            if !in_force.is_defined && !listeners.know(&order.name) {
                return Err(placed(unknown(&order.name)));
            }
            happenings.add(&order.occurrence(&in_force).map_err(placed)?, &order.recipient);
            if happenings.weight > MOST_WEIGHT {
                return Err(Error::invalid("That starts more runs than one request may. Send fewer events at once."));
            }
        }
        Ok(happenings.aftermath())
    }

    /// Whether what was refused by what is cached is refused by what is true.
    async fn is_current(&self, listeners: &Listeners) -> Result<bool, Error> {
        let Errand { caller, app, orders, .. } = self;
        let mut guards = vec![listeners.guard()];
        for order in *orders {
            let guard = app.definitions.of(&app.db, caller.workspace_id(), &order.name).await?.guard();
            if !guards.contains(&guard) {
                guards.push(guard);
            }
        }
        for guard in guards {
            if app.db.read(guard).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn forget(&self) {
        let workspace_id = self.caller.workspace_id();
        self.app.triggers.forget(workspace_id);
        self.orders.iter().for_each(|order| self.app.definitions.forget(workspace_id, &order.name));
    }
}

fn unknown(name: &str) -> Error {
    let message = format!(
        "Event `{}` not found. Define it with `POST /events` first, or enable an automation that it triggers.",
        shown(name)
    );
    Error::NotFound { message: message.into() }
}
