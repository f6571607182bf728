//! Graphs that can run, and what is said of those that cannot.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn trigger() -> Value {
    json!({"key": "start", "type": "trigger", "config": {"event_name": "user.created"}})
}

fn delay(key: &str) -> Value {
    json!({"key": key, "type": "delay", "config": {"duration": "1 hour"}})
}

fn condition(key: &str) -> Value {
    json!({"key": key, "type": "condition", "config": {"type": "rule", "field": "event.a", "operator": "exists"}})
}

fn link(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to})
}

fn findings(steps: Value, connections: Value) -> Vec<String> {
    let found = Graph::parse(&steps, &connections).expect_err("refused");
    found.iter().map(Finding::sentence).collect()
}

#[test]
fn a_trigger_alone_is_an_automation() {
    let graph = Graph::parse(&json!([trigger()]), &json!([])).expect("valid");
    assert_eq!(graph.event_name(), "user.created");
    assert_eq!(graph.steps_json(), json!([trigger()]));
    assert_eq!(graph.next(graph.trigger(), Exit::Default), None);
}

#[test]
fn a_connection_without_a_type_is_shown_as_default() {
    let graph = Graph::parse(&json!([trigger(), delay("d")]), &json!([{"from": "start", "to": "d", "type": null}]));
    let graph = graph.expect("valid");
    assert_eq!(graph.connections_json(), json!([{"from": "start", "to": "d", "type": "default"}]));
}

#[test]
fn steps_are_listed_in_the_order_a_reader_follows() {
    let steps = json!([delay("late"), condition("c"), delay("yes"), trigger(), delay("no")]);
    let connections = json!([
        link("start", "c"), {"from": "c", "to": "yes", "type": "condition_met"},
        {"from": "c", "to": "no", "type": "condition_not_met"}, link("yes", "late"), link("no", "late"),
    ]);
    let graph = Graph::parse(&steps, &connections).expect("valid");
    let order: Vec<&str> = graph.in_order().map(|(_, step)| step.key.as_str()).collect();
    assert_eq!(order.first(), Some(&"start"));
    assert_eq!(order.last(), Some(&"late"));
    assert_eq!(order.len(), 5);
}

#[test]
fn decisions_6_what_cannot_run_is_refused_with_the_reason() {
    let two = json!({"key": "again", "type": "trigger", "config": {"event_name": "x"}});
    for (steps, connections, reason) in [
        (json!([delay("d")]), json!([]), "has no trigger"),
        (json!([trigger(), two]), json!([]), "`again` is a second trigger"),
        (json!([trigger(), delay("d")]), json!([]), "`d` cannot be reached"),
        (json!([trigger(), delay("d")]), json!([link("start", "x")]), "`x`, which is no step's key"),
        (json!([trigger(), delay("d")]), json!([link("x", "d")]), "`x`, which is no step's key"),
        (
            json!([trigger(), delay("d"), delay("d")]),
            json!([link("start", "d")]),
            "`d` has a key that another step has",
        ),
        (
            json!([trigger(), delay("d")]),
            json!([link("start", "d"), link("d", "start")]),
            "no connection may lead to it",
        ),
        (
            json!([trigger(), delay("a"), delay("b")]),
            json!([link("start", "a"), link("a", "b"), link("b", "a")]),
            "circles",
        ),
        (
            json!([trigger(), delay("d")]),
            json!([{"from": "start", "to": "d", "type": "timeout"}]),
            "has no connection of the type `timeout`",
        ),
        (
            json!([trigger(), condition("c"), delay("d")]),
            json!([link("start", "c"), link("c", "d")]),
            "`condition_met` or `condition_not_met`",
        ),
        (
            json!([trigger(), delay("a"), delay("b")]),
            json!([link("start", "a"), link("start", "b")]),
            "two connections",
        ),
        (
            json!([trigger(), {"key": "x", "type": "exit"}, delay("d")]),
            json!([link("start", "x"), link("x", "d")]),
            "ends the run",
        ),
        (json!([]), json!([]), "1 to 150 steps"),
        (json!(null), json!([]), "`steps`"),
        (json!([trigger()]), json!(null), "`connections`"),
        (json!([{"type": "trigger"}]), json!([]), "without a usable key"),
    ] {
        let sentences = findings(steps, connections).join(" ");
        assert!(sentences.contains(reason), "{reason}: {sentences}");
    }
}

#[test]
fn issue_15_what_is_wrong_with_a_step_is_told_in_sentences() {
    for (type_name, config, sentence) in [
        ("delay", json!({}), "The step `a` needs `duration`, such as `3 days`."),
        (
            "delay",
            json!({"duration": "one day"}),
            "In the step `a`, `duration` is wrong: `one day` is not a duration; ",
        ),
        (
            "wait_for_event",
            json!({"event_name": "e", "timeout": "soon"}),
            "In the step `a`, `timeout` is wrong: `soon`",
        ),
        (
            "wait_for_event",
            json!({"event_name": "e", "filter_rule": {}}),
            "In the step `a`, `filter_rule` is wrong: a rule",
        ),
        ("condition", json!({}), "In the step `a`, a rule needs `type`: "),
        ("webhook", json!({"url": 5}), "In the step `a`, `url` must be text, but is a number."),
        ("nothing", json!({}), "The step `a` has the unknown type `nothing`; "),
    ] {
        let steps = json!([trigger(), {"key": "a", "type": type_name, "config": config}]);
        let told = findings(steps, json!([link("start", "a")]));
        assert!(told[0].starts_with(sentence), "{told:?}");
    }
    let unnamed = findings(json!([trigger(), {"type": "exit"}]), json!([]));
    assert!(unnamed[0].contains("`steps[1]`"), "{unnamed:?}");
}

