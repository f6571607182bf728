//! What a doctor found: a line for every check.

use std::borrow::Cow;

use anyhow::bail;
use serde_json::{Value, json};

/// The findings, printed as they come unless they are wanted as JSON.
pub struct Report {
    silent: bool,
    checks: Vec<Check>,
}

struct Check {
    name: Cow<'static, str>,
    /// What holds where nothing is wrong.
    expected: Cow<'static, str>,
    problem: Option<Problem>,
}

/// What is wrong, and the one thing to do about it.
#[derive(Debug)]
pub struct Problem {
    weight: Weight,
    came: String,
    next: Cow<'static, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// It works, and somebody should know.
    Warning,
    Failure,
}

impl Problem {
    pub fn failure(came: impl Into<String>, next: impl Into<Cow<'static, str>>) -> Problem {
        Problem { weight: Weight::Failure, came: came.into(), next: next.into() }
    }

    pub fn warning(came: impl Into<String>, next: impl Into<Cow<'static, str>>) -> Problem {
        Problem { weight: Weight::Warning, came: came.into(), next: next.into() }
    }
}

/// A check before it is made, whose failure always has the same remedy.
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
        match result {
            Ok(found) => {
                self.add(name, Ok(expected.into()));
                Some(found)
            }
            Err(came) => {
                self.push(Check {
                    name: name.into(),
                    expected: expected.into(),
                    problem: Some(Problem::failure(came, next)),
                });
                None
            }
        }
    }

    /// Adds a finding: what holds, or what does not.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>, found: Result<Cow<'static, str>, Problem>) {
        let name = name.into();
        self.push(match found {
            Ok(expected) => Check { name, expected, problem: None },
            Err(problem) => Check { name, expected: Cow::default(), problem: Some(problem) },
        });
    }

    fn push(&mut self, check: Check) {
        if !self.silent {
            println!("{}", check.line());
        }
        self.checks.push(check);
    }

    /// `Err` where a check failed, so that the exit code says so.
    pub fn verdict(&self) -> anyhow::Result<()> {
        match self.failed() {
            0 => Ok(()),
            failed => bail!("{failed} of {} checks failed", self.count()),
        }
    }

    pub fn count(&self) -> usize {
        self.checks.len()
    }

    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| check.weight() == Some(Weight::Failure)).count()
    }

    pub fn to_json(&self) -> Value {
        let checks: Vec<Value> = self.checks.iter().map(Check::to_json).collect();
        json!({"ok": self.failed() == 0, "checks": checks})
    }

    #[cfg(test)]
    pub fn failures(&self) -> Vec<String> {
        self.checks.iter().filter(|check| check.problem.is_some()).map(Check::line).collect()
    }
}

impl Check {
    fn weight(&self) -> Option<Weight> {
        self.problem.as_ref().map(|problem| problem.weight)
    }

    fn status(&self) -> &'static str {
        match self.weight() {
            None => "ok",
            Some(Weight::Warning) => "warning",
            Some(Weight::Failure) => "failed",
        }
    }

    fn line(&self) -> String {
        let Check { name, expected, problem } = self;
        let Some(Problem { weight, came, next }) = problem else { return format!("ok      {name}: {expected}") };
        let label = if *weight == Weight::Failure { "FAILED" } else { "WARN  " };
        match expected.is_empty() {
            true => format!("{label}  {name}: {came}. Next: {next}"),
            false => format!("{label}  {name}: expected: {expected}; came: {came}. Next: {next}"),
        }
    }

    fn to_json(&self) -> Value {
        let mut check = json!({"check": self.name, "ok": self.problem.is_none(), "status": self.status()});
        if !self.expected.is_empty() {
            check["expected"] = json!(self.expected);
        }
        if let Some(Problem { came, next, .. }) = &self.problem {
            check["came"] = json!(came);
            check["next"] = json!(next);
        }
        check
    }
}
