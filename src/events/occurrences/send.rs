//! An event happens: to one contact, to many, or once more.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::orders::{self, Order};
use super::shapes::{EventToSend, Sent, SentMany};
use crate::accounts::Accepted;
use crate::auth::Caller;
use crate::db::{Batch, Committed, DbError};
use crate::error::Error;
use crate::events::{Events, in_force::InForce, store as definitions};
use crate::id::{OccurrenceId, WorkspaceId};
use crate::occurrences::{ATTEMPTS, FollowUp, GUARDED, Listeners, OccurrenceBatch};
use crate::web::{Answer, Body, Idempotency, IdempotentRequest, LIGHT, LIMIT_OF_MANY, Many, OfSend, PathId};

/// How many occurrences and runs one commit may make: whoever commits next has to
/// wait for it.
const MOST_WEIGHT: usize = 20_000;

/// Send an event
///
/// The event happens to a contact, named by `contact_id` or by `email`; an address that nobody has makes a new
/// contact. A name that nobody defined is defined by this, its first use. Every enabled automation that the event
/// triggers starts a run. When the answer comes, the occurrence, the runs and their first timers are stored. With an
/// `Idempotency-Key`, sending again changes nothing and gets the same answer for 24 hours.
#[utoipa::path(
    post, path = "/events/send", tag = "Events", operation_id = "send_event",
    params(Idempotency), request_body = EventToSend,
    responses(
        (status = 202, description = "It happened.", body = Sent, links(
            ("read" = (operation_id = "read_occurrence", parameters(("id" = "$response.body#/id")))),
        )),
        OfSend,
    ),
)]
pub async fn send(
    caller: Caller,
    State(app): State<Events>,
    key: Idempotency,
    body: Body<EventToSend>,
) -> Result<Response, Error> {
    if body.is_large() {
        let (reading, digest) = (app.clone(), key.digest());
        let (order, digest) = app.admission.build(move || orders::read_large(&reading, digest, body)).await??;
        let (request, orders): (_, Arc<[Order]>) = (key.digested(&caller, &app, digest), [order].into());
        let large = Some(orders.clone());
        return SendRequest { caller: &caller, app: &app, request, orders: &orders, in_array: false, large }
            .run()
            .await;
    }
    let request = key.request(&caller, &app, &body);
    let order = Order::new(&app, body.read()?)?;
    let orders = std::slice::from_ref(&order);
    SendRequest { caller: &caller, app: &app, request, orders, in_array: false, large: None }.run().await
}

/// Send many events
///
/// Up to 1,000 events in an array, each as in `POST /events/send`. All of them happen, in this order, or none: where
/// one is refused, the message names its place.
#[utoipa::path(
    post, path = "/events/send/batch", tag = "Events", operation_id = "send_events",
    params(Idempotency), request_body = Vec<EventToSend>,
    responses((status = 202, description = "They happened.", body = SentMany), OfSend),
)]
pub async fn send_many(
    caller: Caller,
    State(app): State<Events>,
    key: Idempotency,
    many: Many,
) -> Result<Response, Error> {
    if many.count == 0 || many.count > Many::MOST {
        return Err(Error::invalid(format!("Send 1 to {} events at once, not {}.", Many::MOST, many.count)));
    }
    let (reading, digest, is_large) = (app.clone(), key.digest(), many.is_large);
    let read = move || orders::read_many(&reading, digest, many);
    let (orders, digest) = if is_large { app.admission.build(read).await?? } else { read()? };
    let request = key.request(&caller, &app, &digest);
    let large = is_large.then(|| orders.clone());
    SendRequest { caller: &caller, app: &app, request, orders: &orders, in_array: true, large }.run().await
}

/// Replay an occurrence
///
/// The same event happens to the same contact again, with the same payload, and starts the automations that are
/// enabled now. The new occurrence names the one that it repeats.
#[utoipa::path(
    post, path = "/occurrences/{id}/replay", tag = "Events", operation_id = "replay_occurrence",
    params(("id" = String, Path, description = "The id of the occurrence.", format = Uuid), Idempotency),
    responses((status = 202, description = "It happened once more.", body = Sent), OfSend),
)]
pub async fn replay(
    caller: Caller,
    State(app): State<Events>,
    key: Idempotency,
    PathId(id): PathId<OccurrenceId>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &());
    let order = match Order::again(&caller, &app, id).await {
        Ok(order) => order,
        Err(refusal) => return request.run(std::future::ready(Err(refusal))).await,
    };
    let orders = std::slice::from_ref(&order);
    SendRequest { caller: &caller, app: &app, request, orders, in_array: false, large: None }.run().await
}

/// Orders on their way into one commit.
struct SendRequest<'a> {
    caller: &'a Caller,
    app: &'a Events,
    request: IdempotentRequest<'a>,
    orders: &'a [Order],
    /// Whether they were sent in an array, and are answered in one.
    in_array: bool,
    /// The same orders, where so much is made of them that others would have to wait.
    large: Option<Arc<[Order]>>,
}

