//! What is wrong with what was sent, and where, as the API tells it.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use crate::error::Error;
use crate::text::shown;

/// What is wrong, and where.
#[derive(Debug)]
pub struct Fault {
    /// Such as `topics[2].id`; empty where it is the whole.
    path: String,
    what: What,
}

#[derive(Debug)]
enum What {
    /// It is not there; perhaps another field is a misspelling of it.
    Missing { sent: Option<String> },
    /// What goes behind "the field", such as "must be a string".
    Wrong(String),
}

/// The path to what is further in than a place.
pub(super) fn joined(place: &str, path: &str) -> String {
    let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    format!("{place}{dot}{path}")
}

impl Fault {
    pub(super) fn missing() -> Fault {
        Fault { path: String::new(), what: What::Missing { sent: None } }
    }

    pub(super) fn wrong(predicate: String) -> Fault {
        Fault { path: String::new(), what: What::Wrong(predicate) }
    }

    /// The same; where the whole is missing, with what was sent in its place.
    pub(super) fn suggest(mut self, sent_instead: impl FnOnce() -> Option<String>) -> Fault {
        if let (true, What::Missing { sent }) = (self.path.is_empty(), &mut self.what) {
            *sent = sent_instead();
        }
        self
    }

    /// The same, further in.
    pub(super) fn within(mut self, place: &str) -> Fault {
        self.path = joined(place, &self.path);
        self
    }

    /// As the API tells it of a field in a body. A field that is missing within
    /// another one makes that one wrong.
    pub(super) fn of_body(self) -> Error {
        let Fault { path, what } = self;
        match what {
            What::Missing { .. } if path.contains(['.', '[']) => {
                Error::invalid(format!("The `{path}` field is missing."))
            }
            What::Missing { sent: None } => Error::Missing { message: format!("Missing `{path}` field.") },
            What::Missing { sent: Some(sent) } => Error::Missing {
                message: format!("Missing `{path}` field. The body has `{}`; did you mean `{path}`?", shown(&sent)),
            },
            What::Wrong(predicate) if path.is_empty() => Error::invalid(format!("The body {predicate}.")),
            What::Wrong(predicate) => Error::invalid(format!("The `{path}` field {predicate}.")),
        }
    }

    /// Where it is; empty where it is the whole.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there, without a word of the sender's; `allowed` is said of what is missing.
    pub fn unquoted(&self, allowed: &str) -> String {
        let place = if self.path.is_empty() { "the body" } else { &self.path };
        match &self.what {
            What::Wrong(predicate) => format!("{place} {predicate}"),
            What::Missing { sent: None } => format!("{place} is missing: {allowed}"),
            What::Missing { sent: Some(_) } => {
                format!("{place} is missing: {allowed}; a field with a similar name was sent, check its spelling")
            }
        }
    }

    /// As the API tells it of a parameter in a query.
    pub(super) fn of_query(self) -> Error {
        let predicate = match self.what {
            What::Missing { .. } => "is missing".to_owned(),
            What::Wrong(predicate) => predicate,
        };
        Error::InvalidParameter { message: format!("The `{}` parameter {predicate}.", self.path) }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "is wrong: `{}` ", self.path)?;
        }
        match &self.what {
            What::Missing { .. } => f.write_str("is missing"),
            What::Wrong(predicate) => f.write_str(predicate),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    /// What a type says of a value that it cannot be made of, such as "must not be empty".
    fn custom<M: Display>(message: M) -> Fault {
        Fault::wrong(message.to_string())
    }

    fn missing_field(name: &'static str) -> Fault {
        Fault::missing().within(name)
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Fault {
        let found = match found {
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Str(_) => "a string",
            Unexpected::Seq => "an array",
            Unexpected::Map => "an object",
            _ => "null",
        };
        let wanted = match wanted.to_string() {
            any if any == "a sequence" => "an array".into(),
            any if any == "a map" => "an object".into(),
            // As `serde` calls the types of numbers.
            any if ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"].contains(&&*any) => "a whole number".into(),
            any if any == "f64" => "a number".into(),
            other => other,
        };
        Fault::wrong(format!("must be {wanted}, but is {found}"))
    }
}
