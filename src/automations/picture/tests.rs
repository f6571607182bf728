//! Pictures in which nothing stands in the way of anything else.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::automations::graph::Step;

fn trigger() -> Value {
    json!({"key": "start", "type": "trigger", "config": {"event_name": "user.created"}})
}

fn condition(key: &str) -> Value {
    json!({"key": key, "type": "condition",
        "config": {"type": "rule", "field": "event.n", "operator": "gte", "value": 3}})
}

fn delay(key: &str) -> Value {
    json!({"key": key, "type": "delay", "config": {"duration": "1 hour"}})
}

fn draw(steps: Value, connections: Value) -> Picture {
    Picture::draw(&Graph::parse(&steps, &connections).expect("a graph"), &Names::default(), |_| "")
}

fn branching() -> Picture {
    draw(
        json!([trigger(), condition("c"), delay("a"), delay("b"), delay("last")]),
        json!([
            {"from": "start", "to": "c"}, {"from": "c", "to": "a", "type": "condition_met"},
            {"from": "c", "to": "b", "type": "condition_not_met"}, {"from": "a", "to": "last"},
            {"from": "b", "to": "last"},
        ]),
    )
}

fn find<'a>(picture: &'a Picture, key: &str) -> &'a StepBox {
    picture.boxes.iter().find(|one| one.key == key).expect("a box")
}

#[test]
fn a_trigger_alone_is_one_box_and_no_arrow() {
    let picture = draw(json!([trigger()]), json!([]));
    assert_eq!((picture.boxes.len(), picture.arrows.len()), (1, 0));
    assert_eq!((picture.width, picture.height), (BOX_WIDTH + 2 * MARGIN, BOX_HEIGHT + 2 * MARGIN));
    assert_eq!((picture.boxes[0].label, picture.boxes[0].detail.as_str()), ("Event", "user.created"));
}

#[test]
fn what_follows_one_after_the_other_stands_below_each_other() {
    let picture = draw(json!([trigger(), delay("d")]), json!([{"from": "start", "to": "d"}]));
    let (first, second) = (&picture.boxes[0], &picture.boxes[1]);
    assert!(first.x == second.x && second.y >= first.y + BOX_HEIGHT + GAP_DOWN);
    assert_eq!(picture.arrows[0].label, "");
    assert!(!picture.arrows[0].line.contains('H'), "a straight line");
}

#[test]
fn branches_part_to_both_sides_and_meet_again_below() {
    let picture = branching();
    let (c, a, b, last) = (find(&picture, "c"), find(&picture, "a"), find(&picture, "b"), find(&picture, "last"));
    assert!(a.x < c.x && c.x < b.x && a.y == b.y);
    assert!(last.y > a.y, "below both that lead to it");
    let labels: Vec<&str> =
        picture.arrows.iter().map(|arrow| arrow.label.as_str()).filter(|label| !label.is_empty()).collect();
    assert_eq!(labels, ["met", "not met"]);
    assert_eq!(c.detail, "event.n ≥ 3");
}

/// Each condition that is not met leads to the next one.
#[test]
fn a_chain_of_conditions_stays_in_its_column() {
    let mut steps = vec![trigger()];
    let mut connections = vec![json!({"from": "start", "to": "c0"})];
    for at in 0..6 {
        let (key, then) = (format!("c{at}"), format!("d{at}"));
        connections.push(json!({"from": key, "to": then, "type": "condition_met"}));
        let next = if at < 5 { format!("c{}", at + 1) } else { "end".to_owned() };
        connections.push(json!({"from": key, "to": next, "type": "condition_not_met"}));
        steps.extend([condition(&key), delay(&then)]);
    }
    steps.push(delay("end"));
    let picture = draw(json!(steps), json!(connections));
    assert!((0..5).all(|at| find(&picture, &format!("c{at}")).x == find(&picture, "c5").x));
    assert_eq!(find(&picture, "start").x, find(&picture, "c5").x);
}

