//! Emails in the dashboard, as a person sees them.

use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::emails::{mail, mail_with, sent};
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
        assert!(waiting.contains("mx.example: 451 later. It is looked at again at 2 Jan 2026, 03:05:05 UTC."), "{waiting}");
        assert!(page(&app, &cookie, &format!("/emails/{later}")).await.contains("It is scheduled for 2 Jan 2026, 05:04:05 UTC."));
        let file = one.split("/attachments/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
        let saved = app.get(format!("/dashboard/emails/{id}/attachments/{file}")).header("cookie", &cookie).send().await;
        assert_eq!((saved.status, saved.text().as_str()), (200, "hi"));
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

    async fn decisions_1_another_workspaces_mail_has_no_page(app: TestApp) {
        let theirs = app.second_workspace_key().await;
        let cookie = owner(&app).await;
        let id = sent(&app, &theirs, mail()).await;
        for path in [format!("/emails/{id}"), format!("/emails/{id}/html"), format!("/emails/{id}/attachments/{id}"), "/emails/x".into()] {
            let answer = app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await;
            assert_eq!(answer.status, 404, "{path}");
        }
        assert!(page(&app, &cookie, "/emails").await.contains("No emails here"));
    }
}
