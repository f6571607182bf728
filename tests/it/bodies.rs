//! What one request may cost: large bodies are spooled, and nothing is built of
//! what holds too much. How much memory that takes is measured from outside, by
//! `tests/faults/hostile.py`.

use posthorn::contacts;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Answer, TestApp, on_both};
use crate::sending::Stage;

async fn post(app: &TestApp, key: &str, path: &str, body: String) -> Answer {
    app.post(path).key(key).body("application/json", body).send().await
}

async fn import(app: &TestApp, key: &str, fields: &[(&str, String)]) -> Answer {
    let part = |(name, value): &(&str, String)| {
        format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body = fields.iter().map(part).collect::<String>() + "--edge--\r\n";
    app.post("/contacts/imports").key(key).body("multipart/form-data; boundary=edge", body).send().await
}

/// Events for a batch, each with this payload.
fn batch(count: usize, payload: &str) -> String {
    let one = |n: usize| format!(r#"{{"event":"user.created","email":"u{n}@example.com","payload":{payload}}}"#);
    format!("[{}]", (0..count).map(one).collect::<Vec<_>>().join(","))
}

on_both! {
    async fn a_body_too_large_for_memory_is_read_all_the_same(app: TestApp) {
        let stage = Stage::new(app).await;
        let long = "ü".repeat(120_000);
        let id = stage.send("user.created", "a@example.com", json!({"long": long})).await;
        let occurrence = stage.get(&format!("/occurrences/{id}")).await;
        assert!(occurrence["payload"]["long"] == json!(long), "as it was sent");
        let cut = format!(r#"{{"name":"{}"#, "x".repeat(900_000));
        assert!(post(&stage.app, &stage.key, "/events", cut).await.refused(400, "validation_error").contains("JSON"));
        let over = format!(r#"{{"name":"{}"}}"#, "x".repeat(1 << 20));
        assert!(post(&stage.app, &stage.key, "/events", over).await.refused(413, "validation_error").contains("1048576"));
    }

    async fn issue_10_json_that_holds_too_much_is_refused_before_it_is_built(app: TestApp) {
        let key = app.full_key().await;
        for unit in ["0,", "[0],", "{\"a\":0},", "[],"] {
            for path in ["/events", "/contacts", "/events/send", "/automations"] {
                let body = format!("{{\"name\":[{}0]}}", unit.repeat(30_000));
                let message = post(&app, &key, path, body).await.refused(422, "validation_error");
                assert!(message.contains("25000"), "{unit} {path}: {message}");
            }
        }
        let deep = format!("{{\"name\":{}", "[".repeat(20_000));
        post(&app, &key, "/events", deep).await.refused(400, "validation_error");
    }

    async fn issue_10_too_many_events_are_refused_and_not_built(app: TestApp) {
        let stage = Stage::new(app).await;
        let path = "/events/send/batch";
        let bomb = format!("[{}0]", "[[0]],".repeat(1_300_000));
        let message = post(&stage.app, &stage.key, path, bomb).await.refused(422, "validation_error");
        assert!(message.contains("at most 1000"), "what it begins with is enough: {message}");
        for (body, status, word) in [
            ("[]".to_owned(), 422, "not 0"),
            (batch(1001, "{}"), 422, "not 1001"),
            ("{}".into(), 422, "must be a JSON array, but is an object"),
            ("[".into(), 400, "not valid JSON"),
            ("[{},]".into(), 400, "not valid JSON"),
            ("[[0]]".into(), 422, "Event 0: it must be an object, but is an array"),
            (format!("[{}", "[".repeat(1 << 20)), 400, "not valid JSON"),
            (batch(1, &format!("{{\"a\":[{}0]}}", "0,".repeat(30_000))), 422, "Event 0: The JSON holds too much"),
            (batch(1, &format!("{{\"a\":\"{}\"}}", "x".repeat(300_000))), 413, "262144"),
            (batch(2, &format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20))), 413, "1048576"),
        ] {
            let answer = post(&stage.app, &stage.key, path, body).await;
            let message = answer.refused(status, "validation_error");
            assert!(message.contains(word), "{word}: {message}");
        }
        assert_eq!(stage.app.count("occurrences").await, 0);
        let large = batch(1000, &format!("{{\"a\":\"{}\",\"seats\":\"7\"}}", "x".repeat(8_000)));
        let answer = post(&stage.app, &stage.key, path, large).await;
        assert_eq!((answer.status, answer.json()["data"].as_array().map(Vec::len)), (202, Some(1000)), "{}", answer.text());
        let listed = stage.get("/events/user.created/occurrences?limit=1").await;
        assert_eq!(listed["data"][0]["payload"]["seats"], json!(7), "by the schema in force");
    }

    async fn in_a_batch_too_a_field_that_is_said_twice_is_the_last_one(app: TestApp) {
        let stage = Stage::new(app).await;
        let body = r#"[{"payload":{"x":1},"event":"user.created","email":"a@b.co","payload": {"x": [ 2 ]}}]"#;
        assert_eq!(post(&stage.app, &stage.key, "/events/send/batch", body.into()).await.status, 202);
        let listed = stage.get("/events/user.created/occurrences").await;
        assert_eq!(listed["data"][0]["payload"], json!({"x": [2]}));
    }

    async fn a_large_event_is_known_again_in_any_spelling(app: TestApp) {
        let key = app.full_key().await;
        let body = json!({"event": "user.created", "email": "a@example.com", "payload": {"long": "x".repeat(90_000)}});
        let send = |text: String| {
            let request = app.post("/events/send").key(&key).header("idempotency-key", "once");
            request.body("application/json", text).send()
        };
        let first = send(body.to_string()).await;
        assert_eq!(first.status, 202, "{}", first.text());
        let spaced = send(format!("{body}{}", " ".repeat(600_000))).await;
        assert_eq!((spaced.status, spaced.json()), (202, first.json()));
        assert_eq!(app.count("occurrences").await, 1);
    }

    async fn a_batch_is_known_again_in_any_spelling(app: TestApp) {
        let stage = Stage::new(app).await;
        let send = async |body: &str| {
            let request = stage.app.post("/events/send/batch").key(&stage.key).header("idempotency-key", "k");
            request.body("application/json", body.to_owned()).send().await
        };
        let first = send(r#"[{"event":"user.created","email":"a@b.co","payload":{"x":1,"y":[2]}}]"#).await;
        assert_eq!(first.status, 202, "{}", first.text());
        let again = send(r#"[ {"payload":{"y":[2], "x":1},"email":"a@b.co","event":"user.created"} ]"#).await;
        assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), first.json()));
        send(r#"[{"event":"user.created","email":"a@b.co","payload":{"x":1,"y":[3]}}]"#).await
            .refused(409, "invalid_idempotent_request");
        assert_eq!(stage.app.count("occurrences").await, 1);
    }

    async fn issue_10_headers_columns_and_maps_are_bounded_before_they_are_split(app: TestApp) {
        let key = app.full_key().await;
        let file = || ("file", "email\n".to_owned());
        for (fields, word) in [
            (vec![("file", ",".repeat(5_000_000))], "65536"),
            (vec![("file", "\n".repeat(5_000_000))], "65536"),
            (vec![("file", format!("{}\n", "a,".repeat(1000)))], "1000 columns"),
            (vec![file(), ("column_map", format!("{{{}\"b\":0}}", "\"a\":[0],".repeat(200_000)))], "`column_map`"),
            (vec![file(), ("column_map", format!("[{}0]", "0,".repeat(30_000)))], "25000"),
            (vec![file(), ("segments", format!("[{}0]", "0,".repeat(30_000)))], "25000"),
        ] {
            let message = import(&app, &key, &fields).await.refused(422, "validation_error");
            assert!(message.contains(word), "{word}: {message}");
        }
        let many = vec![("x", String::new()); 5000];
        assert!(import(&app, &key, &many).await.refused(400, "validation_error").contains("32 fields"));
        assert_eq!((app.count("contact_imports").await, app.count("contact_import_chunks").await), (0, 0));
    }

    /// The worker goes on over what holds no row, some of it at a time.
    async fn a_file_of_blank_lines_and_wide_rows_is_worked_off(app: TestApp) {
        let key = app.full_key().await;
        let blank = "\n".repeat(1_500_000);
        let file = format!("email\n{blank}a@b\n{}\n{blank}b@b\n{blank}", ",".repeat(900_000));
        let answer = import(&app, &key, &[("file", file)]).await;
        let path = format!("/contacts/imports/{}", answer.json()["id"].as_str().expect("an id"));
        while contacts::import_round(app.app.occurrences(), &mut Uuid::nil().into()).await.expect("a round") {}
        let done = app.get(path).key(&key).send().await.json();
        assert_eq!((&done["status"], &done["counts"]["created"], &done["counts"]["failed"]), (&json!("completed"), &json!(2), &json!(1)));
        assert_eq!(done["errors"][0]["line"], json!(1_500_003));
    }

    /// Of several that are wrong, the first of the type is told, in whatever order they were sent.
    async fn the_field_that_is_wrong_is_named_by_its_path(app: TestApp) {
        let key = app.full_key().await;
        let id = "01890000-0000-7000-8000-000000000001";
        for (path, body, message) in [
            ("/contacts", json!({"topics": [{"id": id, "subscription": "opt_in"}, {"Id": id}], "email": "a@b"}),
                "The `topics[1].id` field is missing."),
            ("/contacts", json!({"topics": [{"id": id, "subscription": 1}], "email": "a@b"}),
                "The `topics[0].subscription` field must be `opt_in` or `opt_out`, but is a number."),
            ("/contacts", json!({"topics": 1, "unsubscribed": 1, "first_name": 1, "email": "a@b"}),
                "The `first_name` field must be a string, but is a number."),
            ("/automations", json!({"connections": 1, "status": "on", "name": "a"}),
                "The `status` field must be `enabled` or `disabled`, but is `on`."),
            ("/topics", json!({"visibility": 1, "default_subscription": [], "name": "a"}),
                "The `default_subscription` field must be `opt_in` or `opt_out`, but is an array."),
            ("/segments", json!({"filter": {"a": 1}, "name": []}), "The `name` field must be a string, but is an array."),
            ("/api-keys", json!({"domain_id": 1, "permission": "all", "name": "a"}),
                "The `permission` field must be `full_access` or `sending_access`, but is `all`."),
        ] {
            let answer = app.post(path).key(&key).json(body).send().await;
            assert_eq!(answer.refused(422, "validation_error"), message, "{path}");
        }
    }

    async fn a_page_of_large_items_ends_early_and_says_that_there_are_more(app: TestApp) {
        let stage = Stage::new(app).await;
        let mut sent = Vec::new();
        for _ in 0..9 {
            sent.insert(0, stage.send("user.created", "a@example.com", json!({"x": "x".repeat(250_000)})).await);
        }
        let (mut found, mut query) = (Vec::<String>::new(), String::new());
        for _ in 0..9 {
            let page = stage.get(&format!("/events/user.created/occurrences?limit=100{query}")).await;
            let ids = page["data"].as_array().expect("a list").iter().map(|item| item["id"].as_str().expect("an id").to_owned());
            found.extend(ids);
            if page["has_more"] == Value::Bool(false) {
                break;
            }
            assert!(page["data"].as_array().is_some_and(|items| (1..9).contains(&items.len())), "it ends early");
            query = format!("&after={}", found.last().expect("an id"));
        }
        assert_eq!(found, sent, "all are found, each once");
    }
}
