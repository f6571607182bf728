//! PostgreSQL, and whatever speaks its protocol: a few connections commit
//! groups side by side, each group's statements sent in one go.

mod group;
mod guard;
mod link;
mod reader;
mod session;
mod shared;
mod writer;

use std::sync::Arc;

use anyhow::Context;
use bytes::BytesMut;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use self::link::{Link, Purpose};
pub(super) use self::reader::Readers;
use self::shared::Shared;
use self::writer::Writer;
use super::{DbError, Job, Options, PATIENCE, Row, Value, migrate};

pub(super) async fn open(
    url: &str,
    options: &Options,
    queue: mpsc::WeakSender<Job>,
    jobs: mpsc::Receiver<Job>,
) -> anyhow::Result<Readers> {
    let link = Link::new(url)?;
    let mut first = link.open(Purpose::Read).await.context("the PostgreSQL server cannot be reached")?;
    let is_current = timeout(PATIENCE, migrate::postgres_is_current(first.client())).await;
    if !is_current.context("the PostgreSQL server does not answer")?? {
        // A migration takes as long as it takes.
        first.execute("SET statement_timeout = 0").await?;
        migrate::postgres(first.client()).await?;
    }
    let shared = Shared::new(link.clone(), queue, jobs);
    for _ in 0..options.writers.max(1) {
        tokio::spawn(Writer::new(shared.clone()).run());
    }
    Ok(Readers::new(&link, options.readers, shared.failure.clone()))
}

/// The reading side alone, of a database that may be anything.
pub(super) fn look(url: &str) -> anyhow::Result<Readers> {
    Ok(Readers::new(&Link::new(url)?, 1, Arc::default()))
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
            Value::Uuid(id) => id.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(
            *ty,
            Type::INT8 | Type::INT4 | Type::FLOAT8 | Type::BOOL | Type::TEXT | Type::VARCHAR | Type::BYTEA | Type::UUID
        )
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
            Type::UUID => row.try_get::<_, Option<Uuid>>(index)?.map_or(Value::Null, Value::Uuid),
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
