//! How the rules of a segment are read.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Counted, EventCount, MOST_TIMES, Node, OWN, engagement_name, event_key};
use crate::id::{BroadcastId, Id};
use crate::rules::{DEEPEST, Duration, MOST, Rule};
use crate::text::{kind, shown};

/// What a rule can ask of a contact beside its properties.
const FIELDS: &[&str] = &["id", "email", "first_name", "last_name", "unsubscribed", "created_at"];

/// How far back a rule can look, in days.
const LONGEST_AGO: i64 = 730;

const LONGEST_EVENT_NAME: usize = 1024;

/// How the fields begin that tell how often something happened.
const COUNTED: &[&str] = &["events.", "emails.", "broadcasts."];

impl Node {
    pub(super) fn parse(value: &Value, depth: usize, count: &mut usize) -> Result<Node, String> {
        *count += 1;
        if depth > DEEPEST || *count > MOST {
            return Err(format!("the rules are too many: at most {MOST}, nested at most {DEEPEST} deep"));
        }
        let counts = |field: &str| COUNTED.iter().any(|start| field.starts_with(start));
        if !value.get("field").and_then(Value::as_str).is_some_and(counts) && value.get("within").is_some() {
            return Err(
                "`within` belongs to a rule on a field that begins with `events.`, `emails.` or `broadcasts.`".into()
            );
        }
        let mut group = || -> Result<Vec<Node>, String> {
            if let Some(key) = ["field", "operator", "value"].into_iter().find(|key| value.get(key).is_some()) {
                return Err(format!("`{key}` belongs to a rule, not to a group of rules"));
            }
            let rules = value.get("rules").and_then(Value::as_array).filter(|rules| !rules.is_empty());
            let rules = rules.ok_or("a group of rules needs `rules`, an array of at least one")?;
            rules.iter().map(|rule| Node::parse(rule, depth + 1, count)).collect()
        };
        match value.get("type").and_then(Value::as_str) {
            Some("and") => Ok(Node::All(group()?)),
            Some("or") => Ok(Node::Any(group()?)),
            Some("rule") => Node::parse_leaf(value),
            _ => Err("a rule needs `type`: `rule`, `and` or `or`".into()),
        }
    }

    fn parse_leaf(rule: &Value) -> Result<Node, String> {
        let field =
            rule.get("field").and_then(Value::as_str).ok_or("a rule needs `field`, such as `contact.unsubscribed`")?;
        match field.split_once('.') {
            Some(("contact", "updated_at")) => {
                Err("`contact.updated_at` cannot be asked for: it tells nothing of whom".into())
            }
            Some(("contact", asked)) if !asked.is_empty() => {
                let property = asked.strip_prefix("properties.").unwrap_or(asked);
                let property = (!FIELDS.contains(&asked)).then(|| property.to_owned());
                Ok(Node::Contact { rule: Rule::parse(rule, false)?, property })
            }
            Some(("topics", id)) => {
                let id = id.parse().map_err(|_| "`topics.` is followed by the id of a topic, a UUID")?;
                Ok(Node::Topic(id, topic_rule(rule)?))
            }
            Some(("events", name)) => event_rule(rule, name),
            Some(("emails", what)) => engagement_rule(rule, what, None),
            Some(("broadcasts", asked)) => {
                let (id, what) = asked.split_once('.').map_or((asked, None), |(id, what)| (id, Some(what)));
                let id = id.parse().map_err(|_| "`broadcasts.` is followed by the id of a broadcast, a UUID")?;
                match what {
                    Some(what) => engagement_rule(rule, what, Some(id)),
                    None => broadcast_rule(rule, id),
                }
            }
            _ => Err(format!(
                "the field `{}` must start with `contact.`, `topics.`, `events.`, `emails.` or `broadcasts.`",
                shown(field)
            )),
        }
    }
}

