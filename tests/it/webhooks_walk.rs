//! Every type of event that webhooks can listen to is told by something, with what it should say.

use posthorn::clock::{DAY, HOUR, MINUTE, SECOND};
use posthorn::tracking;
use posthorn::webhooks::EventType;
use serde_json::{Value, json};

use crate::flow::{app_named, text};
use crate::harness::{TestApp, on_both};
use crate::inbound::{Hall, complaint};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::tracking::{READER, html_of, image, links};
use crate::webhooks::Teller;
use crate::webhooks_told::{listen, told};

const MAIL: &[&str] = &["email_id", "message_id", "from", "to", "subject", "created_at", "tags"];
const CONTACT: &[&str] = &["id", "email", "first_name", "last_name", "unsubscribed", "created_at", "updated_at"];
const DOMAIN: &[&str] = &["id", "name", "status", "region", "created_at"];
const TOPIC: &[&str] =
    &["id", "name", "description", "default_subscription", "visibility", "deleted", "created_at", "updated_at"];
const ENTRY: &[&str] = &["id", "email", "origin", "source_id", "created_at"];
const ENDED: &[&str] = &["id", "automation_id", "contact_id", "occurrence_id", "status", "created_at", "completed_at"];

/// What the data of an event holds: what many types share, and what is its own. Whoever adds a type says so here, and
/// lets it happen below.
fn fields(kind: EventType) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        EventType::EmailSent | EventType::EmailDelivered => (MAIL, &[]),
        EventType::EmailScheduled => (MAIL, &["scheduled_at"]),
        EventType::EmailDeliveryDelayed => (MAIL, &["delayed"]),
        EventType::EmailComplained => (MAIL, &["complaint"]),
        EventType::EmailBounced => (MAIL, &["bounce"]),
        EventType::EmailOpened => (MAIL, &["open"]),
        EventType::EmailClicked => (MAIL, &["click"]),
        EventType::EmailReceived => (
            &["email_id", "message_id", "from", "to", "subject", "created_at"],
            &["cc", "bcc", "received_for", "attachments", "authentication", "is_automatic"],
        ),
        EventType::EmailFailed => (MAIL, &["failed"]),
        EventType::EmailSuppressed => (MAIL, &["suppressed"]),
        EventType::ContactCreated | EventType::ContactUpdated | EventType::ContactDeleted => (CONTACT, &[]),
        EventType::ContactTopicsUpdated => (&["id", "email", "topics"], &[]),
        EventType::DomainCreated => (DOMAIN, &["records"]),
        EventType::DomainUpdated | EventType::DomainDeleted => (DOMAIN, &[]),
        EventType::SuppressionAdded | EventType::SuppressionRemoved => (ENTRY, &[]),
        EventType::TopicCreated | EventType::TopicUpdated | EventType::TopicDeleted => (TOPIC, &[]),
        EventType::RunStarted => (&["id", "automation_id", "occurrence_id", "event", "status", "created_at"], &[]),
        EventType::RunCompleted | EventType::RunFailed | EventType::RunCancelled => (ENDED, &[]),
        EventType::GrantCreated => (&["id", "client_id", "user_id", "scopes", "created_at"], &[]),
        EventType::GrantRevoked => (&["id", "revoked_at", "revoked_reason"], &[]),
    }
}

/// What some of them hold beyond that.
const SOMETIMES: &[&str] = &["template_id", "broadcast_id"];

const HTML: &str = "<body><a href=\"https://a.example/\">one</a></body>";

/// A process that lets everything happen.
struct World {
    hall: Hall,
    key: String,
}

impl World {
    async fn open(store: &Store) -> World {
        let sink = Sink::scripted(|said: &str| match said {
            to if to.contains("gone@") => Does::Says("550 5.1.1 no such user"),
            to if to.contains("late@") => Does::Says("451 4.7.1 come back"),
            _ => Does::Usual,
        });
        let hall = Hall::with(store, sink.await, &["--private-webhooks", "--inbound-listen=127.0.0.1:0"]).await;
        let key = hall.post.app.full_key().await;
        World { hall, key }
    }

    fn app(&self) -> &TestApp {
        &self.hall.post.app
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.app().request(method, path).key(&self.key).json(body).send().await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
        answer.json()
    }

    async fn deliver(&self) {
        while self.hall.post.round().await > 0 {}
    }

