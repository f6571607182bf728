//! `POST /events`: spec 2.1, 2.2, 4.2, 6; decisions §2 and §5.

use serde_json::{Value, json};

use crate::harness::{Answer, NOW, TestApp, on_both};

async fn create(app: &TestApp, key: &str, body: Value) -> Answer {
    app.post("/events").key(key).json(body).send().await
}

/// Sends a body that must be refused, and shows that nothing was stored.
async fn refusal(app: &TestApp, key: &str, body: Value, status: u16, name: &str) -> String {
    let shown = body.to_string().chars().take(80).collect::<String>();
    let answer = create(app, key, body).await;
    assert_eq!(answer.status, status, "{shown}: {}", answer.text());
    let message = answer.refused(status, name);
    assert_eq!(app.count("events").await, 0, "{shown}: a refusal stores nothing");
    message
}

on_both! {
    async fn spec_4_2_success_is_201_with_object_and_id_and_nothing_else(app: TestApp) {
        let key = app.full_key().await;
        let answer = create(&app, &key, json!({"name": "user.created", "schema": {"plan": "string"}})).await;
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let body = answer.json();
        assert_eq!(body.as_object().expect("an object").keys().collect::<Vec<_>>(), ["object", "id"]);
        assert_eq!(body["object"], "event");
        assert_eq!(app.count("events").await, 1);
    }

    async fn decisions_1_ids_are_uuids_v7_in_canonical_lower_case(app: TestApp) {
        let key = app.full_key().await;
        let id = app.event(&key, json!({"name": "a"})).await;
        let parsed = uuid::Uuid::parse_str(&id).expect("a UUID");
        assert_eq!(parsed.get_version_num(), 7);
        assert_eq!(parsed.as_hyphenated().to_string(), id);
        let (seconds, nanos) = parsed.get_timestamp().expect("a time").to_unix();
        assert_eq!(seconds * 1000 + u64::from(nanos / 1_000_000), NOW as u64 / 1000);
    }

    async fn spec_4_2_an_acknowledged_event_survives_the_process(app: TestApp) {
        let key = app.full_key().await;
        let body = json!({"name": "a.b", "schema": {"z": "date", "a": "number", "m": "string", "b": "boolean"}});
        let id = app.event(&key, body.clone()).await;
        let store = app.store.clone();
        drop(app);
        let again = TestApp::open(&store, &[]).await;
        let found = again.get(format!("/events/{id}")).key(&key).send().await.json();
        assert_eq!((&found["name"], found["schema"].to_string()), (&body["name"], body["schema"].to_string()));
    }

    async fn decisions_5_a_name_may_be_defined_again_and_the_newest_is_in_force(app: TestApp) {
        let key = app.full_key().await;
        let first = app.event(&key, json!({"name": "twice", "schema": {"old": "string"}})).await;
        let second = app.event(&key, json!({"name": "twice", "schema": {"new": "number"}})).await;
        assert!(first < second, "ids sort as they were made");
        let by_name = app.get("/events/twice").key(&key).send().await.json();
        assert_eq!((&by_name["id"], &by_name["schema"]), (&json!(second), &json!({"new": "number"})));
        let by_id = app.get(format!("/events/{first}")).key(&key).send().await.json();
        assert_eq!(by_id["schema"], json!({"old": "string"}));
        let listed = app.get("/events").key(&key).send().await.json();
        let ids: Vec<&str> =
            listed["data"].as_array().expect("a list").iter().filter_map(|e| e["id"].as_str()).collect();
        assert_eq!(ids, [&*second, &*first]);
        app.delete("/events/twice").key(&key).send().await;
        let by_name = app.get("/events/twice").key(&key).send().await.json();
        assert_eq!(by_name["id"], json!(first), "without the newest, the one before is in force");
    }

    async fn decisions_5_a_missing_name_is_missing_required_field(app: TestApp) {
        let key = app.full_key().await;
        for body in [json!({}), json!({"name": null}), json!({"schema": {"a": "string"}})] {
            let message = refusal(&app, &key, body, 422, "missing_required_field").await;
            assert_eq!(message, "Missing `name` field.");
        }
        for (sent, field) in [(json!({"Name": "x"}), "`Name`"), (json!({"nmae": "x"}), "`nmae`")] {
            let message = refusal(&app, &key, sent, 422, "missing_required_field").await;
            assert!(message.contains("`name`") && message.contains(field), "{message}");
        }
        let message = refusal(&app, &key, json!({"event": "x", "payload": {}}), 422, "missing_required_field").await;
        assert!(message.contains("looks like one that sends it"), "{message}");
    }

    async fn decisions_5_a_name_that_breaks_a_rule_is_422_and_says_which(app: TestApp) {
        let key = app.full_key().await;
        for (name, word) in [
            (json!(7), "a number"),
            (json!(true), "a boolean"),
            (json!(["a"]), "an array"),
            (json!({"a": 1}), "an object"),
            (json!(""), "empty"),
            (json!("x".repeat(1025)), "1024"),
            (json!("\u{1f4ef}".repeat(1025)), "1024"),
            (json!("a\u{0}b"), "U+0000"),
        ] {
            let message = refusal(&app, &key, json!({"name": name}), 422, "validation_error").await;
            assert!(message.contains("`name`") && message.contains(word), "{message}");
        }
    }

    async fn spec_2_2_the_reserved_prefix_is_exactly_svc_colon(app: TestApp) {
        let key = app.full_key().await;
        for reserved in ["svc:", "svc:email.delivered", "svc: x", "svc::"] {
            let message = refusal(&app, &key, json!({"name": reserved}), 422, "validation_error").await;
            assert!(message.contains("`svc:`"), "{message}");
        }
        for free in ["SVC:x", "Svc:x", "svc", "svc.x", " svc:x", "svc\u{ff1a}x", "a svc:", "\u{200b}svc:x"] {
            let id = app.event(&key, json!({"name": free})).await;
            let found = app.get(format!("/events/{id}")).key(&key).send().await.json();
            assert_eq!(found["name"], free);
        }
    }

    async fn spec_2_2_any_other_string_is_a_name_and_characters_are_counted(app: TestApp) {
        let key = app.full_key().await;
        // Text that does not compress, so that no engine stores less than it says.
        let varied: String = (0..1024_u32).filter_map(|n| char::from_u32(0x20000 + (n * 7919) % 40_000)).collect();
        assert_eq!(varied.chars().count(), 1024);
        for name in [
            "a",
            "user.created",
            "no dots",
            "..",
            "/",
            "%",
            "%2f",
            "?",
            "#",
            "\u{e9}",
            "日本語",
            "\u{1f4ef}",
            "\r\n\t",
            "null",
            "\"",
            "'; DROP TABLE events; --",
            "{{x}}",
            "<b>",
            &"\u{1f4ef}".repeat(1024),
            &varied,
        ] {
            let answer = create(&app, &key, json!({"name": name})).await;
            assert_eq!(answer.status, 201, "{name:.40?}: {}", answer.text());
            let id = answer.json()["id"].as_str().expect("an id").to_owned();
            let found = app.get(format!("/events/{id}")).key(&key).send().await.json();
            assert_eq!(found["name"], name);
            let path = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string();
            let found = app.get(format!("/events/{path}")).key(&key).send().await.json();
            assert_eq!(found["id"], json!(id), "{name:.40?} is found by its name");
        }
    }

    async fn spec_4_2_a_schema_is_a_flat_object_of_four_types(app: TestApp) {
        let key = app.full_key().await;
        for (schema, word) in [
            (json!({"k": "text"}), "`k`"),
            (json!({"k": "String"}), "`k`"),
            (json!({"k": "integer"}), "`integer`"),
            (json!({"k": ""}), "`k`"),
            (json!({"k": null}), "`k`"),
            (json!({"k": 1}), "`k`"),
            (json!({"k": false}), "`k`"),
            (json!({"k": {"a": "string"}}), "`k`"),
            (json!({"k": ["string"]}), "`k`"),
            (json!({"ok": "string", "bad": "x"}), "`bad`"),
            (json!({"": "string"}), "empty key"),
            (json!({"k".repeat(256): "string"}), "255"),
            (json!("string"), "`schema`"),
            (json!([]), "`schema`"),
            (json!(1), "`schema`"),
            (json!(false), "`schema`"),
        ] {
            let message = refusal(&app, &key, json!({"name": "a", "schema": schema}), 422, "validation_error").await;
            assert!(message.contains(word), "{message}");
        }
        let wide = |count: usize| Value::Object((0..count).map(|n| (format!("k{n}"), json!("number"))).collect());
        let message = refusal(&app, &key, json!({"name": "a", "schema": wide(257)}), 422, "validation_error").await;
        assert!(message.contains("256"), "{message}");
        for schema in [
            json!({"a": "string", "b": "number", "c": "boolean", "d": "date"}),
            json!({}),
            json!({"\u{e9}".repeat(255): "date"}),
            json!({"a\u{0}b": "string"}),
            wide(256),
        ] {
            let id = app.event(&key, json!({"name": "a", "schema": schema})).await;
            let found = app.get(format!("/events/{id}")).key(&key).send().await.json();
            assert_eq!(found["schema"].to_string(), schema.to_string(), "kept whole and in its order");
        }
    }

    async fn decisions_5_a_null_schema_is_no_schema(app: TestApp) {
        let key = app.full_key().await;
        for body in [json!({"name": "a", "schema": null}), json!({"name": "a"})] {
            let id = app.event(&key, body).await;
            let found = app.get(format!("/events/{id}")).key(&key).send().await.json();
            assert_eq!(found["schema"], Value::Null);
        }
    }

    async fn decisions_2_unknown_fields_are_ignored(app: TestApp) {
        let key = app.full_key().await;
        let body = json!({"name": "a", "names": ["x"], "object": "event", "id": "mine", "statusCode": 1, "schemas": 2});
        let id = app.event(&key, body).await;
        assert_ne!(id, "mine");
    }

    async fn decisions_2_a_body_that_is_not_json_is_400(app: TestApp) {
        let key = app.full_key().await;
        let deep = format!("{{\"name\":\"a\",\"x\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
        for body in [
            "{",
            "name=a",
            "{\"name\":\"a\"",
            "{\"name\":\"a\"} x",
            "{'name':'a'}",
            "{\"name\":\"\\ud800\"}",
            "{\"name\":\"a\",}",
            "\u{feff}{\"name\":\"a\"}",
            " ",
            "nul",
            &deep,
        ] {
            let answer = app.post("/events").key(&key).body("application/json", body.to_owned()).send().await;
            let message = answer.refused(400, "validation_error");
            assert!(message.contains("not valid JSON"), "{message}");
        }
        let answer = app.post("/events").key(&key).body("application/json", &b"{\"name\":\"\xff\"}"[..]).send().await;
        answer.refused(400, "validation_error");
        assert_eq!(app.count("events").await, 0);
    }

    async fn decisions_2_a_body_that_is_json_but_no_object_is_422(app: TestApp) {
        let key = app.full_key().await;
        for (body, word) in [
            (json!([]), "an array"),
            (json!("a"), "a string"),
            (json!(1), "a number"),
            (Value::Null, "null"),
            (json!(true), "a boolean"),
            (json!([{"name": "a"}]), "an array"),
        ] {
            let message = refusal(&app, &key, body, 422, "validation_error").await;
            assert!(message.contains("JSON object") && message.contains(word), "{message}");
        }
    }

    async fn decisions_2_a_wrong_or_missing_content_type_on_a_body_is_415(app: TestApp) {
        let key = app.full_key().await;
        let body = r#"{"name":"a"}"#;
        for label in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "json", "text/json"] {
            let answer = app.post("/events").key(&key).body(label, body).send().await;
            let message = answer.refused(415, "validation_error");
            assert!(message.contains("application/json"), "{message}");
        }
        app.post("/events").key(&key).stream(body).send().await.refused(415, "validation_error");
        assert_eq!(app.count("events").await, 0);
        for label in ["application/json", "Application/JSON; charset=utf-8", "application/json;", "application/x+json"]
        {
            assert_eq!(app.post("/events").key(&key).body(label, body).send().await.status, 201, "{label}");
        }
    }

    async fn decisions_2_no_body_reads_as_an_empty_object(app: TestApp) {
        let key = app.full_key().await;
        app.post("/events").key(&key).send().await.refused(422, "missing_required_field");
        let labelled = app.post("/events").key(&key).body("application/json", "").send().await;
        labelled.refused(422, "missing_required_field");
        let odd = app.post("/events").key(&key).body("text/plain", "").send().await;
        odd.refused(422, "missing_required_field");
    }

    async fn decisions_2_a_body_over_a_mebibyte_is_413_announced_or_not(app: TestApp) {
        let key = app.full_key().await;
        let padded = |size: usize| {
            let frame = r#"{"name":"a","pad":""}"#;
            format!(r#"{{"name":"a","pad":"{}"}}"#, "x".repeat(size - frame.len()))
        };
        let over = padded((1 << 20) + 1);
        let announced = app.post("/events").key(&key).body("application/json", over.clone()).send().await;
        assert!(announced.refused(413, "validation_error").contains("1048576"));
        let chunked =
            app.post("/events").key(&key).header("content-type", "application/json").stream(over).send().await;
        chunked.refused(413, "validation_error");
        assert_eq!(app.count("events").await, 0);
        let exactly = app.post("/events").key(&key).body("application/json", padded(1 << 20)).send().await;
        assert_eq!(exactly.status, 201);
    }
}