/// What one attempt would commit, and what it would answer.
struct Prepared {
    batch: Batch,
    follow_up: FollowUp,
    answer: Answer,
}

/// What is in force for the name of an order, and whether it is the first to use it.
#[derive(Clone)]
struct Use {
    in_force: Arc<InForce>,
    is_first: bool,
}

impl Use {
    /// Whether the order defines its name.
    fn defines(&self) -> bool {
        self.is_first && !self.in_force.is_defined
    }
}

impl SendRequest<'_> {
    async fn run(&self) -> Result<Response, Error> {
        self.request.run(self.commit()).await
    }

    /// Lets everything happen that was ordered. What it is prepared under (the
    /// caller's right, the automations, the definitions) comes from caches and is
    /// guarded in the commit; where it has changed, all is prepared again, in the
    /// end under what is read for this request alone.
    async fn commit(&self) -> Result<Response, Error> {
        let SendRequest { caller, app, request, .. } = self;
        // Whoever commits next to something large waits for it.
        let _turn = match self.orders.iter().map(Order::size).sum::<usize>() > LIGHT {
            true => Some(app.admission.write().await?),
            false => None,
        };
        for attempt in 0..ATTEMPTS {
            let listeners = app.listeners_for(caller.workspace_id(), attempt).await?;
            let Prepared { batch, follow_up, answer } = match self.prepare(&listeners, attempt).await {
                Ok(prepared) => prepared,
                Err(refusal) if attempt >= GUARDED || self.pending().is_current(&listeners).await? => {
                    return Err(refusal);
                }
                Err(_) => {
                    self.pending().forget();
                    continue;
                }
            };
            if let Some(settled) = self.pending().settle(caller.commit_once(batch).await?, &follow_up)? {
                return Ok(request.settle(settled, answer).await??);
            }
        }
        Err(Error::Unavailable)
    }

    fn pending(&self) -> PendingOrders<'_> {
        PendingOrders { app: self.app, workspace_id: self.caller.workspace_id(), orders: self.orders }
    }

    async fn prepare(&self, listeners: &Arc<Listeners>, attempt: usize) -> Result<Prepared, Error> {
        let SendRequest { caller, app, orders, in_array, .. } = self;
        let uses = self.pending().uses(attempt).await?;
        let mut batch = Batch::new();
        let Some(large) = &self.large else {
            let answer = answer(orders, &uses, *in_array)?;
            self.request.take(&answer, &mut batch);
            let (batch, follow_up) = prepare(app, caller.workspace_id(), batch, listeners, orders, &uses)?;
            return Ok(Prepared { batch, follow_up, answer });
        };
        let (orders, used, in_array) = (large.clone(), uses.clone(), *in_array);
        let answer = app.admission.build(move || answer(&orders, &used, in_array)).await??;
        self.request.take(&answer, &mut batch);
        let (own, workspace_id) = (Events::clone(app), caller.workspace_id());
        let (listeners, orders) = (listeners.clone(), large.clone());
        let build = move || prepare(&own, workspace_id, batch, &listeners, &orders, &uses);
        let (batch, follow_up) = app.admission.build(build).await??;
        Ok(Prepared { batch, follow_up, answer })
    }
}

/// Lets one thing happen that a person ordered on a page, as for a program that sends it. Its form carries the id of
/// the occurrence: sent twice, it happens once.
pub async fn send_on_page(
    app: &Events,
    accepted: &Accepted<'_>,
    workspace_id: WorkspaceId,
    order: &Order,
) -> Result<(), Error> {
    let pending = PendingOrders { app, workspace_id, orders: std::slice::from_ref(order) };
    for attempt in 0..ATTEMPTS {
        let listeners = app.listeners_for(workspace_id, attempt).await?;
        let uses = pending.uses(attempt).await?;
        let (batch, follow_up) = match prepare(app, workspace_id, Batch::new(), &listeners, pending.orders, &uses) {
            Ok(prepared) => prepared,
            Err(refusal) if attempt >= GUARDED || pending.is_current(&listeners).await? => return Err(refusal),
            Err(_) => {
                pending.forget();
                continue;
            }
        };
        let committed = match accepted.commit(batch).await {
            // It may be what was cached that does not hold any more, and not the right of who ordered it.
            Err(Error::Forbidden { .. }) if !pending.is_current(&listeners).await? => Err(DbError::Stale),
            committed => committed?,
        };
        if let Some(settled) = pending.settle(committed, &follow_up)? {
            return match settled {
                Err(DbError::Duplicate(_)) => Ok(()),
                settled => Ok(settled.map(drop)?),
            };
        }
    }
    Err(Error::Unavailable)
}

