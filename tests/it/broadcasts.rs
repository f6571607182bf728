//! Broadcasts: to everybody in a segment, once, and to nobody who does not want it at the moment at which it leaves.

use posthorn::broadcasts;
use posthorn::clock::{DAY, HOUR, MINUTE, SECOND};
use posthorn::credentials::Permission;
use serde_json::{Value, json};

use crate::delivery::Post;
use crate::harness::{TestApp, on_both};
use crate::sink::{Does, Sink, Taken};
use crate::store::Store;

/// A process with a segment and people in it.
pub struct Stage {
    pub post: Post,
    pub key: String,
    pub segment: String,
}

impl Stage {
    pub async fn open(store: &Store, sink: &Sink, people: usize) -> Stage {
        Stage::of(Post::relaying(store, sink).await, people).await
    }

    pub async fn of(post: Post, people: usize) -> Stage {
        let key = post.app.full_key().await;
        let made = post.app.post("/segments").key(&key).json(json!({"name": "All"})).send().await.json();
        let segment = made["id"].as_str().expect("an id").to_owned();
        let stage = Stage { post, key, segment };
        for number in 0..people {
            stage.add(&format!("p{number}@example.com"), json!({})).await;
        }
        stage
    }

    pub async fn add(&self, email: &str, more: Value) -> String {
        let mut contact = json!({"email": email, "segments": [{"id": self.segment}]});
        contact.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let made = self.call("POST", "/contacts", contact).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    pub async fn try_call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let answer = self.post.app.request(method, path).key(&self.key).json(body).send().await;
        (answer.status, answer.json())
    }

    pub async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.try_call(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    pub fn fields(&self, more: Value) -> Value {
        let mut fields = json!({
            "segment_id": self.segment, "from": "News <news@sender.example>", "subject": "Hello {{{FIRST_NAME|you}}}",
            "html": "<p>Hi {{{FIRST_NAME|there}}}</p><a href=\"{{{UNSUBSCRIBE_URL}}}\">no more</a>",
        });
        fields.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        fields
    }

    /// Makes one and sends it.
    pub async fn send(&self, more: Value) -> String {
        let mut fields = self.fields(more);
        fields["send"] = json!(true);
        self.call("POST", "/broadcasts", fields).await["id"].as_str().expect("an id").to_owned()
    }

    pub async fn read(&self, id: &str) -> Value {
        self.post.app.clock.advance(SECOND);
        self.call("GET", &format!("/broadcasts/{id}"), json!({})).await
    }

    /// One look at broadcasts that are due.
    pub async fn take(&self) -> usize {
        broadcasts::audience_round(self.post.app.app.broadcasts()).await.expect("a round")
    }

    /// Takes the audience, and delivers until nothing is due any more.
    pub async fn run(&self) {
        self.take().await;
        while self.post.round().await > 0 {}
        self.post.app.clock.advance(2 * SECOND);
        self.take().await;
    }

    /// The same for one that has been under way for hours: that it is over is looked for once a minute.
    pub async fn run_on(&self) {
        self.run().await;
        self.post.app.clock.advance(MINUTE);
        self.take().await;
    }

    async fn recipients(&self, id: &str, kind: &str) -> Vec<Value> {
        let path = format!("/broadcasts/{id}/recipients?type={kind}&limit=100");
        self.call("GET", &path, json!({})).await["data"].as_array().expect("a list").clone()
    }
}

pub fn addresses(sink: &Sink) -> Vec<String> {
    let mut addresses: Vec<String> = sink.kept().into_iter().map(|taken| taken.to).collect();
    addresses.sort();
    addresses
}

fn mail_to(sink: &Sink, address: &str) -> Taken {
    sink.kept().into_iter().find(|taken| taken.to == address).expect("a mail")
}

/// A field of a message's head, unfolded.
pub fn field(text: &str, name: &str) -> Option<String> {
    let head = text.split("\r\n\r\n").next()?.replace("\r\n ", " ").replace("\r\n\t", " ");
    let found = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{}:", name.to_lowercase())));
    found.map(|line| line.split_once(':').expect("a field").1.trim().to_owned())
}

on_both! {
    async fn everybody_in_the_segment_gets_a_mail_of_his_own(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        stage.add("ada@example.com", json!({"first_name": "Ada <3", "properties": {"plan": "pro"}})).await;
        let id = stage.send(json!({"html": "<p>{{{FIRST_NAME|there}}} {{{contact.plan}}}</p>{{{UNSUBSCRIBE_URL}}}"})).await;
        assert_eq!(stage.read(&id).await["state"], "preparing");
        stage.run().await;
        assert_eq!(addresses(&sink), ["ada@example.com", "p0@example.com", "p1@example.com", "p2@example.com"]);
        let ada = mail_to(&sink, "ada@example.com").text;
        assert_eq!(field(&ada, "To").as_deref(), Some("ada@example.com"));
        assert!(ada.contains("<p>Ada &lt;3 pro</p>") && field(&ada, "Subject").expect("one").contains("Ada <3"), "{ada}");
        assert!(mail_to(&sink, "p0@example.com").text.contains("<p>there </p>"));
        let ids: Vec<String> = sink.kept().iter().map(|taken| field(&taken.text, "Message-ID").expect("one")).collect();
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 4, "{ids:?}");
        for taken in sink.kept() {
            let link = field(&taken.text, "List-Unsubscribe").expect("a link");
            assert!(link.starts_with("<https://mail.example/unsubscribe/"), "{link}");
            assert_eq!(field(&taken.text, "List-Unsubscribe-Post").as_deref(), Some("List-Unsubscribe=One-Click"));
            let feedback_id = field(&taken.text, "Feedback-ID").expect("one");
            assert!(feedback_id.starts_with(&format!("{id}:")) && feedback_id.ends_with(":broadcast:posthorn"));
        }
        let read = stage.read(&id).await;
        assert_eq!((&read["status"], &read["state"]), (&json!("sent"), &json!("sent")));
        assert_eq!(read["progress"]["counts"]["delivered"], 4);
        assert!(read["started_at"].is_string() && read["ended_at"] == read["sent_at"]);
        // Each has an id of its own, by which it is found.
        let listed = stage.recipients(&id, "delivered").await;
        assert_eq!(listed.len(), 4);
        for one in listed {
            let own = one["id"].as_str().expect("an id");
            let mail = stage.call("GET", &format!("/emails/{own}"), json!({})).await;
            assert_eq!((&mail["to"][0], &mail["last_event"]), (&one["email"], &json!("delivered")));
            assert!(ids.contains(&mail["message_id"].as_str().expect("an id").to_owned()), "{mail}");
        }
    }