#[test]
fn issue_4_a_graph_of_151_steps_and_a_delay_over_30_days_are_refused() {
    let mut steps = vec![trigger()];
    steps.extend((0..150).map(|at| delay(&format!("d{at}"))));
    assert!(findings(json!(steps), json!([])).join(" ").contains("151"));
    let long = json!({"key": "d", "type": "delay", "config": {"duration": "31 days"}});
    assert!(findings(json!([trigger(), long]), json!([link("start", "d")])).join(" ").contains("30 days"));
}

#[test]
fn every_step_says_what_it_needs() {
    for (type_name, config, word) in [
        ("trigger", json!({}), "`event_name`"),
        ("trigger", json!({"eventName": "x"}), "sent as `eventName`"),
        ("trigger", json!({"event_name": 1}), "a number"),
        ("delay", json!({}), "`duration`"),
        ("delay", json!({"duration": "soon"}), "30 minutes"),
        ("delay", json!({"seconds": 5}), "`duration`"),
        ("wait_for_event", json!({"timeout": "1 day"}), "`event_name`"),
        (
            "wait_for_event",
            json!({"event_name": "x", "filter_rule": {"type": "rule", "field": "contact.a", "operator": "exists"}}),
            "`event.`",
        ),
        ("condition", json!({}), "`type`"),
        ("send_email", json!({}), "`template`"),
        ("send_email", json!({"template": {}}), "`template.id`"),
        ("send_email", json!({"template": {"id": ""}}), "or `from`, `subject` and `html` or `text`"),
        ("send_email", json!({"template": {"id": 5}}), "`template.id`"),
        ("send_email", json!({"template": {"id": "t"}, "html": "<p>"}), "one of them"),
        ("send_email", json!({"subject": "S", "text": "T"}), "needs `from`"),
        ("send_email", json!({"from": "a@b.co", "text": "T"}), "needs `subject`"),
        ("send_email", json!({"from": "a@b.co", "subject": "S"}), "`html` or `text`"),
        ("send_email", json!({"from": "nobody", "subject": "S", "text": "T"}), "`from` must"),
        ("send_email", json!({"from": "a@b.co", "subject": "S\nT", "text": "T"}), "`subject` must be one line"),
        ("send_email", json!({"from": "a@b.co", "subject": 5, "text": "T"}), "`subject` must be text or a variable"),
        ("send_email", json!({"from": "a@b.co", "subject": "S", "html": {"var": "nope"}}), "`event.`"),
        (
            "send_email",
            json!({"from": "a@b.co", "subject": "S", "html": {"a": 1}}),
            "`html` must be text or a variable",
        ),
        ("send_email", json!({"from": "a@b.co", "subject": "S", "text": "\0"}), "U+0000"),
        ("send_email", json!({"from": "a@b.co", "subject": "S", "text": "T", "reply_to": "x"}), "`reply_to` must"),
        ("send_email", json!({"template": {"id": "t", "variables": []}}), "an array"),
        ("send_email", json!({"template": {"id": "t", "variables": {"X": {"var": "nope"}}}}), "`event.`"),
        ("contact_update", json!({}), "at least one"),
        ("contact_update", json!({"properties": 1}), "an object"),
        ("add_to_segment", json!({}), "`segment_id`"),
        ("add_to_segment", json!({"segment_id": "x"}), "UUID"),
        ("webhook", json!({}), "`url`"),
        ("webhook", json!({"url": "ftp://x"}), "http"),
        ("webhook", json!({"url": "https://user@host/"}), "user name"),
        ("teleport", json!({}), "unknown type"),
    ] {
        let step = json!({"key": "s", "type": type_name, "config": config});
        let sentences = findings(json!([step]), json!([])).join(" ");
        assert!(sentences.contains("he step `s`") && sentences.contains(word), "{type_name}: {sentences}");
    }
}

#[test]
fn all_findings_are_told_at_once() {
    let bad = json!({"key": "b", "type": "delay", "config": {}});
    let worse = json!({"key": "w", "type": "nothing", "config": {}});
    assert_eq!(findings(json!([trigger(), bad, worse]), json!([link("start", "gone")])).len(), 3);
}

#[test]
fn clients_send_nulls_and_unknown_keys() {
    let step = json!({"key": "m", "type": "send_email", "config": {"template": {"id": "t", "variables": null},
        "subject": null, "from": null, "reply_to": null, "variables": null, "other": 1}});
    let graph = Graph::parse(&json!([trigger(), step]), &json!([link("start", "m")])).expect("valid");
    assert_eq!(graph.steps_json()[1]["config"], json!({"template": {"id": "t"}}));
}

proptest! {
    /// Whatever is connected to whatever: a graph is either refused, or every
    /// step comes before those it leads to.
    #[test]
    fn an_accepted_graph_has_no_way_back(links in prop::collection::vec((0usize..6, 0usize..6), 0..10)) {
        let key = |at: usize| if at == 0 { "start".to_owned() } else { format!("d{at}") };
        let mut steps = vec![trigger()];
        steps.extend((1..6).map(|at| delay(&key(at))));
        let connections: Vec<Value> = links.iter().map(|(from, to)| link(&key(*from), &key(*to))).collect();
        if let Ok(graph) = Graph::parse(&json!(steps), &json!(connections)) {
            let order: Vec<usize> = graph.in_order().map(|(at, _)| at).collect();
            let place = |at: usize| order.iter().position(|one| *one == at).expect("reached");
            prop_assert!(graph.connections.iter().all(|(from, _, to)| place(*from) < place(*to)));
        }
    }
}
