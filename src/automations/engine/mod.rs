//! The engine: workers claim runs that are due, bring each as far as it can go,
//! and commit where it stands together with what it did.

mod aside;
mod calls;
mod kept;
mod mail;
mod store;
mod turn;
mod view;
mod webhook;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::app::App;
use crate::automations::graph::Graph;
use crate::calls::Calls;
use crate::clock::{MINUTE, SECOND};
use crate::db::{Batch, DbError};
use crate::domains::Domains;
use crate::events::RESERVED_PREFIX;
use crate::http_client::{HttpClient, Reach};
use crate::id::{AutomationId, ContactId, WorkspaceId};
use crate::limits::Background;
use crate::memory::{Held, Room, WeighedCache, held_when_read, weighed_cache};
use crate::occurrences::{EndedRun, Ending, Occurrences};
use crate::templates::Templates;
use crate::webhooks::{self, EventType};
use crate::work::{self, Next, Tasks, Worker};
use calls::Calling;
use kept::Kept;
use store::LeftRun;

pub use calls::ALL as CALLS;
pub use kept::ALL as KEPT;
pub use store::{ALL as RUNS, Ahead, Claimed, settle};
#[cfg(test)]
pub(super) use {
    store::Sight,
    turn::{advance, call, changed, is_held},
    view::View,
};

/// How long a claim lasts. Whoever claims a run and dies delays it by this much.
pub const LEASE: i64 = 20 * SECOND;

/// How many runs are claimed at once: enough to share commits, few enough that
/// requests do not wait behind them.
const BATCH: usize = 128;

/// How many commits a sweep takes before it lets others have a turn.
const SWEEPS: usize = 20;

/// How many plans are kept.
const PLANS: Room = Room { values: 1_000, bytes: 32 << 20, largest: 8 << 20 };

/// A version of an automation as runs need it. Versions never change.
pub(super) struct Plan {
    pub graph: Graph,
    /// `None` where it was sealed with a key that is not here.
    pub signing_secret: Option<String>,
    /// How long its steps and connections are as text.
    pub length: usize,
}

impl Held for Plan {
    fn held(&self) -> u64 {
        held_when_read(self.length)
    }
}

impl Plan {
    /// Whether its runs are set off by what the product itself tells. What they do sets off no
    /// other: automations could go on with each other for ever.
    pub fn is_reaction(&self) -> bool {
        self.graph.event_name().starts_with(RESERVED_PREFIX)
    }
}

/// What a worker works with.
pub struct Engine {
    app: Occurrences,
    domains: Domains,
    templates: Templates,
    plans: WeighedCache<(AutomationId, i64), Plan>,
    client: HttpClient,
    calls: Arc<Calls>,
    /// Where turns are taken that turn out to be heavy.
    heavy: Background,
    /// Places for those that hold much memory.
    large_turns: Semaphore,
}

/// Works until it is time to stop. Calls to the outside are made beside the
/// rest: a slow server must not hold up anybody's timer.
pub async fn run(app: Occurrences, domains: Domains, templates: Templates, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    let engine = Arc::new(Engine::new(app, domains, templates));
    let mut workers = JoinSet::new();
    workers.spawn(work::run(Turns(engine.clone()), clock.clone(), stopping.clone()));
    workers.spawn(work::run(Kept::new(engine.clone()), clock.clone(), stopping.clone()));
    workers.spawn(work::run(Calling(engine), clock, stopping));
    // Where one panics, this task begins anew as a whole.
    workers.join_all().await;
}

/// Brings on the runs that call nobody.
struct Turns(Arc<Engine>);

impl Worker for Turns {
    const NAME: &'static str = "runs";

    async fn round(&mut self, _: &mut Tasks) -> Result<Next, DbError> {
        match self.0.take_round().await? {
            BATCH => Ok(Next::AtOnce),
            _ => Ok(Next::Due(work::next_due::<Claimed>(&self.0.app.db).await?)),
        }
    }

    async fn woken(&self) {
        self.0.app.work_waits().await;
    }
}

