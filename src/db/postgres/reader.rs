//! The reading side. Statements of many requests share a few connections; each
//! comes back by itself after an outage, and one that does not answer is left
//! alone while others do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;

use super::link::{Link, Purpose};
use super::refusal;
use super::session::Session;
use crate::db::{DbError, Guard, PATIENCE, Row, Sql, Stmt, Value, too_late};

/// How often a read is tried whose connection ended under it.
const TRIES: u32 = 3;

pub(in crate::db) struct Readers {
    link: Arc<Link>,
    slots: Vec<Slot>,
    next: AtomicUsize,
    failure: Arc<Notify>,
}

/// A place for one connection, which is opened when it is first wanted, and from
/// then on kept open.
struct Slot {
    state: watch::Receiver<State>,
    wanted: Arc<Notify>,
    keeper: AbortHandle,
}

enum State {
    Opening,
    Open(Arc<Session>),
    Refused(DbError),
}

impl State {
    /// The answer for whoever waits for this connection; `None`: it is being opened.
    fn settled(&self) -> Option<Result<Arc<Session>, DbError>> {
        match self {
            State::Open(session) if session.is_fit() => Some(Ok(session.clone())),
            State::Refused(error) => Some(Err(error.clone())),
            State::Open(_) | State::Opening => None,
        }
    }
}

impl Slot {
    fn new(link: Arc<Link>) -> Slot {
        let (sender, state) = watch::channel(State::Opening);
        let wanted = Arc::new(Notify::new());
        let keeper = tokio::spawn(keep(link, wanted.clone(), sender)).abort_handle();
        Slot { state, wanted, keeper }
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.state.borrow().settled().and_then(Result::ok)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Keeps a connection open, from when it is first wanted.
async fn keep(link: Arc<Link>, wanted: Arc<Notify>, state: watch::Sender<State>) {
    wanted.notified().await;
    let refused = |error| {
        state.send_replace(State::Refused(error));
        true
    };
    while let Some(session) = link.reopen(Purpose::Read, refused).await {
        let session = Arc::new(session);
        state.send_replace(State::Open(session.clone()));
        while session.is_fit() {
            tokio::select! {
                () = session.ended() => {}
                () = link.asked_to_yield() => session.end(),
                () = wanted.notified() => {}
            }
        }
        state.send_replace(State::Opening);
    }
}

impl Readers {
    pub(super) fn new(link: &Arc<Link>, count: usize, failure: Arc<Notify>) -> Readers {
        let slots = (0..count.max(1)).map(|_| Slot::new(link.clone())).collect();
        Readers { link: link.clone(), slots, next: AtomicUsize::new(0), failure }
    }

    /// Whether those who write have a connection and nobody here has: the server has few to give.
    pub(in crate::db) fn is_for_writers(&self) -> bool {
        self.link.has_live(Purpose::Write) && self.slots.iter().all(|slot| slot.session().is_none())
    }

    /// By turns, but not one that has not answered for a while if another does.
    async fn session(&self) -> Result<Arc<Session>, DbError> {
        let count = self.slots.len();
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let own = &self.slots[turn];
        let mut quiet = None;
        for slot in (turn..turn + count).map(|place| &self.slots[place % count]) {
            match slot.session() {
                Some(session) if !session.is_quiet() => return Ok(session),
                Some(session) => quiet = quiet.or(Some(session)),
                None if std::ptr::eq(slot, own) => slot.wanted.notify_one(),
                None => {}
            }
        }
        if let Some(session) = quiet {
            return Ok(session);
        }
        let mut state = own.state.clone();
        let settled = state.wait_for(|state| state.settled().is_some()).await;
        settled.ok().and_then(|state| state.settled()).unwrap_or_else(|| Err(too_late()))
    }

    pub(in crate::db) async fn read(&self, guard: Option<&Guard>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let attempts = async {
            let mut tries = 1;
            loop {
                let session = self.session().await?;
                match read_on(&session, guard, stmt).await {
                    Err(DbError::Unavailable(_)) if !session.is_fit() && tries < TRIES => tries += 1,
                    answer => return answer,
                }
            }
        };
        tokio::time::timeout(PATIENCE, attempts).await.unwrap_or_else(|_| Err(too_late()))
    }

    pub(in crate::db) async fn failed(&self) {
        self.failure.notified().await;
    }

    pub(in crate::db) async fn check(&self, sql: Sql) -> Result<(), DbError> {
        let session = self.session().await?;
        let statement = session.prepare(sql.postgres).await.map_err(refusal)?;
        // It can be prepared and still never be run.
        if let Some(kind) = statement.params().iter().find(|kind| !Value::accepts(kind)) {
            return Err(DbError::Broken(format!("no value can be bound to a parameter of the type {kind}")));
        }
        let Some(many) = sql.many else { return Ok(()) };
        let many = session.prepare(many).await.map_err(refusal)?;
        match many.params().len() == statement.params().len() && many.params().iter().all(Vec::<&Value>::accepts) {
            true => Ok(()),
            false => Err(DbError::Broken("for many, each parameter must be an array".into())),
        }
    }
}

async fn read_on(session: &Session, guard: Option<&Guard>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
    let statement = session.prepare(stmt.sql.postgres).await.map_err(refusal)?;
    let Some(guard) = guard else {
        let found = session.run_within(stmt.limit.as_deref(), &statement, &stmt.params).await;
        return found.map(|effect| effect.rows).map_err(refusal);
    };
    let asked = session.prepare(guard.shared.sql.postgres).await.map_err(refusal)?;
    let (held, found) = tokio::join!(
        biased;
        session.run(&asked, &guard.shared.params),
        session.run_within(stmt.limit.as_deref(), &statement, &stmt.params),
    );
    let found = found.map(|effect| effect.rows).map_err(refusal);
    if !held.map_err(refusal)?.rows.is_empty() {
        return found;
    }
    // Whoever stands now has stood when it was read.
    let basis = guard.basis.as_ref().ok_or(DbError::Stale)?;
    let particular = session.prepare(basis.particular.sql.postgres).await.map_err(refusal)?;
    let stands = session.run(&particular, &basis.particular.params).await.map_err(refusal)?;
    basis.learn(stands.rows.first().ok_or(DbError::Stale)?.int(0)?);
    found
}
