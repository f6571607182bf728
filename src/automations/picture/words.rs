//! Steps and rules in words.

use std::collections::HashMap;

use serde_json::Value;

#[cfg(test)]
use crate::automations::graph::Step;

/// What things that steps name by their ids are called.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Names of segments by their ids.
    pub segments: HashMap<String, String>,
    /// Names of templates by what steps call them: an id or an alias.
    pub templates: HashMap<String, String>,
}

impl Names {
    /// What the template with this id or alias is called.
    pub fn template(&self, named: &str) -> String {
        self.templates.get(named).map_or(named, String::as_str).to_owned()
    }

    pub fn segment(&self, id: &str) -> String {
        self.segments.get(id).map_or(id, String::as_str).to_owned()
    }
}

#[cfg(test)]
pub fn words(step: &Step) -> (&'static str, &'static str, String) {
    described(step.action.type_name(), &step.config, &Names::default())
}

/// The icon of a step of this type, what it is called, and all that it is about.
pub fn described(kind: &str, config: &Value, names: &Names) -> (&'static str, &'static str, String) {
    let text = |path: &str| config.pointer(path).map(plain).unwrap_or_default();
    match kind {
        "trigger" => ("event", "Event", text("/event_name")),
        "delay" => ("clock", "Wait", span(config.get("duration"))),
        "condition" => ("branch", "Condition", rule_in_words(config)),
        "wait_for_event" => ("hourglass", "Wait for event", wait(config)),
        "send_email" => match text("/template/id") {
            id if id.is_empty() => ("mail", "Send e-mail", text("/subject")),
            id => ("mail", "Send e-mail", names.template(&id)),
        },
        "contact_update" => ("person", "Update contact", changes(config)),
        "contact_delete" => ("cross", "Delete contact", String::new()),
        "add_to_segment" => ("tag", "Add to segment", names.segment(&text("/segment_id"))),
        "webhook" => ("globe", "Call webhook", text("/url")),
        "exit" => ("exit", "Exit", String::new()),
        _ => ("", "Unknown step", kind.to_owned()),
    }
}

/// What is waited for, how long at most, and which of such events count.
fn wait(config: &Value) -> String {
    let timeout = span(config.get("timeout"));
    let rule = config.get("filter_rule").map(rule_in_words).unwrap_or_default();
    let parts =
        [("", config.get("event_name").map(plain).unwrap_or_default()), ("at most ", timeout), ("where ", rule)];
    let said = parts.into_iter().filter(|(_, part)| !part.is_empty());
    said.map(|(word, part)| format!("{word}{part}")).collect::<Vec<_>>().join(", ")
}

/// A duration as it was given: in words, or as bare seconds.
fn span(given: Option<&Value>) -> String {
    let given = given.map(plain).unwrap_or_default();
    let is_bare = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
    match given.as_str() {
        "1" => "1 second".to_owned(),
        _ if is_bare => format!("{given} seconds"),
        _ => given,
    }
}

/// What a contact is given, field by field and property by property.
fn changes(config: &Value) -> String {
    let none = serde_json::Map::new();
    let properties = config.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let own = [("first_name", "first name"), ("last_name", "last name"), ("unsubscribed", "unsubscribed")];
    let own = own.into_iter().filter_map(|(key, name)| Some((name, config.get(key)?)));
    // What is null is emptied; but whether somebody wants no mail stays as it is then.
    let own = own.filter(|(name, value)| *name != "unsubscribed" || !value.is_null());
    let all = own.chain(properties.iter().map(|(name, value)| (name.as_str(), value)));
    let told = |(name, value): (&str, &Value)| match value {
        Value::Null => format!("{name} emptied"),
        Value::String(text) if text.is_empty() => format!("{name} = \"\""),
        value => format!("{name} = {}", plain(value)),
    };
    all.map(told).collect::<Vec<_>>().join(", ")
}

/// A value as people read it: text without its quotes, a variable as its path.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("var").and_then(Value::as_str) {
            Some(path) if fields.len() == 1 => path.to_owned(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

/// A whole tree of rules. Empty where there is none.
pub fn rule_in_words(rule: &Value) -> String {
    let word = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let rules = rule.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match (word("type"), rules) {
        ("and" | "or", [only]) => rule_in_words(only),
        (joint @ ("and" | "or"), all) => {
            let part = |rule: &Value| match rule.get("rules").and_then(Value::as_array) {
                Some(several) if several.len() > 1 => format!("({})", rule_in_words(rule)),
                _ => rule_in_words(rule),
            };
            all.iter().map(part).collect::<Vec<_>>().join(&format!(" {joint} "))
        }
        _ if word("field").is_empty() => String::new(),
        _ => {
            let sign = match word("operator") {
                "eq" => "=",
                "neq" => "≠",
                "gt" => ">",
                "gte" => "≥",
                "lt" => "<",
                "lte" => "≤",
                "contains" => "contains",
                "starts_with" => "starts with",
                "ends_with" => "ends with",
                "exists" => return format!("{} exists", word("field")),
                _ => return format!("{} is empty", word("field")),
            };
            let value = match rule.get("value") {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => "null".into(),
            };
            format!("{} {sign} {value}", word("field"))
        }
    }
}
