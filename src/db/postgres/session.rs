//! A connection, the statements prepared on it, and the watch over it: one that
//! does not answer is given up, because nobody else would ever close it. A
//! server that hangs and a network that swallows packets keep a connection open
//! for ever.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Lock};
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::BorrowToSql;
use tokio_postgres::{Client, Statement};

use super::link::{Link, Purpose};
use super::owned;
use crate::db::{Effect, sql::Limit, sql::Rows};

/// A statement that waits for a lock gives up before its caller does, so that
/// nobody's lock can hold all writers; and before [`SILENT`], so that silence
/// means a connection that does not answer and not a statement that takes long.
const STATEMENT_WAIT: &str = "SET statement_timeout = 5000";

/// So that the server as well lets go of a connection whose other end is gone, and
/// of the locks that it holds. What speaks the protocol need not know these.
const KEEP_ALIVE: &str = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2;
    SET tcp_keepalives_count = 3; SET tcp_user_timeout = 10000";

/// How often a connection is looked at, after how many looks at which nothing was
/// answered another one is preferred, and after how many it is given up.
const LOOK: Duration = Duration::from_millis(500);
const QUIET: u32 = 1;
const SILENT: u32 = 12;

pub(super) struct Session {
    client: Client,
    prepared: Lock<HashMap<&'static str, Statement>>,
    /// Whether statements can be run for many.
    pub joins: AtomicBool,
    /// How many groups to come ask particular guards with the shared ones, which
    /// were found to move.
    pub careful_groups: AtomicU32,
    state: Arc<State>,
    driver: AbortHandle,
    /// Closed when the connection has ended.
    alive: watch::Receiver<()>,
    link: Arc<Link>,
}

/// What the watch over a session knows of it.
#[derive(Default)]
struct State {
    asked: AtomicU64,
    answered: AtomicU64,
    /// Of what was asked, that for whose answer nobody waits any more.
    abandoned: AtomicU64,
    is_quiet: AtomicBool,
    is_over: AtomicBool,
    epoch: AtomicU64,
}

/// Something that was asked, and whether it has been answered.
struct Asked<'a>(&'a State, bool);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let count = if self.1 { &self.0.answered } else { &self.0.abandoned };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Session {
    pub(super) fn start(
        client: Client,
        connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
        link: &Arc<Link>,
        purpose: Purpose,
    ) -> Session {
        let (living, alive) = watch::channel(());
        let counted = link.live(purpose);
        let driver = tokio::spawn(async move {
            let _until_the_end = (living, counted);
            if let Err(error) = connection.await {
                tracing::warn!(%error, "a PostgreSQL connection ended");
            }
        })
        .abort_handle();
        let state = Arc::new(State::default());
        tokio::spawn(watch_over(state.clone(), driver.clone(), link.clone()));
        let (prepared, joins, careful_groups) = (Lock::default(), true.into(), 0.into());
        Session { client, prepared, joins, careful_groups, state, driver, alive, link: link.clone() }
    }

