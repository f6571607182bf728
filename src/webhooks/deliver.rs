//! Delivers events to webhooks: a line for each of them, so that none waits for another.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, join, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::watch;

use super::attempt::{self, Attempt, Message};
use super::told::{self, Delivery, Endpoint, Settled};
use super::webhook::Status;
use super::{retry, store};
use crate::app::App;
use crate::calls::{Calls, Hand, Room};
use crate::clock::SECOND;
use crate::db::{Batch, DbError};
use crate::http_client::{HttpClient, Kept, Reach};
use crate::id::{Id, WebhookEventId, WorkspaceId};
use crate::secret;
use crate::work::{self, Claimable, Next, Tasks, Worker, unless_lost};

/// How many deliveries are made at once. An endpoint of which nothing is known, or that did not answer the last time,
/// has one, and all of these half of the room.
const ROOM: Room = Room { all: 384, of_workspace: 128, to_one: 16, to_unproven: 1, unproven: 192 };

/// How many deliveries are claimed for each of the calls that an endpoint may have at once, and how many of them are
/// told before what became of them is written down.
const AHEAD: usize = 32;
const PAGE: usize = 256;

/// How long after their claim deliveries are begun: what is left of the lease is for the last of them.
const BEGUN_WITHIN: i64 = <Delivery as Claimable>::LEASE - 15 * SECOND;

/// Why one is disabled that nobody disabled.
const GONE: &str = "The endpoint answered 410 Gone.";
const FAILING: &str = "Nothing could be delivered to the endpoint for five days.";

/// Tells the owners of a workspace something: statements for the commit of what they are told about.
pub trait Notices: Send + Sync {
    fn to_owners<'a>(
        &'a self,
        workspace_id: WorkspaceId,
        subject: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<Batch, DbError>>;
}

/// Calls that were made together, each with what came of it; `None` where it was not begun.
struct Called<'a> {
    endpoint: Endpoint,
    calls: Vec<(&'a Delivery, Option<Attempt>)>,
}

/// Some of what was claimed together, for those who make the calls side by side.
struct Page<'a> {
    endpoint: Endpoint,
    /// What deliveries are signed with.
    secrets: Vec<String>,
    rows: &'a [Delivery],
    payloads: HashMap<WebhookEventId, String>,
    next: AtomicUsize,
    /// Whether no other call is begun, of this page and of those behind it.
    is_over: &'a AtomicBool,
    /// In steady time.
    until: i64,
}

impl Page<'_> {
    /// What is sent; `None` where there is nothing to tell any more.
    fn message(&self, Delivery { event_id, .. }: &Delivery) -> Option<Message<'_>> {
        let payload = self.payloads.get(event_id)?;
        Some(Message { event_id: *event_id, endpoint: &self.endpoint.url, payload, secrets: &self.secrets })
    }
}

/// What a worker works with.
pub struct Deliverer {
    app: App,
    client: HttpClient,
    calls: Arc<Calls>,
    notices: Box<dyn Notices>,
}

/// Works until it is time to stop.
pub async fn run(app: App, notices: Box<dyn Notices>, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    work::run(Delivering(Arc::new(Deliverer::new(app, notices))), clock, stopping).await;
}

struct Delivering(Arc<Deliverer>);

impl Worker for Delivering {
    const NAME: &'static str = "webhooks";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        for hand in self.0.claim().await? {
            let deliverer = self.0.clone();
            tasks.spawn(async move { deliverer.deliver(&hand).await });
        }
        Ok(Next::Due(None))
    }

    async fn woken(&self) {
        tokio::select! {
            () = self.0.app.webhooks_wait() => {}
            () = self.0.calls.noted() => {}
        }
    }
}

impl Deliverer {
    pub fn new(app: App, notices: Box<dyn Notices>) -> Deliverer {
        let reach = if app.config.private_webhooks { Reach::Anywhere } else { Reach::Public };
        Deliverer { app, client: HttpClient::new(reach), calls: Arc::new(Calls::new(ROOM)), notices }
    }

    /// Delivers what is due and there is room for. Tells how many deliveries that were.
    pub async fn round(&self) -> Result<usize, DbError> {
        let hands = self.claim().await?;
        join_all(hands.iter().map(|hand| self.deliver(hand))).await;
        Ok(hands.iter().map(|hand| hand.rows.len()).sum())
    }

