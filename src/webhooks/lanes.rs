//! Calls to one endpoint, side by side: each lane makes one after the other, over a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use super::attempt::{self, Attempt, Message};
use super::told::{Delivery, Endpoint};
use crate::app::App;
use crate::calls::{Calls, SigningKey};
use crate::http_client::{HttpClient, Kept};

/// How many deliveries wait for each lane: so many that none has to stop for them.
const WAITING: usize = 2;

/// A webhook as it was when deliveries were handed on.
pub struct Recipient {
    pub endpoint: Endpoint,
    /// What deliveries are signed with.
    pub keys: Vec<SigningKey>,
}

/// A delivery that is to be made.
pub struct Call {
    pub delivery: Delivery,
    pub recipient: Arc<Recipient>,
    pub payload: String,
}

/// A delivery, and what came of it; `None` where it was not begun.
pub struct Called {
    pub delivery: Delivery,
    pub recipient: Arc<Recipient>,
    pub attempt: Option<Attempt>,
}

/// What calls are made with.
pub struct Caller {
    pub app: App,
    pub client: HttpClient,
    pub calls: Arc<Calls>,
    pub stopping: watch::Receiver<bool>,
}

impl Caller {
    /// Whether no call is begun any more that was to be begun until a moment.
    fn is_late(&self, until: i64) -> bool {
        *self.stopping.borrow() || self.app.clock.steady() > until
    }
}

#[derive(Clone)]
struct Lane {
    caller: Arc<Caller>,
    waiting: Arc<Mutex<mpsc::Receiver<Call>>>,
    called: mpsc::Sender<Called>,
    /// Whether no other call is begun, by any of the lanes.
    is_over: Arc<AtomicBool>,
    /// When the last call is begun, in steady time.
    until: i64,
}

/// Starts so many lanes: they end when nothing can come any more, or when nobody hears what came of their calls.
pub fn start(
    caller: &Arc<Caller>,
    count: usize,
    until: i64,
    called: mpsc::Sender<Called>,
) -> (mpsc::Sender<Call>, JoinSet<()>) {
    let (calls, waiting) = mpsc::channel(WAITING * count);
    let waiting = Arc::new(Mutex::new(waiting));
    let lane = Lane { caller: caller.clone(), waiting, called, is_over: Arc::default(), until };
    (calls, (0..count).map(|_| lane.clone().run()).collect())
}

impl Lane {
    async fn run(self) {
        let mut connection = self.caller.client.keep();
        while let Some(call) = self.next().await {
            let is_over = self.is_over.load(Ordering::Relaxed) || self.caller.is_late(self.until);
            let attempt = if is_over { None } else { Some(self.make(&call, &mut connection).await) };
            let Call { delivery, recipient, .. } = call;
            if self.called.send(Called { delivery, recipient, attempt }).await.is_err() {
                return;
            }
        }
    }

    async fn next(&self) -> Option<Call> {
        self.waiting.lock().await.recv().await
    }

    /// Makes one call. Once one was not answered, or nothing is wanted any more, no other is begun.
    async fn make(&self, Call { delivery, recipient, payload }: &Call, connection: &mut Kept<'_>) -> Attempt {
        let Caller { app, calls, .. } = &*self.caller;
        let now = app.clock.now();
        let Recipient { endpoint, keys } = &**recipient;
        let message = Message { event_id: delivery.event_id, endpoint: &endpoint.url, payload, keys };
        let attempt =
            if keys.is_empty() { Attempt::unsigned(now) } else { attempt::make(connection, &message, now).await };
        let unanswered = attempt.error.as_deref().filter(|_| !attempt.is_answered());
        self.is_over.fetch_or(unanswered.is_some() || attempt.is_gone(), Ordering::Relaxed);
        if let Err(error) = calls.note_answer((&app.db, &app.clock), &delivery.destination, unanswered).await {
            tracing::warn!(%error, "that a webhook answers, or does not, could not be written down");
        }
        attempt
    }
}