    pub(super) async fn configure(&self, settings: &str) -> Result<(), tokio_postgres::Error> {
        self.execute(&format!("{STATEMENT_WAIT}; {settings}")).await?;
        match self.execute(KEEP_ALIVE).await {
            Err(error) if error.as_db_error().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// What is asked of it directly is not watched.
    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(super) async fn prepare(&self, text: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = self.prepared.lock().ok().and_then(|prepared| prepared.get(text).cloned());
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.answer(self.client.prepare(text)).await?;
        if let Ok(mut prepared) = self.prepared.lock() {
            prepared.insert(text, statement.clone());
        }
        Ok(statement)
    }

    pub(super) async fn run<P>(&self, statement: &Statement, params: P) -> Result<Effect, tokio_postgres::Error>
    where
        P: IntoIterator<Item: BorrowToSql, IntoIter: ExactSizeIterator>,
    {
        self.run_within(None, statement, params).await
    }

    /// As [`Session::run`], reading no more than a limit.
    pub(super) async fn run_within<P>(
        &self,
        limit: Option<&Limit>,
        statement: &Statement,
        params: P,
    ) -> Result<Effect, tokio_postgres::Error>
    where
        P: IntoIterator<Item: BorrowToSql, IntoIter: ExactSizeIterator>,
    {
        self.answer(async {
            let found = self.client.query_raw(statement, params).await?;
            tokio::pin!(found);
            let mut rows = Rows::new(limit);
            while let Some(row) = found.try_next().await? {
                if rows.is_full() {
                    break;
                }
                rows.push(owned(&row)?);
            }
            Ok(Effect { changed: found.rows_affected().unwrap_or(0), rows: rows.rows })
        })
        .await
    }

    pub(super) async fn execute(&self, text: &str) -> Result<(), tokio_postgres::Error> {
        self.answer(self.client.batch_execute(text)).await
    }

    /// Waits for an answer under the eyes of the watch.
    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        self.state.asked.fetch_add(1, Ordering::Relaxed);
        let mut asked = Asked(&self.state, false);
        let answer = answer.await;
        asked.1 = true;
        if let Err(error) = &answer
            && ends_session(error)
        {
            if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
                self.link.distrust(self.state.epoch.load(Ordering::Relaxed));
            }
            self.end();
        }
        answer
    }

    /// Closes the connection, whatever is under way on it.
    pub(super) fn end(&self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        self.driver.abort();
    }

    /// Resolves when the connection has ended.
    pub(super) async fn ended(&self) {
        let _ = self.alive.clone().changed().await;
    }

    /// Whether anything may be asked of it.
    pub(super) fn is_fit(&self) -> bool {
        !self.state.is_over.load(Ordering::Relaxed)
            && self.alive.has_changed().is_ok()
            && self.state.epoch.load(Ordering::Relaxed) == self.link.epoch()
    }

    /// Whether it has been asked something and has not answered for a while.
    pub(super) fn is_quiet(&self) -> bool {
        self.state.is_quiet.load(Ordering::Relaxed)
    }

    pub(super) fn set_epoch(&self, epoch: u64) {
        self.state.epoch.store(epoch, Ordering::Relaxed);
    }
}

/// Looks at a session now and then, and ends it when it has not answered at many
/// looks in a row. Looks are counted rather than seconds: a process that was
/// stopped for a while has not looked.
async fn watch_over(state: Arc<State>, driver: AbortHandle, link: Arc<Link>) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut asked, mut answered, mut unanswered) = (0, 0, 0);
    while !driver.is_finished() {
        looks.tick().await;
        let before = (asked, answered);
        answered = state.answered.load(Ordering::Relaxed);
        let gone = state.abandoned.load(Ordering::Relaxed);
        asked = state.asked.load(Ordering::Relaxed);
        // Callers that give up early must not hide that nothing is ever answered.
        let is_used = asked > answered + gone || asked > before.0;
        if answered > before.1 {
            unanswered = 0;
        } else if is_used {
            unanswered += 1;
        }
        state.is_quiet.store(is_used && unanswered >= QUIET, Ordering::Relaxed);
        if unanswered >= SILENT {
            tracing::warn!("a PostgreSQL connection does not answer and is given up");
            state.is_over.store(true, Ordering::Relaxed);
            link.distrust(state.epoch.load(Ordering::Relaxed));
            driver.abort();
            return;
        }
    }
}

/// Whether an error means that the connection is gone, or leads to a server that
/// does not take writes any more.
pub(super) fn ends_session(error: &tokio_postgres::Error) -> bool {
    let Some(cause) = error.as_db_error() else { return error.is_closed() };
    let is_fatal = matches!(cause.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
    is_fatal || *cause.code() == SqlState::READ_ONLY_SQL_TRANSACTION
}
