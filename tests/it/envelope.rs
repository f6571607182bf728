//! Every answer has its shape: decisions §2, issue 2 item 9.

use std::io::Write;
use std::sync::Mutex;

use axum::routing::get;
use serde_json::json;

use crate::asking::{CALLBACK, query};
use crate::harness::{TestApp, on_both};
use crate::store::Store;

on_both! {
    async fn decisions_2_an_unknown_path_is_404_in_the_envelope(app: TestApp) {
        let key = app.full_key().await;
        for path in [
            "/nope",
            "/nope/",
            "/EVENTS",
            "/event",
            "/oauth",
            "/oauth/",
            "/.well-known/x",
            "/events%2fa",
            "/healthz/x",
            "/%ff",
            "/..",
            "/events/%ff",
            "/assets/none.css",
            "/assets/%ff",
        ] {
            app.get(path).key(&key).send().await.refused(404, "not_found");
        }
        for path in ["/dashboard/nope", "/dashboard/%ff", "/dashboard/oauth/authorize"] {
            let page = app.get(path).send().await;
            assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")), "{path}");
        }
    }

    async fn decisions_2_a_wrong_method_is_405_with_allow_on_every_described_route(app: TestApp) {
        let description = app.get("/openapi.json").send().await.json();
        for (path, methods) in description["paths"].as_object().expect("paths") {
            // Below `/events/` everything is a name, too, whatever else it is.
            if path.starts_with("/events/") {
                continue;
            }
            let target = path.replace(['{', '}'], "");
            let offered: Vec<String> =
                methods.as_object().expect("methods").keys().map(|name| name.to_uppercase()).collect();
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"] {
                if offered.iter().any(|offer| offer == method) {
                    continue;
                }
                let answer = app.request(method, &target).send().await;
                answer.refused(405, "method_not_allowed");
                let allow = answer.header("allow").unwrap_or_else(|| panic!("{method} {path}: no Allow"));
                let allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
                assert!(offered.iter().all(|offer| allowed.contains(&&**offer)), "{method} {path}: {allow}");
            }
        }
    }

    async fn words_of_the_api_are_names_of_events_like_any_other(app: TestApp) {
        let key = app.full_key().await;
        for name in ["send", "send/batch", "x/occurrences"] {
            let id = app.event(&key, json!({ "name": name })).await;
            let path = format!("/events/{name}");
            assert_eq!(app.get(&path).key(&key).send().await.json()["id"], json!(id));
            assert_eq!(app.patch(&path).key(&key).json(json!({"schema": null})).send().await.status, 200);
            app.request("PUT", &path).key(&key).send().await.refused(405, "method_not_allowed");
            assert_eq!(app.delete(&path).key(&key).send().await.status, 200);
        }
    }

    async fn decisions_2_a_panic_is_500_in_the_envelope_and_the_process_lives_on(app: TestApp) {
        async fn boom() -> &'static str {
            panic!("a defect")
        }
        let routes = axum::Router::new().route("/boom", get(boom)).route("/fine", get(async || "fine"));
        let app = app.before(routes);
        for _ in 0..3 {
            let answer = app.get("/boom").send().await;
            let message = answer.refused(500, "application_error");
            assert!(!message.contains("a defect"));
            assert!(answer.header("x-request-id").is_some());
            assert_eq!(app.get("/fine").send().await.text(), "fine");
        }
    }

    async fn decisions_2_a_panic_of_the_api_is_no_page_wherever_the_dashboard_is(store: Store) {
        async fn boom() -> &'static str {
            panic!("a defect")
        }
        for settings in [
            ["--base-url=https://api.example", "--dashboard-url=https://dash.example"],
            ["--base-url=https://one.example/api", "--dashboard-url=https://one.example"],
        ] {
            let path = if settings[0].ends_with("/api") { "/api/boom" } else { "/boom" };
            let app = TestApp::open(&store, &settings).await.before(axum::Router::new().route(path, get(boom)));
            app.get(path).header("host", "api.example").send().await.refused(500, "application_error");
        }
    }

    async fn issue_2_every_answer_has_a_request_id_of_its_own(app: TestApp) {
        let key = app.full_key().await;
        let mut seen = std::collections::HashSet::new();
        for answer in [
            app.get("/healthz").send().await,
            app.get("/nope").send().await,
            app.get("/events").send().await,
            app.get("/events").key(&key).send().await,
            app.post("/events").key(&key).json(json!({"name": "a"})).send().await,
            app.get("/oauth/authorize").send().await,
            app.request("PUT", "/events").send().await,
            app.get("/dashboard/nope").send().await,
            app.get("/metrics").header("x-request-id", "mine").send().await,
        ] {
            let id = answer.header("x-request-id").expect("a request id").to_owned();
            uuid::Uuid::parse_str(&id).expect("a UUID");
            assert!(seen.insert(id));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        }
    }

    async fn decisions_2_every_2xx_of_the_api_has_a_json_body_without_status_code(app: TestApp) {
        let key = app.full_key().await;
        let id = app.event(&key, json!({"name": "a"})).await;
        let one = format!("/events/{id}");
        for answer in [
            app.post("/events").key(&key).json(json!({"name": "statusCode", "statusCode": 1})).send().await,
            app.get("/events").key(&key).send().await,
            app.get(&one).key(&key).send().await,
            app.patch(&one).key(&key).json(json!({"schema": null})).send().await,
            app.delete(&one).key(&key).send().await,
            app.get("/healthz").send().await,
            app.get("/readyz").send().await,
            app.get("/openapi.json").send().await,
            app.get("/.well-known/oauth-authorization-server").send().await,
            app.post("/oauth/register").json(json!({"client_name": "A", "redirect_uris": [CALLBACK]})).send().await,
        ] {
            assert!(answer.status == 200 || answer.status == 201, "{}", answer.status);
            assert_eq!(answer.header("content-type"), Some("application/json"));
            assert!(answer.json().as_object().expect("an object").get("statusCode").is_none());
        }
    }

    async fn issue_2_system_routes_answer(app: TestApp) {
        let engine = if app.store.is_sqlite() { "sqlite" } else { "postgres" };
        assert_eq!(app.get("/healthz").send().await.json()["status"], "ok");
        assert_eq!(app.get("/readyz").send().await.json()["store"], engine);
        let metrics = app.get("/metrics").send().await;
        assert!(metrics.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
        let docs = app.get("/docs").send().await;
        assert_eq!((docs.status, docs.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(docs.text().contains("/events") && !docs.text().contains("src=\"http"), "nothing from elsewhere");
        let root = app.get("/").send().await;
        assert_eq!(root.status, 200);
        for page in [docs.text(), root.text()] {
            for (at, _) in page.match_indices("/assets/") {
                let path: String = page[at..].chars().take_while(|char| !"\"'> ".contains(*char)).collect();
                let asset = app.get(&path).send().await;
                assert_eq!(asset.status, 200, "{path}");
                assert!(asset.header("cache-control").is_some_and(|cache| cache.contains("immutable")));
            }
        }
    }

    async fn decisions_1_a_base_url_with_a_path_moves_everything_below_it(store: Store) {
        for (base, name) in [("/mail", "x/1"), ("/events", "x/2"), ("/a/events/b", "x/3")] {
            let app = TestApp::open(&store, &[&format!("--base-url=https://host.example{base}")]).await;
            let key = app.full_key().await;
            let made = app.post(format!("{base}/events")).key(&key).json(json!({"name": name})).send().await;
            assert_eq!(made.status, 201, "{}", made.text());
            let id = made.json()["id"].as_str().expect("an id").to_owned();
            for name in [name, &name.replace('/', "%2F"), &id] {
                let found = app.get(format!("{base}/events/{name}")).key(&key).send().await;
                assert_eq!((found.status, &found.json()["id"]), (200, &json!(id)), "{base} {name}");
            }
            assert_eq!(app.get(format!("{base}/healthz")).send().await.status, 200);
            app.get("/healthz").send().await.refused(404, "not_found");
            app.get(format!("{base}/nope")).send().await.refused(404, "not_found");
            let client = app.client_for(CALLBACK).await;
            let answer = app.get(format!("{base}/oauth/authorize?{}", query(&client, &[]))).send().await;
            let page = answer.location().strip_prefix("https://host.example").expect("our host").to_owned();
            assert!(page.starts_with(&format!("{base}/dashboard/oauth/authorize/")), "{page}");
            assert_eq!(app.get(&page).send().await.status, 200);
            assert_eq!(
                app.get(format!("{base}/dashboard/nope")).send().await.header("content-type"),
                Some("text/html; charset=utf-8")
            );
        }
    }

    async fn decisions_1_a_dashboard_on_a_host_of_its_own_is_told_apart_by_host(store: Store) {
        let settings = ["--base-url=https://api.example", "--dashboard-url=https://dash.example"];
        let app = TestApp::open(&store, &settings).await;
        let client = app.client_for(CALLBACK).await;
        let answer =
            app.get(format!("/oauth/authorize?{}", query(&client, &[]))).header("host", "api.example").send().await;
        let page = answer.location().strip_prefix("https://dash.example").expect("the dashboard's host").to_owned();
        assert_eq!(app.get(&page).header("host", "dash.example").send().await.status, 200);
        assert_eq!(app.get(&page).header("host", "DASH.example").send().await.status, 200);
        app.get(&page).header("host", "api.example").send().await.refused(404, "not_found");
        let elsewhere = app.get("/readyz").header("host", "dash.example").send().await;
        assert_eq!((elsewhere.status, elsewhere.header("content-type")), (404, Some("text/html; charset=utf-8")));
        app.get("/events").header("host", "api.example").send().await.refused(401, "missing_api_key");
    }

    async fn issue_2_no_secret_ever_reaches_the_log(app: TestApp) {
        let log = Log::start();
        let key = app.full_key().await;
        let token = posthorn::accounts::setup::new_link(&app.app.db, &app.clock).await.expect("a link").expect("one");
        let registered = app.post("/oauth/register")
            .json(json!({"client_name": "A", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post"}))
            .send().await.json();
        let secret = registered["client_secret"].as_str().expect("a secret").to_owned();
        let state = "state-that-is-nobodys-business";
        let client = app.client_for(CALLBACK).await;
        let asked = query(&client, &[("state", Some(state))]);
        app.event(&key, json!({"name": "private-name"})).await;
        app.get("/events/private-name").key(&key).send().await;
        app.get(format!("/events?after={key}")).key(&key).send().await;
        app.get(format!("/dashboard/setup/{token}")).send().await;
        app.get(format!("/nope/{key}")).key(&key).send().await;
        app.get(format!("/oauth/authorize?{asked}")).send().await.consent();
        app.store.run("ALTER TABLE authorization_requests RENAME TO elsewhere").await;
        app.get(format!("/oauth/authorize?{asked}")).send().await;
        app.store.run("ALTER TABLE events RENAME TO away").await;
        app.post("/events").key(&key).json(json!({"name": "private-name"})).send().await;
        let form = "workspace=W&email=a%40b.example&password=battery+staple&password_again=battery+staple";
        app.post(format!("/dashboard/setup/{token}")).body("application/x-www-form-urlencoded", form).send().await;

        let text = log.text();
        assert!(text.contains("posthorn::request") && text.contains("/events/{*identifier}"), "requests are logged");
        for secret in [&*key, &key[12..], &token, &secret, state, "private-name", "battery staple", "battery+staple"] {
            assert!(!text.contains(secret), "{secret} is in the log");
        }
    }

    async fn issue_10_what_is_for_operators_answers_by_its_exact_path_only(app: TestApp) {
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(app.get(path).send().await.status, 200, "{path}");
            for other in [format!("/{path}"), format!("//{path}"), format!("{path}/"), format!("/.{path}")] {
                app.get(&other).send().await.refused(404, "not_found");
            }
        }
        let key = app.full_key().await;
        assert_eq!(app.get("//events").key(&key).send().await.status, 200);
    }
}

/// All that the process logs, from the first test that asks for it.
struct Log;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        LINES.lock().expect("a log").extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> Log {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
            log.with_writer(|| Lines).init();
        });
        Log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&LINES.lock().expect("a log")).into_owned()
    }
}