    /// Hands in a mail and lets it leave.
    async fn mail(&self, to: &str, more: Value) -> String {
        let mut body = json!({"from": "Ann <ann@sender.example>", "to": to, "subject": "Hello", "html": HTML,
            "tags": [{"name": "kind", "value": "walk"}]});
        for (name, value) in more.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let made = self.call("POST", "/emails", body).await;
        self.deliver().await;
        text(&made, "id").to_owned()
    }

    async fn mails(&self) {
        let template = json!({"name": "T", "alias": "t", "subject": "Hi", "from": "ann@sender.example", "html": HTML});
        crate::templates::published(self.app(), &self.key, template).await;
        self.mail("ada@example.com", json!({"html": null, "template": {"id": "t"}})).await;
        self.mail("gone@example.com", json!({})).await;
        self.mail("gone@example.com", json!({})).await;
        let path = self.hall.sink.kept().last().expect("it left").from.clone();
        self.hall.bring("loop@isp.example", &path, &complaint()).await;
        self.mail("ada@example.com", json!({"scheduled_at": "in 30 days"})).await;
        let received = "From: eve@else.example\r\nTo: box@in.example\r\nSubject: Hi\r\nMessage-ID: <1@else.example>\r\n\r\nHello\r\n";
        let reply = self.hall.bring("eve@else.example", "box@in.example", received).await;
        assert!(reply.starts_with("250 "), "{reply}");
    }

    async fn readers(&self) {
        self.mail("bob@example.com", json!({})).await;
        self.app().clock.advance(MINUTE);
        let html = html_of(self.hall.sink.kept().last().expect("it left"));
        for url in [image(&html), links(&html)[0].clone()] {
            let path = url.strip_prefix(crate::harness::BASE).expect("our own").to_owned();
            let visit = self.app().get(path).header("user-agent", READER).from("192.0.2.7").send().await;
            assert!(visit.status < 400, "{url}: {}", visit.text());
        }
        self.app().clock.advance(3 * SECOND);
        while tracking::round(self.app().app.occurrences()).await.expect("a round") > 0 {}
    }

    /// A mail that nobody takes, until it is given up.
    async fn late(&self) {
        let id = self.mail("late@example.com", json!({})).await;
        for _ in 0..200 {
            self.app().clock.advance(HOUR);
            self.deliver().await;
            if self.call("GET", &format!("/emails/{id}"), json!({})).await["last_event"] == "failed" {
                return;
            }
        }
        panic!("it is never given up");
    }

    async fn people(&self) {
        let topic = crate::topics::topic(self.app(), &self.key, "News", "opt_in").await;
        self.call("PATCH", &format!("/topics/{topic}"), json!({"name": "Other"})).await;
        crate::contacts::add(self.app(), &self.key, json!({"email": "cy@example.com"})).await;
        self.call("PATCH", "/contacts/cy@example.com", json!({"first_name": "Cy"})).await;
        let choices = json!([{"id": topic, "subscription": "opt_out"}]);
        self.call("PATCH", "/contacts/cy@example.com/topics", choices).await;
        self.call("DELETE", "/contacts/cy@example.com", json!({})).await;
        self.call("DELETE", &format!("/topics/{topic}"), json!({})).await;
        let domain = self.call("POST", "/domains", json!({"name": "acme.example"})).await;
        let path = format!("/domains/{}", text(&domain, "id"));
        self.call("PATCH", &path, json!({"open_tracking": true})).await;
        self.call("DELETE", &path, json!({})).await;
        self.call("DELETE", "/suppressions/gone@example.com", json!({})).await;
    }

    async fn apps(&self) {
        let (client, owner) = (self.app().client(app_named("Guest")).await, self.app().owner().await);
        self.app().tokens(&client, &owner).await;
        self.app().delete_client(&client).await;
    }
}

async fn runs(stage: &Stage) {
    let segment = "01890000-0000-7000-8000-0000000000f0";
    stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "A"}))]).await;
    stage.automation(&[Stage::trigger(), ("add_to_segment", json!({"segment_id": segment}))]).await;
    let waits = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "1 day"}))]).await;
    stage.send("user.created", "dan@example.com", json!({})).await;
    stage.work().await;
    let run = text(&stage.runs(&waits).await[0], "id").to_owned();
    assert_eq!(stage.post(&format!("/automations/{waits}/runs/{run}/cancel"), json!({})).await.status, 200);
}

