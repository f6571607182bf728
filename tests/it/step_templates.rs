//! Steps that name a template: their mail is made of it in the run's commit; and messages that waited for templates
//! before there were any.

use posthorn::clock::HOUR;
use serde_json::{Value, json};

use crate::automation_pages::{owner, page, press};
use crate::emails::shown;
use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::step_mail;
use crate::templates::{make, publish, published};

fn welcome() -> Value {
    json!({
        "name": "Welcome", "alias": "welcome", "from": "Us <us@acme.example>", "subject": "Hi {{{FIRST_NAME|you}}}",
        "reply_to": ["a@acme.example", "b@acme.example"],
        "html": "<p>{{ EMAIL }} {{ PLAN }} {{ event.seats }} {{{contact.properties.company|nobody}}}</p>",
        "variables": [{"key": "PLAN", "type": "string", "fallback_value": "free"}],
    })
}

fn step(more: Value) -> (&'static str, Value) {
    let mut config = json!({"template": {"id": "welcome", "variables": {"PLAN": {"var": "event.plan"}}}});
    for (name, value) in more.as_object().expect("fields") {
        config[name] = value.clone();
    }
    ("send_email", config)
}

async fn only_email(stage: &Stage) -> Value {
    let emails = stage.get("/emails").await["data"].as_array().expect("emails").clone();
    assert_eq!(emails.len(), 1, "{emails:?}");
    shown(&stage.app, &stage.key, emails[0]["id"].as_str().expect("an id")).await
}

/// A run whose step keeps a message, as it was before there were templates. Tells the automation.
async fn kept(stage: &Stage) -> String {
    let automation = stage.automation(&[Stage::trigger(), step_mail::mail()]).await;
    stage.send("user.created", "ada@example.com", json!({})).await;
    stage.work().await;
    let store = &stage.app.store;
    store.run("DELETE FROM email_recipients").await;
    store.run("DELETE FROM emails").await;
    let message = r#"{"template":{"id":"welcome","variables":{"PLAN":"pro"}},"to":"ada@example.com"}"#;
    store
        .run(&format!(
            "INSERT INTO outbox (id, workspace_id, run_id, step, contact_id, recipient, message, created_at)
             SELECT r.id, r.workspace_id, r.id, 's1', r.contact_id, 'ada@example.com', '{message}', r.created_at FROM runs r"
        ))
        .await;
    automation
}

/// A template without what kept messages cannot give.
fn plain() -> Value {
    let mut template = welcome();
    template["html"] = json!("<p>{{ PLAN }}</p>");
    template
}

