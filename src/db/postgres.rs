//! PostgreSQL, and whatever speaks its protocol: a few connections commit
//! groups side by side, each group's statements sent in one go.

mod guard;
mod writer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock};
use std::time::Duration;

use anyhow::Context;
use bytes::BytesMut;
use futures_util::TryStreamExt;
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{BorrowToSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, Statement};

use self::writer::Writer;
use super::sql::{Limit, Rows};
use super::{DbError, Effect, Job, Options, Row, Sql, Stmt, Value, migrate};

const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// A statement that waits for a lock gives up before its caller does, so that
/// nobody's lock can hold all writers.
const STATEMENT_WAIT: &str = "SET statement_timeout = 9000";

pub(super) async fn open(url: &str, options: &Options, jobs: mpsc::Receiver<Job>) -> anyhow::Result<Readers> {
    let mut config: Config = url.parse().context("the PostgreSQL address cannot be read")?;
    config.connect_timeout(CONNECT_WAIT).application_name("posthorn");
    config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(10));
    let mut first = Session::open(&config).await.context("the PostgreSQL server cannot be reached")?;
    // A migration takes as long as it takes.
    first.client.batch_execute("SET statement_timeout = 0").await?;
    migrate::postgres(&mut first.client).await?;

    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..options.writers.max(1) {
        tokio::spawn(Writer::new(config.clone()).run(jobs.clone()));
    }
    let seats = (0..options.readers.max(1)).map(|_| Mutex::new(None)).collect();
    Ok(Readers { config, seats, next: AtomicUsize::new(0) })
}

/// A connection and the statements prepared on it.
struct Session {
    client: Client,
    prepared: Lock<HashMap<&'static str, Statement>>,
    /// Whether statements can be run for many.
    joins: AtomicBool,
}

impl Session {
    async fn open(config: &Config) -> Result<Session, tokio_postgres::Error> {
        let (client, connection) = config.connect(tls()).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "a PostgreSQL connection ended");
            }
        });
        client.batch_execute(STATEMENT_WAIT).await?;
        Ok(Session { client, prepared: Lock::default(), joins: AtomicBool::new(true) })
    }

    async fn prepare(&self, text: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = self.prepared.lock().ok().and_then(|prepared| prepared.get(text).cloned());
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(text).await?;
        if let Ok(mut prepared) = self.prepared.lock() {
            prepared.insert(text, statement.clone());
        }
        Ok(statement)
    }

    async fn run<P>(&self, statement: &Statement, params: P) -> Result<Effect, tokio_postgres::Error>
    where
        P: IntoIterator<Item: BorrowToSql, IntoIter: ExactSizeIterator>,
    {
        self.run_within(None, statement, params).await
    }

    /// As [`Session::run`], reading no more than a limit.
    async fn run_within<P>(
        &self,
        limit: Option<&Limit>,
        statement: &Statement,
        params: P,
    ) -> Result<Effect, tokio_postgres::Error>
    where
        P: IntoIterator<Item: BorrowToSql, IntoIter: ExactSizeIterator>,
    {
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
    }
}

/// Encryption as the address asks for it (`sslmode`), with the public roots.
fn tls() -> tokio_postgres_rustls::MakeRustlsConnect {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the ring provider supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tokio_postgres_rustls::MakeRustlsConnect::new(config)
}

/// The reading side. Statements of many requests share a few connections; each
/// connection comes back by itself after an outage.
pub(super) struct Readers {
    config: Config,
    seats: Vec<Mutex<Option<Arc<Session>>>>,
    next: AtomicUsize,
}

impl Readers {
    async fn session(&self) -> Result<Arc<Session>, DbError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.seats.len();
        let mut seat = self.seats[turn].lock().await;
        if let Some(session) = &*seat
            && !session.client.is_closed()
        {
            return Ok(session.clone());
        }
        let session = Arc::new(Session::open(&self.config).await.map_err(refusal)?);
        *seat = Some(session.clone());
        Ok(session)
    }

    pub(super) async fn read(&self, guard: Option<&Stmt>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let attempt = async {
            let session = self.session().await?;
            self.read_on(&session, guard, stmt).await
        };
        tokio::time::timeout(super::PATIENCE, attempt)
            .await
            .unwrap_or_else(|_| Err(DbError::Unavailable("no answer in time".into())))
    }

    async fn read_on(&self, session: &Session, guard: Option<&Stmt>, stmt: &Stmt) -> Result<Vec<Row>, DbError> {
        let statement = session.prepare(stmt.sql.postgres).await.map_err(refusal)?;
        let Some(guard) = guard else {
            let found = session.run_within(stmt.limit.as_ref(), &statement, &stmt.params).await;
            return found.map(|effect| effect.rows).map_err(refusal);
        };
        let asked = session.prepare(guard.sql.postgres).await.map_err(refusal)?;
        let (held, found) = tokio::join!(
            biased;
            session.run(&asked, &guard.params),
            session.run_within(stmt.limit.as_ref(), &statement, &stmt.params),
        );
        if held.map_err(refusal)?.rows.is_empty() {
            return Err(DbError::Stale);
        }
        found.map(|effect| effect.rows).map_err(refusal)
    }

    pub(super) async fn check(&self, sql: Sql) -> Result<(), DbError> {
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

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Value::Int(number) => number.to_sql(ty, out),
            Value::Real(number) => number.to_sql(ty, out),
            Value::Bool(flag) => flag.to_sql(ty, out),
            Value::Text(text) => text.to_sql(ty, out),
            Value::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::FLOAT8 | Type::BOOL | Type::TEXT | Type::VARCHAR | Type::BYTEA)
    }

    to_sql_checked!();
}

fn owned(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let values = row.columns().iter().enumerate().map(|(index, column)| {
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index)?.into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(index)?.map(i64::from).into(),
            Type::FLOAT8 => row.try_get::<_, Option<f64>>(index)?.into(),
            Type::BOOL => row.try_get::<_, Option<bool>>(index)?.into(),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index)?.into(),
            _ => row.try_get::<_, Option<String>>(index)?.into(),
        })
    });
    Ok(Row(values.collect::<Result<_, tokio_postgres::Error>>()?))
}

fn refusal(error: tokio_postgres::Error) -> DbError {
    let Some(cause) = error.as_db_error() else {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        return DbError::Unavailable(format!("{error} {cause}"));
    };
    let text = format!("{} ({})", cause.message(), cause.code().code());
    match *cause.code() {
        SqlState::UNIQUE_VIOLATION => DbError::Duplicate(text),
        // Classes 22 and 23: this data, whatever the weather, is refused.
        ref code if code.code().starts_with("22") || code.code().starts_with("23") => DbError::Broken(text),
        _ => DbError::Unavailable(text),
    }
}
