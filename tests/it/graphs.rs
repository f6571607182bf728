//! Automations to be made: steps, connections, and graphs that are refused.

use serde_json::{Value, json};

use crate::harness::TestApp;

pub fn trigger() -> Value {
    json!({"key": "start", "type": "trigger", "config": {"event_name": "user.created"}})
}

pub fn delay(key: &str) -> Value {
    json!({"key": key, "type": "delay", "config": {"duration": "1 hour"}})
}

pub fn link(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to})
}

/// A trigger and a delay.
pub fn graph() -> (Value, Value) {
    (json!([trigger(), delay("wait")]), json!([link("start", "wait")]))
}

pub fn body(name: &str) -> Value {
    let (steps, connections) = graph();
    json!({"name": name, "steps": steps, "connections": connections})
}

/// Makes an automation and tells its id.
pub async fn automation(app: &TestApp, key: &str, body: Value) -> String {
    let answer = app.post("/automations").key(key).json(body).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let made = answer.json();
    let id = made["id"].as_str().expect("an id").to_owned();
    assert_eq!(made, json!({"object": "automation", "id": id}));
    id
}

/// Graphs that are refused, and a word of the reason.
pub fn refused() -> Vec<(Value, Value, &'static str)> {
    let condition = json!({"key": "c", "type": "condition",
        "config": {"type": "rule", "field": "event.a", "operator": "exists"}});
    let second = json!({"key": "again", "type": "trigger", "config": {"event_name": "x"}});
    let month = json!({"key": "d", "type": "delay", "config": {"duration": "31 days"}});
    let mut many = vec![trigger()];
    many.extend((0..150).map(|at| delay(&format!("d{at}"))));
    vec![
        (json!(many), json!([]), "151"),
        (json!([]), json!([]), "1 to 150"),
        (
            json!([trigger(), delay("a"), delay("b")]),
            json!([link("start", "a"), link("a", "b"), link("b", "a")]),
            "circles",
        ),
        (json!([trigger(), second]), json!([]), "second trigger"),
        (json!([delay("d")]), json!([]), "no trigger"),
        (json!([trigger(), delay("d")]), json!([]), "cannot be reached"),
        (json!([trigger(), delay("d"), delay("d")]), json!([link("start", "d")]), "another step has"),
        (json!([trigger(), delay("d")]), json!([{"from": "start", "to": "d", "type": "timeout"}]), "`timeout`"),
        (json!([trigger(), delay("d")]), json!([{"from": "start", "to": "d", "type": 1}]), "not a string"),
        (json!([trigger(), condition, delay("d")]), json!([link("start", "c"), link("c", "d")]), "`condition_met`"),
        (json!([trigger(), month]), json!([link("start", "d")]), "30 days"),
        (
            json!([trigger(), {"key": "t", "type": "teleport", "config": {}}]),
            json!([link("start", "t")]),
            "unknown type",
        ),
        (json!([trigger()]), json!([link("start", "gone")]), "`gone`"),
        (json!({}), json!([]), "`steps`"),
        (json!([trigger()]), json!("x"), "`connections`"),
        (json!([{"key": "start", "type": "trigger"}]), json!([]), "`event_name`"),
    ]
}
