//! How a value is written, and where to.

use std::io;

use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Error, ErrorKind, Output, State, Value};

use super::error::Error as Refusal;

/// Null is nothing; what has no value is an error, and so is what is no text.
pub fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => return Err(ErrorKind::UndefinedError.into()),
        ValueKind::None => return Ok(()),
        ValueKind::Bool | ValueKind::Number | ValueKind::String => {}
        other => return Err(not_text(other)),
    }
    let is_raw = value.is_safe() || !matches!(state.auto_escape(), AutoEscape::Html);
    match value.as_str() {
        Some(text) if is_raw => out.write_str(text)?,
        Some(text) => escape(out, text)?,
        None => out.write_str(&plain(value))?,
    }
    Ok(())
}

/// A number, true or false.
pub fn plain(value: &Value) -> String {
    match value.kind() {
        ValueKind::Bool => value.is_true().to_string(),
        _ => value.to_string(),
    }
}

pub fn not_text(kind: ValueKind) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("a {kind} cannot be written as text: go through it with `for`, name a part of it, or use `join`"),
    )
}

/// For text and for values of attributes in quotes.
fn escape(out: &mut Output, text: &str) -> std::fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        out.write_str(&rest[..at])?;
        out.write_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        })?;
        rest = &rest[at + 1..];
    }
    out.write_str(rest)
}

/// Takes so many bytes and no more.
pub struct Sink {
    written: Vec<u8>,
    most: usize,
    is_full: bool,
}

impl Sink {
    pub fn new(most: usize) -> Sink {
        Sink { written: Vec::new(), most, is_full: false }
    }

    pub fn is_full(&self) -> bool {
        self.is_full
    }

    pub fn refusal(&self) -> Refusal {
        Refusal::at(None, format!("comes out longer than {} KiB", self.most >> 10))
    }

    /// What was written are whole pieces of text.
    pub fn finish(self) -> String {
        String::from_utf8(self.written).unwrap_or_default()
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written.len() + bytes.len() > self.most {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        // No store keeps this character, and no mail needs it.
        self.written.extend(bytes.iter().filter(|byte| **byte != 0));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
