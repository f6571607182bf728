//! Whatever happens to contacts and filters at the same time, who is in a segment that fills itself is who belongs into
//! it. Two processes share the store.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::contacts::add;
use crate::harness::{TestApp, on_both};
use crate::segments_filling::{DAY, filling, members, rule, within, work};
use crate::topics::topic;

const PEOPLE: usize = 6;
const CALLERS: u64 = 6;
const STEPS: usize = 12;
const ROUNDS: u64 = 3;

/// The same numbers for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn leaf(&mut self, topic: &str) -> Value {
        match self.below(8) {
            0 => rule("contact.properties.plan", "eq", json!(self.plan())),
            1 => rule("contact.plan", "neq", json!(self.plan())),
            2 => rule("contact.unsubscribed", "eq", json!(self.below(2) == 0)),
            3 => rule("contact.email", "starts_with", json!(format!("p{}", self.below(3)))),
            4 => rule(&format!("topics.{topic}"), "eq", json!(self.choice())),
            5 => within("seen", "gte", 1 + self.below(2), "3 days"),
            6 => rule("events.seen", "lt", json!(1 + self.below(2))),
            _ => within("paid", "eq", self.below(2), "5 days"),
        }
    }

    fn tree(&mut self, topic: &str, depth: u64) -> Value {
        if depth == 0 || self.below(3) == 0 {
            return self.leaf(topic);
        }
        let kind = if self.below(2) == 0 { "and" } else { "or" };
        let rules: Vec<Value> = (0..1 + self.below(3)).map(|_| self.tree(topic, depth - 1)).collect();
        json!({"type": kind, "rules": rules})
    }

    fn plan(&mut self) -> &'static str {
        ["pro", "free"][self.below(2) as usize]
    }

    fn choice(&mut self) -> &'static str {
        ["opt_in", "opt_out"][self.below(2) as usize]
    }

    fn email(&mut self) -> String {
        format!("p{}@b", self.below(PEOPLE as u64))
    }
}

/// What the store says of everybody, read in other ways than those that judge.
struct World {
    contacts: BTreeMap<String, Value>,
    topics: BTreeMap<String, String>,
    /// By address and event: when it happened.
    events: Vec<(String, String, i64)>,
    now: i64,
}

impl World {
    async fn read(app: &TestApp, key: &str) -> World {
        let list = app.get("/contacts").key(key).send().await.json();
        let (mut contacts, mut topics, mut events) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut emails = BTreeMap::new();
        for item in list["data"].as_array().expect("a list") {
            let (id, email) = (item["id"].as_str().expect("an id"), item["email"].as_str().expect("an address"));
            contacts.insert(email.to_owned(), app.get(format!("/contacts/{id}")).key(key).send().await.json());
            let chosen = app.get(format!("/contacts/{id}/topics")).key(key).send().await.json();
            topics.insert(email.to_owned(), chosen["data"][0]["subscription"].as_str().expect("a choice").to_owned());
            emails.insert(id.to_owned(), email.to_owned());
        }
        let (sqlite, postgres) = ("lower(hex(contact_id))", "replace(CAST(contact_id AS TEXT), '-', '')");
        let id = if app.app.db.engine_name() == "sqlite" { sqlite } else { postgres };
        for row in app.store.rows(&format!("SELECT {id}, name, CAST(created_at AS TEXT) FROM occurrences")).await {
            let [Some(id), Some(name), Some(at)] = &row[..] else { panic!("{row:?}") };
            let id = uuid::Uuid::parse_str(id).expect("an id").to_string();
            if let Some(email) = emails.get(&id) {
                events.push((email.clone(), name.clone(), at.parse().expect("a time")));
            }
        }
        World { contacts, topics, events, now: app.clock.now() }
    }