    async fn claim(&self) -> Result<Vec<Hand<Delivery>>, DbError> {
        let (db, clock) = (&self.app.db, &self.app.clock);
        let waiting = self.calls.waiting::<Delivery>(db, clock.steady()).await?;
        Ok(self.calls.claim_ahead((db, clock), &waiting, AHEAD).await)
    }

    /// Tells a webhook what was claimed for it together.
    async fn deliver(&self, hand: &Hand<Delivery>) {
        // After a failure the lease runs out, and whoever is alive tries again.
        if let Some(first) = hand.rows.first()
            && let Err(error) = self.try_deliver(first, hand).await
        {
            tracing::warn!(webhook = %first.webhook_id, %error, "what became of deliveries could not be written down");
        }
    }

    async fn try_deliver(&self, first: &Delivery, hand: &Hand<Delivery>) -> Result<(), DbError> {
        let (db, clock) = (&self.app.db, &self.app.clock);
        let (until, is_over) = (clock.steady() + BEGUN_WITHIN, AtomicBool::new(false));
        let mut connections: Vec<Kept<'_>> = hand.slots.iter().map(|_| self.client.keep()).collect();
        let mut before: Option<Called<'_>> = None;
        for rows in hand.rows.chunks(PAGE) {
            let endpoint = told::endpoint(db, first.workspace_id, first.webhook_id).await?;
            let Some(endpoint) = endpoint.filter(|endpoint| endpoint.status == Status::Enabled) else {
                self.settle_all(before).await?;
                return db.commit(told::give_up_line(&first.destination)).await.map(drop);
            };
            let (secrets, payloads) = (self.secrets(&endpoint), self.payloads(rows).await?);
            let page = Page { endpoint, secrets, rows, payloads, next: 0.into(), is_over: &is_over, until };
            // While these are told, what became of those before is written down.
            let (called, settled) = join(self.call_all(page, &mut connections), self.settle_all(before)).await;
            settled?;
            before = Some(called);
        }
        self.settle_all(before).await
    }

    async fn payloads(&self, rows: &[Delivery]) -> Result<HashMap<WebhookEventId, String>, DbError> {
        let ids: Value = rows.iter().map(|delivery| delivery.event_id.uuid().simple().to_string()).collect();
        Ok(told::payloads(&self.app.db, &ids.to_string()).await?.into_iter().collect())
    }

    /// Makes the calls of a page, over each connection one at a time.
    async fn call_all<'a>(&self, page: Page<'a>, connections: &mut [Kept<'_>]) -> Called<'a> {
        // Whoever is woken is looked at, and none of the others.
        let lanes = FuturesUnordered::<BoxFuture<'_, _>>::new();
        for connection in connections {
            lanes.push(self.call_some(&page, connection).boxed());
        }
        let calls = lanes.collect::<Vec<_>>().await.into_iter().flatten().collect();
        Called { endpoint: page.endpoint, calls }
    }

    /// Makes one call after the other. Once one was not answered, or nothing is wanted any more, or when time is up,
    /// no other is begun.
    async fn call_some<'a>(&self, page: &Page<'a>, connection: &mut Kept<'_>) -> Vec<(&'a Delivery, Option<Attempt>)> {
        let (db, clock) = (&self.app.db, &self.app.clock);
        let mut calls = Vec::new();
        while let Some(delivery) = page.rows.get(page.next.fetch_add(1, Ordering::Relaxed)) {
            let Some(message) = page.message(delivery) else { continue };
            if page.is_over.load(Ordering::Relaxed) || clock.steady() > page.until {
                calls.push((delivery, None));
                continue;
            }
            let attempt = self.attempt(&message, connection).await;
            let unanswered = attempt.error.as_deref().filter(|_| !attempt.is_answered());
            page.is_over.fetch_or(unanswered.is_some() || attempt.is_gone(), Ordering::Relaxed);
            if let Err(error) = self.calls.note_answer((db, clock), &delivery.destination, unanswered).await {
                tracing::warn!(%error, "that a webhook answers, or does not, could not be written down");
            }
            calls.push((delivery, Some(attempt)));
        }
        calls
    }

