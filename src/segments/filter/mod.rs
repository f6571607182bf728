//! Which contacts belong into a segment that fills itself: a tree of rules as conditions have them, over the contact,
//! what it chose of topics and what happened to it. Pure.

mod parse;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::id::{BroadcastId, TopicId};
use crate::rules::{Budget, Rule, Values};

/// How often an event can be asked to have happened.
pub const MOST_TIMES: u64 = 1_000;

/// How names begin that nobody can give to an event.
const OWN: &str = "svc:";

/// How long a filter may be, as JSON.
const LONGEST: usize = 32 << 10;

/// The rules of a segment that fills itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Contact {
        rule: Rule,
        property: Option<String>,
    },
    /// The rule sees what the contact chose, or else the topic's default.
    Topic(TopicId, Rule),
    /// The rule sees how often it happened.
    Event(EventCount, Rule),
}

/// What can have happened to a contact, as often as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// The event of this name.
    Event(String),
    /// The mail of this broadcast left for the contact.
    Broadcast(BroadcastId),
    /// The contact opened or clicked in any mail, or in a broadcast's: see [`engagement_name`].
    Engagement(String, Option<BroadcastId>),
}

/// Something that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCount {
    pub what: Counted,
    /// Stands for it in the store.
    pub key: Uuid,
    /// How many make no more difference.
    pub enough: usize,
    /// Only those are counted that are no longer ago, in microseconds.
    within: Option<i64>,
}

impl EventCount {
    /// How long ago it may have happened, in microseconds.
    pub fn within(&self) -> Option<i64> {
        self.within
    }

    /// Whether it is counted without being asked for: what contacts do with mail is.
    pub fn is_always_counted(&self) -> bool {
        matches!(self.what, Counted::Engagement(..))
    }

    /// How often it happened by `now`, and when that will be one less. `times` are the newest first.
    fn at(&self, times: &[i64], now: i64) -> (usize, Option<i64>) {
        let Some(within) = self.within else { return (times.len().min(self.enough), None) };
        let count = times.iter().take(self.enough).take_while(|at| **at > now - within).count();
        (count, count.checked_sub(1).map(|last| times[last] + within))
    }
}

/// The key of an event's name: names may be longer than an index can hold.
pub fn event_key(name: &str) -> Uuid {
    let digest: [u8; 32] = Sha256::digest(name).into();
    Uuid::from_bytes(std::array::from_fn(|at| digest[at]))
}

/// The name under which segments count that a contact opened a mail, or clicked in it: any mail, or a broadcast's. No event
/// can have it.
pub fn engagement_name(what: &str, broadcast: Option<BroadcastId>) -> String {
    match broadcast {
        Some(id) => format!("{OWN}broadcasts.{id}.{what}"),
        None => format!("{OWN}emails.{what}"),
    }
}

/// What filters are judged by.
#[derive(Debug, Default)]
pub struct Facts {
    /// As rules see it.
    pub contact: Value,
    /// What holds for the contact of each topic that is there.
    pub topics: HashMap<TopicId, String>,
    /// When events happened, by key, the newest first.
    pub events: HashMap<Uuid, Vec<i64>>,
    /// In wall time.
    pub now: i64,
}

impl Facts {
    pub fn of_contact(contact: Value) -> Facts {
        Facts { contact, ..Facts::default() }
    }
}

impl Filter {
    pub fn parse(value: &Value) -> Result<Filter, String> {
        let text = value.to_string();
        if text.len() > LONGEST {
            return Err(format!("the rules are too long: at most {LONGEST} bytes as JSON"));
        }
        Ok(Filter { root: Node::parse(value, 0, &mut 0)?, text })
    }