    async fn who_does_not_want_it_is_left_out_of_the_audience(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let topic = json!({"name": "News", "default_subscription": "opt_in"});
        let topic = stage.call("POST", "/topics", topic).await["id"].as_str().expect("an id").to_owned();
        stage.add("gone@example.com", json!({"unsubscribed": true})).await;
        stage.add("out@example.com", json!({"topics": [{"id": topic, "subscription": "opt_out"}]})).await;
        stage.add("listed@example.com", json!({})).await;
        stage.add("u@xn--bcher-kva.example", json!({})).await;
        stage.add("u@bücher.example", json!({})).await;
        let (workspace, now) = (stage.post.app.workspace().await, stage.post.app.clock.now());
        let (workspace, some) = (store.id(workspace), store.id(stage.post.app.clock.ordered_id::<uuid::Uuid>()));
        store.run(&format!("INSERT INTO suppressions (workspace_id, email_key, id, email, origin, created_at)
            VALUES ({workspace}, 'listed@example.com', {some}, 'listed@example.com', 'manual', {now})")).await;
        let id = stage.send(json!({"topic_id": topic})).await;
        stage.run().await;
        assert_eq!(addresses(&sink), ["p0@example.com", "u@xn--bcher-kva.example"]);
        let left_out = stage.read(&id).await["progress"]["left_out"].clone();
        assert_eq!(left_out, json!({"duplicate": 1, "opted_out": 1, "suppressed": 1, "unsubscribed": 1}));
    }

    async fn who_stops_wanting_it_after_the_audience_was_taken_gets_none(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 6).await;
        let topic = json!({"name": "News", "default_subscription": "opt_in"});
        let topic = stage.call("POST", "/topics", topic).await["id"].as_str().expect("an id").to_owned();
        let id = stage.send(json!({"topic_id": topic})).await;
        stage.take().await;
        stage.call("PATCH", "/contacts/p0@example.com", json!({"unsubscribed": true})).await;
        let choice = json!([{"id": topic, "subscription": "opt_out"}]);
        stage.call("PATCH", "/contacts/p1@example.com/topics", json!({"topics": choice})).await;
        stage.call("DELETE", "/contacts/p2@example.com", json!({})).await;
        stage.call("DELETE", &format!("/contacts/p3@example.com/segments/{}", stage.segment), json!({})).await;
        let workspace = store.id(stage.post.app.workspace().await);
        let some = store.id(stage.post.app.clock.ordered_id::<uuid::Uuid>());
        store.run(&format!("INSERT INTO suppressions (workspace_id, email_key, id, email, origin, created_at)
            VALUES ({workspace}, 'p4@example.com', {some}, 'p4@example.com', 'manual', 0)")).await;
        stage.run().await;
        // Who left the segment was in it when it was taken.
        assert_eq!(addresses(&sink), ["p3@example.com", "p5@example.com"]);
        let suppressed = stage.recipients(&id, "suppressed").await;
        let why = |email: &str| {
            let one = suppressed.iter().find(|one| one["email"] == email).expect("listed");
            one["reason"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(suppressed.len(), 4, "{suppressed:?}");
        assert!(why("p0@example.com").contains("unsubscribed") && why("p1@example.com").contains("topic"));
        assert!(why("p2@example.com").contains("deleted"));
        assert_eq!(stage.read(&id).await["state"], "sent");
    }

    async fn who_stops_wanting_it_between_two_attempts_gets_none(store: Store) {
        let sink = Sink::scripted(|command| match command.starts_with("RCPT") {
            true => Does::Says("451 later"),
            false => Does::Usual,
        }).await;
        let stage = Stage::open(&store, &sink, 4).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.post.round().await;
        stage.call("PATCH", "/contacts/p0@example.com", json!({"unsubscribed": true})).await;
        stage.call("DELETE", "/contacts/p1@example.com", json!({})).await;
        let workspace = store.id(stage.post.app.workspace().await);
        let some = store.id(stage.post.app.clock.ordered_id::<uuid::Uuid>());
        store.run(&format!("INSERT INTO suppressions (workspace_id, email_key, id, email, origin, created_at)
            VALUES ({workspace}, 'p2@example.com', {some}, 'p2@example.com', 'manual', 0)")).await;
        stage.post.app.clock.advance(HOUR);
        stage.post.round().await;
        assert_eq!(stage.recipients(&id, "suppressed").await.len(), 3);
        assert_eq!(stage.read(&id).await["state"], "sending", "one is still tried");
        assert_eq!(store.count("email_values").await, 1, "what is over is not kept");
    }

    async fn every_attempt_is_the_same_to_the_byte_whatever_changes_meanwhile(store: Store) {
        let is_busy = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let busy = is_busy.clone();
        let sink = Sink::scripted(move |command| match command == "." && busy.load(std::sync::atomic::Ordering::SeqCst) {
            true => Does::Says("451 later"),
            false => Does::Usual,
        }).await;
        let stage = Stage::open(&store, &sink, 0).await;
        stage.add("ada@example.com", json!({"first_name": "Ada"})).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.post.round().await;
        let first = sink.kept().pop().map(|taken| taken.text);
        stage.call("PATCH", "/contacts/ada@example.com", json!({"first_name": "Augusta"})).await;
        is_busy.store(false, std::sync::atomic::Ordering::SeqCst);
        stage.post.app.clock.advance(HOUR);
        stage.post.round().await;
        let kept = sink.kept();
        let last = &kept.last().expect("a mail").text;
        assert!(last.contains("Hi Ada<"), "{last}");
        assert!(first.is_none_or(|first| first == *last), "both attempts are the same");
        assert_eq!(store.count("email_values").await, 0);
        assert_eq!(stage.recipients(&id, "delivered").await.len(), 1);
    }

    async fn what_is_paused_rests_and_goes_on_where_it_stood(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.call("POST", &format!("/broadcasts/{id}/pause"), json!({})).await;
        assert_eq!((stage.post.round().await, sink.kept().len()), (0, 0));
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["status"]), (&json!("paused"), &json!("queued")));
        assert_eq!(stage.try_call("POST", &format!("/broadcasts/{id}/pause"), json!({})).await.0, 409);
        stage.call("POST", &format!("/broadcasts/{id}/resume"), json!({})).await;
        stage.run().await;
        assert_eq!(sink.kept().len(), 3);
        assert_eq!(stage.read(&id).await["state"], "sent");
        assert_eq!(stage.try_call("POST", &format!("/broadcasts/{id}/resume"), json!({})).await.0, 409);
    }

    async fn what_is_canceled_is_not_sent_any_more(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        stage.call("POST", &format!("/broadcasts/{id}/cancel"), json!({})).await;
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["progress"]["counts"]["canceled"]), (&json!("canceled"), &json!(3)));
        stage.run().await;
        assert_eq!(sink.kept().len(), 0);
        assert_eq!(stage.recipients(&id, "canceled").await.len(), 3);
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["progress"]["counts"]["canceled"]), (&json!("canceled"), &json!(3)));
        assert_eq!(stage.try_call("POST", &format!("/broadcasts/{id}/cancel"), json!({})).await.0, 409);
    }

    async fn what_is_scheduled_waits_and_is_a_draft_again_when_canceled(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let id = stage.send(json!({"scheduled_at": "in 1 hour"})).await;
        stage.run().await;
        let read = stage.read(&id).await;
        assert_eq!((&read["status"], &read["progress"]), (&json!("scheduled"), &Value::Null));
        stage.call("POST", &format!("/broadcasts/{id}/cancel"), json!({})).await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        assert_eq!((stage.read(&id).await["status"].clone(), sink.kept().len()), (json!("draft"), 0));
        stage.call("POST", &format!("/broadcasts/{id}/send"), json!({"scheduled_at": "in 1 hour"})).await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        assert_eq!((stage.read(&id).await["status"].clone(), sink.kept().len()), (json!("sent"), 1));
    }

    async fn a_broadcast_is_sent_once_and_changed_only_before(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let made = stage.call("POST", "/broadcasts", stage.fields(json!({"name": "First"}))).await;
        let id = made["id"].as_str().expect("an id").to_owned();
        stage.call("PATCH", &format!("/broadcasts/{id}"), json!({"subject": "Other", "preview_text": "Look"})).await;
        let send = format!("/broadcasts/{id}/send");
        stage.call("POST", &send, json!({})).await;
        for (method, path) in [("POST", send.as_str()), ("PATCH", &format!("/broadcasts/{id}")), ("DELETE", &format!("/broadcasts/{id}"))] {
            let (status, answer) = stage.try_call(method, path, json!({})).await;
            assert_eq!((status, answer["name"].as_str()), (409, Some("validation_error")), "{method} {path}");
        }
        stage.run().await;
        assert_eq!(sink.kept().len(), 1);
        let text = &sink.kept()[0].text;
        assert!(field(text, "Subject").as_deref() == Some("Other") && text.contains(">Look</div>"), "{text}");
        let copy = stage.call("POST", &format!("/broadcasts/{id}/duplicate"), json!({})).await;
        let copy = stage.read(copy["id"].as_str().expect("an id")).await;
        assert_eq!((&copy["status"], &copy["name"], &copy["subject"]), (&json!("draft"), &json!("First (copy)"), &json!("Other")));
        let path = format!("/broadcasts/{}", copy["id"].as_str().expect("an id"));
        assert_eq!(stage.call("DELETE", &path, json!({})).await["deleted"], true);
        assert_eq!(stage.try_call("GET", &path, json!({})).await.0, 404);
    }

    async fn what_cannot_be_sent_is_refused_before_anything_is_sent(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let empty = stage.call("POST", "/segments", json!({"name": "Nobody"})).await["id"].clone();
        let other = stage.post.app.second_workspace_key().await;
        let theirs = stage.post.app.post("/segments").key(&other).json(json!({"name": "Theirs"})).send().await.json();
        let topic = json!({"name": "Theirs", "default_subscription": "opt_in"});
        let topic = stage.post.app.post("/topics").key(&other).json(topic).send().await.json();
        for (more, status, word) in [
            (json!({"segment_id": empty, "send": true}), 422, "empty"),
            (json!({"segment_id": theirs["id"]}), 404, "Segment"),
            (json!({"topic_id": topic["id"]}), 404, "Topic"),
            (json!({"segment_id": null}), 422, "`segment_id`"),
            (json!({"html": null}), 422, "`html`, `text` or `template`"),
            (json!({"from": "nobody"}), 422, "`from`"),
            (json!({"scheduled_at": "in 1 hour"}), 422, "`scheduled_at`"),
            (json!({"send": true, "scheduled_at": "2020-01-01T00:00:00Z"}), 422, "in the future"),
            (json!({"send": true, "scheduled_at": "in 31 days"}), 422, "30 days"),
            (json!({"send": true, "html": "{{{FRIST_NAME}}}"}), 422, "`FRIST_NAME`"),
            (json!({"send": true, "html": "{% for x in %}"}), 422, "`html`"),
            (json!({"html": "x".repeat(262_145)}), 422, "`html`"),
        ] {
            let (found, answer) = stage.try_call("POST", "/broadcasts", stage.fields(more.clone())).await;
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(found == status && message.contains(word), "{more}: {found} {message}");
        }
        assert_eq!((store.count("broadcasts").await, store.count("email_recipients").await), (0, 0));
    }

    async fn what_became_impossible_before_its_time_is_a_draft_that_says_why(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let id = stage.send(json!({"scheduled_at": "in 1 hour"})).await;
        stage.call("DELETE", &format!("/segments/{}", stage.segment), json!({})).await;
        stage.post.app.clock.advance(2 * HOUR);
        stage.run().await;
        let read = stage.read(&id).await;
        assert_eq!(read["status"], "draft");
        assert!(read["reason"].as_str().is_some_and(|reason| reason.contains("segment was deleted")), "{read}");
        assert_eq!(sink.kept().len(), 0);
    }

    async fn a_key_that_may_only_send_can_send_a_broadcast_and_nothing_else(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let id = stage.call("POST", "/broadcasts", stage.fields(json!({}))).await["id"].as_str().expect("an id").to_owned();
        let key = stage.post.app.key(Permission::SendingAccess).await.secret;
        let read = stage.post.app.get(format!("/broadcasts/{id}")).key(&key).send().await;
        assert_eq!(read.status, 401);
        let sent = stage.post.app.post(format!("/broadcasts/{id}/send")).key(&key).json(json!({})).send().await;
        assert_eq!((sent.status, sent.json()), (200, json!({"id": id})));
    }

    async fn a_held_recipient_of_a_broadcast_is_decided_by_the_id_of_its_own_mail(store: Store) {
        let sink = Sink::scripted(|command| if command == "." { Does::HangsUp } else { Does::Usual }).await;
        let stage = Stage::open(&store, &sink, 2).await;
        let id = stage.send(json!({})).await;
        stage.run().await;
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["progress"]["counts"]["uncertain"]), (&json!("sent"), &json!(2)));
        assert_eq!(stage.try_call("POST", &format!("/emails/{id}/retry"), json!({})).await.0, 409);
        let held = stage.recipients(&id, "uncertain").await;
        let own = held[0]["id"].as_str().expect("an id");
        stage.call("POST", &format!("/emails/{own}/mark-delivered"), json!({})).await;
        let counts = stage.read(&id).await["progress"]["counts"].clone();
        assert_eq!((&counts["uncertain"], &counts["delivered"]), (&json!(1), &json!(1)));
        assert_eq!(stage.post.types(own.parse().expect("an id")).await, ["delivery_delayed", "delivered"]);
        // One that is tried again leaves, though the broadcast has ended.
        let other = held[1]["id"].as_str().expect("an id");
        let before = sink.kept().len();
        stage.call("POST", &format!("/emails/{other}/retry"), json!({})).await;
        stage.post.round().await;
        assert_eq!(sink.kept().len(), before + 1);
    }

    async fn two_processes_share_a_broadcast_and_nobody_gets_it_twice(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 40).await;
        let other = Post::relaying(&store, &sink).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        for _ in 0..50 {
            let (one, two) = tokio::join!(stage.post.round(), other.round());
            if one + two == 0 {
                break;
            }
        }
        let all = addresses(&sink);
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 40);
        assert_eq!(all.len(), 40);
        assert_eq!(stage.recipients(&id, "delivered").await.len(), 40);
    }

    async fn a_worker_that_is_gone_leaves_an_audience_that_goes_on_behind_the_last_contact(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        // As after a commit in the middle of the segment, and a process that was killed then.
        store.run("DELETE FROM email_recipients WHERE number > 1").await;
        store.run("UPDATE broadcasts SET is_audience_whole = FALSE, recipients = 1, due_at = 0, audience_cursor =
            (SELECT contact_id FROM email_recipients WHERE number = 1)").await;
        stage.run().await;
        assert_eq!(addresses(&sink), ["p0@example.com", "p1@example.com", "p2@example.com"]);
        assert_eq!(stage.read(&id).await["progress"]["recipients"], 3);
    }

    async fn a_segment_that_is_deleted_while_it_is_queued_leaves_those_who_are_and_a_word_on_the_others(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        // As after a commit in the middle of the segment.
        store.run("DELETE FROM email_recipients WHERE number > 1").await;
        store.run("UPDATE broadcasts SET is_audience_whole = FALSE, recipients = 1, due_at = 0, audience_cursor =
            (SELECT contact_id FROM email_recipients WHERE number = 1)").await;
        stage.call("DELETE", &format!("/segments/{}", stage.segment), json!({})).await;
        stage.run().await;
        assert_eq!(sink.kept().len(), 1);
        let read = stage.read(&id).await;
        assert_eq!(read["state"], "sent");
        assert!(read["reason"].as_str().is_some_and(|reason| reason.contains("segment was deleted")), "{read}");
    }

    async fn what_is_in_hand_rests_too_when_its_broadcast_is_paused(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "." => Does::UsualAfter(std::time::Duration::from_millis(300)),
            _ => Does::Usual,
        }).await;
        let stage = Stage::open(&store, &sink, 60).await;
        let id = stage.send(json!({})).await;
        stage.take().await;
        let engine = stage.post.engine.clone();
        let round = tokio::spawn(async move { engine.round().await });
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        stage.call("POST", &format!("/broadcasts/{id}/pause"), json!({})).await;
        stage.post.app.clock.advance(SECOND);
        round.await.expect("no panic").expect("a round");
        let out = sink.kept().len();
        assert!(out < 60, "{out} left");
        assert_eq!((stage.post.round().await, sink.kept().len()), (0, out), "it rests");
        let counts = stage.read(&id).await["progress"]["counts"].clone();
        assert_eq!((&counts["delivered"], &counts["queued"]), (&json!(out), &json!(60 - out)));
    }

    async fn captured_broadcasts_are_delivered_to_nobody_but_the_dashboard(app: TestApp) {
        let post = Post::open(&app.store, &[]).await;
        let stage = Stage::of(post, 2).await;
        let id = stage.send(json!({"from": "anybody@anywhere.example"})).await;
        stage.run().await;
        assert_eq!(stage.read(&id).await["progress"]["counts"]["delivered"], 2);
    }
}

