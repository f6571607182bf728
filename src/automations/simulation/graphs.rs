//! Graphs and payloads of every kind, by chance.

use serde_json::{Value, json};
use uuid::Uuid;

use super::chance::Chance;
use crate::automations::automation::ReEntry;
use crate::automations::graph::Graph;
use crate::occurrences::SystemEvent;

/// Events that start runs.
pub const TRIGGERS: [&str; 4] = ["t1", "t2", SystemEvent::CONTACT_UPDATED, SystemEvent::CONTACT_DELETED];
/// Events that are waited for; one starts runs as well.
const WAITED: [&str; 3] = ["w1", "w2", "t1"];
/// Events that end runs; one is waited for as well.
const EXITS: [&str; 2] = ["x", "w2"];
/// All that a caller can send.
pub const SENT: [&str; 7] = ["t1", "t1", "t2", "w1", "w1", "w2", "x"];

/// The segments that steps name. Whether there are such segments changes.
pub const SEGMENTS: [Uuid; 2] =
    [Uuid::from_u128(0x00000000_0000_7000_8000_0000000000a1), Uuid::from_u128(0x00000000_0000_7000_8000_0000000000a2)];

/// Hours at which mail is sent: also through midnight, and those that a day may lack or have twice.
const WINDOWS: [(&str, &str); 5] =
    [("09:00", "17:00"), ("22:00", "06:00"), ("02:15", "02:45"), ("02:30", "03:30"), ("01:59", "02:01")];

const SPANS: [&str; 6] = ["0 seconds", "1 second", "30 seconds", "5 minutes", "1 hour", "2 days"];

pub fn re_entry(chance: &mut Chance) -> ReEntry {
    chance.one_of(&[ReEntry::Always, ReEntry::Always, ReEntry::OncePerContact, ReEntry::OneAtATime])
}

pub fn exit_on(chance: &mut Chance) -> Option<String> {
    chance.percent(40).then(|| chance.one_of(&EXITS).to_owned())
}

pub fn payload(chance: &mut Chance) -> Value {
    let mut payload = json!({ "n": chance.below(4) });
    match chance.below(6) {
        0 => payload["flag"] = json!(true),
        1 => payload["flag"] = json!(false),
        2 => payload["name"] = json!("Ada"),
        3 => payload["name"] = json!(7),
        _ => {}
    }
    payload
}

/// A graph that can run. Every new step hangs on a way out that leads nowhere
/// yet; further ways out may join in.
pub fn graph(chance: &mut Chance) -> Graph {
    let mut steps = vec![json!({"key": "start", "type": "trigger", "config": {"event_name": trigger(chance)}})];
    let mut links = Vec::new();
    let mut open: Vec<(String, &str)> = vec![("start".into(), "default")];
    for at in 0..1 + chance.below(7) {
        if open.is_empty() {
            break;
        }
        let key = format!("s{at}");
        let first = chance.below(open.len());
        let mut joined = vec![open.swap_remove(first)];
        open.retain(|exit| {
            let joins = chance.percent(25);
            if joins {
                joined.push(exit.clone());
            }
            !joins
        });
        links.extend(joined.into_iter().map(|(from, exit)| json!({"from": from, "to": key, "type": exit})));
        let (kind, config, exits) = step(chance);
        steps.push(json!({"key": key, "type": kind, "config": config}));
        open.extend(exits.iter().map(|exit| (key.clone(), *exit)));
    }
    Graph::parse(&steps.into(), &links.into()).expect("a graph that can run")
}

fn trigger(chance: &mut Chance) -> &'static str {
    if chance.percent(85) { chance.one_of(&TRIGGERS[..2]) } else { chance.one_of(&TRIGGERS[2..]) }
}

fn step(chance: &mut Chance) -> (&'static str, Value, &'static [&'static str]) {
    const ON: &[&str] = &["default"];
    match chance.below(20) {
        0..=2 => ("delay", json!({"duration": chance.one_of(&SPANS)}), ON),
        3..=5 => ("condition", rule(chance, false), &["condition_met", "condition_not_met"]),
        6..=9 => ("wait_for_event", wait(chance), &["event_received", "timeout"]),
        10..=12 => ("send_email", mail(chance), ON),
        13..=14 => ("contact_update", changes(chance), ON),
        15 | 16 => ("add_to_segment", json!({"segment_id": chance.one_of(&SEGMENTS)}), ON),
        17 | 18 => ("webhook", json!({"url": "https://x.test/"}), ON),
        _ if chance.percent(50) => ("contact_delete", json!({}), &[]),
        _ => ("exit", json!({}), &[]),
    }
}

/// Mails that can be sent, some of them only at some hours, and some whose variable may lead to nothing.
fn mail(chance: &mut Chance) -> Value {
    let text = if chance.percent(80) { json!("Hello") } else { json!({"var": "event.name"}) };
    let mut mail = json!({"from": "us@example.com", "subject": "Hello", "text": text});
    if chance.percent(40) {
        let (from, until) = chance.one_of(&WINDOWS);
        mail["send_window"] = json!({"from": from, "until": until});
    }
    mail
}

fn wait(chance: &mut Chance) -> Value {
    let mut config = json!({"event_name": chance.one_of(&WAITED)});
    if chance.percent(60) {
        config["timeout"] = json!(chance.one_of(&SPANS));
    }
    if chance.percent(30) {
        config["filter_rule"] = rule(chance, true);
    }
    config
}

fn rule(chance: &mut Chance, events_only: bool) -> Value {
    let leaf = |field: &str, operator: &str, value: Value| json!({"type": "rule", "field": field, "operator": operator, "value": value});
    match chance.below(if events_only { 2 } else { 6 }) {
        0 => leaf("event.n", "gte", json!(chance.below(4))),
        1 => leaf("event.flag", "exists", Value::Null),
        2 => leaf("contact.unsubscribed", "eq", json!(true)),
        3 => leaf("contact.properties.p", "exists", Value::Null),
        4 => leaf("contact.properties.p", "gt", json!(1)),
        _ => leaf("contact.first_name", "eq", json!("Ada")),
    }
}

/// Changes that can be made, and some whose variable turns out to be wrong.
fn changes(chance: &mut Chance) -> Value {
    match chance.below(6) {
        0 => json!({"unsubscribed": true}),
        1 => json!({"unsubscribed": {"var": "event.flag"}}),
        2 => json!({"first_name": {"var": "event.name"}}),
        3 => json!({"properties": {"p": null}}),
        4 => json!({"properties": {"p": {"var": "event.n"}}}),
        _ => json!({"properties": {"p": {"var": "wait_events.w1.n"}, "q": 1}}),
    }
}
