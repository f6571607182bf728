//! Forms with which strangers subscribe.

use posthorn::clock::{DAY, HOUR};
use serde_json::{Value, json};

use crate::contacts::{add, read};
use crate::harness::{Answer, BASE, TestApp, on_both};
use crate::store::Store;
use crate::topics::{chosen, topic};

const FORM: &str = "application/x-www-form-urlencoded";

async fn form(app: &TestApp, key: &str, more: Value) -> (String, String) {
    let mut body = json!({"name": "Footer", "from": "Ada <hello@b.example>", "enabled": true});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let made = app.post("/forms").key(key).json(body).send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(made.json(), json!({"object": "form", "id": id}));
    (id.clone(), format!("/subscribe/{id}"))
}

async fn fill_in(app: &TestApp, path: &str, email: &str) -> Answer {
    app.post(path).body(FORM, format!("email={email}")).send().await
}

/// The paths in the mails that ask, newest first.
async fn asked(app: &TestApp) -> Vec<String> {
    let texts = app.store.rows("SELECT text FROM emails WHERE origin = 'form' ORDER BY id DESC").await;
    let path = |text: &Vec<Option<String>>| {
        let text = text[0].as_deref().expect("a text");
        let link = text.lines().find_map(|line| line.strip_prefix(BASE)).expect("a link");
        link.to_owned()
    };
    texts.iter().map(path).collect()
}