on_both! {
    async fn contacts_hear_of_their_mail_under_its_own_id(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 2).await;
        let steps = json!([{"key": "start", "type": "trigger", "config": {"event_name": "svc:email.delivered"}},
            {"key": "wait", "type": "delay", "config": {"duration": "1 day"}}]);
        let automation = json!({"name": "A", "status": "enabled", "steps": steps,
            "connections": [{"from": "start", "to": "wait"}]});
        stage.call("POST", "/automations", automation).await;
        let id = stage.send(json!({})).await;
        stage.run().await;
        let told = store.rows("SELECT payload FROM occurrences WHERE name = 'svc:email.delivered'").await;
        assert_eq!(told.len(), 2, "{told:?}");
        let ids: Vec<String> = stage.recipients(&id, "delivered").await.iter()
            .map(|one| one["id"].as_str().expect("an id").to_owned()).collect();
        for row in told {
            let payload: Value = serde_json::from_str(row[0].as_deref().expect("a payload")).expect("JSON");
            assert_eq!(payload["broadcast_id"], json!(id));
            assert!(ids.contains(&payload["email_id"].as_str().expect("an id").to_owned()), "{payload}");
        }
    }

    async fn what_was_sent_is_kept_as_long_as_mail_is_and_waits_no_longer_than_it_must(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let id = stage.send(json!({})).await;
        stage.run().await;
        stage.post.app.clock.advance(31 * DAY);
        posthorn::emails::sweep(&stage.post.app.app).await.expect("swept");
        assert_eq!(stage.call("GET", &format!("/emails/{id}"), json!({})).await["html"], Value::Null);
        assert!(stage.read(&id).await["html"].is_string(), "the broadcast is what somebody wrote");
    }
}
