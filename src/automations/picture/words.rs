//! Steps and rules in words.

use serde_json::Value;

#[cfg(test)]
use crate::automations::graph::Step;

/// What things that steps name by their ids are called.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Ids and names.
    pub segments: Vec<(String, String)>,
    /// Ids and names.
    pub templates: Vec<(String, String)>,
    /// Aliases of templates, and their names.
    pub aliases: Vec<(String, String)>,
}

impl Names {
    /// What the template with this id or alias is called.
    pub fn template(&self, named: &str) -> String {
        let mut known = self.templates.iter().chain(&self.aliases);
        known.find(|(one, _)| one == named).map_or(named, |(_, name)| name).to_owned()
    }

    pub fn segment(&self, id: &str) -> String {
        self.segments.iter().find(|(one, _)| one == id).map_or(id, |(_, name)| name).to_owned()
    }
}

#[cfg(test)]
pub fn words(step: &Step) -> (&'static str, &'static str, String) {
    described(step.action.type_name(), &step.config, &Names::default())
}

/// The icon of a step of this type, what it is called, and what it is about.
pub fn described(kind: &str, config: &Value, names: &Names) -> (&'static str, &'static str, String) {
    let text = |path: &str| config.pointer(path).map(plain).unwrap_or_default();
    match kind {
        "trigger" => ("event", "Event", text("/event_name")),
        "delay" => ("clock", "Wait", text("/duration")),
        "condition" => ("branch", "Condition", rule_in_words(config)),
        "wait_for_event" => ("hourglass", "Wait for event", text("/event_name")),
        "send_email" => match text("/template/id") {
            id if id.is_empty() => ("mail", "Send e-mail", text("/subject")),
            id => ("mail", "Send e-mail", names.template(&id)),
        },
        "contact_update" => ("person", "Update contact", keys(config)),
        "contact_delete" => ("cross", "Delete contact", String::new()),
        "add_to_segment" => ("tag", "Add to segment", names.segment(&text("/segment_id"))),
        "webhook" => ("globe", "Call webhook", text("/url")),
        "exit" => ("exit", "Exit", String::new()),
        _ => ("", "Unknown step", kind.to_owned()),
    }
}

fn keys(config: &Value) -> String {
    let fields = config.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    fields.unwrap_or_default().join(", ")
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
