//! `POST /emails` and `/emails/batch`: what is handed in, what is refused, and what is stored of it.

use posthorn::clock::{HOUR, MINUTE, SECOND, rfc3339};
use posthorn::credentials::Permission;
use serde_json::{Value, json};

use crate::harness::{Answer, NOW, TestApp, on_both};
use crate::sending::Stage;

/// A mail that can be sent.
pub fn mail() -> Value {
    json!({"from": "Acme <hello@acme.example>", "to": "ada@example.com", "subject": "Hello", "html": "<p>Hi</p>"})
}

/// The same with other fields; null takes one away.
pub fn mail_with(more: Value) -> Value {
    let mut mail = mail();
    for (name, value) in more.as_object().expect("fields") {
        mail[name] = value.clone();
    }
    mail
}

pub async fn post(app: &TestApp, key: &str, body: Value) -> Answer {
    app.post("/emails").key(key).json(body).send().await
}

/// Hands a mail in, and tells its id.
pub async fn sent(app: &TestApp, key: &str, body: Value) -> String {
    let answer = post(app, key, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.json(), json!({"id": id}));
    id
}

pub async fn shown(app: &TestApp, key: &str, id: &str) -> Value {
    let answer = app.get(format!("/emails/{id}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

on_both! {
    async fn a_mail_is_queued_with_a_row_for_each_recipient(app: TestApp) {
        let key = app.full_key().await;
        let body = mail_with(json!({
            "to": ["ada@example.com", "Bob <bob@example.com>"], "cc": "ADA@example.com", "bcc": ["c@example.com"],
            "reply_to": "r@acme.example", "headers": {"X-Thing": "1"}, "tags": [{"name": "kind", "value": "hello"}],
            "text": "Hi",
        }));
        let id = sent(&app, &key, body).await;
        let rows = app.store.rows("SELECT address, state, line, attempt FROM email_recipients ORDER BY number").await;
        let rows: Vec<Vec<&str>> =
            rows.iter().map(|row| row.iter().map(|column| column.as_deref().expect("a value")).collect()).collect();
        assert_eq!(rows, [
            ["ada@example.com", "10", "capture", "0"],
            ["bob@example.com", "10", "capture", "0"],
            ["c@example.com", "10", "capture", "0"],
        ], "whoever is named twice gets it once");
        let recipients = ["ada@example.com", "bob@example.com", "c@example.com"].map(|to| {
            json!({"to": to, "last_event": "queued", "waits_until": null,
                "reason": "It is next in its line. It goes as soon as a worker has room for it."})
        });
        let email = shown(&app, &key, &id).await;
        assert_eq!(email, json!({
            "object": "email", "id": id, "message_id": format!("<{id}@acme.example>"),
            "to": ["ada@example.com", "Bob <bob@example.com>"], "from": "Acme <hello@acme.example>",
            "created_at": "2026-01-02T03:04:05.678901Z", "subject": "Hello", "bcc": ["c@example.com"],
            "cc": ["ADA@example.com"], "reply_to": ["r@acme.example"], "last_event": "queued", "scheduled_at": null,
            "html": "<p>Hi</p>", "text": "Hi", "tags": [{"name": "kind", "value": "hello"}], "topic_id": null,
            "recipients": recipients,
        }));
    }

    async fn spec_5_four_routes_send_and_a_key_that_may_only_send_may_use_them(app: TestApp) {
        let key = app.key(Permission::SendingAccess).await.secret;
        for path in ["/emails", "/email", "/emails/sending", "/email/sending"] {
            let answer = app.post(path).key(&key).json(mail()).send().await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
        assert_eq!(app.count("emails").await, 4);
        let many = app.post("/emails/batch").key(&key).json(json!([mail(), mail()])).send().await;
        assert_eq!((many.status, app.count("emails").await), (200, 6), "{}", many.text());
        app.get("/emails").key(&key).send().await.refused(401, "restricted_api_key");
    }

    async fn bad_input_is_refused_with_its_field_and_nothing_is_stored(app: TestApp) {
        let key = app.full_key().await;
        let address = |n: usize| format!("a{n}@example.com");
        let many: Vec<String> = (0..51).map(address).collect();
        for (change, status, name, word) in [
            (json!({"to": null}), 422, "missing_required_field", "Missing `to` field."),
            (json!({"to": null, "html": null}), 422, "missing_required_field", "Missing `to` field."),
            (json!({"html": null, "subject": null, "from": null}), 422, "missing_required_field", "`html` or `text`"),
            (json!({"to": "nobody", "html": null}), 422, "validation_error", "`to`"),
            (json!({"from": null}), 422, "missing_required_field", "Missing `from` field."),
            (json!({"subject": null}), 422, "missing_required_field", "Missing `subject` field."),
            (json!({"subject": null, "subjct": "x"}), 422, "missing_required_field", "did you mean `subject`"),
            (json!({"to": []}), 422, "validation_error", "`to` field must name at least one"),
            (json!({"to": many}), 422, "validation_error", "at most 50"),
            (json!({"cc": many}), 422, "validation_error", "`cc`"),
            (json!({"to": "nobody"}), 422, "validation_error", "`to`"),
            (json!({"to": ["a@b.example", "x"]}), 422, "validation_error", "`to[1]`"),
            (json!({"to": 5}), 422, "validation_error", "`to`"),
            (json!({"to": "a@b.example\r\nBcc: x@y.example"}), 422, "validation_error", "`to`"),
            (json!({"from": "A\nB <a@b.example>"}), 422, "validation_error", "`from`"),
            (json!({"from": ""}), 422, "validation_error", "`from`"),
            (json!({"subject": "a\r\nBcc: x@y.example"}), 422, "validation_error", "`subject`"),
            (json!({"subject": "x".repeat(2001)}), 422, "validation_error", "`subject`"),
            (json!({"html": 5}), 422, "validation_error", "`html`"),
            (json!({"html": ["\u{0}long", 0, ""]}), 422, "validation_error", "`html` field must be a string"),
            (json!({"text": "a\u{0}b"}), 422, "validation_error", "U+0000"),
            (json!({"headers": {"X-A": "a\r\nb: c"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"X A": "b"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"X-A\r\nBcc": "b"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"X-A": "a\nb"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"Bcc": "x@y.example"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"DKIM-Signature": "v=1"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"content-type": "text/plain"}}), 422, "validation_error", "`headers`"),
            (json!({"headers": {"Message-ID": "<a@b>"}}), 422, "validation_error", "`headers`"),
            (json!({"reply_to": "a@b.example\r\nX: y"}), 422, "validation_error", "`reply_to`"),
            (json!({"cc": "A\r\nB <a@b.example>"}), 422, "validation_error", "`cc`"),
            (json!({"bcc": many}), 422, "validation_error", "`bcc`"),
            (json!({"reply_to": many}), 422, "validation_error", "`reply_to`"),
            (json!({"tags": [{"name": "a\r\nb", "value": "c"}]}), 422, "validation_error", "`tags[0].name`"),
            (json!({"attachments": [{"content": "aGk=", "filename": "a\r\nX: y.txt"}]}), 422, "validation_error", "`attachments[0].filename`"),
            (json!({"attachments": [{"content": "aGk=", "content_type": "text/plain\r\nX: y"}]}), 422, "validation_error", "`attachments[0].content_type`"),
            (json!({"attachments": [{"content": "aGk=", "content_id": "a\r\nb"}]}), 422, "validation_error", "`attachments[0].content_id`"),
            (json!({"headers": {"X-A": "1", "x-a": "2"}}), 422, "validation_error", "`headers` field names `x-a` twice"),
            (json!({"headers": {"X-A": 1}}), 422, "validation_error", "`headers`"),
            (json!({"headers": []}), 422, "validation_error", "`headers`"),
            (json!({"tags": [{"name": "a b", "value": "c"}]}), 422, "validation_error", "`tags[0].name`"),
            (json!({"tags": [{"name": "a", "value": "x".repeat(257)}]}), 422, "validation_error", "`tags[0].value`"),
            (json!({"tags": [{"name": "a"}]}), 422, "validation_error", "`tags[0].value`"),
            (json!({"template": {"id": "x"}}), 422, "validation_error", "`template`"),
            (json!({"topic_id": "x"}), 422, "validation_error", "`topic_id`"),
            (json!({"topic_id": "01890000-0000-7000-8000-000000000000"}), 404, "not_found", "Topic"),
            (json!({"scheduled_at": "2025-01-01T00:00:00Z"}), 422, "validation_error", "future"),
            (json!({"scheduled_at": "in 31 days"}), 422, "validation_error", "30 days"),
            (json!({"scheduled_at": "when it suits"}), 422, "validation_error", "`scheduled_at`"),
            (json!({"attachments": [{"filename": "x"}]}), 422, "invalid_attachment", "`attachments[0]`"),
            (json!({"attachments": [{"content": "!"}]}), 422, "invalid_attachment", "base64"),
            (json!({"attachments": [{"content": "aGk=", "path": "https://x.example/"}]}), 422, "invalid_attachment", "both"),
            (json!({"attachments": [{"content": "aGk=", "filename": "../x"}]}), 422, "validation_error", "`attachments[0].filename`"),
            (json!({"attachments": [{"content": "aGk=", "content_type": "x"}]}), 422, "validation_error", "`attachments[0].content_type`"),
            (json!({"attachments": [{"content": "aGk=", "content_id": "a b"}]}), 422, "validation_error", "`attachments[0].content_id`"),
            (json!({"attachments": [{"content": [1, 256]}]}), 422, "validation_error", "0 to 255"),
        ] {
            let answer = post(&app, &key, mail_with(change.clone())).await;
            assert!(answer.refused(status, name).contains(word), "{change}: {}", answer.text());
        }
        let cut = app.post("/emails").key(&key).body("application/json", "{").send().await;
        cut.refused(400, "validation_error");
        app.post("/emails").json(mail()).send().await.refused(401, "missing_api_key");
        app.post("/emails").key(&key).body("text/plain", "x").send().await.refused(415, "validation_error");
        assert_eq!((app.count("emails").await, app.count("email_recipients").await, app.count("email_chunks").await), (0, 0, 0));
    }

    async fn a_scheduled_mail_is_due_at_its_time(app: TestApp) {
        let key = app.full_key().await;
        let id = sent(&app, &key, mail_with(json!({"scheduled_at": "in 2 hours"}))).await;
        let email = shown(&app, &key, &id).await;
        assert_eq!((&email["last_event"], &email["scheduled_at"]), (&json!("scheduled"), &json!("2026-01-02T05:04:05.678901Z")));
        let due = app.store.value("SELECT due_at FROM email_recipients").await.expect("a time");
        assert_eq!(due.parse::<i64>().expect("a number"), NOW + 2 * HOUR);
    }

    async fn decisions_7_captured_mail_may_come_from_anybody_and_other_mail_may_not(app: TestApp) {
        let key = app.full_key().await;
        sent(&app, &key, mail()).await;
        let strict = TestApp::open(&app.store, &["--smtp-url=smtp://127.0.0.1:1"]).await;
        let refused = post(&strict, &key, mail()).await.refused(403, "validation_error");
        assert!(refused.contains("`acme.example`") && refused.contains("erif"), "{refused}");
        let lax = TestApp::open(&app.store, &["--smtp-url=smtp://127.0.0.1:1", "--senders=any"]).await;
        sent(&lax, &key, mail()).await;
        let lines = app.store.rows("SELECT line FROM email_recipients ORDER BY line").await;
        assert_eq!(lines, [[Some("capture".to_owned())], [Some("relay".to_owned())]]);
    }

    async fn issue_12_mail_from_a_domain_that_is_unverified_or_anothers_is_refused_with_what_to_do(app: TestApp) {
        let (key, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let made = app.post("/domains").key(&key).json(json!({"name": "acme.example"})).send().await.json();
        let id = made["id"].as_str().expect("an id");
        let strict = TestApp::open(&app.store, &["--smtp-url=smtp://127.0.0.1:1"]).await;
        let refused = post(&strict, &key, mail()).await.refused(403, "validation_error");
        assert!(refused.contains("not verified") && refused.contains(&format!("POST /domains/{id}/verify")), "{refused}");
        app.store.run("UPDATE domains SET is_owned = TRUE, may_send = TRUE, revision = revision + 1").await;
        app.store.run("UPDATE revisions SET number = number + 1 WHERE topic = 'domains'").await;
        sent(&strict, &key, mail()).await;
        for server in [&app, &strict] {
            let refused = post(server, &theirs, mail()).await.refused(403, "validation_error");
            assert!(refused.contains("belongs to another workspace") && refused.contains("GET /domains"), "{refused}");
        }
        assert_eq!(app.count("emails").await, 1);
    }

    async fn a_domain_in_another_script_and_its_ascii_form_are_one_recipient(app: TestApp) {
        let key = app.full_key().await;
        let body = mail_with(json!({"to": ["ada@münchen.example", "Ada@xn--mnchen-3ya.example"], "cc": "ADA@MÜNCHEN.example"}));
        let id = sent(&app, &key, body).await;
        assert_eq!(app.count("email_recipients").await, 1);
        assert_eq!(shown(&app, &key, &id).await["to"][1], "Ada@xn--mnchen-3ya.example", "as it was written");
    }

    async fn decisions_7_a_key_held_to_a_domain_sends_from_it_alone(app: TestApp) {
        let key = app.full_key().await;
        let domain = app.post("/domains").key(&key).json(json!({"name": "acme.example"})).send().await.json()["id"].clone();
        let body = json!({"name": "shop", "permission": "sending_access", "domain_id": domain});
        let held = app.post("/api-keys").key(&key).json(body).send().await.json()["token"].clone();
        let held = held.as_str().expect("a key");
        sent(&app, held, mail()).await;
        let elsewhere = mail_with(json!({"from": "a@other.example"}));
        let refused = post(&app, held, elsewhere.clone()).await.refused(403, "validation_error");
        assert!(refused.contains("`acme.example`") && refused.contains("`other.example`"), "{refused}");
        let many = app.post("/emails/batch").key(held).json(json!([mail(), elsewhere])).send().await;
        assert!(many.refused(403, "validation_error").starts_with("Email 1: "));
        assert_eq!(app.count("emails").await, 1);
    }

    async fn of_64_callers_with_one_key_one_mail_is_made_and_all_get_the_same_answer(app: TestApp) {
        let key = app.full_key().await;
        let other = TestApp::open(&app.store, &[]).await;
        let one = async |at: usize| {
            let app = if at.is_multiple_of(2) { &app } else { &other };
            app.post("/emails").key(&key).header("idempotency-key", "k").json(mail()).send().await
        };
        let answers = futures_util::future::join_all((0..64).map(one)).await;
        let first = answers[0].text();
        assert!(answers.iter().all(|answer| answer.status == 200 && answer.text() == first), "{answers:?}");
        assert_eq!((app.count("emails").await, app.count("email_recipients").await), (1, 1));
        let conflict = app.post("/emails").key(&key).header("idempotency-key", "k").json(mail_with(json!({"subject": "x"})));
        conflict.send().await.refused(409, "invalid_idempotent_request");
        assert_eq!(app.count("emails").await, 1);
    }

    async fn a_scheduled_mail_that_is_handed_in_again_after_its_time_gets_its_answer(app: TestApp) {
        let key = app.full_key().await;
        let body = mail_with(json!({"scheduled_at": rfc3339(app.clock.now() + 10 * SECOND)}));
        let send = || app.post("/emails").key(&key).header("idempotency-key", "k").json(body.clone()).send();
        let first = send().await;
        assert_eq!(first.status, 200, "{}", first.text());
        app.clock.advance(MINUTE);
        assert_eq!(send().await.json(), first.json());
        app.post("/emails").key(&key).json(body.clone()).send().await.refused(422, "validation_error");
        assert_eq!(app.count("emails").await, 1);
    }

    async fn many_mails_are_queued_together_or_not_at_all(app: TestApp) {
        let key = app.full_key().await;
        let batch = async |body: Value, more: &[(&str, &str)]| {
            let request = app.post("/emails/batch").key(&key).json(body);
            more.iter().fold(request, |request, (name, value)| request.header(name, value)).send().await
        };
        let made = batch(json!([mail(), mail_with(json!({"to": "b@example.com"}))]), &[]).await;
        assert_eq!(made.status, 200, "{}", made.text());
        let ids: Vec<String> = made.json()["data"].as_array().expect("data").iter()
            .map(|sent| sent["id"].as_str().expect("an id").to_owned()).collect();
        assert_eq!((ids.len(), made.json().get("errors")), (2, None));
        assert_eq!(shown(&app, &key, &ids[1]).await["to"], json!(["b@example.com"]));
        let bad = mail_with(json!({"to": "x"}));
        let refused = batch(json!([mail(), bad]), &[]).await.refused(422, "validation_error");
        assert!(refused.starts_with("Email 1: ") && refused.contains("`to`"), "{refused}");
        for (name, value) in [("attachments", json!([])), ("scheduled_at", json!("in 1 hour"))] {
            let refused = batch(json!([mail_with(json!({name: value}))]), &[]).await.refused(422, "validation_error");
            assert!(refused.contains(name), "{refused}");
        }
        for count in [0, 101] {
            batch(json!(vec![mail(); count]), &[]).await.refused(422, "validation_error");
        }
        batch(json!([mail()]), &[("x-batch-validation", "lenient")]).await.refused(400, "validation_error");
        batch(mail(), &[]).await.refused(422, "validation_error");
        assert_eq!(app.count("emails").await, 2, "what was refused left nothing behind");
        let full = batch(json!(vec![mail(); 100]), &[]).await;
        assert_eq!((full.status, app.count("emails").await), (200, 102));
    }

    async fn a_permissive_batch_sends_what_it_can_and_tells_of_the_rest(app: TestApp) {
        let key = app.full_key().await;
        let send = async |body: Value, idempotency: &str| {
            app.post("/emails/batch").key(&key).header("x-batch-validation", "permissive")
                .header("idempotency-key", idempotency).json(body).send().await
        };
        let body = json!([mail(), mail_with(json!({"to": "x"})), 5, mail_with(json!({"html": null}))]);
        let made = send(body.clone(), "a").await;
        assert_eq!(made.status, 200, "{}", made.text());
        let (data, errors) = (made.json()["data"].clone(), made.json()["errors"].clone());
        assert_eq!(data.as_array().expect("data").len(), 1);
        let places: Vec<&Value> = errors.as_array().expect("errors").iter().map(|error| &error["index"]).collect();
        assert_eq!(places, [1, 2, 3]);
        assert!(errors[0]["message"].as_str().expect("a message").contains("`to`"), "{errors}");
        assert_eq!(send(body, "a").await.json(), made.json(), "the same request has no second effect");
        assert_eq!(app.count("emails").await, 1);
        let none = send(json!([{}]), "b").await;
        assert_eq!((none.status, &none.json()["data"]), (200, &json!([])), "{}", none.text());
        let none = app.post("/emails/batch").key(&key).header("x-batch-validation", "permissive").json(json!([{}])).send().await;
        assert_eq!(none.status, 200, "{}", none.text());
    }

    async fn a_permissive_batch_tells_of_mail_whose_sender_was_refused_meanwhile(app: TestApp) {
        let key = app.full_key().await;
        let made = app.post("/domains").key(&key).json(json!({"name": "gone.example"})).send().await.json();
        let gone = mail_with(json!({"from": "a@gone.example"}));
        // Who may send is cached by now.
        for body in [mail(), gone.clone()] {
            sent(&app, &key, body).await;
        }
        let id = app.store.id(made["id"].as_str().expect("an id"));
        app.store.run(&format!("UPDATE domains SET sending = FALSE, revision = revision + 1 WHERE id = {id}")).await;
        app.store.run("UPDATE revisions SET number = number + 1 WHERE topic = 'domains'").await;
        let request = |body: Value| app.post("/emails/batch").key(&key).json(body);
        let many = json!([mail(), gone, mail_with(json!({"to": "x"})), mail()]);
        let made = request(many.clone()).header("x-batch-validation", "permissive").send().await;
        assert_eq!(made.status, 200, "{}", made.text());
        let places: Vec<Value> = made.json()["errors"].as_array().expect("errors").iter().map(|one| one["index"].clone()).collect();
        assert_eq!((made.json()["data"].as_array().map(Vec::len), places), (Some(2), vec![json!(1), json!(2)]));
        assert!(made.json()["errors"][0]["message"].as_str().is_some_and(|told| told.contains("`gone.example`")));
        assert_eq!(app.count("emails").await, 4);
        assert!(request(json!([mail(), mail_with(json!({"from": "a@gone.example"}))])).send().await
            .refused(403, "validation_error").starts_with("Email 1: "));
    }

    async fn a_contact_is_told_that_mail_for_it_is_queued_where_somebody_listens(app: TestApp) {
        let key = app.full_key().await;
        app.post("/contacts").key(&key).json(json!({"email": "Ada@example.com"})).send().await;
        sent(&app, &key, mail()).await;
        let told = "SELECT COUNT(*) FROM occurrences WHERE name = 'svc:email.queued'";
        assert_eq!(app.store.value(told).await.as_deref(), Some("0"), "nobody listens");
        let stage = Stage::new(app).await;
        let update = ("contact_update", json!({"first_name": {"var": "event.subject"}}));
        let automation = stage.automation(&[("trigger", json!({"event_name": "svc:email.queued"})), update]).await;
        let id = sent(&stage.app, &key, mail_with(json!({"to": ["ada@example.com", "stranger@example.com"]}))).await;
        assert_eq!(stage.app.store.value(told).await.as_deref(), Some("1"), "nothing can happen to a stranger");
        let payload = stage.app.store.value("SELECT payload FROM occurrences WHERE name = 'svc:email.queued'").await;
        let payload: Value = serde_json::from_str(&payload.expect("a payload")).expect("JSON");
        assert_eq!((&payload["email_id"], &payload["subject"]), (&json!(id), &json!("Hello")));
        stage.work().await;
        assert_eq!(stage.runs(&automation).await.len(), 1);
        assert_eq!(stage.get("/contacts/ada@example.com").await["first_name"], json!("Hello"));
        sent(&stage.app, &key, mail_with(json!({"scheduled_at": "in 1 hour"}))).await;
        assert_eq!(stage.app.store.value(told).await.as_deref(), Some("1"), "what is scheduled is not queued yet");
        stage.app.clock.advance(MINUTE);
    }
}
