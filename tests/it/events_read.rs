//! `GET`, `PATCH` and `DELETE /events/{id or name}`, and the list.

use serde_json::{Value, json};

use crate::harness::{TestApp, on_both};

fn ids(list: &Value) -> Vec<String> {
    let items = list["data"].as_array().expect("a list");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

async fn page(app: &TestApp, key: &str, query: &str) -> (Vec<String>, bool) {
    let answer = app.get(format!("/events?{query}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let list = answer.json();
    assert_eq!(list["object"], "list");
    (ids(&list), list["has_more"].as_bool().expect("has_more"))
}

on_both! {
    async fn an_event_is_read_whole(app: TestApp) {
        let key = app.full_key().await;
        let id = app.event(&key, json!({"name": "a.b", "schema": {"x": "date"}})).await;
        let expected = json!({
            "object": "event", "id": id, "name": "a.b", "schema": {"x": "date"},
            "created_at": "2026-01-02T03:04:05.678901Z", "updated_at": null,
            "defined_by_use": false,
        });
        for path in [format!("/events/{id}"), "/events/a.b".into(), format!("/events/{}", id.to_uppercase())] {
            let answer = app.get(&path).key(&key).send().await;
            assert_eq!((answer.status, answer.json()), (200, expected.clone()), "{path}");
        }
    }

    async fn names_with_slashes_spaces_percents_and_unicode_are_found_by_every_method(app: TestApp) {
        let key = app.full_key().await;
        for (name, paths) in [
            ("a/b/c", vec!["a/b/c", "a%2Fb%2fc", "a/b%2Fc"]),
            ("/lead", vec!["/lead", "%2Flead"]),
            ("trail/", vec!["trail%2F", "trail%2F/"]),
            ("a b", vec!["a%20b"]),
            ("a+b", vec!["a+b", "a%2Bb"]),
            ("100%", vec!["100%25"]),
            ("%2F", vec!["%252F"]),
            ("é 日本 \u{1f4ef}", vec!["%C3%A9%20%E6%97%A5%E6%9C%AC%20%F0%9F%93%AF"]),
            ("a?b#c", vec!["a%3Fb%23c"]),
            ("x/events/y", vec!["x/events/y", "x%2Fevents%2Fy"]),
            ("send", vec!["send"]),
            ("..", vec!["%2e%2e"]),
            ("'\"<>", vec!["'%22%3C%3E"]),
        ] {
            for path in paths {
                let id = app.event(&key, json!({"name": name})).await;
                let path = format!("/events/{path}");
                let found = app.get(&path).key(&key).send().await;
                assert_eq!((found.status, &found.json()["id"]), (200, &json!(id)), "{path}");
                let changed = app.patch(&path).key(&key).json(json!({"schema": {"a": "date"}})).send().await;
                assert_eq!((changed.status, changed.json()), (200, json!({"object": "event", "id": id})), "{path}");
                let gone = app.delete(&path).key(&key).send().await;
                assert_eq!(gone.json(), json!({"object": "event", "id": id, "deleted": true}), "{path}");
            }
        }
        assert_eq!(app.count("events").await, 0);
    }

    async fn a_name_that_looks_like_an_id_is_found_unless_it_is_one(app: TestApp) {
        let key = app.full_key().await;
        let looks = "01890000-0000-7000-8000-000000000000";
        let id = app.event(&key, json!({"name": looks})).await;
        let found = app.get(format!("/events/{looks}")).key(&key).send().await.json();
        assert_eq!(found["id"], json!(id));
        let usurper = app.event(&key, json!({"name": id})).await;
        let found = app.get(format!("/events/{id}")).key(&key).send().await.json();
        assert_eq!((&found["id"], &found["name"]), (&json!(id), &json!(looks)), "an id wins over a name");
        let found = app.get(format!("/events/{usurper}")).key(&key).send().await.json();
        assert_eq!(found["name"], json!(id));
    }

    async fn what_is_not_there_is_404_by_every_method(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "there"})).await;
        for path in [
            "nobody",
            "There",
            "there%2F",
            "/there",
            "01890000-0000-7000-8000-000000000000",
            "%ff",
            "a%00b",
            "%00",
            "there%20",
            "the",
            "%",
            "%zz",
        ] {
            let path = format!("/events/{path}");
            app.get(&path).key(&key).send().await.refused(404, "not_found");
            app.patch(&path).key(&key).json(json!({"schema": null})).send().await.refused(404, "not_found");
            app.delete(&path).key(&key).send().await.refused(404, "not_found");
        }
        assert_eq!(app.count("events").await, 1);
    }

    async fn patch_changes_the_schema_and_null_clears_it(app: TestApp) {
        let key = app.full_key().await;
        let id = app.event(&key, json!({"name": "a", "schema": {"x": "date"}})).await;
        let path = format!("/events/{id}");
        app.clock.advance(1_000_000);
        let changed = app.patch(&path).key(&key).json(json!({"schema": {"y": "number"}, "name": "b"})).send().await;
        assert_eq!((changed.status, changed.json()), (200, json!({"object": "event", "id": id})));
        let found = app.get(&path).key(&key).send().await.json();
        assert_eq!((&found["schema"], &found["name"]), (&json!({"y": "number"}), &json!("a")));
        assert_eq!(found["updated_at"], "2026-01-02T03:04:06.678901Z");
        app.patch(&path).key(&key).json(json!({"schema": null})).send().await;
        assert_eq!(app.get(&path).key(&key).send().await.json()["schema"], Value::Null);
    }

    async fn patch_without_a_valid_schema_changes_nothing(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "a", "schema": {"x": "date"}})).await;
        for body in [json!({}), json!({"name": "b"})] {
            let answer = app.patch("/events/a").key(&key).json(body).send().await;
            assert!(answer.refused(422, "missing_required_field").contains("`schema`"));
        }
        let misspelt = app.patch("/events/a").key(&key).json(json!({"shema": {}})).send().await;
        assert!(misspelt.refused(422, "missing_required_field").contains("`shema`"));
        let wrong = app.patch("/events/a").key(&key).json(json!({"schema": {"k": "x"}})).send().await;
        assert!(wrong.refused(422, "validation_error").contains("`k`"));
        app.patch("/events/a").key(&key).send().await.refused(422, "missing_required_field");
        let found = app.get("/events/a").key(&key).send().await.json();
        assert_eq!((&found["schema"], &found["updated_at"]), (&json!({"x": "date"}), &Value::Null));
    }

    async fn decisions_2_bodies_on_get_and_delete_are_fine(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "a"})).await;
        assert_eq!(app.get("/events").key(&key).json(json!({})).send().await.status, 200);
        assert_eq!(app.get("/events/a").key(&key).json(json!({})).send().await.status, 200);
        assert_eq!(app.get("/events/a").key(&key).body("application/json", "").send().await.status, 200);
        assert_eq!(app.delete("/events/a").key(&key).json(json!({})).send().await.status, 200);
    }

    async fn slashes_at_the_front_of_a_path_count_as_one(app: TestApp) {
        let key = app.full_key().await;
        let answer = app.post("//events").key(&key).json(json!({"name": "/a"})).send().await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(app.get("///events?limit=1").key(&key).send().await.json()["data"][0]["name"], "/a");
        assert_eq!(app.get("//events//a").key(&key).send().await.status, 200, "those within a name stay");
    }

    async fn a_list_is_paged_newest_first(app: TestApp) {
        let key = app.full_key().await;
        assert_eq!(page(&app, &key, "").await, (vec![], false));
        let mut made = Vec::new();
        for n in 0..25 {
            made.push(app.event(&key, json!({"name": format!("e{n}")})).await);
        }
        made.reverse();
        assert_eq!(page(&app, &key, "").await, (made.clone(), false));
        assert_eq!(page(&app, &key, "limit=100").await, (made.clone(), false));
        assert_eq!(page(&app, &key, "limit=25").await, (made.clone(), false));
        assert_eq!(page(&app, &key, "limit=1").await, (made[..1].to_vec(), true));
        assert_eq!(page(&app, &key, &format!("after={}", made[19])).await, (made[20..].to_vec(), false));
        assert_eq!(page(&app, &key, &format!("after={}&limit=3", made[4])).await, (made[5..8].to_vec(), true));
        assert_eq!(page(&app, &key, &format!("before={}&limit=3", made[10])).await, (made[7..10].to_vec(), true));
        assert_eq!(page(&app, &key, &format!("before={}", made[3])).await, (made[..3].to_vec(), false));
        assert_eq!(page(&app, &key, &format!("after={}", made[24])).await, (vec![], false));
        let gone = "01890000-0000-7000-8000-000000000000";
        assert_eq!(page(&app, &key, &format!("after={gone}")).await, (vec![], false), "a cursor need not exist");
        let item = &app.get("/events?limit=1&unknown=1").key(&key).send().await.json()["data"][0];
        let keys: Vec<&String> = item.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["id", "name", "schema", "created_at", "updated_at", "defined_by_use"]);
    }

    async fn what_cannot_be_a_page_is_422_invalid_parameter(app: TestApp) {
        let key = app.full_key().await;
        let id = "01890000-0000-7000-8000-000000000000";
        for (query, word) in [
            ("limit=0".to_owned(), "`limit`"),
            ("limit=101".into(), "`limit`"),
            ("limit=-1".into(), "`limit`"),
            ("limit=x".into(), "`limit`"),
            ("limit=1.5".into(), "`limit`"),
            ("limit=1&limit=2".into(), "`limit`"),
            ("limit=99999999999999999999".into(), "`limit`"),
            ("after=x".into(), "`after`"),
            ("before=%00".into(), "`before`"),
            ("after=%ff".into(), "`after`"),
            (format!("after={id}&before={id}"), "`after`"),
        ] {
            let answer = app.get(format!("/events?{query}")).key(&key).send().await;
            assert!(answer.refused(422, "invalid_parameter").contains(word), "{query}");
        }
    }
}
