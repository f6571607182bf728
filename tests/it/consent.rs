//! The consent page behind the redirect (as far as it needs
//! no log-in), and the sweep of requests that nobody decided.

use posthorn::oauth;
use serde_json::json;

use crate::asking::{CALLBACK, ask, encoded, query};
use crate::harness::{TestApp, on_both};

const MINUTE: i64 = 60_000_000;

async fn pending(app: &TestApp, name: &str, redirect_uri: &str, scope: &str) -> String {
    let client = app.client(json!({"client_name": name, "redirect_uris": [redirect_uri]})).await;
    let changes = [("redirect_uri", Some(&*encoded(redirect_uri))), ("scope", Some(scope))];
    let answer = ask(app, query(&client, &changes)).await;
    format!("/dashboard/oauth/authorize/{}", answer.consent())
}

on_both! {
    async fn case_214_the_page_shows_who_asks_what_for_and_where_it_leads(app: TestApp) {
        let name = "<script>alert(1)</script> & \"Vendor\" \u{202e}";
        let path = pending(&app, name, "https://app.example:8443/cb?x=1", "emails:send").await;
        let page = app.get(&path).send().await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let html = page.text();
        assert!(!html.contains("<script>alert"), "the name is escaped");
        assert!(html.contains("&#60;script&#62;alert(1)") || html.contains("&lt;script&gt;alert(1)"), "and shown");
        assert!(html.contains("app.example:8443") && html.contains("emails:send"));
        assert!(!html.contains("full_access"), "only what is asked for");
        assert!(html.to_lowercase().contains("unverified"), "{html}");
    }

    async fn case_215_a_program_on_this_computer_is_called_so(app: TestApp) {
        for uri in ["http://127.0.0.1:9000/cb", "com.example.app:/oauth"] {
            let path = pending(&app, "Tool", uri, "full_access").await;
            assert!(app.get(&path).send().await.text().contains("a program on this computer"), "{uri}");
        }
    }

    async fn cases_221_to_228_headers_of_the_page(app: TestApp) {
        let path = pending(&app, "App", CALLBACK, "full_access").await;
        let page = app.get(&path).send().await;
        let policy = page.header("content-security-policy").expect("a policy");
        for part in
            ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "script-src 'self'", "style-src 'self'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("form-action"), "browsers would apply it to the redirect");
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(page.header(name), Some(value));
        }
    }

    async fn case_206_an_unknown_or_malformed_id_is_a_404_page(app: TestApp) {
        let path = pending(&app, "App", CALLBACK, "full_access").await;
        for id in ["00000000-0000-7000-8000-000000000000", "x", "%ff", "%00", "..", "'"] {
            let page = app.get(format!("/dashboard/oauth/authorize/{id}")).send().await;
            assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")), "{id}");
            assert!(page.header("content-security-policy").is_some());
        }
        assert_eq!(app.get(&path).send().await.status, 200);
    }

    async fn case_207_after_ten_minutes_it_is_a_410_page(app: TestApp) {
        let path = pending(&app, "App", CALLBACK, "full_access").await;
        app.clock.advance(10 * MINUTE - 1);
        assert_eq!(app.get(&path).send().await.status, 200);
        app.clock.advance(1);
        let page = app.get(&path).send().await;
        assert_eq!((page.status, page.header("location")), (410, None), "no redirect to the client");
        assert!(page.text().contains("start again"));
    }

    async fn case_244_a_request_of_a_client_that_is_gone_leads_nowhere(app: TestApp) {
        let path = pending(&app, "App", CALLBACK, "full_access").await;
        let id = app.store.value("SELECT client_id FROM authorization_requests").await.expect("a client");
        app.delete_client(&id).await;
        assert_eq!(app.get(&path).send().await.status, 404);
    }

    async fn case_230_looking_at_the_page_decides_nothing(app: TestApp) {
        let path = pending(&app, "App", CALLBACK, "full_access").await;
        let before = app.store.rows("SELECT * FROM authorization_requests").await;
        app.get(&path).send().await;
        app.request("HEAD", &path).send().await;
        assert_eq!(app.store.rows("SELECT * FROM authorization_requests").await, before);
    }

    async fn issue_2_the_sweep_deletes_expired_requests_and_no_others(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let sweep = async || oauth::sweep(&app.app.db, &app.clock).await.expect("swept");
        for _ in 0..3 {
            ask(&app, query(&client, &[])).await.consent();
        }
        app.clock.advance(6 * MINUTE);
        let young = ask(&app, query(&client, &[])).await.consent().to_owned();
        sweep().await;
        assert_eq!(app.count("authorization_requests").await, 4);
        app.clock.advance(4 * MINUTE + 1000);
        sweep().await;
        assert_eq!(app.store.value("SELECT id FROM authorization_requests").await, Some(young));
        assert_eq!(app.count("authorization_requests").await, 1);
        app.clock.advance(10 * MINUTE);
        sweep().await;
        assert_eq!(app.count("authorization_requests").await, 0);
        sweep().await;
    }

    async fn issue_2_the_sweep_copes_with_more_than_one_commit_may_delete(app: TestApp) {
        let row = |n: i64| format!("({}, 'c', 'r', 's', 'x', 0, 1)", app.store.id(format!("01890000-0000-7000-8000-{n:012}")));
        let rows: Vec<String> = (0..2500).map(row).collect();
        app.store.run(&format!(
            "INSERT INTO authorization_requests (id, client_id, redirect_uri, scopes, code_challenge, created_at, expires_at)
             VALUES {}", rows.join(", "))).await;
        oauth::sweep(&app.app.db, &app.clock).await.expect("swept");
        assert_eq!(app.count("authorization_requests").await, 0);
    }
}
