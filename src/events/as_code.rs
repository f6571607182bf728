//! Defining an event and sending it, as a program does it.

use serde_json::{Map, Value, json};

use super::payload::Type;
use crate::app::App;
use crate::docs::Call;

/// How many keys of a schema an example gives values for.
const MOST_KEYS: usize = 6;

/// A first event.
pub fn defining(app: &App) -> Call {
    Call::to(app, "POST", "/events", Some(json!({"name": "order.placed", "schema": {"total": "number"}})))
}

/// The event happens to a contact, with samples for the first keys of its schema.
pub fn sending(app: &App, name: &str, schema: Option<&str>) -> Call {
    let keys: Map<String, Value> = schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let sample = |(key, kind): (String, Value)| Some((key, Type::parse(kind.as_str()?)?.sample()));
    let payload: Map<String, Value> = keys.into_iter().take(MOST_KEYS).filter_map(sample).collect();
    let mut event = json!({"event": name, "email": "grace@example.com"});
    if !payload.is_empty() {
        event["payload"] = payload.into();
    }
    Call::to(app, "POST", "/events/send", Some(event))
}
