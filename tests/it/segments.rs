//! `/segments`, who is in them, and their older name `/audiences`.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::contacts::{add, ids, read};
use crate::harness::{TestApp, on_both};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

async fn segment(app: &TestApp, key: &str, name: &str) -> String {
    let answer = app.post("/segments").key(key).json(json!({"name": name})).send().await;
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!((answer.status, answer.json()), (201, json!({"object": "segment", "id": id, "name": name})));
    id
}

async fn listed(app: &TestApp, key: &str, path: &str) -> Vec<String> {
    let answer = app.get(path).key(key).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    ids(&answer.json())
}

on_both! {
    async fn a_segment_is_made_read_renamed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let id = segment(&app, &key, "Newsletter").await;
        let path = format!("/segments/{id}");
        let created_at = "2026-01-02T03:04:05.678901Z";
        let expected = json!({
            "object": "segment", "id": id, "name": "Newsletter", "created_at": created_at, "filter": null,
            "filling": false, "contacts_count": 0,
        });
        assert_eq!(app.get(&path).key(&key).send().await.json(), expected);
        let renamed = app.patch(&path).key(&key).json(json!({"name": "News"})).send().await;
        assert_eq!((renamed.status, renamed.json()), (200, json!({"object": "segment", "id": id})));
        let list = app.get("/segments").key(&key).send().await.json();
        let item = json!({"id": id, "name": "News", "created_at": created_at});
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": [item]}));
        let gone = app.delete(&path).key(&key).send().await;
        assert_eq!(gone.json(), json!({"object": "segment", "id": id, "deleted": true}));
        app.get(&path).key(&key).send().await.refused(404, "not_found");
        app.patch(&path).key(&key).json(json!({"name": "x"})).send().await.refused(404, "not_found");
        app.delete(&path).key(&key).send().await.refused(404, "not_found");
        app.get(format!("{path}/contacts")).key(&key).send().await.refused(404, "not_found");
    }

    async fn a_bad_name_or_id_is_refused_with_the_reason(app: TestApp) {
        let key = app.full_key().await;
        for (body, name, word) in [
            (json!({}), "missing_required_field", "`name`"),
            (json!({"nmae": "x"}), "missing_required_field", "`nmae`"),
            (json!({"name": ""}), "validation_error", "`name`"),
            (json!({"name": " "}), "validation_error", "`name`"),
            (json!({"name": 1}), "validation_error", "`name`"),
            (json!({"name": "a\u{0}"}), "validation_error", "`name`"),
            (json!({"name": "x".repeat(256)}), "validation_error", "255"),
            (json!({"name": "x", "filter": {"field": "email"}}), "validation_error", "`filter`"),
        ] {
            for path in ["/segments", "/audiences"] {
                let answer = app.post(path).key(&key).json(body.clone()).send().await;
                assert!(answer.refused(422, name).contains(word), "{body}");
            }
        }
        assert_eq!(app.count("segments").await, 0);
        for path in ["/segments/x", "/segments/x/contacts", "/audiences/x", "/audiences/x/contacts/a@b"] {
            app.get(path).key(&key).send().await.refused(422, "invalid_parameter");
        }
    }

    async fn a_contact_is_put_into_segments_and_taken_out(app: TestApp) {
        let key = app.full_key().await;
        let (one, two) = (segment(&app, &key, "one").await, segment(&app, &key, "two").await);
        let id = add(&app, &key, json!({"email": "a+x@b"})).await;
        for name in ["a+x@b", &id, "A%2BX%40b"] {
            let path = format!("/contacts/{name}/segments/{one}");
            let answer = app.post(&path).key(&key).send().await;
            let expected = json!({"object": "contact_segment", "id": one, "contact_id": id, "segment_id": one});
            assert_eq!((answer.status, answer.json()), (200, expected), "again is fine");
        }
        app.post(format!("/contacts/{id}/segments/{two}")).key(&key).json(json!({})).send().await;
        assert_eq!(app.count("segment_members").await, 2);
        assert_eq!(listed(&app, &key, "/contacts/a+x@b/segments").await, [two.as_str(), one.as_str()]);
        assert_eq!(listed(&app, &key, &format!("/contacts/{id}/segments?limit=1&after={two}")).await, [one.as_str()]);
        assert_eq!(listed(&app, &key, &format!("/segments/{one}/contacts")).await, [id.as_str()]);
        assert_eq!(listed(&app, &key, &format!("/contacts?segment_id={one}")).await, [id.as_str()]);
        assert_eq!(listed(&app, &key, &format!("/contacts?audience_id={two}")).await, [id.as_str()]);

        let path = format!("/contacts/a+x@b/segments/{one}");
        let answer = app.delete(&path).key(&key).send().await;
        let expected = json!({
            "object": "contact_segment", "id": one, "contact_id": id, "segment_id": one, "audienceId": one,
            "deleted": true,
        });
        assert_eq!((answer.status, answer.json()), (200, expected));
        app.delete(&path).key(&key).send().await.refused(404, "not_found");
        assert_eq!(listed(&app, &key, &format!("/contacts/{id}/segments")).await, [two.as_str()]);
        assert_eq!(listed(&app, &key, &format!("/segments/{one}/contacts")).await, Vec::<String>::new());

        app.post(format!("/contacts/{id}/segments/{NOBODY}")).key(&key).send().await.refused(404, "not_found");
        app.post(format!("/contacts/{NOBODY}/segments/{two}")).key(&key).send().await.refused(404, "not_found");
        app.post(format!("/contacts/{id}/segments/x")).key(&key).send().await.refused(422, "invalid_parameter");
        app.delete(format!("/segments/{two}")).key(&key).send().await;
        assert_eq!(app.count("segment_members").await, 0, "a segment takes its memberships along");
        assert_eq!(read(&app, &key, &id).await["id"], json!(id), "and leaves the contacts");
    }

    async fn a_new_contact_is_in_its_segments_from_the_start_or_not_there(app: TestApp) {
        let key = app.full_key().await;
        let (one, two) = (segment(&app, &key, "one").await, segment(&app, &key, "two").await);
        let body = json!({"email": "a@b", "segments": [{"id": one}, two, one], "audience_id": two});
        let id = add(&app, &key, body).await;
        assert_eq!(listed(&app, &key, &format!("/contacts/{id}/segments")).await, [two.as_str(), one.as_str()]);
        let body = json!({"email": "c@b", "segments": [one, NOBODY]});
        app.post("/contacts").key(&key).json(body).send().await.refused(404, "not_found");
        app.get("/contacts/c@b").key(&key).send().await.refused(404, "not_found");
        assert_eq!((app.count("contacts").await, app.count("segment_members").await), (1, 2));
    }

    async fn the_contacts_of_a_segment_are_paged_newest_first(app: TestApp) {
        let key = app.full_key().await;
        let (one, two) = (segment(&app, &key, "one").await, segment(&app, &key, "two").await);
        let mut made = Vec::new();
        for n in 0..12 {
            let home = if n % 3 == 0 { &two } else { &one };
            let id = add(&app, &key, json!({"email": format!("c{n}@b"), "segments": [home]})).await;
            if home == &one {
                made.push(id);
            }
        }
        made.reverse();
        for path in [format!("/segments/{one}/contacts?"), format!("/audiences/{one}/contacts?"), format!("/contacts?segment_id={one}&")] {
            assert_eq!(listed(&app, &key, &path).await, made, "{path}");
            assert_eq!(listed(&app, &key, &format!("{path}limit=3")).await, made[..3], "{path}");
            assert_eq!(listed(&app, &key, &format!("{path}limit=3&after={}", made[2])).await, made[3..6], "{path}");
            assert_eq!(listed(&app, &key, &format!("{path}limit=2&before={}", made[5])).await, made[3..5], "{path}");
        }
    }

    async fn decisions_1_another_workspaces_segments_are_not_there(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let (own, foreign) = (segment(&app, &mine, "mine").await, segment(&app, &theirs, "theirs").await);
        let contact = add(&app, &mine, json!({"email": "a@b", "segments": [own]})).await;
        let stranger = add(&app, &theirs, json!({"email": "s@b"})).await;
        for path in [format!("/segments/{own}"), format!("/audiences/{own}")] {
            app.get(&path).key(&theirs).send().await.refused(404, "not_found");
            app.get(format!("{path}/contacts")).key(&theirs).send().await.refused(404, "not_found");
            app.delete(&path).key(&theirs).send().await.refused(404, "not_found");
        }
        app.patch(format!("/segments/{own}")).key(&theirs).json(json!({"name": "x"})).send().await.refused(404, "not_found");
        app.get(format!("/contacts?segment_id={own}")).key(&theirs).send().await.refused(404, "not_found");
        for (key, contact, segment) in
            [(&theirs, &stranger, &own), (&theirs, &contact, &foreign), (&mine, &contact, &foreign), (&mine, &stranger, &own)]
        {
            let path = format!("/contacts/{contact}/segments/{segment}");
            app.post(&path).key(key).send().await.refused(404, "not_found");
            app.delete(&path).key(key).send().await.refused(404, "not_found");
        }
        let body = json!({"email": "t@b", "segments": [own]});
        app.post("/contacts").key(&theirs).json(body).send().await.refused(404, "not_found");
        assert_eq!(app.count("segment_members").await, 1);
        assert_eq!(listed(&app, &theirs, "/segments").await, [foreign]);
    }

    async fn audiences_are_segments_by_their_older_name(app: TestApp) {
        let key = app.full_key().await;
        let answer = app.post("/audiences").key(&key).json(json!({"name": "Old"})).send().await;
        let id = answer.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!((answer.status, answer.json()), (201, json!({"object": "audience", "id": id, "name": "Old"})));
        assert_eq!(listed(&app, &key, "/audiences").await, [id.as_str()]);
        assert_eq!(listed(&app, &key, "/segments").await, [id.as_str()]);
        let found = app.get(format!("/audiences/{id}")).key(&key).send().await.json();
        assert_eq!((&found["object"], &found["name"]), (&json!("audience"), &json!("Old")));
        let gone = app.delete(format!("/audiences/{id}")).key(&key).send().await.json();
        assert_eq!(gone, json!({"object": "audience", "id": id, "deleted": true}));
        app.get(format!("/audiences/{id}")).key(&key).send().await.refused(404, "not_found");
    }

    async fn older_programs_find_contacts_within_their_audience(app: TestApp) {
        let key = app.full_key().await;
        let (one, two) = (segment(&app, &key, "one").await, segment(&app, &key, "two").await);
        let within = |audience: &str| format!("/audiences/{audience}/contacts");
        let body = json!({"email": "A@b", "first_name": "A", "unsubscribed": true});
        let made = app.post(within(&one)).key(&key).json(body).send().await;
        let id = made.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!((made.status, made.json()), (201, json!({"object": "contact", "id": id})));
        let again = app.post(within(&one)).key(&key).json(json!({"email": "a@B"})).send().await;
        assert!(again.refused(409, "validation_error").contains(&id));
        app.post(within(&one)).key(&key).json(json!({})).send().await.refused(422, "missing_required_field");

        let there = |name: &str| format!("{}/{name}", within(&two));
        app.get(there("a@b")).key(&key).send().await.refused(404, "not_found");
        app.patch(there("a@b")).key(&key).json(json!({"last_name": "B"})).send().await.refused(404, "not_found");
        let body = json!({"email": "a@b", "unsubscribed": false});
        let joined = app.post(within(&two)).key(&key).json(body).send().await;
        assert_eq!((joined.status, &joined.json()["id"]), (201, &json!(id)));
        assert_eq!(read(&app, &key, &id).await["unsubscribed"], json!(true), "nobody is subscribed again by this");
        assert_eq!(app.get(there(&id)).key(&key).send().await.json()["first_name"], "A");
        assert_eq!(app.patch(there("a@b")).key(&key).json(json!({"last_name": "B"})).send().await.status, 200);
        assert_eq!(read(&app, &key, &id).await["last_name"], "B");

        let expected = json!({"object": "contact", "id": id, "contact": id, "deleted": true});
        assert_eq!(app.delete(there("a@b")).key(&key).send().await.json(), expected);
        app.get(there("a@b")).key(&key).send().await.refused(404, "not_found");
        assert_eq!(listed(&app, &key, &within(&one)).await, [id.as_str()], "it stays in the other audience");
        assert_eq!(app.delete(format!("{}/{id}", within(&one))).key(&key).send().await.json(), expected);
        assert_eq!(app.count("contacts").await, 0, "in no audience it is gone");
    }

    async fn members_that_come_while_their_segment_goes_leave_nothing_behind(app: TestApp) {
        let key = app.full_key().await;
        let second = TestApp::open(&app.store, &[]).await;
        for round in 0..5 {
            let home = segment(&app, &key, "short-lived").await;
            let contact = add(&app, &key, json!({"email": format!("r{round}@b")})).await;
            let path = format!("/contacts/{contact}/segments/{home}");
            let joins = join_all((0..10).map(|n| if n % 2 == 0 { &app } else { &second }.post(&path).key(&key).send()));
            let goes = async {
                let contact = app.delete(format!("/contacts/{contact}")).key(&key).send();
                let segment = second.delete(format!("/segments/{home}")).key(&key).send();
                tokio::join!(contact, segment)
            };
            let (joined, gone) = tokio::join!(joins, goes);
            assert_eq!((gone.0.status, gone.1.status), (200, 200));
            assert!(joined.iter().all(|answer| matches!(answer.status, 200 | 404)));
        }
        assert_eq!(app.count("segment_members").await, 0);
    }

    async fn a_segment_of_nobody_is_an_empty_list(app: TestApp) {
        let key = app.full_key().await;
        let id = segment(&app, &key, "empty").await;
        let list = app.get(format!("/segments/{id}/contacts")).key(&key).send().await.json();
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": Value::Array(vec![])}));
    }
}
