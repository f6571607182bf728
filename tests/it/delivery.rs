//! Mail on its way: what is queued reaches the next server once, and what became of it is written
//! down with what is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthorn::clock::{HOUR, MINUTE};
use posthorn::config::{TransportKind, WhenUncertain};
use posthorn::db::DbError;
use posthorn::delivery::{self, Engine};
use posthorn::emails::{self, Content, Lane, NewEmail, Origin};
use posthorn::hold;
use posthorn::id::{DomainId, EmailId};
use serde_json::{Value, json};

use crate::contacts::add;
use crate::harness::{TestApp, on_both};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;
use crate::topics::topic;

/// A process that delivers.
pub struct Post {
    pub app: TestApp,
    pub engine: Arc<Engine>,
}

impl Post {
    pub async fn open(store: &Store, settings: &[&str]) -> Post {
        let app = TestApp::open(store, settings).await;
        let engine =
            Arc::new(Engine::new(app.app.occurrences().clone(), app.app.domains().clone()).expect("an engine"));
        Post { app, engine }
    }

    /// One that hands all mail to this server.
    pub async fn relaying(store: &Store, sink: &Sink) -> Post {
        let relay = format!("--smtp-url={}", sink.url());
        Post::open(store, &[&relay, "--smtp-timeout-factor=0.01", "--senders=any"]).await
    }

    pub async fn draft(&self, to: &[&str]) -> NewEmail {
        let to = to.iter().map(|to| to.parse().expect("an address")).collect();
        let from = "Ann <ann@sender.example>".parse().expect("a sender");
        NewEmail {
            subject: "Hello".into(),
            text: Some(Content::Here("A line\r\n.\r\nand another\r\n".into())),
            ..NewEmail::new(self.app.workspace().await, Origin::Api, from, to)
        }
    }

    /// Queues a mail as the API does.
    pub async fn queue(&self, new: &NewEmail) -> EmailId {
        let (id, transport) = (self.app.clock.ordered_id(), self.app.app.config.transport());
        let line = |address: &_| emails::line(transport, None, address);
        self.app.app.db.commit(emails::insert(new, id, &self.app.clock, line)).await.expect("a mail");
        id
    }

    pub async fn send(&self, to: &str) -> EmailId {
        self.queue(&self.draft(&[to]).await).await
    }

    pub async fn round(&self) -> usize {
        self.engine.round().await.expect("a round")
    }

    /// State, tries, due or not, and the reason of the recipients of a mail, in order.
    pub async fn recipients(&self, id: EmailId) -> Vec<(i64, i64, Option<i64>, String)> {
        let sql = "SELECT state, tries, due_at, reason FROM email_recipients WHERE email_id = ";
        let rows = self.app.store.rows(&format!("{sql}{} ORDER BY number", self.app.store.id(id))).await;
        let number = |text: &Option<String>| text.as_ref().map(|text| text.parse::<i64>().expect("a number"));
        let read = |row: Vec<Option<String>>| {
            (
                number(&row[0]).expect("a state"),
                number(&row[1]).expect("tries"),
                number(&row[2]),
                row[3].clone().unwrap_or_default(),
            )
        };
        rows.into_iter().map(read).collect()
    }

    /// Types and details of what was told of a mail.
    pub async fn told(&self, id: EmailId) -> Vec<(String, Value)> {
        let sql = "SELECT type, detail FROM email_events WHERE email_id = ";
        let rows = self.app.store.rows(&format!("{sql}{} ORDER BY id", self.app.store.id(id))).await;
        let read = |row: Vec<Option<String>>| {
            let detail = serde_json::from_str(row[1].as_deref().expect("a detail")).expect("JSON");
            (row[0].clone().expect("a type"), detail)
        };
        rows.into_iter().map(read).collect()
    }

    pub async fn types(&self, id: EmailId) -> Vec<String> {
        self.told(id).await.into_iter().map(|(kind, _)| kind).collect()
    }

    pub async fn state(&self, id: EmailId) -> i64 {
        let sql = format!("SELECT state FROM emails WHERE id = {}", self.app.store.id(id));
        self.app.store.value(&sql).await.expect("a mail").parse().expect("a number")
    }
}