#[test]
fn labels_are_whole_also_beside_the_outermost_boxes() {
    let wait =
        json!({"key": "w", "type": "wait_for_event", "config": {"event_name": "order.paid", "timeout": "1 day"}});
    let by = |way: &str| {
        let connections = json!([{"from": "start", "to": "w"}, {"from": "w", "to": "a", "type": way}]);
        draw(json!([trigger(), wait, delay("a")]), connections)
    };
    let (received, timeout, chain) = (by("event_received"), by("timeout"), draw(json!([trigger()]), json!([])));
    assert_eq!((chain.left(), chain.whole_width()), (0, chain.width), "boxes alone need no more");
    let label = &received.arrows[1];
    assert!(label.left && received.left() <= label.label_x - 70 && received.left() < 0, "{}", received.left());
    assert_eq!(received.whole_width(), received.width - received.left());
    assert!(
        timeout.left() == 0 && timeout.whole_width() >= timeout.arrows[1].label_x + 62,
        "{}",
        timeout.whole_width()
    );
}

#[test]
fn what_became_of_a_step_is_to_be_seen() {
    let graph = Graph::parse(&json!([trigger()]), &json!([])).expect("a graph");
    let picture = Picture::draw(&graph, &Names::default(), |key| if key == "start" { "completed" } else { "" });
    assert_eq!(picture.boxes[0].look, "completed");
}

#[test]
fn every_kind_of_step_has_words_of_its_own() {
    let step = |kind: &str, config: Value| {
        let config = config.as_object().cloned().unwrap_or_default();
        words(&Step::parse("k", kind, &config).expect(kind))
    };
    let id = "00000000-0000-7000-8000-000000000001";
    for (kind, config, label, detail) in [
        ("wait_for_event", json!({"event_name": "paid"}), "Wait for event", "paid"),
        (
            "wait_for_event",
            json!({"event_name": "paid", "timeout": "3 days",
                "filter_rule": {"type": "rule", "field": "event.total", "operator": "gt", "value": 5}}),
            "Wait for event",
            "paid, at most 3 days, where event.total > 5",
        ),
        ("wait_for_event", json!({"event_name": "paid", "timeout": 90}), "Wait for event", "paid, at most 90 seconds"),
        ("delay", json!({"duration": "1"}), "Wait", "1 second"),
        ("delay", json!({"duration": "1 day 2h"}), "Wait", "1 day 2h"),
        ("send_email", json!({"template": {"id": "t"}}), "Send e-mail", "t"),
        ("send_email", json!({"from": "a@b.co", "subject": "Hi", "text": "T"}), "Send e-mail", "Hi"),
        (
            "contact_update",
            json!({"first_name": "A", "unsubscribed": true}),
            "Update contact",
            "first name = A, unsubscribed = true",
        ),
        (
            "contact_update",
            json!({"last_name": null, "unsubscribed": null, "first_name": {"var": "event.name"},
                "properties": {"plan": {"var": "event.plan"}, "note": "", "seats": 3, "trial": null}}),
            "Update contact",
            "first name = event.name, last name emptied, plan = event.plan, note = \"\", seats = 3, trial emptied",
        ),
        ("contact_delete", json!({}), "Delete contact", ""),
        ("add_to_segment", json!({"segment_id": id}), "Add to segment", id),
        ("webhook", json!({"url": "https://x.test/"}), "Call webhook", "https://x.test/"),
        ("exit", json!({}), "Exit", ""),
        (
            "condition",
            json!({"type": "or", "rules": [{"type": "rule", "field": "event.a", "operator": "exists"}]}),
            "Condition",
            "event.a exists",
        ),
        (
            "condition",
            json!({"type": "rule", "field": "event.a", "operator": "is_empty"}),
            "Condition",
            "event.a is empty",
        ),
        (
            "condition",
            json!({"type": "and", "rules": [
                {"type": "rule", "field": "event.a", "operator": "eq", "value": "b"},
                {"type": "or", "rules": [
                    {"type": "rule", "field": "event.n", "operator": "lt", "value": 2},
                    {"type": "rule", "field": "contact.email", "operator": "exists"},
                ]},
            ]}),
            "Condition",
            "event.a = b and (event.n < 2 or contact.email exists)",
        ),
    ] {
        let (_, found, about) = step(kind, config);
        assert_eq!((found, about.as_str()), (label, detail));
    }
}

