//! An entry point for fuzzers: it takes any bytes and panics when a promise is
//! broken. The rules are written from the decisions, not from the code they judge.

use serde_json::Value;

use super::routes::NewEvent;
use crate::web;

/// Any bytes as the body of `POST /events`. Tells whether an event would be made
/// of it.
pub fn event_body(data: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(data) else { return false };
    let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let NewEvent { name, schema } = match web::read_fields(fields.clone()) {
        Ok(new) => new,
        Err(error) => return refused(&error.message()),
    };
    assert!(may_be_name(name.as_str()), "{name:?}");
    assert_eq!(given("name").and_then(Value::as_str), Some(name.as_str()), "kept as sent");
    if let Some(schema) = schema {
        let kept: Value = serde_json::from_str(schema.as_str()).expect("a stored schema reads back");
        assert_eq!(Some(&kept), given("schema"), "kept as sent");
        let fields = kept.as_object().expect("a schema is an object");
        assert!(fields.len() <= 256 && fields.iter().all(|(key, value)| may_be_pair(key, value)), "{kept}");
        assert!(!schema.as_str().contains('\0'), "a store may refuse U+0000");
    }
    true
}

fn refused(message: &str) -> bool {
    assert!(!message.is_empty() && message.chars().count() < 400, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?}");
    false
}

fn may_be_name(name: &str) -> bool {
    (1..=1024).contains(&name.chars().count()) && !name.contains('\0') && !name.starts_with("svc:")
}

fn may_be_pair(key: &str, value: &Value) -> bool {
    let types = ["string", "number", "boolean", "date"];
    (1..=255).contains(&key.chars().count()) && value.as_str().is_some_and(|value| types.contains(&value))
}
