//! Delivers events to webhooks: a line for each of them, so that none waits for another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::attempt::Attempt;
use super::lanes::{self, Call, Called, Caller, Recipient};
use super::told::{self, Delivery, Endpoint, Settled};
use super::webhook::Status;
use super::{retry, store};
use crate::app::App;
use crate::calls::{Calls, Dispatch, Room, SigningKey};
use crate::clock::SECOND;
use crate::db::{Batch, DbError};
use crate::http_client::{HttpClient, Reach};
use crate::id::{WebhookEventId, WorkspaceId, json_array};
use crate::secret;
use crate::work::{self, Claimable, Next, Tasks, Worker, unless_lost};

/// How many deliveries are made at once. An endpoint of which nothing is known, or that did not answer the last time,
/// has one, and all of these half of the room.
const ROOM: Room = Room { all: 384, of_workspace: 128, to_one: 16, to_unproven: 1, unproven: 192 };

/// How many deliveries are at most claimed for each of the calls that an endpoint may have at once.
const AHEAD: usize = 128;

/// Of how many deliveries what they tell is read together, and what became of them written down; and how long the
/// first of these waits for the others.
const PAGE: usize = 256;
const GATHERED: Duration = Duration::from_millis(25);

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

/// What a worker works with.
pub struct Deliverer {
    caller: Arc<Caller>,
    notices: Box<dyn Notices>,
}

/// Works until it is time to stop.
pub async fn run(app: App, notices: Box<dyn Notices>, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    let deliverer = Deliverer::new(app, notices, stopping.clone());
    work::run(Delivering(Arc::new(deliverer)), clock, stopping).await;
}

struct Delivering(Arc<Deliverer>);

impl Worker for Delivering {
    const NAME: &'static str = "webhooks";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        let mut next = Next::Due(None);
        for dispatch in self.0.claim().await? {
            // There may be more, and room for it.
            if dispatch.rows.len() > dispatch.slots.len() {
                next = Next::AtOnce;
            }
            let deliverer = self.0.clone();
            tasks.spawn(async move { deliverer.deliver(dispatch).await });
        }
        Ok(next)
    }

    async fn woken(&self) {
        tokio::select! {
            () = self.0.caller.app.webhooks_wait() => {}
            () = self.0.caller.calls.noted() => {}
        }
    }
}

impl Deliverer {
    pub fn new(app: App, notices: Box<dyn Notices>, stopping: watch::Receiver<bool>) -> Deliverer {
        let reach = if app.config.private_webhooks { Reach::Anywhere } else { Reach::Public };
        let (client, calls) = (HttpClient::new(reach), Arc::new(Calls::new(ROOM)));
        Deliverer { caller: Arc::new(Caller { app, client, calls, stopping }), notices }
    }

    /// Delivers what is due and there is room for. Tells how many deliveries that were.
    pub async fn round(&self) -> Result<usize, DbError> {
        let dispatches = self.claim().await?;
        let count = dispatches.iter().map(|dispatch| dispatch.rows.len()).sum();
        join_all(dispatches.into_iter().map(|dispatch| self.deliver(dispatch))).await;
        Ok(count)
    }

    async fn claim(&self) -> Result<Vec<Dispatch<Delivery>>, DbError> {
        let (db, clock) = (&self.caller.app.db, &self.caller.app.clock);
        let waiting = self.caller.calls.waiting::<Delivery>(db, clock.steady()).await?;
        Ok(self.caller.calls.claim_ahead((db, clock), &waiting, AHEAD).await)
    }

    /// Tells a webhook what was claimed for it together.
    async fn deliver(&self, dispatch: Dispatch<Delivery>) {
        let Some(&Delivery { webhook_id, .. }) = dispatch.rows.first() else { return };
        // After a failure the lease runs out, and whoever is alive tries again.
        if let Err(error) = self.try_deliver(dispatch).await {
            tracing::warn!(webhook = %webhook_id, %error, "what became of deliveries could not be written down");
        }
    }

    async fn try_deliver(&self, Dispatch { destination, rows, slots }: Dispatch<Delivery>) -> Result<(), DbError> {
        let (began, count) = (Instant::now(), rows.len());
        let (to_settle, called) = mpsc::channel(PAGE);
        let until = self.caller.app.clock.steady() + BEGUN_WITHIN;
        let (to_lanes, mut lanes) = lanes::start(&self.caller, slots.len(), until, to_settle);
        let all_called = async {
            while let Some(ended) = lanes.join_next().await {
                // The lease of what it had runs out.
                ended.unwrap_or_else(|error| tracing::error!(%error, "a delivery panicked"));
            }
            self.caller.calls.note_pace(&destination, (count, began.elapsed()), AHEAD);
            // Others are claimed while what became of the last of these is written down.
            drop(slots);
            self.caller.calls.note();
        };
        let (is_wanted, settled, ()) = tokio::join!(self.hand_on(rows, to_lanes), self.settle_all(called), all_called);
        settled?;
        if !is_wanted? {
            self.caller.app.db.commit(told::give_up_line(&destination)).await?;
        }
        Ok(())
    }

