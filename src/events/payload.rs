//! What came with an occurrence, checked against the schema in force and
//! brought into its types.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::{Map, Number, Value};

use crate::clock::rfc3339;
use crate::error::Error;
use crate::memory::Held;
use crate::text::{kind, shown, words};

words! {
    /// The type of one key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Type: ALL, parse {
        String = "string",
        Number = "number",
        Boolean = "boolean",
        Date = "date",
    }
}

impl Type {
    pub fn wanted(self) -> &'static str {
        match self {
            Type::String => "a string",
            Type::Number => "a number",
            Type::Boolean => "a boolean",
            Type::Date => "a date such as `2026-01-31` or `2026-01-31T12:00:00Z`",
        }
    }

    /// A value of this type, for examples.
    pub fn sample(self) -> Value {
        match self {
            Type::String => "text".into(),
            Type::Number => 1.into(),
            Type::Boolean => true.into(),
            Type::Date => "2026-01-31".into(),
        }
    }

    /// Whether what a person types can be brought into this type.
    pub fn takes(self, typed: &str) -> bool {
        self.coerce(&Value::from(typed)).is_some()
    }

    /// The value as this type, where its meaning is beyond doubt.
    fn coerce(self, value: &Value) -> Option<Cow<'_, Value>> {
        let coerced = match (self, value) {
            (_, Value::Null)
            | (Type::String, Value::String(_))
            | (Type::Number, Value::Number(_))
            | (Type::Boolean, Value::Bool(_)) => return Some(Cow::Borrowed(value)),
            (Type::String, Value::Number(number)) => Value::String(number.to_string()),
            (Type::String, Value::Bool(flag)) => Value::String(flag.to_string()),
            (Type::Number, Value::String(text)) => Value::Number(number(text)?),
            (Type::Boolean, Value::String(text)) => match text.trim() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return None,
            },
            (Type::Date, Value::String(text)) => Value::String(rfc3339(date(text.trim())?)),
            _ => return None,
        };
        Some(Cow::Owned(coerced))
    }
}

fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !plain {
        return None;
    }
    match text.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(text.parse().ok()?),
    }
}

