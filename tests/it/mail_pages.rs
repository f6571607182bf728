//! Mail in the dashboard, as a person writes and sends it.

use posthorn::accounts::Role;
use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::broadcasts::Stage;
use crate::emails::{mail_with, sent};
use crate::engine_webhooks::Listener;
use crate::form_filling::{Filled, leads_to};
use crate::harness::{TestApp, on_both};
use crate::sink::Sink;
use crate::store::Store;
use crate::templates::{make, order_with, published};
use crate::webhooks::Teller;

async fn refused(app: &TestApp, cookie: &str, path: &str, status: u16) {
    let answer = app.get(format!("/dashboard{path}")).header("cookie", cookie).send().await;
    assert_eq!(answer.status, status, "{path}: {}", answer.text());
}

on_both! {
    async fn a_template_is_written_published_copied_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let empty = Filled::of(&page(&app, &cookie, "/templates/new").await, "/templates/new");
        let flawed = empty.with("name", "Receipt").with("subject", "For {{{NAME}}}").with("html", "<p>\n{% if x %}</p>");
        let answer = flawed.send(&app, &cookie).await;
        assert_eq!(answer.status, 422, "{}", answer.text());
        let again = Filled::of(&answer.text(), "/templates/new");
        assert!(answer.text().contains("f-html-error") && answer.text().contains("is no template: line 2"), "{}", answer.text());
        assert_eq!((again.value("html"), again.value("subject")), ("<p>\n{% if x %}</p>", "For {{{NAME}}}"));
        let long = format!("<p>{{{{{{NAME}}}}}} {{{{{{TOTAL}}}}}}</p>{}", "<i>é</i>\n".repeat(12_000));
        let form = again.with("html", &long).with("key", "NAME").with("alias", "receipt");
        let made = leads_to(&form.send(&app, &cookie).await);
        assert_eq!(leads_to(&form.send(&app, &cookie).await), made, "a form that is sent twice makes one template");
        let path = made.trim_end_matches("?created");
        let stored = app.get("/templates/receipt").key(&key).send().await.json();
        assert_eq!((&stored["html"], stored["variables"][0]["key"].as_str()), (&json!(long), Some("NAME")));
        let one = page(&app, &cookie, &made).await;
        for word in ["It is a draft until you publish it.", "<code>NAME</code> <code>TOTAL</code>", "v.NAME", "390 px"] {
            assert!(one.contains(word), "{word}: {one}");
        }
        let tried = page(&app, &cookie, &format!("{path}?v.NAME=Ada+%26+Co&width=phone")).await;
        assert!(tried.contains("For Ada &#38; Co") && tried.contains("mail-frame phone") && tried.contains("<code>TOTAL</code>"), "{tried}");
        let frame = tried.split("sandbox src=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a frame").replace("&#38;", "&");
        assert!(app.get(frame).header("cookie", &cookie).send().await.text().contains("<p>Ada &"));

        let ask = page(&app, &cookie, &format!("{path}/publish")).await;
        assert!(ask.contains("It was never published") && ask.contains("<code>TOTAL</code>") && ask.contains("class=\"plus\""), "{ask}");
        assert_eq!(leads_to(&Filled::of(&ask, "/publish").send(&app, &cookie).await), format!("{path}?published"));
        let copy = leads_to(&Filled::of(&page(&app, &cookie, path).await, "/duplicate").send(&app, &cookie).await);
        assert!(page(&app, &cookie, &copy).await.contains("Receipt (copy)"));
        let copy = copy.trim_end_matches("?copied");
        let ask = page(&app, &cookie, &format!("{copy}/delete")).await;
        assert_eq!(leads_to(&Filled::of(&ask, "/delete").send(&app, &cookie).await), "/templates?deleted");
        refused(&app, &cookie, copy, 404).await;
        let taken = Filled::of(&page(&app, &cookie, "/templates/new").await, "/templates/new");
        let taken = taken.with("name", "Other").with("html", "x").with("alias", "receipt").send(&app, &cookie).await;
        assert_eq!(taken.status, 409, "{}", taken.text());
        assert!(taken.text().contains("f-alias-error"), "{}", taken.text());
    }

    async fn a_template_that_is_saved_unchanged_is_byte_for_byte_what_it_was(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let sources = ["\n\n<p>a</p>\r\n\r\n<b>\t</b>", "<p>\r\nHi &amp; <br/>\r\n</p>\r\n", "</textarea><script>x</script>\n", " \u{1f4ef} "];
        for (number, html) in sources.into_iter().enumerate() {
            let variables = json!([{"key": "ORDER_ID", "type": "string"}, {"key": "N", "type": "list", "fallback_value": [1, "a"]},
                {"key": "E", "type": "string", "fallback_value": ""}]);
            let body = json!({"alias": format!("t{number}"), "html": html, "text": "a\rb\n", "variables": variables, "subject": " \"x\" <{{{ORDER_ID}}}> "});
            let id = published(&app, &key, order_with(body)).await;
            let read = async || app.get(format!("/templates/{id}")).key(&key).send().await.json();
            let (before, path) = (read().await, format!("/templates/{id}"));
            let form = Filled::of(&page(&app, &cookie, &format!("{path}/edit")).await, "/edit");
            assert_eq!(leads_to(&form.send(&app, &cookie).await), format!("{path}?saved"));
            let mut after = read().await;
            after["updated_at"] = before["updated_at"].clone();
            assert_eq!(after, before, "{html:?}: and no version is made");
        }
    }

    async fn who_saves_second_is_told_and_keeps_the_text(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let path = format!("/templates/{}", make(&app, &key, order_with(json!({}))).await);
        let edit = || async { Filled::of(&page(&app, &cookie, &format!("{path}/edit")).await, "/edit") };
        let (first, second) = (edit().await.with("subject", "One"), edit().await.with("subject", "Two"));
        leads_to(&first.send(&app, &cookie).await);
        let told = second.send(&app, &cookie).await;
        assert_eq!(told.status, 409);
        let text = told.text();
        assert!(text.contains("Somebody changed this template") && text.contains("-One") && text.contains("+Two"), "{text}");
        leads_to(&Filled::of(&text, "/edit").send(&app, &cookie).await);
        assert_eq!(app.get("/templates/order").key(&key).send().await.json()["subject"], "Two");
    }

    async fn a_test_of_a_template_and_a_mail_are_sent_by_form(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let path = format!("/templates/{}", make(&app, &key, order_with(json!({"from": null}))).await);
        let form = Filled::of(&page(&app, &cookie, &format!("{path}/test")).await, "/test");
        assert_eq!(form.value("to"), "owner@example.com");
        let answer = form.with("variables", "{\"ORDER_ID\": 5}").send(&app, &cookie).await;
        assert!(answer.status == 422 && answer.text().contains("must be a string"), "{}", answer.text());
        let form = Filled::of(&answer.text(), "/test").with("variables", "{\"ORDER_ID\": \"A-7\"}");
        let missing = form.send(&app, &cookie).await;
        assert!(missing.status == 422 && missing.text().contains("f-from-error"), "{}", missing.text());
        let form = Filled::of(&missing.text(), "/test").with("from", "shop@acme.example");
        let mail = leads_to(&form.send(&app, &cookie).await);
        assert_eq!(leads_to(&form.send(&app, &cookie).await), mail);
        let shown = page(&app, &cookie, &mail).await;
        assert!(shown.contains("[Test] Order A-7") && shown.contains("The mail is queued."), "{shown}");
        assert_eq!(app.count("emails").await, 1);

        let form = Filled::of(&page(&app, &cookie, "/emails/new").await, "/emails/new");
        let form = form.with("from", "Ann <ann@acme.example>").with("subject", "Hi").with("to", "a@example.com\nb@example.com").with("text", "One\nTwo");
        let late = form.with("scheduled_at", "yesterday").send(&app, &cookie).await;
        assert!(late.status == 422 && late.text().contains("f-scheduled_at-error") && late.text().contains("One\nTwo"), "{}", late.text());
        let mail = leads_to(&Filled::of(&late.text(), "/emails/new").with("scheduled_at", "in 2 hours").send(&app, &cookie).await);
        let one = page(&app, &cookie, &mail).await;
        assert!(one.contains("b@example.com") && one.contains("<bdi>It is scheduled for</bdi> <time ") && one.contains(">2 Jan 2026, 05:04:05 UTC</time>."), "{one}");
        let never = Filled::of(&one, "/reschedule").with("scheduled_at", "when it suits").send(&app, &cookie).await;
        let text = never.text();
        assert!(never.status == 422 && text.contains("id=\"f-scheduled_at-error\">") && text.contains("b@example.com"), "{text}");
        let again = Filled::of(&text, "/reschedule");
        assert_eq!(again.value("scheduled_at"), "when it suits");
        let moved = again.with("scheduled_at", "in 3 hours").send(&app, &cookie).await;
        let moved = page(&app, &cookie, &leads_to(&moved)).await;
        assert!(moved.contains("The mail has its new time.") && moved.contains(">2 Jan 2026, 06:04:05 UTC</time>."), "{moved}");
        let ask = page(&app, &cookie, &format!("{}/cancel", mail.trim_end_matches("?sent"))).await;
        let canceled = leads_to(&Filled::of(&ask, "/cancel").send(&app, &cookie).await);
        assert!(page(&app, &cookie, &canceled).await.contains("The mail will not be sent."));
        app.assert_told(&["template.created", "email.sent", "email.sent", "email.rescheduled", "email.canceled"]).await;
        let path = canceled.trim_end_matches("?canceled").to_owned();
        for (state, words) in [(90, "was taken back already"), (40, "cannot be taken back any more"), (20, "cannot be taken back any more")] {
            app.store.run(&format!("UPDATE emails SET state = {state} WHERE subject = 'Hi'")).await;
            let late = app.get(format!("/dashboard{path}/cancel")).header("cookie", &cookie).send().await;
            assert!(late.status == 409 && late.text().contains(words) && !late.text().contains("not left yet"), "{}", late.text());
        }
        let late = Filled::of(&ask, "/cancel").send(&app, &cookie).await;
        assert!(late.status == 409 && late.text().contains("cannot be taken back any more"), "{}", late.text());
        let of_another = sent(&app, &app.second_workspace_key().await, mail_with(json!({"scheduled_at": "in 1 hour"}))).await;
        refused(&app, &cookie, &format!("/emails/{of_another}/cancel"), 404).await;
    }

    async fn a_mail_by_form_has_all_that_one_of_the_api_has(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let topic = app.post("/topics").key(&key).json(json!({"name": "News", "default_subscription": "opt_in"})).send().await.json();
        let topic = topic["id"].as_str().expect("an id");
        let new = page(&app, &cookie, "/emails/new").await;
        assert!(new.contains(">News</option>"), "{new}");
        let form = Filled::of(&new, "/emails/new").with("from", "ann@acme.example").with("subject", "Hi").with("text", "One\nTwo");
        let form = form.with("html", "<img src=\"cid:logo.png\">").with("cc", "c@example.com").with("bcc", "d@example.com");
        let form = form.with("reply_to", "r@example.com").with("topic_id", topic).with("tags", "shop=north\n\n campaign = may ");
        // What is refused stays, but for the files.
        for (field, typed, message) in [
            ("headers", "X-Ref: A-1\nno header", "must have one `Name: value` a line, but has `no header`"),
            ("headers", "X-Ref: 1\nX-Ref: 2", "names `X-Ref` twice"),
            ("headers", "X-Ref: 1\nx-ref: 2", "` twice: capital letters make no other header of it"),
            ("headers", "Subject: other", "must not be Subject"),
            ("tags", "north", "must have one `name=value` a line"),
            ("tags", "shop=no spaces", "must be at most 256 ASCII letters"),
            ("topic_id", "x", "UUID"),
        ] {
            let flawed = Filled::of(&page(&app, &cookie, "/emails/new").await, "/emails/new").with("from", "ann@acme.example");
            let flawed = flawed.with("subject", "Kept").with("text", "Kept too").with(field, typed);
            let answer = flawed.file("attachments", "a.txt", "text/plain", "a").send(&app, &cookie).await;
            let text = answer.text();
            assert_eq!(answer.status, 422, "{field}: {text}");
            let beside = text.split(&format!("id=\"f-{field}-error\">")).nth(1).and_then(|rest| rest.split('<').next());
            assert!(beside.is_some_and(|told| told.contains(message)), "{field}: {text}");
            assert!(text.contains("The files are not kept: choose them again."), "{text}");
            let again = Filled::of(&text, "/emails/new");
            assert_eq!((again.value("subject"), again.value("text")), ("Kept", "Kept too"));
            assert!(field == "topic_id" || again.value(field) == typed, "{text}");
        }
        let none = form.send(&app, &cookie).await;
        assert_eq!(none.status, 303, "no file need be chosen: {}", none.text());

        let form = Filled::of(&page(&app, &cookie, "/emails/new").await, "/emails/new").with("from", "ann@acme.example");
        let form = form.with("subject", "Files").with("html", "<img src=\"cid:logo.png\">").with("headers", "X-Ref: A-1: b\nX-Other:c");
        let form = form.with("topic_id", topic).with("tags", "shop=north\n\n campaign = may ").with("reply_to", "r@example.com");
        let large = "0123456789".repeat(40_000);
        let form = form.file("attachments", "Grüße; x.txt", "text/plain", large.as_str()).file("attachments", "logo.png", "image/png", *b"\x89PNG\r\n--edg");
        let form = form.file("attachments", "empty.pdf", "", "");
        let mail = leads_to(&form.send(&app, &cookie).await);
        assert_eq!(leads_to(&form.send(&app, &cookie).await), mail, "sent twice, it is one mail");
        let id = mail.trim_start_matches("/emails/").trim_end_matches("?sent").to_owned();
        let stored = app.get(format!("/emails/{id}")).key(&key).send().await.json();
        assert_eq!((&stored["topic_id"], &stored["reply_to"]), (&json!(topic), &json!(["r@example.com"])));
        assert_eq!(stored["tags"], json!([{"name": "shop", "value": "north"}, {"name": "campaign", "value": "may"}]));
        let one = page(&app, &cookie, &mail).await;
        assert!(one.contains("<dt><code>X-Ref</code></dt><dd><bdi>A-1: b</bdi></dd>") && one.contains("<bdi>c</bdi>"), "{one}");
        let files = app.get(format!("/emails/{id}/attachments")).key(&key).send().await.json();
        // The newest comes first.
        let told = |at: usize| { let file = &files["data"][2 - at]; (file["filename"].as_str(), file["content_type"].as_str(), file["size"].as_u64(), file["content_id"].as_str()) };
        assert_eq!(told(0), (Some("Grüße; x.txt"), Some("text/plain"), Some(400_000), None));
        assert_eq!(told(1), (Some("logo.png"), Some("image/png"), Some(11), Some("logo.png")));
        assert_eq!(told(2), (Some("empty.pdf"), Some("application/pdf"), Some(0), None));
        let file = files["data"][2]["id"].as_str().expect("an id");
        let saved = app.get(format!("/dashboard/emails/{id}/attachments/{file}")).header("cookie", &cookie).send().await;
        assert!(saved.status == 200 && saved.text() == large, "{}: {} bytes", saved.status, saved.text().len());
    }

    async fn a_form_with_a_file_that_is_sent_several_times_at_once_is_one_mail_with_the_whole_file(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let (new, large) = (page(&app, &cookie, "/emails/new").await, "0123456789".repeat(200_000));
        let filled = || {
            let form = Filled::of(&new, "/emails/new").with("from", "ann@acme.example").with("subject", "File").with("text", "Hello");
            form.file("attachments", "a.txt", "text/plain", large.as_str())
        };
        let (whole, same, flawed) = (filled(), filled(), filled().with("paths", "http://127.0.0.1/x"));
        let (whole, same, flawed) = tokio::join!(whole.send(&app, &cookie), same.send(&app, &cookie), flawed.send(&app, &cookie));
        assert_eq!((leads_to(&whole), flawed.status), (leads_to(&same), 422), "{}", flawed.text());
        let mails = app.get("/emails").key(&key).send().await.json();
        let [mail] = &mails["data"].as_array().expect("mails")[..] else { panic!("{mails}") };
        let id = mail["id"].as_str().expect("an id");
        let files = app.get(format!("/emails/{id}/attachments")).key(&key).send().await.json();
        let file = files["data"][0]["id"].as_str().expect("an id");
        let saved = app.get(format!("/dashboard/emails/{id}/attachments/{file}")).header("cookie", &cookie).send().await;
        assert!(saved.status == 200 && saved.text() == large, "{}: {} bytes", saved.status, saved.text().len());
        assert_eq!(app.count("email_chunks").await, 8, "and no pieces of the others are left");
        let later = filled().send(&app, &cookie).await;
        assert_eq!((leads_to(&later), app.count("emails").await, app.count("email_chunks").await), (leads_to(&whole), 1, 8));
        let other_file = filled().file("attachments", "a.txt", "text/plain", "other").send(&app, &cookie).await;
        assert!(other_file.status == 409 && other_file.text().contains("was sent already"), "{}", other_file.text());
        assert_eq!((app.count("emails").await, app.count("email_chunks").await), (1, 8));
    }

    async fn a_mail_that_is_changed_after_it_was_sent_is_another_mail(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let form = Filled::of(&page(&app, &cookie, "/emails/new").await, "/emails/new").with("from", "ann@acme.example");
        let form = form.with("subject", "First").with("text", "One").with("scheduled_at", "in 2 hours");
        let first = leads_to(&form.send(&app, &cookie).await);
        assert_eq!(leads_to(&form.send(&app, &cookie).await), first, "the same form again");
        let changed = form.clone().with("subject", "Second").send(&app, &cookie).await;
        let text = changed.text();
        assert!(changed.status == 409 && text.contains("This mail was sent already, as it was before"), "{text}");
        let again = Filled::of(&text, "/emails/new");
        assert_eq!((again.value("subject"), again.value("text"), again.value("scheduled_at")), ("Second", "One", "in 2 hours"));
        assert_eq!(app.count("emails").await, 1);
        let second = leads_to(&again.send(&app, &cookie).await);
        assert_ne!(second, first);
        let path = format!("/templates/{}", make(&app, &key, order_with(json!({"from": "shop@acme.example"}))).await);
        let test = Filled::of(&page(&app, &cookie, &format!("{path}/test")).await, "/test");
        leads_to(&test.send(&app, &cookie).await);
        let other = test.with("to", "other@example.com").send(&app, &cookie).await;
        assert!(other.status == 409 && other.text().contains("This mail was sent already"), "{}", other.text());
        leads_to(&Filled::of(&other.text(), "/test").send(&app, &cookie).await);
        assert_eq!(app.count("emails").await, 4);
        app.store.run("DELETE FROM idempotency_keys").await;
        let days_later = form.send(&app, &cookie).await;
        let text = days_later.text();
        assert!(days_later.status == 409 && text.contains("This mail was sent already. To send"), "{text}");
        assert_eq!(app.count("emails").await, 4);
    }

    async fn files_of_a_form_are_held_to_the_limits_of_the_api(app: TestApp) {
        let cookie = owner(&app).await;
        let new = async || Filled::of(&page(&app, &cookie, "/emails/new").await, "/emails/new").with("from", "ann@acme.example").with("subject", "Hi").with("text", "Hello");
        let refused = async |form: Filled| {
            let answer = form.send(&app, &cookie).await;
            let text = answer.text();
            assert_eq!(answer.status, 422, "{text}");
            assert_eq!(Filled::of(&text, "/emails/new").value("text"), "Hello");
            text.split("id=\"f-attachments-error\">").nth(1).and_then(|rest| rest.split('<').next()).expect("an error").to_owned()
        };
        let mut many = new().await;
        for number in 0..101 {
            many = many.file("attachments", &format!("{number}.txt"), "text/plain", "x");
        }
        assert!(refused(many).await.contains("must hold at most 100 files"));
        let nameless = refused(new().await.file("attachments", "../up.txt", "text/plain", "x")).await;
        assert!(nameless.contains("`attachments[0].filename` field must be a name without a path"), "{nameless}");
        let large = vec![b'x'; 31 << 20];
        let large = refused(new().await.file("attachments", "large.bin", "", large)).await;
        assert!(large.contains("makes the mail too large"), "{large}");
        let inside = refused(new().await.with("paths", "http://127.0.0.1/x")).await;
        assert!(inside.contains("`attachments[0].path` field cannot be fetched"), "{inside}");
        assert_eq!((app.count("emails").await, app.count("email_chunks").await), (0, 0), "nothing of it is left");
        let kept = page(&app, &cookie, "/emails/new").await;
        let huge = Filled::of(&kept, "/emails/new").file("attachments", "huge.bin", "", vec![b'x'; 43 << 20]).send(&app, &cookie).await;
        assert_eq!(huge.status, 413, "{}", huge.text());
        let long = Filled::of(&kept, "/emails/new").with("text", &"x".repeat(2 << 20)).send(&app, &cookie).await;
        let text = long.text();
        assert!(long.status == 413 && text.contains("at most 2 MiB are taken here. Go back in your browser"), "{text}");
        assert!(text.contains("href=\"/dashboard/templates\""), "with its navigation: {text}");
    }

    async fn a_topic_of_others_is_nobodys(app: TestApp) {
        let theirs = app.second_workspace_key().await;
        let cookie = owner(&app).await;
        let topic = app.post("/topics").key(&theirs).json(json!({"name": "Theirs", "default_subscription": "opt_in"})).send().await.json();
        let new = page(&app, &cookie, "/emails/new").await;
        assert!(!new.contains("Theirs"), "{new}");
        let form = Filled::of(&new, "/emails/new").with("from", "ann@acme.example").with("subject", "Hi").with("text", "Hello");
        let answer = form.with("topic_id", topic["id"].as_str().expect("an id")).send(&app, &cookie).await;
        assert!(answer.status == 404 && answer.text().contains("id=\"f-topic_id-error\">There is no such topic here."), "{}", answer.text());
        let none = Filled::of(&answer.text(), "/emails/new").with("topic_id", "").with("text", "").with("subject", "").with("template", "nothing");
        let none = none.send(&app, &cookie).await;
        assert!(none.text().contains("id=\"f-template-error\">There is no such template here."), "{}", none.text());
        assert_eq!(app.count("emails").await, 0);
        let segment = app.post("/segments").key(&theirs).json(json!({"name": "Theirs"})).send().await.json();
        let segment = segment["id"].as_str().expect("an id");
        let form = Filled::of(&page(&app, &cookie, "/forms/new").await, "/forms/new").with("name", "F").with("from", "a@acme.example");
        let told = form.with("segment_id", segment).send(&app, &cookie).await;
        assert!(told.status == 422 && told.text().contains("id=\"f-segment_id-error\">There is no such segment here."), "{}", told.text());
        let form = Filled::of(&page(&app, &cookie, "/forms/new").await, "/forms/new").with("name", "F").with("from", "a@acme.example");
        let told = form.and("topics", topic["id"].as_str().expect("an id")).send(&app, &cookie).await;
        assert!(told.status == 422 && told.text().contains("id=\"f-topics-error\">There is no such topic here."), "{}", told.text());
        let form = Filled::of(&page(&app, &cookie, "/contacts/new").await, "/contacts").with("email", "ada@example.com").with("first_name", "Ada");
        let told = form.and("segment", segment).send(&app, &cookie).await;
        assert!(told.status == 422 && told.text().contains("id=\"f-segment-error\">There is no such segment here."), "{}", told.text());
        assert!(told.text().contains("value=\"Ada\""), "{}", told.text());
        let form = Filled::of(&page(&app, &cookie, "/broadcasts/new").await, "/broadcasts/new").with("name", "News").with("subject", "Hi");
        let told = form.with("from", "a@acme.example").with("text", "Hello").with("segment_id", segment).send(&app, &cookie).await;
        assert!(told.text().contains("id=\"f-segment_id-error\">There is no such segment here."), "{}", told.text());
    }

    async fn a_broadcast_is_written_counted_tried_and_sent_to_as_many(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 7).await;
        let app = &stage.post.app;
        let cookie = owner(app).await;
        let suppressed = json!({"email": "p1@example.com"});
        stage.call("POST", "/suppressions", suppressed).await;
        stage.add("gone@example.com", json!({"unsubscribed": true})).await;
        let new = page(app, &cookie, "/broadcasts/new").await;
        assert!(new.contains(">All</option>"), "{new}");
        let form = Filled::of(&new, "/broadcasts/new").with("name", "News").with("subject", "Hello {{{FIRST_NAME|you}}}");
        let incomplete = form.send(app, &cookie).await;
        assert!(incomplete.status == 422 && incomplete.text().contains("value=\"News\""), "{}", incomplete.text());
        let form = Filled::of(&incomplete.text(), "/broadcasts/new").with("segment_id", &stage.segment);
        let html = "<p>Hi {{{FIRST_NAME|there}}}</p>\n<a href=\"{{{UNSUBSCRIBE_URL}}}\">no more</a>";
        let form = form.with("from", "News <news@sender.example>").with("html", html);
        let form = form.with("window_from", "00:00").with("window_until", "24:00").and("day", "monday").and("day", "friday");
        let review = leads_to(&form.send(app, &cookie).await);
        assert_eq!(leads_to(&form.send(app, &cookie).await), review);
        let path = review.trim_end_matches("/review?saved").to_owned();
        let id = path.rsplit('/').next().expect("an id").to_owned();
        let kept = stage.read(&id).await;
        assert_eq!((&kept["html"], &kept["send_window"]["days"]), (&json!(html), &json!(["monday", "friday"])));
        let shown = page(app, &cookie, &review).await;
        for words in ["6 mails would be sent now.", "1 want no mail at all", "1 are on the suppression list", "Hello you", "mail-frame"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let frame = app.get(format!("/dashboard{path}/html")).header("cookie", &cookie).send().await;
        assert!(frame.text().contains("Hi there") && frame.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox;")));
        let tested = leads_to(&Filled::of(&shown, "/test").with("to", "me@example.com").send(app, &cookie).await);
        assert!(page(app, &cookie, &tested).await.contains("The test is on its way."));
        stage.run().await;
        assert_eq!(sink.kept().iter().map(|taken| taken.to.as_str()).collect::<Vec<_>>(), ["me@example.com"]);

        let edit = Filled::of(&page(app, &cookie, &format!("{path}/edit")).await, "/edit");
        assert_eq!(edit.value("html"), html);
        leads_to(&edit.with("window_from", "").with("window_until", "").send(app, &cookie).await);
        assert_eq!(stage.read(&id).await["html"], json!(html));
        let shown = page(app, &cookie, &format!("{path}/review")).await;
        let wrong = Filled::of(&shown, "/send").with("scheduled_at", "last week").send(app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("f-scheduled_at-error"), "{}", wrong.text());
        let sending = leads_to(&Filled::of(&shown, "/send").send(app, &cookie).await);
        app.assert_told(&["broadcast.tested", "broadcast.changed", "broadcast.sent"]).await;
        assert!(page(app, &cookie, &sending).await.contains("data-refresh=\"2\""));
        stage.run().await;
        assert_eq!(sink.kept().len(), 1 + 6, "as many as were counted");
        let ended = page(app, &cookie, &path).await;
        assert!(ended.contains("6 of 6 recipients.") && !ended.contains("data-refresh"), "{ended}");
        refused(app, &cookie, &format!("{path}/edit"), 409).await;
        let got = page(app, &cookie, &format!("{path}/recipients?type=delivered&search=P3")).await;
        assert!(got.contains("p3@example.com") && !got.contains("p4@example.com"), "{got}");
        assert!(page(app, &cookie, &format!("{path}/recipients?type=bounced")).await.contains("Nobody."));
        refused(app, &cookie, &format!("{path}/recipients?type=lost"), 404).await;
        let copy = leads_to(&Filled::of(&ended, "/duplicate").send(app, &cookie).await);
        let copy = copy.trim_end_matches("?copied").to_owned();
        let ask = page(app, &cookie, &format!("{copy}/delete")).await;
        assert_eq!(leads_to(&Filled::of(&ask, "/delete").send(app, &cookie).await), "/broadcasts?deleted");
        refused(app, &cookie, &copy, 404).await;
    }

    async fn a_broadcast_is_canceled_by_who_answers_a_question(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 2).await;
        let app = &stage.post.app;
        let cookie = owner(app).await;
        let id = stage.send(json!({"scheduled_at": "in 1 hour"})).await;
        let path = format!("/broadcasts/{id}");
        let link = format!("href=\"/dashboard{path}/cancel\"");
        assert!(page(app, &cookie, &path).await.contains(&link));
        let question = page(app, &cookie, &format!("{path}/cancel")).await;
        assert!(question.contains("Cancel this broadcast?") && question.contains("is a draft again"), "{question}");
        assert_eq!(stage.read(&id).await["status"], "scheduled", "asking cancels nothing");
        leads_to(&Filled::of(&question, "/cancel").send(app, &cookie).await);
        assert_eq!(stage.read(&id).await["status"], "draft");
        stage.call("POST", &format!("{path}/send"), json!({})).await;
        stage.take().await;
        let question = page(app, &cookie, &format!("{path}/cancel")).await;
        assert!(question.contains("Whoever has not got it yet does not get it."), "{question}");
        let canceled = leads_to(&Filled::of(&question, "/cancel").send(app, &cookie).await);
        let shown = page(app, &cookie, &canceled).await;
        assert!(shown.contains("The rest is not sent.") && !shown.contains(&link), "{shown}");
        stage.run().await;
        assert_eq!((stage.read(&id).await["state"].clone(), sink.kept().len()), (json!("canceled"), 0));
        refused(app, &cookie, &format!("{path}/cancel"), 409).await;
        refused(app, &cookie, &format!("{path}/pause"), 404).await;
        app.assert_told(&["broadcast.canceled", "broadcast.sent", "broadcast.canceled"]).await;
    }

    async fn a_page_does_not_wait_until_very_many_recipients_are_counted_or_looked_through(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        let app = &stage.post.app;
        let cookie = owner(app).await;
        let id = stage.send(json!({})).await;
        stage.run().await;
        stage.call("PATCH", "/contacts/p1@example.com", json!({"unsubscribed": true})).await;
        let path = format!("/broadcasts/{id}");
        let left = page(app, &cookie, &format!("{path}/recipients?type=unsubscribed")).await;
        assert!(left.contains("p1@example.com") && !left.contains("p2@example.com") && !left.contains("go on from there"), "{left}");
        // As if there were others behind the three.
        store.run("UPDATE broadcasts SET recipients = 30000").await;
        let mut shown = page(app, &cookie, &path).await;
        assert!(shown.contains("30000 recipients. What became of them is being counted.") && shown.contains("data-refresh=\"1\""), "{shown}");
        while shown.contains("being counted") {
            tokio::task::yield_now().await;
            shown = page(app, &cookie, &path).await;
        }
        assert!(shown.contains("30000 of 30000 recipients.") && shown.contains("<dt>Delivered</dt><dd>3</dd>"), "{shown}");
        // What was counted is told until all is counted anew.
        store.run("UPDATE broadcasts SET recipients = 40000, state = 'canceled'").await;
        shown = page(app, &cookie, &path).await;
        assert!(shown.contains("30000 of 30000 recipients.") && shown.contains("data-refresh=\"1\""), "{shown}");
        while shown.contains("data-refresh") {
            tokio::task::yield_now().await;
            shown = page(app, &cookie, &path).await;
        }
        assert!(shown.contains("40000 of 40000 recipients."), "{shown}");
        let mut looks = 0;
        let mut next = format!("{path}/recipients?type=delivered");
        let found = loop {
            let look = page(app, &cookie, &next).await;
            looks += 1;
            let Some(before) = look.split("\">go on from there").next().filter(|before| before.len() < look.len()) else { break look };
            assert!(look.contains("Nobody so far.") && !look.contains("p2@example.com"), "{look}");
            let href = before.rsplit("href=\"").next().expect("a link").replace("&#38;", "&");
            next = href.split(&path).last().map(|rest| format!("{path}{rest}")).expect("an address");
        };
        assert!(looks == 8 && found.contains("p2@example.com"), "{looks}: {found}");
    }

    async fn recipients_of_a_broadcast_are_looked_for_by_how_lasting_a_bounce_is(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 2).await;
        let app = &stage.post.app;
        let cookie = owner(app).await;
        let id = stage.send(json!({})).await;
        stage.run().await;
        store.run("UPDATE email_recipients SET state = 70 WHERE address = 'p0@example.com'").await;
        let path = format!("/broadcasts/{id}/recipients");
        let all = page(app, &cookie, &format!("{path}?type=bounced&search=example")).await;
        for word in ["permanent", "transient", "undetermined"] {
            let link = format!("{path}?type=bounced&#38;bounce_type={word}&#38;search=example\"");
            assert!(all.contains(&link), "{link}: {all}");
        }
        assert!(!page(app, &cookie, &path).await.contains("bounce_type="), "only of bounces");
        let lasting = page(app, &cookie, &format!("{path}?type=bounced&bounce_type=permanent")).await;
        assert!(lasting.contains("p0@example.com") && !lasting.contains("p1@example.com"), "{lasting}");
        assert!(lasting.contains("<input type=\"hidden\" name=\"bounce_type\" value=\"permanent\">"), "{lasting}");
        let passing = page(app, &cookie, &format!("{path}?type=bounced&bounce_type=transient")).await;
        assert!(!passing.contains("p0@example.com") && passing.contains("is tried again, and is no bounce"), "{passing}");
        refused(app, &cookie, &format!("{path}?type=bounced&bounce_type=soft"), 404).await;
    }

    async fn a_webhook_is_made_told_and_told_again(store: Store) {
        let teller = Teller::open(&store).await;
        let app = &teller.app;
        let cookie = owner(app).await;
        let listener = Listener::new(&[200]).await;
        let form = Filled::of(&page(app, &cookie, "/webhooks/new").await, "/webhooks/new");
        let nothing = form.with("endpoint", "nowhere").send(app, &cookie).await;
        assert!(nothing.status == 422 && nothing.text().contains("value=\"nowhere\""), "{}", nothing.text());
        let form = Filled::of(&nothing.text(), "/webhooks/new").with("endpoint", &listener.url).and("event", "topic.created").and("event", "email.sent");
        let made = form.send(app, &cookie).await;
        assert!(made.status == 200 && made.text().contains("whsec_"), "{}", made.text());
        let list = page(app, &cookie, "/webhooks").await;
        assert!(list.contains("2 types of events") && !list.contains("whsec_"), "{list}");
        let path = format!("/webhooks/{}", teller.get("/webhooks").await["data"][0]["id"].as_str().expect("an id"));
        teller.topic("News").await;
        assert_eq!(teller.deliver().await, 1);
        let one = page(app, &cookie, &path).await;
        assert!(one.contains("topic.created") && one.contains("Delivered") && one.contains("100 % of those"), "{one}");
        let event = one.split(&format!("{path}/events/")).nth(1).and_then(|rest| rest.split('"').next()).expect("an event").to_owned();
        let event = format!("{path}/events/{event}");
        let shown = page(app, &cookie, &event).await;
        assert!(shown.contains(">200<") && shown.contains("News") && shown.contains("webhook-signature"), "{shown}");
        let replay = Filled::of(&shown, "/replay");
        let replayed = leads_to(&replay.send(app, &cookie).await);
        assert_eq!(teller.deliver().await, 1);
        assert_eq!(leads_to(&replay.send(app, &cookie).await), replayed);
        assert_eq!(teller.deliver().await, 0, "the same form again");
        app.assert_told(&["topic.created", "event.replayed"]).await;
        let ask = page(app, &cookie, &format!("{path}/rotate")).await;
        assert!(Filled::of(&ask, "/rotate").send(app, &cookie).await.text().contains("whsec_"));
        let edit = Filled::of(&page(app, &cookie, &format!("{path}/edit")).await, "/edit");
        leads_to(&edit.and("event", "email.bounced").send(app, &cookie).await);
        let off = leads_to(&Filled::of(&page(app, &cookie, &path).await, "/disable").send(app, &cookie).await);
        let off = page(app, &cookie, &off).await;
        assert!(off.contains("Disabled") && off.contains("email.bounced") && off.contains("topic.created"), "{off}");
        assert!(!page(app, &cookie, &event).await.contains("/replay\""));
        leads_to(&Filled::of(&off, "/enable").send(app, &cookie).await);
        let ask = page(app, &cookie, &format!("{path}/delete")).await;
        assert_eq!(leads_to(&Filled::of(&ask, "/delete").send(app, &cookie).await), "/webhooks?deleted");
        refused(app, &cookie, &path, 404).await;
    }

    async fn the_suppression_list_is_kept_by_hand_and_by_file(app: TestApp) {
        let cookie = owner(&app).await;
        let empty = page(&app, &cookie, "/suppressions").await;
        assert!(empty.contains("Nobody is suppressed."));
        let add = |page: &str, email: &str| Filled::of(page, "aria-labelledby=\"add").with("email", email);
        let wrong = add(&empty, "nobody").send(&app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("value=\"nobody\"") && wrong.text().contains("f-email-error"), "{}", wrong.text());
        assert_eq!(leads_to(&add(&empty, " Ada@Example.com ").send(&app, &cookie).await), "/suppressions?added");
        assert_eq!(leads_to(&add(&empty, "ada@example.com").send(&app, &cookie).await), "/suppressions?known");
        let import = Filled::of(&empty, "/import");
        let file = format!("--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n{}\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; \
            filename=\"a.csv\"\r\nContent-Type: text/csv\r\n\r\nemail,origin\nbob@example.com,bounce\nx\nada@example.com\n\r\n--b--\r\n", import.value("token"));
        let told = app.post("/dashboard/suppressions/import").header("cookie", &cookie).body("multipart/form-data; boundary=b", file).send().await;
        assert!(told.status == 200 && told.text().contains("3 rows: 1 added, 1 were on the list already, 1 could not be read."), "{}", told.text());
        assert!(told.text().contains("Line 3:"));
        app.assert_told(&["suppression.created", "suppression.imported"]).await;
        let file = format!("--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n{}\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; \
            filename=\"a.csv\"\r\nContent-Type: text/csv\r\n\r\nname\nAda\n\r\n--b--\r\n", import.value("token"));
        let wrong = app.post("/dashboard/suppressions/import").header("cookie", &cookie).body("multipart/form-data; boundary=b", file).send().await;
        let beside = ["name=\"file\" type=\"file\" accept=\".csv,text/csv\" required aria-invalid=\"true\" aria-describedby=\"f-file-error\">",
            "<p class=\"field-error\" id=\"f-file-error\">"];
        assert!(wrong.status == 422 && beside.iter().all(|part| wrong.text().contains(part)), "{}", wrong.text());
        for (search, found, not) in [("bob@example.com", "bob@", "Ada@"), ("ADA", "Ada@", "bob@"), ("example", "bob@", "nobody"), ("b_b", "newest 5,000", "bob@")] {
            let shown = page(&app, &cookie, &format!("/suppressions?search={search}")).await;
            assert!(shown.contains(found) && !shown.contains(not), "{search}: {shown}");
        }
        assert!(!page(&app, &cookie, "/suppressions?origin=bounce").await.contains("Ada@"));
        let file = app.get("/dashboard/suppressions/export").header("cookie", &cookie).send().await;
        assert!(file.text().starts_with("\"email\",\"origin\",\"reason\"") && file.text().contains("\"bob@example.com\",\"bounce\""), "{}", file.text());
        let list = page(&app, &cookie, "/suppressions?search=bob@example.com").await;
        let remove = list.split("href=\"/dashboard/suppressions/").filter_map(|rest| rest.split('"').next()).find(|rest| rest.ends_with("/delete")).expect("a link").to_owned();
        let ask = page(&app, &cookie, &format!("/suppressions/{remove}")).await;
        assert!(ask.contains("Mail to it bounced."));
        assert_eq!(leads_to(&Filled::of(&ask, "/delete").send(&app, &cookie).await), "/suppressions?removed");
        refused(&app, &cookie, &format!("/suppressions/{remove}"), 404).await;
    }

    async fn who_may_only_look_changes_nothing_and_nobody_sees_what_is_anothers(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let member = app.person("m@example.com", Role::Member).await.cookie;
        let template = make(&app, &key, order_with(json!({}))).await;
        for path in ["/templates", "/broadcasts", "/webhooks", "/suppressions", "/emails"] {
            let shown = page(&app, &member, path).await;
            assert!(!shown.contains("/new\"") && !shown.contains("aria-labelledby=\"add\""), "{path}: {shown}");
        }
        for path in ["/templates/new", "/broadcasts/new", "/webhooks/new", "/emails/new", &format!("/templates/{template}/edit")] {
            refused(&app, &member, path, 403).await;
            let sent = app.post(format!("/dashboard{path}")).header("cookie", &member).body("application/x-www-form-urlencoded", "name=x").send().await;
            assert_eq!(sent.status, 403, "{path}");
            let forged = Filled::of(&page(&app, &cookie, path).await, path).with("token", "x").send(&app, &cookie).await;
            assert!((400..404).contains(&forged.status), "{path}: {}", forged.status);
        }
        let other = app.second_workspace_key().await;
        let theirs = make(&app, &other, order_with(json!({}))).await;
        let webhook = app.post("/webhooks").key(&other).json(json!({"endpoint": "https://example.com/", "events": ["email.sent"]})).send().await.json();
        let webhook = webhook["id"].as_str().expect("an id");
        for path in ["", "/edit", "/publish", "/delete", "/test", "/html"] {
            refused(&app, &cookie, &format!("/templates/{theirs}{path}"), 404).await;
        }
        for path in ["", "/edit", "/rotate", "/delete"] {
            refused(&app, &cookie, &format!("/webhooks/{webhook}{path}"), 404).await;
        }
    }
}

