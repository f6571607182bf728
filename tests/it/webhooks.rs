//! `/webhooks`: who is told, how events travel to them, and what becomes of those that do not arrive.

use posthorn::app::App;
use posthorn::clock::{DAY, HOUR, MINUTE, SECOND};
use posthorn::delivery::OwnMail;
use posthorn::hold;
use posthorn::webhooks::{self, Deliverer};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::engine_webhooks::{Heard, Listener, header, is_signed};
use crate::flow::{app_named, text};
use crate::harness::{Answer, TestApp, on_both};
use crate::store::Store;

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

/// A process that tells webhooks, and a workspace of it.
pub struct Teller {
    pub app: TestApp,
    pub key: String,
    pub deliverer: Deliverer,
    stop: watch::Sender<bool>,
}

impl Teller {
    pub async fn open(store: &Store) -> Teller {
        Teller::new(TestApp::open(store, &["--private-webhooks"]).await).await
    }

    pub async fn new(app: TestApp) -> Teller {
        let shared: &App = &app.app;
        let (stop, stopping) = watch::channel(false);
        let deliverer = Deliverer::new(shared.clone(), Box::new(OwnMail(shared.clone())), stopping);
        Teller { key: app.full_key().await, app, deliverer, stop }
    }

    pub async fn webhook(&self, endpoint: &str, events: &[&str]) -> Value {
        let body = json!({"endpoint": endpoint, "events": events});
        let made = self.app.post("/webhooks").key(&self.key).json(body).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.app.get(path).key(&self.key).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    async fn post(&self, path: &str) -> Answer {
        self.app.post(path).key(&self.key).send().await
    }

    async fn patch(&self, id: &str, body: Value) {
        let changed = self.app.patch(format!("/webhooks/{id}")).key(&self.key).json(body).send().await;
        assert_eq!((changed.status, changed.json()), (200, json!({"object": "webhook", "id": id})));
    }

    /// Something happens that webhooks can be told.
    pub async fn topic(&self, name: &str) -> String {
        crate::topics::topic(&self.app, &self.key, name, "opt_in").await
    }

    /// Delivers until nothing is due.
    pub async fn deliver(&self) -> usize {
        let mut all = 0;
        loop {
            match self.deliverer.round().await.expect("a round") {
                0 => return all,
                count => all += count,
            }
        }
    }

    async fn events(&self, webhook: &str) -> Vec<Value> {
        self.get(&format!("/webhooks/{webhook}/events")).await["data"].as_array().expect("a list").clone()
    }

    async fn attempts(&self, webhook: &str, event: &str) -> Vec<Value> {
        let path = format!("/webhooks/{webhook}/events/{event}/attempts");
        self.get(&path).await["data"].as_array().expect("a list").clone()
    }
}

fn id(value: &Value) -> &str {
    text(value, "id")
}

fn statuses(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| text(event, "status")).collect()
}

fn body(heard: &Heard) -> Value {
    serde_json::from_str(&heard.1).expect("JSON")
}

