//! Mail that steps send: queued with the step, sent once, and told of.

use std::sync::Arc;

use posthorn::automations::Engine;
use posthorn::clock::{HOUR, MINUTE, SECOND};
use posthorn::delivery;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::automation_pages::{owner, page};
use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::sink::{Does, Sink};
use crate::store::Store;

/// A step that carries its mail.
pub fn mail() -> (&'static str, Value) {
    mail_with(json!({}))
}

fn mail_with(more: Value) -> (&'static str, Value) {
    let mut config = json!({"from": "Us <us@acme.example>", "subject": "Hello", "text": "It works."});
    for (name, value) in more.as_object().expect("fields") {
        config[name] = value.clone();
    }
    ("send_email", config)
}

fn mark(name: &str) -> (&'static str, Value) {
    ("contact_update", json!({"first_name": name}))
}

/// A workspace whose mail is delivered, too.
struct Office {
    stage: Stage,
    post: Arc<delivery::Engine>,
}

impl Office {
    async fn new(app: TestApp) -> Office {
        Office::on(Stage::new(app).await)
    }

    /// Another process on the same store, with other settings.
    async fn beside(stage: &Stage, settings: &[&str]) -> Office {
        let app = TestApp::open(&stage.app.store, settings).await;
        let engine = Engine::new(app.app.occurrences().clone(), app.app.domains().clone(), app.app.templates().clone());
        Office::on(Stage { app, key: stage.key.clone(), engine })
    }

    fn on(stage: Stage) -> Office {
        let (occurrences, domains) = (stage.app.app.occurrences().clone(), stage.app.app.domains().clone());
        let post = delivery::Engine::new(occurrences, domains).expect("an engine");
        Office { stage, post: Arc::new(post) }
    }

    async fn open(store: &Store, settings: &[&str]) -> Office {
        Office::new(TestApp::open(store, settings).await).await
    }

    /// One that hands its mail to this server, whoever it is from.
    async fn relaying(store: &Store, sink: &Sink) -> Office {
        let relay = format!("--smtp-url={}", sink.url());
        Office::open(store, &[&relay, "--senders=any", "--smtp-timeout-factor=0.01"]).await
    }

    /// Lets everybody work until nothing is due.
    async fn work(&self) {
        for _ in 0..100 {
            let turns = self.stage.engine.round().await.expect("a round");
            if turns + self.post.round().await.expect("a round") == 0 {
                return;
            }
        }
        panic!("there is always more to do");
    }

    async fn emails(&self) -> Vec<Value> {
        self.stage.get("/emails").await["data"].as_array().expect("emails").clone()
    }

    async fn send_email(&self, more: Value) -> String {
        let mut body = json!({"from": "us@acme.example", "to": "ada@example.com", "subject": "S", "text": "T"});
        for (name, value) in more.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let sent = self.stage.post("/emails", body).await;
        assert_eq!(sent.status, 200, "{}", sent.text());
        sent.json()["id"].as_str().expect("an id").to_owned()
    }

    /// How often an event of this name happened to a contact.
    async fn told(&self, name: &str) -> i64 {
        self.stage.app.count(&format!("occurrences WHERE name = '{name}'")).await
    }

    async fn suppress(&self, email: &str) {
        let (app, id) = (&self.stage.app, self.stage.app.workspace().await);
        let row = format!(
            "INSERT INTO suppressions (workspace_id, email_key, id, email, origin, created_at)
             VALUES ({0}, '{email}', {0}, '{email}', 'manual', 0)",
            app.store.id(id)
        );
        app.store.run(&row).await;
    }
}

