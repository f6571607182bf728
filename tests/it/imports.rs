//! `/contacts/imports`: files of contacts, worked off in the background.

use std::fmt::Write as _;

use posthorn::contacts;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::contacts::{add, ids, read};
use crate::harness::{Answer, TestApp, on_both};
use crate::topics::{chosen, topic};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";
const LEASE: i64 = 20_000_000;

fn form(fields: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (name, value) in fields {
        let file = if *name == "file" { "; filename=\"people.csv\"\r\nContent-Type: text/csv" } else { "" };
        write!(body, "--edge\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{value}\r\n")
            .expect("text");
    }
    body + "--edge--\r\n"
}

async fn post(app: &TestApp, key: &str, fields: &[(&str, &str)]) -> Answer {
    app.post("/contacts/imports").key(key).body("multipart/form-data; boundary=edge", form(fields)).send().await
}

async fn hand_in(app: &TestApp, key: &str, fields: &[(&str, &str)]) -> String {
    let answer = post(app, key, fields).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.json(), json!({"object": "contact_import", "id": id}));
    id
}

/// Works until nothing is due.
async fn work(app: &TestApp) {
    let mut last = Uuid::nil().into();
    while contacts::import_round(app.app.occurrences(), &mut last).await.expect("a round") {}
}

async fn show(app: &TestApp, key: &str, id: &str) -> Value {
    let answer = app.get(format!("/contacts/imports/{id}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn counts(total: i64, created: i64, updated: i64, skipped: i64, failed: i64) -> Value {
    json!({"total": total, "created": created, "updated": updated, "skipped": skipped, "failed": failed})
}

fn many(rows: usize) -> String {
    (0..rows).fold("email,first_name\n".to_owned(), |file, n| file + &format!("p{n}@b,Person {n}\n"))
}

on_both! {
    async fn a_file_becomes_contacts(app: TestApp) {
        let key = app.full_key().await;
        let file = "\u{feff}Email,First Name,last_name,Unsubscribed,ignored\r\n\
                    Ada@Example.com,Ada,\"Lovelace, Countess\",no,x\r\n\r\n\
                    grace@example.com,\"Gr\"\"a\"\"ce\",,TRUE,\r\n";
        let id = hand_in(&app, &key, &[("file", file)]).await;
        let waiting = json!({
            "object": "contact_import", "id": id, "status": "queued", "created_at": "2026-01-02T03:04:05.678901Z",
            "completed_at": null, "counts": counts(0, 0, 0, 0, 0),
        });
        let mut whole = waiting.clone();
        whole["errors"] = json!([]);
        assert_eq!(show(&app, &key, &id).await, whole);
        let list = app.get("/contacts/imports").key(&key).send().await.json();
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": [waiting]}));
        app.clock.advance(1_000_000);
        work(&app).await;
        let done = show(&app, &key, &id).await;
        assert_eq!((&done["status"], &done["counts"]), (&json!("completed"), &counts(2, 2, 0, 0, 0)));
        assert_eq!(done["completed_at"], "2026-01-02T03:04:06.678901Z");
        let ada = read(&app, &key, "ada@example.com").await;
        assert_eq!((&ada["email"], &ada["first_name"]), (&json!("Ada@Example.com"), &json!("Ada")));
        assert_eq!((&ada["last_name"], &ada["unsubscribed"]), (&json!("Lovelace, Countess"), &json!(false)));
        let grace = read(&app, &key, "grace@example.com").await;
        assert_eq!((&grace["first_name"], &grace["last_name"]), (&json!("Gr\"a\"ce"), &Value::Null));
        assert_eq!((&grace["unsubscribed"], &grace["properties"]), (&json!(true), &json!({})));
        assert_eq!(app.count("contact_import_chunks").await, 0, "the file is not kept");
        let told = "SELECT COUNT(*) FROM occurrences WHERE name = 'svc:contact.created'";
        assert_eq!(app.store.value(told).await.as_deref(), Some("2"), "as for any new contact");
    }

    async fn a_map_says_which_column_is_what(app: TestApp) {
        let key = app.full_key().await;
        app.post("/contact-properties").key(&key).json(json!({"key": "seats", "type": "number"})).send().await;
        let file = "Mail,Name,Seats,VIP,Plan,score\na@b,A,3,yes,pro,1.5\nc@b,,many,no,x,1\nd@b,,,,,\n";
        let map = json!({"email": "Mail", "first_name": "Name", "last_name": null, "properties": {
            "seats": {"column": "Seats"}, "vip": {"column": "VIP", "type": "boolean"},
            "plan": {"column": "Plan"}, "score": {"column": "score", "type": "number"},
        }});
        let id = hand_in(&app, &key, &[("file", file), ("column_map", &map.to_string())]).await;
        work(&app).await;
        let done = show(&app, &key, &id).await;
        assert_eq!(done["counts"], counts(3, 2, 0, 0, 1));
        assert_eq!(done["errors"][0]["line"], json!(3));
        let message = done["errors"][0]["message"].as_str().expect("a message");
        assert!(message.contains("`seats`") && message.contains("`many`"), "{message}");
        assert_eq!(read(&app, &key, "a@b").await["properties"], json!({
            "seats": {"type": "number", "value": 3}, "vip": {"type": "boolean", "value": true},
            "plan": {"type": "string", "value": "pro"}, "score": {"type": "number", "value": 1.5},
        }));
        assert_eq!(read(&app, &key, "d@b").await["properties"], json!({}), "an empty cell says nothing");
        let id = hand_in(&app, &key, &[("file", "email,seats,other\ne@b,7,x\n")]).await;
        work(&app).await;
        assert_eq!(show(&app, &key, &id).await["counts"], counts(1, 1, 0, 0, 0));
        let found = read(&app, &key, "e@b").await;
        assert_eq!(found["properties"], json!({"seats": {"type": "number", "value": 7}}), "known by its name");
    }

    async fn who_is_there_already_is_skipped_or_updated(app: TestApp) {
        let key = app.full_key().await;
        add(&app, &key, json!({"email": "Ada@b", "first_name": "Ada", "properties": {"x": 1}})).await;
        add(&app, &key, json!({"email": "same@b", "first_name": "Same"})).await;
        let file = "email,first_name,last_name\nADA@b,New,Name\nsame@b,Same,\ntwice@b,One,\nTwice@b,Two,\n";
        let id = hand_in(&app, &key, &[("file", file)]).await;
        work(&app).await;
        assert_eq!(show(&app, &key, &id).await["counts"], counts(4, 1, 0, 3, 0));
        assert_eq!(read(&app, &key, "ada@b").await["first_name"], "Ada");
        assert_eq!(read(&app, &key, "twice@b").await["first_name"], "One");
        let id = hand_in(&app, &key, &[("file", file), ("on_conflict", "upsert")]).await;
        work(&app).await;
        assert_eq!(show(&app, &key, &id).await["counts"], counts(4, 0, 4, 0, 0));
        let ada = read(&app, &key, "ada@b").await;
        assert_eq!((&ada["email"], &ada["first_name"], &ada["last_name"]), (&json!("Ada@b"), &json!("New"), &json!("Name")));
        assert_eq!(ada["properties"]["x"]["value"], json!(1), "what the file does not say stays");
        assert_eq!(read(&app, &key, "same@b").await["updated_at"], Value::Null, "nothing was new");
        assert_eq!(read(&app, &key, "twice@b").await["first_name"], "Two");
        let told = "SELECT COUNT(*) FROM occurrences WHERE name = 'svc:contact.updated'";
        assert_eq!(app.store.value(told).await.as_deref(), Some("2"));
    }

    async fn contacts_join_segments_and_choose_topics(app: TestApp) {
        let key = app.full_key().await;
        let news = topic(&app, &key, "news", "opt_out").await;
        let segment = app.post("/segments").key(&key).json(json!({"name": "s"})).send().await.json();
        let doomed = app.post("/segments").key(&key).json(json!({"name": "d"})).send().await.json();
        add(&app, &key, json!({"email": "old@b"})).await;
        let ties = [json!([segment["id"], doomed["id"]]), json!([{"id": news, "subscription": "opt_in"}])];
        let [segments, topics] = ties.map(|tie| tie.to_string());
        let fields = [("file", "email\nnew@b\nold@b\n"), ("segments", &*segments), ("topics", &*topics)];
        hand_in(&app, &key, &fields).await;
        let gone = format!("/segments/{}", doomed["id"].as_str().expect("an id"));
        app.delete(gone).key(&key).send().await;
        work(&app).await;
        assert_eq!((app.count("segment_members").await, app.count("topic_subscriptions").await), (1, 1));
        assert_eq!(chosen(&app, &key, "new@b").await, [(news.clone(), "opt_in".to_owned())]);
        assert_eq!(chosen(&app, &key, "old@b").await[0].1, "opt_out", "whoever is skipped is left alone");
        let fields = [("file", "email\nold@b\n"), ("topics", &*topics), ("on_conflict", "upsert")];
        hand_in(&app, &key, &fields).await;
        work(&app).await;
        assert_eq!(chosen(&app, &key, "old@b").await[0].1, "opt_in");
    }

    async fn a_bad_row_is_counted_with_its_line_and_fails_no_other(app: TestApp) {
        let key = app.full_key().await;
        let file = "email,first_name,unsubscribed\n\"a@b\",\"two\nlines\",\nnobody,x,\nb@b,x\nc@b,x,maybe\n\
                    d@b,\"x\"y,\ne@b,fine,\n,,\nlast@b,\"never closed,\n";
        let id = hand_in(&app, &key, &[("file", file)]).await;
        work(&app).await;
        let done = show(&app, &key, &id).await;
        assert_eq!((&done["status"], &done["counts"]), (&json!("completed"), &counts(8, 1, 0, 0, 7)));
        let lines: Vec<_> = done["errors"].as_array().expect("errors").iter().map(|error| &error["line"]).collect();
        assert_eq!(lines, [2, 4, 5, 6, 7, 9, 10], "{done}");
        for (at, word) in [(0, "`first_name`"), (1, "`email`"), (2, "2 fields"), (3, "`maybe`"), (4, "quote"), (6, "closed")] {
            assert!(done["errors"][at]["message"].as_str().expect("a message").contains(word), "{word}: {done}");
        }
        let file = (0..150).fold("email\n".to_owned(), |file, n| file + &format!("bad{n}\n"));
        let id = hand_in(&app, &key, &[("file", &file)]).await;
        work(&app).await;
        let done = show(&app, &key, &id).await;
        assert_eq!(done["counts"], counts(150, 0, 0, 0, 150));
        assert_eq!(done["errors"].as_array().expect("errors").len(), 100);
    }

    async fn a_form_that_cannot_be_imported_is_refused_at_once(app: TestApp) {
        let key = app.full_key().await;
        let segment = json!([NOBODY]).to_string();
        let choice = json!([{"id": NOBODY, "subscription": "opt_in"}]).to_string();
        for (fields, status, name, word) in [
            (vec![("on_conflict", "skip")], 422, "missing_required_field", "`file`"),
            (vec![("file", "")], 422, "missing_required_field", "`file`"),
            (vec![("file", "\n\n")], 422, "validation_error", "empty"),
            (vec![("file", "name\nx\n")], 422, "validation_error", "`email`"),
            (vec![("file", "email\n"), ("on_conflict", "x")], 422, "validation_error", "`on_conflict`"),
            (vec![("file", "email\n"), ("column_map", "{")], 422, "validation_error", "`column_map`"),
            (vec![("file", "email\n"), ("column_map", "[]")], 422, "validation_error", "`column_map`"),
            (vec![("file", "email\n"), ("column_map", r#"{"email":"x"}"#)], 422, "validation_error", "`x`"),
            (vec![("file", "email\n"), ("column_map", r#"{"first_name":1}"#)], 422, "validation_error", "a number"),
            (vec![("file", "email\n"), ("column_map", r#"{"properties":{"k":{"column":"email","type":"date"}}}"#)],
             422, "validation_error", "`k`"),
            (vec![("file", "email\n"), ("segments", "x")], 422, "validation_error", "`segments`"),
            (vec![("file", "email\n"), ("segments", &*segment)], 404, "not_found", "Segment"),
            (vec![("file", "email\n"), ("topics", &*choice)], 404, "not_found", "Topic"),
        ] {
            let answer = post(&app, &key, &fields).await;
            assert!(answer.refused(status, name).contains(word), "{fields:?}: {}", answer.text());
        }
        let json = app.post("/contacts/imports").key(&key).json(json!({"file": "email\n"})).send().await;
        assert!(json.refused(415, "validation_error").contains("multipart/form-data"));
        let cut = app.post("/contacts/imports").key(&key).body("multipart/form-data; boundary=edge", "--edge\r\n").send();
        cut.await.refused(400, "validation_error");
        let large = "x".repeat((50 << 20) + 1);
        post(&app, &key, &[("file", &format!("email\n{large}"))]).await.refused(413, "validation_error");
        assert_eq!((app.count("contact_imports").await, app.count("contact_import_chunks").await), (0, 0));
        let id = hand_in(&app, &key, &[("file", "email")]).await;
        work(&app).await;
        let done = show(&app, &key, &id).await;
        assert_eq!((&done["status"], &done["counts"]), (&json!("completed"), &counts(0, 0, 0, 0, 0)));
    }

    async fn workspaces_take_turns_however_many_imports_one_of_them_has(app: TestApp) {
        let (key, other) = (app.full_key().await, app.second_workspace_key().await);
        for n in 0..5 {
            hand_in(&app, &key, &[("file", &format!("email\nmany{n}@b\n"))]).await;
        }
        let only = hand_in(&app, &other, &[("file", "email\nonly@b\n")]).await;
        let mut last = Uuid::nil().into();
        for _ in 0..2 {
            assert!(contacts::import_round(app.app.occurrences(), &mut last).await.expect("a round"));
        }
        assert_eq!(show(&app, &other, &only).await["status"], "completed", "the second turn is the other's");
        work(&app).await;
        assert_eq!(app.count("contacts").await, 6);
    }

    async fn an_import_goes_on_where_it_was_and_nothing_is_created_twice(app: TestApp) {
        let key = app.full_key().await;
        let id = hand_in(&app, &key, &[("file", &many(1_234))]).await;
        let mut first = contacts::claim_import(app.app.occurrences(), Uuid::nil().into()).await.expect("a claim").expect("an import");
        assert!(contacts::import_step(app.app.occurrences(), &mut first).await.expect("a step"), "there is more");
        let half = show(&app, &key, &id).await;
        assert_eq!((&half["status"], &half["counts"]), (&json!("in_progress"), &counts(500, 500, 0, 0, 0)));
        let second = TestApp::open(&app.store, &[]).await;
        assert!(contacts::claim_import(second.app.occurrences(), Uuid::nil().into()).await.expect("a look").is_none(), "it is taken");
        // The first process falls silent; when its lease is over another goes on.
        second.clock.advance(LEASE + 1);
        let mut other = contacts::claim_import(second.app.occurrences(), Uuid::nil().into()).await.expect("a claim").expect("an import");
        assert!(contacts::import_step(second.app.occurrences(), &mut other).await.expect("a step"));
        // The first wakes up again, and cannot do what is done.
        assert!(!contacts::import_step(app.app.occurrences(), &mut first).await.expect("a step"), "it is not ours any more");
        assert_eq!(show(&app, &key, &id).await["counts"], counts(1000, 1000, 0, 0, 0));
        assert!(!contacts::import_step(second.app.occurrences(), &mut other).await.expect("a step"), "that was all");
        let done = show(&app, &key, &id).await;
        assert_eq!((&done["status"], &done["counts"]), (&json!("completed"), &counts(1234, 1234, 0, 0, 0)));
        assert_eq!(app.count("contacts").await, 1234);
        assert_eq!(app.count("contact_import_chunks").await, 0);
    }

    async fn a_file_of_many_pieces_is_read_across_their_edges(app: TestApp) {
        let key = app.full_key().await;
        let long = "ü".repeat(120);
        let file = (0..2_500).fold("email,last_name\n".to_owned(), |file, n| file + &format!("p{n}@b,\"{long}\"\n"));
        assert!(file.len() > 2 * 256 * 1024);
        let id = hand_in(&app, &key, &[("file", &file)]).await;
        assert!(app.count("contact_import_chunks").await >= 3);
        work(&app).await;
        assert_eq!(show(&app, &key, &id).await["counts"], counts(2500, 2500, 0, 0, 0));
        let unclosed = format!("email\na@b\n\"{}", "x\n".repeat(1 << 20));
        let id = hand_in(&app, &key, &[("file", &unclosed)]).await;
        work(&app).await;
        let done = show(&app, &key, &id).await;
        assert_eq!((&done["counts"], &done["errors"][0]["line"]), (&counts(2, 1, 0, 0, 1), &json!(3)));
    }

    async fn others_may_change_contacts_meanwhile(app: TestApp) {
        let key = app.full_key().await;
        let second = TestApp::open(&app.store, &[]).await;
        let file = many(300);
        let id = hand_in(&app, &key, &[("file", &file), ("on_conflict", "upsert")]).await;
        let others = async {
            for n in (0..300).step_by(15) {
                let body = json!({"email": format!("P{n}@b"), "properties": {"mine": n}});
                let answer = second.post("/contacts").key(&key).json(body).send().await;
                assert!(matches!(answer.status, 201 | 409), "{}", answer.text());
                let path = format!("/contacts/p{n}@b");
                assert_eq!(second.patch(path).key(&key).json(json!({"properties": {"n": n}})).send().await.status, 200);
            }
        };
        tokio::join!(work(&app), others);
        let done = show(&app, &key, &id).await;
        assert_eq!((&done["status"], &done["counts"]["total"]), (&json!("completed"), &json!(300)), "{done}");
        assert_eq!((&done["counts"]["failed"], app.count("contacts").await), (&json!(0), 300));
        let found = read(&app, &key, "p15@b").await;
        assert_eq!((&found["first_name"], &found["properties"]["n"]["value"]), (&json!("Person 15"), &json!(15)));
    }

    async fn a_list_is_paged_and_keeps_to_a_status(app: TestApp) {
        let (key, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let one = hand_in(&app, &key, &[("file", "email\n")]).await;
        work(&app).await;
        let two = hand_in(&app, &key, &[("file", "email\n")]).await;
        let list = async |query: &str| ids(&app.get(format!("/contacts/imports{query}")).key(&key).send().await.json());
        assert_eq!(list("").await, [two.as_str(), one.as_str()]);
        assert_eq!(list("?status=completed").await, [one.as_str()]);
        assert_eq!(list("?status=queued&limit=1").await, [two.as_str()]);
        assert_eq!(list("?status=failed").await, Vec::<String>::new());
        assert_eq!(list(&format!("?before={one}")).await, [two.as_str()]);
        app.get("/contacts/imports?status=x").key(&key).send().await.refused(422, "invalid_parameter");
        app.get("/contacts/imports/x").key(&key).send().await.refused(422, "invalid_parameter");
        app.get(format!("/contacts/imports/{one}")).key(&theirs).send().await.refused(404, "not_found");
        assert_eq!(app.get("/contacts/imports").key(&theirs).send().await.json()["data"], json!([]));
    }
}