on_both! {
    async fn issue_14_everything_that_webhooks_can_listen_to_is_told_with_what_it_should_say(store: Store) {
        let world = World::open(&store).await;
        let stage = Stage::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let teller = Teller::new(TestApp::open(&store, &["--private-webhooks", "--senders=any"]).await).await;
        let received = json!({"name": "in.example", "capabilities": {"receiving": "enabled"}});
        world.call("POST", "/domains", received).await;
        store.run("UPDATE domains SET is_owned = TRUE, open_tracking = TRUE, click_tracking = TRUE").await;
        let listener = listen(&teller).await;
        world.mails().await;
        world.readers().await;
        world.people().await;
        world.apps().await;
        runs(&stage).await;
        world.late().await;
        teller.app.clock.advance(10 * DAY);
        let told = told(&teller, &listener).await;
        for kind in EventType::ALL {
            let of_kind: Vec<&Value> = told.iter().filter(|(found, _)| found == kind.as_str()).map(|(_, data)| data).collect();
            assert!(!of_kind.is_empty(), "{kind} was never told: {:?}", told.iter().map(|(kind, _)| kind).collect::<Vec<_>>());
            let (shared, own) = fields(kind);
            for data in of_kind {
                let keys: Vec<&str> = data.as_object().expect("an object").keys().map(String::as_str).collect();
                let missing: Vec<_> = shared.iter().chain(own).filter(|name| !keys.contains(name)).collect();
                assert!(missing.is_empty(), "{kind} lacks {missing:?}: {data}");
                let is_unknown = |name: &&&str| !shared.contains(name) && !own.contains(name) && !SOMETIMES.contains(name);
                assert_eq!(keys.iter().filter(is_unknown).collect::<Vec<_>>(), Vec::<&&str>::new(), "{kind}: {data}");
            }
        }
        let of = |kind: &str, to: &str| told.iter().find(|(found, data)| found == kind && data["to"][0] == to).map(|(_, data)| data);
        let sent = of("email.sent", "ada@example.com").expect("told");
        let template = world.call("GET", "/templates/t", json!({})).await;
        assert_eq!((&sent["template_id"], &sent["tags"]), (&template["id"], &json!({"kind": "walk"})));
        let bounced = of("email.bounced", "gone@example.com").expect("told");
        assert_eq!((&bounced["bounce"]["type"], bounced["bounce"]["diagnosticCode"].is_array()), (&json!("Permanent"), true));
        let click = &of("email.clicked", "bob@example.com").expect("told")["click"];
        assert_eq!((&click["link"], &click["ipAddress"], &click["userAgent"]),
            (&json!("https://a.example/"), &json!("192.0.2.7"), &json!(READER)));
        assert!(click["timestamp"].is_string() && of("email.bounced", "bob@example.com").is_none(), "{click}");
    }

    async fn issue_14_mail_of_steps_and_broadcasts_names_its_template(store: Store) {
        let sink = Sink::open().await;
        let stage = crate::broadcasts::Stage::open(&store, &sink, 1).await;
        let relay = format!("--smtp-url={}", sink.url());
        let settings = [relay.as_str(), "--private-webhooks", "--senders=any"];
        let runs = Stage::new(TestApp::open(&store, &settings).await).await;
        let teller = Teller::new(TestApp::open(&store, &settings).await).await;
        let listener = listen(&teller).await;
        let template = json!({"name": "T", "alias": "t", "subject": "Hi", "from": "us@acme.example", "html": "<p>Hi</p>"});
        let id = crate::templates::published(&teller.app, &teller.key, template).await;
        let broadcast = stage.send(json!({"html": null, "template": {"id": "t"}})).await;
        stage.run().await;
        runs.automation(&[Stage::trigger(), ("send_email", json!({"template": {"id": "t"}}))]).await;
        runs.send("user.created", "ada@example.com", json!({})).await;
        runs.work().await;
        while stage.post.round().await > 0 {}
        teller.app.clock.advance(HOUR);
        let told = told(&teller, &listener).await;
        let of = |to: &str| told.iter().find(|(kind, data)| kind == "email.sent" && data["to"][0] == to).expect("told").1.clone();
        let (theirs, hers) = (of("p0@example.com"), of("ada@example.com"));
        assert_eq!((&theirs["template_id"], &theirs["broadcast_id"]), (&json!(id), &json!(broadcast)));
        assert_eq!((&hers["template_id"], hers.get("broadcast_id")), (&json!(id), None));
    }
}