    /// As the store keeps it.
    pub fn stored(text: &str) -> Option<Filter> {
        Filter::parse(&serde_json::from_str(text).ok()?).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a contact belongs into the segment.
    pub fn is_met(&self, facts: &Facts) -> bool {
        self.root.is_met(facts)
    }

    /// When time alone may change what [`Filter::is_met`] says, in wall time.
    pub fn turns_at(&self, facts: &Facts) -> Option<i64> {
        let turn = |count: &EventCount| count.at(facts.events.get(&count.key).map_or(&[], Vec::as_slice), facts.now).1;
        self.events().into_iter().filter_map(turn).min()
    }

    /// Whether a change of the contact itself may change what [`Filter::is_met`] says.
    pub fn is_touched(&self, before: &Facts, after: &Facts) -> bool {
        let mut touched = false;
        self.root.each(&mut |node| {
            touched |= matches!(node, Node::Contact { .. }) && node.is_met(before) != node.is_met(after);
        });
        touched
    }

    /// Whether nothing but the contact itself is asked.
    pub fn is_of_contact_alone(&self) -> bool {
        let mut alone = true;
        self.root.each(&mut |node| alone &= !matches!(node, Node::Topic(..) | Node::Event(..)));
        alone
    }

    /// The properties of contacts that it names.
    pub fn properties(&self) -> Vec<&str> {
        let mut all = Vec::new();
        self.root.each(&mut |node| {
            if let Node::Contact { property, .. } = node {
                all.extend(property.as_deref());
            }
        });
        all
    }

    pub fn topics(&self) -> Vec<TopicId> {
        let mut all = Vec::new();
        self.root.each(&mut |node| {
            if let Node::Topic(id, _) = node {
                all.push(*id);
            }
        });
        all
    }

    /// The broadcasts that it names.
    pub fn broadcasts(&self) -> Vec<BroadcastId> {
        let of = |count: &EventCount| match count.what {
            Counted::Broadcast(id) => Some(id),
            Counted::Engagement(_, broadcast) => broadcast,
            Counted::Event(_) => None,
        };
        self.events().into_iter().filter_map(of).collect()
    }

    /// What it counts; one thing may be there more than once.
    pub fn events(&self) -> Vec<&EventCount> {
        let mut all = Vec::new();
        self.root.each(&mut |node| {
            if let Node::Event(count, _) = node {
                all.push(count);
            }
        });
        all
    }
}

impl Node {
    fn each<'a>(&'a self, visit: &mut impl FnMut(&'a Node)) {
        visit(self);
        if let Node::All(nodes) | Node::Any(nodes) = self {
            nodes.iter().for_each(|node| node.each(visit));
        }
    }

    /// What cannot be judged, because it would cost too much, is not met.
    fn is_met(&self, facts: &Facts) -> bool {
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.is_met(facts)),
            Node::Any(nodes) => nodes.iter().any(|node| node.is_met(facts)),
            Node::Contact { rule, .. } => holds(rule, &Value::Null, &facts.contact),
            Node::Topic(id, rule) => {
                facts.topics.get(id).is_some_and(|chosen| holds(rule, &json!({"value": chosen}), &Value::Null))
            }
            Node::Event(count, rule) => {
                let times = facts.events.get(&count.key).map_or(&[][..], Vec::as_slice);
                holds(rule, &json!({"value": count.at(times, facts.now).0}), &Value::Null)
            }
        }
    }
}

