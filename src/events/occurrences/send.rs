//! An event happens: to one contact, to many, or once more.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::shapes::{Sent, SentMany};
use super::store::{self, Stored};
use super::{ATTEMPTS, Aftermath, GUARDED, Happenings, Occurrence, Recipient, listeners};
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::automations::triggers::Listeners;
use crate::contacts::contact::Email;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::events::event::{EventName, RESERVED_PREFIX};
use crate::events::in_force::InForce;
use crate::events::payload;
use crate::id::{ContactId, OccurrenceId};
use crate::web::idempotency::{Answer, Fingerprint, Idempotency, IdempotentRequest, KeyHeader};
use crate::web::input::{Input, LIGHT, LIMIT_OF_MANY, Many, PathId, shown};
use crate::web::refusals::{OfBody, OfCaller, OfPath, OfSend};

/// How many occurrences and runs one commit may make: whoever commits next has to
/// wait for it.
const MOST_WEIGHT: usize = 20_000;

/// After so many events of one request, others have their turn.
const AT_A_STRETCH: usize = 16;

/// Send an event
///
/// The event happens to a contact, named by `contact_id` or by `email`; an address that nobody has makes a new
/// contact. A name that nobody defined is defined by this, its first use. Every enabled automation that the event
/// triggers starts a run. When the answer comes, the occurrence, the runs and their first timers are stored. With an
/// `Idempotency-Key`, sending again changes nothing and gets the same answer for 24 hours.
#[utoipa::path(
    post, path = "/events/send", tag = "Events", operation_id = "send_event",
    request_body = super::shapes::EventToSend,
    responses(
        (status = 202, description = "It happened.", body = Sent, links(
            ("read" = (operation_id = "read_occurrence", parameters(("id" = "$response.body#/id")))),
        )),
        OfCaller, OfBody, OfSend,
    ),
    params(KeyHeader),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn send(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    input: Input,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &input);
    let order = Order::parse(&app, input)?;
    let orders = std::slice::from_ref(&order);
    Errand { caller: &caller, app: &app, request, orders, in_array: false }.run().await
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
    params(KeyHeader),
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
    let (reading, digest) = (app.clone(), key.digest());
    let read = move || read_orders(&reading, digest, many);
    let (orders, digest) = app.admission.build(read).await??;
    let request = key.request(&caller, &app, &digest);
    Errand { caller: &caller, app: &app, request, orders: &orders, in_array: true }.run().await
}

/// Reads orders, one at a time, and takes the fingerprint of all of them where one
/// is wanted.
fn read_orders(app: &App, mut digest: Option<Sha256>, many: Many) -> Result<(Vec<Order>, Option<Sha256>), Error> {
    let mut orders = Vec::with_capacity(many.count);
    for (at, element) in many.elements.into_iter().enumerate() {
        let placed = |error: Error| error.about(&format!("Event {at}: "));
        let input = Input::of_element(&element).map_err(placed)?;
        if let Some(digest) = &mut digest {
            input.write(digest);
            // No JSON holds this byte: one thing cannot be taken for two.
            digest.update([0]);
        }
        orders.push(Order::parse(app, input).map_err(placed)?.unread(&element));
    }
    Ok((orders, digest))
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
    params(("id" = String, Path, description = "The id of the occurrence.", format = Uuid), KeyHeader),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn replay(
    caller: Caller<FullAccess>,
    State(app): State<App>,
    key: Idempotency,
    PathId(id): PathId<OccurrenceId>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &());
    let order = match Order::again(&caller, &app, id).await {
        Ok(order) => order,
        Err(refusal) => return request.run(std::future::ready(Err(refusal))).await,
    };
    let orders = std::slice::from_ref(&order);
    Errand { caller: &caller, app: &app, request, orders, in_array: false }.run().await
}

/// What came with an event: as it was read, or where it lies in the body of a
/// request that sends many, which takes no memory of its own.
enum Payload {
    Read(Option<Value>),
    Unread(Bytes),
}

/// What somebody wants to happen.
pub struct Order {
    pub id: OccurrenceId,
    pub name: String,
    payload: Payload,
    recipient: Recipient,
    pub replay_of: Option<OccurrenceId>,
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

    /// An occurrence once more.
    async fn again(caller: &Caller<FullAccess>, app: &App, id: OccurrenceId) -> Result<Order, Error> {
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
            name: stored.name,
            payload: Payload::Read(Some(serde_json::from_str(&stored.payload).map_err(|_| Error::Internal)?)),
            recipient: Recipient::Known(stored.contact_id),
            replay_of: Some(stored.id),
        })
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
        Ok(Occurrence { id: self.id, name: &self.name, payload, replay_of: self.replay_of })
    }
}

fn contact_id(value: &Value) -> Result<ContactId, Error> {
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.ok_or_else(|| Error::invalid("The `contact_id` field must be the id of a contact, a UUID."))
}

/// Orders on their way into one commit.
struct Errand<'a> {
    caller: &'a Caller<FullAccess>,
    app: &'a App,
    request: IdempotentRequest<'a, FullAccess>,
    orders: &'a [Order],
    /// Whether they were sent in an array, and are answered in one.
    in_array: bool,
}

/// What one attempt would commit, and what it would answer.
struct Prepared {
    batch: Batch,
    aftermath: Aftermath,
    answer: Answer,
}

/// What is in force for a name, and the first order that uses it.
struct Use {
    in_force: Arc<InForce>,
    first: usize,
}