/// A step as the Rust client of existing programs reads it.
#[derive(Deserialize)]
#[expect(dead_code, reason = "that it can be read is what counts")]
struct StepOfClient {
    template: TemplateOfClient,
    subject: Option<String>,
    from: Option<String>,
    reply_to: Option<String>,
    variables: Option<Value>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that it can be read is what counts")]
struct TemplateOfClient {
    id: String,
    variables: Option<Value>,
}

on_both! {
    async fn issue_12_a_step_queues_its_mail_in_the_commit_that_completes_it(app: TestApp) {
        let office = Office::new(app).await;
        let stage = &office.stage;
        let text = json!({"subject": {"var": "event.plan"}, "html": {"var": "event.html"}, "reply_to": "help@acme.example"});
        let automation = stage.automation(&[Stage::trigger(), mail_with(text)]).await;
        stage.send("user.created", "Ada@example.com", json!({"plan": "pro", "html": "<p>Hi</p>"})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], statuses(&run)), (&json!("completed"), vec!["completed", "completed"]));
        let output = &run["steps"][1]["output"];
        assert_eq!((&output["to"], &output["subject"]), (&json!("Ada@example.com"), &json!("pro")));
        assert_eq!(output["last_event"], "queued");
        let path = format!("/emails/{}", output["email_id"].as_str().expect("an id"));
        let email = stage.get(&path).await;
        assert_eq!((&email["from"], &email["to"]), (&json!("Us <us@acme.example>"), &json!(["Ada@example.com"])));
        assert_eq!((&email["subject"], &email["html"], &email["text"]), (&json!("pro"), &json!("<p>Hi</p>"), &json!("It works.")));
        assert_eq!(email["reply_to"], json!(["help@acme.example"]));
        let kept = stage.app.store.rows("SELECT origin, lane, step FROM emails").await;
        assert_eq!(kept, [["automation", "0", "s1"].map(|text| Some(text.to_owned()))]);
        office.work().await;
        assert_eq!(stage.run(&automation).await["steps"][1]["output"]["last_event"], "delivered");
    }

    async fn issue_12_a_step_with_a_mail_of_its_own_can_be_read_by_clients_and_written_back(app: TestApp) {
        let stage = Stage::new(app).await;
        let path = format!("/automations/{}", stage.automation(&[Stage::trigger(), mail()]).await);
        let read = stage.get(&path).await;
        let config = read["steps"][1]["config"].clone();
        assert_eq!(config, json!({"template": {"id": ""}, "from": "Us <us@acme.example>", "subject": "Hello", "text": "It works."}));
        serde_json::from_value::<StepOfClient>(config).expect("a step that clients know");
        let back = json!({"steps": read["steps"], "connections": read["connections"]});
        let changed = stage.app.patch(&path).key(&stage.key).json(back).send().await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(stage.get(&path).await["steps"], read["steps"]);
    }

    async fn issue_12_a_sender_that_is_refused_fails_the_step_and_is_tried_again(store: Store) {
        let strict = Office::open(&store, &["--smtp-url=smtp://127.0.0.1:9"]).await;
        let stage = &strict.stage;
        let automation = stage.automation(&[Stage::trigger(), mark("Ada"), mail(), mark("Done")]).await;
        stage.send("user.created", "ada@example.com", json!({})).await;
        stage.work().await;
        let run = stage.run(&automation).await;
        assert_eq!((&run["status"], statuses(&run)),
            (&json!("failed"), vec!["completed", "completed", "failed", "skipped"]));
        let reason = run["steps"][2]["error"]["message"].as_str().expect("a reason");
        assert!(reason.contains("`acme.example` is not verified"), "{reason}");
        assert_eq!(stage.get("/contacts/ada@example.com").await["first_name"], "Ada", "what came before it is done");
        assert_eq!(stage.app.count("emails").await, 0);
        let path = format!("/automations/{automation}/runs/{}/retry", run["id"].as_str().expect("an id"));
        assert_eq!(stage.post(&path, json!({})).await.status, 200);
        let lenient = Office::beside(stage, &[]).await;
        lenient.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        assert_eq!(stage.app.count("emails").await, 1);
    }

    async fn variables_that_make_no_mail_fail_the_step_with_the_reason(app: TestApp) {
        let stage = Stage::new(app).await;
        let wrong = json!({"from": {"var": "event.from"}, "subject": {"var": "event.subject"}});
        let automation = stage.automation(&[Stage::trigger(), mail_with(wrong)]).await;
        for (payload, words) in [
            (json!({"subject": "S"}), "the variable of `from` leads to nothing"),
            (json!({"subject": "S", "from": "nobody"}), "`from` must"),
            (json!({"subject": 5, "from": "a@b.example"}), "`subject` must be text, but is a number"),
            (json!({"subject": "S\r\nBcc: x@y.example", "from": "a@b.example"}), "`subject` must be one line"),
        ] {
            stage.send("user.created", "ada@example.com", payload.clone()).await;
            stage.work().await;
            let id = stage.runs(&automation).await[0]["id"].as_str().expect("an id").to_owned();
            let run = stage.get(&format!("/automations/{automation}/runs/{id}")).await;
            let reason = run["steps"][1]["error"]["message"].as_str().expect("a reason");
            assert!(run["status"] == "failed" && reason.contains(words), "{payload}: {reason}");
        }
        assert_eq!(stage.app.count("emails").await, 0);
    }

    async fn who_has_unsubscribed_gets_none_and_who_is_suppressed_is_told_of(app: TestApp) {
        let office = Office::new(app).await;
        let stage = &office.stage;
        stage.post("/contacts", json!({"email": "gone@example.com", "unsubscribed": true})).await;
        office.suppress("bounced@example.com").await;
        let automation = stage.automation(&[Stage::trigger(), mail()]).await;
        for email in ["gone@example.com", "bounced@example.com"] {
            stage.send("user.created", email, json!({})).await;
        }
        office.work().await;
        let mut shown = Vec::new();
        for run in stage.runs(&automation).await {
            let run = stage.get(&format!("/automations/{automation}/runs/{}", run["id"].as_str().expect("an id"))).await;
            shown.push((run["steps"][1]["status"].clone(), run["steps"][1]["output"]["last_event"].clone()));
        }
        assert_eq!(shown, [(json!("completed"), json!("suppressed")), (json!("skipped"), Value::Null)]);
        assert_eq!(office.emails().await.len(), 1);
    }

    async fn the_page_of_a_run_leads_to_its_mail(app: TestApp) {
        let office = Office::new(app).await;
        let automation = office.stage.automation(&[Stage::trigger(), mail()]).await;
        office.stage.send("user.created", "ada@example.com", json!({})).await;
        office.work().await;
        let cookie = owner(&office.stage.app).await;
        let run = office.stage.run(&automation).await;
        let path = format!("/automations/{automation}/runs/{}", run["id"].as_str().expect("an id"));
        let shown = page(&office.stage.app, &cookie, &path).await;
        let id = run["steps"][1]["output"]["email_id"].as_str().expect("an id");
        assert!(shown.contains(&format!("/dashboard/emails/{id}\">Mail: delivered</a>")), "{shown}");
    }

    /// Each of them, as a trigger and for a run that waits.
    async fn issue_12_what_happens_to_mail_starts_automations_and_ends_waits(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "RCPT TO:<nobody@example.com>" => Does::Says("550 5.2.2 full"),
            "RCPT TO:<busy@example.com>" => Does::Says("451 4.2.1 busy"),
            _ => Does::Usual,
        })
        .await;
        let office = Office::relaying(&store, &sink).await;
        let stage = &office.stage;
        office.suppress("unwanted@example.com").await;
        let mut all = Vec::new();
        for (name, email) in [("queued", "ada@example.com"), ("sent", "ada@example.com"), ("delivered", "ada@example.com"),
            ("delivery_delayed", "busy@example.com"), ("bounced", "nobody@example.com"), ("failed", "busy@example.com"),
            ("suppressed", "unwanted@example.com")]
        {
            let event = json!({"event_name": format!("svc:email.{name}")});
            let starts = stage.automation(&[("trigger", event.clone()), ("exit", json!({}))]).await;
            let begins = ("trigger", json!({"event_name": format!("wait {name}")}));
            let waits = stage.automation(&[begins, ("wait_for_event", event), ("exit", json!({}))]).await;
            stage.send(&format!("wait {name}"), email, json!({})).await;
            all.push((name, starts, waits));
        }
        stage.work().await;
        for email in ["ada@example.com", "busy@example.com", "nobody@example.com", "unwanted@example.com"] {
            office.send_email(json!({"to": email})).await;
        }
        for _ in 0..140 {
            office.work().await;
            stage.app.clock.advance(HOUR);
        }
        let contacts = |name: &str| if name == "queued" { 4 } else { 1 };
        for (name, starts, waits) in all {
            assert_eq!(stage.runs(&starts).await.len(), contacts(name), "{name} starts");
            let run = stage.run(&waits).await;
            assert_eq!(statuses(&run), ["completed", "completed", "completed"], "{name} ends a wait");
        }
    }

    async fn issue_12_a_scheduled_mail_is_told_as_queued_once_when_its_time_has_come(store: Store) {
        let office = Office::open(&store, &["--smtp-url=smtp://127.0.0.1:9", "--senders=any"]).await;
        let stage = &office.stage;
        stage.post("/contacts", json!({"email": "ada@example.com"})).await;
        let subject = ("contact_update", json!({"first_name": {"var": "event.subject"}}));
        stage.automation(&[("trigger", json!({"event_name": "svc:email.queued"})), subject]).await;
        let id = office.send_email(json!({"to": ["ada@example.com", "bob@example.com"], "scheduled_at": "in 1 hour"})).await;
        stage.app.clock.advance(HOUR - SECOND);
        office.work().await;
        let path = format!("/emails/{id}");
        assert_eq!((&stage.get(&path).await["last_event"], office.told("svc:email.queued").await), (&json!("scheduled"), 0));
        stage.app.clock.advance(SECOND);
        office.work().await;
        assert_eq!(stage.get(&path).await["last_event"], "queued", "nobody has taken it, and its time has come");
        for _ in 0..3 {
            stage.app.clock.advance(HOUR);
            office.work().await;
        }
        assert_eq!(office.told("svc:email.queued").await, 1, "to the one of them who is a contact");
        assert_eq!(stage.get("/contacts/ada@example.com").await["first_name"], "S");
    }

    async fn mail_of_an_automation_that_mail_started_starts_no_other(app: TestApp) {
        let office = Office::new(app).await;
        let stage = &office.stage;
        stage.post("/contacts", json!({"email": "ada@example.com"})).await;
        let mut all = Vec::new();
        for name in ["queued", "delivered"] {
            let event = ("trigger", json!({"event_name": format!("svc:email.{name}")}));
            all.push(stage.automation(&[event, mail()]).await);
        }
        office.send_email(json!({})).await;
        office.work().await;
        for automation in &all {
            assert_eq!(stage.runs(automation).await.len(), 1);
        }
        assert_eq!(office.emails().await.len(), 3);
    }

    async fn a_run_that_a_contact_started_may_wait_for_its_mail(app: TestApp) {
        let office = Office::new(app).await;
        let wait = ("wait_for_event", json!({"event_name": "svc:email.delivered"}));
        let created = ("trigger", json!({"event_name": "svc:contact.created"}));
        let automation = office.stage.automation(&[created, mail(), wait, mark("Heard")]).await;
        office.stage.post("/contacts", json!({"email": "ada@example.com"})).await;
        office.work().await;
        assert_eq!(office.stage.run(&automation).await["status"], "completed");
        assert_eq!(office.stage.get("/contacts/ada@example.com").await["first_name"], "Heard");
    }

    /// It is told in the commit in which the run begins to wait.
    async fn a_run_hears_that_its_own_mail_is_queued(app: TestApp) {
        let stage = Stage::new(app).await;
        let wait = ("wait_for_event", json!({"event_name": "svc:email.queued"}));
        let automation = stage.automation(&[Stage::trigger(), mark("Ada"), mail(), wait, mark("Heard")]).await;
        stage.send("user.created", "ada@example.com", json!({})).await;
        stage.work().await;
        assert_eq!(stage.run(&automation).await["status"], "completed");
        stage.app.clock.advance(MINUTE);
        stage.work().await;
        assert_eq!(stage.app.count("emails").await, 1);
    }
}
