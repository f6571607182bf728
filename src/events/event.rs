//! What an event is: a name, and perhaps a schema of its payload. Valid by
//! construction.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::{self, ObjectBuilder};

use super::payload::Type;
use crate::text::{is_longer, kind, shown};
use crate::web::{schema, text_schema};

/// Names that start so are the product's own.
pub const RESERVED_PREFIX: &str = "svc:";

const LONGEST_NAME: usize = 1024;
const LONGEST_KEY: usize = 255;
const MOST_KEYS: usize = 256;

/// The name that automations are matched by. Any text that does not start with
/// `svc:`; dots are a convention, not a rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(min_length = 1, max_length = 1024, pattern = "^(?!svc:)[^\\u0000]+$", example = "user.created")]
pub struct EventName(String);

impl TryFrom<String> for EventName {
    type Error = String;

    fn try_from(name: String) -> Result<EventName, String> {
        if name.is_empty() {
            return Err("must not be empty".into());
        }
        if is_longer(&name, LONGEST_NAME) {
            return Err(format!("must have at most {LONGEST_NAME} characters"));
        }
        if name.contains('\0') {
            return Err("must not contain the character U+0000".into());
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(format!("must not start with `{RESERVED_PREFIX}`, which is reserved for system events"));
        }
        Ok(EventName(name))
    }
}

impl From<EventName> for String {
    fn from(name: EventName) -> String {
        name.0
    }
}

impl EventName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A flat object of keys and the types of their values, as the store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(String);

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Schema, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        if fields.len() > MOST_KEYS {
            return Err(D::Error::custom(format!("must have at most {MOST_KEYS} keys")));
        }
        fields.iter().try_for_each(|(key, value)| check_pair(key, value)).map_err(D::Error::custom)?;
        serde_json::to_string(&fields).map(Schema).map_err(D::Error::custom)
    }
}

schema!(Schema as "EventSchema" = {
    let key = text_schema().min_length(Some(1)).max_length(Some(LONGEST_KEY));
    ObjectBuilder::new()
        .description(Some("A flat object of keys and types."))
        .property_names(Some(openapi::Schema::from(key)))
        .max_properties(Some(MOST_KEYS))
        .additional_properties(Some(openapi::Schema::from(text_schema().enum_values(Some(Type::ALL.map(Type::as_str))))))
        .examples([serde_json::json!({"plan": "string", "signed_up": "date"})])
});

impl Schema {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_pair(key: &str, value: &Value) -> Result<(), String> {
    if key.is_empty() {
        return Err("has an empty key. Give every key a name".into());
    }
    if is_longer(key, LONGEST_KEY) {
        return Err(format!("has the key `{}`, but keys have at most {LONGEST_KEY} characters", shown(key)));
    }
    let found = match value {
        Value::String(name) if Type::parse(name).is_some() => return Ok(()),
        Value::String(name) => format!("the unknown type `{}`", shown(name)),
        Value::Object(_) | Value::Array(_) => format!("{}, but a schema is flat", kind(value)),
        other => format!("{} where a type belongs", kind(other)),
    };
    Err(format!("has at its key `{}` {found}. Allowed types are `string`, `number`, `boolean` and `date`", shown(key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::web;

    #[derive(Debug, Deserialize)]
    struct Declared {
        name: EventName,
        schema: Option<Schema>,
    }

    fn read(name: Value, schema: Value) -> Result<Declared, crate::error::Error> {
        web::read_fields(Map::from_iter([("name".to_owned(), name), ("schema".to_owned(), schema)]))
    }

    fn name_error(value: Value) -> String {
        read(value, Value::Null).expect_err("refused").message().into_owned()
    }

    fn schema(value: Value) -> Option<Schema> {
        read(json!("x"), value).ok().and_then(|whole| whole.schema)
    }

    fn schema_error(value: Value) -> String {
        read(json!("x"), value).expect_err("refused").message().into_owned()
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
            assert_eq!(read(json!(name), Value::Null).expect(name).name.as_str(), name);
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
        assert_eq!(schema(all.clone()).expect("valid").as_str(), all.to_string());
        assert!(schema(json!({})).is_some());
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
        assert!(schema(wide(256)).is_some());
        assert!(schema_error(wide(257)).contains("256"));
        let long = |length: usize| json!({ "ü".repeat(length): "string" });
        assert!(schema(long(255)).is_some());
        assert!(schema_error(long(256)).contains("255"));
        assert!(schema_error(json!({"": "string"})).contains("empty"));
    }
}
