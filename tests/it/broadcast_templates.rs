//! Broadcasts that are made of a template, and the mail of one recipient as it can be read.

use posthorn::clock::HOUR;
use serde_json::{Value, json};

use crate::automation_pages::{owner, page};
use crate::broadcasts::Stage;
use crate::harness::on_both;
use crate::sink::Sink;
use crate::store::Store;
use crate::templates::{make, publish, published};

fn news(html: &str) -> Value {
    json!({
        "name": "News", "alias": "news", "html": html, "text": "{{ EDITION }} for {{{FIRST_NAME|you}}}",
        "variables": [{"key": "EDITION", "type": "string"}, {"key": "PRICE", "type": "number", "fallback_value": 7}],
    })
}

fn of_template(edition: Value) -> Value {
    json!({"html": null, "template": {"id": "news", "variables": {"EDITION": edition}}})
}

/// Edits the template and publishes that. Tells the version.
async fn publish_again(stage: &Stage, change: Value) -> Value {
    stage.call("PATCH", "/templates/news", change).await;
    assert_eq!(publish(&stage.post.app, &stage.key, "news", json!({})).await.status, 200);
    stage.call("GET", "/templates/news", json!({})).await["published_version_id"].clone()
}

on_both! {
    async fn a_broadcast_says_what_is_published_of_its_template_when_it_begins(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 0).await;
        stage.add("ada@example.com", json!({"first_name": "Ada <3"})).await;
        published(&stage.post.app, &stage.key, news("<p>first</p>")).await;
        let id = stage.send(of_template(json!("May"))).await;
        let html = "<p>{{{FIRST_NAME|you}}}: {{ EDITION }} at {{ PRICE }}</p>{{{UNSUBSCRIBE_URL}}}";
        let second = publish_again(&stage, json!({"html": html})).await;
        let before = stage.read(&id).await;
        assert_eq!(before["template"], json!({"id": "news", "variables": {"EDITION": "May"}, "version_id": null}));
        stage.take().await;
        let variables = json!([{"key": "EDITION", "type": "string"}, {"key": "PRICE", "type": "number", "fallback_value": 9}]);
        publish_again(&stage, json!({"html": "<p>third</p>", "variables": variables})).await;
        stage.run().await;
        let mail = sink.kept().pop().expect("a mail").text;
        assert!(mail.contains("Ada &lt;3: May at 7") && mail.contains("May for Ada <3"), "{mail}");
        assert!(mail.contains("https://mail.example/unsubscribe/"), "{mail}");
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["template"]["version_id"]), (&json!("sent"), &second));
        assert_eq!((&read["template"]["variables"], &read["html"]), (&json!({"EDITION": "May"}), &Value::Null));
        let copy = stage.call("POST", &format!("/broadcasts/{id}/duplicate"), json!({})).await;
        let copy = stage.read(copy["id"].as_str().expect("an id")).await;
        assert_eq!((&copy["template"]["id"], &copy["template"]["version_id"]), (&json!("news"), &Value::Null));
    }

    async fn a_broadcast_whose_template_cannot_be_sent_is_refused_with_the_reason(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let (status, answer) = stage.try_call("POST", "/broadcasts", stage.fields(of_template(json!("May")))).await;
        assert_eq!((status, &answer["name"]), (404, &json!("not_found")), "{answer}");
        make(&stage.post.app, &stage.key, news("<p>{{ EDITION }}</p>")).await;
        let draft = stage.call("POST", "/broadcasts", stage.fields(of_template(json!("May")))).await;
        let send = format!("/broadcasts/{}/send", draft["id"].as_str().expect("an id"));
        let (status, answer) = stage.try_call("POST", &send, json!({})).await;
        assert!(status == 422 && answer["message"].as_str().is_some_and(|text| text.contains("is a draft")), "{answer}");
        publish_again(&stage, json!({"name": "News"})).await;
        for (more, word) in [
            (of_template(Value::Null), "`EDITION`"),
            (of_template(json!(5)), "`variables.EDITION` must be a string"),
            (json!({"template": {"id": "news"}}), "cannot stand beside"),
        ] {
            let mut whole = stage.fields(more.clone());
            whole["send"] = json!(true);
            let (status, answer) = stage.try_call("POST", "/broadcasts", whole).await;
            assert!(status == 422 && answer["message"].as_str().is_some_and(|text| text.contains(word)), "{more}: {answer}");
        }
        publish_again(&stage, json!({"html": "x".repeat(250_000)})).await;
        let (status, answer) = stage.try_call("POST", &send, json!({})).await;
        assert!(status == 422 && answer["message"].as_str().is_some_and(|text| text.contains("too long")), "{answer}");
        let other = stage.post.app.second_workspace_key().await;
        let segment = stage.post.app.post("/segments").key(&other).json(json!({"name": "S"})).send().await.json();
        let mut theirs = stage.fields(of_template(json!("May")));
        theirs["segment_id"] = segment["id"].clone();
        stage.post.app.post("/broadcasts").key(&other).json(theirs).send().await.refused(404, "not_found");
        assert_eq!(store.count("email_recipients").await, 0);
    }

    async fn a_template_that_goes_before_its_time_leaves_a_draft_that_says_why(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        published(&stage.post.app, &stage.key, news("<p>{{ EDITION }}</p>")).await;
        let mut more = of_template(json!("May"));
        more["scheduled_at"] = json!("in 1 hour");
        let id = stage.send(more).await;
        stage.call("DELETE", "/templates/news", json!({})).await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        let read = stage.read(&id).await;
        assert_eq!(read["status"], "draft");
        assert!(read["reason"].as_str().is_some_and(|reason| reason.contains("Template not found")), "{read}");
        // Whoever gives bodies wants no template any more.
        stage.call("PATCH", &format!("/broadcasts/{id}"), json!({"html": "<p>Plain</p>"})).await;
        stage.call("POST", &format!("/broadcasts/{id}/send"), json!({})).await;
        stage.run().await;
        assert!(sink.kept().pop().expect("a mail").text.contains("Plain"));
        assert_eq!(stage.read(&id).await["template"], Value::Null);
    }

    async fn the_mail_of_one_recipient_is_read_as_it_is_written_for_him(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 0).await;
        for (name, first) in [("ada", "Ada <3"), ("bob", "Bob")] {
            stage.add(&format!("{name}@example.com"), json!({"first_name": first})).await;
        }
        let id = stage.send(json!({})).await;
        stage.run().await;
        let listed = stage.call("GET", &format!("/broadcasts/{id}/recipients?type=delivered"), json!({})).await;
        let cookie = owner(&stage.post.app).await;
        for (email, subject, html) in [
            ("ada@example.com", "Hello Ada <3", "<p>Hi Ada &lt;3</p><a href=\"https://mail.example/unsubscribe/"),
            ("bob@example.com", "Hello Bob", "<p>Hi Bob</p><a href=\"https://mail.example/unsubscribe/"),
        ] {
            let found = listed["data"].as_array().expect("a list").iter().find(|one| one["email"] == email);
            let own = found.expect("listed")["id"].as_str().expect("an id").to_owned();
            let mail = stage.call("GET", &format!("/emails/{own}"), json!({})).await;
            assert_eq!((&mail["id"], &mail["subject"], &mail["to"][0]), (&json!(own), &json!(subject), &json!(email)));
            assert!(mail["html"].as_str().is_some_and(|found| found.starts_with(html)), "{mail}");
            assert_eq!(mail["last_event"], "delivered");
            let shown = page(&stage.post.app, &cookie, &format!("/emails/{own}")).await;
            for word in [email, "Hello", "delivered", &format!("/emails/{own}/html")] {
                assert!(shown.contains(word), "{word}: {shown}");
            }
            let frame = stage.post.app.get(format!("/dashboard/emails/{own}/html")).header("cookie", &cookie).send().await;
            assert!(frame.status == 200 && frame.text().starts_with(html), "{}", frame.text());
        }
        // Of who is gone, what was said to all is shown.
        let own = listed["data"][0]["id"].as_str().expect("an id").to_owned();
        let email = listed["data"][0]["email"].as_str().expect("an address").to_owned();
        stage.call("DELETE", &format!("/contacts/{email}"), json!({})).await;
        let mail = stage.call("GET", &format!("/emails/{own}"), json!({})).await;
        assert!(mail["html"].as_str().is_some_and(|html| html.contains("{{{FIRST_NAME|there}}}")), "{mail}");
        let whole = stage.call("GET", &format!("/emails/{id}"), json!({})).await;
        assert!(whole["html"].as_str().is_some_and(|html| html.contains("{{{FIRST_NAME|there}}}")), "{whole}");
        let nobody = stage.post.app.second_workspace_key().await;
        stage.post.app.get(format!("/emails/{own}")).key(&nobody).send().await.refused(404, "not_found");
    }
}
