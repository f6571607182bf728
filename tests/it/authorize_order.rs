//! Decisions §3: in which order `GET /oauth/authorize` looks at a request, and
//! what it makes of `state` and of the redirect's own query.

use serde_json::json;

use crate::asking::{CALLBACK, CHALLENGE, ask, encoded, query};
use crate::harness::{TestApp, on_both};

const BACK: &str = "https://app.example/cb?";

/// What can be wrong with a request, in the order in which it is noticed.
const FAULTS: [(&str, &str, &str); 9] = [
    ("client_id", "invalid_client", "client_id is unknown"),
    ("redirect_uri", "invalid_request", "redirect_uri is not registered"),
    ("repeated", "invalid_request", "more than once"),
    ("state", "invalid_request", "state is too long"),
    ("response_type", "invalid_request", "response_type must be"),
    ("code_challenge_method", "invalid_request", "code_challenge_method must be"),
    ("code_challenge", "invalid_request", "code_challenge must be"),
    ("grant", "unauthorized_client", "authorization_code grant"),
    ("scope", "invalid_scope", "unsupported"),
];

/// A query with these faults, for a client with or without the grant.
fn faulty(with_grant: &str, without_grant: &str, faults: &[&str]) -> (String, String) {
    let has = |fault: &str| faults.contains(&fault);
    let state = if has("state") { "s".repeat(1025) } else { "s".into() };
    let elsewhere = encoded("https://evil.example/cb");
    let mut changes: Vec<(&str, Option<&str>)> = vec![("state", Some(&state))];
    for (name, value) in [
        ("redirect_uri", &*elsewhere),
        ("response_type", "token"),
        ("code_challenge_method", "plain"),
        ("code_challenge", "short"),
        ("scope", "bogus"),
    ] {
        if has(name) {
            changes.push((name, Some(value)));
        }
    }
    let client = match (has("client_id"), has("grant")) {
        (true, _) => "00000000-0000-7000-8000-000000000000",
        (false, true) => without_grant,
        (false, false) => with_grant,
    };
    let twice = if has("repeated") { format!("&code_challenge={CHALLENGE}") } else { String::new() };
    (format!("{}{twice}", query(client, &changes)), format!("&state={state}"))
}

