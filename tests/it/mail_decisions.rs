//! What people decide of mail that waits: over HTTP, and in the dashboard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use posthorn::clock::{HOUR, MINUTE};
use posthorn::config::WhenUncertain;
use posthorn::credentials::Permission;
use posthorn::emails::NewEmail;
use posthorn::id::EmailId;
use serde_json::json;

use crate::automation_pages::{owner, page, press};
use crate::delivery::Post;
use crate::harness::{Answer, TestApp, on_both};
use crate::sending::Stage;
use crate::sink::{Does, Sink};
use crate::store::Store;

const RETRY: &str = "retry";
const DROP: &str = "drop";
const MARK: &str = "mark-delivered";

async fn decide(post: &Post, key: &str, id: EmailId, decision: &str) -> Answer {
    post.app.post(format!("/emails/{id}/{decision}")).key(key).send().await
}

fn is_done(answer: &Answer, id: EmailId) {
    assert_eq!((answer.status, answer.json()), (200, json!({"object": "email", "id": id})), "{}", answer.text());
}

/// A process whose server takes mail and never says so.
async fn silent(store: &Store) -> (Post, Sink) {
    let sink = Sink::scripted(|command| if command == "." { Does::HangsUp } else { Does::Usual }).await;
    (Post::relaying(store, &sink).await, sink)
}

/// A mail that is held because nobody knows whether it arrived.
async fn held(post: &Post, to: &[&str]) -> EmailId {
    let new = NewEmail { when_uncertain: WhenUncertain::Hold, ..post.draft(to).await };
    let id = post.queue(&new).await;
    assert_eq!(post.round().await, to.len());
    id
}

