//! Delivers events to webhooks: a line for each of them, so that none waits for another.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::watch;

use super::attempt::{self, Attempt, Message};
use super::told::{self, Delivery, Settled, Told};
use super::webhook::Status;
use super::{retry, store};
use crate::app::App;
use crate::calls::{Calls, Room, Slot};
use crate::db::{Batch, DbError};
use crate::http_client::{HttpClient, Reach};
use crate::id::WorkspaceId;
use crate::secret;
use crate::work::{self, Next, Tasks, Worker, unless_lost};

/// How many deliveries are made at once. An endpoint of which nothing is known, or that did not answer the last time,
/// has one, and all of these half of the room.
const ROOM: Room = Room { all: 384, of_workspace: 128, to_one: 16, to_unproven: 1, unproven: 192 };

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
        for (delivery, slot) in self.0.claim().await? {
            let deliverer = self.0.clone();
            tasks.spawn(async move { deliverer.deliver(delivery, slot).await });
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
        let claimed = self.claim().await?;
        let count = claimed.len();
        join_all(claimed.into_iter().map(|(delivery, slot)| self.deliver(delivery, slot))).await;
        Ok(count)
    }

    async fn claim(&self) -> Result<Vec<(Delivery, Slot)>, DbError> {
        let (db, clock) = (&self.app.db, &self.app.clock);
        let waiting = self.calls.waiting::<Delivery>(db, clock.steady()).await?;
        Ok(self.calls.claim((db, clock), &waiting).await)
    }

    async fn deliver(&self, delivery: Delivery, _slot: Slot) {
        // After a failure the lease runs out, and whoever is alive tries again.
        if let Err(error) = self.try_deliver(&delivery).await {
            tracing::warn!(event = %delivery.event_id, webhook = %delivery.webhook_id, %error,
                "what became of a delivery could not be written down");
        }
    }

    async fn try_deliver(&self, delivery: &Delivery) -> Result<(), DbError> {
        let (db, clock) = (&self.app.db, &self.app.clock);
        let told = told::told(db, delivery.workspace_id, delivery.webhook_id, delivery.event_id).await?;
        let Some(told) = told.filter(|told| told.status == Status::Enabled) else {
            return db.commit(told::give_up_line(&delivery.destination)).await.map(drop);
        };
        let attempt = self.attempt(delivery, &told).await;
        let unanswered = attempt.error.as_deref().filter(|_| !attempt.is_answered());
        if let Err(error) = self.calls.note_answer((db, clock), &delivery.destination, unanswered).await {
            tracing::warn!(%error, "that a webhook answers, or does not, could not be written down");
        }
        let now = clock.steady();
        let settled = settled(delivery, &attempt, now);
        count(&settled);
        let batch = told::settle(delivery, &told, (clock.ordered_id(), &attempt), &settled, now);
        unless_lost(db.commit(batch).await)?;
        match disabling(&attempt, &told, now) {
            Some(reason) => self.disable(delivery, &told.endpoint, reason).await,
            None => Ok(()),
        }
    }

    async fn attempt(&self, delivery: &Delivery, told: &Told) -> Attempt {
        let (now, steady, seal) = (self.app.clock.now(), self.app.clock.steady(), &self.app.seal);
        let old = told.old_secret.as_ref().filter(|_| told.old_secret_until.is_some_and(|until| until > steady));
        let secrets = [Some(&told.secret), old].into_iter().flatten();
        let secrets: Vec<String> = secrets.filter_map(|kept| seal.open_text(kept)).collect();
        if secrets.is_empty() {
            let error = "the secret that signs the delivery cannot be opened; `posthorn doctor` says why";
            let (response, error) = (String::new(), Some(error.to_owned()));
            return Attempt { http_status: 0, response, error, duration: 0, sent_at: now };
        }
        let Told { endpoint, payload, .. } = told;
        let message = Message { event_id: delivery.event_id, endpoint, payload, secrets: &secrets };
        attempt::make(&self.client, &message, now).await
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
fn disabling(attempt: &Attempt, told: &Told, now: i64) -> Option<&'static str> {
    attempt.error.as_ref()?;
    if attempt.is_gone() {
        return Some(GONE);
    }
    told.failing_since.filter(|since| now - since >= retry::PATIENCE).map(|_| FAILING)
}

fn count(settled: &Settled) {
    let label = match settled {
        Settled::Arrived => "delivered",
        Settled::Again { .. } => "later",
        Settled::GivenUp => "given_up",
    };
    metrics::counter!("posthorn_webhook_attempts_total", "outcome" => label).increment(1);
}
