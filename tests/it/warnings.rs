//! What is accepted although it was probably not meant, and answers in fewer bytes: issue 15, points 6 and 7.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::graphs::{link, trigger};
use crate::harness::{Answer, BASE, Req, TestApp, on_both};

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("posthorn-warnings").iter().map(|value| value.to_str().expect("text")).collect()
}

fn strict(request: Req<'_>) -> Req<'_> {
    request.header("prefer", "handling=strict")
}

on_both! {
    async fn issue_15_a_field_that_nobody_reads_is_told_and_the_answer_stays(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "a"})).await;
        let send = |body: Value| app.post("/events/send").key(&key).json(body).send();
        let plain = send(json!({"event": "a", "email": "a@b.example", "payload": {"data": 1}})).await;
        assert_eq!((plain.status, warnings(&plain)), (202, vec![]), "what is in a payload is its sender's own");
        for (field, told) in [
            ("payLoad", "The field `payLoad` is not known here; did you mean `payload`?"),
            ("data", "The field `data` is not known here; did you mean `payload`?"),
            ("colour", "The field `colour` is not known here."),
            ("naïve\n", "The field `na?ve?` is not known here."),
        ] {
            let answer = send(json!({"event": "a", "email": "a@b.example", field: {}})).await;
            assert_eq!((answer.status, warnings(&answer)), (202, vec![told]));
            let fields: Vec<_> = answer.json().as_object().expect("an object").keys().cloned().collect();
            assert_eq!(fields, plain.json().as_object().expect("an object").keys().cloned().collect::<Vec<_>>());
        }
        let many: serde_json::Map<String, Value> = (0..500).map(|number| (format!("x{number}"), json!(1))).collect();
        let mut body = json!({"event": "a", "email": "a@b.example"});
        body.as_object_mut().expect("an object").extend(many);
        assert_eq!(warnings(&send(body).await).len(), 8, "nobody reads more");
        let nested = json!({"email": "a@b.example", "topics": [{"id": uuid::Uuid::nil(), "subscripton": "opt_in"}]});
        let nested = app.post("/contacts").key(&key).json(nested).send().await;
        assert_eq!(nested.status, 422, "what is missing is refused as before");
        let mail = json!({"from": "a@b.example", "to": "c@d.example", "subject": "x", "text": "x", "replyTo": "e@f.example"});
        let mail = app.post("/emails").key(&key).json(mail).send().await;
        assert_eq!((mail.status, warnings(&mail)), (200, vec!["The field `replyTo` is not known here; did you mean `reply_to`?"]));
        let within = json!({"from": "a@b.example", "to": "c@d.example", "subject": "x", "text": "x", "replyTo": "e@f.example",
            "tags": [{"name": "a", "value": "b"}, {"name": "c", "value": "d", "vaule": 1}],
            "attachments": [{"filename": "a.txt", "content": "aGk=", "contentType": "text/plain"}]});
        let told = [
            "The field `tags[1].vaule` is not known here.",
            "The field `attachments[0].contentType` is not known here; did you mean `content_type`?",
            "The field `replyTo` is not known here; did you mean `reply_to`?",
        ];
        let mail = app.post("/emails").key(&key).json(within.clone()).send().await;
        assert_eq!((mail.status, warnings(&mail)), (200, told.to_vec()), "by its path");
        let refused = strict(app.post("/emails").key(&key).json(within)).send().await;
        assert_eq!(refused.refused(422, "validation_error"), told[0]);
        let batch = json!([{"event": "a", "email": "a@b.example", "data": {}}]);
        let batch = app.post("/events/send/batch").key(&key).json(batch).send().await;
        assert_eq!((batch.status, warnings(&batch).len()), (202, 1));
    }

    async fn issue_15_a_field_within_steps_rules_and_connections_is_told_by_its_path(app: TestApp) {
        let key = app.full_key().await;
        let leaf = |more: Value| {
            let mut rule = json!({"type": "rule", "field": "event.a", "operator": "exists"});
            rule.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
            rule
        };
        let mail = |more: Value| {
            let mut config = json!({"from": "a@b.example", "subject": "Hi", "text": "x"});
            config.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
            config
        };
        let window = json!({"from": "09:00", "until": "17:00", "tz": "Europe/Berlin"});
        for (kind, config, told) in [
            ("wait_for_event", json!({"event_name": "x", "timout": "3 days"}), vec!["timout` is not known here; did you mean `timeout`?"]),
            ("wait_for_event", json!({"event_name": "x", "timeout": "3 days", "timout": 1, "filter_rule": leaf(json!({"vaule": 1}))}), vec![
                "timout` is not known here.", "filter_rule.vaule` is not known here; did you mean `value`?",
            ]),
            ("condition", json!({"type": "and", "rules": [leaf(json!({})), {"type": "or", "field": "x", "rules": [leaf(json!({"not": true}))]}]}), vec![
                "rules[1].field` is not known here.", "rules[1].rules[0].not` is not known here.",
            ]),
            ("condition", leaf(json!({"value": null})), vec![]),
            ("delay", json!({"duration": "1 day", "durations": "2 days"}), vec!["durations` is not known here."]),
            ("send_email", mail(json!({"replyTo": "c@d.example"})), vec!["replyTo` is not known here; did you mean `reply_to`?"]),
            ("send_email", mail(json!({"send_window": window})), vec!["send_window.tz` is not known here."]),
            ("send_email", json!({"template": {"id": "welcome", "variable": {}, "variables": {"data": 1}}}), vec!["template.variable` is not known here."]),
            ("contact_update", json!({"first_name": "A", "phone": "1", "properties": {"payload": 1}}), vec!["phone` is not known here."]),
            ("webhook", json!({"url": "https://x.test/", "body": {"data": 1}, "method": "PUT"}), vec!["method` is not known here."]),
            ("exit", json!({"reason": "done"}), vec!["reason` is not known here."]),
        ] {
            let whole = json!({"steps": [trigger(), {"key": "s", "type": kind, "config": config}], "connections": [link("start", "s")]});
            let told: Vec<String> = told.into_iter().map(|words| format!("The field `steps[1].config.{words}")).collect();
            let check = app.post("/automations/validate").key(&key).json(whole.clone()).send().await;
            assert_eq!((check.status, warnings(&check)), (200, told.iter().map(String::as_str).collect()), "{whole}");
            let fields: Vec<_> = check.json().as_object().expect("an object").keys().cloned().collect();
            assert_eq!(fields, ["object", "valid", "findings"], "the answer stays");
            let refused = strict(app.post("/automations/validate").key(&key).json(whole.clone())).send().await;
            match told.first() {
                Some(first) => assert_eq!(&refused.refused(422, "validation_error"), first, "{whole}"),
                None => assert_eq!(refused.status, 200, "{whole}"),
            }
        }
        let graph = json!({
            "steps": [{"key": "start", "type": "trigger", "confg": {}, "config": {"event_name": "x", "eventName": "y"}}, {"key": "s", "type": "exit"}],
            "connections": [{"from": "start", "to": "s", "typ": "default"}],
        });
        let all = [
            "The field `steps[0].confg` is not known here.",
            "The field `steps[0].config.eventName` is not known here.",
            "The field `connections[0].typ` is not known here; did you mean `type`?",
        ];
        let mut named = graph.clone();
        named["name"] = json!("a");
        strict(app.post("/automations").key(&key).json(named.clone())).send().await.refused(422, "validation_error");
        assert_eq!(app.count("automations").await, 0, "nothing was made");
        let made = app.post("/automations").key(&key).json(named).send().await;
        assert_eq!((made.status, warnings(&made)), (201, all.to_vec()));
        let path = format!("/automations/{}", made.json()["id"].as_str().expect("an id"));
        let refused = strict(app.patch(&path).key(&key).json(graph.clone())).send().await;
        assert_eq!(refused.refused(422, "validation_error"), all[0]);
        let changed = app.patch(&path).key(&key).json(graph).send().await;
        assert_eq!((changed.status, warnings(&changed)), (200, all.to_vec()));
        let kept = app.get(&path).key(&key).send().await.json();
        assert_eq!(kept["steps"][0]["config"], json!({"event_name": "x"}), "what nobody reads is not kept");
    }

    async fn issue_15_a_parameter_that_nobody_reads_is_told(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "a"})).await;
        for (path, told) in [
            ("/events?page=2", vec!["The parameter `page` is not known here; did you mean `after`?"]),
            ("/events?per_page=2&limit=1", vec!["The parameter `per_page` is not known here; did you mean `limit`?"]),
            ("/events?order=asc", vec!["The parameter `order` is not known here; known are `after`, `before`, `limit`."]),
            ("/events/a?x=1", vec!["The parameter `x` is not known here; known are `after`, `before`, `limit`."]),
            ("/events/a/occurrences?limit=1", vec![]),
            ("/events?limit=5", vec![]),
            ("/automations?status=enabled", vec![]),
            ("/events?", vec![]),
        ] {
            let answer = app.get(path).key(&key).send().await;
            assert_eq!((answer.status, warnings(&answer)), (200, told), "{path}");
        }
    }

    async fn issue_15_who_asks_for_strict_handling_is_refused(app: TestApp) {
        let key = app.full_key().await;
        let body = json!({"event": "a", "email": "a@b.example", "data": {}});
        let answer = strict(app.post("/events/send").key(&key).json(body.clone())).send().await;
        let message = answer.refused(422, "validation_error");
        assert_eq!(message, "The field `data` is not known here; did you mean `payload`?");
        assert_eq!(answer.header("preference-applied"), Some("handling=strict"));
        assert_eq!(app.count("occurrences").await, 0, "nothing happened");
        let lenient = app.post("/events/send").key(&key).json(body.clone()).header("prefer", "handling=lenient").send().await;
        assert_eq!((lenient.status, lenient.header("preference-applied")), (202, Some("handling=lenient")));
        let answer = strict(app.get("/events?page=2").key(&key)).send().await;
        assert!(answer.refused(422, "invalid_parameter").contains("`page`"));
        let fine = strict(app.get("/events?limit=2").key(&key)).send().await;
        assert_eq!((fine.status, fine.header("preference-applied")), (200, Some("handling=strict")));
        // Who is not known hears nothing else.
        strict(app.get("/events?page=2").key("re_unknown_key")).send().await.refused(403, "invalid_api_key");
        strict(app.get("/events?page=2")).send().await.refused(401, "missing_api_key");
        strict(app.post("/events").key("re_unknown_key").json(json!({"name": "a", "x": 1}))).send().await.refused(403, "invalid_api_key");
    }

    async fn issue_15_a_definition_that_takes_the_schema_away_says_so(app: TestApp) {
        let key = app.full_key().await;
        let define = |body: Value| app.post("/events").key(&key).json(body);
        assert_eq!(warnings(&define(json!({"name": "a", "schema": {"n": "number"}})).send().await).len(), 0);
        let strict = define(json!({"name": "a"})).header("prefer", "handling=strict").send().await;
        assert!(strict.refused(422, "validation_error").contains("schema"));
        let again = define(json!({"name": "a"})).send().await;
        assert_eq!(again.status, 201);
        assert!(warnings(&again)[0].contains("`a` has a schema"), "{:?}", warnings(&again));
        assert_eq!(warnings(&define(json!({"name": "a"})).send().await).len(), 0, "now it has none");
    }

    async fn issue_15_long_data_is_compressed_for_those_who_take_it(app: TestApp) {
        let key = app.full_key().await;
        for number in 0..30 {
            app.event(&key, json!({"name": format!("event.{number}")})).await;
        }
        let plain = app.get("/events").key(&key).send().await;
        assert_eq!(plain.header("content-encoding"), None);
        let gzip = app.get("/events").key(&key).header("accept-encoding", "gzip, br").send().await;
        assert_eq!((gzip.header("content-encoding"), gzip.header("vary")), (Some("gzip"), Some("accept-encoding")));
        let mut text = String::new();
        GzDecoder::new(&gzip.body[..]).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, plain.text());
        assert!(gzip.body.len() * 2 < text.len());
        let short = app.get("/events?limit=1").key(&key).header("accept-encoding", "gzip").send().await;
        assert_eq!(short.header("content-encoding"), None);
        let page = app.get("/dashboard/login").header("accept-encoding", "gzip").send().await;
        assert_eq!((page.status, page.header("content-encoding")), (200, None), "it holds the token of a form");
    }

    async fn issue_15_what_a_call_came_to_is_compressed_unless_it_is_secret(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "a"})).await;
        let many: Vec<Value> = (0..40).map(|n| json!({"event": "a", "email": format!("a{n}@b.example")})).collect();
        let sent = app.post("/events/send/batch").key(&key).header("accept-encoding", "gzip").json(json!(many)).send().await;
        assert_eq!((sent.status, sent.header("content-encoding")), (202, Some("gzip")));
        let mut text = String::new();
        GzDecoder::new(&sent.body[..]).read_to_string(&mut text).expect("gzip");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(told["data"].as_array().map(Vec::len), Some(40), "{told}");
        // What is long and nobody may keep stays as it is, which a test of the gate's own shows: these are short.
        let webhook = json!({"endpoint": "https://a.example/", "events": ["email.sent"]});
        for (path, body) in [("/api-keys", json!({"name": "a"})), ("/webhooks", webhook)] {
            let answers = [(); 2].map(async |()| {
                let request = app.post(path).key(&key).header("accept-encoding", "gzip").header("idempotency-key", path);
                request.json(body.clone()).send().await
            });
            for answer in answers {
                let answer = answer.await;
                let kept = (answer.status, answer.header("cache-control"), answer.header("content-encoding"));
                assert_eq!(kept, (201, Some("no-store"), None), "{path}");
            }
        }
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let host = BASE.split_once("://").expect("a scheme").1;
        let tools = app.post("/mcp").key(&key).header("host", host).header("accept-encoding", "gzip");
        let tools = tools.header("accept", "application/json, text/event-stream").json(ask).send().await;
        assert_eq!(tools.header("content-encoding"), None, "what a tool tells may be a key");
        assert!(tools.status == 200 && tools.body.len() > 1024, "{}", tools.text());
    }

    async fn issue_15_what_does_not_change_is_sent_once(app: TestApp) {
        let page = app.get("/docs").send().await.text();
        let css = page.split("href=\"").filter_map(|part| part.split('"').next()).find(|path| path.ends_with(".css"));
        for path in ["/docs", "/openapi.json", css.expect("a style sheet")] {
            let plain = app.get(path).send().await;
            let tag = plain.header("etag").expect("a tag").to_owned();
            let known = app.get(path).header("if-none-match", &tag).send().await;
            assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, Some(&*tag)), "{path}");
            for encoding in ["gzip", "br"] {
                let answer = app.get(path).header("accept-encoding", encoding).send().await;
                assert_eq!(answer.header("content-encoding"), Some(encoding), "{path}");
                assert!(answer.body.len() * 2 < plain.body.len(), "{path} by {encoding}");
            }
        }
    }
}