fn holds(rule: &Rule, event: &Value, contact: &Value) -> bool {
    let (waited, budget) = (Map::new(), Budget::default());
    rule.is_met(&Values { event, contact, waited: &waited, budget: &budget }).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::DAY;

    const TOPIC: &str = "01890000-0000-7000-8000-000000000001";
    const BROADCAST: &str = "01890000-0000-7000-8000-000000000000";

    fn leaf(field: &str, operator: &str, value: Value) -> Value {
        json!({"type": "rule", "field": field, "operator": operator, "value": value})
    }

    fn filter(value: &Value) -> Filter {
        Filter::parse(value).unwrap_or_else(|error| panic!("{value}: {error}"))
    }

    #[test]
    fn every_kind_of_field_is_judged() {
        let facts = Facts {
            contact: json!({"email": "a@b.co", "unsubscribed": false, "properties": {"plan": "pro"}}),
            topics: HashMap::from([(TOPIC.parse().expect("an id"), "opt_out".to_owned())]),
            events: HashMap::from([
                (event_key("paid"), vec![20 * DAY, 10 * DAY]),
                (BROADCAST.parse().expect("an id"), vec![25 * DAY]),
            ]),
            now: 30 * DAY,
        };
        let sent = |operator: &str, days: i64| {
            json!({"type": "rule", "field": format!("broadcasts.{BROADCAST}"), "operator": operator, "value": "sent",
                "within": format!("{days} days")})
        };
        let topic = format!("topics.{TOPIC}");
        let within = |days: i64, times: u64| {
            json!({"type": "rule", "field": "events.paid", "operator": "gte", "value": times,
                "within": format!("{days} days")})
        };
        for (rule, met) in [
            (leaf("contact.email", "ends_with", json!("@b.co")), true),
            (leaf("contact.properties.plan", "eq", json!("pro")), true),
            (leaf("contact.plan", "neq", json!("pro")), false),
            (leaf("contact.properties.none", "neq", json!("pro")), false),
            (leaf(&topic, "eq", json!("opt_out")), true),
            (leaf(&topic, "neq", json!("opt_out")), false),
            (leaf(&format!("topics.{}", Uuid::nil()), "neq", json!("opt_in")), false),
            (leaf("events.paid", "eq", json!(2)), true),
            (leaf("events.paid", "lt", json!(2)), false),
            (leaf("events.other", "eq", json!(0)), true),
            (within(20, 1), true),
            (within(20, 2), false),
            (within(21, 2), true),
            (within(10, 1), false),
            (leaf(&format!("broadcasts.{BROADCAST}"), "eq", json!("sent")), true),
            (leaf(&format!("broadcasts.{BROADCAST}"), "neq", json!("sent")), false),
            (leaf(&format!("broadcasts.{TOPIC}"), "neq", json!("sent")), true),
            (sent("eq", 6), true),
            (sent("eq", 5), false),
            (sent("neq", 5), true),
        ] {
            assert_eq!(filter(&rule).is_met(&facts), met, "{rule}");
            let all = json!({"type": "and", "rules": [rule, leaf("contact.unsubscribed", "eq", json!(false))]});
            assert_eq!(filter(&all).is_met(&facts), met, "{all}");
        }
    }

    #[test]
    fn a_window_tells_when_it_closes() {
        let rule = json!({"type": "rule", "field": "events.paid", "operator": "gte", "value": 1, "within": "20 days"});
        let filter = filter(&rule);
        let at = |times: Vec<i64>| {
            let events = HashMap::from([(event_key("paid"), times)]);
            let facts = Facts { events, now: 30 * DAY, ..Facts::default() };
            (filter.is_met(&facts), filter.turns_at(&facts))
        };
        assert_eq!(at(vec![]), (false, None));
        assert_eq!(at(vec![5 * DAY]), (false, None));
        assert_eq!(at(vec![20 * DAY, 5 * DAY]), (true, Some(40 * DAY)));
        // Of three the second decides whether there is more than one.
        assert_eq!(at(vec![25 * DAY, 20 * DAY, 15 * DAY]), (true, Some(40 * DAY)));
    }

    #[test]
    fn a_filter_tells_what_it_depends_on() {
        let topic = format!("topics.{TOPIC}");
        let tree = json!({"type": "or", "rules": [
            leaf("contact.email", "exists", Value::Null), leaf("contact.plan", "exists", Value::Null),
            leaf("contact.properties.seats", "gt", json!(1)),
        ]});
        let contact = filter(&tree);
        assert!(contact.is_of_contact_alone());
        assert_eq!(contact.properties(), ["plan", "seats"]);
        let all = filter(&json!({"type": "and", "rules": [tree, leaf(&topic, "eq", json!("opt_in")),
            leaf("events.a.b", "eq", json!(0))]}));
        assert!(!all.is_of_contact_alone());
        assert_eq!(all.topics().len(), 1);
        let counted: Vec<_> = all.events().iter().map(|count| (count.what.clone(), count.enough)).collect();
        assert_eq!(counted, [(Counted::Event("a.b".into()), 1)]);
        assert_eq!(Filter::stored(all.as_str()), Some(all));
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_reason() {
        let topic = format!("topics.{TOPIC}");
        let mut deep = leaf("contact.email", "exists", Value::Null);
        for _ in 0..9 {
            deep = json!({"type": "and", "rules": [deep]});
        }
        let many = json!({"type": "or", "rules": vec![leaf("contact.email", "exists", Value::Null); 100]});
        let windowed = |within: Value| json!({"type": "rule", "field": "events.a", "operator": "gte", "value": 1, "within": within});
        for (rule, word) in [
            (json!({"a": 1}), "`type`"),
            (json!([]), "`type`"),
            (json!({"type": "and", "rules": []}), "`rules`"),
            (json!({"type": "rule"}), "`field`"),
            (leaf("event.plan", "eq", json!(1)), "`contact.`"),
            (leaf("plan", "eq", json!(1)), "`contact.`"),
            (leaf("contact.", "eq", json!(1)), "`contact.`"),
            (leaf("contact.email", "like", json!(1)), "`starts_with`"),
            (leaf("contact.seats", "gt", json!("1")), "a number"),
            (leaf("topics.x", "eq", json!("opt_in")), "UUID"),
            (leaf(&topic, "contains", json!("opt_in")), "`neq`"),
            (leaf(&topic, "eq", json!("yes")), "`opt_out`"),
            (leaf("events.", "gte", json!(1)), "name of an event"),
            (leaf("events.svc:email.sent", "gte", json!(1)), "system event"),
            (leaf("events.a", "exists", Value::Null), "`gte`"),
            (leaf("events.a", "gte", json!(-1)), "1000"),
            (leaf("events.a", "gte", json!(1.5)), "1000"),
            (leaf("events.a", "gte", json!(1001)), "1000"),
            (leaf("broadcasts.x", "eq", json!("sent")), "UUID"),
            (leaf(&format!("broadcasts.{BROADCAST}"), "gt", json!("sent")), "`neq`"),
            (leaf(&format!("broadcasts.{BROADCAST}"), "eq", json!("opened")), "`sent`"),
            (windowed(json!("soon")), "730 days"),
            (windowed(json!("731 days")), "730 days"),
            (windowed(json!("0 days")), "longer than nothing"),
            (windowed(json!(30)), "a duration"),
            (deep, "8 deep"),
            (many, "at most 100"),
            (leaf("contact.email", "eq", json!("x".repeat(40_000))), "32768"),
        ] {
            let error = Filter::parse(&rule).expect_err("refused");
            assert!(error.contains(word), "{rule}: {error}");
        }
    }
}
