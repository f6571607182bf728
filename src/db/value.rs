//! What a column can hold, and a row of them.

use std::hash::{Hash, Hasher};

use uuid::Uuid;

use super::DbError;
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

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl<T: Id> From<T> for Value {
    fn from(value: T) -> Value {
        Value::Uuid(value.uuid())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Value {
        Value::Text(value.clone())
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Value {
        Value::Bytes(value.to_vec())
    }
}

impl From<&[u8; 32]> for Value {
    fn from(value: &[u8; 32]) -> Value {
        Value::Bytes(value.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Value {
        Value::Bytes(value)
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
