//! The audit log: whatever a person changes by a form of the dashboard stands in it.

use crate::automation_pages::{owner, page};
use crate::form_filling::Filled;
use crate::harness::{TestApp, on_both};

/// What a form is filled with.
type Fields = &'static [(&'static str, &'static str)];

/// The page with a form, where it is sent, what is typed, and what of it the log names.
const MADE: &[(&str, &str, Fields, &str)] = &[
    ("/segments", "/segments", &[("name", "Readers")], "Readers"),
    ("/topics", "/topics", &[("name", "News")], "News"),
    ("/contacts/new", "/contacts", &[("email", "ada@example.com")], ""),
    ("/properties", "/properties", &[("key", "plan")], ""),
    ("/events/new", "/events/new", &[("name", "order.paid")], "order.paid"),
    ("/templates/new", "/templates/new", &[("name", "Thanks"), ("html", "<p>Hi</p>")], "Thanks"),
    ("/webhooks/new", "/webhooks/new", &[("endpoint", "https://example.com/"), ("event", "email.sent")], ""),
    ("/domains", "/domains", &[("name", "acme.example")], "acme.example"),
    ("/keys", "/keys", &[("name", "web shop")], "web shop"),
    ("/forms/new", "/forms/new", &[("name", "Footer"), ("from", "a@acme.example")], "Footer"),
    ("/emails/new", "/emails/new", &[("from", "a@acme.example"), ("subject", "Hello"), ("text", "Hi")], "Hello"),
    ("/branding", "/branding", &[("name", "Ada & Co")], "Ada & Co"),
    ("/settings", "/settings", &[("name", "Post office")], "Post office"),
    ("/team", "/team", &[("email", "new@example.com")], ""),
];

/// Lists whose first row can be deleted.
const DELETED: &[&str] =
    &["/segments", "/topics", "/contacts", "/events", "/templates", "/webhooks", "/forms", "/keys", "/domains"];

on_both! {
    async fn t37_every_change_by_a_form_is_in_the_audit_log(app: TestApp) {
        let cookie = owner(&app).await;
        for (at, action, typed, named) in MADE {
            let before = app.count("audit_log").await;
            let mut form = Filled::of(&page(&app, &cookie, at).await, action);
            for (name, value) in *typed {
                form = form.with(name, value);
            }
            let answer = form.send(&app, &cookie).await;
            assert!([200, 303].contains(&answer.status), "{action}: {}", answer.text());
            assert_eq!(app.count("audit_log").await, before + 1, "{action} is told once");
            let row = app.store.rows("SELECT target, actor, address, via FROM audit_log ORDER BY id DESC LIMIT 1").await;
            let told: Vec<&str> = row[0].iter().map(|field| field.as_deref().unwrap_or_default()).collect();
            assert!(told[0].contains(named), "{action} is told of {told:?}");
            assert_eq!(told[1..], ["owner@example.com", "127.0.0.1", "session"], "{action}");
        }
        for list in DELETED {
            let shown = page(&app, &cookie, list).await;
            let links = shown.split("href=\"/dashboard").filter_map(|rest| rest.split('"').next());
            let is_one = |path: &str| path.split('/').any(|part| part.len() == 36);
            let one = links.filter_map(|path| path.split_once(list)).map(|(_, rest)| rest).find(|rest| is_one(rest));
            let one = one.unwrap_or_else(|| panic!("nothing to delete on {list}: {shown}"));
            let id = one.split('/').find(|part| part.len() == 36).expect("an id");
            let before = app.count("audit_log").await;
            let ask = page(&app, &cookie, &format!("{list}/{id}/delete")).await;
            let answer = Filled::of(&ask, "/delete").send(&app, &cookie).await;
            assert_eq!(answer.status, 303, "{list}: {}", answer.text());
            assert_eq!(app.count("audit_log").await, before + 1, "a deletion from {list} is told once");
        }
        let shown = page(&app, &cookie, "/audit").await;
        for word in ["domain.deleted", "acme.example", "owner@example.com", "127.0.0.1"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
}
