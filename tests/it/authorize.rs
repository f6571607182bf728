//! `GET /oauth/authorize`: spec 4.1, 5, 7.1, 8; decisions §3.

use serde_json::json;

use crate::asking::{CALLBACK, CHALLENGE, ask, encoded, query};
use crate::harness::{BASE, NOW, TestApp, on_both};
use crate::store::Store;

const BACK: &str = "https://app.example/cb?";

on_both! {
    async fn spec_4_1_success_is_302_to_the_consent_page_and_one_stored_row(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let answer = ask(&app, query(&client, &[("state", Some("xyz")), ("scope", Some("emails:send"))])).await;
        let id = answer.consent();
        let stored = app
            .store
            .rows(
                "SELECT id, client_id, redirect_uri, scopes, state, code_challenge, created_at, expires_at
             FROM authorization_requests",
            )
            .await;
        let expected = [
            id,
            &client,
            CALLBACK,
            "emails:send",
            "xyz",
            CHALLENGE,
            &NOW.to_string(),
            &(NOW + 600_000_000).to_string(),
        ];
        assert_eq!(stored, [expected.map(|text| Some(text.to_owned())).to_vec()]);
        let again = ask(&app, query(&client, &[])).await;
        assert_ne!(again.consent(), answer.consent());
        assert_eq!(app.count("authorization_requests").await, 2);
    }

    async fn spec_4_1_scope_omitted_is_the_whole_registered_set(app: TestApp) {
        for (registered, stored) in [
            ("full_access emails:send", "full_access emails:send"),
            ("emails:send", "emails:send"),
            ("full_access", "full_access"),
        ] {
            let client =
                app.client(json!({"client_name": "A", "redirect_uris": [CALLBACK], "scope": registered})).await;
            let answer = ask(&app, query(&client, &[])).await;
            let id = answer.consent();
            let scopes = format!("SELECT scopes FROM authorization_requests WHERE id = {}", app.store.id(id));
            assert_eq!(app.store.value(&scopes).await.as_deref(), Some(stored));
        }
    }

    async fn spec_4_1_scope_is_a_space_delimited_list_in_any_order(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for scope in [
            "emails:send",
            "emails:send+full_access",
            "full_access%20emails%3Asend",
            "+emails:send++full_access+",
            "emails:send+emails:send",
        ] {
            ask(&app, query(&client, &[("scope", Some(scope))])).await.consent();
        }
    }

    async fn spec_7_1_invalid_scope_when_none_is_requested_supported_or_registered(app: TestApp) {
        let client = app.client(json!({"client_name": "A", "redirect_uris": [CALLBACK], "scope": "full_access"})).await;
        for scope in [
            "",
            "+",
            "%20%20",
            "bogus",
            "full_access+bogus",
            "emails:send",
            "full_access+emails:send",
            "FULL_ACCESS",
            "full_access,emails:send",
            "full_access%00",
            "full_access%09emails:send",
            "%ff",
            "openid",
            "emails%2Dsend",
        ] {
            let answer = ask(&app, query(&client, &[("scope", Some(scope)), ("state", Some("s"))])).await;
            answer.returned(BACK, "invalid_scope", "&state=s");
        }
        app.store.run(&format!("UPDATE oauth_clients SET scopes = '' WHERE id = '{client}'")).await;
        let fresh = TestApp::open(&app.store, &[]).await;
        ask(&fresh, query(&client, &[])).await.returned(BACK, "invalid_scope", "");
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn spec_7_1_unknown_client_is_400_json(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for id in [
            "00000000-0000-7000-8000-000000000000",
            &client.to_uppercase(),
            &format!("{client}%20"),
            "x",
            "%20",
            &client.replace('-', ""),
            &"x".repeat(5000),
        ] {
            ask(&app, query(id, &[("state", Some("s"))])).await.oauth_refused(400, "invalid_client");
        }
        for id in ["", "%00", "%ff", "caf%C3%A9", "a%0d%0aSet-Cookie:x"] {
            let text = ask(&app, query(id, &[])).await.oauth_refused(400, "invalid_request");
            assert!(text.contains("client_id"), "{text}");
        }
        let missing = ask(&app, query(&client, &[("client_id", None)])).await;
        assert!(missing.oauth_refused(400, "invalid_request").contains("client_id"));
        app.get("/oauth/authorize").send().await.oauth_refused(400, "invalid_request");
        app.get("/oauth/authorize?").send().await.oauth_refused(400, "invalid_request");
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn spec_7_1_a_redirect_uri_that_is_missing_or_not_registered_is_400_json(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for uri in [
            "https://app.example/cb/",
            "https://app.example/CB",
            "https://app.example/cb?x=1",
            "https://app.example",
            "http://app.example/cb",
            "HTTPS://app.example/cb",
            "https://app.example:443/cb",
            "https://app.example/cb#x",
            "https://app.example/./cb",
            "https://app.example/%63b",
            "https://evil.example/cb",
            "https://app.example@evil/cb",
            "https://app.example\\@evil/cb",
            "//app.example/cb",
            " https://app.example/cb",
            "https://app.example/cb ",
            "https://app.example/cb\r\nSet-Cookie: a=b",
            "https://app.example/cb\0",
            "javascript:alert(1)",
            "cb",
            "*",
        ] {
            let answer =
                ask(&app, query(&client, &[("redirect_uri", Some(&encoded(uri))), ("state", Some("s"))])).await;
            let text = answer.oauth_refused(400, "invalid_request");
            assert!(text.contains("redirect_uri") && !text.contains("evil"), "{text}");
        }
        for changed in [None, Some(""), Some("%ff")] {
            ask(&app, query(&client, &[("redirect_uri", changed)])).await.oauth_refused(400, "invalid_request");
        }
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn spec_4_1_the_port_of_a_loopback_redirect_may_differ(app: TestApp) {
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let client = app.client_for(&format!("http://{host}/cb?a=b")).await;
            for port in ["", ":1", ":80", ":8080", ":65535"] {
                let uri = format!("http://{host}{port}/cb?a=b");
                let answer = ask(&app, query(&client, &[("redirect_uri", Some(&encoded(&uri)))])).await;
                let stored =
                    format!("SELECT redirect_uri FROM authorization_requests WHERE id = {}", app.store.id(answer.consent()));
                assert_eq!(app.store.value(&stored).await, Some(uri.clone()), "kept as requested");
                let refused = query(&client, &[("redirect_uri", Some(&encoded(&uri))), ("scope", Some("x"))]);
                ask(&app, refused).await.returned(&format!("{uri}&"), "invalid_scope", "");
            }
            for uri in [
                "{}:0/cb?a=b",
                "{}:65536/cb?a=b",
                "{}:080/cb?a=b",
                "{}:/cb?a=b",
                "{}:+80/cb?a=b",
                "{}:80/cb",
                "{}:80/cb?a=c",
                "{}:80:80/cb?a=b",
                "{}:80@evil.example/cb?a=b",
                "{}.evil.example:80/cb?a=b",
                "x@{}:80/cb?a=b",
                "{}:80\\@evil/cb?a=b",
                "{}:8O/cb?a=b",
            ] {
                let uri = format!("http://{}", uri.replace("{}", host));
                let answer = ask(&app, query(&client, &[("redirect_uri", Some(&encoded(&uri)))])).await;
                assert_eq!(answer.status, 400, "{uri}");
            }
        }
        let client = app.client_for("http://127.0.0.1/cb").await;
        for uri in [
            "http://localhost/cb",
            "http://127.0.0.2/cb",
            "http://127.1/cb",
            "http://2130706433/cb",
            "http://0x7f.0.0.1/cb",
            "https://127.0.0.1/cb",
            "http://[::ffff:127.0.0.1]/cb",
            "http://127.0.0.1./cb",
        ] {
            let answer = ask(&app, query(&client, &[("redirect_uri", Some(&encoded(uri)))])).await;
            assert_eq!(answer.status, 400, "{uri}");
        }
        let fixed = app.client_for("https://app.example:8443/cb").await;
        let answer = ask(&app, query(&fixed, &[("redirect_uri", Some(&encoded("https://app.example:8444/cb")))])).await;
        assert_eq!(answer.status, 400, "only loopback ports float");
    }

    async fn decisions_4_the_incumbents_command_line_tool_is_known_in_every_new_store(app: TestApp) {
        let uri = encoded("http://127.0.0.1:49152/oauth/callback");
        let client = "7136aa0b-625c-4c9c-8820-e9784c8eb141";
        let answer = ask(&app, query(client, &[("redirect_uri", Some(&uri))])).await;
        let id = answer.consent();
        let stored = app.store.value(&format!("SELECT scopes FROM authorization_requests WHERE id = {}", app.store.id(id))).await;
        assert_eq!(stored.as_deref(), Some("full_access emails:send"));
    }

    async fn spec_7_1_response_type_other_than_code_is_invalid_request(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for value in [None, Some(""), Some("token"), Some("code+token"), Some("Code"), Some("code%20"), Some("%ff")] {
            let answer = ask(&app, query(&client, &[("response_type", value), ("state", Some("s"))])).await;
            assert!(answer.returned(BACK, "invalid_request", "&state=s").contains("response_type"));
        }
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn spec_7_1_code_challenge_method_other_than_s256_is_invalid_request(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for value in [None, Some(""), Some("plain"), Some("s256"), Some("S256%00"), Some("S512"), Some("%ff")] {
            let answer = ask(&app, query(&client, &[("code_challenge_method", value)])).await;
            assert!(answer.returned(BACK, "invalid_request", "").contains("code_challenge_method"));
        }
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn decisions_3_a_code_challenge_is_43_base64url_characters(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for value in [
            None,
            Some(""),
            Some(&CHALLENGE[1..]),
            Some(&*format!("{CHALLENGE}A")),
            Some(&*format!("{CHALLENGE}=")),
            Some(&*CHALLENGE.replace('-', "%2B")),
            Some(&*CHALLENGE.replace('-', "+")),
            Some(&*CHALLENGE.replace('-', "/")),
            Some(&*CHALLENGE.replace("E9", "%C3%A9")),
            Some(&*CHALLENGE.replace('-', "%00")),
        ] {
            let answer = ask(&app, query(&client, &[("code_challenge", value)])).await;
            let text = answer.returned(BACK, "invalid_request", "");
            assert!(text.contains("code_challenge") && !text.contains("method"), "{text}");
        }
        assert_eq!(app.count("authorization_requests").await, 0);
        ask(&app, query(&client, &[("code_challenge", Some(&"%2D".repeat(43)))])).await.consent();
    }

    async fn spec_7_1_a_client_without_the_authorization_code_grant_is_unauthorized(app: TestApp) {
        for grants in [json!([]), json!(["refresh_token"])] {
            let metadata = json!({"client_name": "A", "redirect_uris": [CALLBACK], "grant_types": grants});
            let client = app.client(metadata).await;
            ask(&app, query(&client, &[("state", Some("s"))])).await.returned(BACK, "unauthorized_client", "&state=s");
        }
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn decisions_3_a_parameter_sent_twice_is_refused_but_resource_and_unknown_ones(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let good = query(&client, &[]);
        for twice in ["response_type=code", &format!("code_challenge={CHALLENGE}"), "code_challenge_method=S256"] {
            let answer = ask(&app, format!("{good}&{twice}")).await;
            let name = twice.split('=').next().expect("a name");
            assert!(answer.returned(BACK, "invalid_request", "").contains(&format!("{name} was sent more than once")));
        }
        ask(&app, format!("{good}&scope=full_access&scope=full_access")).await.returned(BACK, "invalid_request", "");
        ask(&app, format!("{good}&state=a&state=a")).await.returned(BACK, "invalid_request", "&state=a");
        ask(&app, format!("{good}&state=a&st%61te=b")).await.returned(BACK, "invalid_request", "&state=a");
        ask(&app, format!("{good}&client_id={client}")).await.oauth_refused(400, "invalid_request");
        ask(&app, format!("{good}&redirect_uri={}", encoded(CALLBACK))).await.oauth_refused(400, "invalid_request");
        assert_eq!(app.count("authorization_requests").await, 0);
        ask(&app, format!("resource=x&{good}&resource=https%3A%2F%2Fa&resource=")).await.consent();
        ask(&app, format!("foo=1&{good}&foo=2&prompt=none&prompt=login&&=&%ff=%ff")).await.consent();
    }

    async fn spec_4_1_only_a_host_that_we_configured_is_ever_named(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let target = format!("/oauth/authorize?{}", query(&client, &[]));
        let answer = app
            .get(&target)
            .header("host", "evil.example")
            .header("x-forwarded-host", "evil.example")
            .header("x-forwarded-proto", "ftp")
            .header("forwarded", "host=evil.example")
            .send()
            .await;
        answer.consent();
    }

    async fn decisions_3_only_get_is_allowed_and_nothing_else_stores_anything(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let target = format!("/oauth/authorize?{}", query(&client, &[]));
        for method in ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
            for target in [&*target, "/oauth/authorize"] {
                let answer = app.request(method, target).send().await;
                assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")), "{method}");
                assert_eq!(answer.header("location"), None);
            }
        }
        let form =
            app.post("/oauth/authorize").body("application/x-www-form-urlencoded", query(&client, &[])).send().await;
        assert_eq!(form.status, 405);
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn spec_4_1_a_body_on_the_request_is_not_read(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let target = format!("/oauth/authorize?{}", query(&client, &[]));
        app.get(&target).body("text/plain", "client_id=other").send().await.consent();
    }

    async fn issue_2_a_client_that_another_process_deleted_is_unknown_at_once(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        for faulty in [&[][..], &[("scope", Some("bogus"))], &[("response_type", Some("token"))]] {
            let client = app.client_for(CALLBACK).await;
            ask(&app, query(&client, &[])).await.consent();
            other.delete_client(&client).await;
            let stored = app.count("authorization_requests").await;
            ask(&app, query(&client, faulty)).await.oauth_refused(400, "invalid_client");
            ask(&app, query(&client, faulty)).await.oauth_refused(400, "invalid_client");
            assert_eq!(app.count("authorization_requests").await, stored);
        }
    }

    async fn a_client_that_was_disabled_is_as_good_as_unknown(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        app.store.run(&format!("UPDATE oauth_clients SET disabled_at = 1 WHERE id = '{client}'")).await;
        ask(&app, query(&client, &[("scope", Some("x"))])).await.oauth_refused(400, "invalid_client");
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn deleting_one_client_does_not_disturb_the_others(app: TestApp) {
        let (kept, gone) = (app.client_for(CALLBACK).await, app.client_for(CALLBACK).await);
        ask(&app, query(&kept, &[])).await.consent();
        app.delete_client(&gone).await;
        ask(&app, query(&kept, &[])).await.consent();
        ask(&app, query(&kept, &[("scope", Some("x"))])).await.returned(BACK, "invalid_scope", "");
    }

    async fn decisions_3_iss_is_added_to_every_answer_when_the_setting_is_on(store: Store) {
        let app = TestApp::open(&store, &["--oauth-iss"]).await;
        let client = app.client_for(CALLBACK).await;
        let metadata = app.get("/.well-known/oauth-authorization-server").send().await.json();
        assert_eq!(metadata["issuer"], BASE);
        let iss = format!("&iss={}", "https%3A%2F%2Fmail.example");
        let answer = ask(&app, query(&client, &[("scope", Some("x")), ("state", Some("s"))])).await;
        answer.returned(BACK, "invalid_scope", &format!("&state=s{iss}"));
        ask(&app, query(&client, &[("response_type", Some("x"))])).await.returned(BACK, "invalid_request", &iss);
        ask(&app, query(&client, &[])).await.consent();
    }

    async fn decisions_1_the_consent_page_is_where_the_dashboard_is(store: Store) {
        let settings = ["--base-url=https://api.example/v1/", "--dashboard-url=https://Dash.Example:8443/app/"];
        let app = TestApp::open(&store, &settings).await;
        let client = app.client_for(CALLBACK).await;
        let answer = app.get(format!("/v1/oauth/authorize?{}", query(&client, &[]))).send().await;
        assert!(
            answer.location().starts_with("https://dash.example:8443/app/oauth/authorize/"),
            "{}",
            answer.location()
        );
    }
}
