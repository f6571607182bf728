//! Runs, step by step.

mod windows;

use std::collections::HashMap;

use serde_json::json;
use uuid::Uuid;

use super::advance::MOST_CALLS;
use super::*;
use crate::clock::{Clock, HOUR};
use crate::rules::Budget;
use crate::windows::{Window, Zone};

fn graph(steps: Value, connections: Value) -> Graph {
    let mut all = vec![json!({"key": "start", "type": "trigger", "config": {"event_name": "e"}})];
    all.extend(steps.as_array().cloned().unwrap_or_default());
    Graph::parse(&json!(all), &connections).expect("a graph")
}

fn chain(steps: Value) -> Graph {
    let keys: Vec<Value> = steps.as_array().into_iter().flatten().map(|step| step["key"].clone()).collect();
    let mut from = json!("start");
    let mut connections = Vec::new();
    for key in keys {
        connections.push(json!({"from": from, "to": key}));
        from = key;
    }
    graph(steps, json!(connections))
}

/// Contacts whose `age` is a number.
struct AgeIsNumber;

impl ContactRules for AgeIsNumber {
    fn check(&self, changes: &Value) -> Result<(), String> {
        match changes.pointer("/properties/age") {
            Some(age) if !age.is_number() => Err("`age` is a number".into()),
            _ => Ok(()),
        }
    }
}

struct Scene {
    graph: Graph,
    run: Run,
    now: i64,
    event: Value,
    contact: Option<Value>,
    heard: Vec<Heard>,
    exit_on: Option<String>,
    send_window: Option<Window>,
}

impl Scene {
    fn new(graph: Graph) -> Scene {
        let run = Run::start(Uuid::from_u128(1).into(), &graph);
        let contact = json!({"email": "a@b.co", "unsubscribed": false, "properties": {}});
        Scene {
            graph,
            run,
            now: 0,
            event: json!({"plan": "pro"}),
            contact: Some(contact),
            heard: vec![],
            exit_on: None,
            send_window: None,
        }
    }

