//! What callers send within steps and connections that nobody reads. Graphs are judged as they come, as JSON, so that
//! everything that is wrong with one is told at once; what is only superfluous is found here.

use serde_json::{Map, Value};

use super::graph::{TEMPLATE_FIELDS, fields_of};
use crate::error::Error;
use crate::rules;
use crate::web;
use crate::windows::Window;

type Fields = Map<String, Value>;

/// Tells the caller of every field of a graph that nobody reads. What is no graph at all is refused elsewhere.
pub fn warn(steps: &Value, connections: &Value) -> Result<(), Error> {
    for (at, step) in objects(steps) {
        web::warn_unread(&format!("steps[{at}]"), step, &["key", "type", "config"])?;
        let kind = step.get("type").and_then(Value::as_str).unwrap_or_default();
        if let Some(Value::Object(config)) = step.get("config") {
            warn_of_config(kind, &format!("steps[{at}].config"), config)?;
        }
    }
    for (at, connection) in objects(connections) {
        web::warn_unread(&format!("connections[{at}]"), connection, &["from", "to", "type"])?;
    }
    Ok(())
}

/// The same of a window in which mail may be sent.
pub fn warn_of_window(path: &str, window: Option<&Value>) -> Result<(), Error> {
    match window {
        Some(Value::Object(fields)) => web::warn_unread(path, fields, &Window::FIELDS),
        _ => Ok(()),
    }
}

fn objects(list: &Value) -> impl Iterator<Item = (usize, &Fields)> {
    let all = list.as_array().into_iter().flatten().enumerate();
    all.filter_map(|(at, one)| Some((at, one.as_object()?)))
}

fn warn_of_config(kind: &str, path: &str, config: &Fields) -> Result<(), Error> {
    if kind == "condition" {
        return warn_of_rule(path, config);
    }
    let Some(known) = fields_of(kind) else { return Ok(()) };
    web::warn_unread(path, config, known)?;
    let within = |name: &str| config.get(name).filter(|_| known.contains(&name));
    if let Some(Value::Object(rule)) = within("filter_rule") {
        warn_of_rule(&format!("{path}.filter_rule"), rule)?;
    }
    if let Some(Value::Object(template)) = within("template") {
        web::warn_unread(&format!("{path}.template"), template, &TEMPLATE_FIELDS)?;
    }
    warn_of_window(&format!("{path}.send_window"), within("send_window"))
}

/// JSON is not nested deeper than its reader allows, and so neither is this.
fn warn_of_rule(path: &str, rule: &Fields) -> Result<(), Error> {
    let known = rules::fields_of(rule);
    web::warn_unread(path, rule, known)?;
    let rules = rule.get("rules").filter(|_| known.contains(&"rules"));
    for (at, one) in rules.into_iter().flat_map(objects) {
        warn_of_rule(&format!("{path}.rules[{at}]"), one)?;
    }
    Ok(())
}
