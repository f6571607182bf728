//! Who may call the API: spec 5, decisions §2.

use posthorn::clock::SECOND;
use posthorn::credentials::{self, Claims, Permission};
use posthorn::id::TokenId;
use serde_json::json;

use crate::flow::{app_named, text};
use crate::harness::{Answer, BASE, NOW, TestApp, on_both};

async fn with_header(app: &TestApp, value: &str) -> Answer {
    app.post("/events").header("authorization", value).json(json!({"name": "a"})).send().await
}

/// The same call by every method that the events have.
async fn everywhere(app: &TestApp, key: &str, id: &str) -> Vec<Answer> {
    let one = format!("/events/{id}");
    vec![
        app.post("/events").key(key).json(json!({"name": "late"})).send().await,
        app.get("/events").key(key).send().await,
        app.get(&one).key(key).send().await,
        app.patch(&one).key(key).json(json!({"schema": {"late": "string"}})).send().await,
        app.delete(&one).key(key).send().await,
    ]
}

/// Method and path of every route that asks for a credential.
fn routes_of_callers() -> Vec<(String, String)> {
    let description = serde_json::to_value(posthorn::product::openapi(BASE)).expect("a description");
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let asks =
                operation["security"].as_array().is_some_and(|all| all.iter().any(|one| one.get("api_key").is_some()));
            if asks {
                // Whatever a parameter is, an id will do.
                let parts = path.split('/').map(|part| match part.starts_with('{') {
                    true => "01890000-0000-7000-8000-000000000001",
                    false => part,
                });
                routes.push((method.to_uppercase(), parts.collect::<Vec<_>>().join("/")));
            }
        }
    }
    routes
}

/// Uses a credential, so that it is known from before.
async fn warm(app: &TestApp, secret: &str, may_list: bool) {
    let expected = if may_list { vec![200] } else { vec![401, 403] };
    assert!(expected.contains(&app.get("/events").key(secret).send().await.status));
}

async fn call(app: &TestApp, method: &str, path: &str, secret: &str, body: Option<&'static str>) -> Answer {
    let request = app.request(method, path).key(secret);
    match body {
        Some(body) => request.body("application/json", body).send().await,
        None => request.send().await,
    }
}

