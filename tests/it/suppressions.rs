//! `/suppressions`: who gets no mail of a workspace any more.

use futures_util::future::join_all;
use posthorn::emails::{NewEmail, Origin};
use serde_json::{Value, json};

use crate::delivery::Post;
use crate::fences::meanwhile;
use crate::harness::{Answer, TestApp, on_both};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::submission::{Door, MESSAGE, queued};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

pub async fn suppress(app: &TestApp, key: &str, email: &str) -> String {
    let answer = app.post("/suppressions").key(key).json(json!({"email": email})).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

async fn emails(app: &TestApp, key: &str, query: &str) -> Vec<Value> {
    let list = app.get(format!("/suppressions{query}")).key(key).send().await.json();
    list["data"].as_array().expect("a list").iter().map(|item| item["email"].clone()).collect()
}

async fn import(app: &TestApp, key: &str, file: &str) -> Answer {
    app.post("/suppressions/import").key(key).body("text/csv; charset=utf-8", file.to_owned()).send().await
}

on_both! {
    async fn an_address_is_suppressed_read_listed_and_freed(app: TestApp) {
        let key = app.full_key().await;
        let id = suppress(&app, &key, " Ada@Example.com ").await;
        assert_eq!(suppress(&app, &key, "ada@example.COM").await, id, "what is there stays as it is");
        let mut expected = json!({
            "object": "suppression", "id": id, "email": "Ada@Example.com", "origin": "manual", "reason": null,
            "source_id": null, "created_at": "2026-01-02T03:04:05.678901Z",
        });
        for name in [id.as_str(), "ada@example.com", "ADA@EXAMPLE.COM", "ada%40example.com"] {
            assert_eq!(app.get(format!("/suppressions/{name}")).key(&key).send().await.json(), expected, "{name}");
        }
        expected.as_object_mut().expect("an object").remove("object");
        let list = app.get("/suppressions").key(&key).send().await.json();
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": [expected]}));
        assert_eq!(emails(&app, &key, "?origin=bounce").await, [] as [Value; 0]);
        assert_eq!(emails(&app, &key, "?origin=manual&limit=1").await, ["Ada@Example.com"]);
        app.get("/suppressions?origin=x").key(&key).send().await.refused(422, "invalid_parameter");
        let gone = app.delete("/suppressions/ada@example.com").key(&key).send().await;
        assert_eq!(gone.json(), json!({"object": "suppression", "id": id, "deleted": true}));
        for name in [id.as_str(), "ada@example.com", NOBODY, "nobody"] {
            app.get(format!("/suppressions/{name}")).key(&key).send().await.refused(404, "not_found");
            app.delete(format!("/suppressions/{name}")).key(&key).send().await.refused(404, "not_found");
        }
    }

    async fn many_are_suppressed_and_freed_at_once(app: TestApp) {
        let key = app.full_key().await;
        let known = suppress(&app, &key, "b@x.example").await;
        let given = json!({"emails": ["a@x.example", "B@x.example", "c@x.example", "A@X.example"]});
        let added = app.post("/suppressions/batch/add").key(&key).json(given).send().await;
        assert_eq!(added.status, 201, "{}", added.text());
        let data = added.json()["data"].clone();
        assert_eq!((&data[1]["id"], &data[1]["object"]), (&json!(known), &json!("suppression")));
        assert_eq!((data[0]["id"] == data[3]["id"], data.as_array().map(Vec::len)), (true, Some(4)));
        assert_eq!(app.count("suppressions").await, 3);
        let by_address = json!({"emails": ["A@x.example", "nobody@x.example"]});
        let removed = app.post("/suppressions/batch/remove").key(&key).json(by_address).send().await;
        let gone = json!({"data": [{"object": "suppression", "id": data[0]["id"], "deleted": true}]});
        assert_eq!((removed.status, removed.json()), (200, gone));
        let by_id = json!({"ids": [data[2]["id"], known, NOBODY]});
        let removed = app.post("/suppressions/batch/remove").key(&key).json(by_id).send().await;
        assert_eq!(removed.json()["data"].as_array().map(Vec::len), Some(2), "{}", removed.text());
        assert_eq!(app.count("suppressions").await, 0);
        let one_is_wrong = json!({"emails": ["a@x.example", "x"]});
        let refused = app.post("/suppressions/batch/add").key(&key).json(one_is_wrong).send().await;
        assert!(refused.refused(422, "validation_error").contains("`emails[1]`"), "{}", refused.text());
        let many: Vec<String> = (0..101).map(|n| format!("{n}@x.example")).collect();
        let refused = app.post("/suppressions/batch/add").key(&key).json(json!({"emails": many})).send().await;
        refused.refused(422, "validation_error");
        assert_eq!(app.count("suppressions").await, 0, "all or none");
    }

    async fn the_same_address_added_by_many_is_there_once(app: TestApp) {
        let key = app.full_key().await;
        let one = |n: usize| {
            let emails = if n.is_multiple_of(2) { ["a@x.example", "b@x.example"] } else { ["b@x.example", "a@x.example"] };
            app.post("/suppressions/batch/add").key(&key).json(json!({"emails": emails})).send()
        };
        let answers = join_all((0..20).map(one)).await;
        let sorted = |answer: &Answer| {
            let mut ids: Vec<String> = answer.json()["data"].as_array().expect("data").iter().map(Value::to_string).collect();
            ids.sort();
            ids
        };
        assert!(answers.iter().all(|answer| answer.status == 201 && sorted(answer) == sorted(&answers[0])));
        assert_eq!(app.count("suppressions").await, 2);
    }

    async fn a_request_that_is_sent_again_has_no_second_effect(app: TestApp) {
        let key = app.full_key().await;
        let add = |email: &str| {
            app.post("/suppressions").key(&key).header("idempotency-key", "k").json(json!({"email": email})).send()
        };
        let first = add("a@x.example").await;
        app.delete("/suppressions/a@x.example").key(&key).send().await;
        let again = add("a@x.example").await;
        assert_eq!((again.json(), again.header("idempotent-replayed")), (first.json(), Some("true")));
        assert_eq!(app.count("suppressions").await, 0);
        add("b@x.example").await.refused(409, "invalid_idempotent_request");
        let file = "email\na@x.example\n";
        let imported = || {
            let request = app.post("/suppressions/import").key(&key).header("idempotency-key", "f");
            request.body("text/csv", file).send()
        };
        assert_eq!(imported().await.json()["added"], 1);
        let again = imported().await;
        assert_eq!((again.json()["added"].clone(), again.header("idempotent-replayed")), (json!(1), Some("true")));
    }

    async fn another_workspaces_list_is_its_own(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = suppress(&app, &mine, "a@x.example").await;
        for name in [id.as_str(), "a@x.example"] {
            app.get(format!("/suppressions/{name}")).key(&theirs).send().await.refused(404, "not_found");
            app.delete(format!("/suppressions/{name}")).key(&theirs).send().await.refused(404, "not_found");
        }
        for named in [json!({"ids": [id]}), json!({"emails": ["a@x.example"]})] {
            let removed = app.post("/suppressions/batch/remove").key(&theirs).json(named).send().await;
            assert_eq!(removed.json(), json!({"data": []}));
        }
        assert_eq!(emails(&app, &theirs, "").await, [] as [Value; 0]);
        assert!(!app.get("/suppressions/export").key(&theirs).send().await.text().contains("a@x.example"));
        assert_ne!(suppress(&app, &theirs, "a@x.example").await, id);
        assert_eq!(emails(&app, &mine, "").await, ["a@x.example"]);
    }

    async fn a_list_goes_out_as_a_file_and_comes_in_elsewhere_with_origin_and_reason(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let rows: String = (0..1200).map(|n| format!("{n}@x.example,bounce,\"said \"\"no\"\", {n}\"\r\n")).collect();
        let answer = import(&app, &mine, &format!("email,origin,reason\r\n{rows}0@x.example,manual,\r\nx,,\r\n")).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let told = answer.json();
        assert_eq!((&told["total"], &told["added"], &told["skipped"]), (&json!(1202), &json!(1200), &json!(1)));
        assert_eq!((&told["failed"], &told["errors"][0]["line"]), (&json!(1), &json!(1203)), "{told}");
        let exported = app.get("/suppressions/export").key(&mine).send().await;
        assert_eq!((exported.status, exported.header("content-type")), (200, Some("text/csv; charset=utf-8")));
        let file = exported.text();
        assert_eq!(file.lines().count(), 1201);
        let again = import(&app, &theirs, &file).await.json();
        assert_eq!((&again["added"], &again["failed"]), (&json!(1200), &json!(0)), "{again}");
        let entry = app.get("/suppressions/7@x.example").key(&theirs).send().await.json();
        assert_eq!((&entry["origin"], &entry["reason"]), (&json!("bounce"), &json!("said \"no\", 7")));
    }

    async fn a_file_whose_first_rows_somebody_else_adds_meanwhile_is_told_in_the_log_once(app: TestApp) {
        let (key, workspace) = (app.full_key().await, app.store.id(app.workspace().await));
        let row = |n: usize| {
            let id = app.store.id(format!("01890000-0000-7000-8000-{n:012}"));
            format!("({workspace}, {id}, '{n:03}@x.example', '{n:03}@x.example', 'manual', 0)")
        };
        let rows: Vec<String> = (0..500).map(row).collect();
        let columns = "(workspace_id, id, email, email_key, origin, created_at)";
        let held = app.store.hold(&format!("INSERT INTO suppressions {columns} VALUES {}", rows.join(", "))).await;
        let file: String = (0..501).map(|n| format!("{n:03}@x.example\n")).collect();
        let told = meanwhile(held, import(&app, &key, &format!("email\n{file}"))).await.json();
        assert_eq!((&told["added"], &told["skipped"]), (&json!(1), &json!(500)), "{told}");
        assert_eq!(app.count("audit_log WHERE action = 'suppression.imported'").await, 1);
    }

    async fn a_file_that_is_none_is_refused_with_the_reason(app: TestApp) {
        let key = app.full_key().await;
        let told = import(&app, &key, "a@x.example\n").await.refused(422, "validation_error");
        assert!(told.contains("`email`"), "{told}");
        let unlabelled = app.post("/suppressions/import").key(&key).body("text/plain", "email\n").send().await;
        assert!(unlabelled.refused(415, "validation_error").contains("text/csv"));
        let large = format!("email\n{}", "a@x.example\n".repeat(800_000));
        import(&app, &key, &large).await.refused(413, "validation_error");
        assert_eq!(app.count("suppressions").await, 0);
    }

    /// However it came in: through the API alone, in a batch and for later, and by SMTP. What a step of
    /// an automation sends is looked at in `step_mail`.
    async fn every_way_to_send_honours_the_list(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let app = &post.app;
        let key = app.full_key().await;
        let mail = |to: &str| json!({"from": "a@b.example", "to": [to, "fine@x.example"], "subject": "x", "text": "x"});
        let mut ids = Vec::new();
        let mut scheduled = mail("gone@x.example");
        scheduled["scheduled_at"] = json!("in 1 hour");
        for body in [mail("Gone@X.example"), scheduled] {
            let answer = app.post("/emails").key(&key).json(body).send().await;
            ids.push(answer.json()["id"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned());
        }
        let batch = app.post("/emails/batch").key(&key).json(json!([mail("gone@x.example")])).send().await;
        ids.push(batch.json()["data"][0]["id"].as_str().expect("an id").to_owned());
        let door = Door::open(&store, &[&format!("--smtp-url={}", sink.url()), "--senders=any"]).await;
        let submitted = door.log_in(&key).await.send(&["gone@x.example", "fine@x.example"], MESSAGE).await;
        ids.push(queued(&submitted));
        // It is asked when mail leaves, so it counts for what was accepted before.
        suppress(app, &key, "gone@x.example").await;
        post.round().await;
        app.clock.advance(2 * posthorn::clock::HOUR);
        post.round().await;
        assert!(sink.kept().iter().all(|taken| taken.to == "fine@x.example"), "{:?}", sink.kept());
        assert_eq!(sink.kept().len(), 4);
        for id in ids {
            let told = post.types(id.parse().expect("an id")).await;
            assert!(told.contains(&"suppressed".to_owned()), "{told:?}");
            let found = app.get(format!("/emails/{id}")).key(&key).send().await.json();
            assert_eq!(found["last_event"], "suppressed");
        }
        app.delete("/suppressions/gone@x.example").key(&key).send().await;
        app.post("/emails").key(&key).json(mail("gone@x.example")).send().await;
        post.round().await;
        assert!(sink.kept().iter().any(|taken| taken.to == "gone@x.example"), "who is freed gets mail again");
    }

    async fn a_mailbox_that_does_not_exist_is_on_the_list_with_what_the_server_said(store: Store) {
        let sink = Sink::scripted(|command| match command.starts_with("RCPT") {
            true => Does::Says("550 5.1.1 no such user"),
            false => Does::Usual,
        }).await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let id = post.send("Gone@x.example").await;
        post.round().await;
        let entry = post.app.get("/suppressions/gone@x.example").key(&key).send().await.json();
        assert_eq!((&entry["origin"], &entry["source_id"]), (&json!("bounce"), &json!(id)));
        assert!(entry["reason"].as_str().is_some_and(|reason| reason.contains("5.1.1")), "{entry}");
        assert_eq!(emails(&post.app, &key, "?origin=bounce").await, ["Gone@x.example"]);
    }

    /// Whoever makes a mail, it is asked at the one place where mail leaves. A new way to send belongs into this list.
    async fn whoever_makes_a_mail_its_suppressed_recipient_gets_none_and_it_is_told(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        suppress(&post.app, &key, "gone@x.example").await;
        for origin in [
            Origin::Api, Origin::Submission, Origin::Automation, Origin::Reaction, Origin::Command, Origin::Broadcast,
            Origin::Form, Origin::System,
        ] {
            let draft = NewEmail { origin, ..post.draft(&["Gone@x.example"]).await };
            let id = post.queue(&draft).await;
            post.round().await;
            // The product's own messages to owners are no workspace's.
            let expected = if origin == Origin::System { (40, 1) } else { (64, 0) };
            assert_eq!((post.state(id).await, sink.kept().len()), expected, "{origin:?}");
            let told = post.types(id).await;
            assert_eq!(told.contains(&"suppressed".to_owned()), origin != Origin::System, "{origin:?}: {told:?}");
        }
    }

    async fn templates_and_forms_honour_the_list_and_automations_hear_of_it(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let app = &post.app;
        let stage = Stage::new(TestApp::open(&store, &[]).await).await;
        let key = stage.key.clone();
        stage.automation(&[("trigger", json!({"event_name": "svc:email.suppressed"})), ("contact_update", json!({"first_name": "x"}))]).await;
        crate::contacts::add(app, &key, json!({"email": "gone@x.example"})).await;
        suppress(app, &key, "gone@x.example").await;
        let template = crate::templates::published(app, &key, json!({"name": "T", "from": "a@b.example", "subject": "x", "html": "<p>x</p>"})).await;
        let mail = json!({"to": "gone@x.example", "template": {"id": template}});
        let sent = app.post("/emails").key(&key).json(mail).send().await;
        assert_eq!(sent.status, 200, "{}", sent.text());
        let form = json!({"name": "F", "from": "a@b.example", "enabled": true});
        let form = app.post("/forms").key(&key).json(form).send().await.json()["id"].clone();
        let path = format!("/subscribe/{}", form.as_str().expect("an id"));
        app.post(path).body("application/x-www-form-urlencoded", "email=gone@x.example").send().await;
        assert_eq!(app.count("emails").await, 2);
        post.round().await;
        assert_eq!((sink.kept().len(), stage.app.count("runs").await), (0, 2));
    }
}
