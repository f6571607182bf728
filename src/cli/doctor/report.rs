//! What the doctor found: a line for every check.

use serde_json::{Value, json};

/// The findings, printed as they come unless they are wanted as JSON.
pub struct Report {
    silent: bool,
    checks: Vec<Check>,
}

struct Check {
    name: &'static str,
    expected: &'static str,
    /// What came instead, where the check failed, and what to do about it.
    failure: Option<(String, &'static str)>,
}

/// A check before it is made.
pub struct Expectation {
    pub name: &'static str,
    /// Reads as a statement: it is what holds where the check succeeds.
    pub expected: &'static str,
    /// The one thing to do where it fails.
    pub next: &'static str,
}

impl Report {
    pub fn new(silent: bool) -> Report {
        Report { silent, checks: Vec::new() }
    }

    /// Notes how a check went. `None`: it failed, and what builds on it cannot
    /// be checked.
    pub fn note<T>(&mut self, expectation: &Expectation, result: Result<T, String>) -> Option<T> {
        let Expectation { name, expected, next } = *expectation;
        let (found, failure) = match result {
            Ok(found) => (Some(found), None),
            Err(came) => (None, Some((came, next))),
        };
        let check = Check { name, expected, failure };
        if !self.silent {
            println!("{}", check.line());
        }
        self.checks.push(check);
        found
    }

    pub fn count(&self) -> usize {
        self.checks.len()
    }

    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| check.failure.is_some()).count()
    }

    pub fn to_json(&self) -> Value {
        let checks: Vec<Value> = self.checks.iter().map(Check::to_json).collect();
        json!({"ok": self.failed() == 0, "checks": checks})
    }

    #[cfg(test)]
    pub fn failures(&self) -> Vec<String> {
        self.checks.iter().filter(|check| check.failure.is_some()).map(Check::line).collect()
    }
}

impl Check {
    fn line(&self) -> String {
        let Check { name, expected, failure } = self;
        match failure {
            None => format!("ok      {name}: {expected}"),
            Some((came, next)) => format!("FAILED  {name}: expected: {expected}; came: {came}. Next: {next}"),
        }
    }

    fn to_json(&self) -> Value {
        let mut check = json!({"check": self.name, "ok": self.failure.is_none(), "expected": self.expected});
        if let Some((came, next)) = &self.failure {
            check["came"] = json!(came);
            check["next"] = json!(next);
        }
        check
    }
}
