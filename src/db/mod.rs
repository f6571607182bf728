//! The storage vocabulary. A write is a [`Batch`] of [`Stmt`]s that is committed
//! whole or not at all; a read is one [`Stmt`]. This room knows no feature.
//!
//! Both engines group commits: every batch that waits while a transaction is
//! being flushed joins the next one, so the cost of a flush is shared, and each
//! batch still gets an answer of its own.

mod clock;
mod files;
mod guard;
mod inspect;
mod migrate;
mod postgres;
mod sql;
mod sqlite;
mod statements;
mod value;

pub use clock::{Reading, open as open_clock};
pub use files::{folder, is_open_to_others, make_private, of};
pub use inspect::{Inspection, Schema};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use guard::{Basis, Guard};
pub use sql::{Batch, ReadLimit, Sql, Stmt};
pub use sqlite::{Progress, backup, restore};
pub(crate) use statements::{among, elements, statements};
pub use value::{Columns, FromRow, FromRows, Row, Value};
pub(crate) use value::{from_row, from_word};

pub const STATEMENTS: &[&[Sql]] = &[clock::ALL, inspect::ALL, migrate::ALL];

/// How long a caller waits for a commit or a read before it is told that the
/// store is unavailable. After that its write no longer begins; only a commit
/// that was under way by then may still happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a store can answer instead of a result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DbError {
    /// A statement changed another number of rows than it expected: the row it
    /// wanted to compare-and-set is gone or has moved on. Nothing was written.
    #[error("statement {statement} of the batch did not find what it expected")]
    Unexpected { statement: usize },
    /// A guard no longer holds: what the caller had cached is out of date.
    #[error("a guard of the batch no longer holds")]
    Stale,
    /// A unique constraint refused a row. Nothing was written.
    #[error("a row like this exists already: {0}")]
    Duplicate(String),
    /// The write queue is full.
    #[error("too many writes are waiting")]
    Busy,
    /// The store cannot be reached, or cannot write, or did not answer in time.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A statement is wrong. This is a defect in Posthorn.
    #[error("a statement failed: {0}")]
    Broken(String),
}

/// What one statement did: the rows it changed, and those it returned.
#[derive(Debug, Default, Clone)]
pub struct Effect {
    pub changed: u64,
    pub rows: Vec<Row>,
}

pub(crate) type Committed = Result<Vec<Effect>, DbError>;

/// A batch on its way to a committer, with the way back, and the moment at which
/// its caller gives up.
struct Job {
    /// In one place from here to the answer: a job is moved from list to list.
    batch: Box<Batch>,
    reply: oneshot::Sender<(Committed, Box<Batch>)>,
    deadline: Instant,
}

impl Job {
    /// Whether its caller has been told that the store is unavailable: what was
    /// refused must not happen, least of all over what was written since.
    fn is_late(&self, now: Instant) -> bool {
        self.deadline <= now
    }

    /// Takes away those that must not begin, because nobody waits for them any more.
    fn drop_abandoned(group: &mut Vec<Job>) {
        let now = Instant::now();
        let is_abandoned = |job: &mut Job| job.is_late(now) || job.reply.is_closed();
        group.extract_if(.., is_abandoned).for_each(|job| job.answer(Err(too_late())));
    }

    /// The batch goes back as well: memory is cheaper to free where it was taken.
    fn answer(self, result: Committed) {
        // A caller that goes away meanwhile does not undo its write.
        let _ = self.reply.send((result, self.batch));
    }
}

fn too_late() -> DbError {
    DbError::Unavailable("no answer in time".into())
}

/// Which engine keeps the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    Sqlite(PathBuf),
    Postgres(String),
}

impl std::fmt::Display for Location {
    /// As a setting names it, without a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = match self {
            Location::Sqlite(path) => return write!(f, "sqlite:{}", path.display()),
            Location::Postgres(url) => url,
        };
        let (scheme, address) = url.split_once("://").unwrap_or(("postgres", url));
        // A password may hold any character that stands before the last of these.
        let (user, rest) = address.rsplit_once('@').unwrap_or(("", address));
        let host = rest.split('?').next().unwrap_or_default();
        match user.split([':', '/', '?', '&', '=']).next().unwrap_or_default() {
            "" => write!(f, "{scheme}://{host}"),
            user => write!(f, "{scheme}://{user}@{host}"),
        }
    }
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    pub location: Location,
    /// How many batches may wait for a commit before callers are told [`DbError::Busy`].
    pub queue: usize,
    /// SQLite: flush the log before anybody is answered (true), or leave it to checkpoints.
    pub full_sync: bool,
    /// SQLite: how many bytes the log may have before writes are refused.
    pub log_limit: u64,
    /// How many connections read. PostgreSQL writers come on top.
    pub readers: usize,
    /// PostgreSQL: how many connections commit groups side by side.
    pub writers: usize,
    /// How long a caller waits for a commit.
    pub patience: Duration,
}

