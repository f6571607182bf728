//! What an event is: a name, and perhaps a schema of its payload. Valid by
//! construction.

use serde_json::Value;

use crate::error::Error;
use crate::web::input::{is_longer, kind, shown};

/// Names that start so are the product's own.
pub const RESERVED_PREFIX: &str = "svc:";

const LONGEST_NAME: usize = 1024;
pub(super) const LONGEST_KEY: usize = 255;
pub(super) const MOST_KEYS: usize = 256;
pub(super) const TYPES: [&str; 4] = ["string", "number", "boolean", "date"];

/// The name that automations are matched by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName(String);

impl EventName {
    /// The name in a definition.
    pub fn parse(value: &Value) -> Result<EventName, Error> {
        EventName::of_field("name", value)
    }

    /// The name of an event that somebody sends.
    pub fn sent(value: &Value) -> Result<EventName, Error> {
        EventName::of_field("event", value)
    }

    fn of_field(field: &str, value: &Value) -> Result<EventName, Error> {
        let wrong = |what: String| Error::invalid(format!("The `{field}` field must {what}."));
        let Value::String(name) = value else {
            return Err(wrong(format!("be a string, but is {}", kind(value))));
        };
        if name.is_empty() {
            return Err(wrong("not be empty".into()));
        }
        if is_longer(name, LONGEST_NAME) {
            return Err(wrong(format!("have at most {LONGEST_NAME} characters")));
        }
        if name.contains('\0') {
            return Err(wrong("not contain the character U+0000".into()));
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(wrong(format!("not start with `{RESERVED_PREFIX}`, which is reserved for system events")));
        }
        Ok(EventName(name.clone()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A flat object of keys and the types of their values, as the store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(String);

impl Schema {
    pub fn parse(value: &Value) -> Result<Schema, Error> {
        let Value::Object(fields) = value else {
            return Err(Error::invalid(format!(
                "The `schema` field must be an object of keys and types, but is {}.",
                kind(value)
            )));
        };
        if fields.len() > MOST_KEYS {
            return Err(Error::invalid(format!("The `schema` field must have at most {MOST_KEYS} keys.")));
        }
        fields.iter().try_for_each(|(key, value)| check_pair(key, value))?;
        serde_json::to_string(fields).map(Schema).map_err(|_| Error::Internal)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_pair(key: &str, value: &Value) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::invalid("The `schema` field has an empty key. Give every key a name."));
    }
    if is_longer(key, LONGEST_KEY) {
        return Err(Error::invalid(format!(
            "The `schema` key `{}` must have at most {LONGEST_KEY} characters.",
            shown(key)
        )));
    }
    let named = |found: String| {
        Error::invalid(format!(
            "The `schema` key `{}` has {found}. Allowed types are `string`, `number`, `boolean` and `date`.",
            shown(key)
        ))
    };
    match value {
        Value::String(name) if TYPES.contains(&name.as_str()) => Ok(()),
        Value::String(name) => Err(named(format!("the unknown type `{}`", shown(name)))),
        Value::Object(_) | Value::Array(_) => Err(named(format!("{}, but a schema is flat", kind(value)))),
        other => Err(named(format!("{} where a type belongs", kind(other)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name_error(value: Value) -> String {
        EventName::parse(&value).expect_err("refused").message().into_owned()
    }

    fn schema_error(value: Value) -> String {
        Schema::parse(&value).expect_err("refused").message().into_owned()
    }

    #[test]
    fn spec_2_2_any_string_is_a_name() {
        let longest = "é".repeat(1024);
        for name in [
            "a",
            "user.created",
            "a b",
            "SVC:x",
            "svc",
            "Svc:x",
            " svc:x",
            "x svc:",
            "日本",
            "🚀",
            "..",
            "a/b",
            &longest,
        ] {
            assert_eq!(EventName::parse(&json!(name)).expect(name).as_str(), name);
        }
    }

    #[test]
    fn decisions_5_what_is_no_name_is_refused_with_the_reason() {
        assert!(name_error(json!("svc:")).contains("reserved"));
        assert!(name_error(json!("svc:email.sent")).contains("`svc:`"));
        assert!(name_error(json!("")).contains("empty"));
        assert!(name_error(json!("x".repeat(1025))).contains("1024"));
        assert!(name_error(json!("a\u{0}b")).contains("U+0000"));
        for (value, word) in
            [(json!(1), "number"), (json!(true), "boolean"), (json!([]), "array"), (json!({}), "object")]
        {
            assert!(name_error(value).contains(word));
        }
    }

    #[test]
    fn spec_2_2_a_schema_is_flat_and_knows_four_types() {
        let all = json!({"a": "string", "b": "number", "c": "boolean", "d": "date"});
        assert_eq!(Schema::parse(&all).expect("valid").as_str(), all.to_string());
        assert!(Schema::parse(&json!({})).is_ok());
        for value in [
            json!({"k": "text"}),
            json!({"k": "String"}),
            json!({"k": ""}),
            json!({"k": null}),
            json!({"k": 1}),
            json!({"k": true}),
            json!({"k": {"a": "string"}}),
            json!({"k": ["string"]}),
        ] {
            let message = schema_error(value);
            assert!(message.contains("`k`") && message.contains("`date`"), "{message}");
        }
        for value in [json!("string"), json!([]), json!(1), json!(false)] {
            assert!(schema_error(value).contains("`schema`"));
        }
    }

    #[test]
    fn decisions_5_schema_keys_are_bounded() {
        let wide = |count: usize| Value::Object((0..count).map(|key| (key.to_string(), json!("date"))).collect());
        assert!(Schema::parse(&wide(256)).is_ok());
        assert!(schema_error(wide(257)).contains("256"));
        let long = |length: usize| json!({ "ü".repeat(length): "string" });
        assert!(Schema::parse(&long(255)).is_ok());
        assert!(schema_error(long(256)).contains("255"));
        assert!(schema_error(json!({"": "string"})).contains("empty"));
    }
}