    /// Hands deliveries to the lanes, as fast as these take them. Tells whether the webhook wants them.
    async fn hand_on(&self, rows: Vec<Delivery>, to_lanes: mpsc::Sender<Call>) -> Result<bool, DbError> {
        let mut rows = rows.into_iter();
        loop {
            let page: Vec<Delivery> = rows.by_ref().take(PAGE).collect();
            let Some(first) = page.first() else { return Ok(true) };
            let endpoint = told::endpoint(&self.caller.app.db, first.workspace_id, first.webhook_id).await?;
            let Some(endpoint) = endpoint.filter(|endpoint| endpoint.status == Status::Enabled) else {
                return Ok(false);
            };
            let recipient = Arc::new(Recipient { keys: self.keys(&endpoint), endpoint });
            let mut payloads = self.payloads(&page).await?;
            for delivery in page {
                // Where it is gone there is nothing to tell any more.
                let Some(payload) = payloads.remove(&delivery.event_id) else { continue };
                let call = Call { delivery, recipient: recipient.clone(), payload };
                if to_lanes.send(call).await.is_err() {
                    return Ok(true);
                }
            }
        }
    }

    async fn payloads(&self, rows: &[Delivery]) -> Result<HashMap<WebhookEventId, String>, DbError> {
        let ids = json_array(rows.iter().map(|delivery| delivery.event_id));
        Ok(told::payloads(&self.caller.app.db, &ids).await?.into_iter().collect())
    }

    /// Writes down what became of calls, as it becomes known.
    async fn settle_all(&self, mut called: mpsc::Receiver<Called>) -> Result<(), DbError> {
        loop {
            let mut page = Vec::new();
            if called.recv_many(&mut page, PAGE).await == 0 {
                return Ok(());
            }
            let until = Instant::now() + GATHERED;
            while let room @ 1.. = PAGE - page.len()
                && let Ok(1..) = tokio::time::timeout_at(until, called.recv_many(&mut page, room)).await
            {}
            self.settle_page(&page).await?;
        }
    }

    /// Those that arrived together, and with them what was not begun; the others one by one.
    async fn settle_page(&self, page: &[Called]) -> Result<(), DbError> {
        let now = self.caller.app.clock.steady();
        let (mut arrived, mut failed, mut given_back) = (Vec::new(), Vec::new(), Batch::new());
        for Called { delivery, recipient, attempt } in page {
            match attempt {
                None => given_back.push(told::give_back(delivery, now)),
                Some(attempt) if attempt.error.is_none() => arrived.push((delivery, &recipient.endpoint, attempt)),
                Some(attempt) => failed.push((delivery, &recipient.endpoint, attempt)),
            }
        }
        arrived.iter().chain(&failed).for_each(|(delivery, _, attempt)| count(&settled(delivery, attempt, now)));
        let mut together = given_back.clone();
        for (delivery, endpoint, attempt) in &arrived {
            together.append(self.settlement(delivery, endpoint, attempt, now));
        }
        if !together.is_empty() {
            match self.caller.app.db.commit(together.alike_together()).await {
                // Somebody else has one of them.
                Err(DbError::Unexpected { .. }) => {
                    self.caller.app.db.commit(given_back).await?;
                    failed.append(&mut arrived);
                }
                settled => drop(settled?),
            }
        }
        for (delivery, endpoint, attempt) in failed {
            self.settle(delivery, endpoint, attempt, now).await?;
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
        unless_lost(self.caller.app.db.commit(self.settlement(delivery, endpoint, attempt, now)).await)?;
        match disabling(attempt, endpoint, now) {
            Some(reason) => self.disable(delivery, &endpoint.url, reason).await,
            None => Ok(()),
        }
    }

    fn settlement(&self, delivery: &Delivery, endpoint: &Endpoint, attempt: &Attempt, now: i64) -> Batch {
        let settled = settled(delivery, attempt, now);
        told::settle(delivery, endpoint, (self.caller.app.clock.ordered_id(), attempt), &settled, now)
    }

    fn keys(&self, endpoint: &Endpoint) -> Vec<SigningKey> {
        let (steady, seal) = (self.caller.app.clock.steady(), &self.caller.app.seal);
        let old = endpoint.old_secret.as_ref();
        let old = old.filter(|_| endpoint.old_secret_until.is_some_and(|until| until > steady));
        let secrets = [Some(&endpoint.secret), old].into_iter().flatten();
        secrets.filter_map(|kept| seal.open_text(kept)).map(|secret| SigningKey::new(&secret)).collect()
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
        unless_lost(self.caller.app.db.commit(batch).await)?;
        self.caller.app.wake_mail();
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