/// The vertical pieces of a line: across, from, to.
fn verticals(line: &str) -> Vec<(i32, i32, i32)> {
    let numbers: Vec<i32> =
        line.split(|char: char| !char.is_ascii_digit() && char != '-').filter_map(|part| part.parse().ok()).collect();
    match numbers[..] {
        [x, top, bottom] => vec![(x, top, bottom)],
        // M x y V v q 0 r s r H h q s 0 s r V bottom
        [x, top, first, _, _, _, _, _, step, _, _, corner, bottom] => {
            let end = numbers[7] + step;
            vec![(x, top, first), (end, first + 2 * corner, bottom)]
        }
        _ => panic!("{line}"),
    }
}

proptest! {
    /// Whatever the graph: no two boxes touch, and no arrow runs through one.
    #[test]
    fn nothing_stands_in_the_way(links in prop::collection::btree_map((1usize..8, 0usize..2), 2usize..8, 1..12)) {
        let key = |at: usize| if at == 0 { "start".to_owned() } else { format!("c{at}") };
        let mut steps = vec![trigger()];
        steps.extend((1..8).map(|at| condition(&key(at))));
        let mut connections = vec![json!({"from": "start", "to": "c1"})];
        connections.extend(links.iter().filter(|((from, _), to)| from < *to).map(|((from, way), to)| {
            json!({"from": key(*from), "to": key(*to), "type": (["condition_met", "condition_not_met"][*way])})
        }));
        // What is not reached is led to from the step before it, if that has a way left.
        for at in 2..8 {
            let reached = connections.iter().any(|one| one["to"] == key(at));
            let free = ["condition_met", "condition_not_met"].into_iter().find(|kind| {
                !connections.iter().any(|one| one["from"] == key(at - 1) && one["type"] == *kind)
            });
            if let (false, Some(kind)) = (reached, free) {
                connections.push(json!({"from": key(at - 1), "to": key(at), "type": kind}));
            }
        }
        let Ok(graph) = Graph::parse(&json!(steps), &json!(connections)) else { return Ok(()) };
        let picture = Picture::draw(&graph, &Names::default(), |_| "");
        for (at, one) in picture.boxes.iter().enumerate() {
            prop_assert!(one.x >= 0 && one.y >= 0);
            prop_assert!(one.x + BOX_WIDTH <= picture.width && one.y + BOX_HEIGHT <= picture.height);
            for other in &picture.boxes[at + 1..] {
                let apart = (one.x - other.x).abs() >= BOX_WIDTH || (one.y - other.y).abs() >= BOX_HEIGHT;
                prop_assert!(apart, "{} and {}", one.key, other.key);
            }
        }
        for arrow in &picture.arrows {
            for (x, from, to) in verticals(&arrow.line) {
                let through = |one: &&StepBox| x > one.x && x < one.x + BOX_WIDTH && from < one.y + BOX_HEIGHT && to > one.y;
                let struck = picture.boxes.iter().find(through);
                prop_assert!(struck.is_none(), "{} runs through {:?}", arrow.line, struck);
            }
        }
    }
}

#[test]
fn what_does_not_fit_into_a_box_ends_in_dots_however_broad_its_letters() {
    let picture =
        draw(json!([{"key": "k".repeat(100), "type": "trigger", "config": {"event_name": "user.created"}}]), json!([]));
    let of = |detail: &str| StepBox { detail: detail.to_owned(), ..picture.boxes[0].clone() };
    assert_eq!(of("user.created").short_detail(), "user.created");
    assert_eq!(of(&"e".repeat(19)).short_detail(), "e".repeat(19));
    assert_eq!(of(&"e".repeat(24)).short_detail(), format!("{}…", "e".repeat(17)));
    assert_eq!(of(&"W".repeat(24)).short_detail(), format!("{}…", "W".repeat(9)));
    assert_eq!(of(&"漢".repeat(24)).short_detail(), format!("{}…", "漢".repeat(10)));
    assert_eq!(picture.boxes[0].short_key(), format!("{}…", "k".repeat(20)));
}