/// The same rule over a value that is found otherwise.
fn rule_over_value(rule: &Value) -> Result<Rule, String> {
    let part = |key: &str| rule.get(key).cloned().unwrap_or(Value::Null);
    let moved = json!({"type": "rule", "field": "event.value", "operator": part("operator"), "value": part("value")});
    Rule::parse(&moved, true)
}

fn operator(rule: &Value, allowed: &[&str]) -> Result<(), String> {
    let given = rule.get("operator").and_then(Value::as_str).unwrap_or_default();
    let named: Vec<String> = allowed.iter().map(|one| format!("`{one}`")).collect();
    match allowed.contains(&given) {
        true => Ok(()),
        false => Err(format!("a rule on such a field needs `operator`, one of {}", named.join(", "))),
    }
}

fn topic_rule(rule: &Value) -> Result<Rule, String> {
    operator(rule, &["eq", "neq"])?;
    match rule.get("value").and_then(Value::as_str) {
        Some("opt_in" | "opt_out") => rule_over_value(rule),
        _ => Err("a rule on a topic needs `value`: `opt_in` or `opt_out`".into()),
    }
}

fn event_rule(rule: &Value, name: &str) -> Result<Node, String> {
    if name.is_empty() || name.contains('\0') || name.chars().nth(LONGEST_EVENT_NAME).is_some() {
        return Err(format!(
            "`events.` is followed by the name of an event, of at most {LONGEST_EVENT_NAME} characters"
        ));
    }
    if name.starts_with(OWN) {
        return Err(format!("`{}` is a system event, which cannot be counted", shown(name)));
    }
    count_rule(rule, event_key(name), Counted::Event(name.to_owned()))
}

/// Of mails that the contact opened, or in which it clicked.
fn engagement_rule(rule: &Value, what: &str, broadcast: Option<BroadcastId>) -> Result<Node, String> {
    if !["opened", "clicked"].contains(&what) {
        return Err("of mail can be asked `emails.opened`, `emails.clicked`, `broadcasts.<id>.opened` and \
                    `broadcasts.<id>.clicked`"
            .into());
    }
    let name = engagement_name(what, broadcast);
    count_rule(rule, event_key(&name), Counted::Engagement(name, broadcast))
}

fn count_rule(rule: &Value, key: Uuid, what: Counted) -> Result<Node, String> {
    operator(rule, &["eq", "neq", "gt", "gte", "lt", "lte"])?;
    let times = rule.get("value").and_then(Value::as_u64).filter(|times| *times <= MOST_TIMES);
    let times = times.ok_or_else(|| format!("a rule on an event needs `value`: how often, from 0 to {MOST_TIMES}"))?;
    let count = EventCount { what, key, enough: times as usize + 1, within: within(rule)? };
    Ok(Node::Event(count, rule_over_value(rule)?))
}

/// How long ago something may have happened, in microseconds.
fn within(rule: &Value) -> Result<Option<i64>, String> {
    match rule.get("within") {
        None => Ok(None),
        Some(Value::String(text)) => match Duration::parse_up_to(text, LONGEST_AGO)?.micros() {
            0 => Err("`within` must be longer than nothing".into()),
            micros => Ok(Some(micros)),
        },
        Some(other) => Err(format!("`within` must be a duration such as `30 days`, but is {}", kind(other))),
    }
}

/// Whether a broadcast was sent to the contact is whether that happened once.
fn broadcast_rule(rule: &Value, id: BroadcastId) -> Result<Node, String> {
    operator(rule, &["eq", "neq"])?;
    if rule.get("value").and_then(Value::as_str) != Some("sent") {
        return Err("a rule on a broadcast needs `value`: `sent`".into());
    }
    let asked = json!({"operator": rule["operator"], "value": 1});
    let count = EventCount { what: Counted::Broadcast(id), key: id.uuid(), enough: 1, within: within(rule)? };
    Ok(Node::Event(count, rule_over_value(&asked)?))
}
