//! Mail that was handed in: read, listed, rescheduled, taken back, shared.

use posthorn::clock::{HOUR, SECOND};
use posthorn::emails;
use serde_json::{Value, json};

use crate::contacts::ids;
use crate::delivery::Post;
use crate::emails::{mail, mail_with, sent, shown};
use crate::harness::{Answer, TestApp, on_both};
use crate::sink::{Does, Sink};
use crate::store::Store;

const DAY: i64 = 24 * HOUR;

/// What stands behind an address of ours.
async fn follow(app: &TestApp, address: &Value) -> Answer {
    let path = address.as_str().expect("an address").strip_prefix("https://mail.example").expect("ours");
    app.get(path).send().await
}

async fn cancel(app: &TestApp, key: &str, id: &str) -> Answer {
    app.post(format!("/emails/{id}/cancel")).key(key).send().await
}

async fn reschedule(app: &TestApp, key: &str, id: &str, at: &str) -> Answer {
    app.patch(format!("/emails/{id}")).key(key).json(json!({"scheduled_at": at})).send().await
}

on_both! {
    async fn mails_are_listed_newest_first_and_20_without_a_limit(app: TestApp) {
        let key = app.full_key().await;
        let mut made = Vec::new();
        for n in 0..22 {
            made.insert(0, sent(&app, &key, mail_with(json!({"subject": format!("{n}")}))).await);
        }
        let list = async |query: &str| app.get(format!("/emails{query}")).key(&key).send().await.json();
        let first = list("").await;
        assert_eq!((ids(&first), &first["has_more"]), (made[..20].to_vec(), &json!(true)));
        let keys: Vec<&String> = first["data"][0].as_object().expect("an item").keys().collect();
        let shape = ["id", "message_id", "to", "from", "created_at", "subject", "bcc", "cc", "reply_to", "last_event", "scheduled_at"];
        assert_eq!(keys, shape);
        assert_eq!(ids(&list(&format!("?limit=3&after={}", made[19])).await), made[20..]);
        assert_eq!(ids(&list(&format!("?limit=1&before={}", made[1])).await), made[..1]);
    }

    async fn a_mail_lists_its_recipients_with_what_became_of_each(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "RCPT TO:<eve@example.com>" => Does::Says("451 4.2.1 later"),
            "RCPT TO:<mallory@example.com>" => Does::Says("550 5.1.1 who"),
            _ => Does::Usual,
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let key = post.app.full_key().await;
        let id = post.queue(&post.draft(&["Bob <bob@example.com>", "eve@example.com", "mallory@example.com"]).await).await;
        let recipients = async || shown(&post.app, &key, &id.to_string()).await["recipients"].clone();
        let states = |all: &Value| {
            let all = all.as_array().expect("recipients").iter();
            all.map(|one| (one["to"].clone(), one["last_event"].clone())).collect::<Vec<_>>()
        };
        let waiting = recipients().await;
        assert_eq!(states(&waiting)[0], (json!("bob@example.com"), json!("queued")));
        assert!(waiting[0]["waits_until"].is_null() && waiting[0]["reason"].is_string(), "{waiting}");
        while post.round().await > 0 {}
        let told = recipients().await;
        let expected = [("bob@example.com", "delivered"), ("eve@example.com", "queued"), ("mallory@example.com", "bounced")];
        assert_eq!(states(&told), expected.map(|(to, state)| (json!(to), json!(state))));
        let keys: Vec<&String> = told[0].as_object().expect("a recipient").keys().collect();
        assert_eq!(keys, ["to", "last_event", "reason", "waits_until"]);
        assert!(told[1]["reason"].as_str().is_some_and(|reason| reason.contains("451 4.2.1 later")), "{told}");
        assert!(told[1]["waits_until"].is_string() && told[2]["waits_until"].is_null(), "{told}");
    }

    async fn decisions_1_another_workspaces_mail_is_404_on_every_method(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let body = mail_with(json!({"scheduled_at": "in 1 hour", "attachments": [{"content": "aGk=", "filename": "a.txt"}]}));
        let id = sent(&app, &mine, body).await;
        let path = format!("/emails/{id}");
        let file = app.get(format!("{path}/attachments")).key(&mine).send().await.json()["data"][0]["id"].clone();
        let file = file.as_str().expect("an id");
        for path in [path.clone(), format!("{path}/attachments"), format!("{path}/attachments/{file}")] {
            app.get(path).key(&theirs).send().await.refused(404, "not_found");
        }
        cancel(&app, &theirs, &id).await.refused(404, "not_found");
        reschedule(&app, &theirs, &id, "in 2 hours").await.refused(404, "not_found");
        app.post(format!("{path}/share")).key(&theirs).send().await.refused(404, "not_found");
        assert_eq!(app.get("/emails").key(&theirs).send().await.json()["data"], json!([]));
        assert_eq!(shown(&app, &mine, &id).await["last_event"], "scheduled");
        app.get("/emails/x").key(&mine).send().await.refused(422, "invalid_parameter");
    }

    async fn a_scheduled_mail_gets_another_time(app: TestApp) {
        let key = app.full_key().await;
        let id = sent(&app, &key, mail_with(json!({"scheduled_at": "in 1 hour"}))).await;
        let moved = reschedule(&app, &key, &id, "2026-01-03T00:00:00Z").await;
        assert_eq!((moved.status, moved.json()), (200, json!({"object": "email", "id": id})), "{}", moved.text());
        assert_eq!(shown(&app, &key, &id).await["scheduled_at"], "2026-01-03T00:00:00.000000Z");
        let due: i64 = app.store.value("SELECT due_at FROM email_recipients").await.expect("a time").parse().expect("a number");
        assert_eq!(due, 1_767_398_400 * SECOND);
        assert!(reschedule(&app, &key, &id, "yesterday").await.refused(422, "validation_error").contains("`scheduled_at`"));
        app.patch(format!("/emails/{id}")).key(&key).json(json!({})).send().await.refused(422, "missing_required_field");
        let queued = sent(&app, &key, mail()).await;
        assert!(reschedule(&app, &key, &queued, "in 1 hour").await.refused(422, "validation_error").contains("`queued`"));
    }

    async fn a_mail_is_taken_back_until_somebody_has_claimed_it(app: TestApp) {
        let key = app.full_key().await;
        let scheduled = sent(&app, &key, mail_with(json!({"scheduled_at": "in 1 hour", "cc": "b@example.com"}))).await;
        for _ in 0..2 {
            let canceled = cancel(&app, &key, &scheduled).await;
            assert_eq!((canceled.status, canceled.json()), (200, json!({"object": "email", "id": scheduled})));
        }
        assert_eq!(shown(&app, &key, &scheduled).await["last_event"], "canceled");
        assert_eq!(app.store.value("SELECT COUNT(*) FROM email_recipients WHERE state = 90 AND due_at IS NULL").await.as_deref(), Some("2"));
        assert_eq!(app.store.value("SELECT COUNT(*) FROM email_events WHERE type = 'canceled'").await.as_deref(), Some("1"));
        let under_way = sent(&app, &key, mail_with(json!({"cc": "b@example.com"}))).await;
        app.store.run("UPDATE email_recipients SET attempt = 1 WHERE number = 1 AND state = 10").await;
        cancel(&app, &key, &under_way).await.refused(422, "validation_error");
        reschedule(&app, &key, &under_way, "in 1 hour").await.refused(422, "validation_error");
        assert_eq!(shown(&app, &key, &under_way).await["last_event"], "queued", "not even in part");
        assert_eq!(app.store.value("SELECT COUNT(*) FROM email_recipients WHERE state = 90").await.as_deref(), Some("2"));
        app.store.run("UPDATE emails SET state = 40 WHERE state = 10").await;
        assert!(cancel(&app, &key, &under_way).await.refused(422, "validation_error").contains("`delivered`"));
        cancel(&app, &key, "01890000-0000-7000-8000-000000000000").await.refused(404, "not_found");
    }

    async fn attachments_are_listed_and_downloaded_by_a_link_that_ends(app: TestApp) {
        let key = app.full_key().await;
        let attachments = json!([
            {"content": "aGVsbG8=", "filename": "grüße.txt"},
            {"content": [0, 255, 10], "content_type": "image/png", "content_id": "logo"},
            {"content": {"type": "Buffer", "data": [104, 105]}, "filename": "b.pdf"},
        ]);
        let id = sent(&app, &key, mail_with(json!({"attachments": attachments}))).await;
        let list = app.get(format!("/emails/{id}/attachments")).key(&key).send().await.json();
        let files = list["data"].as_array().expect("files");
        let facts: Vec<Value> = files.iter().map(|file| {
            json!([file["filename"], file["size"], file["content_type"], file["content_disposition"], file["content_id"]])
        }).collect();
        assert_eq!(facts, [
            json!(["b.pdf", 2, "application/pdf", "attachment", null]),
            json!([null, 3, "image/png", "inline", "logo"]),
            json!(["grüße.txt", 5, "text/plain", "attachment", null]),
        ]);
        let one = app.get(format!("/emails/{id}/attachments/{}", files[2]["id"].as_str().expect("an id"))).key(&key).send().await.json();
        assert_eq!((&one["object"], &one["expires_at"]), (&json!("attachment"), &json!("2026-01-02T04:04:05.678901Z")));
        let got = follow(&app, &one["download_url"]).await;
        assert_eq!((got.status, got.text().as_str(), got.header("content-type")), (200, "hello", Some("text/plain")));
        assert_eq!(got.header("content-disposition"), Some("attachment; filename*=UTF-8''gr%C3%BC%C3%9Fe%2Etxt"));
        assert!(got.header("content-security-policy").expect("a policy").starts_with("sandbox"));
        assert_eq!(follow(&app, &files[1]["download_url"]).await.body[..], [0, 255, 10]);
        let mut forged = one["download_url"].as_str().expect("an address").to_owned();
        forged.replace_range(forged.len() - 8..forged.len() - 7, if forged.ends_with('A') { "B" } else { "A" });
        let last = forged.pop().expect("a letter");
        forged.push(if last == 'w' { 'g' } else { 'w' });
        follow(&app, &json!(forged)).await.refused(404, "not_found");
        app.get("/shared/attachments/x").send().await.refused(404, "not_found");
        app.clock.advance(HOUR);
        follow(&app, &one["download_url"]).await.refused(404, "not_found");
        let page = app.get(format!("/emails/{id}/attachments?limit=1&after={}", files[0]["id"].as_str().expect("an id")));
        let page = page.key(&key).send().await.json();
        assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&files[1]["id"], &json!(true)));
        app.get(format!("/emails/{id}/attachments/{id}")).key(&key).send().await.refused(404, "not_found");
        app.get(format!("/emails/{id}/attachments/x")).key(&key).send().await.refused(422, "invalid_parameter");
    }

    async fn a_mail_is_shared_by_a_link_that_shows_it_in_a_sandbox(app: TestApp) {
        let key = app.full_key().await;
        let id = sent(&app, &key, mail()).await;
        let share = async |body: Value| app.post(format!("/emails/{id}/share")).key(&key).json(body).send().await;
        let shared = share(json!({})).await;
        assert_eq!((shared.status, &shared.json()["object"], &shared.json()["id"]), (200, &json!("email"), &json!(id)));
        let short = share(json!({"expires_in": "1h 30m"})).await.json();
        let page = follow(&app, &short["url"]).await;
        assert_eq!((page.status, page.text().as_str()), (200, "<p>Hi</p>"));
        let policy = page.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("sandbox;") && policy.contains("default-src 'none'"), "{policy}");
        for wrong in ["", "3 days", "0m", "soon"] {
            assert!(share(json!({"expires_in": wrong})).await.refused(422, "validation_error").contains("`expires_in`"));
        }
        app.clock.advance(2 * HOUR);
        follow(&app, &short["url"]).await.refused(404, "not_found");
        assert_eq!(follow(&app, &shared.json()["url"]).await.status, 200);
        let text = sent(&app, &key, mail_with(json!({"html": null, "text": "<b>&"}))).await;
        let url = app.post(format!("/emails/{text}/share")).key(&key).send().await.json()["url"].clone();
        assert!(follow(&app, &url).await.text().contains("&lt;b>&amp;"));
    }

    async fn decisions_7_contents_are_kept_30_days_and_what_happened_for_good(app: TestApp) {
        let key = app.full_key().await;
        let old = sent(&app, &key, mail_with(json!({"attachments": [{"content": "aGk="}]}))).await;
        let later = sent(&app, &key, mail_with(json!({"scheduled_at": "in 30 days"}))).await;
        app.store.run("UPDATE email_recipients SET due_at = NULL, state = 40 WHERE state = 10").await;
        app.clock.advance(30 * DAY + 1);
        let young = sent(&app, &key, mail()).await;
        emails::sweep(&app.app).await.expect("swept");
        let gone = shown(&app, &key, &old).await;
        assert_eq!((&gone["html"], &gone["subject"]), (&Value::Null, &json!("Hello")));
        assert_eq!(app.count("email_chunks").await, 0);
        assert_eq!(app.get(format!("/emails/{old}/attachments")).key(&key).send().await.json()["data"], json!([]));
        for id in [later, young] {
            assert_eq!(shown(&app, &key, &id).await["html"], "<p>Hi</p>", "it is still to be sent, or young");
        }
    }
}
