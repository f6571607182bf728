//! How much a JSON text holds, counted before anything is built of it: two bytes
//! of text can become three hundred of memory.

use memchr::memchr2;

use super::input::flaw;
use crate::error::Error;

/// How many values one JSON text may hold, at all depths together.
pub const MOST_VALUES: usize = 25_000;

/// How deep one may be nested: as deep as it can be read.
pub const DEEPEST: usize = 127;

/// What an array or an object takes at least, and what any other value does.
const CONTAINER: usize = 512;
const SCALAR: usize = 160;

/// What a JSON text holds at most. A text that is not JSON has a shape, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Values of every kind; one more than there are, in containers that are empty.
    values: usize,
    containers: usize,
    depth: usize,
    bytes: usize,
}

impl Shape {
    pub fn of(text: &[u8]) -> Shape {
        let mut shape = Shape { values: 1, containers: 0, depth: 0, bytes: text.len() };
        let (mut at, mut depth) = (0, 0_usize);
        while let Some(&byte) = text.get(at) {
            at += 1;
            match byte {
                b'"' => at = behind_string(text, at),
                b',' => shape.values += 1,
                b'[' | b'{' => {
                    shape.values += 1;
                    shape.containers += 1;
                    depth += 1;
                    shape.depth = shape.depth.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        shape
    }

    pub fn values(&self) -> usize {
        self.values
    }

    /// Refuses a text that holds more than one may, or is nested deeper than can be
    /// read.
    pub fn check(&self) -> Result<(), Error> {
        self.check_depth()?;
        if self.values <= MOST_VALUES {
            return Ok(());
        }
        let most = MOST_VALUES;
        Err(Error::invalid(format!("The JSON holds too much: at most {most} values, at all depths together.")))
    }

    pub fn check_depth(&self) -> Result<(), Error> {
        if self.depth > DEEPEST { Err(nested_too_deep()) } else { Ok(()) }
    }

    /// About how many bytes of memory are taken by what is built of it.
    pub fn weight(&self) -> usize {
        self.bytes + self.containers * CONTAINER + (self.values - self.containers) * SCALAR
    }
}

pub fn nested_too_deep() -> Error {
    flaw(&format!("it is nested more than {DEEPEST} deep"))
}

/// What is so near is found sooner by looking at each byte than by a search that has to be prepared.
const NEAR: usize = 16;

/// Where the string ends whose inside begins at `at`.
fn behind_string(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = text.get(at..).and_then(quote_or_escape) {
        if text[at + found] == b'"' {
            return at + found + 1;
        }
        // What is escaped ends nothing.
        at += found + 2;
    }
    text.len()
}

/// Where the next quote or backslash is. One comes soon behind another where all is escaped.
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    let (near, far) = text.split_at(text.len().min(NEAR));
    let found = near.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    found.or_else(|| memchr2(b'"', b'\\', far).map(|found| NEAR + found))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values).sum(),
            Value::Object(fields) => fields.values().map(values).sum(),
            _ => 0,
        }
    }

    #[test]
    fn what_stands_in_strings_is_not_counted() {
        let shape = Shape::of(br#"{"a,[{":"\",[{\\","b":[1,"x"]}"#);
        assert_eq!((shape.containers, shape.values), (2, 5), "an object, an array and three values");
    }

    #[test]
    fn too_many_values_are_refused_and_the_limit_is_named() {
        let full = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
        assert!(Shape::of(full(MOST_VALUES - 1).as_bytes()).check().is_ok());
        let refused = Shape::of(full(MOST_VALUES + 1).as_bytes()).check().expect_err("too many");
        assert!(refused.message().contains("25000"), "{}", refused.message());
        for bomb in ["[[0]],", "{\"a\":", "[", "0,"] {
            assert!(Shape::of(bomb.repeat(30_000).as_bytes()).check().is_err(), "{bomb}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(null)), any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6).prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        /// Never fewer than there are, and at most one more for each container.
        #[test]
        fn values_are_never_counted_short(value in any_json()) {
            let shape = Shape::of(value.to_string().as_bytes());
            prop_assert!((values(&value)..=values(&value) + shape.containers).contains(&shape.values));
        }

        #[test]
        fn nothing_makes_it_panic(text in "[\"\\\\,\\[{a]{0,40}") {
            Shape::of(text.as_bytes());
        }
    }
}