on_both! {
    async fn a_form_is_made_read_changed_and_deleted(app: TestApp) {
        let (key, other) = (app.full_key().await, app.second_workspace_key().await);
        let news = topic(&app, &key, "News", "opt_in").await;
        let made = app.post("/forms").key(&key).json(json!({"name": "F", "from": "a@b.example", "topics": [news, news]}));
        let id = made.send().await.json()["id"].as_str().expect("an id").to_owned();
        let path = format!("/forms/{id}");
        let shown = app.get(&path).key(&key).send().await.json();
        let page = format!("{BASE}/subscribe/{id}");
        assert_eq!((&shown["object"], &shown["enabled"], &shown["topics"]), (&json!("form"), &json!(false), &json!([news])));
        assert_eq!(shown["url"], json!(page));
        assert!(shown["html"].as_str().is_some_and(|html| html.contains(&page)), "{shown}");
        let change = json!({"enabled": true, "heading": "Hear from us", "topics": []});
        assert_eq!(app.patch(&path).key(&key).json(change).send().await.status, 200);
        let changed = app.get("/forms").key(&key).send().await.json()["data"][0].clone();
        assert_eq!((&changed["heading"], &changed["name"], &changed["topics"]),
            (&json!("Hear from us"), &json!("F"), &json!([])));
        for wrong in [json!({"redirect_url": "http://a.example"}), json!({"from": "nobody"}), json!({"name": ""})] {
            app.patch(&path).key(&key).json(wrong).send().await.refused(422, "validation_error");
        }
        let nowhere = json!({"segment_id": "01890000-0000-7000-8000-000000000000"});
        app.patch(&path).key(&key).json(nowhere).send().await.refused(404, "not_found");
        app.get(&path).key(&other).send().await.refused(404, "not_found");
        app.delete(&path).key(&other).send().await.refused(404, "not_found");
        assert_eq!(app.delete(&path).key(&key).send().await.json(), json!({"object": "form", "id": id, "deleted": true}));
        assert_eq!(app.get(format!("/subscribe/{id}")).send().await.status, 404);
    }

    async fn a_form_that_is_off_is_not_there(app: TestApp) {
        let key = app.full_key().await;
        let (_, path) = form(&app, &key, json!({"enabled": false})).await;
        assert_eq!(app.get(&path).send().await.status, 404);
        assert_eq!(fill_in(&app, &path, "ada@example.com").await.status, 404);
        assert_eq!(app.count("emails").await, 0);
    }

    async fn who_confirms_is_subscribed_and_nobody_before(app: TestApp) {
        let key = app.full_key().await;
        let segment = app.post("/segments").key(&key).json(json!({"name": "S"})).send().await.json()["id"].clone();
        let news = topic(&app, &key, "News", "opt_out").await;
        let (_, path) = form(&app, &key, json!({"segment_id": segment, "topics": [news]})).await;
        let page = app.get(&path).send().await;
        assert!(page.status == 200 && !page.text().contains("<script"), "{}", page.text());
        let taken = fill_in(&app, &path, "Ada@example.com").await;
        assert_eq!(taken.status, 200, "{}", taken.text());
        assert_eq!(app.count("contacts").await, 0);
        let links = asked(&app).await;
        assert_eq!(links.len(), 1);
        for _ in 0..20 {
            assert!(app.get(&links[0]).send().await.text().contains("Yes, subscribe me"));
        }
        assert_eq!(app.count("contacts").await, 0, "a look subscribes nobody");
        for _ in 0..2 {
            let confirmed = app.post(&links[0]).body(FORM, "").send().await;
            assert!(confirmed.status == 200 && confirmed.text().contains("You are subscribed"), "{}", confirmed.text());
        }
        let contact = read(&app, &key, "ada@example.com").await;
        assert_eq!((&contact["email"], &contact["unsubscribed"]), (&json!("Ada@example.com"), &json!(false)));
        let id = contact["id"].as_str().expect("an id");
        assert_eq!(chosen(&app, &key, id).await, [(news, "opt_in".to_owned())]);
        assert_eq!(app.count("segment_members").await, 1);
        let told = app.get("/events/svc:contact.created/occurrences").key(&key).send().await.json();
        assert_eq!(told["data"].as_array().map(Vec::len), Some(1), "{told}");
    }

    async fn an_unsubscribed_contact_takes_part_again_and_is_led_on(app: TestApp) {
        let key = app.full_key().await;
        let (_, path) = form(&app, &key, json!({"redirect_url": "https://b.example/welcome"})).await;
        let id = add(&app, &key, json!({"email": "ada@example.com", "first_name": "Ada", "unsubscribed": true})).await;
        fill_in(&app, &path, "ada@example.com").await;
        assert_eq!(read(&app, &key, &id).await["unsubscribed"], true);
        let link = asked(&app).await.remove(0);
        let confirmed = app.post(&link).body(FORM, "").send().await;
        assert_eq!((confirmed.status, confirmed.location()), (303, "https://b.example/welcome"));
        let contact = read(&app, &key, &id).await;
        assert_eq!((&contact["unsubscribed"], &contact["first_name"]), (&json!(false), &json!("Ada")));
        app.patch(format!("/contacts/{id}")).key(&key).json(json!({"unsubscribed": true})).send().await;
        assert_eq!(app.post(&link).body(FORM, "").send().await.status, 303);
        assert_eq!(read(&app, &key, &id).await["unsubscribed"], true, "an old link subscribes nobody again");
    }

    async fn known_and_unknown_addresses_are_answered_alike_and_asked_once_an_hour(app: TestApp) {
        let key = app.full_key().await;
        let (_, path) = form(&app, &key, json!({})).await;
        let (_, second) = form(&app, &key, json!({})).await;
        add(&app, &key, json!({"email": "known@example.com"})).await;
        let answers = [fill_in(&app, &path, "known@example.com").await, fill_in(&app, &path, "new@example.com").await,
            fill_in(&app, &path, "NEW@example.com").await, fill_in(&app, &second, "new@example.com").await];
        assert!(answers.iter().all(|answer| answer.status == 200 && answer.text() == answers[0].text()));
        assert_eq!(asked(&app).await.len(), 2);
        app.clock.advance(HOUR);
        fill_in(&app, &path, "new@example.com").await;
        assert_eq!(asked(&app).await.len(), 3);
        let trap = app.post(&path).body(FORM, "email=bot@example.com&website=spam").send().await;
        assert_eq!((trap.status, trap.text()), (200, answers[0].text()));
        assert_eq!(asked(&app).await.len(), 3);
        let wrong = fill_in(&app, &path, "%3Cscript%3E").await;
        assert!(wrong.status == 422 && wrong.text().contains("&#60;script"), "{}", wrong.text());
    }

    async fn a_link_to_confirm_ends_after_a_week_and_is_nobodys_to_make(app: TestApp) {
        let key = app.full_key().await;
        let (id, path) = form(&app, &key, json!({})).await;
        fill_in(&app, &path, "ada@example.com").await;
        let link = asked(&app).await.remove(0);
        for bad in [&link[..link.len() - 1], &format!("{link}A"), &link.replacen('A', "B", 1).to_lowercase(),
            "/subscribe/confirm/x", "/subscribe/confirm/%00"] {
            assert_eq!(app.post(bad).body(FORM, "").send().await.status, 404, "{bad}");
        }
        app.clock.advance(7 * DAY);
        assert_eq!(app.get(&link).send().await.status, 404);
        assert_eq!(app.post(&link).body(FORM, "").send().await.status, 404);
        app.clock.advance(HOUR);
        posthorn::forms::sweep(&app.app).await.expect("swept");
        assert_eq!((app.count("contacts").await, app.count("form_signups").await), (0, 0));
        fill_in(&app, &path, "ada@example.com").await;
        let link = asked(&app).await.remove(0);
        app.delete(format!("/forms/{id}")).key(&key).send().await;
        assert_eq!(app.post(&link).body(FORM, "").send().await.status, 404);
    }

    async fn an_address_sends_only_so_many_forms(store: Store) {
        let app = TestApp::open(&store, &["--limit-loopback"]).await;
        let key = app.full_key().await;
        let (_, path) = form(&app, &key, json!({})).await;
        for number in 0..20 {
            assert_eq!(fill_in(&app, &path, &format!("{number}@example.com")).await.status, 200);
        }
        let refused = fill_in(&app, &path, "more@example.com").await;
        assert!(refused.status == 429 && refused.header("retry-after").is_some(), "{}", refused.text());
        assert_eq!(app.count("emails").await, 20);
    }
}
