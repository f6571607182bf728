//! Automations over HTTP: making, reading, changing, copying, stopping, deleting.

use serde_json::{Value, json};

use crate::graphs::{automation, body, delay, graph, link, refused, trigger};
use crate::harness::{TestApp, on_both};

async fn read(app: &TestApp, key: &str, id: &str) -> Value {
    let answer = app.get(format!("/automations/{id}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn listed(app: &TestApp, key: &str, query: &str) -> Vec<String> {
    let answer = app.get(format!("/automations?{query}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let list = answer.json();
    assert_eq!(list["object"], "list");
    let items = list["data"].as_array().expect("a list");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

async fn number(app: &TestApp, sql: &str) -> i64 {
    app.store.value(sql).await.and_then(|value| value.parse().ok()).expect("a number")
}

/// How often what triggers would do has changed.
async fn revision(app: &TestApp) -> i64 {
    let workspace = app.workspace().await;
    number(app, &format!("SELECT automations_revision FROM workspaces WHERE id = {}", app.store.id(workspace))).await
}

on_both! {
    async fn an_automation_is_read_as_it_was_made(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("Welcome")).await;
        let expected = json!({
            "object": "automation", "id": id, "name": "Welcome", "status": "disabled", "re_entry": "always",
            "exit_on": null, "version": 1,
            "created_at": "2026-01-02T03:04:05.678901Z", "updated_at": "2026-01-02T03:04:05.678901Z",
            "steps": [trigger(), delay("wait")],
            "connections": [{"from": "start", "to": "wait", "type": "default"}],
        });
        assert_eq!(read(&app, &key, &id).await, expected);
        assert_eq!(read(&app, &key, &id.to_uppercase()).await, expected);
        let list = app.get("/automations").key(&key).send().await.json();
        let item = json!({"id": id, "name": "Welcome", "status": "disabled",
            "created_at": "2026-01-02T03:04:05.678901Z", "updated_at": "2026-01-02T03:04:05.678901Z"});
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": [item]}));
    }

    async fn everything_can_be_said_when_it_is_made(app: TestApp) {
        let key = app.full_key().await;
        let hook = json!({"key": "hook", "type": "webhook", "config": {"url": "https://example.com/in"}});
        let id = automation(&app, &key, json!({
            "name": "All", "status": "enabled", "re_entry": "once_per_contact", "exit_on": "svc:email.bounced",
            "steps": [trigger(), hook], "connections": [link("start", "hook")], "unknown": 1,
        })).await;
        let found = read(&app, &key, &id).await;
        assert_eq!((&found["status"], &found["re_entry"]), (&json!("enabled"), &json!("once_per_contact")));
        assert_eq!(found["exit_on"], "svc:email.bounced");
        let secret = found["webhook_secret"].as_str().expect("a secret");
        assert!(secret.starts_with("whsec_") && secret.len() == 38, "{secret}");
        let other = automation(&app, &key, json!({
            "name": "Plain", "status": null, "re_entry": null, "exit_on": null,
            "steps": [trigger()], "connections": [],
        })).await;
        assert!(read(&app, &key, &other).await.get("webhook_secret").is_none());
    }

    async fn decisions_6_a_graph_that_cannot_run_is_refused_with_the_reason(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("Kept")).await;
        for (steps, connections, reason) in refused() {
            let whole = json!({"name": "x", "steps": steps, "connections": connections});
            let answer = app.post("/automations").key(&key).json(whole.clone()).send().await;
            let message = answer.refused(422, "validation_error");
            assert!(message.contains(reason), "{reason}: {message}");
            let answer = app.patch(format!("/automations/{id}")).key(&key).json(whole.clone()).send().await;
            assert_eq!(answer.refused(422, "validation_error"), message);
            let answer = app.post("/automations/validate").key(&key).json(whole).send().await;
            assert_eq!((answer.status, &answer.json()["valid"]), (200, &json!(false)), "{}", answer.text());
            let check = answer.json();
            let findings = check["findings"].as_array().expect("findings");
            assert!(findings.iter().any(|one| one["message"].as_str().expect("words").contains(reason)), "{check}");
        }
        assert_eq!(app.count("automations").await, 1);
        assert_eq!(app.count("automation_versions").await, 1);
    }

    async fn a_refusal_tells_how_much_more_is_wrong(app: TestApp) {
        let key = app.full_key().await;
        let bad = |key: &str| json!({"key": key, "type": "delay", "config": {}});
        let whole = json!({"name": "x", "steps": [trigger(), bad("a"), bad("b"), bad("c")], "connections": []});
        let message = app.post("/automations").key(&key).json(whole.clone()).send().await.refused(422, "validation_error");
        assert!(message.contains("`a`") && message.contains("2 more") && message.contains("/automations/validate"));
        let check = app.post("/automations/validate").key(&key).json(whole).send().await.json();
        assert_eq!(check["findings"].as_array().map(Vec::len), Some(3));
    }

    async fn validate_judges_and_makes_nothing(app: TestApp) {
        let key = app.full_key().await;
        let (steps, connections) = graph();
        let fine = json!({"steps": steps, "connections": connections});
        let answer = app.post("/automations/validate").key(&key).json(fine).send().await;
        let expected = json!({"object": "automation_check", "valid": true, "findings": []});
        assert_eq!((answer.status, answer.json()), (200, expected));
        let nulls = json!({"steps": null, "connections": null});
        let empty = app.post("/automations/validate").key(&key).json(nulls).send().await;
        assert_eq!((empty.status, &empty.json()["valid"]), (200, &json!(false)));
        assert_eq!(empty.json()["findings"][0]["step"], Value::Null);
        let missing = app.post("/automations/validate").key(&key).send().await;
        assert!(missing.refused(422, "missing_required_field").contains("`steps`"));
        assert_eq!(app.count("automations").await, 0);
        let other = app.key(posthorn::credentials::Permission::FullAccess).await;
        app.post("/automations/validate").key(&other.secret).send().await;
        app.delete_key(other.id).await;
        app.post("/automations/validate").key(&other.secret).send().await.refused(403, "invalid_api_key");
    }

    async fn what_is_missing_or_wrong_beside_the_graph_is_named(app: TestApp) {
        let key = app.full_key().await;
        let without = |name: &str| {
            let mut body = body("x");
            body.as_object_mut().expect("an object").shift_remove(name);
            body
        };
        for name in ["name", "steps", "connections"] {
            let answer = app.post("/automations").key(&key).json(without(name)).send().await;
            assert!(answer.refused(422, "missing_required_field").contains(&format!("`{name}`")));
        }
        for (name, value) in [
            ("name", json!("")), ("name", json!(" ")), ("name", json!("a\nb")), ("name", json!("x".repeat(201))),
            ("name", json!(1)), ("status", json!("on")), ("status", json!(true)), ("re_entry", json!("never")),
            ("exit_on", json!("")), ("exit_on", json!(1)), ("exit_on", json!("a\u{0}")),
        ] {
            let mut wrong = body("x");
            wrong[name] = value.clone();
            let answer = app.post("/automations").key(&key).json(wrong).send().await;
            assert!(answer.refused(422, "validation_error").contains(&format!("`{name}`")), "{name}: {value}");
        }
        assert_eq!(app.count("automations").await, 0);
    }

    async fn decisions_6_a_new_graph_is_a_new_version(app: TestApp) {
        let key = app.full_key().await;
        let mut enabled = body("Welcome");
        enabled["status"] = json!("enabled");
        let id = automation(&app, &key, enabled).await;
        let path = format!("/automations/{id}");
        app.clock.advance(1_000_000);
        let steps = json!([{"key": "start", "type": "trigger", "config": {"event_name": "order.placed"}}]);
        let answer = app.patch(&path).key(&key).json(json!({"steps": steps, "connections": []})).send().await;
        assert_eq!((answer.status, answer.json()), (200, json!({"object": "automation", "id": id})));
        let found = read(&app, &key, &id).await;
        assert_eq!((&found["version"], &found["steps"], &found["connections"]), (&json!(2), &steps, &json!([])));
        assert_eq!((&found["status"], &found["updated_at"]), (&json!("enabled"), &json!("2026-01-02T03:04:06.678901Z")));
        assert_eq!(app.count("automation_versions").await, 2);
        let kept = number(&app, "SELECT COUNT(*) FROM automation_versions WHERE version = 1 AND event_name = 'user.created'").await;
        assert_eq!(kept, 1, "runs in flight keep the graph they started with");
        app.patch(&path).key(&key).json(json!({"name": "Other"})).send().await;
        assert_eq!(read(&app, &key, &id).await["version"], 2, "a name is no version");
    }

    async fn each_part_is_changed_alone_and_null_removes_the_exit(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("a")).await;
        let path = format!("/automations/{id}");
        for (change, name) in [
            (json!({"name": "b"}), "name"), (json!({"status": "enabled"}), "status"),
            (json!({"re_entry": "one_at_a_time"}), "re_entry"), (json!({"exit_on": "bye"}), "exit_on"),
            (json!({"exit_on": null}), "exit_on"),
        ] {
            let before = read(&app, &key, &id).await;
            let answer = app.patch(&path).key(&key).json(change.clone()).send().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let mut expected = before;
            expected[name] = change[name].clone();
            assert_eq!(read(&app, &key, &id).await, expected);
        }
        let nulls = json!({"name": "c", "status": null, "steps": null, "connections": null, "re_entry": null});
        assert_eq!(app.patch(&path).key(&key).json(nulls).send().await.status, 200);
        assert_eq!(read(&app, &key, &id).await["status"], "enabled");
    }

    async fn half_a_graph_and_an_empty_change_are_refused(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("a")).await;
        let path = format!("/automations/{id}");
        let (steps, connections) = graph();
        for (half, missing) in [(json!({"steps": steps}), "connections"), (json!({"connections": connections}), "steps")] {
            let message = app.patch(&path).key(&key).json(half).send().await.refused(422, "validation_error");
            assert!(message.contains(&format!("without `{missing}`")) && message.contains("both"), "{message}");
        }
        for nothing in [json!({}), json!({"nmae": "x"}), json!({"name": null})] {
            let message = app.patch(&path).key(&key).json(nothing).send().await.refused(422, "missing_required_field");
            assert!(message.contains("`name`") && message.contains("`connections`"));
        }
        app.patch(&path).key(&key).send().await.refused(422, "missing_required_field");
        assert_eq!(read(&app, &key, &id).await["version"], 1);
    }

    async fn two_changes_at_once_are_two_versions(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("a")).await;
        let path = format!("/automations/{id}");
        let other = TestApp::open(&app.store, &[]).await;
        for round in 0..5 {
            let publish = |app: &'static str| json!({"steps": [trigger(), delay(app)], "connections": [link("start", app)]});
            let (first, second) = tokio::join!(
                app.patch(&path).key(&key).json(publish("one")).send(),
                other.patch(&path).key(&key).json(publish("two")).send(),
            );
            assert_eq!((first.status, second.status), (200, 200), "{} {}", first.text(), second.text());
            let found = read(&app, &key, &id).await;
            assert_eq!(found["version"], 3 + 2 * round);
            let last = found["steps"][1]["key"].as_str().expect("a key");
            assert_eq!(found["connections"][0]["to"], last, "steps and connections of one and the same change");
        }
        assert_eq!(app.count("automation_versions").await, 11);
    }

    async fn a_copy_has_the_graph_and_a_secret_of_its_own_and_sleeps(app: TestApp) {
        let key = app.full_key().await;
        let hook = json!({"key": "hook", "type": "webhook", "config": {"url": "https://example.com/in"}});
        let id = automation(&app, &key, json!({"name": "Hook", "status": "enabled", "re_entry": "one_at_a_time",
            "exit_on": "bye", "steps": [trigger(), hook], "connections": [link("start", "hook")]})).await;
        let original = read(&app, &key, &id).await;
        let path = format!("/automations/{id}/duplicate");
        for request in [app.post(&path), app.post(&path).body("application/json", ""), app.post(&path).json(json!({}))] {
            let answer = request.key(&key).send().await;
            assert_eq!(answer.status, 201, "{}", answer.text());
            assert_eq!(answer.json()["object"], "automation");
            let copy = read(&app, &key, answer.json()["id"].as_str().expect("an id")).await;
            assert_eq!((&copy["name"], &copy["status"], &copy["version"]), (&json!("Hook (copy)"), &json!("disabled"), &json!(1)));
            for same in ["steps", "connections", "re_entry", "exit_on"] {
                assert_eq!(copy[same], original[same]);
            }
            assert_ne!(copy["webhook_secret"], original["webhook_secret"]);
        }
        assert_eq!(read(&app, &key, &id).await, original);
    }

    async fn stop_disables_and_may_be_said_twice(app: TestApp) {
        let key = app.full_key().await;
        let mut enabled = body("a");
        enabled["status"] = json!("enabled");
        let id = automation(&app, &key, enabled).await;
        let path = format!("/automations/{id}/stop");
        for request in [app.post(&path), app.post(&path).body("application/json", ""), app.post(&path).json(json!({}))] {
            let answer = request.key(&key).send().await;
            let expected = json!({"object": "automation", "id": id, "status": "disabled"});
            assert_eq!((answer.status, answer.json()), (200, expected));
        }
        assert_eq!(read(&app, &key, &id).await["status"], "disabled");
    }

    async fn what_is_deleted_is_404_everywhere(app: TestApp) {
        let key = app.full_key().await;
        let mut enabled = body("a");
        enabled["status"] = json!("enabled");
        let id = automation(&app, &key, enabled).await;
        let answer = app.delete(format!("/automations/{id}")).key(&key).json(json!({})).send().await;
        assert_eq!((answer.status, answer.json()), (200, json!({"object": "automation", "id": id, "deleted": true})));
        everywhere_404(&app, &key, &id).await;
        assert_eq!(listed(&app, &key, "").await, Vec::<String>::new());
        let kept = number(&app, "SELECT COUNT(*) FROM automations WHERE status = 'disabled' AND deleted_at IS NOT NULL").await;
        assert_eq!(kept, 1, "its row stays until its runs are gone");
    }

    async fn decisions_1_an_automation_of_others_is_404_everywhere(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = automation(&app, &mine, body("secret")).await;
        let before = read(&app, &mine, &id).await;
        everywhere_404(&app, &theirs, &id).await;
        app.delete(format!("/automations/{id}")).key(&theirs).send().await.refused(404, "not_found");
        assert_eq!(listed(&app, &theirs, "").await, Vec::<String>::new());
        assert_eq!(read(&app, &mine, &id).await, before);
    }

    async fn an_id_that_is_none_is_422_invalid_parameter(app: TestApp) {
        let key = app.full_key().await;
        for path in ["/automations/x", "/automations/1234", "/automations/%00"] {
            app.get(path).key(&key).send().await.refused(422, "invalid_parameter");
            app.delete(path).key(&key).send().await.refused(422, "invalid_parameter");
            app.patch(path).key(&key).json(json!({"name": "x"})).send().await.refused(422, "invalid_parameter");
            app.post(format!("{path}/stop")).key(&key).send().await.refused(422, "invalid_parameter");
            app.post(format!("{path}/duplicate")).key(&key).send().await.refused(422, "invalid_parameter");
        }
    }

    async fn a_list_is_paged_newest_first_and_by_status(app: TestApp) {
        let key = app.full_key().await;
        let mut made = Vec::new();
        for at in 0..6 {
            let mut body = body(&format!("a{at}"));
            body["status"] = json!(if at % 2 == 0 { "enabled" } else { "disabled" });
            made.push(automation(&app, &key, body).await);
        }
        made.reverse();
        assert_eq!(listed(&app, &key, "").await, made);
        assert_eq!(listed(&app, &key, "limit=2").await, made[..2]);
        assert_eq!(listed(&app, &key, &format!("limit=2&after={}", made[1])).await, made[2..4]);
        assert_eq!(listed(&app, &key, &format!("limit=2&before={}", made[3])).await, made[1..3]);
        let odd: Vec<String> = made.iter().skip(1).step_by(2).cloned().collect();
        assert_eq!(listed(&app, &key, "status=enabled").await, odd);
        assert_eq!(listed(&app, &key, &format!("status=enabled&before={}", odd[2])).await, odd[..2]);
        assert_eq!(listed(&app, &key, "status=disabled&limit=1").await, made[..1]);
        for query in ["status=on", "status=", "status=enabled&status=disabled", "limit=0"] {
            app.get(format!("/automations?{query}")).key(&key).send().await.refused(422, "invalid_parameter");
        }
    }

    async fn whatever_changes_what_a_trigger_does_raises_the_revision(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("a")).await;
        let path = format!("/automations/{id}");
        let mut before = revision(&app).await;
        assert_eq!(before, 2);
        for request in [
            app.patch(&path).json(json!({"status": "enabled"})),
            app.patch(&path).json(body("b")),
            app.post(format!("{path}/stop")),
            app.post(format!("{path}/duplicate")),
            app.delete(&path),
        ] {
            let answer = request.key(&key).send().await;
            assert!(answer.status < 300, "{}", answer.text());
            before += 1;
            assert_eq!(revision(&app).await, before);
        }
        app.delete(&path).key(&key).send().await.refused(404, "not_found");
        assert_eq!(revision(&app).await, before, "what failed changed nothing");
    }
}

async fn everywhere_404(app: &TestApp, key: &str, id: &str) {
    let path = format!("/automations/{id}");
    app.get(&path).key(key).send().await.refused(404, "not_found");
    app.patch(&path).key(key).json(json!({"name": "x"})).send().await.refused(404, "not_found");
    app.patch(&path).key(key).json(body("x")).send().await.refused(404, "not_found");
    app.post(format!("{path}/stop")).key(key).send().await.refused(404, "not_found");
    app.post(format!("{path}/duplicate")).key(key).send().await.refused(404, "not_found");
    app.delete(&path).key(key).send().await.refused(404, "not_found");
}