on_both! {
    async fn decisions_2_no_credential_is_401_and_points_at_the_metadata(app: TestApp) {
        let expected = format!("Bearer resource_metadata=\"{BASE}/.well-known/oauth-protected-resource\"");
        let bare = app.post("/events").json(json!({"name": "a"})).send().await;
        bare.refused(401, "missing_api_key");
        assert_eq!(bare.header("www-authenticate"), Some(&*expected));
        for header in ["Bearer", "Bearer ", "Basic cmVfOg==", "re_x", "", "Bearer  re_x", "Bearer a b"] {
            let answer = with_header(&app, header).await;
            answer.refused(401, "missing_api_key");
            assert_eq!(answer.header("www-authenticate"), Some(&*expected), "{header:?}");
        }
        app.post("/events?api_key=re_x&access_token=re_x")
            .json(json!({"name": "a"}))
            .send()
            .await
            .refused(401, "missing_api_key");
        assert_eq!(app.count("events").await, 0);
    }

    async fn decisions_2_an_unknown_or_malformed_key_is_403_invalid_api_key(app: TestApp) {
        let key = app.full_key().await;
        let (shown, hidden) = key.split_at(12);
        let swapped: String = hidden.chars().rev().collect();
        for wrong in [
            "re_".to_owned(),
            "re_123".into(),
            "x".into(),
            "re_12345678_12345678901234567890123456789012".into(),
            format!("{shown}{swapped}"),
            format!("{key}x"),
            key[..key.len() - 1].to_owned(),
            key.to_uppercase(),
            format!("sk{}", &key[2..]),
            "re_a.b.c".into(),
            "re_%00".into(),
            "x".repeat(8000),
        ] {
            let answer = with_header(&app, &format!("Bearer {wrong}")).await;
            answer.refused(403, "invalid_api_key");
            assert_eq!(answer.header("www-authenticate"), None);
        }
        let odd =
            app.post("/events").header("authorization", b"Bearer re_\xff").json(json!({"name": "a"})).send().await;
        odd.refused(403, "invalid_api_key");
        assert_eq!(app.count("events").await, 0);
    }

    async fn spec_4_2_the_scheme_bearer_is_read_in_any_case(app: TestApp) {
        let key = app.full_key().await;
        for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
            assert_eq!(with_header(&app, &format!("{scheme} {key}")).await.status, 201, "{scheme}");
        }
    }

    async fn decisions_2_a_send_only_key_is_401_restricted_api_key_on_every_route_of_events(app: TestApp) {
        let full = app.full_key().await;
        let id = app.event(&full, json!({"name": "kept"})).await;
        let key = app.key(Permission::SendingAccess).await.secret;
        for answer in everywhere(&app, &key, &id).await {
            answer.refused(401, "restricted_api_key");
        }
        assert_eq!(app.count("events").await, 1);
    }

    async fn decisions_2_an_access_token_that_nobody_issued_is_401_invalid_token(app: TestApp) {
        for token in ["a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", ".."] {
            let answer = with_header(&app, &format!("Bearer {token}")).await;
            answer.refused(401, "invalid_token");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
        }
    }

    async fn case_339_two_authorization_headers_are_400(app: TestApp) {
        let key = app.full_key().await;
        for second in [key.clone(), "re_other".into()] {
            let twice = app.post("/events").key(&key).key(&second).json(json!({"name": "a"})).send().await;
            twice.refused(400, "validation_error");
        }
        assert_eq!(app.count("events").await, 0);
    }

    async fn the_credential_is_judged_before_the_body(app: TestApp) {
        let answer = app.post("/events").body("text/plain", "{").send().await;
        answer.refused(401, "missing_api_key");
        let answer = app.post("/events").key("re_no").body("application/json", "{").send().await;
        answer.refused(403, "invalid_api_key");
    }

    async fn issue_2_a_deleted_key_is_refused_at_once_by_every_method_although_it_was_cached(app: TestApp) {
        let keeper = app.full_key().await;
        let key = app.key(Permission::FullAccess).await;
        let id = app.event(&key.secret, json!({"name": "kept", "schema": {"a": "date"}})).await;
        assert_eq!(app.get("/events").key(&key.secret).send().await.status, 200);
        app.delete_key(key.id).await;
        for answer in everywhere(&app, &key.secret, &id).await {
            answer.refused(403, "invalid_api_key");
        }
        let kept = app.get(format!("/events/{id}")).key(&keeper).send().await.json();
        assert_eq!((app.count("events").await, &kept["schema"]), (1, &json!({"a": "date"})));
    }

    async fn issue_2_each_method_by_itself_notices_a_key_that_another_process_deleted(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let id = app.event(&app.full_key().await, json!({"name": "kept"})).await;
        for method in 0..5 {
            let key = app.key(Permission::FullAccess).await;
            assert_eq!(app.get("/events").key(&key.secret).send().await.status, 200, "it is cached now");
            other.delete_key(key.id).await;
            let one = format!("/events/{id}");
            let call = match method {
                0 => app.post("/events").json(json!({"name": "late"})),
                1 => app.get("/events"),
                2 => app.get(&one),
                3 => app.patch(&one).json(json!({"schema": null})),
                _ => app.delete(&one),
            };
            call.key(&key.secret).send().await.refused(403, "invalid_api_key");
        }
        assert_eq!(app.count("events").await, 1);
    }

    /// Whatever is wrong with the request, and whatever the credential may do: what
    /// is gone is told so.
    async fn issue_10_every_route_refuses_a_dead_credential_as_what_it_is(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let grant = text(&app.get("/oauth/grants").key(text(&tokens, "access_token")).send().await.json()["data"][0], "id")
            .to_owned();
        let mut routes = 0;
        for (method, path) in routes_of_callers() {
            for (permission, body) in [
                (Permission::FullAccess, None),
                (Permission::FullAccess, Some("{")),
                (Permission::FullAccess, Some("[]")),
                (Permission::SendingAccess, Some("{}")),
            ] {
                let key = app.key(permission).await;
                warm(&app, &key.secret, permission == Permission::FullAccess).await;
                other.delete_key(key.id).await;
                let answer = call(&app, &method, &path, &key.secret, body).await;
                assert_eq!(answer.json()["name"], "invalid_api_key", "{method} {path} {body:?}: {}", answer.text());
                answer.refused(403, "invalid_api_key");
            }
            for (scope, body) in [("full_access", Some("{")), ("emails:send", None)] {
                let (jti, now): (TokenId, i64) = (app.clock.ordered_id(), NOW / SECOND);
                let claims = Claims {
                    iss: BASE.into(),
                    aud: BASE.into(),
                    sub: owner.id,
                    client_id: client.clone(),
                    scope: scope.into(),
                    jti,
                    iat: now,
                    exp: now + 900,
                    grant: grant.parse().expect("an id"),
                };
                let signed = app.app.credentials.signing.sign(&app.app.db, &app.clock, &claims).await;
                let token = signed.expect("a token");
                warm(&app, &token, scope == "full_access").await;
                let end = posthorn::oauth::revoke_token(jti, (now + 900) * SECOND);
                other.app.db.commit(end).await.expect("ended");
                let answer = call(&app, &method, &path, &token, body).await;
                assert_eq!(answer.json()["name"], "invalid_token", "{method} {path} {body:?}: {}", answer.text());
                answer.refused(401, "invalid_token");
            }
            routes += 1;
        }
        assert!(routes > 50, "{routes}");
        assert_eq!(app.count("events").await, 0);
    }

    async fn issue_10_a_refusal_of_a_credential_that_stands_stays_what_it_is(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let (full, sending) = (app.full_key().await, app.key(Permission::SendingAccess).await);
        let gone = app.key(Permission::FullAccess).await;
        for _ in 0..2 {
            app.post("/events").key(&full).body("application/json", "{").send().await.refused(400, "validation_error");
            app.post("/events").key(&full).json(json!({})).send().await.refused(422, "missing_required_field");
            app.get("/events").key(&sending.secret).send().await.refused(401, "restricted_api_key");
            other.app.db.commit(credentials::delete_key(gone.id)).await.ok();
        }
    }

    async fn issue_2_a_key_that_another_process_made_works_at_once(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let key = other.full_key().await;
        app.event(&key, json!({"name": "a"})).await;
    }

    async fn deleting_one_key_does_not_disturb_the_others(app: TestApp) {
        let (kept, gone) = (app.full_key().await, app.key(Permission::FullAccess).await);
        app.event(&kept, json!({"name": "a"})).await;
        app.delete_key(gone.id).await;
        app.event(&kept, json!({"name": "b"})).await;
        assert_eq!(app.get("/events").key(&kept).send().await.status, 200);
    }

    async fn the_last_use_of_a_key_is_noted(app: TestApp) {
        let key = app.key(Permission::FullAccess).await;
        app.event(&key.secret, json!({"name": "a"})).await;
        app.app.credentials.flush(&app.app.db).await.expect("noted");
        let noted = app.store.value(&format!("SELECT last_used_at FROM api_keys WHERE id = {}", app.store.id(key.id))).await;
        assert_eq!(noted, Some(crate::harness::NOW.to_string()));
    }

    async fn decisions_1_keys_are_kept_as_hashes(app: TestApp) {
        let key = app.full_key().await;
        for row in app.store.rows("SELECT * FROM api_keys").await {
            for column in row.into_iter().flatten() {
                assert!(!column.contains(&key[12..]), "{column}");
            }
        }
    }
}
