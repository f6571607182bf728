//! `/topics`, and what contacts choose of them.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::contacts::{add, ids};
use crate::harness::{Answer, TestApp, on_both};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

pub async fn topic(app: &TestApp, key: &str, name: &str, default: &str) -> String {
    let body = json!({"name": name, "default_subscription": default});
    let answer = app.post("/topics").key(key).json(body).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.json(), json!({"object": "topic", "id": id}));
    id
}

/// What holds for a contact: each topic's id with its subscription.
pub async fn chosen(app: &TestApp, key: &str, contact: &str) -> Vec<(String, String)> {
    let answer = app.get(format!("/contacts/{contact}/topics")).key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let list = answer.json();
    let items = list["data"].as_array().expect("a list");
    items.iter().map(|item| (text(&item["id"]), text(&item["subscription"]))).collect()
}

async fn choose(app: &TestApp, key: &str, contact: &str, body: Value) -> Answer {
    app.patch(format!("/contacts/{contact}/topics")).key(key).json(body).send().await
}

fn held(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(id, subscription)| ((*id).to_owned(), (*subscription).to_owned())).collect()
}

on_both! {
    async fn a_topic_is_made_read_changed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let body = json!({
            "name": "News", "default_subscription": "opt_in", "description": "Monthly.", "visibility": "public",
        });
        let id = app.post("/topics").key(&key).json(body).send().await.json()["id"].as_str().expect("an id").to_owned();
        let path = format!("/topics/{id}");
        let mut expected = json!({
            "object": "topic", "id": id, "name": "News", "description": "Monthly.", "default_subscription": "opt_in",
            "visibility": "public", "created_at": "2026-01-02T03:04:05.678901Z",
        });
        assert_eq!(app.get(&path).key(&key).send().await.json(), expected);

        let change = json!({"id": id, "name": "Product news", "default_subscription": "opt_in"});
        let changed = app.patch(&path).key(&key).json(change).send().await;
        assert_eq!((changed.status, changed.json()), (200, json!({"object": "topic", "id": id})));
        expected["name"] = json!("Product news");
        assert_eq!(app.get(&path).key(&key).send().await.json(), expected, "the rest stays");
        let change = json!({"name": null, "description": null, "visibility": "private"});
        assert_eq!(app.patch(&path).key(&key).json(change).send().await.status, 200);
        assert_eq!(app.patch(&path).key(&key).send().await.status, 200, "nothing to change is fine");
        expected.as_object_mut().expect("an object").remove("description");
        expected["visibility"] = json!("private");
        assert_eq!(app.get(&path).key(&key).send().await.json(), expected);

        expected.as_object_mut().expect("an object").remove("object");
        let list = app.get("/topics").key(&key).send().await.json();
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": [expected]}));
        let gone = app.delete(&path).key(&key).send().await;
        assert_eq!(gone.json(), json!({"object": "topic", "id": id, "deleted": true}));
        app.get(&path).key(&key).send().await.refused(404, "not_found");
        app.patch(&path).key(&key).json(json!({"name": "x"})).send().await.refused(404, "not_found");
        app.patch(&path).key(&key).json(json!({"default_subscription": "opt_in"})).send().await.refused(404, "not_found");
        app.delete(&path).key(&key).send().await.refused(404, "not_found");
        app.get("/topics/x").key(&key).send().await.refused(422, "invalid_parameter");
    }

    async fn what_breaks_a_rule_is_422_and_names_the_field(app: TestApp) {
        let key = app.full_key().await;
        for (body, name, word) in [
            (json!({"default_subscription": "opt_in"}), "missing_required_field", "`name`"),
            (json!({"name": "x"}), "missing_required_field", "`default_subscription`"),
            (json!({"name": "x", "defaultSubscription": "opt_in"}), "missing_required_field", "did you mean"),
            (json!({"name": " ", "default_subscription": "opt_in"}), "validation_error", "`name`"),
            (json!({"name": "x".repeat(51), "default_subscription": "opt_in"}), "validation_error", "50"),
            (json!({"name": "x", "default_subscription": "in"}), "validation_error", "`opt_in`"),
            (json!({"name": "x", "default_subscription": true}), "validation_error", "`default_subscription`"),
            (json!({"name": "x", "default_subscription": "opt_in", "description": "x".repeat(201)}),
             "validation_error", "200"),
            (json!({"name": "x", "default_subscription": "opt_in", "description": "\u{0}"}),
             "validation_error", "`description`"),
            (json!({"name": "x", "default_subscription": "opt_in", "visibility": "none"}),
             "validation_error", "`visibility`"),
        ] {
            let answer = app.post("/topics").key(&key).json(body.clone()).send().await;
            assert!(answer.refused(422, name).contains(word), "{body}: {}", answer.text());
        }
        assert_eq!(app.count("topics").await, 0);
        let id = topic(&app, &key, "x", "opt_in").await;
        for (body, word) in [
            (json!({"name": ""}), "`name`"),
            (json!({"default_subscription": "opt_out"}), "cannot be changed"),
            (json!({"visibility": 1}), "`visibility`"),
        ] {
            let answer = app.patch(format!("/topics/{id}")).key(&key).json(body.clone()).send().await;
            assert!(answer.refused(422, "validation_error").contains(word), "{body}");
        }
    }

    async fn the_default_holds_until_a_contact_chooses(app: TestApp) {
        let key = app.full_key().await;
        let one = topic(&app, &key, "one", "opt_in").await;
        let two = topic(&app, &key, "two", "opt_out").await;
        let id = add(&app, &key, json!({"email": "a+x@b"})).await;
        assert_eq!(chosen(&app, &key, "a+x@b").await, held(&[(&two, "opt_out"), (&one, "opt_in")]));
        let answer = choose(&app, &key, "A+X@b", json!([{"id": one, "subscription": "opt_out"}])).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"object": "contact", "id": id})));
        assert_eq!(chosen(&app, &key, &id).await, held(&[(&two, "opt_out"), (&one, "opt_out")]));
        let both = json!({"topics": [{"id": one, "subscription": "opt_in"}, {"id": two, "subscription": "opt_in"}]});
        assert_eq!(choose(&app, &key, &id, both).await.status, 200);
        assert_eq!(chosen(&app, &key, &id).await, held(&[(&two, "opt_in"), (&one, "opt_in")]));
        let other = add(&app, &key, json!({"email": "c@b"})).await;
        assert_eq!(chosen(&app, &key, &other).await, held(&[(&two, "opt_out"), (&one, "opt_in")]), "one's own");

        let list = app.get(format!("/contacts/{id}/topics?limit=1")).key(&key).send().await.json();
        let created = "2026-01-02T03:04:05.678901Z";
        let item = json!({"id": two, "name": "two", "subscription": "opt_in", "created_at": created});
        assert_eq!(list, json!({"object": "list", "has_more": true, "data": [item]}));
        let list = app.get(format!("/contacts/{id}/topics?after={two}")).key(&key).send().await.json();
        assert_eq!(ids(&list), [one.as_str()]);
        let list = app.get(format!("/contacts/{id}/topics?before={one}")).key(&key).send().await.json();
        assert_eq!(ids(&list), [two.as_str()]);
    }

    async fn choices_are_all_made_or_none(app: TestApp) {
        let key = app.full_key().await;
        let one = topic(&app, &key, "one", "opt_in").await;
        let id = add(&app, &key, json!({"email": "a@b"})).await;
        let half = json!([{"id": one, "subscription": "opt_out"}, {"id": NOBODY, "subscription": "opt_in"}]);
        assert!(choose(&app, &key, &id, half.clone()).await.refused(404, "not_found").contains("Topic"));
        let named = json!({"email": "new@b", "topics": half});
        let answer = app.post("/contacts").key(&key).json(named).send().await;
        assert!(answer.refused(404, "not_found").contains("Topic"));
        assert_eq!((app.count("topic_subscriptions").await, app.count("contacts").await), (0, 1));
        for (body, name, word) in [
            (json!({}), "missing_required_field", "`topics`"),
            (json!({"topic": []}), "missing_required_field", "`topic`"),
            (json!("x"), "validation_error", "array or object"),
            (json!({"topics": "x"}), "validation_error", "`topics`"),
            (json!([one]), "validation_error", "`topics[0]`"),
            (json!([{"id": one}]), "validation_error", "`topics[0].subscription`"),
            (json!([{"id": one, "subscription": "opt_in"}, {"id": one, "subscription": "opt_out"}]),
             "validation_error", "twice"),
        ] {
            let answer = choose(&app, &key, &id, body.clone()).await;
            assert!(answer.refused(422, name).contains(word), "{body}: {}", answer.text());
        }
        app.patch(format!("/contacts/{id}/topics")).key(&key).send().await.refused(422, "missing_required_field");
        assert_eq!(choose(&app, &key, &id, json!([])).await.status, 200);
        choose(&app, &key, "nobody@b", json!([])).await.refused(404, "not_found");
        app.get("/contacts/nobody@b/topics").key(&key).send().await.refused(404, "not_found");
        assert_eq!(app.count("topic_subscriptions").await, 0);
    }

    async fn a_new_contact_has_chosen_already(app: TestApp) {
        let key = app.full_key().await;
        let (one, two) = (topic(&app, &key, "one", "opt_out").await, topic(&app, &key, "two", "opt_out").await);
        let segment = app.post("/segments").key(&key).json(json!({"name": "s"})).send().await.json();
        let id = add(&app, &key, json!({
            "email": "a@b", "segments": [segment["id"]], "topics": [{"id": two, "subscription": "opt_in"}],
        })).await;
        assert_eq!(chosen(&app, &key, &id).await, held(&[(&two, "opt_in"), (&one, "opt_out")]));
        let wrong = json!({"email": "c@b", "topics": [{"id": two}]});
        let answer = app.post("/contacts").key(&key).json(wrong).send().await;
        assert!(answer.refused(422, "validation_error").contains("`topics[0].subscription`"));
        let nowhere = json!({"email": "c@b", "segments": [NOBODY], "topics": [{"id": two, "subscription": "opt_in"}]});
        let answer = app.post("/contacts").key(&key).json(nowhere).send().await;
        assert!(answer.refused(404, "not_found").contains("Segment"));
    }

    async fn with_a_topic_or_a_contact_its_choices_go(app: TestApp) {
        let key = app.full_key().await;
        let (one, two) = (topic(&app, &key, "one", "opt_out").await, topic(&app, &key, "two", "opt_out").await);
        let both = json!([{"id": one, "subscription": "opt_in"}, {"id": two, "subscription": "opt_in"}]);
        let id = add(&app, &key, json!({"email": "a@b", "topics": both})).await;
        add(&app, &key, json!({"email": "c@b", "topics": both})).await;
        assert_eq!(app.count("topic_subscriptions").await, 4);
        assert_eq!(app.delete(format!("/topics/{one}")).key(&key).send().await.status, 200);
        assert_eq!(app.count("topic_subscriptions").await, 2);
        assert_eq!(app.delete(format!("/contacts/{id}")).key(&key).send().await.status, 200);
        assert_eq!(app.count("topic_subscriptions").await, 1);
        assert_eq!(chosen(&app, &key, "c@b").await, held(&[(&two, "opt_in")]));
    }

    async fn a_choice_never_outlives_its_topic_or_contact(app: TestApp) {
        let key = app.full_key().await;
        let second = TestApp::open(&app.store, &[]).await;
        for round in 0..8 {
            let id = topic(&app, &key, "brief", "opt_out").await;
            let email = format!("r{round}@b");
            add(&app, &key, json!({"email": email})).await;
            let fields = json!([{"id": id, "subscription": "opt_in"}]);
            let gone = if round % 2 == 0 { format!("/topics/{id}") } else { format!("/contacts/{email}") };
            let (choice, deletion) =
                tokio::join!(choose(&app, &key, &email, fields), second.delete(gone).key(&key).send());
            assert_eq!(deletion.status, 200, "{}", deletion.text());
            assert!(matches!(choice.status, 200 | 404), "{}", choice.text());
        }
        assert_eq!(app.count("topic_subscriptions").await, 0);
    }

    async fn contradicting_choices_at_once_leave_one(app: TestApp) {
        let key = app.full_key().await;
        let id = topic(&app, &key, "one", "opt_out").await;
        add(&app, &key, json!({"email": "a@b"})).await;
        let answers = (0..10).map(|n| {
            let subscription = if n % 2 == 0 { "opt_in" } else { "opt_out" };
            choose(&app, &key, "a@b", json!([{"id": id, "subscription": subscription}]))
        });
        for answer in join_all(answers).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        assert_eq!(app.count("topic_subscriptions").await, 1);
    }

    async fn a_list_is_paged_newest_first(app: TestApp) {
        let key = app.full_key().await;
        let mut made = Vec::new();
        for n in 0..5 {
            made.insert(0, topic(&app, &key, &format!("t{n}"), "opt_in").await);
        }
        let page = async |query: String| {
            let list = app.get(format!("/topics?{query}")).key(&key).send().await.json();
            (ids(&list), list["has_more"].as_bool().expect("has_more"))
        };
        assert_eq!(page("limit=3".into()).await, (made[..3].to_vec(), true));
        assert_eq!(page(format!("after={}", made[2])).await, (made[3..].to_vec(), false));
        assert_eq!(page(format!("before={}&limit=1", made[2])).await, (made[1..2].to_vec(), true));
        app.get("/topics?limit=0").key(&key).send().await.refused(422, "invalid_parameter");
    }

    async fn decisions_1_another_workspaces_topics_are_not_there(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = topic(&app, &mine, "secret", "opt_in").await;
        let path = format!("/topics/{id}");
        app.get(&path).key(&theirs).send().await.refused(404, "not_found");
        app.patch(&path).key(&theirs).json(json!({"name": "x"})).send().await.refused(404, "not_found");
        app.delete(&path).key(&theirs).send().await.refused(404, "not_found");
        assert_eq!(app.get("/topics").key(&theirs).send().await.json()["data"], json!([]));
        let contact = add(&app, &theirs, json!({"email": "a@b"})).await;
        assert_eq!(chosen(&app, &theirs, &contact).await, []);
        let fields = json!([{"id": id, "subscription": "opt_out"}]);
        choose(&app, &theirs, &contact, fields.clone()).await.refused(404, "not_found");
        choose(&app, &mine, &contact, fields).await.refused(404, "not_found");
        assert_eq!(app.count("topic_subscriptions").await, 0);
        assert_eq!(app.get(&path).key(&mine).send().await.json()["name"], "secret");
    }
}