/// A moment: a timestamp with its offset, or a date or a date and time, which
/// are then read as UTC.
fn date(text: &str) -> Option<i64> {
    let moment = text.parse::<Timestamp>().ok();
    let local = || {
        let civil = text.parse::<DateTime>().ok().or_else(|| Some(text.parse::<Date>().ok()?.at(0, 0, 0, 0)))?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    moment.or_else(local).map(Timestamp::as_microsecond)
}

/// The types of a schema, read once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Types(HashMap<String, Type>);

impl Held for Types {
    fn held(&self) -> u64 {
        self.0.keys().map(|key| 2 * (key.len() + size_of::<(String, Type)>()) as u64).sum()
    }
}

impl Types {
    /// Reads a schema as the store keeps it.
    pub fn of(schema: Option<&str>) -> Types {
        let fields: Map<String, Value> = schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let typed = fields.into_iter().filter_map(|(key, kind)| Some((key, Type::parse(kind.as_str()?)?)));
        Types(typed.collect())
    }

    /// The payload in the schema's types. A key that is missing is fine, one that
    /// the schema does not know is kept.
    pub fn check<'p>(&self, payload: Option<&'p Value>) -> Result<Cow<'p, Value>, Error> {
        let (mut whole, fields) = match payload {
            None | Some(Value::Null) => return Ok(Cow::Owned(Value::Object(Map::new()))),
            Some(whole @ Value::Object(fields)) => (Cow::Borrowed(whole), fields),
            Some(other) => {
                return Err(Error::invalid(format!("The `payload` field must be an object, but is {}.", kind(other))));
            }
        };
        for (key, value) in fields {
            let Some(wanted) = self.0.get(key) else { continue };
            let coerced = wanted.coerce(value).ok_or_else(|| {
                let came = match value {
                    Value::String(text) => format!("the string `{}`", shown(text)),
                    Value::Number(number) => format!("the number {number}"),
                    Value::Bool(flag) => format!("the boolean {flag}"),
                    other => kind(other).to_owned(),
                };
                Error::invalid(format!(
                    "The `payload` key `{}` must be {} by the event's schema, but is {came}.",
                    shown(key),
                    wanted.wanted()
                ))
            })?;
            if let Cow::Owned(coerced) = coerced {
                whole.to_mut()[key] = coerced;
            }
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn checked(kind: &str, value: Value) -> Result<Value, Error> {
        Types::of(Some(&json!({"k": kind}).to_string())).check(Some(&json!({"k": value}))).map(|all| all["k"].clone())
    }

    #[test]
    fn decisions_5_values_are_coerced_where_their_meaning_is_beyond_doubt() {
        for (kind, given, kept) in [
            ("string", json!("x"), json!("x")),
            ("string", json!(5), json!("5")),
            ("string", json!(true), json!("true")),
            ("number", json!(1.5), json!(1.5)),
            ("number", json!("42"), json!(42)),
            ("number", json!(" -1.25 "), json!(-1.25)),
            ("number", json!("1e3"), json!(1000.0)),
            ("boolean", json!(false), json!(false)),
            ("boolean", json!("true"), json!(true)),
            ("date", json!("2026-01-31"), json!("2026-01-31T00:00:00.000000Z")),
            ("date", json!("2026-01-31T12:00:00Z"), json!("2026-01-31T12:00:00.000000Z")),
            ("date", json!("2026-01-31T12:00:00+02:00"), json!("2026-01-31T10:00:00.000000Z")),
            ("date", json!("2026-01-31 12:00:00"), json!("2026-01-31T12:00:00.000000Z")),
            ("string", Value::Null, Value::Null),
            ("date", Value::Null, Value::Null),
        ] {
            assert_eq!(checked(kind, given.clone()).expect("fits"), kept, "{kind} {given}");
        }
    }

    #[test]
    fn issue_4_a_wrong_type_is_refused_with_key_expectation_and_what_came() {
        for (kind, given, wanted, came) in [
            ("string", json!({"a": 1}), "a string", "an object"),
            ("string", json!([1]), "a string", "an array"),
            ("number", json!("five"), "a number", "the string `five`"),
            ("number", json!(true), "a number", "the boolean true"),
            ("number", json!("NaN"), "a number", "the string `NaN`"),
            ("number", json!("inf"), "a number", "the string `inf`"),
            ("boolean", json!(1), "a boolean", "the number 1"),
            ("boolean", json!("yes"), "a boolean", "the string `yes`"),
            ("date", json!("soon"), "a date", "the string `soon`"),
            ("date", json!(1700000000), "a date", "the number 1700000000"),
            ("date", json!("2026-02-30"), "a date", "the string `2026-02-30`"),
        ] {
            let message = checked(kind, given).expect_err("refused").message().into_owned();
            assert!(message.contains("`k`") && message.contains(wanted) && message.contains(came), "{message}");
        }
    }

    #[test]
    fn decisions_5_missing_keys_are_fine_and_extra_ones_are_kept() {
        let types = Types::of(Some(r#"{"a":"number"}"#));
        assert_eq!(types.check(None).expect("nothing").into_owned(), json!({}));
        assert_eq!(
            types.check(Some(&json!({"b": [1, {"c": 2}]}))).expect("extra").into_owned(),
            json!({"b": [1, {"c": 2}]})
        );
        for wrong in [json!([]), json!("x"), json!(1), json!(true)] {
            assert!(types.check(Some(&wrong)).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_kept_is_kept_again(text in "\\PC{0,24}", kind in "string|number|boolean|date") {
            if let Ok(kept) = checked(&kind, json!(text)) {
                prop_assert_eq!(checked(&kind, kept.clone()).expect("its own type"), kept);
            }
        }
    }
}
