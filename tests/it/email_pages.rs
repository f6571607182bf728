//! Emails in the dashboard, as a person sees them.

use posthorn::clock::MINUTE;
use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::emails::{mail, mail_with, sent};
use crate::form_filling::Filled;
use crate::harness::{TestApp, on_both};

on_both! {
    async fn a_person_sees_what_became_of_mail_and_why_it_waits(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let empty = page(&app, &cookie, "/emails").await;
        assert!(empty.contains("No emails here") && empty.contains("Nothing leaves this machine"));
        let attachments = json!([{"content": "aGk=", "filename": "a.txt"}]);
        let body = mail_with(json!({"subject": "<b>Hi</b>", "attachments": attachments, "cc": "bob@example.com"}));
        let id = sent(&app, &key, body).await;
        let later = sent(&app, &key, mail_with(json!({"scheduled_at": "in 2 hours"}))).await;
        let list = page(&app, &cookie, "/emails").await;
        assert!(list.contains("&#60;b&#62;Hi") && list.contains(&format!("/emails/{later}")) && list.contains("Scheduled"));
        let one = page(&app, &cookie, &format!("/emails/{id}")).await;
        for word in ["Acme", "bob@example.com", "It is next in its line.", "a.txt", &format!("/emails/{id}/html"), "queued"] {
            assert!(one.contains(word), "{word}: {one}");
        }
        app.store.run("UPDATE email_recipients SET state = 30, due_at = due_at + 60000000, reason = 'mx.example: 451 later.' WHERE state = 10").await;
        let waiting = page(&app, &cookie, &format!("/emails/{id}")).await;
        assert!(waiting.contains("<bdi>mx.example: 451 later. It is looked at again at</bdi> <time datetime=\"2026-01-02T03:05:05.678901Z\""), "{waiting}");
        assert!(waiting.contains(">2 Jan 2026, 03:05:05 UTC</time>."), "{waiting}");
        let told = app.get(format!("/emails/{id}")).key(&key).send().await.json();
        assert_eq!(told["recipients"][0]["reason"], "mx.example: 451 later. It is looked at again at 2 Jan 2026, 03:05:05 UTC.");
        let scheduled = page(&app, &cookie, &format!("/emails/{later}")).await;
        assert!(scheduled.contains("<bdi>It is scheduled for</bdi> <time datetime=\"2026-01-02T05:04:05"), "{scheduled}");
        let file = one.split("/attachments/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
        let saved = app.get(format!("/dashboard/emails/{id}/attachments/{file}")).header("cookie", &cookie).send().await;
        assert_eq!((saved.status, saved.text().as_str()), (200, "hi"));
    }

    async fn headers_of_its_own_are_shown_with_a_mail(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let headers = json!({"X-Order": "<1041>", "X-Shop": "north"});
        let id = sent(&app, &key, mail_with(json!({"headers": headers}))).await;
        let one = page(&app, &cookie, &format!("/emails/{id}")).await;
        for words in ["Headers of its own", "<code>X-Order</code></dt><dd><bdi>&#60;1041&#62;</bdi>", "<code>X-Shop</code></dt><dd><bdi>north</bdi>"] {
            assert!(one.contains(words), "{words}: {one}");
        }
        let plain = sent(&app, &key, mail()).await;
        assert!(!page(&app, &cookie, &format!("/emails/{plain}")).await.contains("Headers of its own"));
    }

    async fn the_html_of_a_mail_is_shown_where_it_can_do_nothing(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let script = "<script>top.location = 'https://evil.example'</script><p>Hi</p>";
        let id = sent(&app, &key, mail_with(json!({"html": script}))).await;
        let html = app.get(format!("/dashboard/emails/{id}/html")).header("cookie", &cookie).send().await;
        assert_eq!((html.status, html.text().as_str()), (200, script));
        let policy = html.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("sandbox;") && policy.contains("default-src 'none'") && !policy.contains("allow-"), "{policy}");
        let around = app.get(format!("/dashboard/emails/{id}")).header("cookie", &cookie).send().await;
        assert!(around.text().contains("<iframe class=\"mail-frame\" sandbox src="));
        assert!(around.header("content-security-policy").expect("a policy").contains("frame-src 'self'"));
        let stranger = app.get(format!("/dashboard/emails/{id}/html")).send().await;
        assert_ne!(stranger.status, 200);
    }

    async fn mails_are_looked_for_by_their_state(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let mut ids = Vec::new();
        for _ in 0..23 {
            ids.push(sent(&app, &key, mail_with(json!({"scheduled_at": "in 1 hour"}))).await);
        }
        let other = sent(&app, &key, mail()).await;
        let scheduled = page(&app, &cookie, "/emails?state=scheduled").await;
        assert!(scheduled.contains(&ids[22]) && !scheduled.contains(&ids[2]) && !scheduled.contains(&other));
        assert!(!scheduled.contains("nobody knows whether"));
        let older = scheduled.split("rel=\"next\" href=\"/dashboard").nth(1).and_then(|rest| rest.split('"').next()).expect("more");
        let older = page(&app, &cookie, &older.replace("&#38;", "&")).await;
        assert!(older.contains(&ids[2]) && !older.contains(&ids[22]), "{older}");
        assert!(page(&app, &cookie, "/emails?state=bounced").await.contains("No emails in this state."));
        app.store.run("UPDATE email_recipients SET state = 28, due_at = NULL WHERE state = 10").await;
        let uncertain = page(&app, &cookie, "/emails?state=uncertain").await;
        assert!(uncertain.contains(&other) && !uncertain.contains(&ids[22]));
        assert!(uncertain.contains("Of one email nobody knows whether it arrived."), "{uncertain}");
        let unknown = app.get("/dashboard/emails?state=lost").header("cookie", &cookie).send().await;
        assert_eq!(unknown.status, 404);
        let moved = app.get("/dashboard/messages").header("cookie", &cookie).send().await;
        assert_eq!((moved.status, moved.location()), (308, "/dashboard/emails"));
    }

    async fn a_search_and_a_state_are_kept_together(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let mail_of = async |subject: &str, more: serde_json::Value| {
            let mut body = mail_with(more);
            body["subject"] = json!(subject);
            sent(&app, &key, body).await
        };
        let later = json!({"scheduled_at": "in 1 hour"});
        let first = mail_of("Spring & more", later.clone()).await;
        let (queued, other) = (mail_of("Spring & more", json!({})).await, mail_of("Autumn", later.clone()).await);
        let both = page(&app, &cookie, "/emails?state=scheduled&search=spring+%26").await;
        assert!(both.contains(&format!("/emails/{first}\"")) && !both.contains(&queued) && !both.contains(&other), "{both}");
        assert!(both.contains("<input type=\"hidden\" name=\"state\" value=\"scheduled\">"), "{both}");
        for link in ["?search=spring%20%26\">All", "?state=bounced&#38;search=spring%20%26\">Bounced", "?state=scheduled\">Show all"] {
            assert!(both.contains(link), "{link}: {both}");
        }
        for _ in 0..50 {
            mail_of("Spring & more", later.clone()).await;
        }
        let newest = page(&app, &cookie, "/emails?state=scheduled&search=spring+%26").await;
        assert!(!newest.contains(&first), "fifty at once");
        let older = newest.split("rel=\"next\" href=\"/dashboard").nth(1).and_then(|rest| rest.split('"').next()).expect("more");
        assert!(older.contains("state=scheduled&#38;search=spring%20%26&#38;after="), "{older}");
        let older = page(&app, &cookie, &older.replace("&#38;", "&")).await;
        assert!(older.contains(&first) && !older.contains(&queued) && !older.contains(&other), "{older}");
        app.store.run("UPDATE email_recipients SET state = 28, due_at = NULL WHERE state = 10").await;
        let uncertain = page(&app, &cookie, "/emails?state=uncertain&search=spring").await;
        assert!(uncertain.contains(&queued) && !uncertain.contains(&first), "{uncertain}");
    }

    async fn a_shared_mail_can_be_read_for_as_long_as_was_chosen(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let path = format!("/emails/{}", sent(&app, &key, mail()).await);
        let form = Filled::of(&page(&app, &cookie, &path).await, "/share");
        let wrong = form.with("expires_in", "3 days").send(&app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("aria-describedby=\"f-expires_in-error\""), "{}", wrong.text());
        let form = Filled::of(&wrong.text(), "/share");
        assert_eq!(form.value("expires_in"), "3 days", "what was typed stays");
        let shared = form.with("expires_in", "10m").send(&app, &cookie).await.text();
        assert!(shared.contains("2 January 2026, 03:14 UTC</time>"), "{shared}");
        let token = shared.split("/shared/emails/").nth(1).and_then(|rest| rest.split('<').next()).expect("a link");
        let link = format!("/shared/emails/{token}");
        assert_eq!(app.get(&link).send().await.status, 200);
        app.clock.advance(11 * MINUTE);
        assert_eq!(app.get(&link).send().await.status, 404);
    }

    async fn a_body_of_any_length_can_be_read(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let (html, text) = ("<p>Grüße &amp; more</p>\n".repeat(60_000), "a < b & c, Grüße\n".repeat(80_000));
        let id = sent(&app, &key, mail_with(json!({"html": html, "text": text}))).await;
        let one = page(&app, &cookie, &format!("/emails/{id}")).await;
        assert!(one.contains(&format!("src=\"/dashboard/emails/{id}/html\"")) && one.contains(&format!("/emails/{id}/text")));
        let shared = app.post(format!("/emails/{id}/share")).key(&key).send().await.json();
        let shared = shared["url"].as_str().and_then(|url| url.strip_prefix("https://mail.example")).expect("ours").to_owned();
        for path in [format!("/dashboard/emails/{id}/html"), shared] {
            let shown = app.get(&path).header("cookie", &cookie).send().await;
            assert_eq!((shown.status, shown.header("content-type")), (200, Some("text/html; charset=utf-8")), "{path}");
            assert!(shown.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox;")));
            assert!(shown.text() == html, "{path}: {} bytes", shown.text().len());
        }
        let shown = app.get(format!("/dashboard/emails/{id}/text")).header("cookie", &cookie).send().await;
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
        assert!(shown.text() == format!("<!doctype html><meta charset=utf-8><pre>{escaped}</pre>"), "{}", shown.text().len());
        assert!(shown.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox;")));
    }

    async fn a_key_is_held_to_a_domain_on_its_page(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let made = app.post("/domains").key(&key).json(json!({"name": "acme.example"})).send().await.json();
        let domain = made["id"].as_str().expect("an id");
        let form = |page: &str, more: &str| {
            let value = |name: &str| page.split(&format!("name=\"{name}\" value=\"")).nth(1).and_then(|rest| rest.split('"').next()).expect("a field").to_owned();
            // The first form of the page is the way out.
            let own = page.split("<form class=\"panel\"").nth(1).expect("the form");
            let token = own.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a token");
            format!("token={}&id={}&name=shop&{more}", crate::asking::encoded(token), value("id"))
        };
        let send = async |more: &str| {
            let list = page(&app, &cookie, "/keys").await;
            assert!(list.contains(">acme.example</option>"), "{list}");
            let request = app.post("/dashboard/keys").header("cookie", &cookie);
            request.body("application/x-www-form-urlencoded", form(&list, more)).send().await
        };
        let both = send(&format!("permission=full_access&domain={domain}")).await;
        assert_eq!(both.status, 422, "{}", both.text());
        assert!(both.text().contains("not held to a domain"));
        assert_eq!(send("permission=sending_access&domain=01890000-0000-7000-8000-000000000000").await.status, 404);
        let made = send(&format!("permission=sending_access&domain={domain}")).await;
        assert_eq!(made.status, 200, "{}", made.text());
        let token = made.text().split("<code>re_").nth(1).and_then(|rest| rest.split('<').next().map(|end| format!("re_{end}"))).expect("a key");
        assert!(page(&app, &cookie, "/keys").await.contains("<bdi class=\"clip\">acme.example</bdi> alone"));
        sent(&app, &token, mail()).await;
        let elsewhere = crate::emails::post(&app, &token, mail_with(json!({"from": "a@other.example"}))).await;
        elsewhere.refused(403, "validation_error");
    }

    async fn decisions_1_another_workspaces_mail_has_no_page(app: TestApp) {
        let theirs = app.second_workspace_key().await;
        let cookie = owner(&app).await;
        let id = sent(&app, &theirs, mail()).await;
        for path in [format!("/emails/{id}"), format!("/emails/{id}/html"), format!("/emails/{id}/text"), format!("/emails/{id}/source"), format!("/emails/{id}/attachments/{id}"), "/emails/x".into()] {
            let answer = app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await;
            assert_eq!(answer.status, 404, "{path}");
        }
        assert!(page(&app, &cookie, "/emails").await.contains("No emails here"));
    }
}
