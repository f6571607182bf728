//! What a column can hold, and a row of them.

use std::hash::{Hash, Hasher};

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::DbError;
use crate::clock::Time;
use crate::id::Id;

/// A value on its way into or out of the store. Times are microseconds, JSON is
/// text.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    /// PostgreSQL's `uuid`. To SQLite it is 16 bytes, and whatever has 16 bytes there
    /// is read as one of these.
    Uuid(Uuid),
}

impl Value {
    /// About how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                _ => 0,
            }
    }
}

/// No value here is NaN: nobody writes one.
impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Value::Null => 0_u8.hash(state),
            Value::Int(number) => number.hash(state),
            Value::Real(number) => number.to_bits().hash(state),
            Value::Bool(flag) => flag.hash(state),
            Value::Text(text) => text.hash(state),
            Value::Bytes(bytes) => bytes.hash(state),
            Value::Uuid(id) => id.hash(state),
        }
    }
}

macro_rules! values {
    ($($type:ty: $given:ident => $value:expr;)+) => {$(
        impl From<$type> for Value {
            fn from($given: $type) -> Value {
                $value
            }
        }
    )+};
}

values! {
    i64: number => Value::Int(number);
    f64: number => Value::Real(number);
    bool: flag => Value::Bool(flag);
    &str: text => Value::Text(text.to_owned());
    &String: text => Value::Text(text.clone());
    String: text => Value::Text(text);
    &[u8]: bytes => Value::Bytes(bytes.to_vec());
    &[u8; 32]: bytes => Value::Bytes(bytes.to_vec());
    Vec<u8>: bytes => Value::Bytes(bytes);
}

impl<T: Id> From<T> for Value {
    fn from(value: T) -> Value {
        Value::Uuid(value.uuid())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// A row, read by position: a statement lists its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub(super) Vec<Value>);

impl Row {
    /// About how many bytes it holds.
    pub fn size(&self) -> usize {
        self.0.iter().map(Value::size).sum()
    }

    pub fn text(&self, column: usize) -> Result<String, DbError> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(text.clone()),
            other => Err(mismatch(column, "text", other)),
        }
    }

    pub fn int(&self, column: usize) -> Result<i64, DbError> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(*number),
            other => Err(mismatch(column, "an integer", other)),
        }
    }

    /// SQLite has no booleans of its own: it keeps 0 and 1.
    pub fn bool(&self, column: usize) -> Result<bool, DbError> {
        match self.0.get(column) {
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::Int(number @ (0 | 1))) => Ok(*number == 1),
            other => Err(mismatch(column, "a boolean", other)),
        }
    }

    pub fn bytes(&self, column: usize) -> Result<Vec<u8>, DbError> {
        match self.0.get(column) {
            Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
            Some(Value::Uuid(id)) => Ok(id.as_bytes().to_vec()),
            other => Err(mismatch(column, "bytes", other)),
        }
    }

    pub fn id<T: Id>(&self, column: usize) -> Result<T, DbError> {
        match self.0.get(column) {
            Some(Value::Uuid(id)) => Ok(T::from(*id)),
            other => Err(mismatch(column, "an id", other)),
        }
    }

    /// `None` for NULL, else what `read` finds in the column.
    pub fn maybe<T>(
        &self,
        column: usize,
        read: impl FnOnce(&Row, usize) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => read(self, column).map(Some),
        }
    }
}