/// Orders, and whose they are.
struct PendingOrders<'a> {
    app: &'a Events,
    workspace_id: WorkspaceId,
    orders: &'a [Order],
}

impl PendingOrders<'_> {
    /// What came of a commit; `None` where all has to be prepared again.
    fn settle(&self, committed: Committed, follow_up: &FollowUp) -> Result<Option<Committed>, Error> {
        match committed {
            Err(DbError::Stale) => self.forget(),
            // Somebody else's first use of the name came first.
            Err(DbError::Unexpected { statement }) if follow_up.is_definition(statement) => self.forget(),
            Err(DbError::Unexpected { statement }) if follow_up.is_lookup(statement) => {
                return Err(Error::not_found("Contact not found. Check its id, or name the contact by `email`."));
            }
            settled => {
                if let Ok(effects) = &settled {
                    self.app.wake_workers_if(follow_up.is_urgent(effects));
                    self.app.wake_judges_if(follow_up.judges());
                    if follow_up.defines() {
                        self.forget();
                    }
                }
                return Ok(Some(settled));
            }
        }
        Ok(None)
    }

    /// What is in force for each order.
    async fn uses(&self, attempt: usize) -> Result<Vec<Use>, DbError> {
        let PendingOrders { app, workspace_id, orders } = *self;
        let mut uses: Vec<Use> = Vec::with_capacity(orders.len());
        for (at, order) in orders.iter().enumerate() {
            let in_force = match uses.get(order.first) {
                Some(before) => before.in_force.clone(),
                None if attempt < GUARDED => app.definitions.of(&app.db, workspace_id, &order.name).await?,
                None => app.definitions.of_this_moment(&app.db, workspace_id, &order.name).await?,
            };
            uses.push(Use { in_force, is_first: order.first == at });
        }
        Ok(uses)
    }

    /// Whether what was refused by what is cached is refused by what is true.
    async fn is_current(&self, listeners: &Listeners) -> Result<bool, Error> {
        let PendingOrders { app, workspace_id, orders } = *self;
        let mut guards = Vec::from_iter(listeners.guard());
        for (_, order) in orders.iter().enumerate().filter(|(at, order)| order.first == *at) {
            guards.extend(app.definitions.of(&app.db, workspace_id, &order.name).await?.guard());
        }
        for guard in guards {
            if app.db.read(guard).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn forget(&self) {
        self.app.forget_listeners(self.workspace_id);
        self.orders.iter().for_each(|order| self.app.definitions.forget(self.workspace_id, &order.name));
    }
}

/// The answer, if all of it happens.
fn answer(orders: &[Order], uses: &[Use], in_array: bool) -> Result<Answer, Error> {
    let mut data = orders.iter().zip(uses).map(|(order, used)| Sent::of(order, used.defines()));
    match data.next() {
        Some(only) if !in_array => Answer::json(StatusCode::ACCEPTED, &only),
        first => Answer::json(StatusCode::ACCEPTED, &SentMany { data: first.into_iter().chain(data).collect() }),
    }
}

/// What lets orders happen, behind what the batch already holds.
fn prepare(
    app: &Events,
    workspace_id: WorkspaceId,
    batch: Batch,
    listeners: &Listeners,
    orders: &[Order],
    uses: &[Use],
) -> Result<(Batch, FollowUp), Error> {
    let mut occurrences = OccurrenceBatch::new(workspace_id, listeners, &app.clock, app.clock.now());
    occurrences.batch.append(batch);
    let mut undefined = Vec::new();
    for (order, used) in orders.iter().zip(uses) {
        // Where there is no definition, the one that is made here finds out whether there is one now.
        if used.is_first && used.in_force.is_defined {
            used.in_force.guard().into_iter().for_each(|guard| occurrences.batch.guard(guard));
        }
        if used.defines() {
            undefined.push(&*order.name);
        }
    }
    // Two that define the same names must not wait for each other.
    undefined.sort_unstable();
    for name in undefined {
        let (id, now) = (app.clock.ordered_id(), occurrences.now());
        occurrences.define(definitions::define_by_use(workspace_id, id, name, now));
    }
    let mut bytes = 0;
    for (at, (order, used)) in orders.iter().zip(uses).enumerate() {
        let placed = |error: Error| if orders.len() > 1 { error.about(&format!("Event {at}: ")) } else { error };
        let occurrence = order.occurrence(&used.in_force).map_err(placed)?;
        // Numbers may take more than they did in the body.
        bytes += occurrence.payload.len();
        if bytes > LIMIT_OF_MANY {
            return Err(Error::TooLarge { limit: LIMIT_OF_MANY });
        }
        order.recipient.receive(&mut occurrences, &occurrence);
        if occurrences.weight > MOST_WEIGHT {
            return Err(Error::invalid("That starts more runs than one request may. Send fewer events at once."));
        }
    }
    Ok(occurrences.follow_up())
}