impl Engine {
    pub fn new(app: Occurrences, domains: Domains, templates: Templates) -> Engine {
        let reach = if app.config.private_webhooks { Reach::Anywhere } else { Reach::Public };
        Engine {
            app,
            domains,
            templates,
            plans: weighed_cache(&PLANS),
            client: HttpClient::new(reach),
            calls: Arc::new(Calls::new(calls::ROOM)),
            heavy: Background::start("heavy turns", aside::threads()),
            large_turns: Semaphore::new(turn::LARGE_AT_ONCE),
        }
    }

    /// Claims what is due and brings it on, calls included. Tells how many runs
    /// that were.
    pub async fn round(&self) -> Result<usize, DbError> {
        Ok(self.take_round().await? + self.make_calls().await?)
    }

    /// As [`Engine::round`], without the calls.
    async fn take_round(&self) -> Result<usize, DbError> {
        let claimed = self.claim().await?;
        let count = claimed.len();
        self.take_turns(claimed).await;
        Ok(count)
    }

    /// Runs of one contact take turns one after the other, or each would find
    /// that the contact has moved; those of different contacts side by side.
    async fn take_turns(&self, claimed: Vec<Claimed>) {
        let mut by_contact: HashMap<ContactId, Vec<Claimed>> = HashMap::new();
        for claimed in claimed {
            by_contact.entry(claimed.contact_id).or_default().push(claimed);
        }
        let take = async |runs: Vec<Claimed>| {
            for claimed in &runs {
                self.take_turn(claimed).await;
            }
        };
        let mut turns: FuturesUnordered<_> = by_contact.into_values().map(take).collect();
        while turns.next().await.is_some() {}
    }

    /// [`DbError::Stale`] while the store is on hold.
    pub async fn claim(&self) -> Result<Vec<Claimed>, DbError> {
        work::claim_due(&self.app.db, &self.app.clock, BATCH).await
    }

    /// Those who want the same one at the same time wait for one of them: it may be large.
    async fn plan(&self, claimed: &Claimed) -> Result<Option<Arc<Plan>>, DbError> {
        let key = (claimed.automation_id, claimed.version);
        let room = match self.plans.get_value_or_guard_async(&key).await {
            Ok(known) => return Ok(Some(known)),
            Err(room) => room,
        };
        let find = crate::automations::store::version(claimed.workspace_id, claimed.automation_id, claimed.version);
        let rows = self.app.db.read(find).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (steps, connections) = (row.text(0)?, row.text(1)?);
        let Some(graph) = Graph::stored(&steps, &connections) else { return Ok(None) };
        let signing_secret = self.app.seal.open_text(&row.text(2)?);
        let plan = Arc::new(Plan { graph, signing_secret, length: steps.len() + connections.len() });
        // Where it was forgotten meanwhile, it is read again.
        let _ = room.insert(plan.clone());
        Ok(Some(plan))
    }
}

/// Deletes what is left of deleted automations, a little at a time. Those that
/// were deleted just now have to wait: a commit under way may still start a run.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    app.db.commit(crate::calls::sweep(app.clock.steady())).await?;
    for (workspace_id, id) in store::deleted(&app.db, app.clock.now() - MINUTE).await? {
        let is_told = webhooks::listened(&app.db, workspace_id).await?.contains(EventType::RunCancelled);
        for _ in 0..SWEEPS {
            let runs = store::some_runs(&app.db, id).await?;
            let Some(last) = runs.last() else {
                app.db.commit(store::purge(workspace_id, id).into_iter().collect::<Batch>()).await?;
                break;
            };
            let mut batch = Batch::new();
            for run in runs.iter().filter(|run| is_told && run.is_under_way) {
                cut_short(&mut batch, app, (workspace_id, id), run);
            }
            batch.append(store::delete_runs(id, last.id));
            app.db.commit(batch).await?;
        }
    }
    Ok(())
}

/// Its automation is gone: it ends where it is.
fn cut_short(batch: &mut Batch, app: &App, (workspace_id, automation_id): (WorkspaceId, AutomationId), run: &LeftRun) {
    let LeftRun { id, contact_id, occurrence_id, created_at, .. } = *run;
    let (ending, now) = (Ending::Cancelled, app.clock.now());
    let ended = EndedRun { id, automation_id, contact_id, occurrence_id, created_at, ending, now };
    ended.cut_short(batch, &app.clock, workspace_id);
}