on_both! {
    async fn reliability_3_a_person_decides_of_uncertain_mail_and_deciding_again_changes_nothing(store: Store) {
        let (post, sink) = silent(&store).await;
        let key = post.app.full_key().await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(held(&post, &["bob@example.com"]).await);
        }
        post.app.clock.advance(24 * HOUR);
        assert_eq!(post.round().await, 0, "it waits for a person");
        for (id, decision) in ids.iter().zip([RETRY, DROP, MARK]) {
            for _ in 0..2 {
                is_done(&decide(&post, &key, *id, decision).await, *id);
            }
        }
        let refused = decide(&post, &key, ids[1], RETRY).await.refused(409, "validation_error");
        assert!(refused.starts_with("There is nothing to try again"), "{refused}");
        assert!(decide(&post, &key, ids[2], DROP).await.refused(409, "validation_error").contains("nothing to drop"));
        assert_eq!((post.round().await, sink.kept().len()), (1, 4), "one is sent again, and may have arrived twice");
        assert_eq!((post.state(ids[1]).await, post.state(ids[2]).await), (66, 40));
        assert_eq!(post.types(ids[1]).await, ["delivery_delayed", "failed"]);
        assert_eq!(post.types(ids[2]).await, ["delivery_delayed", "delivered"]);
        assert_eq!(post.told(ids[2]).await[1].1, json!({"to": "bob@example.com", "via": "person"}));
        post.app.clock.advance(24 * HOUR);
        assert_eq!(post.round().await, 0);
    }

    async fn what_is_put_off_is_tried_at_once_or_given_up(store: Store) {
        let sink = Sink::scripted(|command| if command.starts_with("RCPT") { Does::Says("451 later") } else { Does::Usual }).await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let id = post.send("bob@example.com").await;
        for decision in [RETRY, DROP, MARK] {
            decide(&post, &key, id, decision).await.refused(409, "validation_error");
        }
        assert_eq!((post.round().await, post.round().await), (1, 0));
        is_done(&decide(&post, &key, id, RETRY).await, id);
        assert_eq!(post.round().await, 1, "before its time");
        let refused = decide(&post, &key, id, MARK).await.refused(409, "validation_error");
        assert!(refused.contains("it is known of every recipient"), "{refused}");
        is_done(&decide(&post, &key, id, DROP).await, id);
        post.app.clock.advance(24 * HOUR);
        assert_eq!((post.round().await, post.state(id).await), (0, 66));
    }

    async fn what_a_person_tries_again_is_not_given_up_at_the_next_failure(store: Store) {
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy = is_busy.clone();
        let sink = Sink::scripted(move |command| match command {
            "." => Does::HangsUp,
            _ if command.starts_with("RCPT") && busy.load(Ordering::Relaxed) => Does::Says("451 later"),
            _ => Does::Usual,
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let id = held(&post, &["bob@example.com"]).await;
        is_busy.store(true, Ordering::Relaxed);
        post.app.clock.advance(6 * 24 * HOUR);
        is_done(&decide(&post, &key, id, RETRY).await, id);
        assert_eq!(post.round().await, 1);
        let [(28, _, Some(_), reason)] = &post.recipients(id).await[..] else { panic!("{:?}", post.recipients(id).await) };
        assert!(reason.contains("451 later"), "{reason}");
        post.app.clock.advance(6 * 24 * HOUR);
        assert_eq!((post.round().await, post.state(id).await), (1, 66), "five days are five days again");
    }

    async fn of_several_recipients_one_can_be_named(store: Store) {
        let (post, _sink) = silent(&store).await;
        let key = post.app.full_key().await;
        let id = held(&post, &["ada@München.example", "bob@example.com"]).await;
        let to = async |to: &str| post.app.post(format!("/emails/{id}/drop")).key(&key).json(json!({"to": to})).send().await;
        assert!(to("eve@example.com").await.refused(422, "validation_error").contains("names no recipient"));
        assert!(to("nobody").await.refused(422, "validation_error").contains("`to`"));
        is_done(&to("ADA@xn--mnchen-3ya.example").await, id);
        let states: Vec<i64> = post.recipients(id).await.iter().map(|recipient| recipient.0).collect();
        assert_eq!(states, [66, 28]);
        is_done(&decide(&post, &key, id, MARK).await, id);
        let states: Vec<i64> = post.recipients(id).await.iter().map(|recipient| recipient.0).collect();
        assert_eq!(states, [66, 40], "all of whom there is something to decide");
    }

    async fn decisions_1_nobody_decides_of_anothers_mail_or_with_a_key_that_may_only_send(store: Store) {
        let (post, _sink) = silent(&store).await;
        let theirs = post.app.second_workspace_key().await;
        let sending = post.app.key(Permission::SendingAccess).await.secret;
        let id = held(&post, &["bob@example.com"]).await;
        for decision in [RETRY, DROP, MARK] {
            decide(&post, &theirs, id, decision).await.refused(404, "not_found");
            decide(&post, &sending, id, decision).await.refused(401, "restricted_api_key");
        }
        assert_eq!(post.recipients(id).await[0].0, 28);
    }

    async fn what_is_dropped_during_a_dialogue_is_not_sent(store: Store) {
        let target: Arc<OnceLock<(String, EmailId)>> = Arc::default();
        let (deciding, known) = (store.clone(), target.clone());
        let sink = Sink::scripted(move |command| {
            if command == "DATA" {
                let (store, (key, id)) = (deciding.clone(), known.get().cloned().expect("a mail"));
                let decide = async move {
                    let other = TestApp::open(&store, &[]).await;
                    let dropped = other.post(format!("/emails/{id}/drop")).key(&key).send().await;
                    is_done(&dropped, id);
                };
                let waiting = move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    runtime.expect("a runtime").block_on(decide);
                };
                std::thread::spawn(waiting).join().expect("dropped");
            }
            Does::Usual
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let id = post.send("bob@example.com").await;
        post.app.store.run("UPDATE email_recipients SET reason = 'it was put off before'").await;
        target.set((key, id)).expect("once");
        post.round().await;
        assert_eq!((sink.kept().len(), post.types(id).await), (0, vec!["failed".to_owned()]));
        post.app.clock.advance(MINUTE);
        assert_eq!((post.round().await, post.state(id).await), (0, 66));
    }

    async fn an_automation_hears_of_what_a_person_decided(store: Store) {
        let (post, _sink) = silent(&store).await;
        let Post { app, engine } = post;
        let key = app.full_key().await;
        app.post("/contacts").key(&key).json(json!({"email": "bob@example.com"})).send().await;
        let stage = Stage::new(app).await;
        let update = ("contact_update", json!({"first_name": "Lost"}));
        let automation = stage.automation(&[("trigger", json!({"event_name": "svc:email.failed"})), update]).await;
        let post = Post { app: stage.app, engine };
        let id = held(&post, &["bob@example.com"]).await;
        is_done(&decide(&post, &key, id, DROP).await, id);
        let runs = post.app.get(format!("/automations/{automation}/runs")).key(&key).send().await.json();
        assert_eq!(runs["data"].as_array().map(Vec::len), Some(1), "{runs}");
    }

    async fn a_person_decides_on_the_page_of_the_mail(store: Store) {
        let (post, _sink) = silent(&store).await;
        let app = &post.app;
        app.full_key().await;
        let cookie = owner(app).await;
        let [first, second, third] =
            [held(&post, &["bob@example.com"]).await, held(&post, &["bob@example.com"]).await, held(&post, &["bob@example.com"]).await];
        let list = page(app, &cookie, "/emails").await;
        assert!(list.contains("Of 3 emails nobody knows whether they arrived."), "{list}");
        let overview = page(app, &cookie, "/").await;
        assert!(overview.contains("3 mails are waiting for somebody to decide: nobody knows whether it arrived."), "{overview}");
        assert!(overview.contains("<a href=\"/dashboard/emails?state=uncertain\">Decide</a>"), "{overview}");
        for (id, action, says, left) in [
            (first, "recipients/0/retry", "It is tried now.", "Of 3 emails"),
            (second, "recipients/0/drop", "It is not sent any more.", "Of 2 emails"),
            (third, "recipients/0/mark-delivered", "It is marked as delivered.", "Of one email"),
        ] {
            let path = format!("/emails/{id}");
            let before = page(app, &cookie, &path).await;
            assert!(before.contains("it waits until somebody decides") && before.contains("Mark as delivered"), "{before}");
            // What cannot be undone is asked for.
            let asking = match action {
                "recipients/0/drop" => page(app, &cookie, &format!("{path}/{action}")).await,
                _ => before.clone(),
            };
            assert!(before.contains(&format!("href=\"/dashboard{path}/recipients/0/drop\"")), "{before}");
            assert!(page(app, &cookie, "/emails").await.contains("emails nobody knows"), "asking decides nothing");
            let pressed = press(app, &cookie, &asking, action).await;
            assert_eq!(pressed.status, 303, "{}", pressed.text());
            let after = page(app, &cookie, pressed.location().strip_prefix("/dashboard").expect("a page")).await;
            assert!(after.contains(says), "{after}");
            assert!(page(app, &cookie, "/emails").await.contains(left), "{left}");
            assert_eq!(press(app, &cookie, &asking, action).await.status, 303, "pressed twice");
        }
        app.assert_told(&["workspace.renamed", "email.retried", "email.dropped", "email.mark_delivered"]).await;
        for id in [second, third] {
            let late = app.get(format!("/dashboard/emails/{id}/recipients/0/drop")).header("cookie", &cookie).send().await;
            assert!(late.status == 409 && late.text().contains("There is nothing to drop"), "{}", late.text());
        }
        for path in [format!("/emails/{first}/recipients/7/drop"), format!("/emails/{first}/recipients/0/retry")] {
            let answer = app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await;
            assert_eq!(answer.status, 404, "{path}");
        }
        assert!(page(app, &cookie, "/").await.contains("1 mail is waiting for somebody to decide"));
        let forged = app.post(format!("/dashboard/emails/{first}/recipients/0/drop")).header("cookie", &cookie);
        let forged = forged.body("application/x-www-form-urlencoded", "token=x").send().await;
        assert_ne!(forged.status, 303, "a form that is not ours decides nothing");
        assert_eq!(post.recipients(first).await[0].0, 28);
    }

    async fn the_source_of_a_mail_is_what_travels(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let domain = post.app.post("/domains").key(&key).json(json!({"name": "sender.example"})).send().await;
        assert_eq!(domain.status, 201, "{}", domain.text());
        post.app.store.run("UPDATE domains SET is_owned = TRUE, may_send = TRUE, revision = revision + 1").await;
        post.app.store.run("UPDATE dkim_keys SET seen_at = 0").await;
        let cookie = owner(&post.app).await;
        let large = "A line of text\r\n.\r\n".repeat(40_000);
        let new = NewEmail { text: Some(posthorn::emails::Content::Here(large)), ..post.draft(&["bob@example.com"]).await };
        let id = post.queue(&new).await;
        assert_eq!(post.round().await, 1);
        let source = post.app.get(format!("/dashboard/emails/{id}/source")).header("cookie", &cookie).send().await;
        assert_eq!((source.status, source.header("content-type")), (200, Some("text/plain; charset=utf-8")));
        let taken = sink.kept().remove(0).text.replace("\r\n..", "\r\n.");
        let taken = taken.strip_suffix(".\r\n").expect("an end");
        assert!(source.text() == taken, "{} and {} bytes", source.text().len(), taken.len());
        assert!(source.text().starts_with("DKIM-Signature:"), "{}", &source.text()[..80]);
        assert!(page(&post.app, &cookie, &format!("/emails/{id}")).await.contains(&format!("/emails/{id}/source")));
        post.app.store.run("UPDATE emails SET size = NULL").await;
        let gone = post.app.get(format!("/dashboard/emails/{id}/source")).header("cookie", &cookie).send().await;
        assert_eq!(gone.status, 404);
        let stranger = post.app.get(format!("/dashboard/emails/{id}/source")).send().await;
        assert_ne!(stranger.status, 200);
    }
}
