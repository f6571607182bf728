//! Which recipients are claimed, and what is to be done with them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::Engine;
use super::line::{Line, Way};
use super::pass::{BULK, LANES, TRANSACTIONAL};
use super::routes::Route;
use super::settlement::Outcome;
use super::sites::{Pause, Sites, Slot};
use super::store::{self, Claimed, Waiting};
use super::test_recipients;
use crate::broadcasts::{self, Lane, Priority, Standing};
use crate::clock::MINUTE;
use crate::config::TransportKind;
use crate::db::{Batch, DbError};
use crate::emails;
use crate::work::{self, Next};

/// How many recipients are settled together, where no dialogue is held.
const TOGETHER: usize = 256;

/// For how long mail waits that was accepted to be sent, while nothing is sent here.
const WITHOUT_TRANSPORT: i64 = 5 * MINUTE;

const IS_CAPTURING: &str =
    "it was accepted to be sent, and this instance now captures mail: it waits for --smtp-url or --transport direct";

/// What came of a look at all that waits.
pub(super) struct Look {
    pub dispatches: Vec<Dispatch>,
    /// How many recipients needed no dialogue.
    pub settled: usize,
    pub next: Next,
}

/// Recipients of one line for whom a dialogue is held.
pub(super) struct Dispatch {
    pub route: Arc<Route>,
    pub recipients: Vec<(Claimed, Slot)>,
}

/// What is to be done with the recipients of a line.
enum Plan {
    /// The same for all, and no dialogue.
    Together(LineAction),
    Dialogue(Arc<Route>, Room),
}

#[derive(Clone)]
enum LineAction {
    Test,
    /// Mail goes by another way now.
    Move,
    /// It is not wanted any more.
    Cancel,
    Outcome(Outcome),
}

/// Room at a site, given back unless it is kept.
struct Room {
    sites: Sites,
    site: String,
    is_bulk: bool,
    count: usize,
}

impl Room {
    fn keep(mut self, claimed: usize) -> Vec<Slot> {
        self.sites.keep(&self.site, self.is_bulk, std::mem::take(&mut self.count), claimed)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.sites.keep(&self.site, self.is_bulk, self.count, 0);
    }
}

/// What is to be claimed.
struct Order {
    lane: i64,
    line: String,
    plan: Plan,
    room: usize,
}

impl Engine {
    /// Claims what is due and there is room for; what needs no dialogue is done at once.
    pub(super) async fn look(self: &Arc<Engine>) -> Result<Look, DbError> {
        let now = self.app.clock.steady();
        let (mut orders, mut next_due) = (Vec::new(), None);
        for lane in self.lanes().await? {
            for Waiting { line, due_at } in self.lines(lane.number).await? {
                if due_at <= now {
                    orders.extend(self.order((lane.number, lane.standing), line, now).await?);
                } else {
                    next_due = Some(next_due.map_or(due_at, |next: i64| next.min(due_at)));
                }
            }
        }
        let next = self.pass().end_of_look(next_due);
        let mut goes_on = next == Next::AtOnce;
        let mut claimed = match orders.is_empty() {
            true => HashMap::new(),
            false => self.claim(&orders, now).await?,
        };
        self.enter_queue(&mut claimed).await?;
        let judged = self.judge(claimed.values_mut().flatten().collect()).await?;
        let (mut dispatches, mut ended) = (Vec::new(), Vec::new());
        for Order { lane, line, plan, room } in orders {
            let rows = claimed.remove(&(lane, line)).unwrap_or_default();
            goes_on |= matches!(plan, Plan::Together(_)) && rows.len() == room;
            let count = rows.len();
            let (at_once, rest): (Vec<_>, Vec<_>) =
                rows.into_iter().map(|row| (judged.outcome(&row), row)).partition(|(known, _)| known.is_some());
            ended.extend(at_once.into_iter().filter_map(|(known, row)| Some((row, known?))));
            let rest = rest.into_iter().map(|(_, row)| row);
            match plan {
                Plan::Dialogue(route, room) => {
                    let recipients: Vec<_> = rest.zip(room.keep(count)).collect();
                    dispatches.extend((!recipients.is_empty()).then_some(Dispatch { route, recipients }));
                }
                Plan::Together(LineAction::Move) => self.move_on(rest.collect(), now).await?,
                Plan::Together(LineAction::Cancel) => ended.extend(rest.map(|row| (row, Outcome::Canceled))),
                Plan::Together(LineAction::Test) => ended.extend(rest.map(|row| {
                    let outcome = test_recipients::outcome(&row.address);
                    (row, outcome)
                })),
                Plan::Together(LineAction::Outcome(outcome)) => ended.extend(rest.map(|row| (row, outcome.clone()))),
            }
        }
        let settled = ended.len();
        self.settle_all(ended, &mut None).await;
        Ok(Look { dispatches, settled, next: if goes_on { Next::AtOnce } else { next } })
    }

