//! Links with which people unsubscribe, the page behind them, and what is told of it.

use posthorn::contacts;
use posthorn::subscriptions::{Links, Subscriber};
use serde_json::{Value, json};

use crate::contacts::{add, read};
use crate::harness::{Answer, BASE, TestApp, on_both};
use crate::sending::Stage;
use crate::store::Store;
use crate::topics::{chosen, topic};

const FORM: &str = "application/x-www-form-urlencoded";
const ONE_CLICK: &str = "List-Unsubscribe=One-Click";

/// The path of a contact's link.
async fn link(app: &TestApp, contact: &str, topic: Option<&str>) -> String {
    let workspace = app.workspace().await;
    let links = Links::of(&app.app).await.expect("links");
    let (contact_id, topic_id) = (contact.parse().expect("an id"), topic.map(|id| id.parse().expect("an id")));
    let url = links.unsubscribe_url(&Subscriber { workspace_id: workspace, contact_id, topic_id, mail: None });
    url.strip_prefix(BASE).expect("an address of ours").to_owned()
}

async fn post(app: &TestApp, path: &str, body: &str) -> Answer {
    app.post(path).body(FORM, body.to_owned()).send().await
}

/// What was told of contacts that unsubscribed, newest first: how, and from what.
async fn told(app: &TestApp, key: &str) -> Vec<(String, Option<String>)> {
    let answer = app.get("/events/svc:contact.unsubscribed/occurrences").key(key).send().await;
    if answer.status == 404 {
        return Vec::new();
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = answer.json();
    let items = list["data"].as_array().expect("a list").iter();
    items.map(|one| (text(&one["payload"]["by"]).expect("a way"), text(&one["payload"]["topic_id"]))).collect()
}

async fn public_topic(app: &TestApp, key: &str, name: &str) -> String {
    let body = json!({"name": name, "default_subscription": "opt_in", "visibility": "public"});
    app.post("/topics").key(key).json(body).send().await.json()["id"].as_str().expect("an id").to_owned()
}

/// The fields of the form that takes back what was done, as a body.
fn undo(page: &str) -> String {
    let form = page.split("<form").find(|form| form.contains("value=\"undo\"")).expect("an undo");
    let fields = form.split("<input type=\"hidden\" name=\"").skip(1).map(|field| {
        let (name, rest) = field.split_once("\" value=\"").expect("a value");
        format!("{name}={}", rest.split('"').next().expect("an end"))
    });
    fields.fold("action=undo".to_owned(), |body, field| body + "&" + &field)
}

on_both! {
    async fn a_thousand_gets_change_nothing(app: TestApp) {
        let key = app.full_key().await;
        let news = public_topic(&app, &key, "News").await;
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let path = link(&app, &contact, Some(&news)).await;
        let before = (read(&app, &key, &contact).await, app.count("occurrences").await);
        for number in 0..1_000 {
            let answer = match number % 10 {
                8 => app.request("HEAD", &path).send().await,
                9 => app.request("OPTIONS", &path).send().await,
                _ => app.get(format!("{path}?List-Unsubscribe=One-Click&action=unsubscribe_all")).send().await,
            };
            assert_eq!(answer.status, if number % 10 == 9 { 405 } else { 200 });
        }
        assert_eq!((read(&app, &key, &contact).await, app.count("occurrences").await), before);
        assert_eq!(chosen(&app, &key, &contact).await, [(news, "opt_in".to_owned())]);
        assert_eq!(app.count("topic_subscriptions").await, 0);
    }

    async fn a_page_has_no_script_is_kept_by_nobody_and_names_no_one(app: TestApp) {
        let key = app.full_key().await;
        let contact = add(&app, &key, json!({"email": "ada.lovelace@example.com"})).await;
        let path = link(&app, &contact, None).await;
        assert!(!path.contains("ada") && !path.contains('@'), "{path}");
        let page = app.get(&path).send().await;
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("set-cookie"), None);
        let text = page.text();
        assert!(!text.contains("<script") && !text.contains("lovelace") && text.contains("a•••@example.com"), "{text}");
    }

    async fn one_click_works_in_both_encodings_and_a_repeat_changes_nothing(app: TestApp) {
        let key = app.full_key().await;
        let multipart = format!("--edge\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\n{}\r\n\
            --edge--\r\n", "One-Click");
        for (number, (label, body)) in [(FORM, ONE_CLICK), ("multipart/form-data; boundary=edge", &*multipart)]
            .into_iter().enumerate()
        {
            let contact = add(&app, &key, json!({"email": format!("{number}@example.com")})).await;
            let path = link(&app, &contact, None).await;
            for _ in 0..3 {
                let answer = app.post(&path).body(label, body.to_owned()).send().await;
                assert_eq!((answer.status, answer.text().as_str()), (200, "You are unsubscribed.\n"));
                assert_eq!((answer.header("location"), answer.header("set-cookie")), (None, None));
            }
            assert_eq!(read(&app, &key, &contact).await["unsubscribed"], true);
            assert_eq!(told(&app, &key).await.len(), number + 1);
        }
        assert!(told(&app, &key).await.iter().all(|one| *one == ("one_click".to_owned(), None)));
    }

    async fn one_click_ends_the_topic_of_its_mail_and_leaves_the_rest(app: TestApp) {
        let key = app.full_key().await;
        let (news, offers) = (topic(&app, &key, "News", "opt_in").await, topic(&app, &key, "Offers", "opt_in").await);
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let path = link(&app, &contact, Some(&news)).await;
        for _ in 0..2 {
            assert_eq!(post(&app, &path, ONE_CLICK).await.status, 200);
        }
        let held = [(offers, "opt_in".to_owned()), (news.clone(), "opt_out".to_owned())];
        assert_eq!(chosen(&app, &key, &contact).await, held);
        assert_eq!(read(&app, &key, &contact).await["unsubscribed"], false);
        assert_eq!(told(&app, &key).await, [("one_click".to_owned(), Some(news.clone()))]);
        app.delete(format!("/topics/{news}")).key(&key).send().await;
        assert_eq!(post(&app, &path, ONE_CLICK).await.status, 200);
        assert_eq!(read(&app, &key, &contact).await["unsubscribed"], true, "nobody knows what it was about");
    }

    async fn forged_truncated_and_foreign_links_are_refused_alike(store: Store) {
        let app = TestApp::open(&store, &["--limit-loopback"]).await;
        let key = app.full_key().await;
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let gone = add(&app, &key, json!({"email": "gone@example.com"})).await;
        let (path, of_gone) = (link(&app, &contact, None).await, link(&app, &gone, None).await);
        app.delete(format!("/contacts/{gone}")).key(&key).send().await;
        let nobody = app.get("/unsubscribe/x").send().await;
        assert_eq!(nobody.status, 404);
        let (cut, longer) = (&path[..path.len() - 1], format!("{path}A"));
        let other = if path[30..].starts_with('A') { "Q" } else { "A" };
        let changed = format!("{}{other}{}", &path[..30], &path[31..]);
        for bad in [cut, &longer, &changed, &of_gone, "/unsubscribe/%00", "/unsubscribe/..", &path.to_uppercase()] {
            for answer in [app.get(bad).send().await, post(&app, bad, "action=unsubscribe").await] {
                assert_eq!(answer.status, 404, "{bad}");
                if bad.starts_with("/unsubscribe") {
                    assert_eq!(answer.text(), nobody.text(), "{bad}");
                }
            }
        }
        assert_eq!(post(&app, &of_gone, ONE_CLICK).await.status, 200, "nobody gets no mail either");
        assert_eq!(post(&app, cut, ONE_CLICK).await.status, 404);
        for body in ["", "List-Unsubscribe=Two-Click", "action=delete", "%ff"] {
            assert_eq!(post(&app, &path, body).await.status, 400, "{body}");
        }
        assert_eq!(read(&app, &key, &contact).await["unsubscribed"], false);
    }

    async fn who_tries_links_that_nobody_made_has_to_wait_and_nobody_else(store: Store) {
        let app = TestApp::open(&store, &["--limit-loopback"]).await;
        let key = app.full_key().await;
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let path = link(&app, &contact, None).await;
        let mut statuses = Vec::new();
        for _ in 0..70 {
            statuses.push(app.get("/unsubscribe/guess").from("2001:db8::1").send().await.status);
        }
        assert!(statuses[..60].iter().all(|status| *status == 404) && statuses[69] == 429, "{statuses:?}");
        let refused = app.get("/unsubscribe/guess").from("2001:db8::2").send().await;
        assert!(refused.status == 429 && refused.header("retry-after").is_some(), "a household counts as one");
        assert_eq!(app.get(&path).from("2001:db8::1").send().await.status, 200);
        assert_eq!(app.post(&path).body(FORM, ONE_CLICK).from("2001:db8::1").send().await.status, 200);
    }

    async fn the_page_lets_choose_unsubscribe_from_all_and_undo(app: TestApp) {
        let key = app.full_key().await;
        let (news, hidden) = (public_topic(&app, &key, "News").await, topic(&app, &key, "Hidden", "opt_in").await);
        let mine = topic(&app, &key, "Mine", "opt_out").await;
        let body = json!({"email": "ada@example.com", "topics": [{"id": mine, "subscription": "opt_in"}]});
        let contact = add(&app, &key, body).await;
        let path = link(&app, &contact, None).await;
        let page = app.get(&path).send().await.text();
        assert!(page.contains("News") && page.contains("Mine") && !page.contains("Hidden"), "{page}");
        let about = app.get(link(&app, &contact, Some(&hidden)).await).send().await.text();
        assert!(about.contains("Unsubscribe from <bdi>Hidden</bdi>"), "{about}");
        let held = async || {
            let mut all = chosen(&app, &key, &contact).await;
            all.retain(|(_, subscription)| subscription == "opt_in");
            all.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };

        let saved = post(&app, &path, &format!("action=save&shown={news}&shown={mine}&shown={hidden}&topic={mine}")).await;
        assert_eq!(saved.status, 200);
        assert!(saved.text().contains("Your choice is saved."), "{}", saved.text());
        assert_eq!(held().await, [mine.clone(), hidden.clone()]);
        assert_eq!(told(&app, &key).await, [("page".to_owned(), Some(news.clone()))]);
        let undone = post(&app, &path, &undo(&saved.text())).await.text();
        assert!(undone.contains("It is as it was before."), "{undone}");
        assert_eq!(held().await, [mine.clone(), hidden.clone(), news.clone()]);
        post(&app, &path, &undo(&undone)).await;
        assert_eq!(held().await, [mine, hidden], "an undo is undone");

        let ended = post(&app, &path, "action=unsubscribe_all").await.text();
        assert_eq!(read(&app, &key, &contact).await["unsubscribed"], true);
        assert!(ended.contains("You get no e-mail here.") && !ended.contains("News"), "{ended}");
        let again = post(&app, &path, "action=unsubscribe_all").await.text();
        assert!(!again.contains("value=\"undo\""), "there is nothing to take back: {again}");
        post(&app, &path, &undo(&ended)).await;
        assert_eq!(read(&app, &key, &contact).await["unsubscribed"], false);
        post(&app, &path, "action=unsubscribe").await;
        post(&app, &path, "action=subscribe").await;
        assert_eq!(read(&app, &key, &contact).await["unsubscribed"], false);
        let ways: Vec<_> = told(&app, &key).await.into_iter().map(|(by, topic)| (by, topic.is_some())).collect();
        let page = |about_topic| ("page".to_owned(), about_topic);
        assert_eq!(ways, [page(false), page(false), page(true), page(true)]);
    }

    async fn a_contact_changes_its_mind_only_so_often(store: Store) {
        let app = TestApp::open(&store, &[]).await;
        let key = app.full_key().await;
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let path = link(&app, &contact, None).await;
        for number in 0..60 {
            let action = if number % 2 == 0 { "unsubscribe_all" } else { "subscribe" };
            assert_eq!(post(&app, &path, &format!("action={action}")).await.status, 200);
        }
        assert_eq!(post(&app, &path, "action=unsubscribe_all").await.status, 429);
        app.clock.advance(900_000_000);
        assert_eq!(post(&app, &path, "action=unsubscribe_all").await.status, 200);
    }

    async fn unsubscribing_is_told_whoever_does_it_and_once(app: TestApp) {
        let stage = Stage::new(app).await;
        let (app, key) = (&stage.app, &stage.key);
        let news = topic(app, key, "News", "opt_in").await;
        let add_one = async |name: &str| add(app, key, json!({"email": format!("{name}@example.com")})).await;
        let by_api = add_one("api").await;
        for _ in 0..2 {
            app.patch(format!("/contacts/{by_api}")).key(key).json(json!({"unsubscribed": true})).send().await;
            let choices = json!([{"id": news, "subscription": "opt_out"}]);
            app.patch(format!("/contacts/{by_api}/topics")).key(key).json(choices).send().await;
        }
        let one = |by: &str, topic: Option<&str>| (by.to_owned(), topic.map(str::to_owned));
        assert_eq!(told(app, key).await, [one("api", Some(&news)), one("api", None)]);
        let mut expected = told(app, key).await;

        add_one("import").await;
        let file = "email,unsubscribed\nimport@example.com,true\nnew@example.com,true\n";
        let form = format!("--edge\r\nContent-Disposition: form-data; name=\"on_conflict\"\r\n\r\nupsert\r\n--edge\r\n\
            Content-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n{file}\r\n--edge--\r\n");
        for _ in 0..2 {
            let answer = app.post("/contacts/imports").key(key).body("multipart/form-data; boundary=edge", form.clone());
            assert_eq!(answer.send().await.status, 201);
            let mut last = uuid::Uuid::nil().into();
            while contacts::import_round(app.app.occurrences(), &mut last).await.expect("a round") {}
        }
        expected.insert(0, one("import", None));
        assert_eq!(told(app, key).await, expected);

        // Who has opted out already, and who is new, is told of nothing.
        let file = "email\nimport@example.com\napi@example.com\nnewer@example.com\n";
        let out = json!([{"id": news, "subscription": "opt_out"}]);
        let form = format!("--edge\r\nContent-Disposition: form-data; name=\"on_conflict\"\r\n\r\nupsert\r\n--edge\r\n\
            Content-Disposition: form-data; name=\"topics\"\r\n\r\n{out}\r\n--edge\r\n\
            Content-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n{file}\r\n--edge--\r\n");
        for _ in 0..2 {
            let answer = app.post("/contacts/imports").key(key).body("multipart/form-data; boundary=edge", form.clone());
            assert_eq!(answer.send().await.status, 201);
            let mut last = uuid::Uuid::nil().into();
            while contacts::import_round(app.app.occurrences(), &mut last).await.expect("a round") {}
        }
        expected.insert(0, one("import", Some(&news)));
        assert_eq!(told(app, key).await, expected);

        stage.automation(&[Stage::trigger(), ("contact_update", json!({"unsubscribed": true})),
            ("wait_for_event", json!({"event_name": "svc:contact.unsubscribed", "timeout": "1 hour"}))]).await;
        stage.send("user.created", "run@example.com", json!({})).await;
        stage.work().await;
        expected.insert(0, one("automation", None));
        assert_eq!(told(app, key).await, expected);
    }

    async fn unsubscribing_starts_an_automation(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[("trigger", json!({"event_name": "svc:contact.unsubscribed"})),
            ("contact_update", json!({"first_name": "Left"}))]).await;
        let contact = add(&stage.app, &stage.key, json!({"email": "ada@example.com"})).await;
        post(&stage.app, &link(&stage.app, &contact, None).await, ONE_CLICK).await;
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        assert_eq!(read(&stage.app, &stage.key, &contact).await["first_name"], "Left");
    }

    async fn a_page_is_in_the_name_and_colour_of_its_workspace(app: TestApp) {
        let (key, other) = (app.full_key().await, app.second_workspace_key().await);
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let path = link(&app, &contact, None).await;
        let usual = json!({"object": "branding", "name": "Default", "color": null});
        assert_eq!(app.get("/workspace/branding").key(&key).send().await.json(), usual);
        let given = json!({"name": "<b>Ada & Co", "color": "#FFEE00"});
        let set = app.patch("/workspace/branding").key(&key).json(given).send().await;
        let expected = json!({"object": "branding", "name": "<b>Ada & Co", "color": "#FFEE00"});
        assert_eq!((set.status, set.json()), (200, expected));
        let page = app.get(&path).send().await.text();
        assert!(!page.contains("<b>Ada") && page.contains("Ada &#38; Co"), "{page}");
        assert!(page.contains("href=\"/colors/ffee00.css\""), "{page}");
        let css = app.get("/colors/ffee00.css").send().await;
        assert_eq!((css.status, css.header("content-type")), (200, Some("text/css; charset=utf-8")));
        assert_eq!(app.get("/colors/ffee0g.css").send().await.status, 404);
        app.patch("/workspace/branding").key(&key).json(json!({"name": null})).send().await;
        let kept = json!({"object": "branding", "name": "Default", "color": "#FFEE00"});
        assert_eq!(app.get("/workspace/branding").key(&key).send().await.json(), kept);
        let theirs = app.get("/workspace/branding").key(&other).send().await.json();
        assert_eq!((&theirs["name"], &theirs["color"]), (&json!("Other"), &Value::Null));
        for wrong in [json!({"color": "red"}), json!({"name": " "}), json!({"name": "x".repeat(101)})] {
            app.patch("/workspace/branding").key(&key).json(wrong).send().await.refused(422, "validation_error");
        }
    }

    async fn choices_at_the_same_moment_are_all_kept_and_told(app: TestApp) {
        let key = app.full_key().await;
        let contact = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let mut topics = Vec::new();
        for number in 0..8 {
            topics.push(public_topic(&app, &key, &format!("Topic {number}")).await);
        }
        let mut paths = Vec::new();
        for topic in &topics {
            paths.push(link(&app, &contact, Some(topic)).await);
        }
        let answers = futures_util::future::join_all(paths.iter().map(|path| post(&app, path, ONE_CLICK))).await;
        assert!(answers.iter().all(|answer| answer.status == 200));
        assert!(chosen(&app, &key, &contact).await.iter().all(|(_, subscription)| subscription == "opt_out"));
        assert_eq!(told(&app, &key).await.len(), topics.len());
    }
}
