//! What is wrong with a template, or with what it was given.

use std::fmt;

use minijinja::ErrorKind;
use serde_json::{Map, Value};

use super::syntax::Path;

/// Reads on behind the name of a field: "`html` line 3: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    line: Option<usize>,
    message: String,
    missing: Option<String>,
}

impl Error {
    pub(super) fn at(line: Option<usize>, message: impl Into<String>) -> Error {
        Error { line, message: clean(&message.into()), missing: None }
    }

    /// What the parser did not understand.
    pub(super) fn syntax(error: &minijinja::Error) -> Error {
        let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        Error::at(error.line(), detail)
    }

    /// What went wrong while it was rendered. A variable that has no value is named.
    pub(super) fn failed(error: &minijinja::Error, paths: &[Path], values: &Map<String, Value>) -> Error {
        match error.kind() {
            ErrorKind::UndefinedError => Error::undefined(error.line(), paths, values),
            ErrorKind::OutOfFuel => Error::at(error.line(), "takes too many steps: 100,000 are allowed"),
            _ => Error::syntax(error),
        }
    }

    fn undefined(line: Option<usize>, paths: &[Path], values: &Map<String, Value>) -> Error {
        let is_missing = |path: &&Path| path.is_local || !path.is_in(values);
        let mut on_line: Vec<&Path> = paths.iter().filter(|path| line.is_none_or(|line| path.line == line)).collect();
        // What a loop gives cannot be told from here, so it is named only where nothing else is missing.
        on_line.sort_by_key(|path| path.is_local);
        let Some(path) = on_line.into_iter().find(is_missing) else {
            return Error::at(line, "uses a variable that has no value");
        };
        let name = path.to_string();
        let message = format!("the variable `{name}` has no value and no fallback");
        Error { missing: Some(name), ..Error::at(line, message) }
    }

    /// The variable that has no value, if that is what is wrong.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

/// The words of a template's author may be in it.
fn clean(message: &str) -> String {
    message.chars().take(240).map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
