//! Mail about a topic carries the link that ends it, and templates can name that link.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthorn::clock::HOUR;
use posthorn::id::EmailId;
use posthorn::subscriptions::{Links, Subscriber};
use serde_json::{Value, json};

use crate::broadcasts::field;
use crate::contacts::add;
use crate::delivery::Post;
use crate::emails::{post, shown};
use crate::harness::{TestApp, on_both};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::templates::published;
use crate::topics::topic;

/// The link of a contact in a mail, of which it is the recipient with this number.
async fn url(app: &TestApp, contact: &str, topic: Option<&str>, (id, number): (&str, i64)) -> String {
    let links = Links::of(&app.app).await.expect("links");
    let mail: EmailId = id.parse().expect("an id");
    links.unsubscribe_url(&Subscriber {
        workspace_id: app.workspace().await,
        contact_id: contact.parse().expect("an id"),
        topic_id: topic.map(|id| id.parse().expect("an id")),
        mail: Some((mail, number)),
    })
}

fn mail(to: Value, topic: Option<&str>) -> Value {
    json!({"from": "a@sender.example", "to": to, "subject": "x", "text": "x", "topic_id": topic})
}

on_both! {
    async fn mail_about_a_topic_carries_the_link_of_each_of_its_recipients(store: Store) {
        let sink = Sink::open().await;
        let Post { app, engine } = Post::relaying(&store, &sink).await;
        let key = app.full_key().await;
        let news = topic(&app, &key, "News", "opt_in").await;
        let ada = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let bob = add(&app, &key, json!({"email": "bob@example.com"})).await;
        let all = mail(json!(["ada@example.com", "bob@example.com", "nobody@example.com"]), Some(&news));
        let sent = post(&app, &key, all).await.json();
        let id = sent["id"].as_str().expect("an id");
        assert_eq!(post(&app, &key, mail(json!("ada+plain@example.com"), None)).await.status, 200);
        let mut own = mail(json!("ada@example.com"), Some(&news));
        own["headers"] = json!({"list-unsubscribe": "<mailto:stop@sender.example>"});
        own["subject"] = json!("own");
        assert_eq!(app.post("/emails").key(&key).json(own).send().await.status, 200);
        while engine.round().await.expect("a round") > 0 {}
        let kept = sink.kept();
        assert_eq!(kept.len(), 5);
        for taken in kept {
            let (link, one_click) = (field(&taken.text, "List-Unsubscribe"), field(&taken.text, "List-Unsubscribe-Post"));
            let expected = match (taken.to.as_str(), field(&taken.text, "Subject").as_deref()) {
                ("ada@example.com", Some("own")) => {
                    assert_eq!((link.as_deref(), one_click), (Some("<mailto:stop@sender.example>"), None));
                    continue;
                }
                ("ada@example.com", _) => Some(url(&app, &ada, Some(&news), (id, 0)).await),
                ("bob@example.com", _) => Some(url(&app, &bob, Some(&news), (id, 1)).await),
                _ => None,
            };
            assert_eq!(link, expected.as_ref().map(|url| format!("<{url}>")), "{}", taken.to);
            assert_eq!(one_click.as_deref(), expected.map(|_| "List-Unsubscribe=One-Click"), "{}", taken.to);
        }
        let rows = store.rows("SELECT COUNT(*) FROM emails WHERE topic_id IS NOT NULL").await;
        assert_eq!(rows[0][0].as_deref(), Some("2"));
    }

    async fn every_attempt_has_the_same_link_whoever_becomes_or_is_no_contact_meanwhile(store: Store) {
        let ends = Arc::new(AtomicUsize::new(0));
        let count = ends.clone();
        // The first two get the end of their message and no answer.
        let sink = Sink::scripted(move |command| match command == "." && count.fetch_add(1, Ordering::SeqCst) < 2 {
            true => Does::HangsUp,
            false => Does::Usual,
        }).await;
        let post = Post::relaying(&store, &sink).await;
        let (app, key) = (&post.app, post.app.full_key().await);
        let news = topic(app, &key, "News", "opt_in").await;
        add(app, &key, json!({"email": "ada@example.com"})).await;
        for to in ["ada@example.com", "new@example.com"] {
            assert_eq!(app.post("/emails").key(&key).json(mail(json!(to), Some(&news))).send().await.status, 200);
        }
        while post.round().await > 0 {}
        add(app, &key, json!({"email": "new@example.com"})).await;
        app.delete("/contacts/ada@example.com").key(&key).send().await;
        app.clock.advance(HOUR);
        while post.round().await > 0 {}
        let kept = sink.kept();
        for to in ["ada@example.com", "new@example.com"] {
            let texts: Vec<&str> = kept.iter().filter(|taken| taken.to == to).map(|taken| taken.text.as_str()).collect();
            assert_eq!(texts.len(), 2, "{to}: {kept:?}");
            assert_eq!(texts[0], texts[1], "{to}");
            assert_eq!(field(texts[0], "List-Unsubscribe").is_some(), to == "ada@example.com");
        }
        assert_eq!(store.count("email_values").await, 0, "what is over is not kept");
    }

    async fn a_template_names_the_link_of_the_one_contact_it_goes_to(app: TestApp) {
        let key = app.full_key().await;
        let news = topic(&app, &key, "News", "opt_in").await;
        let ada = add(&app, &key, json!({"email": "ada@example.com"})).await;
        let template = json!({"name": "T", "alias": "t", "from": "a@b.example", "subject": "S",
            "html": "{{{UNSUBSCRIBE_URL}}} {{{RESEND_UNSUBSCRIBE_URL}}}"});
        published(&app, &key, template).await;
        let fields = |to: Value, more: Value| {
            let mut body = json!({"to": to, "template": {"id": "t"}});
            body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            body
        };
        for (to, topic_id) in [(json!("Ada <ADA@example.com>"), Some(&news)), (json!(["ada@example.com"]), None)] {
            let sent = post(&app, &key, fields(to, json!({"topic_id": topic_id}))).await;
            assert_eq!(sent.status, 200, "{}", sent.text());
            let sent = sent.json();
            let id = sent["id"].as_str().expect("an id");
            let html = shown(&app, &key, id).await["html"].clone();
            let link = url(&app, &ada, topic_id.map(String::as_str), (id, 0)).await;
            assert_eq!(html, format!("{link} {link}"));
        }
        for (to, more) in [
            (json!("stranger@example.com"), json!({})),
            (json!(["ada@example.com", "bob@example.com"]), json!({})),
            (json!("ada@example.com"), json!({"bcc": "bob@example.com"})),
        ] {
            let refused = post(&app, &key, fields(to, more)).await;
            assert!(refused.refused(422, "validation_error").contains("UNSUBSCRIBE_URL"), "{}", refused.text());
        }
        let given = post(&app, &key, json!({"to": "stranger@example.com", "template": {"id": "t", "variables":
            {"UNSUBSCRIBE_URL": "https://a.example", "RESEND_UNSUBSCRIBE_URL": "https://b.example"}}})).await;
        assert_eq!(given.status, 200, "{}", given.text());
    }

    async fn the_mail_of_a_step_names_the_link_of_its_contact(app: TestApp) {
        let stage = Stage::new(app).await;
        let template = json!({"name": "T", "alias": "t", "from": "a@b.example", "subject": "S", "html": "{{{UNSUBSCRIBE_URL}}}"});
        published(&stage.app, &stage.key, template).await;
        stage.automation(&[Stage::trigger(), ("send_email", json!({"template": {"id": "t"}}))]).await;
        let ada = add(&stage.app, &stage.key, json!({"email": "ada@example.com"})).await;
        stage.send("user.created", "ada@example.com", json!({})).await;
        stage.work().await;
        let id = stage.get("/emails").await["data"][0]["id"].as_str().expect("a mail").to_owned();
        let html = shown(&stage.app, &stage.key, &id).await["html"].clone();
        assert_eq!(html, url(&stage.app, &ada, None, (&id, 0)).await);
    }

    async fn a_check_of_a_graph_looks_at_the_templates_that_its_steps_name(app: TestApp) {
        let stage = Stage::new(app).await;
        let check = async |variables: Value| {
            let steps = json!([{"key": "t", "type": "trigger", "config": {"event_name": "user.created"}},
                {"key": "s", "type": "send_email", "config": {"template": {"id": "order", "variables": variables}}}]);
            let body = json!({"name": "A", "steps": steps, "connections": [{"from": "t", "to": "s"}]});
            let check = stage.post("/automations/validate", body.clone()).await.json();
            let mut enabled = body;
            enabled["status"] = json!("enabled");
            let made = stage.post("/automations", enabled).await;
            let findings = check["findings"].as_array().expect("findings").clone();
            assert_eq!(made.status, if findings.is_empty() { 201 } else { 422 }, "{}", made.text());
            findings.first().map_or_else(String::new, |one| {
                assert_eq!(one["step"], "s");
                one["message"].as_str().expect("words").to_owned()
            })
        };
        assert!(check(json!({})).await.contains("there is no template `order`"));
        crate::templates::make(&stage.app, &stage.key, crate::templates::order()).await;
        assert!(check(json!({})).await.contains("is a draft"));
        crate::templates::publish(&stage.app, &stage.key, "order", json!({})).await;
        assert!(check(json!({})).await.contains("needs a value for `ORDER_ID`"));
        assert!(check(json!({"ORDER_ID": 5})).await.contains("`template.variables.ORDER_ID` must be a string"));
        assert_eq!(check(json!({"ORDER_ID": "A-1"})).await, "");
        assert_eq!(check(json!({"ORDER_ID": {"var": "event.id"}, "COUNT": 2})).await, "");
    }
}