on_both! {
    async fn a_domain_that_cannot_be_opened_holds_up_its_own_mail_alone(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let made = post.app.post("/domains").key(&key).json(json!({"name": "broken.example"})).send().await.json();
        let domain: DomainId = made["id"].as_str().expect("an id").parse().expect("an id");
        let relay = json!({"transport": "smtp://relay.example"});
        let changed = post.app.patch(format!("/domains/{domain}")).key(&key).json(relay).send().await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        // As in a store that was restored without its key.
        post.app.store.run("UPDATE domains SET relays = 'sealed:00000000:AAAA'").await;
        let (id, new) = (post.app.clock.ordered_id(), post.draft(&["bob@example.com"]).await);
        let line = |address: &_| emails::line(TransportKind::Relay, Some(domain), address);
        post.app.app.db.commit(emails::insert(&new, id, &post.app.clock, line)).await.expect("a mail");
        for sent in 1..4 {
            post.send("bob@example.com").await;
            post.round().await;
            assert_eq!(sink.kept().len(), sent);
        }
        let [(10, 0, Some(_), reason)] = &post.recipients(id).await[..] else { panic!("it waits") };
        assert!(reason.contains("broken.example"), "{reason}");
    }

    async fn a_mail_reaches_the_relay_once_and_is_told_of(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        assert_eq!((post.round().await, post.round().await), (1, 0));
        let [taken] = &sink.kept()[..] else { panic!("{:?}", sink.kept()) };
        assert_eq!((taken.from.as_str(), taken.to.as_str()), ("ann@sender.example", "bob@example.com"));
        assert!(taken.text.contains(&format!("Message-ID: <{id}@sender.example>\r\n")), "{}", taken.text);
        assert!(taken.text.contains("\r\nA line\r\n..\r\nand another\r\n.\r\n"), "{}", taken.text);
        assert_eq!(post.recipients(id).await, [(40, 0, None, String::new())]);
        let told = post.told(id).await;
        assert_eq!(told[0].0, "sent");
        assert_eq!((&told[0].1["reply"], &told[0].1["host"]), (&json!("250 2.0.0 taken"), &json!("127.0.0.1")));
        assert_eq!(told[1], ("delivered".into(), json!({"to": "bob@example.com", "via": "relay"})));
        assert_eq!((told.len(), post.state(id).await), (2, 40));
    }

    async fn issue_12_html_that_stands_in_pieces_has_a_text_made_of_it_as_far_as_that_goes(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let row = "<p>Grüße an alle</p>\n";
        let beyond = "<p>far behind</p>".repeat(10);
        for (html, has_all) in [(row.repeat(20_000), true), (row.repeat(80_000), false)] {
            let html = format!("<h1>It begins</h1>{html}<p>It ends</p>{beyond}");
            let mail = json!({"from": "a@b.example", "to": ["c@d.example"], "subject": "S", "html": html});
            let made = post.app.post("/emails").key(&key).json(mail.clone()).send().await;
            assert_eq!(made.status, 200, "{}", made.text());
            post.round().await;
            let sent = sink.kept().pop().expect("a mail").text;
            let (before, html_part) = sent.split_once("Content-Type: text/html").expect("HTML");
            assert!(before.contains("Content-Type: multipart/alternative") && before.contains("Content-Type: text/plain"));
            assert!(before.contains("It begins") && before.contains("Gr=C3=BC=C3=9Fe an alle"), "{}", &before[..2000]);
            assert_eq!(before.contains("It ends"), has_all, "{}", html.len());
            assert!(before.len() < 3 << 20 && html_part.contains("far behind"), "{}", before.len());
            let own = json!({"from": "a@b.example", "to": ["c@d.example"], "subject": "S", "html": html, "text": ""});
            assert_eq!(post.app.post("/emails").key(&key).json(own).send().await.status, 200);
            post.round().await;
            assert!(!sink.kept().pop().expect("a mail").text.contains("text/plain"), "who gives an empty one wants none");
        }
    }

    async fn the_next_relay_is_tried_where_the_first_does_not_answer(store: Store) {
        let sink = Sink::open().await;
        let busy = Sink::scripted(|_| Does::Says("421 4.3.2 closing")).await;
        let relays = format!("--smtp-url=smtp://127.0.0.1:1,{},{}", busy.url(), sink.url());
        let post = Post::open(&store, &[&relays, "--senders=any"]).await;
        let id = post.send("bob@example.com").await;
        assert_eq!((post.round().await, post.state(id).await, sink.kept().len()), (1, 40, 1));
        assert_eq!(post.types(id).await, ["sent", "delivered"]);
    }

    async fn decisions_7_captured_mail_is_delivered_and_nothing_leaves(store: Store) {
        let post = Post::open(&store, &[]).await;
        let mut ids = Vec::new();
        for number in 0..300 {
            ids.push(post.send(&format!("someone{number}@example.com")).await);
        }
        assert_eq!((post.round().await, post.round().await, post.round().await), (256, 44, 0));
        for id in [ids[0], ids[299]] {
            assert_eq!((post.recipients(id).await[0].0, post.state(id).await), (40, 40));
            let [(kind, detail)] = &post.told(id).await[..] else { panic!("one event") };
            assert_eq!((kind.as_str(), &detail["via"]), ("delivered", &json!("capture")));
        }
    }

    async fn decisions_7_test_recipients_play_their_part_on_every_transport(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        for (to, state, types) in [
            ("delivered@resend.dev", 40, &["delivered"][..]),
            ("bounced+label@resend.dev", 70, &["bounced"]),
            ("complained@posthorn.test", 80, &["delivered", "complained"]),
            ("suppressed@posthorn.test", 64, &["suppressed"]),
        ] {
            let id = post.send(to).await;
            assert_eq!(post.round().await, 1, "{to}");
            assert_eq!((post.state(id).await, post.types(id).await), (state, types.iter().map(|&kind| kind.into()).collect()), "{to}");
        }
        assert_eq!((sink.kept().len(), post.app.count("suppressions").await), (0, 0));
    }

    async fn what_a_server_puts_off_is_tried_again_with_the_reason_and_told_once(store: Store) {
        let refusals = Arc::new(AtomicUsize::new(4));
        let left = refusals.clone();
        let sink = Sink::scripted(move |command| {
            let is_refused = command.starts_with("RCPT") && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            if is_refused { Does::Says("451 4.7.1 greylisted, come back") } else { Does::Usual }
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        for tries in 1..=4 {
            assert_eq!(post.round().await, 1);
            assert_eq!(post.round().await, 0, "not before it is due");
            let [(state, counted, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient") };
            assert_eq!((*state, *counted, due.is_some()), (if tries == 1 { 10 } else { 30 }, tries, true));
            assert!(reason.contains("451 4.7.1 greylisted, come back"), "{reason}");
            post.app.clock.advance(90 * MINUTE);
        }
        assert_eq!(post.round().await, 1);
        assert_eq!(post.types(id).await, ["delivery_delayed", "sent", "delivered"]);
        assert_eq!((sink.kept().len(), post.state(id).await), (1, 40));
    }

    async fn what_nobody_takes_for_five_days_has_failed(store: Store) {
        let sink = Sink::scripted(|_| Does::Says("421 closing")).await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        let mut rounds = 0;
        while post.state(id).await != 66 {
            post.round().await;
            post.app.clock.advance(HOUR);
            rounds += 1;
            assert!(rounds < 200, "{:?}", post.recipients(id).await);
        }
        assert!((115..=125).contains(&rounds), "{rounds} hours");
        assert_eq!(post.types(id).await, ["delivery_delayed", "failed"]);
        assert!(post.recipients(id).await[0].3.contains("five days"));
    }

    async fn a_mailbox_that_is_not_there_bounces_and_is_not_written_to_again(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "RCPT TO:<nobody@example.com>" => Does::Says("550 5.1.1 no such user"),
            "RCPT TO:<spam@example.com>" => Does::Says("550 5.7.1 we do not like you"),
            _ => Does::Usual,
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let (gone, disliked) = (post.send("Nobody@example.com".to_lowercase().as_str()).await, post.send("spam@example.com").await);
        assert_eq!(post.round().await, 2);
        for (id, code) in [(gone, "smtp; 550 5.1.1 no such user"), (disliked, "smtp; 550 5.7.1 we do not like you")] {
            let told = post.told(id).await;
            assert_eq!((told.len(), told[0].0.as_str(), post.state(id).await), (1, "bounced", 70));
            assert_eq!(told[0].1["bounce"]["type"], "Permanent");
            assert_eq!(told[0].1["bounce"]["diagnosticCode"], json!([code]));
        }
        let kept = store.rows("SELECT email, origin FROM suppressions").await;
        assert_eq!(kept, [[Some("nobody@example.com".to_owned()), Some("bounce".to_owned())]]);
        let (again, other) = (post.send("NOBODY@example.com").await, post.send("spam@example.com").await);
        assert_eq!(post.round().await, 2);
        assert_eq!((post.types(again).await, post.state(again).await), (vec!["suppressed".to_owned()], 64));
        assert_eq!(post.types(other).await, ["bounced"], "it is asked again");
    }

    async fn mail_about_a_topic_reaches_only_who_wants_it(store: Store) {
        let post = Post::open(&store, &[]).await;
        let (app, key) = (&post.app, post.app.full_key().await);
        let (news, asked) = (topic(app, &key, "News", "opt_in").await, topic(app, &key, "Asked", "opt_out").await);
        let out = json!([{"id": news, "subscription": "opt_out"}]);
        add(app, &key, json!({"email": "Out@example.com", "topics": out})).await;
        add(app, &key, json!({"email": "gone@example.com", "unsubscribed": true})).await;
        add(app, &key, json!({"email": "in@example.com", "topics": [{"id": asked, "subscription": "opt_in"}]})).await;
        let send = async |to: &str, topic: Option<&str>| {
            let mail = json!({"from": "a@b.example", "to": to, "subject": "x", "text": "x", "topic_id": topic});
            let sent = app.post("/emails").key(&key).json(mail).send().await.json();
            sent["id"].as_str().unwrap_or_else(|| panic!("{sent}")).parse::<EmailId>().expect("an id")
        };
        for (to, topic, state, reason) in [
            ("out@example.com", Some(&news), 64, Some("has opted out of it")),
            ("out@example.com", None, 40, None),
            ("gone@example.com", Some(&news), 64, Some("is unsubscribed")),
            ("gone@example.com", None, 40, None),
            ("in@example.com", Some(&news), 40, None),
            ("in@example.com", Some(&asked), 40, None),
            ("nobody@example.com", Some(&news), 40, None),
            ("nobody@example.com", Some(&asked), 64, Some("has not opted in")),
        ] {
            let id = send(to, topic.map(String::as_str)).await;
            while post.round().await > 0 {}
            let (found, _, due_at, shown) = post.recipients(id).await.remove(0);
            assert_eq!((found, due_at), (state, None), "{to} {topic:?}");
            assert!(shown.contains(reason.unwrap_or_default()) && shown.is_empty() == reason.is_none(), "{shown}");
        }
    }

    async fn a_suppressed_address_is_so_in_every_spelling_of_its_domain(store: Store) {
        let sink = Sink::scripted(|command| match command.starts_with("RCPT") {
            true => Does::Says("550 5.1.1 no such mailbox"),
            false => Does::Usual,
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let bounced = post.send("ada@münchen.example").await;
        assert_eq!((post.round().await, post.state(bounced).await), (1, 70));
        for same in ["Ada@xn--mnchen-3ya.example", "ada@MÜNCHEN.example"] {
            let id = post.send(same).await;
            assert_eq!((post.round().await, post.state(id).await), (1, 64), "{same}");
        }
    }

    async fn recipients_of_one_mail_fare_each_for_itself(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "RCPT TO:<b@example.com>" => Does::Says("550 5.2.2 full"),
            "RCPT TO:<c@example.com>" => Does::Says("450 4.2.1 busy"),
            _ => Does::Usual,
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let mut new = post.draft(&["a@example.com", "B <b@example.com>"]).await;
        new.cc = vec!["c@example.com".parse().expect("an address")];
        new.bcc = vec!["d@example.com".parse().expect("an address")];
        let id = post.queue(&new).await;
        assert_eq!(post.round().await, 4);
        let states: Vec<i64> = post.recipients(id).await.into_iter().map(|(state, ..)| state).collect();
        assert_eq!((states, post.state(id).await), (vec![40, 70, 10, 40], 70), "the mail has the highest");
        let taken = sink.kept();
        assert_eq!(taken.len(), 2);
        assert_eq!(taken[0].text, taken[1].text, "all get the same bytes");
        assert!(taken[0].text.contains("Cc: c@example.com") && !taken[0].text.contains("d@example.com"));
    }

    async fn reliability_3_a_link_lost_after_the_dot_is_uncertain_and_sent_again(store: Store) {
        let losses = AtomicUsize::new(0);
        let lose = move |command: &str| match command {
            "." if losses.fetch_add(1, Ordering::SeqCst) == 0 => Does::HangsUp,
            _ => Does::Usual,
        };
        let sink = Sink::scripted(lose).await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        assert_eq!(post.round().await, 1);
        let [(state, tries, due, reason)] = &post.recipients(id).await[..] else { panic!("one recipient") };
        assert_eq!((*state, *tries, due.is_some()), (28, 1, true));
        assert!(reason.contains("did not say whether it has taken the mail"), "{reason}");
        let told = post.told(id).await;
        assert_eq!((told[0].0.as_str(), &told[0].1["uncertain"]), ("delivery_delayed", &json!(true)));
        post.app.clock.advance(HOUR);
        assert_eq!(post.round().await, 1);
        let taken = sink.kept();
        assert_eq!((taken.len(), post.state(id).await), (2, 40));
        assert_eq!(taken[0].text, taken[1].text, "every attempt is the same to the byte");
    }

    async fn reliability_3_uncertain_mail_is_held_for_a_person_where_its_policy_says_so(store: Store) {
        let sink = Sink::scripted(|command| if command == "." { Does::HangsUp } else { Does::Usual }).await;
        let post = Post::relaying(&store, &sink).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            let new = NewEmail { when_uncertain: WhenUncertain::Hold, ..post.draft(&["bob@example.com"]).await };
            held.push(post.queue(&new).await);
        }
        assert_eq!(post.round().await, 3);
        post.app.clock.advance(24 * HOUR);
        assert_eq!(post.round().await, 0, "it waits for a person");
        for &id in &held {
            assert_eq!((post.recipients(id).await[0].0, post.recipients(id).await[0].2), (28, None));
        }
    }

    async fn reliability_3_a_process_that_dies_after_the_dot_leaves_the_mail_uncertain(store: Store) {
        let sink = Sink::scripted(|command| if command == "." { Does::Stalls } else { Does::Usual }).await;
        let dying = Post::relaying(&store, &sink).await;
        let id = dying.send("bob@example.com").await;
        let engine = dying.engine.clone();
        let delivering = tokio::spawn(async move { engine.round().await });
        while sink.kept().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        delivering.abort();
        let heir = Post::relaying(&store, &Sink::open().await).await;
        heir.app.clock.advance(MINUTE);
        assert_eq!(heir.round().await, 1, "it is found");
        let told = heir.told(id).await;
        assert_eq!((told.len(), &told[0].1["uncertain"], heir.state(id).await), (1, &json!(true), 28));
        assert_eq!(heir.round().await, 1, "and sent again at once");
        assert_eq!((heir.state(id).await, heir.types(id).await.len()), (40, 3));
    }

    async fn reliability_3_before_the_dot_everything_is_tried_again_freely(store: Store) {
        for phase in ["EHLO", "MAIL", "RCPT", "DATA"] {
            let losses = AtomicUsize::new(0);
            let sink = Sink::scripted(move |command| {
                let is_lost = command.starts_with(phase) && losses.fetch_add(1, Ordering::SeqCst) == 0;
                if is_lost { Does::HangsUp } else { Does::Usual }
            })
            .await;
            let post = Post::relaying(&store, &sink).await;
            let id = post.send("bob@example.com").await;
            assert_eq!(post.round().await, 1, "{phase}");
            assert_eq!((post.recipients(id).await[0].0, sink.kept().len()), (10, 0), "{phase}");
            post.app.clock.advance(HOUR);
            assert_eq!(post.round().await, 1, "{phase}");
            assert_eq!((post.types(id).await, sink.kept().len()), (vec!["sent".into(), "delivered".into()], 1), "{phase}");
        }
    }

    async fn decisions_7_on_hold_no_mail_leaves(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        post.app.app.db.commit(hold::set(&post.app.clock, "a test")).await.expect("a hold");
        for _ in 0..3 {
            assert!(matches!(post.engine.round().await, Err(DbError::Stale)));
            post.app.clock.advance(HOUR);
        }
        assert_eq!((sink.kept().len(), post.state(id).await), (0, 10));
        post.app.app.db.commit(hold::release()).await.expect("no hold");
        assert_eq!((post.round().await, sink.kept().len()), (1, 1));
    }

    async fn a_hold_that_begins_during_a_dialogue_keeps_the_dot_back(store: Store) {
        let (holding, seen) = (store.clone(), AtomicUsize::new(0));
        let sink = Sink::scripted(move |command| {
            if command == "DATA" && seen.fetch_add(1, Ordering::SeqCst) == 0 {
                let store = holding.clone();
                let hold = async move { store.run("INSERT INTO holds (id, since, reason) VALUES (1, 0, 'now')").await };
                let waiting = move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    runtime.expect("a runtime").block_on(hold);
                };
                std::thread::spawn(waiting).join().expect("held");
            }
            Does::Usual
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        assert_eq!(post.round().await, 1);
        assert_eq!((sink.kept().len(), post.state(id).await), (0, 10), "it was not said that the message is over");
        post.app.app.db.commit(hold::release()).await.expect("no hold");
        post.app.clock.advance(MINUTE);
        assert_eq!((post.round().await, sink.kept().len()), (1, 1));
        assert_eq!(post.types(id).await, ["sent", "delivered"]);
    }

    async fn transactional_mail_does_not_wait_for_bulk(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        for number in 0..100 {
            let to = format!("many{number}@example.com");
            post.queue(&NewEmail { lane: Lane::Bulk, ..post.draft(&[&to]).await }).await;
        }
        let id = post.send("one@example.com").await;
        let first = post.round().await;
        assert!(first < 64, "bulk leaves room: {first}");
        assert_eq!(post.state(id).await, 40, "it went with the first round");
        while post.round().await > 0 {}
        assert_eq!(sink.kept().len(), 101);
    }

    async fn several_processes_share_the_work_and_send_each_mail_once(store: Store) {
        let sink = Sink::open().await;
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(Post::relaying(&store, &sink).await);
        }
        for number in 0..120 {
            processes[0].send(&format!("someone{number}@example.com")).await;
        }
        let work = processes.iter().map(|post| async move { while post.round().await > 0 {} });
        futures_util::future::join_all(work).await;
        let mut to: Vec<String> = sink.kept().into_iter().map(|taken| taken.to).collect();
        to.sort();
        let count = to.len();
        to.dedup();
        assert_eq!((count, to.len()), (120, 120));
    }

    async fn mail_that_was_accepted_to_be_sent_waits_while_nothing_is_sent(store: Store) {
        let sink = Sink::open().await;
        let id = Post::relaying(&store, &sink).await.send("bob@example.com").await;
        let capturing = Post::open(&store, &[]).await;
        assert_eq!(capturing.round().await, 1);
        let [(state, tries, due, reason)] = &capturing.recipients(id).await[..] else { panic!("one recipient") };
        assert_eq!((*state, *tries, due.is_some()), (10, 0, true));
        assert!(reason.contains("--smtp-url"), "{reason}");
        let relaying = Post::relaying(&store, &sink).await;
        relaying.app.clock.advance(HOUR);
        assert_eq!((relaying.round().await, sink.kept().len()), (1, 1));
    }

    async fn mail_moves_to_the_line_of_the_transport_that_is_set_now(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let new = post.draft(&["bob@example.com"]).await;
        let line = |address: &_| emails::line(TransportKind::Direct, None, address);
        let id = post.app.clock.ordered_id();
        post.app.app.db.commit(emails::insert(&new, id, &post.app.clock, line)).await.expect("a mail");
        assert_eq!((post.round().await, sink.kept().len()), (0, 0));
        assert_eq!((post.round().await, sink.kept().len(), post.state(id).await), (1, 1, 40));
    }

    async fn a_large_mail_is_streamed_and_arrives_whole(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let content: Vec<u8> = (0..1_500_000_u32).map(|number| (number % 251) as u8).collect();
        let mut new = post.draft(&["bob@example.com"]).await;
        new.attachments = vec![emails::NewAttachment {
            id: post.app.clock.ordered_id(),
            filename: Some("data.bin".into()),
            content_type: "application/octet-stream".into(),
            content_id: None,
            content: Content::Here(content.clone()),
        }];
        post.queue(&new).await;
        assert_eq!((post.round().await, sink.kept().len()), (1, 1));
        let text = sink.kept().remove(0).text;
        let part = text.split("data.bin").last().and_then(|rest| rest.split("\r\n\r\n").nth(1)).expect("a part");
        let encoded: String = part.split("\r\n--").next().expect("an end").split_whitespace().collect();
        let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).expect("base64");
        assert!(decoded == content, "{} bytes", decoded.len());
    }

    async fn the_products_own_messages_go_the_same_way(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        post.app.owner().await;
        let workspace = post.app.workspace().await;
        let told = delivery::tell_owners(&post.app.app, workspace, "An app was given access", "Look\n").await;
        post.app.app.db.commit(told.expect("statements")).await.expect("a message");
        // A list of those who get no mail does not keep what its owner has to hear.
        let row = format!(
            "INSERT INTO suppressions (workspace_id, email_key, id, email, origin, created_at)
             VALUES ({}, 'owner@example.com', {}, 'owner@example.com', 'manual', 0)",
            store.id(workspace),
            store.id(workspace)
        );
        store.run(&row).await;
        assert_eq!(post.round().await, 1);
        let [taken] = &sink.kept()[..] else { panic!("{:?}", sink.kept()) };
        assert_eq!((taken.from.as_str(), taken.to.as_str()), ("posthorn@mail.example", "owner@example.com"));
        for line in ["From: Posthorn <posthorn@mail.example>", "Auto-Submitted: auto-generated"] {
            assert!(taken.text.lines().any(|sent| sent == line), "{line}\n{}", taken.text);
        }
    }

    async fn what_happens_to_the_mail_of_a_contact_starts_automations_and_ends_waits(store: Store) {
        let post = Post::open(&store, &[]).await;
        let app = TestApp::open(&store, &[]).await;
        let stage = Stage::new(app).await;
        let heard = json!({"event_name": "svc:email.delivered"});
        let automation = stage.automation(&[("trigger", heard), ("delay", json!({"duration": "1 minute"}))]).await;
        stage.send("user.created", "bob@example.com", json!({})).await;
        post.send("Bob@example.com").await;
        post.send("stranger@example.com").await;
        assert_eq!(post.round().await, 2);
        assert_eq!(stage.runs(&automation).await.len(), 1, "the stranger is no contact");
    }

    async fn a_mail_of_the_api_is_delivered_and_says_so(store: Store) {
        let post = Post::open(&store, &[]).await;
        let key = post.app.full_key().await;
        let mail = json!({"from": "a@b.example", "to": ["c@d.example"], "subject": "S", "html": "<p>Hi</p>"});
        let sent = post.app.post("/emails").key(&key).json(mail).send().await.json();
        assert_eq!(post.round().await, 1);
        let path = format!("/emails/{}", sent["id"].as_str().expect("an id"));
        assert_eq!(post.app.get(&path).key(&key).send().await.json()["last_event"], "delivered");
    }
}