impl Options {
    pub fn new(location: Location) -> Options {
        let (queue, readers, writers) = (8192, 4, 4);
        Options { location, queue, full_sync: true, log_limit: 4 << 30, readers, writers, patience: PATIENCE }
    }
}

/// A handle to the store; clones share it.
#[derive(Clone)]
pub struct Db {
    queue: mpsc::Sender<Job>,
    patience: Duration,
    engine: Arc<Engine>,
}

enum Engine {
    Sqlite(sqlite::Readers),
    Postgres(postgres::Readers),
}

impl Db {
    /// Opens the store, brings its schema up to date and starts its committers.
    pub async fn open(options: &Options) -> anyhow::Result<Db> {
        let (queue, jobs) = mpsc::channel(options.queue);
        let engine = match &options.location {
            Location::Sqlite(path) => Engine::Sqlite(sqlite::open(path, options, jobs)?),
            Location::Postgres(url) => Engine::Postgres(postgres::open(url, options, queue.downgrade(), jobs).await?),
        };
        Ok(Db { queue, patience: options.patience, engine: Arc::new(engine) })
    }

    /// Whether what is queued later is committed later: after a crash nothing is there without all that was
    /// queued before it. Several committers of PostgreSQL overtake each other.
    pub fn commits_in_order(&self) -> bool {
        matches!(&*self.engine, Engine::Sqlite(_))
    }

    /// `sqlite` or `postgres`, for people and for metrics.
    pub fn engine_name(&self) -> &'static str {
        match *self.engine {
            Engine::Sqlite(_) => "sqlite",
            Engine::Postgres(_) => "postgres",
        }
    }

    /// Commits a batch. `Ok` means that it is durable.
    pub async fn commit(&self, batch: impl Into<Batch>) -> Committed {
        let (reply, answer) = oneshot::channel();
        let deadline = Instant::now() + self.patience;
        let job = Job { batch: Box::new(batch.into()), reply, deadline };
        self.queue.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => DbError::Busy,
            mpsc::error::TrySendError::Closed(_) => DbError::Unavailable("the writer has stopped".into()),
        })?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok((result, _))) => result,
            Ok(Err(_)) => Err(DbError::Unavailable("the writer stopped before it answered".into())),
            Err(_) => Err(too_late()),
        }
    }

    /// Runs one reading statement.
    pub async fn read(&self, stmt: Stmt) -> Result<Vec<Row>, DbError> {
        self.read_when(None, stmt).await
    }

    /// Runs one reading statement, and makes of its rows what is wanted.
    pub async fn query<R: FromRows>(&self, stmt: Stmt) -> Result<R, DbError> {
        R::from_rows(&self.read(stmt).await?)
    }

    /// Runs one reading statement together with a guard: [`DbError::Stale`] when
    /// the guard does not hold.
    pub async fn read_when(&self, guard: Option<&Guard>, stmt: Stmt) -> Result<Vec<Row>, DbError> {
        match &*self.engine {
            Engine::Sqlite(readers) => readers.read(guard, &stmt).await,
            // Apart: what waits for a server takes much room, which every caller of
            // SQLite's readers would hold too, and the compiler's time at each of them.
            Engine::Postgres(readers) => {
                let reading: BoxFuture<'_, Result<Vec<Row>, DbError>> = Box::pin(readers.read(guard, &stmt));
                match reading.await {
                    Err(DbError::Unavailable(_)) if readers.is_for_writers() => {
                        let batch = guard.cloned().into_iter().fold(Batch::new().and(stmt), Batch::when);
                        let read = Box::pin(self.commit(batch)).await?;
                        Ok(read.into_iter().next().map(|effect| effect.rows).unwrap_or_default())
                    }
                    answer => answer,
                }
            }
        }
    }

    /// Whether a guard holds at this moment.
    pub async fn holds(&self, guard: &Guard) -> Result<bool, DbError> {
        match self.read_when(Some(guard), guard.shared.clone()).await {
            Ok(_) => Ok(true),
            Err(DbError::Stale) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How many batches wait for a committer.
    pub fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Resolves when the store has failed in a way that no retry can mend (a
    /// flush that failed, a store that was deleted, or migrated by a newer
    /// version): the process must stop.
    pub async fn failed(&self) {
        match &*self.engine {
            Engine::Sqlite(readers) => readers.failed().await,
            Engine::Postgres(readers) => readers.failed().await,
        }
    }

    /// Asks an engine to plan a statement, so that a test can prove that every
    /// statement is understood by both.
    pub async fn check(&self, sql: Sql) -> Result<(), DbError> {
        match &*self.engine {
            Engine::Sqlite(readers) => readers.check(sql),
            Engine::Postgres(readers) => readers.check(sql).await,
        }
    }
}