/// What can be read of a row.
pub trait FromRow: Sized {
    /// Takes the columns that it needs, one after the other.
    fn take(columns: &mut Columns<'_>) -> Result<Self, DbError>;

    fn of_row(row: &Row) -> Result<Self, DbError> {
        Self::take(&mut Columns::of(row))
    }
}

/// The columns of a row that were not taken yet.
pub struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub fn of(row: &'a Row) -> Columns<'a> {
        Columns { row, next: 0 }
    }

    fn next<T>(&mut self, read: impl FnOnce(&Row, usize) -> Result<T, DbError>) -> Result<T, DbError> {
        self.next += 1;
        read(self.row, self.next - 1)
    }

    /// A text by what its words mean.
    pub fn parsed<T>(&mut self, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, DbError> {
        let text = self.next(Row::text)?;
        parse(&text).ok_or_else(|| DbError::Broken(format!("{what} that cannot be read: {text}")))
    }

    /// A text that is JSON; where there is none, null.
    pub fn json<T: DeserializeOwned>(&mut self) -> Result<T, DbError> {
        let text = self.next(|row, column| row.maybe(column, Row::text))?;
        serde_json::from_str(text.as_deref().unwrap_or("null")).map_err(|error| {
            let column = self.next - 1;
            DbError::Broken(format!("column {column} holds JSON that cannot be read: {error}"))
        })
    }
}

macro_rules! columns {
    ($($type:ty: $read:expr;)+) => {$(
        impl FromRow for $type {
            fn take(columns: &mut Columns<'_>) -> Result<$type, DbError> {
                columns.next($read)
            }
        }
    )+};
}

columns! {
    String: Row::text;
    i64: Row::int;
    bool: Row::bool;
    Vec<u8>: Row::bytes;
    Time: |row, column| row.int(column).map(Time);
}

impl<T: Id> FromRow for T {
    fn take(columns: &mut Columns<'_>) -> Result<T, DbError> {
        columns.next(Row::id)
    }
}

/// What takes several columns, and is not there where the first of them is NULL, stands last.
impl<T: FromRow> FromRow for Option<T> {
    fn take(columns: &mut Columns<'_>) -> Result<Option<T>, DbError> {
        match columns.row.0.get(columns.next) {
            Some(Value::Null) => {
                columns.next += 1;
                Ok(None)
            }
            _ => T::take(columns).map(Some),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident),+);)+) => {$(
        impl<$($part: FromRow),+> FromRow for ($($part,)+) {
            fn take(columns: &mut Columns<'_>) -> Result<($($part,)+), DbError> {
                Ok(($($part::take(columns)?,)+))
            }
        }
    )+};
}

tuples! {
    (A, B);
    (A, B, C);
    (A, B, C, D);
}

/// Lets a struct be read from a row: each field from a column, or from as many as it has fields
/// itself, in this order. One that is kept as JSON is marked so: `field: json`; one that is not
/// kept has a value: `field = value`.
macro_rules! from_row {
    ($name:ident { $($field:ident $(: $how:ident)? $(= $fixed:expr)?),+ }) => {
        impl $crate::db::FromRow for $name {
            fn take(columns: &mut $crate::db::Columns<'_>) -> Result<$name, $crate::db::DbError> {
                Ok($name { $($field: $crate::db::from_row!(@take columns $($how)? $(= $fixed)?)?),+ })
            }

            fn of_row(row: &$crate::db::Row) -> Result<$name, $crate::db::DbError> {
                $name::read(row)
            }
        }

        impl $name {
            pub fn read(row: &$crate::db::Row) -> Result<$name, $crate::db::DbError> {
                $crate::db::FromRow::take(&mut $crate::db::Columns::of(row))
            }
        }
    };
    (@take $columns:ident) => {
        $crate::db::FromRow::take($columns)
    };
    (@take $columns:ident json) => {
        $columns.json()
    };
    (@take $columns:ident = $fixed:expr) => {
        Ok::<_, $crate::db::DbError>($fixed)
    };
}
pub(crate) use from_row;

/// Lets enums be read from a column by the words that [`words!`](crate::text::words) gives them.
macro_rules! from_word {
    ($($name:ty),+) => {$(
        impl $crate::db::FromRow for $name {
            fn take(columns: &mut $crate::db::Columns<'_>) -> Result<$name, $crate::db::DbError> {
                columns.parsed(stringify!($name), <$name>::parse)
            }
        }
    )+};
}
pub(crate) use from_word;

/// What can be made of all rows that a statement finds.
pub trait FromRows: Sized {
    fn from_rows(rows: &[Row]) -> Result<Self, DbError>;
}

impl<T: FromRow> FromRows for Vec<T> {
    fn from_rows(rows: &[Row]) -> Result<Vec<T>, DbError> {
        rows.iter().map(T::of_row).collect()
    }
}

/// The first.
impl<T: FromRow> FromRows for Option<T> {
    fn from_rows(rows: &[Row]) -> Result<Option<T>, DbError> {
        rows.first().map(T::of_row).transpose()
    }
}

/// Whether there is one.
impl FromRows for bool {
    fn from_rows(rows: &[Row]) -> Result<bool, DbError> {
        Ok(!rows.is_empty())
    }
}

fn mismatch(column: usize, wanted: &str, found: Option<&Value>) -> DbError {
    let found = match found {
        None => "no such column",
        Some(Value::Null) => "NULL",
        Some(Value::Int(_)) => "an integer",
        Some(Value::Real(_)) => "a real",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Text(_)) => "text",
        Some(Value::Bytes(_)) => "bytes",
        Some(Value::Uuid(_)) => "an id",
    };
    DbError::Broken(format!("column {column} should hold {wanted}, but holds {found}"))
}
