//! Forms that are sent twice, by a double click or because no answer came: each does what it does once.

use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::form_filling::{Filled, leads_to};
use crate::graphs::{automation, delay, link, trigger};
use crate::harness::{TestApp, on_both};

/// Sends a form twice at once and once more later, and tells where all of them lead.
async fn send_thrice(app: &TestApp, cookie: &str, form: &Filled) -> String {
    let (one, other) = tokio::join!(form.send(app, cookie), form.send(app, cookie));
    let place = leads_to(&one);
    assert_eq!(leads_to(&other), place);
    assert_eq!(leads_to(&form.send(app, cookie).await), place);
    place
}

on_both! {
    async fn a_segment_a_topic_and_a_form_are_made_once(app: TestApp) {
        let cookie = owner(&app).await;
        for (path, table) in [("/segments", "segments"), ("/topics", "topics"), ("/forms/new", "forms")] {
            let form = Filled::of(&page(&app, &cookie, path).await, path).with("name", "One").with("from", "hello@shop.example");
            let place = send_thrice(&app, &cookie, &form).await;
            assert!(place.ends_with("?created"), "{place}");
            assert_eq!(app.count(table).await, 1, "{path}");
            assert!(page(&app, &cookie, &place).await.contains("One"));
        }
        let rule = json!({"type": "rule", "field": "contact.email", "operator": "contains", "value": "bob"}).to_string();
        let form = Filled::of(&page(&app, &cookie, "/segments/new").await, "/segments/new").with("name", "Bobs");
        send_thrice(&app, &cookie, &form.with("mode", "json").with("json", &rule).and("act", "save")).await;
        assert_eq!(app.count("segments").await, 2);
    }

    async fn an_event_happens_once_for_each_form(app: TestApp) {
        let key = app.full_key().await;
        let event = app.event(&key, json!({"name": "user.created"})).await;
        let body = json!({"name": "Welcome", "status": "enabled", "steps": [trigger(), delay("wait")],
            "connections": [link("start", "wait")]});
        automation(&app, &key, body).await;
        let cookie = owner(&app).await;
        let form = Filled::of(&page(&app, &cookie, &format!("/events/{event}/test")).await, "/test");
        let run = send_thrice(&app, &cookie, &form).await;
        assert!(run.contains("/runs/"), "{run}");
        assert_eq!((app.count("occurrences").await, app.count("runs").await), (1, 1));
        let one = page(&app, &cookie, &format!("/events/{event}")).await;
        let occurrence = one.split("/occurrences/").nth(1).and_then(|rest| rest.split('"').next()).expect("an occurrence");
        let form = Filled::of(&page(&app, &cookie, &format!("/occurrences/{occurrence}")).await, "/replay");
        let again = send_thrice(&app, &cookie, &form).await;
        assert!(again.ends_with("?again") && !again.contains(occurrence), "{again}");
        assert_eq!((app.count("occurrences").await, app.count("runs").await), (2, 2));
        let form = Filled::of(&page(&app, &cookie, "/events/send?name=order.placed").await, "/events/send");
        send_thrice(&app, &cookie, &form).await;
        assert_eq!((app.count("occurrences").await, app.count("runs").await), (3, 2));
        app.assert_told(&["workspace.renamed", "event.sent", "occurrence.replayed", "event.sent"]).await;
    }

    async fn somebody_is_invited_once_and_the_link_that_was_shown_stays_good(app: TestApp) {
        let cookie = owner(&app).await;
        let form = Filled::of(&page(&app, &cookie, "/team").await, "/team").with("email", "new@example.com");
        let invited = form.send(&app, &cookie).await;
        assert!(invited.status == 200 && invited.text().contains("/dashboard/invitation/"), "{}", invited.text());
        let text = invited.text();
        let token = text.split("/dashboard/invitation/").nth(1).expect("a link");
        let token: String = token.chars().take_while(|char| char.is_ascii_alphanumeric() || "-_".contains(*char)).collect();
        let again = leads_to(&form.send(&app, &cookie).await);
        assert!(page(&app, &cookie, &again).await.contains("had been made already"), "{again}");
        assert_eq!(app.get(format!("/dashboard/invitation/{token}")).send().await.status, 200);
        let other = form.with("email", "other@example.com").send(&app, &cookie).await;
        assert!(other.status == 422 && other.text().contains("has invited somebody else already"), "{}", other.text());
        let other = Filled::of(&other.text(), "/team").send(&app, &cookie).await;
        assert_eq!((other.status, app.count("invitations").await), (200, 2), "{}", other.text());
    }
}