on_both! {
    async fn a_domain_is_added_with_all_that_the_api_takes(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let form = Filled::of(&page(&app, &cookie, "/domains").await, "/domains").with("name", "acme.example");
        let form = form.with("custom_return_path", "a b").with("tls", "enforced").and("receiving", "on").and("open_tracking", "on");
        let wrong = form.with("tracking_subdomain", "links").with("warm_up", "200").with("transport", "direct").send(&app, &cookie).await;
        let text = wrong.text();
        assert!(wrong.status == 422 && text.contains("f-custom_return_path-error") && text.contains("value=\"a b\""), "{text}");
        assert!(text.contains("<details class=\"fold\" open>"), "{text}");
        let form = Filled::of(&text, "/domains").with("custom_return_path", "bounces");
        let path = leads_to(&form.send(&app, &cookie).await).trim_end_matches("?added").to_owned();
        let domain = app.get(&path).key(&key).send().await.json();
        let expected = [("name", json!("acme.example")), ("custom_return_path", json!("bounces")), ("tls", json!("enforced")), ("open_tracking", json!(true)),
            ("click_tracking", json!(false)), ("tracking_subdomain", json!("links")), ("warm_up", json!(200)), ("transport", json!("direct")),
            ("capabilities", json!({"sending": "enabled", "receiving": "enabled"}))];
        for (field, value) in expected {
            assert_eq!(domain[field], value, "{field}: {domain}");
        }
        let again = Filled::of(&page(&app, &cookie, "/domains").await, "/domains").with("name", "Acme.example").send(&app, &cookie).await;
        assert!(again.status == 422 && again.text().contains("added already") && again.text().contains("value=\"Acme.example\""), "{}", again.text());
        let relays = Filled::of(&page(&app, &cookie, "/domains").await, "/domains").with("name", "b.example").with("transport", "relay").send(&app, &cookie).await;
        assert!(relays.status == 422 && relays.text().contains("f-relays-error"), "{}", relays.text());
        let plain = Filled::of(&page(&app, &cookie, "/domains").await, "/domains").with("name", "b.example").send(&app, &cookie).await;
        let plain = app.get(leads_to(&plain).trim_end_matches("?added")).key(&key).send().await.json();
        assert_eq!((&plain["custom_return_path"], &plain["capabilities"]["sending"], &plain["transport"]), (&json!("send"), &json!("enabled"), &json!(null)));
    }

    async fn settings_of_a_domain_are_changed_and_refused_beside_their_field(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let domain = app.post("/domains").key(&key).json(json!({"name": "acme.example"})).send().await.json();
        let path = format!("/domains/{}", domain["id"].as_str().expect("an id"));
        let form = Filled::of(&page(&app, &cookie, &format!("{path}/settings")).await, "/settings");
        let wrong = form.with("tracking_subdomain", "a b").and("open_tracking", "on").with("warm_up", "many").send(&app, &cookie).await;
        assert!(wrong.status == 422 && wrong.text().contains("value=\"a b\"") && wrong.text().contains("field-error"), "{}", wrong.text());
        for typed in ["many", "0", "1000001", "-5", "2.5"] {
            let few = Filled::of(&wrong.text(), "/settings").with("tracking_subdomain", "").with("warm_up", typed).send(&app, &cookie).await;
            let (text, beside) = (few.text(), "id=\"f-warm_up-error\">Write how many mails, from 1 to 1000000, or leave it empty.");
            assert!(few.status == 422 && text.contains(beside) && text.contains(&format!("value=\"{typed}\"")), "{typed}: {text}");
        }
        let same = Filled::of(&wrong.text(), "/settings").with("tracking_subdomain", "send").with("warm_up", "").send(&app, &cookie).await;
        assert!(same.status == 422 && same.text().contains("id=\"f-tracking_subdomain-error\">The `tracking_subdomain` field must not be `send`"), "{}", same.text());
        let form = Filled::of(&wrong.text(), "/settings").with("tracking_subdomain", "links").with("warm_up", "200").with("tls", "enforced");
        assert_eq!(leads_to(&form.with("transport", "direct").send(&app, &cookie).await), format!("{path}?saved"));
        let after = app.get(&path).key(&key).send().await.json();
        assert_eq!((&after["open_tracking"], &after["tls"], &after["warm_up"]), (&json!(true), &json!("enforced"), &json!(200)), "{after}");
        assert_eq!((&after["transport"], &after["tracking_subdomain"], &after["capabilities"]["sending"]), (&json!("direct"), &json!("links"), &json!("enabled")));
        let form = Filled::of(&page(&app, &cookie, &format!("{path}/settings")).await, "/settings").with("transport", "relay");
        assert!(form.send(&app, &cookie).await.text().contains("f-relays-error"));
    }

    async fn mails_are_found_by_recipient_and_subject(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let one = sent(&app, &key, mail_with(json!({"subject": "Your Ünique order", "to": "Zoe@example.com"}))).await;
        let other = sent(&app, &key, mail_with(json!({"subject": "Else", "cc": "bob_x@example.com"}))).await;
        for (search, found, not) in [("zoe@", &one, &other), ("order", &one, &other), ("BOB_X", &other, &one)] {
            let shown = page(&app, &cookie, &format!("/emails?search={search}")).await;
            assert!(shown.contains(found.as_str()) && !shown.contains(not.as_str()), "{search}: {shown}");
        }
        assert!(page(&app, &cookie, "/emails?search=bobyx").await.contains("Nothing found among these."));
    }

    async fn requests_and_deliverability_are_shown(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        assert!(page(&app, &cookie, "/logs").await.contains("No requests yet."));
        assert!(page(&app, &cookie, "/deliverability").await.contains("No mail in these days."));
        app.post("/segments").key(&key).header("user-agent", "test/1").json(json!({})).send().await;
        app.app.request_log().write(&app.app).await.expect("written");
        let list = page(&app, &cookie, "/logs").await;
        assert!(list.contains("POST /segments") && list.contains(">422<") && list.contains("test/1"), "{list}");
        let one = list.split("href=\"/dashboard/logs/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
        assert!(page(&app, &cookie, &format!("/logs/{one}")).await.contains("missing_required_field"));
        refused(&app, &cookie, "/logs/01890000-0000-7000-8000-000000000000", 404).await;
        let workspace = app.workspace().await;
        let mut tally = posthorn::email_metrics::Tally::default();
        for what in [posthorn::email_metrics::Counted::Sent, posthorn::email_metrics::Counted::Delivered, posthorn::email_metrics::Counted::UniqueOpened] {
            tally.count("acme.example", None, what);
        }
        let mut batch = posthorn::db::Batch::new();
        tally.add_to(&mut batch, workspace, &app.clock);
        app.app.db.commit(batch).await.expect("counted");
        for days in [7, 30] {
            let shown = page(&app, &cookie, &format!("/deliverability?days={days}")).await;
            assert!(shown.contains("100.0 %") && shown.contains("<polyline class=\"plot-line delivered\"") && shown.contains("2026-01-02"), "{shown}");
        }
    }
}
