//! `POST /oauth/register` and the metadata documents: decisions §4.

use serde_json::{Value, json};

use crate::asking::{CALLBACK, ask, query};
use crate::harness::{Answer, BASE, NOW, TestApp, on_both};
use crate::store::Store;

async fn register(app: &TestApp, metadata: Value) -> Answer {
    app.post("/oauth/register").json(metadata).send().await
}

/// Minimal metadata with one field changed.
fn with(field: &str, value: Value) -> Value {
    let mut metadata = json!({"client_name": "App", "redirect_uris": [CALLBACK]});
    metadata[field] = value;
    metadata
}

async fn refused(app: &TestApp, metadata: Value, error: &str, word: &str) {
    let shown = metadata.to_string();
    let answer = register(app, metadata).await;
    assert_eq!(answer.status, 400, "{shown:.200}: {}", answer.text());
    let text = answer.oauth_refused(400, error);
    assert!(text.contains(word), "{text}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(app.count("oauth_clients").await, 1, "nothing beside the built-in client is stored");
}

on_both! {
    async fn case_354_minimal_metadata_make_a_client_and_what_is_in_force_is_echoed(app: TestApp) {
        let answer = register(&app, with("client_name", json!("App"))).await;
        assert_eq!(answer.status, 201);
        for (name, value) in
            [("cache-control", "no-store"), ("pragma", "no-cache"), ("access-control-allow-origin", "*")]
        {
            assert_eq!(answer.header(name), Some(value));
        }
        let mut body = answer.json();
        let id = body["client_id"].take();
        let parsed = uuid::Uuid::parse_str(id.as_str().expect("an id")).expect("a UUID");
        assert_eq!(json!(parsed.as_hyphenated().to_string()), id);
        assert_eq!(
            body,
            json!({
                "client_id": null, "client_id_issued_at": NOW / 1_000_000, "client_name": "App", "redirect_uris": [CALLBACK],
                "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
                "scope": "full_access emails:send", "token_endpoint_auth_method": "none",
            })
        );
    }

    async fn a_registered_client_can_authorize_at_once_in_every_process(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let id = register(&app, with("scope", json!("emails:send"))).await.json()["client_id"].clone();
        let id = id.as_str().expect("an id");
        ask(&app, query(id, &[])).await.consent();
        ask(&other, query(id, &[])).await.consent();
        ask(&other, query(id, &[("scope", Some("full_access"))])).await.returned(
            "https://app.example/cb?",
            "invalid_scope",
            "",
        );
    }

    async fn case_356_a_client_with_a_secret_sees_it_once(app: TestApp) {
        for method in ["client_secret_basic", "client_secret_post"] {
            let body = register(&app, with("token_endpoint_auth_method", json!(method))).await.json();
            let secret = body["client_secret"].as_str().expect("a secret").to_owned();
            assert!(secret.len() >= 43);
            assert_eq!(
                (&body["client_secret_expires_at"], &body["token_endpoint_auth_method"]),
                (&json!(0), &json!(method))
            );
            for row in app.store.rows("SELECT * FROM oauth_clients").await {
                assert!(row.into_iter().flatten().all(|column| !column.contains(&secret)), "kept as a hash only");
            }
        }
    }

    async fn cases_357_to_361_metadata_that_are_not_offered(app: TestApp) {
        let metadata = "invalid_client_metadata";
        refused(
            &app,
            with("token_endpoint_auth_method", json!("private_key_jwt")),
            metadata,
            "token_endpoint_auth_method",
        )
        .await;
        refused(&app, with("grant_types", json!(["refresh_token"])), metadata, "grant_types").await;
        refused(&app, with("grant_types", json!([])), metadata, "grant_types").await;
        refused(&app, with("grant_types", json!(["authorization_code", "implicit"])), metadata, "grant_types").await;
        refused(&app, with("response_types", json!(["token"])), metadata, "response_types").await;
        refused(&app, with("response_types", json!(["code", "token"])), metadata, "response_types").await;
        refused(&app, with("scope", json!("openid")), metadata, "scope").await;
        let empty = register(&app, with("scope", json!(""))).await.json();
        assert_eq!(empty["scope"], "full_access emails:send", "as omitted");
    }

    async fn cases_362_to_370_redirect_uris(app: TestApp) {
        let bad = "invalid_redirect_uri";
        refused(&app, json!({"client_name": "A"}), bad, "redirect_uris").await;
        refused(&app, with("redirect_uris", json!([])), bad, "redirect_uris").await;
        let eleven: Vec<String> = (0..11).map(|n| format!("https://a.example/{n}")).collect();
        refused(&app, with("redirect_uris", json!(eleven)), bad, "redirect_uris").await;
        for uri in [
            "http://app.example/cb",
            "http://localhost.evil.test/cb",
            "http://127.0.0.1:0/cb",
            "http://127.0.0.1:x/cb",
            "http://127.0.0.1:080/cb",
            "https://a.example/#f",
            "https://u@a.example/",
            "https://u:p@a.example/",
            "https://a.example/a b",
            "https://a.example/\t",
            "https://a.example\\b",
            "https://é.example/",
            "https://a.example/?code=1",
            "https://a.example/?STATE=1",
            "https://a.example/?%63ode=1",
            "https://a.example/?a=1&error=1",
            "https://a.example/?error_description",
            "https://a.example/?iss=x",
            "javascript:alert(1)",
            "JAVASCRIPT:alert(1)",
            "java%0Ascript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "blob:https://a/x",
            "about:blank",
            "ftp://a.example/",
            "ws://a.example/",
            "mailto:a@b",
            "https://*.example/cb",
            "https://",
            "https:///cb",
            "cb",
            "",
            "//a/b",
            "https://a.example/%zz",
        ] {
            refused(&app, with("redirect_uris", json!([uri])), bad, "redirect_uris[0]").await;
            refused(&app, with("redirect_uris", json!([CALLBACK, uri])), bad, "redirect_uris[1]").await;
        }
        for uri in [
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "vscode://x.y/cb",
            "com.example.app:/oauth",
            "http://127.0.0.1:33418",
            "http://127.0.0.1:33418/",
            "http://localhost/cb",
            "http://[::1]:8080/cb",
            "https://a.example",
            "https://a.example:8443/cb?a=b",
        ] {
            let body = register(&app, with("redirect_uris", json!([uri, uri]))).await.json();
            assert_eq!(body["redirect_uris"], json!([uri]), "as sent, duplicates collapsed");
        }
    }

    async fn cases_371_to_374_other_metadata(app: TestApp) {
        let metadata = "invalid_client_metadata";
        for name in
            [json!(""), json!("x".repeat(201)), json!("a\u{7}b"), json!("a\nb"), json!(7), json!([]), json!("\u{200b}")]
        {
            refused(&app, with("client_name", name), metadata, "client_name").await;
        }
        refused(&app, json!({"redirect_uris": [CALLBACK]}), metadata, "client_name").await;
        refused(&app, json!({"redirect_uris": [CALLBACK], "clientName": "x"}), metadata, "spelling").await;
        for field in ["client_uri", "logo_uri", "policy_uri", "tos_uri"] {
            for uri in ["javascript:alert(1)", "data:,x", "ftp://a", "//a", "a", "https://vendor@evil.example/"] {
                refused(&app, with(field, json!(uri)), metadata, field).await;
            }
        }
        for (field, value) in [
            ("redirect_uris", json!("https://a.example")),
            ("redirect_uris", json!([null])),
            ("redirect_uris", json!([1])),
        ] {
            refused(&app, with(field, value), "invalid_redirect_uri", field).await;
        }
        for (field, value) in
            [("grant_types", json!("authorization_code")), ("response_types", json!({})), ("scope", json!(["x"]))]
        {
            refused(&app, with(field, value), metadata, field).await;
        }
        let unknown = json!({"client_name": "App", "redirect_uris": [CALLBACK], "application_type": "native", "software_id": 7,
            "client_name#de": "Programm", "contacts": ["x"], "scope": null, "jwks_uri": "x"});
        assert_eq!(register(&app, unknown).await.status, 201);
        assert_eq!(register(&app, with("client_name", json!("é".repeat(200)))).await.status, 201);
    }

    async fn case_372_a_body_that_is_no_metadata_is_400_and_a_large_one_413(app: TestApp) {
        for (label, body) in [
            ("application/json", "{".to_owned()),
            ("application/json", "".into()),
            ("application/json", "nul".into()),
            ("text/plain", with("x", json!(1)).to_string()),
            ("application/json", format!("{}1{}", "[".repeat(8000), "]".repeat(8000))),
        ] {
            let answer = app.post("/oauth/register").body(label, body).send().await;
            answer.oauth_refused(400, "invalid_request");
        }
        refused(&app, json!([]), "invalid_client_metadata", "JSON object").await;
        let large = with("pad", json!("x".repeat(16 << 10))).to_string();
        app.post("/oauth/register")
            .body("application/json", large.clone())
            .send()
            .await
            .oauth_refused(413, "invalid_request");
        let streamed =
            app.post("/oauth/register").header("content-type", "application/json").stream(large).send().await;
        streamed.oauth_refused(413, "invalid_request");
        assert_eq!(app.count("oauth_clients").await, 1);
    }

    async fn case_377_the_same_body_twice_makes_two_clients(app: TestApp) {
        let (one, two) =
            (register(&app, with("a", json!(1))).await.json(), register(&app, with("a", json!(1))).await.json());
        assert_ne!(one["client_id"], two["client_id"]);
    }

    async fn case_380_browsers_may_register_from_other_origins(app: TestApp) {
        let answer = app
            .request("OPTIONS", "/oauth/register")
            .header("origin", "https://inspector.example")
            .header("access-control-request-method", "POST")
            .send()
            .await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("*")));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        app.get("/oauth/register").send().await.refused(405, "method_not_allowed");
    }

    async fn case_376_registration_can_be_switched_off(store: Store) {
        let app = TestApp::open(&store, &["--registration=off"]).await;
        register(&app, with("a", json!(1))).await.oauth_refused(404, "invalid_request");
        let metadata = app.get("/.well-known/oauth-authorization-server").send().await.json();
        assert!(metadata.get("registration_endpoint").is_none(), "{metadata}");
        assert_eq!(app.count("oauth_clients").await, 1);
    }

    async fn case_376_registration_can_ask_for_a_token(store: Store) {
        let app = TestApp::open(&store, &["--registration=token", "--registration-token=0123456789abcdef"]).await;
        for header in
            [None, Some("Bearer x"), Some("Bearer 0123456789abcdeF"), Some("0123456789abcdef"), Some("Bearer ")]
        {
            let mut request = app.post("/oauth/register").json(with("a", json!(1)));
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let answer = request.send().await;
            answer.oauth_refused(401, "invalid_client");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
        let admitted = app.post("/oauth/register").key("0123456789abcdef").json(with("a", json!(1))).send().await;
        assert_eq!(admitted.status, 201);
        assert_eq!(app.count("oauth_clients").await, 2);
    }

    async fn decisions_2_a_client_that_cannot_be_stored_is_503(app: TestApp) {
        app.store.run("ALTER TABLE oauth_clients RENAME TO elsewhere").await;
        let answer = register(&app, with("a", json!(1))).await;
        answer.oauth_refused(503, "temporarily_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }

    async fn cases_341_to_353_the_metadata_documents(app: TestApp) {
        for host in ["mail.example", "evil.example"] {
            let answer = app
                .get("/.well-known/oauth-authorization-server")
                .header("host", host)
                .header("x-forwarded-host", "evil.example")
                .send()
                .await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
            assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
            let document = answer.json();
            for (field, value) in [
                ("issuer", json!(BASE)),
                ("authorization_endpoint", json!(format!("{BASE}/oauth/authorize"))),
                ("token_endpoint", json!(format!("{BASE}/oauth/token"))),
                ("registration_endpoint", json!(format!("{BASE}/oauth/register"))),
                ("response_types_supported", json!(["code"])),
                ("response_modes_supported", json!(["query"])),
                ("code_challenge_methods_supported", json!(["S256"])),
                ("scopes_supported", json!(["full_access", "emails:send"])),
                ("grant_types_supported", json!(["authorization_code", "refresh_token"])),
                ("token_endpoint_auth_methods_supported", json!(["none", "client_secret_basic", "client_secret_post"])),
                ("authorization_response_iss_parameter_supported", json!(false)),
            ] {
                assert_eq!(document[field], value, "{field}");
            }
            assert!(document.get("client_id_metadata_document_supported").is_none(), "{document}");

            for (path, resource) in
                [("", BASE.to_owned()), ("/events", format!("{BASE}/events")), ("/a/b", format!("{BASE}/a/b"))]
            {
                let target = format!("/.well-known/oauth-protected-resource{path}");
                let document = app.get(target).header("host", host).send().await.json();
                assert_eq!(document["resource"], json!(resource));
                assert_eq!(document["authorization_servers"], json!([BASE]));
                assert_eq!(document["scopes_supported"], json!(["emails:send"]));
            }
        }
        app.get("/.well-known/openid-configuration").send().await.refused(404, "not_found");
    }

    async fn case_342_a_base_url_with_a_path_has_its_documents_where_the_rfcs_look(store: Store) {
        let app = TestApp::open(&store, &["--base-url=https://host.example/mail/api/"]).await;
        let base = "https://host.example/mail/api";
        let issuer = app.get("/.well-known/oauth-authorization-server/mail/api").send().await.json()["issuer"].clone();
        assert_eq!(issuer, base);
        let document = app.get("/.well-known/oauth-protected-resource/mail/api").send().await.json();
        assert_eq!((&document["resource"], &document["authorization_servers"]), (&json!(base), &json!([base])));
        let below = app.get("/.well-known/oauth-protected-resource/mail/api/events").send().await.json();
        assert_eq!(below["resource"], format!("{base}/events"));
        let bare = app.post("/mail/api/events").send().await;
        let challenge =
            "Bearer resource_metadata=\"https://host.example/.well-known/oauth-protected-resource/mail/api\"";
        assert_eq!((bare.status, bare.header("www-authenticate")), (401, Some(challenge)));
    }
}