on_both! {
    async fn a_step_sends_what_its_template_makes_of_contact_event_and_variables(app: TestApp) {
        let stage = Stage::new(app).await;
        published(&stage.app, &stage.key, welcome()).await;
        let automation = stage.automation(&[Stage::trigger(), step(json!({}))]).await;
        let contact = json!({"email": "ada@example.com", "first_name": "Ada <3", "properties": {"company": "Acme"}});
        assert_eq!(stage.post("/contacts", contact).await.status, 201);
        stage.send("user.created", "ada@example.com", json!({"plan": "pro", "seats": 3})).await;
        stage.work().await;
        let email = only_email(&stage).await;
        assert_eq!((&email["subject"], &email["html"]), (&json!("Hi Ada <3"), &json!("<p>ada@example.com pro 3 Acme</p>")));
        assert_eq!((&email["from"], &email["reply_to"]), (&json!("Us <us@acme.example>"), &json!(["a@acme.example", "b@acme.example"])));
        let run = stage.run(&automation).await;
        let output = &run["steps"][1]["output"];
        assert_eq!((statuses(&run), &output["email_id"]), (vec!["completed", "completed"], &email["id"]));
        assert_eq!(output["template"], json!({"id": "welcome", "variables": {"PLAN": "pro"}}));
    }

    async fn what_a_step_says_goes_before_what_its_template_says(app: TestApp) {
        let stage = Stage::new(app).await;
        published(&stage.app, &stage.key, welcome()).await;
        let more = json!({"from": "me@acme.example", "subject": {"var": "event.plan"}, "reply_to": "r@acme.example"});
        stage.automation(&[Stage::trigger(), step(more)]).await;
        stage.send("user.created", "ada@example.com", json!({"plan": "Mine", "seats": 1})).await;
        stage.work().await;
        let email = only_email(&stage).await;
        assert_eq!(
            (&email["subject"], &email["from"], &email["reply_to"]),
            (&json!("Mine"), &json!("me@acme.example"), &json!(["r@acme.example"])),
        );
    }

    async fn a_step_whose_template_cannot_be_rendered_fails_with_the_reason_and_can_be_tried_again(app: TestApp) {
        let stage = Stage::new(app).await;
        published(&stage.app, &stage.key, welcome()).await;
        let automation = stage.automation(&[Stage::trigger(), step(json!({}))]).await;
        stage.send("user.created", "ada@example.com", json!({"plan": "pro"})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], statuses(&run)), (&json!("failed"), vec!["completed", "failed"]));
        let reason = run["steps"][1]["error"]["message"].as_str().expect("a reason").to_owned();
        assert!(reason.contains("`event.seats`"), "{reason}");
        assert_eq!(stage.app.count("emails").await, 0);
        let change = json!({"html": "<p>{{ PLAN }}</p>"});
        assert_eq!(stage.app.patch("/templates/welcome").key(&stage.key).json(change).send().await.status, 200);
        assert_eq!(publish(&stage.app, &stage.key, "welcome", json!({})).await.status, 200);
        let id = run["id"].as_str().expect("an id");
        assert_eq!(stage.post(&format!("/automations/{automation}/runs/{id}/retry"), json!({})).await.status, 200);
        stage.work().await;
        assert_eq!(only_email(&stage).await["html"], "<p>pro</p>");
    }

    async fn an_automation_that_names_a_missing_or_unpublished_template_is_not_enabled(app: TestApp) {
        let stage = Stage::new(app).await;
        let steps = [Stage::trigger(), step(json!({}))];
        let automation = stage.automation_with(&steps, json!({"status": "disabled"})).await;
        let path = format!("/automations/{automation}");
        let enable = async || stage.app.patch(&path).key(&stage.key).json(json!({"status": "enabled"})).send().await;
        let refused = enable().await;
        refused.refused(422, "validation_error");
        assert!(refused.text().contains("`s1`") && refused.text().contains("no template `welcome`"), "{}", refused.text());
        make(&stage.app, &stage.key, welcome()).await;
        let refused = enable().await;
        refused.refused(422, "validation_error");
        assert!(refused.text().contains("draft"), "{}", refused.text());
        let graph = stage.get(&path).await;
        let body = json!({"name": "B", "status": "enabled", "steps": graph["steps"], "connections": graph["connections"]});
        stage.post("/automations", body).await.refused(422, "validation_error");
        assert_eq!(publish(&stage.app, &stage.key, "welcome", json!({})).await.status, 200);
        assert_eq!(enable().await.status, 200);

        let mut other = graph.clone();
        other["steps"][1]["config"]["template"]["id"] = json!("other");
        let change = json!({"steps": other["steps"], "connections": other["connections"]});
        stage.app.patch(&path).key(&stage.key).json(change.clone()).send().await.refused(422, "validation_error");
        assert_eq!(stage.post(&format!("{path}/stop"), json!({})).await.status, 200);
        let changed = stage.app.patch(&path).key(&stage.key).json(change).send().await;
        assert_eq!(changed.status, 200, "one that is disabled may be on its way: {}", changed.text());
        let cookie = owner(&stage.app).await;
        let shown = page(&stage.app, &cookie, &path).await;
        assert_eq!(press(&stage.app, &cookie, &shown, "/enable").await.status, 422, "nor on its page");
    }

    async fn a_template_that_an_enabled_automation_sends_is_not_deleted(app: TestApp) {
        let stage = Stage::new(app).await;
        let id = published(&stage.app, &stage.key, welcome()).await;
        let by_id = [Stage::trigger(), ("send_email", json!({"template": {"id": id}}))];
        for steps in [[Stage::trigger(), step(json!({}))], by_id] {
            let automation = stage.automation(&steps).await;
            let refused = stage.app.delete("/templates/welcome").key(&stage.key).send().await;
            refused.refused(409, "validation_error");
            assert!(refused.text().contains("`A`"), "{}", refused.text());
            assert_eq!(stage.post(&format!("/automations/{automation}/stop"), json!({})).await.status, 200);
        }
        assert_eq!(stage.app.delete("/templates/welcome").key(&stage.key).send().await.status, 200);
    }

    async fn a_message_that_waited_for_its_template_is_sent_once_it_is_published(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = kept(&stage).await;
        let run = stage.run(&automation).await;
        assert_eq!(statuses(&run), ["completed", "waiting"]);
        let waiting = &run["steps"][1]["output"]["waiting"];
        assert!(waiting["reason"].as_str().expect("a reason").contains("until its template is published"), "{waiting}");
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 0);
        make(&stage.app, &stage.key, plain()).await;
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 0, "a draft is not sent");
        publish(&stage.app, &stage.key, "welcome", json!({})).await;
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 1);
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 0);
        let email = only_email(&stage).await;
        assert_eq!((&email["html"], &email["to"]), (&json!("<p>pro</p>"), &json!(["ada@example.com"])));
        let run = stage.run(&automation).await;
        assert_eq!((statuses(&run), &run["steps"][1]["output"]["email_id"]), (vec!["completed", "completed"], &email["id"]));
        assert_eq!(stage.app.count("outbox").await, 0);
    }

    async fn a_message_that_waited_for_a_day_is_held_until_a_person_wants_it(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = kept(&stage).await;
        published(&stage.app, &stage.key, plain()).await;
        stage.app.clock.advance(24 * HOUR + 1);
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 0);
        let run = stage.run(&automation).await;
        let waiting = &run["steps"][1]["output"]["waiting"];
        assert!(waiting["reason"].as_str().expect("a reason").contains("a person decides"), "{waiting}");
        assert_eq!(waiting["held"], true);
        let cookie = owner(&stage.app).await;
        let path = format!("/automations/{automation}/runs/{}", run["id"].as_str().expect("an id"));
        let shown = page(&stage.app, &cookie, &path).await;
        assert_eq!(press(&stage.app, &cookie, &shown, "/send").await.status, 303);
        stage.app.assert_told(&["message.sent"]).await;
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 1);
        assert_eq!(only_email(&stage).await["html"], "<p>pro</p>");
    }

    async fn a_person_drops_a_message_that_waits(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = kept(&stage).await;
        let cookie = owner(&stage.app).await;
        let run = stage.run(&automation).await;
        let path = format!("/automations/{automation}/runs/{}", run["id"].as_str().expect("an id"));
        let shown = page(&stage.app, &cookie, &path).await;
        assert!(shown.contains("until its template is published") && shown.contains("Drop the message"), "{shown}");
        let link = shown.split("href=\"/dashboard").find(|rest| rest.contains("/drop\">Drop the message")).expect("a link");
        let question = page(&stage.app, &cookie, link.split('"').next().expect("an address")).await;
        assert!(question.contains("Drop this message?") && question.contains(">s1<"), "{question}");
        assert_eq!(stage.run(&automation).await["steps"][1]["output"]["waiting"]["held"], false, "asking drops nothing");
        for status in [303, 409] {
            assert_eq!(press(&stage.app, &cookie, &question, "/drop").await.status, status);
        }
        stage.app.assert_told(&["workspace.renamed", "message.dropped"]).await;
        let step = stage.run(&automation).await["steps"][1].clone();
        assert_eq!((&step["status"], &step["output"]["reason"]), (&json!("skipped"), &json!("a person decided not to send it")));
        assert!(!page(&stage.app, &cookie, &path).await.contains("Drop the message"));
        published(&stage.app, &stage.key, plain()).await;
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 0);
    }

    async fn a_kept_message_that_cannot_be_sent_says_why(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = kept(&stage).await;
        let change = json!({"unsubscribed": true});
        assert_eq!(stage.app.patch("/contacts/ada@example.com").key(&stage.key).json(change).send().await.status, 200);
        published(&stage.app, &stage.key, plain()).await;
        assert_eq!(stage.engine.send_kept().await.expect("a round"), 0);
        let step = stage.run(&automation).await["steps"][1].clone();
        assert_eq!((&step["status"], &step["output"]["reason"]), (&json!("skipped"), &json!("the contact has unsubscribed")));
    }

    async fn nothing_that_was_kept_is_sent_while_the_store_is_on_hold(app: TestApp) {
        let stage = Stage::new(app).await;
        kept(&stage).await;
        published(&stage.app, &stage.key, plain()).await;
        stage.app.store.run("INSERT INTO holds (id, since, reason) VALUES (1, 0, 'test')").await;
        assert!(stage.engine.send_kept().await.is_err());
        assert_eq!((stage.app.count("emails").await, stage.app.count("outbox").await), (0, 1));
    }
}
