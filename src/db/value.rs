//! What a column can hold, and a row of them.

use std::hash::{Hash, Hasher};

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
    pub(super) fn size(&self) -> usize {
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

/// What a column can be read as.
pub trait Column: Sized {
    fn read(row: &Row, column: usize) -> Result<Self, DbError>;
}

macro_rules! columns {
    ($($type:ty: $read:ident;)+) => {$(
        impl Column for $type {
            fn read(row: &Row, column: usize) -> Result<$type, DbError> {
                row.$read(column)
            }
        }
    )+};
}

columns! {
    String: text;
    i64: int;
    bool: bool;
    Vec<u8>: bytes;
}

impl Column for Time {
    fn read(row: &Row, column: usize) -> Result<Time, DbError> {
        row.int(column).map(Time)
    }
}

impl<T: Id> Column for T {
    fn read(row: &Row, column: usize) -> Result<T, DbError> {
        row.id(column)
    }
}

impl<C: Column> Column for Option<C> {
    fn read(row: &Row, column: usize) -> Result<Option<C>, DbError> {
        row.maybe(column, C::read)
    }
}

/// Lets a struct be read from a row: each field from a column, in this order.
macro_rules! from_row {
    ($name:ident { $($field:ident),+ }) => {
        impl $name {
            pub fn read(row: &$crate::db::Row) -> Result<$name, $crate::db::DbError> {
                let mut columns = 0..;
                Ok($name { $($field: $crate::db::Column::read(row, columns.next().unwrap_or_default())?),+ })
            }
        }
    };
}
pub(crate) use from_row;

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