impl Errand<'_> {
    async fn run(&self) -> Result<Response, Error> {
        self.request.run(self.commit()).await
    }

    /// Lets everything happen that was ordered. What it is prepared under (the
    /// caller's right, the automations, the definitions) comes from caches and is
    /// guarded in the commit; where it has changed, all is prepared again, in the
    /// end under what is read for this errand alone.
    async fn commit(&self) -> Result<Response, Error> {
        let Errand { caller, app, request, .. } = self;
        // Whoever commits next to something large waits for it.
        let _turn = match self.orders.iter().map(Order::size).sum::<usize>() > LIGHT {
            true => Some(app.admission.write().await?),
            false => None,
        };
        for attempt in 0..ATTEMPTS {
            let listeners = listeners(app, caller.workspace_id(), attempt).await?;
            let Prepared { batch, aftermath, answer } = match self.prepare(&listeners, attempt).await {
                Ok(prepared) => prepared,
                Err(refusal) if attempt >= GUARDED || self.is_current(&listeners).await? => return Err(refusal),
                Err(_) => {
                    self.forget();
                    continue;
                }
            };
            match caller.commit_once(batch).await? {
                Err(DbError::Stale) => self.forget(),
                // Somebody else's first use of the name came first.
                Err(DbError::Unexpected { statement }) if aftermath.is_definition(statement) => self.forget(),
                Err(DbError::Unexpected { statement }) if aftermath.is_lookup(statement) => {
                    return Err(Error::not_found("Contact not found. Check its id, or name the contact by `email`."));
                }
                settled => {
                    if let Ok(effects) = &settled {
                        app.wake_workers_if(aftermath.is_urgent(effects));
                        if aftermath.defines() {
                            self.forget();
                        }
                    }
                    return Ok(request.settle(settled, answer).await??);
                }
            }
        }
        Err(Error::Unavailable)
    }

    async fn prepare(&self, listeners: &Listeners, attempt: usize) -> Result<Prepared, Error> {
        let Errand { caller, app, orders, .. } = self;
        let uses = self.uses(attempt).await?;
        let is_first = |at: usize, used: &Use| used.first == at && !used.in_force.is_defined;
        let answer = self.answer(|at| is_first(at, &uses[at]))?;
        let mut happenings = Happenings::new(caller.workspace_id(), listeners, &app.clock, app.clock.now());
        self.request.take(&answer, &mut happenings.batch);
        let mut undefined = Vec::new();
        for (at, (order, used)) in orders.iter().zip(&uses).enumerate() {
            // Where there is no definition, the one that is made here finds out whether there is one now.
            if used.first == at && used.in_force.is_defined {
                used.in_force.guard().into_iter().for_each(|guard| happenings.batch.guard(guard));
            }
            if is_first(at, used) {
                undefined.push(order.name.as_str());
            }
        }
        let mut bytes = 0;
        // Two that define the same names must not wait for each other.
        undefined.sort_unstable();
        undefined.into_iter().for_each(|name| happenings.define(name));
        for (at, (order, used)) in orders.iter().zip(&uses).enumerate() {
            if at % AT_A_STRETCH == AT_A_STRETCH - 1 {
                tokio::task::yield_now().await;
            }
            let placed = |error: Error| if orders.len() > 1 { error.about(&format!("Event {at}: ")) } else { error };
            let occurrence = order.occurrence(&used.in_force).map_err(placed)?;
            // Numbers may take more than they did in the body.
            bytes += occurrence.payload.len();
            if bytes > LIMIT_OF_MANY {
                return Err(Error::TooLarge { limit: LIMIT_OF_MANY });
            }
            happenings.add(&occurrence, &order.recipient);
            if happenings.weight > MOST_WEIGHT {
                return Err(Error::invalid("That starts more runs than one request may. Send fewer events at once."));
            }
        }
        let (batch, aftermath) = happenings.aftermath();
        Ok(Prepared { batch, aftermath, answer })
    }

    /// What is in force for each order.
    async fn uses(&self, attempt: usize) -> Result<Vec<Use>, DbError> {
        let Errand { caller, app, orders, .. } = self;
        let mut uses: Vec<Use> = Vec::with_capacity(orders.len());
        for (at, order) in orders.iter().enumerate() {
            let before = uses.iter().find(|used| orders[used.first].name == order.name);
            let used = match before {
                Some(Use { in_force, first }) => Use { in_force: in_force.clone(), first: *first },
                None => {
                    let in_force = match attempt < GUARDED {
                        true => app.definitions.of(&app.db, caller.workspace_id(), &order.name).await?,
                        false => app.definitions.of_this_moment(&app.db, caller.workspace_id(), &order.name).await?,
                    };
                    Use { in_force, first: at }
                }
            };
            uses.push(used);
        }
        Ok(uses)
    }

    /// The answer, if all of it happens.
    fn answer(&self, defines: impl Fn(usize) -> bool) -> Result<Answer, Error> {
        let sent = |(at, order): (usize, &Order)| Sent::of(order, defines(at));
        let mut data = self.orders.iter().enumerate().map(sent);
        match data.next() {
            Some(only) if !self.in_array => Answer::json(StatusCode::ACCEPTED, &only),
            first => Answer::json(StatusCode::ACCEPTED, &SentMany { data: first.into_iter().chain(data).collect() }),
        }
    }

    /// Whether what was refused by what is cached is refused by what is true.
    async fn is_current(&self, listeners: &Listeners) -> Result<bool, Error> {
        let Errand { caller, app, orders, .. } = self;
        let mut guards = Vec::from_iter(listeners.guard());
        for order in *orders {
            let guard = app.definitions.of(&app.db, caller.workspace_id(), &order.name).await?.guard();
            guards.extend(guard.filter(|guard| !guards.contains(guard)));
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
