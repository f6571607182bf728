//! What webhooks are told: each event is in the commit of what it tells.

use std::time::Duration;

use posthorn::clock::{DAY, HOUR, MINUTE};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::delivery::Post;
use crate::dns::Dns;
use crate::engine_webhooks::Listener;
use crate::flow::{app_named, text};
use crate::harness::{TestApp, on_both};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::webhooks::Teller;

const SOON: Duration = Duration::from_secs(20);

/// Somebody who listens to everything.
pub async fn listen(teller: &Teller) -> Listener {
    let listener = Listener::new(&[200]).await;
    let description = teller.get("/openapi.json").await;
    let all = &description["components"]["schemas"]["WebhookEventType"]["enum"];
    let all: Vec<&str> = all.as_array().expect("types").iter().filter_map(Value::as_str).collect();
    assert!(all.len() >= 29, "{all:?}");
    teller.webhook(&listener.url, &all).await;
    listener
}

/// What came, in the order of the events: of those that happened at once, as they were told.
pub async fn told(teller: &Teller, listener: &Listener) -> Vec<(String, Value)> {
    teller.deliver().await;
    let mut heard: Vec<(String, Value)> = listener
        .heard()
        .iter()
        .map(|(head, body)| {
            (crate::engine_webhooks::header(head, "webhook-id"), serde_json::from_str(body).expect("JSON"))
        })
        .collect();
    heard.sort_by(|(one, _), (other, _)| one.cmp(other));
    heard.into_iter().map(|(_, body)| (text(&body, "type").to_owned(), body["data"].clone())).collect()
}

fn types(told: &[(String, Value)]) -> Vec<&str> {
    told.iter().map(|(kind, _)| kind.as_str()).collect()
}

async fn open(store: &Store) -> Teller {
    Teller::new(TestApp::open(store, &["--private-webhooks", "--senders=any"]).await).await
}