on_both! {
    async fn decisions_3_of_two_faults_the_earlier_is_reported(app: TestApp) {
        let with = app.client_for(CALLBACK).await;
        let without = app
            .client(json!({"client_name": "A", "redirect_uris": [CALLBACK], "grant_types": ["refresh_token"]}))
            .await;
        for (first, (fault, error, word)) in FAULTS.iter().enumerate() {
            for (later, _, _) in &FAULTS[first..] {
                let (query, state) = faulty(&with, &without, &[fault, later]);
                let answer = ask(&app, query).await;
                let text = match first {
                    0 | 1 => answer.oauth_refused(400, error),
                    _ => answer.returned(BACK, error, &state),
                };
                assert!(text.contains(word), "{fault} and {later}: {text}");
            }
        }
        assert_eq!(app.count("authorization_requests").await, 0);
    }

    async fn decisions_3_storing_comes_last(app: TestApp) {
        let with = app.client_for(CALLBACK).await;
        let without = app
            .client(json!({"client_name": "A", "redirect_uris": [CALLBACK], "grant_types": ["refresh_token"]}))
            .await;
        app.store.run("ALTER TABLE authorization_requests RENAME TO elsewhere").await;
        for (place, (fault, error, _)) in FAULTS.iter().enumerate() {
            let (query, state) = faulty(&with, &without, &[fault]);
            let answer = ask(&app, query).await;
            match place {
                0 | 1 => answer.oauth_refused(400, error),
                _ => answer.returned(BACK, error, &state),
            };
        }
        let (query, state) = faulty(&with, &without, &[]);
        ask(&app, query).await.returned(BACK, "server_error", &state);
    }

    async fn spec_4_1_state_comes_back_byte_for_byte_in_the_encoding_it_was_sent_in(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for raw in [
            "xyz",
            "a+b",
            "a%20b",
            "a%2Bb",
            "%2f",
            "%2F",
            "/",
            "%00",
            "%ff%fe",
            "%C3%A9",
            "a%0d%0aSet-Cookie:%20x",
            "%26",
            "=",
            "a=b=c",
            "%23",
            "%25",
            "[x]'!*()~;,:@$",
            "%e2%82",
            "%F0%9F%93%AF",
            "",
            "%22%3C%3E",
            "?",
        ] {
            let refused = ask(&app, query(&client, &[("scope", Some("x")), ("state", Some(raw))])).await;
            refused.returned(BACK, "invalid_scope", &format!("&state={raw}"));
            let pending = ask(&app, query(&client, &[("state", Some(raw))])).await;
            let id = pending.consent();
            let stored = app.store.value(&format!("SELECT state FROM authorization_requests WHERE id = {}", app.store.id(id))).await;
            assert_eq!(stored.as_deref(), Some(raw));
        }
        // What cannot stand in a header as it is comes back encoded, which no decoder can tell apart.
        for (raw, back) in [("a%zz", "a%25zz"), ("100%", "100%25"), ("{a}", "%7Ba%7D"), ("a|b", "a%7Cb")] {
            let refused = ask(&app, query(&client, &[("scope", Some("x")), ("state", Some(raw))])).await;
            refused.returned(BACK, "invalid_scope", &format!("&state={back}"));
        }
    }

    async fn spec_7_1_no_state_was_sent_so_none_comes_back(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let answer = ask(&app, query(&client, &[("scope", Some("x"))])).await;
        answer.returned(BACK, "invalid_scope", "");
        assert!(!answer.location().contains("state"));
        assert!(!answer.location().contains("iss="), "no parameter beyond those in the spec");
        let pending = ask(&app, query(&client, &[])).await;
        let id = pending.consent();
        let stored = app.store.value(&format!("SELECT state FROM authorization_requests WHERE id = {}", app.store.id(id))).await;
        assert_eq!(stored, None);
    }

    async fn spec_8_state_has_at_most_1024_characters_however_many_bytes(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for one in ["a", "%61", "%C3%A9", "%F0%9F%93%AF", "%00", "+"] {
            let (longest, over) = (one.repeat(1024), one.repeat(1025));
            ask(&app, query(&client, &[("state", Some(&longest))])).await.consent();
            let answer = ask(&app, query(&client, &[("state", Some(&over))])).await;
            let text = answer.returned(BACK, "invalid_request", &format!("&state={over}"));
            assert!(text.contains("1024"), "{text}");
        }
        assert_eq!(app.count("authorization_requests").await, 6);
    }

    async fn cases_191_to_195_the_redirects_own_query_is_kept_byte_for_byte(app: TestApp) {
        for (uri, back) in [
            ("https://app.example/q?tenant=7", "https://app.example/q?tenant=7&"),
            ("https://app.example/q?a;b=1&flag&%7e=%7E&z=1&a=2", "https://app.example/q?a;b=1&flag&%7e=%7E&z=1&a=2&"),
            ("https://app.example/q?", "https://app.example/q?"),
            ("https://app.example/q?a=1&", "https://app.example/q?a=1&"),
            ("https://app.example", "https://app.example?"),
            ("http://127.0.0.1:33418/", "http://127.0.0.1:33418/?"),
            ("com.example.app:/oauth", "com.example.app:/oauth?"),
            ("cursor://anysphere.mcp/cb", "cursor://anysphere.mcp/cb?"),
        ] {
            let client = app.client_for(uri).await;
            let changes = [("redirect_uri", Some(&*encoded(uri))), ("scope", Some("x")), ("state", Some("s"))];
            ask(&app, query(&client, &changes)).await.returned(back, "invalid_scope", "&state=s");
        }
    }

    async fn properties_403_and_404_neither_unknown_parameters_nor_order_change_the_outcome(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        for changes in [&[("state", Some("s"))][..], &[("scope", Some("x")), ("state", Some("s"))]] {
            let query = query(&client, changes);
            let mut pairs: Vec<&str> = query.split('&').collect();
            let expected = ask(&app, &query).await;
            for turn in 0..pairs.len() {
                pairs.rotate_left(1);
                let turned = ask(&app, format!("{}&unknown{turn}=%ff&&", pairs.join("&"))).await;
                assert_eq!(turned.status, expected.status);
                match expected.location().starts_with(BACK) {
                    true => assert_eq!(turned.location(), expected.location()),
                    false => assert_ne!(turned.consent(), expected.consent()),
                }
            }
        }
    }

    async fn property_401_any_bytes_as_a_query_get_a_documented_answer(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let good = query(&client, &[]);
        for raw in [
            "%",
            "%%%",
            "&&&",
            "=",
            "=&=",
            "client_id",
            "a=%E0%A4%A",
            "\"",
            "<script>",
            "{}",
            "|",
            "\\",
            "^`",
            "client_id[]=x",
            "client_id=%27%20OR%201=1",
            &format!("{good}&\""),
            &format!("{good}&<script>=1"),
            &format!("{good}&scope"),
            &"&".repeat(20_000),
            &"a=b&".repeat(8_000),
        ] {
            if format!("/?{raw}").parse::<http::Uri>().is_err() {
                continue; // HTTP itself refuses it, which is tested over a connection.
            }
            let answer = ask(&app, raw).await;
            assert!(matches!(answer.status, 302 | 400), "{raw:.60}: {}", answer.status);
            assert!(!answer.text().contains("<script>"));
        }
    }
}