    fn fits(&self, email: &str, rule: &Value) -> bool {
        let rules = || rule["rules"].as_array().into_iter().flatten();
        match rule["type"].as_str().expect("a type") {
            "and" => return rules().all(|rule| self.fits(email, rule)),
            "or" => return rules().any(|rule| self.fits(email, rule)),
            _ => {}
        }
        let (field, value) = (rule["field"].as_str().expect("a field"), &rule["value"]);
        let contact = &self.contacts[email];
        let plan = contact["properties"].get("plan").map(|plan| &plan["value"]);
        match (field, rule["operator"].as_str().expect("an operator")) {
            ("contact.properties.plan", "eq") => plan == Some(value),
            ("contact.plan", "neq") => plan.is_some_and(|plan| plan != value),
            ("contact.unsubscribed", "eq") => &contact["unsubscribed"] == value,
            ("contact.email", "starts_with") => email.starts_with(value.as_str().expect("text")),
            (field, "eq") if field.starts_with("topics.") => self.topics[email] == value.as_str().expect("text"),
            (field, operator) => {
                let name = field.strip_prefix("events.").expect("an event");
                let window = rule["within"].as_str().map(|text| text[..1].parse::<i64>().expect("days") * DAY);
                let is_counted = |(whom, what, at): &&(String, String, i64)| {
                    whom == email && what == name && window.is_none_or(|window| *at > self.now - window)
                };
                let (count, value) =
                    (self.events.iter().filter(is_counted).count() as u64, value.as_u64().expect("a number"));
                match operator {
                    "gte" => count >= value,
                    "lt" => count < value,
                    "eq" => count == value,
                    other => panic!("{other}"),
                }
            }
        }
    }
}

/// One caller does as chance will have it. Conflicts are fine: others were faster.
async fn meddle(app: &TestApp, key: &str, (topic, segments): (&str, &[String]), mut chance: Chance) {
    for _ in 0..STEPS {
        let email = chance.email();
        let plan = chance.plan();
        let answer = match chance.below(14) {
            0 | 1 => {
                let body = json!({"email": email, "properties": {"plan": plan}});
                app.post("/contacts").key(key).json(body).send().await
            }
            2..=4 => {
                let body = json!({"properties": {"plan": plan}, "unsubscribed": chance.below(2) == 0});
                app.patch(format!("/contacts/{email}")).key(key).json(body).send().await
            }
            5 => app.delete(format!("/contacts/{email}")).key(key).send().await,
            6 | 7 => {
                let body = json!([{"id": topic, "subscription": chance.choice()}]);
                app.patch(format!("/contacts/{email}/topics")).key(key).json(body).send().await
            }
            8..=11 => {
                let event = ["seen", "paid"][chance.below(2) as usize];
                app.post("/events/send").key(key).json(json!({"event": event, "email": email})).send().await
            }
            12 => {
                let segment = &segments[chance.below(segments.len() as u64) as usize];
                let body = json!({"filter": chance.tree(topic, 2)});
                app.patch(format!("/segments/{segment}")).key(key).json(body).send().await
            }
            _ => {
                posthorn::contacts::judging_round(app.app.occurrences()).await.expect("a round");
                continue;
            }
        };
        assert!(answer.status < 500 && answer.status != 422, "{} {}", answer.status, answer.text());
    }
}

async fn judged_as_they_should_be(app: &TestApp, key: &str, segments: &[String], about: &str) {
    let world = World::read(app, key).await;
    for id in segments {
        let shown = app.get(format!("/segments/{id}")).key(key).send().await.json();
        let fitting = world.contacts.keys().filter(|email| world.fits(email, &shown["filter"]));
        let expected: Vec<&str> = fitting.map(|email| &email[..2]).collect();
        assert_eq!(members(app, key, id).await, expected, "{about}: {}", shown["filter"]);
    }
}

on_both! {
    async fn issue_13_maintained_membership_equals_a_full_evaluation(app: TestApp) {
        let key = app.full_key().await;
        let other = TestApp::open(&app.store, &[]).await;
        let body = json!({"key": "plan", "type": "string"});
        assert_eq!(app.post("/contact-properties").key(&key).json(body).send().await.status, 201);
        let topic = topic(&app, &key, "News", "opt_in").await;
        for seed in 0..ROUNDS {
            let mut chance = Chance(seed + 1);
            let mut segments = Vec::new();
            for _ in 0..4 {
                segments.push(filling(&app, &key, chance.tree(&topic, 2)).await);
            }
            if seed == 0 {
                add(&app, &key, json!({"email": "p0@b"})).await;
            }
            let scene = (&*topic, &*segments);
            let callers = (0..CALLERS).map(|caller| {
                let app = if caller % 2 == 0 { &app } else { &other };
                meddle(app, &key, scene, Chance(seed * 1_000 + caller))
            });
            join_all(callers).await;
            // What another process held in its hands is settled by now.
            for days in 0..7 {
                let about = format!("seed {seed}, {days} days later");
                for clock in [&app.clock, &other.clock] {
                    clock.advance(DAY);
                }
                tokio::join!(work(&app), work(&other));
                judged_as_they_should_be(&app, &key, &segments, &about).await;
                if days == 3 {
                    join_all((0..2).map(|caller| meddle(&other, &key, scene, Chance(seed * 77 + caller)))).await;
                }
            }
        }
    }
}