    /// Writes down what became of calls: of those that arrived together, and with them what was not begun.
    async fn settle_all(&self, called: Option<Called<'_>>) -> Result<(), DbError> {
        let Some(Called { endpoint, calls }) = called else { return Ok(()) };
        let now = self.app.clock.steady();
        let (mut arrived, mut failed, mut given_back) = (Vec::new(), Vec::new(), Batch::new());
        for (delivery, attempt) in &calls {
            match attempt {
                None => given_back.push(told::give_back(delivery, now)),
                Some(attempt) if attempt.error.is_none() => arrived.push((*delivery, attempt)),
                Some(attempt) => failed.push((*delivery, attempt)),
            }
        }
        arrived.iter().chain(&failed).for_each(|(delivery, attempt)| count(&settled(delivery, attempt, now)));
        let mut together = given_back.clone();
        for (delivery, attempt) in &arrived {
            together.append(self.settlement(delivery, &endpoint, attempt, now));
        }
        if !together.is_empty() {
            match self.app.db.commit(together.alike_together()).await {
                // Somebody else has one of them.
                Err(DbError::Unexpected { .. }) => {
                    self.app.db.commit(given_back).await?;
                    failed.append(&mut arrived);
                }
                settled => drop(settled?),
            }
        }
        for (delivery, attempt) in failed {
            self.settle(delivery, &endpoint, attempt, now).await?;
        }
        Ok(())
    }

    async fn settle(
        &self,
        delivery: &Delivery,
        endpoint: &Endpoint,
        attempt: &Attempt,
        now: i64,
    ) -> Result<(), DbError> {
        unless_lost(self.app.db.commit(self.settlement(delivery, endpoint, attempt, now)).await)?;
        match disabling(attempt, endpoint, now) {
            Some(reason) => self.disable(delivery, &endpoint.url, reason).await,
            None => Ok(()),
        }
    }

    fn settlement(&self, delivery: &Delivery, endpoint: &Endpoint, attempt: &Attempt, now: i64) -> Batch {
        let settled = settled(delivery, attempt, now);
        told::settle(delivery, endpoint, (self.app.clock.ordered_id(), attempt), &settled, now)
    }

    fn secrets(&self, endpoint: &Endpoint) -> Vec<String> {
        let (steady, seal) = (self.app.clock.steady(), &self.app.seal);
        let old = endpoint.old_secret.as_ref();
        let old = old.filter(|_| endpoint.old_secret_until.is_some_and(|until| until > steady));
        let secrets = [Some(&endpoint.secret), old].into_iter().flatten();
        secrets.filter_map(|kept| seal.open_text(kept)).collect()
    }

    async fn attempt(&self, message: &Message<'_>, connection: &mut Kept<'_>) -> Attempt {
        let now = self.app.clock.now();
        if message.secrets.is_empty() {
            let error = "the secret that signs the delivery cannot be opened; `posthorn doctor` says why";
            let (response, error) = (String::new(), Some(error.to_owned()));
            return Attempt { http_status: 0, response, error, duration: 0, sent_at: now };
        }
        attempt::make(connection, message, now).await
    }

    /// Disables a webhook and tells the owners, once.
    async fn disable(&self, delivery: &Delivery, endpoint: &str, reason: &str) -> Result<(), DbError> {
        let text = format!(
            "The webhook {} ({endpoint}) was disabled: {reason}\n\nEvents are not kept for it any more. When the \
             endpoint works again, enable the webhook; events of before can be replayed.\n",
            delivery.webhook_id
        );
        let notice = self.notices.to_owners(delivery.workspace_id, "A webhook was disabled", &text).await?;
        let mut batch = store::disable(delivery.workspace_id, delivery.webhook_id, reason);
        batch.append(notice);
        tracing::warn!(webhook = %delivery.webhook_id, reason, "a webhook was disabled");
        unless_lost(self.app.db.commit(batch).await)?;
        self.app.wake_mail();
        Ok(())
    }
}

fn settled(delivery: &Delivery, attempt: &Attempt, now: i64) -> Settled {
    if attempt.error.is_none() {
        return Settled::Arrived;
    }
    let [chance] = secret::random::<1>();
    let wait = retry::wait_after(delivery.tries + 1, chance).filter(|_| !attempt.is_gone());
    wait.map_or(Settled::GivenUp, |wait| Settled::Again { due_at: now + wait })
}

/// Why a webhook is to be disabled after an attempt, if it is.
fn disabling(attempt: &Attempt, endpoint: &Endpoint, now: i64) -> Option<&'static str> {
    attempt.error.as_ref()?;
    if attempt.is_gone() {
        return Some(GONE);
    }
    endpoint.failing_since.filter(|since| now - since >= retry::PATIENCE).map(|_| FAILING)
}

fn count(settled: &Settled) {
    let label = match settled {
        Settled::Arrived => "delivered",
        Settled::Again { .. } => "later",
        Settled::GivenUp => "given_up",
    };
    metrics::counter!("posthorn_webhook_attempts_total", "outcome" => label).increment(1);
}