    fn world<T>(&mut self, act: impl FnOnce(&mut Run, &Graph, &mut World<'_>) -> T) -> T {
        let segments = self.graph.segment_ids().filter(|id| id.to_string().ends_with('1')).collect();
        let budget = Budget::default();
        let mut world = World {
            now: self.now,
            steady: self.now,
            event: &self.event,
            contact: self.contact.clone(),
            heard: &self.heard,
            history: HistoryPart::WHOLE,
            is_ended: self.exit_on.as_ref().is_some_and(|name| self.heard.iter().any(|heard| heard.name == *name)),
            may_call: true,
            segments: &segments,
            refused_mail: &HashMap::new(),
            contact_rules: &AgeIsNumber,
            send_window: self.send_window.as_ref(),
            zone: &Zone::UTC,
            budget: &budget,
        };
        let result = act(&mut self.run, &self.graph, &mut world);
        self.contact = world.contact;
        result
    }

    fn advance(&mut self) -> Vec<Effect> {
        self.world(|run, graph, world| run.advance(graph, world))
    }

    fn hear(&mut self, name: &str, payload: Value) {
        let id = Uuid::from_u128(self.heard.len() as u128).into();
        let seq = self.heard.len() as i64 + 1;
        self.heard.push(Heard { id, seq, name: name.into(), payload, at: self.now });
    }

    fn status(&self, key: &str) -> Option<Status> {
        self.run.trace.iter().find(|entry| entry.key == key).map(|entry| entry.status)
    }
}

const MAIL: &str =
    r#"{"key":"mail","type":"send_email","config":{"template":{"id":"t","variables":{"P":{"var":"event.plan"}}}}}"#;

fn mail() -> Value {
    serde_json::from_str(MAIL).expect("json")
}

#[test]
fn a_run_sleeps_through_a_delay_and_never_wakes_early() {
    let mut scene = Scene::new(chain(json!([{"key": "d", "type": "delay", "config": {"duration": "1 hour"}}, mail()])));
    assert_eq!(scene.advance(), []);
    assert_eq!(scene.run.due_at(0), Some(HOUR));
    scene.now = HOUR - 1;
    assert_eq!(scene.advance(), []);
    assert_eq!(scene.status("d"), Some(Status::Waiting));
    scene.now = HOUR;
    let effects = scene.advance();
    assert!(matches!(&effects[..], [Effect::SendTemplate { templated, .. }] if templated.values["P"] == "pro"));
    assert_eq!(scene.run.ending(), Some(Ending::Completed));
}

#[test]
fn decisions_6_a_step_makes_the_same_message_id_however_often_it_is_taken() {
    let ids: Vec<Vec<Effect>> = (0..2).map(|_| Scene::new(chain(json!([mail()]))).advance()).collect();
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_condition_takes_one_branch_and_keeps_its_evidence() {
    let steps = json!([
        {"key": "c", "type": "condition", "config": {"type": "rule", "field": "event.plan", "operator": "eq", "value": "pro"}},
        mail(), {"key": "no", "type": "exit"},
    ]);
    let connections = json!([{"from": "start", "to": "c"}, {"from": "c", "to": "mail", "type": "condition_met"},
        {"from": "c", "to": "no", "type": "condition_not_met"}]);
    let mut scene = Scene::new(graph(steps, connections));
    assert_eq!(scene.advance().len(), 1);
    assert_eq!(scene.run.trace[1].output.as_ref().expect("output")["rules"][0]["found"], "pro");
    let history: Vec<_> = scene
        .run
        .history(&scene.graph)
        .map(|(step, entry, ahead)| (step.key.clone(), entry.is_some(), ahead))
        .collect();
    assert!(history.contains(&("no".into(), false, false)), "{history:?}");
}

#[test]
fn what_many_conditions_compared_is_kept_as_far_as_a_run_has_room_for_it() {
    let rules = vec![json!({"type": "rule", "field": "event.plan", "operator": "eq", "value": "none"}); 99];
    let config = json!({"type": "or", "rules": rules});
    let steps: Vec<Value> =
        (0..100).map(|n| json!({"key": n.to_string(), "type": "condition", "config": config})).collect();
    let link = |n: usize| match n {
        0 => json!({"from": "start", "to": "0"}),
        n => json!({"from": (n - 1).to_string(), "to": n.to_string(), "type": "condition_not_met"}),
    };
    let mut scene = Scene::new(graph(json!(steps), (0..100).map(link).collect()));
    scene.advance();
    assert_eq!(scene.run.ending(), Some(Ending::Completed));
    let output = |at: usize| scene.run.trace[at].output.as_ref().expect("output");
    assert_eq!(output(1)["rules"].as_array().map(Vec::len), Some(99));
    assert_eq!((&output(100)["met"], &output(100)["rules_left_out"]), (&json!(false), &json!(99)));
    let kept = scene.run.to_json().len();
    assert!((64 << 10..128 << 10).contains(&kept), "{kept} bytes");
}

#[test]
fn a_run_that_waited_for_more_than_it_can_keep_fails_and_says_so() {
    let waits = ["a", "b", "c", "d", "e"]
        .map(|name| json!({"key": name, "type": "wait_for_event", "config": {"event_name": name}}));
    let links = ["a", "b", "c", "d"].iter().zip(["b", "c", "d", "e"]);
    let links = links.map(|(from, to)| json!({"from": from, "to": to, "type": "event_received"}));
    let links = std::iter::once(json!({"from": "start", "to": "a"})).chain(links).collect();
    let mut scene = Scene::new(graph(json!(waits), links));
    for name in ["a", "b", "c", "d", "e"] {
        scene.advance();
        assert_eq!(scene.run.ending(), None, "{name} is waited for");
        scene.hear(name, json!({"text": "x".repeat(250 << 10)}));
    }
    scene.advance();
    assert_eq!(scene.run.ending(), Some(Ending::Failed));
    assert_eq!(
        scene.run.trace.last().and_then(|last| last.error.clone()),
        Some(json!({
            "message": "the events that the run waited for come to more than 1024 KiB"
        }))
    );
}

fn wait(timeout: Option<&str>) -> Graph {
    let steps = json!([{"key": "w", "type": "wait_for_event", "config": {"event_name": "paid", "timeout": timeout,
        "filter_rule": {"type": "rule", "field": "event.n", "operator": "gt", "value": 1}}}, mail(), {"key": "late", "type": "exit"}]);
    let connections = json!([{"from": "start", "to": "w"}, {"from": "w", "to": "mail", "type": "event_received"},
        {"from": "w", "to": "late", "type": "timeout"}]);
    graph(steps, connections)
}

#[test]
fn a_wait_ends_with_the_event_that_passes_the_filter() {
    let mut scene = Scene::new(wait(None));
    scene.advance();
    assert_eq!((scene.run.due_at(0), scene.run.waiting_for(&scene.graph)), (None, Some("paid")));
    scene.hear("paid", json!({"n": 1}));
    scene.hear("other", json!({"n": 9}));
    assert_eq!(scene.advance(), []);
    scene.hear("paid", json!({"n": 2}));
    assert_eq!(scene.advance().len(), 1);
    assert_eq!(scene.run.waited["paid"], json!({"n": 2}));
}

#[test]
fn decisions_6_event_or_timeout_is_decided_by_when_the_event_happened() {
    for (at, branch) in [(HOUR - 1, "mail"), (HOUR, "mail"), (HOUR + 1, "late")] {
        let mut scene = Scene::new(wait(Some("1 hour")));
        scene.advance();
        scene.now = at;
        scene.hear("paid", json!({"n": 2}));
        // Nobody looks until long after both.
        scene.now = 5 * HOUR;
        scene.advance();
        assert_eq!(scene.status(branch), Some(Status::Completed), "event at {at}");
        assert_eq!(scene.run.trace.len(), 3);
    }
}

#[test]
fn decisions_6_an_event_counts_from_the_moment_the_run_started_and_ends_one_wait_only() {
    let first = json!({"key": "w1", "type": "wait_for_event", "config": {"event_name": "paid"}});
    let second = json!({"key": "w2", "type": "wait_for_event", "config": {"event_name": "paid"}});
    let connections = json!([{"from": "start", "to": "d"}, {"from": "d", "to": "w1"},
        {"from": "w1", "to": "w2", "type": "event_received"}]);
    let delay = json!({"key": "d", "type": "delay", "config": {"duration": "1 hour"}});
    let mut scene = Scene::new(graph(json!([delay, first, second]), connections));
    scene.advance();
    scene.hear("paid", json!({}));
    scene.now = HOUR;
    scene.advance();
    assert_eq!((scene.status("w1"), scene.status("w2")), (Some(Status::Completed), Some(Status::Waiting)));
    scene.hear("paid", json!({}));
    scene.advance();
    assert_eq!(scene.run.ending(), Some(Ending::Completed));
}

#[test]
fn an_unsubscribed_contact_gets_no_mail_but_the_run_goes_on() {
    let update = json!({"key": "u", "type": "contact_update", "config": {"unsubscribed": true, "properties": {"a": {"var": "event.plan"}}}});
    let mut scene = Scene::new(chain(json!([update, mail()])));
    let effects = scene.advance();
    assert_eq!(effects, [Effect::UpdateContact { changes: json!({"unsubscribed": true, "properties": {"a": "pro"}}) }]);
    assert_eq!(scene.status("mail"), Some(Status::Skipped));
    assert_eq!(scene.run.ending(), Some(Ending::Completed));
}

#[test]
fn deleting_the_contact_ends_the_run() {
    let mut scene = Scene::new(chain(json!([{"key": "x", "type": "contact_delete"}])));
    assert_eq!(scene.advance(), [Effect::DeleteContact]);
    assert_eq!((scene.run.ending(), scene.contact), (Some(Ending::Completed), None));
    let mut gone = Scene::new(chain(json!([mail()])));
    gone.contact = None;
    assert_eq!(gone.advance(), []);
    assert_eq!(gone.run.ending(), Some(Ending::Cancelled));
}

#[test]
fn a_missing_segment_fails_its_run_and_a_retry_starts_there() {
    let id = |end: u32| format!("00000000-0000-7000-8000-00000000000{end}");
    let step = |end| json!({"key": "s", "type": "add_to_segment", "config": {"segment_id": id(end)}});
    let mut scene = Scene::new(chain(json!([step(1)])));
    assert_eq!(scene.advance(), [Effect::AddToSegment { segment_id: id(1).parse().expect("an id") }]);
    let mut failing = Scene::new(chain(json!([step(2)])));
    assert_eq!(failing.advance(), []);
    assert_eq!(failing.run.ending(), Some(Ending::Failed));
    assert!(failing.run.retry() && !scene.run.retry());
    assert_eq!(failing.run.position, Position::Ready { step: "s".into() });
}

#[test]
fn the_event_that_ends_a_run_ends_it_wherever_it_is() {
    let mut scene = Scene::new(wait(None));
    scene.exit_on = Some("cancelled".into());
    scene.advance();
    scene.hear("cancelled", json!({}));
    scene.advance();
    assert_eq!((scene.run.ending(), scene.status("w")), (Some(Ending::Cancelled), Some(Status::Skipped)));
}

#[test]
fn a_call_is_tried_again_with_the_same_id_and_given_up_in_the_end() {
    let mut scene =
        Scene::new(chain(json!([{"key": "h", "type": "webhook", "config": {"url": "https://x.test/"}}, mail()])));
    assert_eq!(scene.advance(), []);
    let first = scene.world(|run, graph, world| run.call(graph, world)).expect("a call");
    let mut attempts = 1;
    while scene.run.ending().is_none() {
        scene.world(|run, graph, world| run.called(graph, world, Err("refused".into())));
        assert_eq!(scene.world(|run, graph, world| run.call(graph, world)), None, "not before its time");
        scene.now = scene.run.due_at(scene.now).unwrap_or(scene.now);
        if let Some(again) = scene.world(|run, graph, world| run.call(graph, world)) {
            attempts += 1;
            assert_eq!((again.id, again.attempt), (first.id, attempts));
        }
    }
    assert_eq!((attempts, scene.run.ending()), (MOST_CALLS, Some(Ending::Failed)));
    assert!(scene.run.retry());
    scene.advance();
    let effects = scene.world(|run, graph, world| run.called(graph, world, Ok(json!({"status": 200}))));
    assert_eq!(effects.len(), 1);
}

#[test]
fn a_run_that_fails_at_the_event_it_waited_for_tries_again() {
    for timeout in [None, Some("1 day")] {
        let mut scene = Scene::new(wait(timeout));
        scene.advance();
        scene.run.record_failure(5, 5, "the store refuses");
        assert_eq!(scene.run.due_at(5), Some(5 + SECOND));
    }
}

#[test]
fn a_run_that_is_tried_again_may_fail_as_often_as_a_new_one() {
    let mut scene = Scene::new(wait(None));
    scene.advance();
    (0..MOST_FAILURES).for_each(|_| scene.run.record_failure(0, 0, "the store refuses"));
    assert_eq!(scene.run.ending(), Some(Ending::Failed));
    assert!(scene.run.retry());
    scene.run.record_failure(0, 0, "the store refuses");
    assert_eq!((scene.run.ending(), scene.run.due_at(0)), (None, Some(SECOND)));
}

#[test]
fn a_null_removes_a_property_and_leaves_a_subscription_as_it_is() {
    let mut contact = json!({"unsubscribed": true, "first_name": "Ada", "properties": {"a": 1, "b": 2}});
    super::advance::apply(
        &mut contact,
        &json!({"unsubscribed": null, "first_name": null, "properties": {"a": null, "c": 3}}),
    );
    assert_eq!(contact, json!({"unsubscribed": true, "first_name": null, "properties": {"b": 2, "c": 3}}));
}

#[test]
fn nobody_is_waited_for_who_is_gone() {
    let mut scene = Scene::new(wait(None));
    scene.advance();
    scene.contact = None;
    scene.advance();
    assert_eq!((scene.run.ending(), scene.status("w")), (Some(Ending::Cancelled), Some(Status::Skipped)));
    let mut timed = Scene::new(wait(Some("1 hour")));
    timed.contact = None;
    timed.advance();
    assert_eq!((timed.run.ending(), timed.run.due_at(0)), (None, Some(HOUR)), "the time still runs");
}

#[test]
fn a_run_that_was_ended_calls_nobody() {
    let mut scene = Scene::new(chain(json!([{"key": "h", "type": "webhook", "config": {"url": "https://x.test/"}}])));
    scene.exit_on = Some("cancelled".into());
    scene.advance();
    assert!(scene.world(|run, graph, world| run.call(graph, world)).is_some());
    scene.hear("cancelled", json!({}));
    assert_eq!(scene.world(|run, graph, world| run.call(graph, world)), None);
    scene.world(|run, graph, world| run.called(graph, world, Err("refused".into())));
    assert_eq!(scene.run.ending(), Some(Ending::Cancelled), "it does not wait for another try");
}

#[test]
fn a_run_reads_back_as_it_was_kept() {
    let mut scene = Scene::new(wait(Some("1 hour")));
    scene.advance();
    let kept = serde_json::to_string(&scene.run).expect("json");
    assert_eq!(serde_json::from_str::<Run>(&kept).expect("a run"), scene.run);
}

#[test]
fn a_run_that_nobody_has_brought_on_follows_from_its_graph_and_its_time() {
    for graph in [wait(None), chain(json!([{"key": "d", "type": "delay", "config": {"duration": "1 hour"}}]))] {
        let id = Clock::fixed(7).ordered_id();
        let begun = Run::stored("", id, &graph, 7).expect("a run");
        assert_eq!(begun, Run::begun(id, &graph, 7, 7));
        assert_eq!(begun.due_at(7), Some(Run::first_due(&graph, 7, 7)));
        assert_eq!(Run::stored(&begun.to_json(), id, &graph, 0), Some(begun));
    }
}

#[test]
fn a_change_that_no_contact_can_take_fails_the_run() {
    let update =
        json!([{"key": "u", "type": "contact_update", "config": {"properties": {"age": {"var": "event.age"}}}}]);
    for (age, ending) in [(json!(7), Ending::Completed), (json!("seven"), Ending::Failed)] {
        let mut scene = Scene::new(chain(update.clone()));
        scene.event = json!({"age": age});
        let effects = scene.advance();
        assert_eq!((scene.run.ending(), effects.len()), (Some(ending), usize::from(ending == Ending::Completed)));
    }
}