    /// The lanes that are to be looked at: those that are always there, and those of broadcasts that go on or were
    /// canceled.
    async fn lanes(&self) -> Result<Vec<Lane>, DbError> {
        let mut lanes =
            LANES.map(|number| Lane { number, standing: Standing::GoesOn, priority: Priority::default() }).to_vec();
        lanes.extend(broadcasts::waiting_lanes(&self.app.db, BULK).await?);
        let mut pass = self.pass();
        pass.begin_look(&lanes.iter().map(|lane| lane.number).collect::<Vec<_>>());
        let of_broadcasts = &mut lanes[LANES.len()..];
        of_broadcasts.rotate_left(pass.turn(of_broadcasts.len()));
        // Those of one priority take turns.
        of_broadcasts.sort_by_key(|lane| Reverse(lane.priority));
        Ok(lanes)
    }

    /// The lines of a lane in which somebody waits, a page at a time; after the last it begins anew.
    async fn lines(&self, lane: i64) -> Result<Vec<Waiting>, DbError> {
        let after = self.pass().after(lane);
        let rows = self.app.db.read(store::waiting(lane, &after)).await?;
        let lines = rows.iter().map(Waiting::read).collect::<Result<Vec<_>, _>>()?;
        self.pass().saw(lane, &lines);
        Ok(lines)
    }

    /// What is to be claimed of a line, if anything is.
    async fn order(
        self: &Arc<Engine>,
        (lane, standing): (i64, Standing),
        line: String,
        now: i64,
    ) -> Result<Option<Order>, DbError> {
        if standing == Standing::Canceled {
            return Ok(Some(Order { lane, line, plan: Plan::Together(LineAction::Cancel), room: TOGETHER }));
        }
        let Some(way) = self.plan(&line, now).await? else { return Ok(None) };
        let is_bulk = lane != TRANSACTIONAL;
        let (plan, room) = match way {
            Err(action) => (Plan::Together(action), TOGETHER),
            Ok(route) => match self.sites.reserve(&route.site, route.pace, is_bulk, now) {
                Ok(count) => {
                    let (sites, site) = (self.sites.clone(), route.site.clone());
                    let room = Room { sites, site, is_bulk, count };
                    (Plan::Dialogue(route, room), count)
                }
                Err(pause) => (Plan::Together(LineAction::Outcome(paused(&route, pause))), TOGETHER),
            },
        };
        Ok((room > 0).then_some(Order { lane, line, plan, room }))
    }

    /// By which way the mail of a line goes now, or what becomes of all of it; `None` where that is
    /// being looked up.
    async fn plan(self: &Arc<Engine>, line: &str, now: i64) -> Result<Option<Result<Arc<Route>, LineAction>>, DbError> {
        let Some(Line { domain_id, way }) = Line::read(line) else {
            let reason = format!("it waits in a line that is not known: {line}");
            return Ok(Some(Err(LineAction::Outcome(Outcome::Never(reason)))));
        };
        let waits = |reason| LineAction::Outcome(Outcome::Waits { until: now + WITHOUT_TRANSPORT, reason });
        let transport = match self.transport(domain_id).await {
            // What is wrong with one domain holds up its own mail alone.
            Err(DbError::Broken(reason)) => return Ok(Some(Err(waits(reason)))),
            found => found?,
        };
        Ok(match (way, transport.kind) {
            (Way::Test, _) => Some(Err(LineAction::Test)),
            // It was accepted without anybody asking whose address the sender's is.
            (Way::Capture, _) => Some(Err(LineAction::Outcome(Outcome::Captured))),
            (_, TransportKind::Capture) => Some(Err(waits(IS_CAPTURING.to_owned()))),
            (Way::Relay, TransportKind::Relay) => Some(Ok(transport.route)),
            (Way::Direct(domain), TransportKind::Direct) => match self.routes.known(domain, now) {
                Some(route) => Some(route.map_err(LineAction::Outcome)),
                None => {
                    self.look_up(domain);
                    None
                }
            },
            (Way::Relay | Way::Direct(_), _) => Some(Err(LineAction::Move)),
        })
    }

    /// Claims what was ordered, in one commit, by lane and line.
    async fn claim(&self, orders: &[Order], now: i64) -> Result<HashMap<(i64, String), Vec<Claimed>>, DbError> {
        let claims: Batch = orders.iter().map(|order| store::claim(order.lane, &order.line, now, order.room)).collect();
        let mut claimed: HashMap<_, Vec<Claimed>> = HashMap::new();
        for row in work::claim_by::<Claimed>(&self.app.db, claims).await? {
            claimed.entry((row.lane, row.line.clone())).or_default().push(row);
        }
        Ok(claimed)
    }

    /// Lets recipients wait where mail goes now.
    async fn move_on(&self, rows: Vec<Claimed>, now: i64) -> Result<(), DbError> {
        let (mut moves, mut lost) = (Batch::new(), Vec::new());
        for row in rows {
            let domain_id = Line::read(&row.line).and_then(|line| line.domain_id);
            let transport = self.transport(domain_id).await?;
            match row.address.parse() {
                Ok(address) => {
                    moves.push(store::move_to(&row, &emails::line(transport.kind, domain_id, &address), now));
                }
                Err(_) => lost.push((row, Outcome::Never("its address is none that mail can go to".into()))),
            }
        }
        self.settle_all(lost, &mut None).await;
        work::unless_lost(self.app.db.commit(moves).await)
    }
}

/// What becomes of mail to a site that gets none for a while.
pub(super) fn paused(route: &Route, pause: Pause) -> Outcome {
    let reason = format!("{} gets no mail for a while: {}", route.site, pause.reason);
    Outcome::Waits { until: pause.until, reason }
}
