//! Exporting and erasing one person.

use posthorn::contacts;
use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::graphs::{automation, delay};
use crate::harness::{TestApp, on_both};
use crate::people_pages::{contact, submit};

/// Ada, with an event, a run that it began and two mails; and Bob, who has one of the mails, too.
pub async fn known(app: &TestApp, key: &str) -> (String, String, String) {
    let id = contact(app, key, json!({"email": "Ada@example.com", "first_name": "Ada", "properties": {"plan": "pro"}}))
        .await;
    contact(app, key, json!({"email": "bob@example.com"})).await;
    let start = json!({"key": "start", "type": "trigger", "config": {"event_name": "order.paid"}});
    let (steps, connections) = (json!([start, delay("wait")]), json!([{"from": "start", "to": "wait"}]));
    let fields = json!({"name": "A", "status": "enabled", "steps": steps, "connections": connections});
    automation(app, key, fields).await;
    for (event, email) in [("order.paid", "ada@example.com"), ("order.lost", "bob@example.com")] {
        let body = json!({"event": event, "email": email, "payload": {"iban": "secret"}});
        assert_eq!(app.post("/events/send").key(key).json(body).send().await.status, 202);
    }
    let mut mails = Vec::new();
    for to in [json!(["Ada <ada@example.com>"]), json!(["ada@example.com", "bob@example.com"])] {
        let body = json!({"from": "shop@example.com", "to": to, "subject": "Private", "text": "Body for Ada"});
        let mail = app.post("/emails").key(key).json(body).send().await;
        assert_eq!(mail.status, 200, "{}", mail.text());
        mails.push(mail.json()["id"].as_str().expect("an id").to_owned());
    }
    (id, mails[0].clone(), mails[1].clone())
}

async fn finish(app: &TestApp) {
    while contacts::erasure_round(app.app.occurrences()).await.expect("a round") {}
}

on_both! {
    async fn an_export_holds_all_that_is_kept_of_a_person_and_of_nobody_else(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let (id, alone, shared) = known(&app, &key).await;
        let export = app.get(format!("/contacts/{id}/export")).key(&key).send().await;
        assert_eq!(export.status, 200, "{}", export.text());
        let all = export.json();
        assert_eq!((&all["contact"]["email"], &all["contact"]["properties"]["plan"]), (&json!("Ada@example.com"), &json!("pro")));
        let names: Vec<&str> = all["events"].as_array().expect("events").iter().filter_map(|one| one["event"].as_str()).collect();
        assert!(names.contains(&"order.paid") && !names.contains(&"order.lost"), "{names:?}");
        let mails: Vec<&str> = all["emails"].as_array().expect("mails").iter().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(mails, [alone.as_str(), shared.as_str()]);
        assert_eq!(all["emails"][0]["text"], "Body for Ada");
        let runs = all["runs"].as_array().expect("runs");
        assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("running")), "{runs:?}");
        let by_address = app.get("/contacts/ADA@example.com/export").key(&key).send().await;
        assert_eq!(by_address.status, 200);
        let shown = app.get(format!("/dashboard/contacts/{id}/export")).header("cookie", &cookie).send().await;
        assert_eq!(shown.json()["contact"], all["contact"]);
    }

    async fn nothing_that_names_the_person_is_left(app: TestApp) {
        let key = app.full_key().await;
        let (id, alone, shared) = known(&app, &key).await;
        let begun = app.post(format!("/contacts/{id}/erase")).key(&key).json(json!({})).send().await;
        assert_eq!((begun.status, &begun.json()["status"]), (202, &json!("in_progress")), "{}", begun.text());
        app.get(format!("/contacts/{id}")).key(&key).send().await.refused(404, "not_found");
        finish(&app).await;
        assert_eq!(app.count("runs").await, 0);
        let ended = app.get(format!("/contact-erasures/{id}")).key(&key).send().await.json();
        assert_eq!(ended["status"], "completed");
        for (table, columns) in [
            ("contacts", "email || email_key || properties"),
            ("occurrences", "payload"),
            ("emails", "subject || envelope || COALESCE(html, '')"),
            ("email_recipients", "address || COALESCE(reason, '')"),
            ("email_events", "detail"),
            ("suppressions", "email"),
            ("erasures", "COALESCE(email_key, '')"),
        ] {
            let left = app.count(&format!("{table} WHERE LOWER({columns}) LIKE '%ada@%'")).await;
            assert_eq!(left, 0, "{table}");
        }
        assert_eq!(app.count("occurrences WHERE payload LIKE '%secret%'").await, 1, "Bob's stays");
        let mail = app.get(format!("/emails/{alone}")).key(&key).send().await.json();
        assert_eq!((&mail["subject"], &mail["last_event"]), (&json!("(erased)"), &json!("canceled")));
        let other = app.get(format!("/emails/{shared}")).key(&key).send().await.json();
        assert_eq!((&other["subject"], &other["to"][1]), (&json!("Private"), &json!("bob@example.com")));
        assert_eq!(app.get("/contacts/bob@example.com").key(&key).send().await.status, 200);
    }

    async fn who_has_unsubscribed_stays_out_and_others_only_if_told(app: TestApp) {
        let key = app.full_key().await;
        for (email, unsubscribed, fields, stays) in [
            ("a@example.com", true, json!({}), true),
            ("b@example.com", true, json!({"suppress": false}), false),
            ("c@example.com", false, json!({}), false),
            ("d@example.com", false, json!({"suppress": true}), true),
        ] {
            let id = contact(&app, &key, json!({"email": email, "unsubscribed": unsubscribed})).await;
            assert_eq!(app.post(format!("/contacts/{id}/erase")).key(&key).json(fields).send().await.status, 202);
            finish(&app).await;
            let found = app.get(format!("/suppressions/{email}")).key(&key).send().await;
            assert_eq!(found.status == 200, stays, "{email}: {}", found.text());
        }
    }

    async fn a_page_asks_before_it_erases(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let theirs = app.second_workspace_key().await;
        let (id, ..) = known(&app, &key).await;
        let ask = page(&app, &cookie, &format!("/contacts/{id}/erase")).await;
        assert!(ask.contains("Erase this person?") && ask.contains("Ada@example.com"));
        let done = submit(&app, &cookie, &ask, "/erase", &[("suppress", "yes")]).await;
        let state = format!("/erasures/{id}");
        assert_eq!(done.location(), format!("/dashboard{state}"));
        app.assert_told(&["contact.erased"]).await;
        assert!(page(&app, &cookie, &state).await.contains("being erased"));
        finish(&app).await;
        assert!(page(&app, &cookie, &state).await.contains("This person is erased"));
        assert_eq!(app.count("suppressions WHERE email = 'ada@example.com'").await, 1);
        app.get(format!("/contact-erasures/{id}")).key(&theirs).send().await.refused(404, "not_found");
        let other = contact(&app, &theirs, json!({"email": "x@example.com"})).await;
        app.post(format!("/contacts/{other}/erase")).key(&key).json(json!({})).send().await.refused(404, "not_found");
    }
}
