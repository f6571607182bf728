//! `/contacts` and `/contact-properties`.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, TestApp, on_both};

pub async fn add(app: &TestApp, key: &str, body: Value) -> String {
    let answer = app.post("/contacts").key(key).json(body).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body.as_object().expect("an object").keys().collect::<Vec<_>>(), ["object", "id"]);
    assert_eq!(body["object"], "contact");
    body["id"].as_str().expect("an id").to_owned()
}

pub async fn read(app: &TestApp, key: &str, name: &str) -> Value {
    let answer = app.get(format!("/contacts/{name}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    answer.json()
}

pub fn ids(list: &Value) -> Vec<String> {
    let items = list["data"].as_array().expect("a list");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

async fn patch(app: &TestApp, key: &str, name: &str, body: Value) -> Answer {
    app.patch(format!("/contacts/{name}")).key(key).json(body).send().await
}

async fn declare(app: &TestApp, key: &str, body: Value) -> String {
    let answer = app.post("/contact-properties").key(key).json(body).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

on_both! {
    async fn a_contact_is_read_whole_by_id_and_by_address(app: TestApp) {
        let key = app.full_key().await;
        let id = add(&app, &key, json!({
            "email": "Ada+List@Example.com", "first_name": "Ada", "last_name": "Lovelace", "unsubscribed": true,
            "properties": {"company": "Engines", "seats": 3, "vip": true, "none": null},
        })).await;
        let expected = json!({
            "object": "contact", "id": id, "email": "Ada+List@Example.com", "first_name": "Ada",
            "last_name": "Lovelace", "unsubscribed": true, "created_at": "2026-01-02T03:04:05.678901Z",
            "updated_at": null,
            "properties": {
                "company": {"type": "string", "value": "Engines"},
                "seats": {"type": "number", "value": 3},
                "vip": {"type": "boolean", "value": true},
            },
        });
        for name in [
            id.as_str(),
            &id.to_uppercase(),
            "Ada+List@Example.com",
            "ada+list@example.com",
            "ADA%2BLIST%40EXAMPLE.COM",
            "%61da+list@example%2Ecom",
        ] {
            assert_eq!(read(&app, &key, name).await, expected, "{name}");
        }
        assert_eq!(app.store.value("SELECT sequence FROM contacts").await.as_deref(), Some("2"));
    }

    async fn only_the_address_is_needed_and_null_is_absent(app: TestApp) {
        let key = app.full_key().await;
        let nothing = json!({
            "email": "a@b.example", "first_name": null, "last_name": null, "unsubscribed": null, "properties": null,
            "segments": null, "audience_id": null, "topics": null,
        });
        let id = add(&app, &key, nothing).await;
        let found = read(&app, &key, &id).await;
        assert_eq!((&found["first_name"], &found["unsubscribed"]), (&Value::Null, &json!(false)));
        assert_eq!(found["properties"], json!({}));
        add(&app, &key, json!({"email": "c@b.example"})).await;
    }

    async fn what_breaks_a_rule_is_422_names_the_field_and_stores_nothing(app: TestApp) {
        let key = app.full_key().await;
        let wide: Value = Value::Object((0..257).map(|n| (n.to_string(), json!(1))).collect());
        for (body, name, word) in [
            (json!({}), "missing_required_field", "`email`"),
            (json!({"email": null}), "missing_required_field", "`email`"),
            (json!({"e-mail": "a@b"}), "missing_required_field", "`e-mail`"),
            (json!({"email": 1}), "validation_error", "`email`"),
            (json!({"email": ["a@b"]}), "validation_error", "`email`"),
            (json!({"email": ""}), "validation_error", "`email`"),
            (json!({"email": "a"}), "validation_error", "`email`"),
            (json!({"email": "Ada <a@b>"}), "validation_error", "`email`"),
            (json!({"email": "a@b\r\nBcc: c@d"}), "validation_error", "`email`"),
            (json!({"email": "a\u{0}@b"}), "validation_error", "`email`"),
            (json!({"email": format!("{}@b", "a".repeat(253))}), "validation_error", "254"),
            (json!({"email": "a@b", "first_name": 1}), "validation_error", "`first_name`"),
            (json!({"email": "a@b", "last_name": "\u{0}"}), "validation_error", "`last_name`"),
            (json!({"email": "a@b", "last_name": "x".repeat(256)}), "validation_error", "255"),
            (json!({"email": "a@b", "unsubscribed": "false"}), "validation_error", "`unsubscribed`"),
            (json!({"email": "a@b", "unsubscribed": 0}), "validation_error", "`unsubscribed`"),
            (json!({"email": "a@b", "properties": []}), "validation_error", "`properties`"),
            (json!({"email": "a@b", "properties": {"k": {}}}), "validation_error", "`k`"),
            (json!({"email": "a@b", "properties": {"k": [1]}}), "validation_error", "`k`"),
            (json!({"email": "a@b", "properties": {"": 1}}), "validation_error", "empty"),
            (json!({"email": "a@b", "properties": wide}), "validation_error", "256"),
            (json!({"email": "a@b", "properties": {"k": "x".repeat(65_536)}}), "validation_error", "65536"),
            (json!({"email": "a@b", "segments": "x"}), "validation_error", "`segments`"),
            (json!({"email": "a@b", "segments": ["x"]}), "validation_error", "`segments`"),
            (json!({"email": "a@b", "segments": [{"id": 1}]}), "validation_error", "`segments`"),
            (json!({"email": "a@b", "audience_id": "x"}), "validation_error", "`audience_id`"),
        ] {
            let shown: String = body.to_string().chars().take(80).collect();
            let answer = app.post("/contacts").key(&key).json(body).send().await;
            assert_eq!(answer.status, 422, "{shown}: {}", answer.text());
            let message = answer.refused(422, name);
            assert!(message.contains(word), "{shown}: {message}");
        }
        assert_eq!(app.count("contacts").await, 0);
    }

    async fn an_address_belongs_to_one_contact_however_it_is_written(app: TestApp) {
        let key = app.full_key().await;
        let id = add(&app, &key, json!({"email": "Ada@Example.com", "first_name": "Ada"})).await;
        for email in ["Ada@Example.com", "ada@example.com", "ADA@EXAMPLE.COM"] {
            let again = app.post("/contacts").key(&key).json(json!({"email": email, "first_name": "X"})).send().await;
            assert!(again.refused(409, "validation_error").contains(&id), "{}", again.text());
        }
        assert_eq!(read(&app, &key, "ada@example.com").await["first_name"], "Ada");
        let other = add(&app, &key, json!({"email": "b@example.com"})).await;
        let taken = patch(&app, &key, &other, json!({"email": "ADA@example.com"})).await;
        assert!(taken.refused(409, "validation_error").contains(&id));
        assert_eq!(read(&app, &key, &other).await["email"], "b@example.com");
        assert_eq!(patch(&app, &key, &id, json!({"email": "ADA@example.com"})).await.status, 200, "its own is free");
        assert_eq!(read(&app, &key, &id).await["email"], "ADA@example.com");
        assert_eq!(app.delete("/contacts/aDA@example.com").key(&key).send().await.status, 200);
        assert_ne!(add(&app, &key, json!({"email": "ada@example.com"})).await, id, "the address is free again");
    }

    async fn two_who_add_one_address_at_once_get_one_contact(app: TestApp) {
        let key = app.full_key().await;
        let posts = (0..20).map(|n| {
            let email = if n % 2 == 0 { "race@example.com" } else { "RACE@example.com" };
            app.post("/contacts").key(&key).json(json!({"email": email})).send()
        });
        let answers = join_all(posts).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        assert_eq!(answers.iter().filter(|answer| answer.status == 409).count(), 19);
        assert_eq!(app.count("contacts").await, 1);
    }

    async fn a_patch_changes_what_it_names_and_leaves_the_rest(app: TestApp) {
        let key = app.full_key().await;
        let id = add(&app, &key, json!({"email": "a@b", "first_name": "A", "properties": {"x": 1, "y": "z"}})).await;
        app.clock.advance(1_000_000);
        let answer = patch(&app, &key, "A@B", json!({
            "id": "ignored", "first_name": null, "last_name": "B", "unsubscribed": true,
            "properties": {"x": null, "n": 2.5},
        })).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"object": "contact", "id": id})));
        let found = read(&app, &key, &id).await;
        assert_eq!((&found["first_name"], &found["last_name"]), (&Value::Null, &json!("B")));
        assert_eq!(found["unsubscribed"], json!(true));
        assert_eq!(found["properties"], json!({
            "y": {"type": "string", "value": "z"}, "n": {"type": "number", "value": 2.5},
        }));
        assert_eq!(found["updated_at"], "2026-01-02T03:04:06.678901Z");
        // The change, and that it unsubscribes.
        assert_eq!(app.store.value("SELECT sequence FROM contacts").await.as_deref(), Some("4"));

        let absent = json!({"email": null, "unsubscribed": null, "properties": null});
        for body in [json!({}), json!({"last_name": "B", "properties": {"x": null}}), absent] {
            assert_eq!(patch(&app, &key, &id, body).await.status, 200);
        }
        assert_eq!(app.store.value("SELECT sequence FROM contacts").await.as_deref(), Some("4"), "nothing changed");
        let moved = patch(&app, &key, "a@b", json!({"email": "New@b"})).await;
        assert_eq!(moved.json()["id"], json!(id));
        assert_eq!(read(&app, &key, "new@b").await["last_name"], "B");
        app.get("/contacts/a@b").key(&key).send().await.refused(404, "not_found");
    }

    async fn a_bad_patch_changes_nothing(app: TestApp) {
        let key = app.full_key().await;
        let id = add(&app, &key, json!({"email": "a@b", "properties": {"x": 1}})).await;
        for (body, word) in [
            (json!({"email": "x"}), "`email`"),
            (json!({"first_name": ["x"]}), "`first_name`"),
            (json!({"unsubscribed": "no"}), "`unsubscribed`"),
            (json!({"last_name": "ok", "properties": {"k": {}}}), "`k`"),
        ] {
            assert!(patch(&app, &key, &id, body).await.refused(422, "validation_error").contains(word));
        }
        app.patch("/contacts/a@b").key(&key).body("text/plain", "x").send().await.refused(415, "validation_error");
        let found = read(&app, &key, &id).await;
        assert_eq!((&found["last_name"], &found["updated_at"]), (&Value::Null, &Value::Null));
    }

    async fn changes_at_the_same_time_do_not_undo_each_other(app: TestApp) {
        let key = app.full_key().await;
        let id = add(&app, &key, json!({"email": "a@b"})).await;
        let second = TestApp::open(&app.store, &[]).await;
        let patches = (0..8).map(|n| {
            let app = if n % 2 == 0 { &app } else { &second };
            patch(app, &key, &id, json!({"properties": {format!("k{n}"): n}}))
        });
        for answer in join_all(patches).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let found = read(&app, &key, &id).await;
        assert_eq!(found["properties"].as_object().expect("properties").len(), 8, "{found}");
        assert_eq!(app.store.value("SELECT sequence FROM contacts").await.as_deref(), Some("10"));
    }

    async fn a_deleted_contact_is_gone_from_everywhere(app: TestApp) {
        let key = app.full_key().await;
        let segment = app.post("/segments").key(&key).json(json!({"name": "s"})).send().await.json();
        let id = add(&app, &key, json!({"email": "a@b", "segments": [segment["id"]]})).await;
        assert_eq!(app.count("segment_members").await, 1);
        let answer = app.delete("/contacts/A@b").key(&key).json(json!({})).send().await;
        let expected = json!({"object": "contact", "id": id, "contact": id, "deleted": true});
        assert_eq!((answer.status, answer.json()), (200, expected));
        for name in [id.as_str(), "a@b"] {
            app.get(format!("/contacts/{name}")).key(&key).send().await.refused(404, "not_found");
            patch(&app, &key, name, json!({"first_name": "x"})).await.refused(404, "not_found");
            app.delete(format!("/contacts/{name}")).key(&key).send().await.refused(404, "not_found");
        }
        assert_eq!((app.count("contacts").await, app.count("segment_members").await), (0, 0));
    }

    async fn what_names_nobody_is_404(app: TestApp) {
        let key = app.full_key().await;
        add(&app, &key, json!({"email": "a+b@c.example"})).await;
        for name in [
            "nobody",
            "a%20b@c.example",
            "a%2Bb@c.example%00",
            "%ff",
            "%",
            "a+b@c",
            "01890000-0000-7000-8000-000000000000",
            "a%2Fb@c.example",
        ] {
            let path = format!("/contacts/{name}");
            app.get(&path).key(&key).send().await.refused(404, "not_found");
            app.patch(&path).key(&key).json(json!({})).send().await.refused(404, "not_found");
            app.delete(&path).key(&key).send().await.refused(404, "not_found");
            app.get(format!("{path}/segments")).key(&key).send().await.refused(404, "not_found");
        }
        let slash = add(&app, &key, json!({"email": "a/b@c.example"})).await;
        assert_eq!(read(&app, &key, "a%2Fb@c.example").await["id"], json!(slash));
    }

    async fn a_list_is_paged_newest_first_and_shows_no_properties(app: TestApp) {
        let key = app.full_key().await;
        let mut made = Vec::new();
        for n in 0..23 {
            made.push(add(&app, &key, json!({"email": format!("c{n}@b"), "properties": {"n": n}})).await);
        }
        made.reverse();
        let page = async |query: String| {
            let list = app.get(format!("/contacts?{query}")).key(&key).send().await.json();
            assert_eq!(list["object"], "list");
            (ids(&list), list["has_more"].as_bool().expect("has_more"))
        };
        assert_eq!(page(String::new()).await, (made.clone(), false));
        assert_eq!(page("limit=100".into()).await, (made.clone(), false));
        assert_eq!(page(format!("after={}&limit=3", made[4])).await, (made[5..8].to_vec(), true));
        assert_eq!(page(format!("before={}&limit=3", made[10])).await, (made[7..10].to_vec(), true));
        let list = app.get("/contacts?limit=1").key(&key).send().await.json();
        let keys: Vec<&String> = list["data"][0].as_object().expect("an object").keys().collect();
        let expected = ["id", "email", "first_name", "last_name", "unsubscribed", "created_at", "updated_at"];
        assert_eq!(keys, expected);
        for (query, word) in [
            ("limit=0", "`limit`"),
            ("after=x", "`after`"),
            ("segment_id=x", "`segment_id`"),
            ("segment_id=", "`segment_id`"),
            ("audience_id=%ff", "`audience_id`"),
        ] {
            let answer = app.get(format!("/contacts?{query}")).key(&key).send().await;
            assert!(answer.refused(422, "invalid_parameter").contains(word), "{query}");
        }
        let nowhere = "/contacts?segment_id=01890000-0000-7000-8000-000000000000";
        app.get(nowhere).key(&key).send().await.refused(404, "not_found");
    }

    async fn decisions_1_another_workspaces_contacts_and_properties_are_not_there(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = add(&app, &mine, json!({"email": "secret@b", "properties": {"x": "y"}})).await;
        let property = declare(&app, &mine, json!({"key": "seats", "type": "number"})).await;
        for name in [id.as_str(), "secret@b"] {
            let path = format!("/contacts/{name}");
            app.get(&path).key(&theirs).send().await.refused(404, "not_found");
            app.patch(&path).key(&theirs).json(json!({"first_name": "x"})).send().await.refused(404, "not_found");
            app.delete(&path).key(&theirs).send().await.refused(404, "not_found");
        }
        let path = format!("/contact-properties/{property}");
        app.get(&path).key(&theirs).send().await.refused(404, "not_found");
        app.patch(&path).key(&theirs).json(json!({"fallback_value": 1})).send().await.refused(404, "not_found");
        app.delete(&path).key(&theirs).send().await.refused(404, "not_found");
        for list in ["/contacts", "/contact-properties"] {
            assert_eq!(app.get(list).key(&theirs).send().await.json()["data"], json!([]), "{list}");
        }
        let same = add(&app, &theirs, json!({"email": "Secret@b", "properties": {"seats": "any"}})).await;
        assert_ne!(same, id, "addresses and declarations are each workspace's own");
        assert_eq!(read(&app, &mine, "secret@b").await["id"], json!(id));
        declare(&app, &theirs, json!({"key": "seats", "type": "string"})).await;
    }

    async fn declared_properties_hold_contacts_to_their_type(app: TestApp) {
        let key = app.full_key().await;
        let id = add(&app, &key, json!({"email": "a@b", "properties": {"seats": "many"}})).await;
        declare(&app, &key, json!({"key": "seats", "type": "number", "fallback_value": 1})).await;
        declare(&app, &key, json!({"key": "plan", "type": "string"})).await;
        for properties in [json!({"seats": "3"}), json!({"seats": true}), json!({"plan": 1}), json!({"x": 1, "plan": false})] {
            let body = json!({"email": "c@b", "properties": properties});
            let refused = app.post("/contacts").key(&key).json(body.clone()).send().await;
            assert!(refused.refused(422, "validation_error").contains("declared"), "{body}");
            let refused = patch(&app, &key, &id, json!({"properties": body["properties"]})).await;
            assert!(refused.refused(422, "validation_error").contains("declared"), "{body}");
        }
        assert_eq!(read(&app, &key, &id).await["properties"]["seats"]["value"], "many", "what was there stays");
        let fine = json!({"seats": 3, "plan": "pro", "other": true});
        assert_eq!(patch(&app, &key, &id, json!({"properties": fine})).await.status, 200);
        assert_eq!(patch(&app, &key, &id, json!({"properties": {"seats": null}})).await.status, 200);
        assert_eq!(read(&app, &key, &id).await["properties"]["seats"], Value::Null);
    }

    async fn a_property_is_declared_read_changed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let body = json!({"key": "company", "type": "string", "fallback_value": "a company"});
        let answer = app.post("/contact-properties").key(&key).json(body.clone()).send().await;
        let id = answer.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!((answer.status, answer.json()), (201, json!({"object": "contact_property", "id": id})));
        let again = app.post("/contact-properties").key(&key).json(body).send().await;
        assert!(again.refused(409, "validation_error").contains("`company`"));
        let path = format!("/contact-properties/{id}");
        let mut expected = json!({
            "object": "contact_property", "id": id, "key": "company", "type": "string",
            "fallback_value": "a company", "created_at": "2026-01-02T03:04:05.678901Z",
        });
        assert_eq!(app.get(&path).key(&key).send().await.json(), expected);
        let change = json!({"id": id, "key": "company", "type": "string", "fallback_value": "yours"});
        let changed = app.patch(&path).key(&key).json(change).send().await;
        assert_eq!(changed.json(), json!({"object": "contact_property", "id": id}));
        expected["fallback_value"] = json!("yours");
        assert_eq!(app.get(&path).key(&key).send().await.json(), expected);
        assert_eq!(app.patch(&path).key(&key).json(json!({"fallback_value": null})).send().await.status, 200);
        let list = app.get("/contact-properties").key(&key).send().await.json();
        assert_eq!(list["data"][0]["fallback_value"], Value::Null);
        assert_eq!(list["data"][0]["object"], "contact_property", "a client library insists on it");
        let gone = app.delete(&path).key(&key).send().await;
        assert_eq!(gone.json(), json!({"object": "contact_property", "id": id, "deleted": true}));
        app.get(&path).key(&key).send().await.refused(404, "not_found");
        app.patch(&path).key(&key).json(json!({"fallback_value": null})).send().await.refused(404, "not_found");
        app.delete(&path).key(&key).send().await.refused(404, "not_found");
        app.get("/contact-properties/x").key(&key).send().await.refused(422, "invalid_parameter");
    }

    async fn a_bad_declaration_is_422_and_names_the_field(app: TestApp) {
        let key = app.full_key().await;
        for (body, name, word) in [
            (json!({"type": "string"}), "missing_required_field", "`key`"),
            (json!({"key": "a"}), "missing_required_field", "`type`"),
            (json!({"key": "", "type": "string"}), "validation_error", "`key`"),
            (json!({"key": "a b", "type": "string"}), "validation_error", "`key`"),
            (json!({"key": "k".repeat(51), "type": "string"}), "validation_error", "50"),
            (json!({"key": 1, "type": "string"}), "validation_error", "`key`"),
            (json!({"key": "a", "type": "boolean"}), "validation_error", "`type`"),
            (json!({"key": "a", "type": 1}), "validation_error", "`type`"),
            (json!({"key": "a", "type": "number", "fallback_value": "1"}), "validation_error", "`fallback_value`"),
            (json!({"key": "a", "type": "string", "fallback_value": 1}), "validation_error", "`fallback_value`"),
        ] {
            let answer = app.post("/contact-properties").key(&key).json(body.clone()).send().await;
            assert!(answer.refused(422, name).contains(word), "{body}");
        }
        assert_eq!(app.count("contact_properties").await, 0);
        let id = declare(&app, &key, json!({"key": "a", "type": "number"})).await;
        for (body, name, word) in [
            (json!({}), "missing_required_field", "`fallback_value`"),
            (json!({"fallback": 1}), "missing_required_field", "`fallback_value`"),
            (json!({"fallback_value": "1"}), "validation_error", "`fallback_value`"),
            (json!({"key": "b", "fallback_value": 1}), "validation_error", "`key`"),
            (json!({"type": "string", "fallback_value": 1}), "validation_error", "`type`"),
        ] {
            let answer = app.patch(format!("/contact-properties/{id}")).key(&key).json(body.clone()).send().await;
            assert!(answer.refused(422, name).contains(word), "{body}");
        }
    }
}