on_both! {
    async fn a_webhook_is_made_read_changed_and_deleted(store: Store) {
        let teller = Teller::open(&store).await;
        let made = teller.webhook("https://example.com/hook", &["email.sent", "contact.created", "email.sent"]).await;
        let (webhook, secret) = (id(&made).to_owned(), text(&made, "signing_secret").to_owned());
        assert_eq!(made, json!({"object": "webhook", "id": webhook, "signing_secret": secret}));
        let mut expected = json!({
            "object": "webhook", "id": webhook, "endpoint": "https://example.com/hook",
            "events": ["email.sent", "contact.created"], "status": "enabled",
            "created_at": "2026-01-02T03:04:05.678901Z", "signing_secret": secret,
        });
        let path = format!("/webhooks/{webhook}");
        assert_eq!(teller.get(&path).await, expected);
        assert_eq!(store.rows("SELECT signing_secret FROM webhooks").await[0][0].as_deref() == Some(secret.as_str()),
            !teller.app.app.seal.has_key(), "the store keeps it sealed");
        teller.patch(&webhook, json!({"endpoint": "https://example.com/other", "status": "disabled"})).await;
        teller.patch(&webhook, json!({"events": ["topic.created"]})).await;
        teller.patch(&webhook, json!({})).await;
        expected["endpoint"] = json!("https://example.com/other");
        expected["events"] = json!(["topic.created"]);
        expected["status"] = json!("disabled");
        assert_eq!(teller.get(&path).await, expected);
        expected.as_object_mut().expect("an object").remove("signing_secret");
        assert_eq!(teller.get("/webhooks").await, json!({"object": "list", "has_more": false, "data": [expected]}));
        let gone = teller.app.delete(&path).key(&teller.key).send().await;
        assert_eq!(gone.json(), json!({"object": "webhook", "id": webhook, "deleted": true}));
        teller.app.get(&path).key(&teller.key).send().await.refused(404, "not_found");
        teller.app.patch(&path).key(&teller.key).json(json!({})).send().await.refused(404, "not_found");
        teller.app.delete(&path).key(&teller.key).send().await.refused(404, "not_found");
        teller.post(&format!("{path}/signing-secret/rotate")).await.refused(404, "not_found");
        teller.app.get(format!("{path}/events")).key(&teller.key).send().await.refused(404, "not_found");
    }

    async fn what_breaks_a_rule_is_422_and_names_the_field(app: TestApp) {
        let key = app.full_key().await;
        let endpoint = "https://example.com/";
        let long = format!("https://example.com/{}", "x".repeat(2048));
        for (body, name, word) in [
            (json!({"events": ["email.sent"]}), "missing_required_field", "`endpoint`"),
            (json!({"endpoint": endpoint}), "missing_required_field", "`events`"),
            (json!({"endpoint": endpoint, "events": []}), "validation_error", "1 to 100"),
            (json!({"endpoint": endpoint, "events": vec!["email.sent"; 1_000]}), "validation_error", "has 1000"),
            (json!({"endpoint": endpoint, "events": ["email.sent", "inbox.created"]}), "validation_error", "`events[1]`"),
            (json!({"endpoint": endpoint, "events": "email.sent"}), "validation_error", "`events`"),
            (json!({"endpoint": long, "events": ["email.sent"]}), "validation_error", "2048"),
            (json!({"endpoint": "nowhere", "events": ["email.sent"]}), "validation_error", "`endpoint`"),
            (json!({"endpoint": "http://example.com/", "events": ["email.sent"]}), "validation_error", "https://"),
            (json!({"endpoint": "https://10.0.0.1/", "events": ["email.sent"]}), "validation_error", "public internet"),
        ] {
            let message = app.post("/webhooks").key(&key).json(body.clone()).send().await.refused(422, name);
            assert!(message.contains(word), "{body}: {message}");
        }
        app.get("/webhooks/x").key(&key).send().await.refused(422, "invalid_parameter");
        app.get(format!("/webhooks/{NOBODY}/events/x")).key(&key).send().await.refused(422, "invalid_parameter");
        assert_eq!(app.count("webhooks").await, 0);
    }

    async fn a_workspace_has_a_hundred_at_most(store: Store) {
        let teller = Teller::open(&store).await;
        for number in 0..100 {
            teller.webhook(&format!("https://example.com/{number}"), &["email.sent"]).await;
        }
        let body = json!({"endpoint": "https://example.com/", "events": ["email.sent"]});
        let refused = teller.app.post("/webhooks").key(&teller.key).json(body).send().await;
        assert!(refused.refused(422, "validation_error").contains("100 webhooks"));
        assert_eq!(teller.app.count("webhooks").await, 100);
    }

    async fn an_event_goes_to_everybody_who_listens_signed_and_under_one_id(store: Store) {
        let teller = Teller::open(&store).await;
        let (one, other, deaf) = (Listener::new(&[200]).await, Listener::new(&[204]).await, Listener::new(&[200]).await);
        let webhook = teller.webhook(&one.url, &["topic.created"]).await;
        teller.webhook(&other.url, &["topic.created", "email.sent"]).await;
        teller.webhook(&deaf.url, &["email.sent"]).await;
        let topic = teller.topic("News").await;
        assert_eq!(teller.deliver().await, 2);
        let (heard, others) = (one.heard(), other.heard());
        assert_eq!((heard.len(), others.len(), deaf.heard().len()), (1, 1, 0));
        let event = teller.events(id(&webhook)).await.remove(0);
        assert_eq!(event, json!({"id": id(&event), "type": "topic.created", "created_at": "2026-01-02T03:04:05.678901Z",
            "status": "success"}));
        assert_eq!(body(&heard[0]), json!({"type": "topic.created", "created_at": "2026-01-02T03:04:05.678901Z", "data": {
            "id": topic, "name": "News", "description": null, "default_subscription": "opt_in", "visibility": "private",
            "deleted": false, "created_at": "2026-01-02T03:04:05.678901Z", "updated_at": "2026-01-02T03:04:05.678901Z",
        }}));
        let (head, message) = (&heard[0].0, format!("msg_{}", id(&event)));
        for name in ["webhook-id", "svix-id"] {
            assert_eq!((header(head, name), header(&others[0].0, name)), (message.clone(), message.clone()));
        }
        let secret = text(&webhook, "signing_secret");
        for name in ["webhook-signature", "svix-signature"] {
            assert!(is_signed(secret, &heard[0], &header(head, name)));
            assert!(!is_signed(secret, &others[0], &header(&others[0].0, name)), "each has a secret of its own");
        }
        assert_eq!(header(head, "svix-timestamp"), header(head, "webhook-timestamp"));
        assert_eq!(teller.deliver().await, 0, "once is enough");
    }

    async fn what_fails_is_tried_again_by_the_schedule_and_then_given_up(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[500, 302, 404, 429, 503, 500, 500, 500]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        let webhook = id(&webhook);
        teller.topic("News").await;
        let waits = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR];
        for (failures, wait) in (1..).zip(waits) {
            assert_eq!(teller.deliver().await, 1);
            assert_eq!(listener.heard().len(), failures);
            assert_eq!(statuses(&teller.events(webhook).await), ["pending"]);
            teller.app.clock.advance(wait - 1);
            assert_eq!(teller.deliver().await, 0, "not before its time");
            teller.app.clock.advance(wait / 10 + 1);
        }
        assert_eq!(teller.deliver().await, 1);
        teller.app.clock.advance(DAY);
        assert_eq!(teller.deliver().await, 0);
        let events = teller.events(webhook).await;
        assert_eq!((statuses(&events), listener.heard().len()), (vec!["failed"], 8));
        let ids: Vec<String> = listener.heard().iter().map(|(head, _)| header(head, "webhook-id")).collect();
        assert_eq!(ids, vec![format!("msg_{}", id(&events[0])); 8]);
        let attempts = teller.attempts(webhook, id(&events[0])).await;
        let codes: Vec<i64> = attempts.iter().filter_map(|attempt| attempt["http_status_code"].as_i64()).collect();
        assert_eq!(codes, [500, 500, 500, 503, 429, 404, 302, 500], "newest first");
        assert_eq!((&attempts[7]["response"], &attempts[7]["error"]), (&json!("{}"), &json!("the answer was 500")));
        let shown = teller.get(&format!("/webhooks/{webhook}/events/{}", id(&events[0]))).await;
        assert_eq!((&shown["object"], &shown["next_attempt_at"]), (&json!("webhook_event"), &Value::Null));
        assert_eq!(shown["payload"], body(&listener.heard()[0]));
    }

    async fn an_event_is_replayed_under_its_id(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[500, 200]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        let webhook = id(&webhook);
        teller.topic("News").await;
        teller.deliver().await;
        let event = id(&teller.events(webhook).await[0]).to_owned();
        let shown = teller.get(&format!("/webhooks/{webhook}/events/{event}")).await;
        assert!(text(&shown, "next_attempt_at") > "2026-01-02T03:04:10", "{shown}");
        let again = teller.post(&format!("/webhooks/{webhook}/events/{event}/replay")).await;
        assert_eq!((again.status, again.json()), (200, json!({"object": "webhook_event", "id": event})));
        assert_eq!((teller.deliver().await, statuses(&teller.events(webhook).await)), (1, vec!["success"]));
        assert_eq!(teller.post(&format!("/webhooks/{webhook}/events/msg_{event}/replay")).await.status, 200);
        assert_eq!(teller.deliver().await, 1, "also what has arrived");
        assert_eq!(teller.attempts(webhook, &event).await.len(), 3);
        teller.post(&format!("/webhooks/{webhook}/events/{NOBODY}/replay")).await.refused(404, "not_found");
        teller.patch(webhook, json!({"status": "disabled"})).await;
        teller.post(&format!("/webhooks/{webhook}/events/{event}/replay")).await.refused(409, "validation_error");
    }

    async fn nothing_is_kept_for_one_that_is_disabled(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[200]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        let webhook = id(&webhook);
        teller.topic("Before").await;
        teller.patch(webhook, json!({"status": "disabled"})).await;
        teller.topic("Meanwhile").await;
        teller.deliver().await;
        assert_eq!((listener.heard().len(), statuses(&teller.events(webhook).await)), (0, vec!["failed"]));
        teller.patch(webhook, json!({"status": "enabled"})).await;
        teller.topic("After").await;
        assert_eq!((teller.deliver().await, listener.heard().len()), (1, 1));
        assert_eq!(body(&listener.heard()[0])["data"]["name"], "After");
        assert_eq!(teller.app.count("webhook_events").await, 2, "where nobody listens, nothing is written");
        let path = format!("/webhooks/{webhook}");
        teller.topic("Last").await;
        assert_eq!(teller.app.delete(&path).key(&teller.key).send().await.status, 200);
        teller.deliver().await;
        assert_eq!(listener.heard().len(), 1, "nor for one that is gone");
    }

    async fn whoever_answers_410_is_disabled_and_the_owners_are_told(store: Store) {
        let teller = Teller::open(&store).await;
        let owner = teller.app.owner().await;
        let listener = Listener::new(&[410]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        let webhook = id(&webhook);
        teller.topic("News").await;
        assert_eq!(teller.deliver().await, 1);
        let shown = teller.get(&format!("/webhooks/{webhook}")).await;
        assert_eq!((&shown["status"], &shown["disabled_reason"]), (&json!("disabled"), &json!("The endpoint answered 410 Gone.")));
        assert_eq!(statuses(&teller.events(webhook).await), ["failed"]);
        let mails = store.rows("SELECT subject FROM emails").await;
        assert_eq!(mails, [[Some("A webhook was disabled".to_owned())]]);
        let alert = "1 webhook is disabled, because calls to it kept failing. <a href=\"/dashboard/webhooks\">";
        let overview = async || teller.app.see("/dashboard/", &owner).await.text();
        assert!(overview().await.contains(alert), "{}", overview().await);
        teller.patch(webhook, json!({"status": "enabled"})).await;
        assert_eq!(teller.get(&format!("/webhooks/{webhook}")).await.get("disabled_reason"), None);
        assert!(!overview().await.contains("kept failing"));
    }

    async fn five_days_of_failures_disable_it_and_one_success_counts_anew(store: Store) {
        let teller = Teller::open(&store).await;
        teller.app.owner().await;
        let listener = Listener::new(&[500, 200, 500]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        let webhook = id(&webhook);
        let status = async || text(&teller.get(&format!("/webhooks/{webhook}")).await, "status").to_owned();
        teller.topic("One").await;
        teller.deliver().await;
        teller.app.clock.advance(6 * DAY);
        assert_eq!(teller.deliver().await, 1);
        assert_eq!(statuses(&teller.events(webhook).await), ["success"]);
        for _ in 0..5 {
            teller.topic("More").await;
            teller.deliver().await;
            assert_eq!(status().await, "enabled");
            teller.app.clock.advance(DAY);
        }
        teller.topic("Last").await;
        teller.deliver().await;
        assert_eq!(status().await, "disabled");
        assert_eq!(store.rows("SELECT subject FROM emails").await.len(), 1, "the owners are told once");
        teller.app.clock.advance(DAY);
        teller.deliver().await;
        let pending = "SELECT COUNT(*) FROM webhook_deliveries WHERE due_at IS NOT NULL";
        assert_eq!(store.rows(pending).await[0][0].as_deref(), Some("0"), "nothing waits in vain");
    }

    async fn a_new_secret_signs_beside_the_old_one_for_a_day(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[200]).await;
        let made = teller.webhook(&listener.url, &["topic.created"]).await;
        let (webhook, old) = (id(&made), text(&made, "signing_secret"));
        let rotated = teller.post(&format!("/webhooks/{webhook}/signing-secret/rotate")).await;
        assert_eq!(rotated.status, 200, "{}", rotated.text());
        let rotated = rotated.json();
        let new = text(&rotated, "signing_secret");
        assert_eq!(rotated, json!({"object": "webhook", "id": webhook, "signing_secret": new}));
        assert!(new != old && text(&teller.get(&format!("/webhooks/{webhook}")).await, "signing_secret") == new);
        let signatures = async || {
            teller.topic("News").await;
            teller.deliver().await;
            let heard = listener.heard().pop().expect("a delivery");
            let header = header(&heard.0, "webhook-signature");
            let by = |secret: &str| header.split(' ').any(|one| is_signed(secret, &heard, one));
            (by(new), by(old))
        };
        assert_eq!(signatures().await, (true, true));
        teller.app.clock.advance(DAY);
        assert_eq!(signatures().await, (true, false));
    }

    async fn a_private_address_is_not_called_unless_that_is_allowed(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[200]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        let strict = Teller::new(TestApp::open(&store, &[]).await).await;
        strict.topic("News").await;
        assert_eq!(strict.deliverer.round().await.expect("a round"), 1);
        assert_eq!(listener.heard().len(), 0);
        let event = teller.events(id(&webhook)).await.remove(0);
        let attempt = teller.attempts(id(&webhook), id(&event)).await.remove(0);
        assert_eq!(attempt["http_status_code"], 0);
        assert!(text(&attempt, "error").contains("public internet"), "{attempt}");
    }

    async fn nothing_is_delivered_while_the_store_is_on_hold(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[200]).await;
        teller.webhook(&listener.url, &["topic.created"]).await;
        teller.topic("News").await;
        teller.app.app.db.commit(hold::set(&teller.app.clock, "a test")).await.expect("a hold");
        assert_eq!((teller.deliver().await, listener.heard().len()), (0, 0));
        teller.app.app.db.commit(hold::release()).await.expect("no hold");
        assert_eq!((teller.deliver().await, listener.heard().len()), (1, 1));
    }

    async fn an_event_of_another_workspace_is_not_heard_or_shown(store: Store) {
        let teller = Teller::open(&store).await;
        let (mine, other) = (Listener::new(&[200]).await, Listener::new(&[200]).await);
        let theirs = teller.app.second_workspace_key().await;
        let webhook = teller.webhook(&mine.url, &["topic.created"]).await;
        let webhook = id(&webhook);
        let body = json!({"endpoint": other.url, "events": ["topic.created"]});
        assert_eq!(teller.app.post("/webhooks").key(&theirs).json(body).send().await.status, 201);
        teller.topic("News").await;
        assert_eq!((teller.deliver().await, other.heard().len()), (1, 0));
        let event = id(&teller.events(webhook).await[0]).to_owned();
        for path in ["", "/events", &format!("/events/{event}"), &format!("/events/{event}/attempts")] {
            let path = format!("/webhooks/{webhook}{path}");
            teller.app.get(path).key(&theirs).send().await.refused(404, "not_found");
        }
        for path in ["signing-secret/rotate", &format!("events/{event}/replay")] {
            let path = format!("/webhooks/{webhook}/{path}");
            teller.app.post(path).key(&theirs).send().await.refused(404, "not_found");
        }
        assert_eq!(teller.deliver().await, 0);
    }

    async fn what_an_app_made_stops_with_its_grant_until_somebody_enables_it(store: Store) {
        let teller = Teller::open(&store).await;
        let owner = teller.app.owner().await;
        let client = teller.app.client(app_named("Guest")).await;
        let tokens = teller.app.tokens(&client, &owner).await;
        let listener = Listener::new(&[200]).await;
        let body = json!({"endpoint": listener.url, "events": ["topic.created"]});
        let made = teller.app.post("/webhooks").key(text(&tokens, "access_token")).json(body).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        let webhook = id(&made.json()).to_owned();
        teller.topic("One").await;
        assert_eq!(teller.deliver().await, 1);
        teller.topic("Two").await;
        let grant = id(&teller.get("/oauth/grants").await["data"][0]).to_owned();
        assert_eq!(teller.app.delete(format!("/oauth/grants/{grant}")).key(&teller.key).send().await.status, 200);
        let shown = teller.get(&format!("/webhooks/{webhook}")).await;
        assert_eq!((text(&shown, "status"), text(&shown, "disabled_reason")),
            ("disabled", "The app that made or changed it has no access any more."));
        teller.topic("Three").await;
        teller.deliver().await;
        assert_eq!(listener.heard().len(), 1);
        teller.patch(&webhook, json!({"status": "enabled"})).await;
        teller.topic("Four").await;
        assert_eq!((teller.deliver().await, listener.heard().len()), (1, 2));
    }

    async fn what_is_older_than_it_is_kept_is_forgotten(store: Store) {
        let teller = Teller::open(&store).await;
        let listener = Listener::new(&[200]).await;
        let webhook = teller.webhook(&listener.url, &["topic.created"]).await;
        teller.topic("Old").await;
        teller.deliver().await;
        teller.app.clock.advance(20 * DAY);
        teller.topic("New").await;
        teller.deliver().await;
        teller.app.clock.advance(11 * DAY);
        webhooks::sweep(&teller.app.app).await.expect("a sweep");
        let events = teller.events(id(&webhook)).await;
        assert_eq!(events.len(), 1);
        for table in ["webhook_events", "webhook_deliveries", "webhook_attempts"] {
            assert_eq!(teller.app.count(table).await, 1, "{table}");
        }
    }

    async fn what_was_not_begun_when_it_is_time_to_stop_is_somebody_elses_at_once(store: Store) {
        let (teller, listener) = (Teller::open(&store).await, Listener::new(&[200]).await);
        teller.webhook(&listener.url, &["topic.created"]).await;
        for number in 0..30 {
            teller.topic(&format!("Topic {number}")).await;
        }
        assert_eq!(teller.deliverer.round().await.expect("a round"), 1, "it has to answer first");
        teller.stop.send_replace(true);
        assert_eq!((teller.deliverer.round().await.expect("a round"), listener.heard().len()), (29, 1));
        teller.stop.send_replace(false);
        assert_eq!(teller.deliver().await, 29);
        let mut ids: Vec<String> = listener.heard().iter().map(|(head, _)| header(head, "webhook-id")).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), listener.heard().len()), (30, 30), "each once");
    }

    async fn one_that_does_not_answer_holds_up_no_other(store: Store) {
        let teller = Teller::open(&store).await;
        let closed = "http://127.0.0.1:9/";
        let listener = Listener::new(&[200]).await;
        for _ in 0..3 {
            teller.webhook(closed, &["topic.created"]).await;
        }
        teller.webhook(&listener.url, &["topic.created"]).await;
        for number in 0..20 {
            teller.topic(&format!("Topic {number}")).await;
        }
        teller.deliver().await;
        assert_eq!(listener.heard().len(), 20);
        let paused = store.rows("SELECT COUNT(*) FROM call_pauses").await;
        assert_eq!(paused[0][0].as_deref(), Some("3"), "they are left alone for a while");
    }
}
