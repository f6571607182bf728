//! Defining an event and sending it, as a program does it.

use serde_json::{Map, Value, json};

use super::payload::Type;
use crate::app::App;
use crate::docs::{Call, Example, Sample};

/// How many keys of a schema an example gives values for.
const MOST_KEYS: usize = 6;

/// A first event.
pub fn defining(app: &App) -> Example {
    let (name, schema) = ("order.placed", json!({"total": "number"}));
    let command = Sample::client(app, &["events", "create", "--name", name, "--schema", &schema.to_string()]);
    Example::new(&Call::to(app, "POST", "/events", Some(json!({"name": name, "schema": schema}))), command)
}

/// The event happens to a contact, with samples for the first keys of its schema.
pub fn sending(app: &App, name: &str, schema: Option<&str>) -> Example {
    let keys: Map<String, Value> = schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let sample = |(key, kind): (String, Value)| Some((key, Type::parse(kind.as_str()?)?.sample()));
    let payload: Map<String, Value> = keys.into_iter().take(MOST_KEYS).filter_map(sample).collect();
    let payload = Value::Object(payload);
    let (email, written) = ("grace@example.com", payload.to_string());
    let mut event = json!({"event": name, "email": email});
    let mut words = vec!["events", "send", "--event", name, "--email", email];
    if payload != json!({}) {
        event["payload"] = payload;
        words.extend(["--payload", written.as_str()]);
    }
    Example::new(&Call::to(app, "POST", "/events/send", Some(event)), Sample::client(app, &words))
}
