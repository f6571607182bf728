//! What a workspace shows to strangers and what it has, in the dashboard.

use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::emails::{mail_with, sent};
use crate::form_filling::{Filled, leads_to};
use crate::harness::{BASE, TestApp, on_both};

on_both! {
    async fn issue_15_a_person_makes_changes_and_deletes_a_form(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let topic = json!({"name": "News", "default_subscription": "opt_in"});
        let topic = app.post("/topics").key(&key).json(topic).send().await.json()["id"].as_str().expect("an id").to_owned();
        let segment = app.post("/segments").key(&key).json(json!({"name": "Readers"})).send().await;
        let segment = segment.json()["id"].as_str().expect("an id").to_owned();
        assert!(page(&app, &cookie, "/forms").await.contains("No forms yet."));
        let blank = || async { Filled::of(&page(&app, &cookie, "/forms/new").await, "/forms/new").with("name", "Footer") };
        let wrong = blank().await.with("from", "nobody").with("heading", "Hear from us").send(&app, &cookie).await;
        assert_eq!(wrong.status, 422, "{}", wrong.text());
        let again = Filled::of(&wrong.text(), "/forms/new");
        assert_eq!((again.value("from"), again.value("heading")), ("nobody", "Hear from us"), "what was typed stays");
        assert!(wrong.text().contains("id=\"f-from-error\""), "{}", wrong.text());
        let made = again.with("from", "Ada <hello@shop.example>").with("segment_id", &segment).and("topics", &topic);
        let path = leads_to(&made.send(&app, &cookie).await);
        let path = path.strip_suffix("?created").expect("a new form");
        let stored = app.get("/forms").key(&key).send().await.json()["data"][0].clone();
        let kept = (&stored["name"], &stored["from"], &stored["heading"], &stored["segment_id"], &stored["topics"]);
        let (name, from) = (json!("Footer"), json!("Ada <hello@shop.example>"));
        assert_eq!(kept, (&name, &from, &json!("Hear from us"), &json!(segment), &json!([topic])));
        assert_eq!((&stored["enabled"], &stored["text"]), (&json!(false), &json!(null)));
        let shown = page(&app, &cookie, path).await;
        assert!(shown.contains(stored["url"].as_str().expect("a page")) && shown.contains("For a page of your own"));
        let change = Filled::of(&shown, path).with("heading", "").and("enabled", "on");
        assert_eq!(leads_to(&change.send(&app, &cookie).await), format!("{path}?saved"));
        let stored = app.get(path).key(&key).send().await.json();
        assert_eq!((&stored["heading"], &stored["enabled"], &stored["segment_id"]), (&json!(null), &json!(true), &json!(segment)));
        let ask = page(&app, &cookie, &format!("{path}/delete")).await;
        let deleted = Filled::of(&ask, "/delete").send(&app, &cookie).await;
        assert_eq!(leads_to(&deleted), "/forms?deleted");
        app.get(path).key(&key).send().await.refused(404, "not_found");
    }

    async fn issue_15_a_person_says_how_pages_for_strangers_look(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let form = Filled::of(&page(&app, &cookie, "/branding").await, "/branding");
        let wrong = form.with("name", "Ada's Engines").with("color", "blue").send(&app, &cookie).await;
        assert_eq!(wrong.status, 422, "{}", wrong.text());
        assert!(wrong.text().contains("id=\"f-color-error\""), "{}", wrong.text());
        let form = Filled::of(&wrong.text(), "/branding").with("color", "#1b2440");
        assert_eq!(leads_to(&form.send(&app, &cookie).await), "/branding?saved");
        let stored = app.get("/workspace/branding").key(&key).send().await.json();
        assert_eq!((&stored["name"], &stored["color"]), (&json!("Ada's Engines"), &json!("#1b2440")));
        let form = Filled::of(&page(&app, &cookie, "/branding").await, "/branding").with("color", "");
        leads_to(&form.send(&app, &cookie).await);
        assert_eq!(app.get("/workspace/branding").key(&key).send().await.json()["color"], json!(null));
    }

    async fn issue_15_a_person_sees_what_the_workspace_uses(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        for name in ["a", "b", "c"] {
            app.post("/contacts").key(&key).json(json!({"email": format!("{name}@example.com")})).send().await;
        }
        let usage = page(&app, &cookie, "/usage").await;
        assert!(usage.contains("Contacts</a></dt><dd>3</dd>"), "{usage}");
        assert!(usage.contains("This month") && page(&app, &cookie, "/settings").await.contains("/usage\""));
    }

    async fn issue_15_a_person_makes_a_link_that_shows_a_mail_to_anybody(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let id = sent(&app, &key, mail_with(json!({"html": "<p>Only for friends</p>"}))).await;
        let shown = page(&app, &cookie, &format!("/emails/{id}")).await;
        let shared = Filled::of(&shown, "/share").send(&app, &cookie).await;
        assert_eq!(shared.status, 200, "{}", shared.text());
        let text = shared.text();
        let link = text.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next()).expect("a link");
        let path = link.strip_prefix(BASE).unwrap_or_else(|| panic!("not ours: {link}"));
        let read = app.get(path).send().await;
        assert!(read.status == 200 && read.text().contains("Only for friends"), "{}", read.text());
    }
}
