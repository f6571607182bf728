//! No request can read or change another workspace's rows (decisions §1).

use serde_json::json;

use crate::harness::{TestApp, on_both};

on_both! {
    async fn decisions_1_another_workspaces_event_is_404_on_every_method(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = app.event(&mine, json!({"name": "secret", "schema": {"a": "date"}})).await;
        for path in [format!("/events/{id}"), "/events/secret".into()] {
            app.get(&path).key(&theirs).send().await.refused(404, "not_found");
            app.patch(&path).key(&theirs).json(json!({"schema": null})).send().await.refused(404, "not_found");
            app.delete(&path).key(&theirs).send().await.refused(404, "not_found");
        }
        let kept = app.get(format!("/events/{id}")).key(&mine).send().await.json();
        assert_eq!(kept["schema"], json!({"a": "date"}));
    }

    async fn decisions_1_lists_and_names_are_each_workspaces_own(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let first = app.event(&mine, json!({"name": "same"})).await;
        let second = app.event(&theirs, json!({"name": "same"})).await;
        for (key, id) in [(&mine, &first), (&theirs, &second)] {
            let found = app.get("/events/same").key(key).send().await.json();
            assert_eq!(found["id"], json!(id));
            for query in ["", "?limit=1", "?before=01890000-0000-7000-8000-000000000000"] {
                let list = app.get(format!("/events{query}")).key(key).send().await.json();
                let ids: Vec<_> = list["data"].as_array().expect("a list").iter().map(|item| &item["id"]).collect();
                assert_eq!(ids, [&json!(id)], "{query}");
            }
        }
    }

    /// Whatever route is added later is walked here too: with a stranger's key
    /// and a row of mine in the path, none may answer 2xx.
    async fn decisions_1_no_route_that_takes_an_id_shows_it_to_strangers(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = app.event(&mine, json!({"name": "mine"})).await;
        let description = app.get("/openapi.json").send().await.json();
        let mut walked = 0;
        for (path, methods) in description["paths"].as_object().expect("paths") {
            if !path.contains('{') {
                continue;
            }
            let target: String = path
                .split('/')
                .map(|part| if part.starts_with('{') { &id } else { part })
                .collect::<Vec<_>>()
                .join("/");
            for method in methods.as_object().expect("methods").keys() {
                let answer = app
                    .request(&method.to_uppercase(), &target)
                    .key(&theirs)
                    .json(json!({"schema": null, "name": "x", "scheduled_at": "in 1 hour", "to": "a@example.com"}))
                    .send()
                    .await;
                assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
                walked += 1;
            }
        }
        assert!(walked >= 3, "{walked} routes");
        assert_eq!(app.get(format!("/events/{id}")).key(&mine).send().await.status, 200);
    }

    /// Every described route that asks for a credential turns away whoever has none.
    async fn spec_5_every_route_of_the_api_asks_for_a_credential(app: TestApp) {
        let description = app.get("/openapi.json").send().await.json();
        let mut walked = 0;
        for (path, methods) in description["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let open = operation["security"].as_array().is_some_and(|all| all.iter().all(|one| one == &json!({})));
                if open {
                    let known = ["/oauth/", "/.well-known/", "/healthz", "/readyz", "/metrics"];
                    assert!(known.iter().any(|open| path.starts_with(open)), "{method} {path}");
                    continue;
                }
                let target = path.replace(['{', '}'], "");
                let answer = app.request(&method.to_uppercase(), &target).send().await;
                answer.refused(401, "missing_api_key");
                walked += 1;
            }
        }
        assert!(walked >= 5, "{walked} routes");
    }
}
