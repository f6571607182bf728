//! What rows do to the contacts that are there: decided in memory, so that
//! nothing is written before all of it is known.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::plan::{Person, Plan};
use crate::clock::Clock;
use crate::contacts::{contact::Contact, properties::Declared};
use crate::error::Error;

/// How many rows of a file came to what.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ContactImportCounts)]
pub struct Counts {
    /// Rows that were read so far, blank lines aside.
    #[schema(minimum = 0)]
    pub total: i64,
    #[schema(minimum = 0)]
    pub created: i64,
    /// Contacts that were there already and took over what the row says.
    #[schema(minimum = 0)]
    pub updated: i64,
    /// Contacts that were there already and were left as they are.
    #[schema(minimum = 0)]
    pub skipped: i64,
    #[schema(minimum = 0)]
    pub failed: i64,
}

/// Why a row came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ContactImportError)]
pub struct Problem {
    /// The line of the file that the row begins in.
    #[schema(minimum = 1)]
    pub line: i64,
    #[schema(example = "The row has 2 fields, but the header has 3.")]
    pub message: String,
}

/// A row, and what it says or what is wrong with it.
pub struct Line {
    pub number: i64,
    pub said: Result<Person, Problem>,
}

/// A contact that rows were about.
pub struct Touched {
    pub contact: Contact,
    /// As it was; `None`: it is new.
    pub before: Option<Contact>,
}

/// What came of some rows.
#[derive(Default)]
pub struct Outcome {
    /// In the order in which the rows name them.
    pub touched: Vec<Touched>,
    pub counts: Counts,
    pub problems: Vec<Problem>,
}

/// Lets rows happen to contacts. `known` are those that are there, by address.
pub fn apply(
    lines: &[&Line],
    (plan, declared): (&Plan, &[Declared]),
    known: &HashMap<String, Contact>,
    clock: &Clock,
) -> Outcome {
    let mut outcome = Outcome::default();
    // Where in `touched` a contact is: a file may name one more than once.
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in lines {
        outcome.counts.total += 1;
        let done = match &line.said {
            Ok(person) => outcome.take(person, (plan, declared), known, &mut places, clock),
            Err(problem) => Err(Error::invalid(problem.message.clone())),
        };
        if let Err(error) = done {
            outcome.counts.failed += 1;
            outcome.problems.push(Problem { line: line.number, message: error.message().into_owned() });
        }
    }
    outcome
}

impl Outcome {
    fn take(
        &mut self,
        person: &Person,
        (plan, declared): (&Plan, &[Declared]),
        known: &HashMap<String, Contact>,
        places: &mut HashMap<String, usize>,
        clock: &Clock,
    ) -> Result<(), Error> {
        let key = person.email.key();
        let place = places.get(&key).copied();
        let is_there = place.is_some() || known.contains_key(&key);
        if is_there && !plan.overwrites {
            self.counts.skipped += 1;
            return Ok(());
        }
        if let Some(touched) = place.and_then(|place| self.touched.get_mut(place)) {
            touched.contact = person.changes.apply(&touched.contact, declared)?;
            self.counts.updated += 1;
            return Ok(());
        }
        let touched = match known.get(&key) {
            Some(before) => {
                let contact = person.changes.apply(before, declared)?;
                Touched { contact, before: Some(before.clone()) }
            }
            None => {
                let new = Contact::new(clock.ordered_id(), &person.email, clock.now());
                let contact = person.changes.apply(&new, declared)?;
                Touched { contact, before: None }
            }
        };
        if touched.before.is_none() {
            self.counts.created += 1;
        } else {
            self.counts.updated += 1;
        }
        places.insert(key, self.touched.len());
        self.touched.push(touched);
        Ok(())
    }
}