on_both! {
    async fn contacts_tell_what_happens_to_them(store: Store) {
        let teller = open(&store).await;
        let topic = teller.topic("News").await;
        let listener = listen(&teller).await;
        let (app, key) = (&teller.app, &teller.key);
        let path = "/contacts/ada@example.com";
        let id = crate::contacts::add(app, key, json!({"email": "ada@example.com", "properties": {"plan": "pro"}})).await;
        assert_eq!(app.patch(path).key(key).json(json!({"first_name": "Ada"})).send().await.status, 200);
        assert_eq!(app.patch(path).key(key).json(json!({"first_name": "Ada"})).send().await.status, 200, "nothing new");
        let choices = json!([{"id": topic, "subscription": "opt_out"}]);
        assert_eq!(app.patch(format!("{path}/topics")).key(key).json(choices).send().await.status, 200);
        assert_eq!(app.delete(path).key(key).send().await.status, 200);
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told), ["contact.created", "contact.updated", "contact.topics.updated", "contact.deleted"]);
        assert_eq!(told[0].1, json!({"id": id, "email": "ada@example.com", "first_name": null, "last_name": null,
            "unsubscribed": false, "created_at": "2026-01-02T03:04:05.678901Z", "updated_at": null}));
        assert_eq!(told[1].1["first_name"], "Ada");
        assert_eq!(told[2].1, json!({"id": id, "email": "ada@example.com", "topics": [{"id": topic, "subscription": "opt_out"}]}));
    }

    async fn an_event_that_makes_a_contact_tells_of_it_once(store: Store) {
        let teller = open(&store).await;
        let listener = listen(&teller).await;
        for _ in 0..2 {
            let body = json!({"event": "seen", "email": "new@example.com"});
            assert_eq!(teller.app.post("/events/send").key(&teller.key).json(body).send().await.status, 202);
        }
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told), ["contact.created"]);
        assert_eq!(told[0].1["email"], "new@example.com");
        let shown = teller.get("/contacts/new@example.com").await;
        assert_eq!(told[0].1["id"], shown["id"]);
    }

    async fn topics_domains_and_suppressions_tell_what_happens_to_them(store: Store) {
        let teller = open(&store).await;
        let listener = listen(&teller).await;
        let (app, key) = (&teller.app, &teller.key);
        let topic = teller.topic("News").await;
        let path = format!("/topics/{topic}");
        assert_eq!(app.patch(&path).key(key).json(json!({"name": "Other"})).send().await.status, 200);
        assert_eq!(app.delete(&path).key(key).send().await.status, 200);
        let domain = crate::domains::add(app, key, "acme.example").await;
        let path = format!("/domains/{}", text(&domain, "id"));
        assert_eq!(app.patch(&path).key(key).json(json!({"open_tracking": true})).send().await.status, 200);
        assert_eq!(app.delete(&path).key(key).send().await.status, 200);
        let domain = crate::domains::add(app, key, "page.example").await;
        let (owner, path) = (app.owner().await, format!("/domains/{}/delete", text(&domain, "id")));
        assert_eq!(app.fill(&owner, &path, &path, "").await.status, 303, "on its page");
        for _ in 0..2 {
            crate::suppressions::suppress(app, key, "no@example.com").await;
        }
        assert_eq!(app.delete("/suppressions/no@example.com").key(key).send().await.status, 200);
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told), ["topic.created", "topic.updated", "topic.deleted", "domain.created", "domain.updated",
            "domain.deleted", "domain.created", "domain.deleted", "suppression.added", "suppression.removed"]);
        assert_eq!((&told[1].1["name"], &told[2].1["deleted"]), (&json!("Other"), &json!(true)));
        assert!(told[3].1["records"].as_array().is_some_and(|records| !records.is_empty()), "{}", told[3].1);
        assert_eq!((&told[8].1["origin"], &told[8].1["id"]), (&json!("manual"), &told[9].1["id"]));
    }

    async fn a_domain_tells_what_looking_at_it_by_itself_has_changed(store: Store) {
        let dns = Dns::start().await;
        let server = dns.setting();
        let teller = Teller::new(TestApp::open(&store, &[&server, "--private-webhooks"]).await).await;
        let listener = listen(&teller).await;
        let (app, key) = (&teller.app, &teller.key);
        let domain = crate::domains::add(app, key, "acme.example").await;
        let path = format!("/domains/{}", text(&domain, "id"));
        crate::domains::publish(&dns, &domain);
        let (stop, stopping) = watch::channel(false);
        let working = tokio::spawn(posthorn::domains::run_checks(app.app.domains().clone(), stopping));
        // Nobody asks for a look: the time for one comes. Tells how the domain is by then.
        let look = async |later: i64| {
            let before = teller.get(&path).await["checked_at"].clone();
            app.clock.advance(later);
            let look = async {
                loop {
                    let now = teller.get(&path).await;
                    if now["checked_at"] != before {
                        return text(&now, "status").to_owned();
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(SOON, look).await.expect("a look")
        };
        assert_eq!(look(MINUTE).await, "verified");
        assert_eq!(look(DAY).await, "verified", "and nothing has changed");
        // A record that is missing is believed to be gone after a day.
        dns.forget("posthorn._domainkey.acme.example");
        assert_eq!((look(DAY).await.as_str(), look(HOUR).await.as_str()), ("verified", "verified"));
        assert_eq!(look(DAY).await, "failed");
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told), ["domain.created", "domain.updated", "domain.updated"]);
        assert_eq!((&told[1].1["status"], &told[2].1["status"]), (&json!("verified"), &json!("failed")));
        let records = told[2].1["records"].as_array().expect("records").iter();
        let gone: Vec<&str> = records.filter(|one| one["status"] == "failed").map(|one| text(one, "name")).collect();
        assert_eq!(gone, ["posthorn._domainkey.acme.example"]);
        stop.send_replace(true);
        working.await.expect("no panic");
    }

    async fn mails_tell_what_becomes_of_them_for_each_recipient(store: Store) {
        let refuses = |to: &str| if to.contains("gone@") { Does::Says("550 5.1.1 no such user") } else { Does::Usual };
        let sink = Sink::scripted(refuses).await;
        let relay = format!("--smtp-url={}", sink.url());
        let settings = [relay.as_str(), "--smtp-timeout-factor=0.01", "--senders=any", "--private-webhooks"];
        let post = Post::open(&store, &settings).await;
        let teller = Teller::new(TestApp::open(&store, &settings).await).await;
        let listener = listen(&teller).await;
        let body = json!({"from": "Ann <ann@acme.example>", "to": ["ada@example.com", "gone@example.com"], "subject": "Hello",
            "text": "Hi", "tags": [{"name": "kind", "value": "hello"}]});
        let id = crate::emails::sent(&teller.app, &teller.key, body).await;
        while post.round().await > 0 {}
        let told = told(&teller, &listener).await;
        let of = |kind: &str| told.iter().find(|(found, _)| found == kind).map(|(_, data)| data.clone()).expect("told");
        let mut all = types(&told);
        all.sort_unstable();
        assert_eq!(all, ["email.bounced", "email.delivered", "email.sent", "suppression.added"]);
        assert_eq!(of("email.sent"), json!({
            "email_id": id, "message_id": format!("<{id}@acme.example>"), "from": "Ann <ann@acme.example>",
            "to": ["ada@example.com"], "subject": "Hello", "created_at": "2026-01-02T03:04:05.678901Z",
            "tags": {"kind": "hello"},
        }));
        let bounced = of("email.bounced");
        assert_eq!((&bounced["to"], &bounced["bounce"]["type"]), (&json!(["gone@example.com"]), &json!("Permanent")));
        assert_eq!((&of("suppression.added")["origin"], &of("suppression.added")["source_id"]), (&json!("bounce"), &json!(id)));
    }

    async fn a_mail_that_is_scheduled_is_told(store: Store) {
        let teller = open(&store).await;
        let listener = listen(&teller).await;
        let body = json!({"from": "ann@acme.example", "to": "ada@example.com", "subject": "Later", "text": "Hi",
            "scheduled_at": "2026-01-03T00:00:00Z"});
        let id = crate::emails::sent(&teller.app, &teller.key, body).await;
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told), ["email.scheduled"]);
        assert_eq!((&told[0].1["email_id"], &told[0].1["to"]), (&json!(id), &json!(["ada@example.com"])));
    }

    async fn runs_tell_when_they_begin_and_how_they_end(store: Store) {
        let stage = Stage::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let teller = open(&store).await;
        let listener = listen(&teller).await;
        let done = stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "A"}))]).await;
        let waits = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 day"}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        stage.work().await;
        let run = text(&stage.runs(&waits).await[0], "id").to_owned();
        let cancel = format!("/automations/{waits}/runs/{run}/cancel");
        assert_eq!(stage.app.post(cancel).key(&stage.key).send().await.status, 200);
        let told = told(&teller, &listener).await;
        let runs: Vec<(&str, &Value)> = told
            .iter()
            .filter(|(kind, _)| kind.starts_with("automation."))
            .map(|(kind, data)| (kind.as_str(), &data["automation_id"]))
            .collect();
        assert_eq!(runs.len(), 4, "{runs:?}");
        for one in [("automation.run.started", &json!(done)), ("automation.run.started", &json!(waits)),
            ("automation.run.completed", &json!(done)), ("automation.run.cancelled", &json!(waits))] {
            assert!(runs.contains(&one), "{one:?} in {runs:?}");
        }
    }

    async fn a_run_that_may_not_begin_is_not_told(store: Store) {
        let stage = Stage::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let teller = open(&store).await;
        let listener = listen(&teller).await;
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 day"}))];
        stage.automation_with(&steps, json!({"re_entry": "once_per_contact"})).await;
        for _ in 0..2 {
            stage.send("user.created", "a@example.com", json!({})).await;
        }
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told).into_iter().filter(|kind| kind.starts_with("automation.")).count(), 1);
    }

    async fn grants_tell_when_they_begin_and_end(store: Store) {
        let teller = open(&store).await;
        let listener = listen(&teller).await;
        let owner = teller.app.owner().await;
        let client = teller.app.client(app_named("Guest")).await;
        teller.app.tokens(&client, &owner).await;
        let grant = text(&teller.get("/oauth/grants").await["data"][0], "id").to_owned();
        let path = format!("/oauth/grants/{grant}");
        assert_eq!(teller.app.delete(&path).key(&teller.key).send().await.status, 200);
        teller.app.delete(&path).key(&teller.key).send().await.refused(404, "not_found");
        let told = told(&teller, &listener).await;
        assert_eq!(types(&told), ["oauth.grant.created", "oauth.grant.revoked"]);
        assert_eq!((&told[0].1["client_id"], &told[1].1["revoked_reason"]), (&json!(client), &json!("revoked_from_api")));
        assert_eq!((&told[0].1["id"], &told[1].1["id"]), (&json!(grant), &json!(grant)));
    }
}
