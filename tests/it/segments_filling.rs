//! Segments that fill themselves.

use posthorn::contacts;
use serde_json::{Value, json};

use crate::contacts::{add, ids};
use crate::harness::{TestApp, on_both};
use crate::topics::topic;

pub const DAY: i64 = 86_400_000_000;
const LEASE: i64 = 20_000_000;

/// Longer than it takes until a filling has settled.
const SETTLED: i64 = 31_000_000;

pub fn rule(field: &str, operator: &str, value: Value) -> Value {
    json!({"type": "rule", "field": field, "operator": operator, "value": value})
}

pub fn within(name: &str, operator: &str, times: u64, window: &str) -> Value {
    json!({"type": "rule", "field": format!("events.{name}"), "operator": operator, "value": times, "within": window})
}

pub async fn filling(app: &TestApp, key: &str, filter: Value) -> String {
    let answer = app.post("/segments").key(key).json(json!({"name": "S", "filter": filter})).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

/// Judges until nothing is due.
pub async fn work(app: &TestApp) {
    while contacts::judging_round(app.app.occurrences()).await.expect("a round") {}
}

async fn show(app: &TestApp, key: &str, id: &str) -> Value {
    let answer = app.get(format!("/segments/{id}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Who is in the segment, by the start of their addresses. What is counted is what is listed.
pub async fn members(app: &TestApp, key: &str, id: &str) -> Vec<String> {
    let list = app.get(format!("/segments/{id}/contacts")).key(key).send().await.json();
    let name = |item: &Value| item["email"].as_str().expect("an address").split('@').next().map(str::to_owned);
    let mut names: Vec<String> = list["data"].as_array().expect("a list").iter().filter_map(name).collect();
    names.sort();
    assert_eq!(show(app, key, id).await["contacts_count"], names.len());
    names
}

async fn declare(app: &TestApp, key: &str, property: &str, kind: &str) {
    let answer = app.post("/contact-properties").key(key).json(json!({"key": property, "type": kind})).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

async fn patch(app: &TestApp, key: &str, path: &str, body: Value) {
    let answer = app.patch(path).key(key).json(body).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
}

async fn happen(app: &TestApp, key: &str, event: &str, email: &str) {
    let answer = app.post("/events/send").key(key).json(json!({"event": event, "email": email})).send().await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

on_both! {
    async fn a_filter_finds_those_who_were_there_before_it(app: TestApp) {
        let key = app.full_key().await;
        declare(&app, &key, "plan", "string").await;
        add(&app, &key, json!({"email": "a@b", "properties": {"plan": "pro"}})).await;
        add(&app, &key, json!({"email": "b@b", "properties": {"plan": "free"}})).await;
        add(&app, &key, json!({"email": "c@b", "properties": {"plan": "pro"}, "unsubscribed": true})).await;
        let filter = json!({"type": "and", "rules": [
            rule("contact.properties.plan", "eq", json!("pro")), rule("contact.unsubscribed", "eq", json!(false)),
        ]});
        let id = filling(&app, &key, filter.clone()).await;
        let before = show(&app, &key, &id).await;
        assert_eq!((&before["filter"], &before["filling"]), (&filter, &json!(true)));
        work(&app).await;
        assert_eq!(members(&app, &key, &id).await, ["a"]);
        assert_eq!(show(&app, &key, &id).await["filling"], false);
        patch(&app, &key, &format!("/segments/{id}"), json!({"filter": rule("contact.plan", "neq", json!("x"))})).await;
        assert_eq!(show(&app, &key, &id).await["filling"], true);
        work(&app).await;
        assert_eq!(members(&app, &key, &id).await, ["a", "b", "c"]);
        app.clock.advance(SETTLED);
        work(&app).await;
        assert_eq!(app.store.value("SELECT COUNT(*) FROM segments WHERE due_at IS NOT NULL").await.as_deref(), Some("0"));
    }

    /// Nobody works here but the requests themselves.
    async fn a_contact_moves_in_the_commit_that_changes_it(app: TestApp) {
        let key = app.full_key().await;
        declare(&app, &key, "seats", "number").await;
        let large = filling(&app, &key, rule("contact.seats", "gte", json!(10))).await;
        let everybody = filling(&app, &key, rule("contact.email", "exists", Value::Null)).await;
        work(&app).await;
        add(&app, &key, json!({"email": "a@b", "properties": {"seats": 10}})).await;
        add(&app, &key, json!({"email": "b@b"})).await;
        happen(&app, &key, "signed.up", "c@b").await;
        happen(&app, &key, "signed.up", "a@b").await;
        assert_eq!(members(&app, &key, &large).await, ["a"]);
        assert_eq!(members(&app, &key, &everybody).await, ["a", "b", "c"]);
        patch(&app, &key, "/contacts/a@b", json!({"properties": {"seats": 9}})).await;
        patch(&app, &key, "/contacts/c@b", json!({"properties": {"seats": 11}, "first_name": "C"})).await;
        assert_eq!(members(&app, &key, &large).await, ["c"]);
        app.delete("/contacts/c@b").key(&key).send().await;
        assert_eq!((members(&app, &key, &large).await.len(), members(&app, &key, &everybody).await.len()), (0, 2));
        assert_eq!(app.count("segment_due").await, 0, "nothing is left to be judged");
    }

    async fn what_happened_counts_and_is_forgotten_when_its_window_closes(app: TestApp) {
        let key = app.full_key().await;
        for (email, times) in [("a@b", 1), ("b@b", 3)] {
            for _ in 0..times {
                happen(&app, &key, "order.paid", email).await;
            }
        }
        add(&app, &key, json!({"email": "c@b"})).await;
        let lately = filling(&app, &key, within("order.paid", "gte", 1, "30 days")).await;
        let often = filling(&app, &key, rule("events.order.paid", "gte", json!(3))).await;
        let never = filling(&app, &key, rule("events.order.paid", "eq", json!(0))).await;
        work(&app).await;
        let all = async || {
            let mut all = Vec::new();
            for id in [&lately, &often, &never] {
                all.push(members(&app, &key, id).await.join(" "));
            }
            all
        };
        assert_eq!(all().await, ["a b", "b", "c"], "what happened before");
        app.clock.advance(20 * DAY);
        happen(&app, &key, "order.paid", "a@b").await;
        happen(&app, &key, "order.paid", "c@b").await;
        happen(&app, &key, "order.shipped", "d@b").await;
        work(&app).await;
        assert_eq!(all().await, ["a b c", "b", "d"]);
        app.clock.advance(10 * DAY - 1);
        work(&app).await;
        assert_eq!(all().await, ["a b c", "b", "d"]);
        app.clock.advance(1);
        work(&app).await;
        assert_eq!(all().await, ["a c", "b", "d"], "the first were thirty days ago");
        app.clock.advance(20 * DAY);
        work(&app).await;
        assert_eq!(all().await, ["", "b", "d"]);
        assert_eq!(app.count("segment_due").await, 0);
        app.delete("/contacts/b@b").key(&key).send().await;
        assert_eq!(app.count("segment_events").await, 3, "a contact that goes is forgotten");
    }

    async fn what_contacts_choose_of_topics_counts(app: TestApp) {
        let key = app.full_key().await;
        let news = topic(&app, &key, "News", "opt_in").await;
        let wanted = filling(&app, &key, rule(&format!("topics.{news}"), "eq", json!("opt_in"))).await;
        let unwanted = filling(&app, &key, rule(&format!("topics.{news}"), "neq", json!("opt_in"))).await;
        work(&app).await;
        add(&app, &key, json!({"email": "a@b"})).await;
        add(&app, &key, json!({"email": "b@b", "topics": [{"id": news, "subscription": "opt_out"}]})).await;
        work(&app).await;
        assert_eq!(members(&app, &key, &wanted).await, ["a"]);
        assert_eq!(members(&app, &key, &unwanted).await, ["b"]);
        for (contact, choice) in [("a@b", "opt_out"), ("b@b", "opt_in")] {
            let body = json!({"topics": [{"id": news, "subscription": choice}]});
            patch(&app, &key, &format!("/contacts/{contact}/topics"), body).await;
        }
        work(&app).await;
        assert_eq!((members(&app, &key, &wanted).await, members(&app, &key, &unwanted).await), (vec!["b".into()], vec!["a".into()]));
        app.delete(format!("/topics/{news}")).key(&key).send().await;
        work(&app).await;
        assert_eq!((members(&app, &key, &wanted).await, members(&app, &key, &unwanted).await), (vec![], vec![]), "nobody chose what is not there");
    }

    async fn who_is_in_a_segment_that_fills_itself_is_not_set_by_hand(app: TestApp) {
        let key = app.full_key().await;
        let id = filling(&app, &key, rule("contact.first_name", "eq", json!("A"))).await;
        let contact = add(&app, &key, json!({"email": "a@b", "first_name": "A"})).await;
        let other = add(&app, &key, json!({"email": "b@b"})).await;
        let refused = [
            app.post(format!("/contacts/{other}/segments/{id}")).key(&key).send().await,
            app.delete(format!("/contacts/{contact}/segments/{id}")).key(&key).send().await,
            app.post("/contacts").key(&key).json(json!({"email": "c@b", "segments": [id]})).send().await,
            app.post(format!("/audiences/{id}/contacts")).key(&key).json(json!({"email": "b@b"})).send().await,
        ];
        for answer in refused {
            assert!(answer.refused(422, "validation_error").contains("fills itself"));
        }
        assert_eq!(members(&app, &key, &id).await, ["a"]);

        patch(&app, &key, &format!("/segments/{id}"), json!({"filter": null})).await;
        assert_eq!(show(&app, &key, &id).await["filter"], Value::Null);
        patch(&app, &key, "/contacts/a@b", json!({"first_name": "B"})).await;
        work(&app).await;
        assert_eq!(members(&app, &key, &id).await, ["a"], "who was in it stays");
        assert_eq!(app.post(format!("/contacts/{other}/segments/{id}")).key(&key).send().await.status, 200);
        assert_eq!(members(&app, &key, &id).await, ["a", "b"]);

        let filter = rule("contact.first_name", "eq", json!("B"));
        patch(&app, &key, &format!("/segments/{id}"), json!({"filter": filter, "name": "Bs"})).await;
        work(&app).await;
        assert_eq!(members(&app, &key, &id).await, ["a"], "who does not fit goes");
        assert_eq!(show(&app, &key, &id).await["name"], "Bs");
        patch(&app, &key, &format!("/segments/{id}"), json!({"filter": {}})).await;
        patch(&app, &key, &format!("/segments/{id}"), json!({})).await;
        assert_eq!(show(&app, &key, &id).await["filter"], Value::Null, "an empty one is none");
        app.delete(format!("/segments/{id}")).key(&key).send().await;
        assert_eq!(app.count("segment_members").await, 0);
    }

    async fn issue_13_a_rule_on_what_is_not_there_is_refused_by_name(app: TestApp) {
        let (key, theirs) = (app.full_key().await, app.second_workspace_key().await);
        declare(&app, &theirs, "plan", "string").await;
        let foreign = topic(&app, &theirs, "News", "opt_in").await;
        let segment = app.post("/segments").key(&key).json(json!({"name": "s"})).send().await.json();
        for (filter, word) in [
            (rule("contact.properties.plan", "eq", json!("pro")), "`plan`"),
            (rule("contact.plan", "eq", json!("pro")), "`plan`"),
            (rule(&format!("topics.{foreign}"), "eq", json!("opt_in")), foreign.as_str()),
            (json!({"type": "or"}), "`rules`"),
            (rule("event.x", "exists", Value::Null), "`contact.`"),
            (json!(1), "`type`"),
        ] {
            let refused = [
                app.post("/segments").key(&key).json(json!({"name": "S", "filter": filter})).send().await,
                app.post("/audiences").key(&key).json(json!({"name": "S", "filter": filter})).send().await,
                app.post("/segments/preview").key(&key).json(json!({"filter": filter})).send().await,
                app.patch(format!("/segments/{}", segment["id"].as_str().expect("an id"))).key(&key)
                    .json(json!({"filter": filter})).send().await,
            ];
            for answer in refused {
                let message = answer.refused(422, "validation_error");
                assert!(message.contains("`filter`") && message.contains(word), "{message}");
            }
        }
        assert_eq!(app.count("segments").await, 1);
    }

    async fn a_preview_tells_who_would_be_in_it(app: TestApp) {
        let key = app.full_key().await;
        let news = topic(&app, &key, "News", "opt_out").await;
        for n in 0..12 {
            let choice = if n < 3 { "opt_in" } else { "opt_out" };
            let topics = json!([{"id": news, "subscription": choice}]);
            add(&app, &key, json!({"email": format!("c{n}@b"), "topics": topics})).await;
        }
        happen(&app, &key, "seen", "c1@b").await;
        happen(&app, &key, "seen", "c1@b").await;
        happen(&app, &key, "seen", "c7@b").await;
        let preview = async |filter: Value| {
            let answer = app.post("/segments/preview").key(&key).json(json!({"filter": filter})).send().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let preview = answer.json();
            assert_eq!((&preview["object"], &preview["exact"]), (&json!("segment_preview"), &json!(true)));
            let names = preview["contacts"].as_array().expect("a list").iter().map(|item| item["email"].clone());
            (preview["contacts_count"].as_i64().expect("a number"), Value::from_iter(names))
        };
        let (all, newest) = preview(rule("contact.email", "exists", Value::Null)).await;
        assert_eq!((all, &newest[0], newest.as_array().map(Vec::len)), (12, &json!("c11@b"), Some(10)));
        let wanted = preview(rule(&format!("topics.{news}"), "eq", json!("opt_in"))).await;
        assert_eq!(wanted, (3, json!(["c2@b", "c1@b", "c0@b"])));
        assert_eq!(preview(within("seen", "gte", 2, "1 day")).await, (1, json!(["c1@b"])));
        assert_eq!(preview(rule("events.seen", "gte", json!(1))).await, (2, json!(["c7@b", "c1@b"])));
        assert_eq!((app.count("segments").await, app.count("segment_events").await), (0, 0), "nothing is kept");
    }

    async fn as_many_fill_themselves_as_may(app: TestApp) {
        let key = app.full_key().await;
        let filter = rule("contact.unsubscribed", "eq", json!(true));
        for _ in 0..100 {
            filling(&app, &key, filter.clone()).await;
        }
        let more = app.post("/segments").key(&key).json(json!({"name": "S", "filter": filter})).send().await;
        assert!(more.refused(422, "validation_error").contains("100"));
        let plain = app.post("/segments").key(&key).json(json!({"name": "S"})).send().await;
        let path = format!("/segments/{}", plain.json()["id"].as_str().expect("an id"));
        let more = app.patch(&path).key(&key).json(json!({"filter": filter})).send().await;
        assert!(more.refused(422, "validation_error").contains("100"));
        patch(&app, &key, &path, json!({"name": "T"})).await;
    }

    /// A process dies in the middle; another one goes on where it was, after the lease.
    async fn a_fill_that_broke_off_is_gone_on_with(app: TestApp) {
        let key = app.full_key().await;
        many(&app, 450).await;
        let id = filling(&app, &key, rule("contact.email", "starts_with", json!("m"))).await;
        let occurrences = app.app.occurrences();
        let mut claimed = contacts::claim_segment(occurrences).await.expect("a claim").expect("a segment");
        assert!(contacts::fill_step(occurrences, &mut claimed, false).await.expect("a step"));
        assert_eq!(show(&app, &key, &id).await["contacts_count"], 200);
        work(&app).await;
        assert_eq!(show(&app, &key, &id).await["contacts_count"], 200, "it is another's");
        app.clock.advance(LEASE);
        work(&app).await;
        let shown = show(&app, &key, &id).await;
        assert_eq!((&shown["contacts_count"], &shown["filling"]), (&json!(450), &json!(false)));
        let late = contacts::fill_step(occurrences, &mut claimed, false).await;
        assert!(late.is_err(), "whoever overslept the lease writes nothing");
    }

    async fn a_filter_that_changes_while_it_fills_is_filled_by_its_last(app: TestApp) {
        let key = app.full_key().await;
        many(&app, 450).await;
        let id = filling(&app, &key, rule("contact.email", "starts_with", json!("m"))).await;
        let occurrences = app.app.occurrences();
        let mut claimed = contacts::claim_segment(occurrences).await.expect("a claim").expect("a segment");
        contacts::fill_step(occurrences, &mut claimed, false).await.expect("a step");
        let filter = rule("contact.email", "ends_with", json!("1@b"));
        patch(&app, &key, &format!("/segments/{id}"), json!({"filter": filter})).await;
        assert!(contacts::fill_step(occurrences, &mut claimed, false).await.is_err(), "the old one stops");
        work(&app).await;
        let shown = show(&app, &key, &id).await;
        assert_eq!((&shown["contacts_count"], &shown["filling"]), (&json!(45), &json!(false)));
    }

    /// Between the look at some contacts and the commit one of them changes, and its change knows nothing of the filter.
    async fn a_contact_that_changes_while_it_is_judged_is_judged_anew(app: TestApp) {
        let key = app.full_key().await;
        let contact = add(&app, &key, json!({"email": "a@b", "first_name": "A"})).await;
        let id = filling(&app, &key, rule("contact.first_name", "eq", json!("A"))).await;
        let occurrences = app.app.occurrences();
        let lock = app.store.hold("UPDATE contacts SET first_name = 'B', sequence = sequence + 1").await;
        let fill = async {
            let mut claimed = contacts::claim_segment(occurrences).await.expect("a claim").expect("a segment");
            contacts::fill_step(occurrences, &mut claimed, false).await.expect("a step");
        };
        let release = async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            lock.commit().await;
        };
        tokio::join!(fill, release);
        work(&app).await;
        assert_eq!(members(&app, &key, &id).await, Vec::<String>::new());
        assert_eq!(ids(&app.get("/contacts").key(&key).send().await.json()), [contact]);
    }
}

/// So many contacts, in one statement.
async fn many(app: &TestApp, count: usize) {
    let workspace = app.store.id(app.workspace().await);
    let rows: Vec<String> = (0..count)
        .map(|n| {
            let id: uuid::Uuid = app.clock.ordered_id();
            format!("({workspace}, {}, 'm{n}@b', 'm{n}@b', FALSE, '{{}}', 1, 0)", app.store.id(id))
        })
        .collect();
    let columns = "workspace_id, id, email, email_key, unsubscribed, properties, sequence, created_at";
    app.store.run(&format!("INSERT INTO contacts ({columns}) VALUES {}", rows.join(", "))).await;
}
