//! Contacts in the dashboard, as a person sees and changes them.

use serde_json::json;

use crate::asking::encoded;
use crate::automation_pages::{owner, page};
use crate::broadcasts::Stage;
use crate::graphs::{automation, delay, link, trigger};
use crate::harness::{Answer, TestApp, on_both};
use crate::sink::Sink;
use crate::store::Store;

/// Sends the form of a page whose action ends so: its hidden fields, and what is typed.
pub async fn submit(app: &TestApp, cookie: &str, page: &str, action: &str, typed: &[(&str, &str)]) -> Answer {
    let form = page
        .split("<form ")
        .find(|form| form.split('>').next().is_some_and(|tag| tag.contains(&format!("{action}\""))))
        .unwrap_or_else(|| panic!("no form for {action}: {page}"));
    let form = form.split("</form>").next().expect("a form");
    let quoted =
        |text: &str, before: &str| text.split(before).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
    let target = quoted(form, "action=\"").expect("an action");
    let hidden = form.split("<input type=\"hidden\" ").skip(1);
    let pair = |input| Some((quoted(input, "name=\"")?, quoted(input, "value=\"")?));
    let kept = hidden.filter_map(pair).filter(|(name, _)| typed.iter().all(|(other, _)| other != name));
    let mut body: Vec<String> = kept.map(|(name, value)| format!("{name}={}", encoded(&value))).collect();
    body.extend(typed.iter().map(|(name, value)| format!("{name}={}", encoded(value))));
    app.post(target).header("cookie", cookie).body("application/x-www-form-urlencoded", body.join("&")).send().await
}

pub async fn contact(app: &TestApp, key: &str, body: serde_json::Value) -> String {
    let answer = app.post("/contacts").key(key).json(body).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

async fn segment(app: &TestApp, key: &str, name: &str) -> String {
    let answer = app.post("/segments").key(key).json(json!({"name": name})).send().await;
    answer.json()["id"].as_str().expect("an id").to_owned()
}

/// The address that a link leads to, without the place on its page.
fn linked(rest: &str) -> Option<String> {
    let address = rest.split('"').next()?.replace("&#38;", "&").replace("&amp;", "&");
    address.split('#').next().map(str::to_owned)
}

/// Walks the pages of what happened to a contact, from the newest on, and tells what each entry is about.
async fn walk_back(app: &TestApp, cookie: &str, contact: &str) -> Vec<Vec<String>> {
    let (mut pages, mut next) = (Vec::new(), Some(format!("/contacts/{contact}")));
    let between = |text: &str, before: &str| {
        text.split(before).nth(1).and_then(|rest| rest.split(['"', '<']).next()).map(str::to_owned)
    };
    while let Some(path) = next {
        let shown = page(app, cookie, &path).await;
        let list = shown.split("<ol class=\"plain timeline\">").nth(1).expect("a time-line");
        let (list, rest) = list.split_once("</ol>").expect("its end");
        let times: Vec<&str> = list.split("datetime=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
        let entries = list.split("<li>").skip(1);
        let about = |entry: &str| between(entry, "href=\"").or(between(entry, "<code>")).expect("a link or a name");
        pages.push(entries.map(about).collect());
        assert!(pages.len() < 40, "it goes on and on: {path}");
        next = rest.split("rel=\"next\" href=\"/dashboard").nth(1).and_then(linked);
    }
    pages
}

on_both! {
    async fn all_that_happened_is_reached_once_however_much_it_is(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let graph = json!({"name": "Welcome", "status": "enabled", "steps": [trigger(), delay("wait")],
            "connections": [link("start", "wait")]});
        automation(&app, &key, graph).await;
        let id = contact(&app, &key, json!({"email": "ada@example.com"})).await;
        contact(&app, &key, json!({"email": "bob@example.com"})).await;
        let count = 130;
        for at in 0..count {
            for (event, email) in [(format!("a.{at}"), "ada@example.com"), (format!("b.{at}"), "bob@example.com"), ("user.created".into(), "ada@example.com")] {
                let sent = app.post("/events/send").key(&key).json(json!({"event": event, "email": email})).send().await;
                assert_eq!(sent.status, 202, "{}", sent.text());
            }
            // Twice to the same person is one mail.
            let mail = app.post("/emails").key(&key).json(json!({"from": "Shop <shop@example.com>", "to": "ada@example.com",
                "cc": "ADA@example.com", "subject": "Your order", "text": "Hi"})).send().await;
            assert_eq!(mail.status, 200, "{}", mail.text());
            // Much happens in the same moment, too.
            if at % 10 == 0 {
                app.clock.advance(1_000_000);
            }
        }
        let pages = walk_back(&app, &cookie, &id).await;
        assert!(pages.iter().all(|page| page.len() <= 50), "a page has so many");
        let all: Vec<String> = pages.concat();
        let runs = all.iter().filter(|about| about.contains("/runs/")).count();
        let mails = all.iter().filter(|about| about.contains("/emails/")).count();
        assert_eq!((runs, mails), (count, count));
        for at in 0..count {
            assert_eq!(all.iter().filter(|about| **about == format!("a.{at}")).count(), 1, "a.{at}");
        }
        assert_eq!(all.iter().filter(|about| *about == "user.created").count(), count);
        assert!(!all.iter().any(|about| about.starts_with("b.")));
        assert_eq!(all.last().map(String::as_str), Some("svc:contact.created"));
        assert_eq!(all.len(), 4 * count + 1);
        let distinct: std::collections::HashSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), 3 * count + 2, "no run, mail or event is there twice");
    }

    async fn what_others_got_is_gone_through_so_much_at_a_time(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let id = contact(&app, &key, json!({"email": "ada@example.com"})).await;
        let mail = |to: &str| json!({"from": "Shop <shop@example.com>", "to": to, "subject": "Your order", "text": "Hi"});
        let sent = app.post("/emails").key(&key).json(mail("ada@example.com")).send().await;
        let own = sent.json()["id"].as_str().expect("an id").to_owned();
        app.clock.advance(3_600_000_000);
        for _ in 0..11 {
            let others: Vec<_> = (0..100).map(|at| mail(&format!("p{at}@example.com"))).collect();
            let sent = app.post("/emails/batch").key(&key).json(json!(others)).send().await;
            assert_eq!(sent.status, 200, "{}", sent.text());
        }
        let first = page(&app, &cookie, &format!("/contacts/{id}")).await;
        assert!(!first.contains(&own) && first.contains("Nothing here.") && first.contains("This page ends at"), "{first}");
        let skip = first.split("Or <a href=\"/dashboard").nth(1).and_then(linked).expect("a way past");
        assert!(first.contains("skip to when the contact was added"));
        let skipped = page(&app, &cookie, &skip).await;
        for piece in [own.as_str(), "Became a contact", ">Newest<"] {
            assert!(skipped.contains(piece), "{piece}: {skipped}");
        }
        let all = walk_back(&app, &cookie, &id).await;
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [0, 2]);
        assert!(all[1][0].contains(&own), "{all:?}");
    }

    async fn since_when_an_address_is_suppressed_is_a_time_on_the_page_of_its_contact(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let id = contact(&app, &key, json!({"email": "ada@example.com"})).await;
        let before = page(&app, &cookie, &format!("/contacts/{id}")).await;
        assert!(before.contains("<small>Topics that the contact opted out of are left out.</small>"), "{before}");
        app.post("/suppressions").key(&key).json(json!({"email": "ada@example.com"})).send().await;
        let shown = page(&app, &cookie, &format!("/contacts/{id}")).await;
        assert!(shown.contains("<small>Somebody put this address on the list on <time datetime=\"2026-01-02T03:04:05"), "{shown}");
        assert!(shown.contains(">2 January 2026, 03:04 UTC</time>. It gets no mail at all.</small>"), "{shown}");
    }

    async fn contacts_are_found_by_part_of_an_address_or_name_and_by_filters(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let vip = segment(&app, &key, "VIP").await;
        let topic = app.post("/topics").key(&key).json(json!({"name": "News", "default_subscription": "opt_in"})).send().await;
        let topic = topic.json()["id"].as_str().expect("an id").to_owned();
        let ada = contact(&app, &key, json!({"email": "Ada@engines.example", "first_name": "Ada", "last_name": "Lovelace", "segments": [vip]})).await;
        let bob = contact(&app, &key, json!({"email": "bob_100%@example.com", "unsubscribed": true,
            "topics": [{"id": topic, "subscription": "opt_out"}]})).await;
        for (query, found, missed) in [
            ("?q=engines", &ada, &bob),
            ("?q=ADA", &ada, &bob),
            ("?q=lovel", &ada, &bob),
            ("?q=ada+love", &ada, &bob),
            ("?q=b_1", &bob, &ada),
            ("?q=0%25%40", &bob, &ada),
            (&format!("?segment={vip}"), &ada, &bob),
            (&format!("?q=&topic={topic}"), &ada, &bob),
            ("?mail=unsubscribed", &bob, &ada),
            (&format!("?q=a&segment={vip}&topic={topic}&mail=subscribed"), &ada, &bob),
        ] {
            let list = page(&app, &cookie, &format!("/contacts{query}")).await;
            assert!(list.contains(&format!("/contacts/{found}\"")), "{query}: {list}");
            assert!(!list.contains(&format!("/contacts/{missed}\"")), "{query}");
        }
        assert!(page(&app, &cookie, "/contacts?q=nobody").await.contains("Nobody fits."));
        assert!(page(&app, &cookie, "/contacts?q=a_a").await.contains("Nobody fits."));
        assert!(page(&app, &cookie, "/contacts").await.contains("There are 2."));
        for query in ["?q=engines", "?mail=unsubscribed", &format!("?topic={topic}"), &format!("?q=ada&segment={vip}")] {
            assert!(page(&app, &cookie, &format!("/contacts{query}")).await.contains("1 contact fits what is looked for."), "{query}");
        }
        assert!(!page(&app, &cookie, "/contacts?q=nobody").await.contains("There are"));
        assert!(page(&app, &cookie, &format!("/contacts?segment={vip}")).await.contains("1 contact is in this segment."));
        assert_eq!(app.get("/dashboard/contacts?segment=01890000-0000-7000-8000-000000000000").header("cookie", &cookie).send().await.status, 404);
    }

    async fn more_than_a_page_that_fits_goes_on_where_it_ended(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let mut ids = Vec::new();
        for number in 0..25 {
            ids.push(contact(&app, &key, json!({"email": format!("p{number}@many.example")})).await);
        }
        let first = page(&app, &cookie, "/contacts?q=many.exa").await;
        assert!(first.contains(&ids[24]) && first.contains(&ids[5]) && !first.contains(&ids[4]));
        contact(&app, &key, json!({"email": "one@more.example"})).await;
        let again = page(&app, &cookie, "/contacts?q=many.exa").await;
        assert!(again.contains("25 contacts fit what is looked for."), "{again}");
        let older = first.split("rel=\"next\" href=\"/dashboard").nth(1).and_then(|rest| rest.split('"').next()).expect("more");
        let second = page(&app, &cookie, &older.replace("&#38;", "&")).await;
        assert!(second.contains(&ids[4]) && second.contains(&ids[0]) && !second.contains(&ids[5]), "{second}");
        assert!(!second.contains("rel=\"next\"") && !second.contains("what is looked for"));
    }

    async fn a_contact_is_added_and_what_is_refused_keeps_what_was_typed(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let vip = segment(&app, &key, "VIP").await;
        app.post("/contact-properties").key(&key).json(json!({"key": "seats", "type": "number"})).send().await;
        let blank = page(&app, &cookie, "/contacts/new").await;
        assert!(blank.contains("VIP") && blank.contains("seats"));
        let typed = [("email", "no address"), ("first_name", "<Ada>"), ("mail", "unsubscribed"), ("segment", &vip),
            ("key", "seats"), ("value", "3"), ("key", ""), ("value", "")];
        let refused = submit(&app, &cookie, &blank, "/contacts", &typed).await;
        assert_eq!(refused.status, 422);
        for piece in ["value=\"no address\"", "&#60;Ada&#62;", "must be one address", "aria-invalid", "value=\"3\"", "checked"] {
            assert!(refused.text().contains(piece), "{piece}: {}", refused.text());
        }
        let wrong = [("email", "ada@example.com"), ("key", "seats"), ("value", "many"), ("key", ""), ("value", "")];
        let refused = submit(&app, &cookie, &blank, "/contacts", &wrong).await;
        assert!(refused.status == 422 && refused.text().contains("is declared as a number"), "{}", refused.text());
        let right = [("email", "ada@example.com"), ("first_name", "Ada"), ("segment", &vip),
            ("key", "seats"), ("value", "3"), ("key", "plan"), ("value", "pro")];
        let made = submit(&app, &cookie, &blank, "/contacts", &right).await;
        assert_eq!(made.status, 303, "{}", made.text());
        let found = app.get("/contacts/ada@example.com").key(&key).send().await.json();
        assert_eq!(found["properties"]["seats"], json!({"type": "number", "value": 3}));
        assert_eq!(found["properties"]["plan"]["value"], "pro");
        let again = submit(&app, &cookie, &blank, "/contacts", &right).await;
        assert!(again.status == 422 && again.text().contains("exists already"), "{}", again.text());
        let one = page(&app, &cookie, made.location().trim_start_matches("/dashboard")).await;
        for piece in ["The contact is added.", "ada@example.com", "VIP", "Became a contact", "May be mailed?"] {
            assert!(one.contains(piece), "{piece}: {one}");
        }
    }

    async fn a_contact_is_changed_in_all_that_the_api_changes(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let (vip, new) = (segment(&app, &key, "VIP").await, segment(&app, &key, "Newcomers").await);
        let topic = app.post("/topics").key(&key).json(json!({"name": "News", "default_subscription": "opt_in"})).send().await;
        let topic = topic.json()["id"].as_str().expect("an id").to_owned();
        let id = contact(&app, &key, json!({"email": "ada@example.com", "segments": [vip],
            "properties": {"plan": "pro", "count": 2, "beta": true}})).await;
        let at = format!("/contacts/{id}");
        let one = page(&app, &cookie, &at).await;
        let typed = [("email", "ada@new.example"), ("first_name", "Ada"), ("mail", "unsubscribed"),
            ("key", "plan"), ("value", ""), ("key", "count"), ("value", "3"), ("key", "beta"), ("value", "false"),
            ("key", ""), ("value", "")];
        let saved = submit(&app, &cookie, &one, "/edit", &typed).await;
        assert_eq!(saved.status, 303, "{}", saved.text());
        let found = app.get(format!("/contacts/{id}")).key(&key).send().await.json();
        assert_eq!((&found["email"], &found["first_name"], &found["unsubscribed"]), (&json!("ada@new.example"), &json!("Ada"), &json!(true)));
        assert_eq!(found["properties"], json!({"count": {"type": "number", "value": 3}, "beta": {"type": "boolean", "value": false}}));
        let one = page(&app, &cookie, &at).await;
        for piece in ["Unsubscribed", "Was changed", "svc:contact.unsubscribed"] {
            assert!(one.contains(piece), "{piece}: {one}");
        }
        let refused = submit(&app, &cookie, &one, "/edit", &[("email", "x"), ("first_name", "Kept"), ("key", ""), ("value", "")]).await;
        assert!(refused.status == 422 && refused.text().contains("Kept") && refused.text().contains("must be one address"));

        assert_eq!(submit(&app, &cookie, &one, "/segments", &[("segment", &new)]).await.status, 303);
        assert_eq!(submit(&app, &cookie, &one, &format!("/segments/{vip}/remove"), &[]).await.status, 303);
        let segments = app.get(format!("/contacts/{id}/segments")).key(&key).send().await.text();
        assert!(segments.contains("Newcomers") && !segments.contains("VIP"));

        let chosen = submit(&app, &cookie, &one, "/topics", &[("shown", &topic)]).await;
        assert_eq!(chosen.status, 303);
        let topics = app.get(format!("/contacts/{id}/topics")).key(&key).send().await.json();
        assert_eq!(topics["data"][0]["subscription"], "opt_out");

        let ask = page(&app, &cookie, &format!("{at}/delete")).await;
        assert!(ask.contains("Delete this contact?"));
        assert_eq!(submit(&app, &cookie, &ask, "/delete", &[]).await.location(), "/dashboard/contacts?deleted");
        assert_eq!(app.get(format!("/dashboard{at}")).header("cookie", &cookie).send().await.status, 404);
    }

    async fn the_time_line_has_events_and_mails_and_leads_to_them(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let id = contact(&app, &key, json!({"email": "Ada@example.com"})).await;
        contact(&app, &key, json!({"email": "bob@example.com"})).await;
        for (event, email) in [("order.paid", "ada@example.com"), ("order.lost", "bob@example.com")] {
            let sent = app.post("/events/send").key(&key).json(json!({"event": event, "email": email})).send().await;
            assert_eq!(sent.status, 202, "{}", sent.text());
        }
        let mail = app.post("/emails").key(&key).json(json!({"from": "Shop <shop@example.com>", "to": "ADA@example.com",
            "subject": "Your order", "text": "Hi"})).send().await;
        assert_eq!(mail.status, 200, "{}", mail.text());
        let mail = mail.json()["id"].as_str().expect("an id").to_owned();
        let one = page(&app, &cookie, &format!("/contacts/{id}")).await;
        for piece in ["order.paid", "Your order", &format!("/emails/{mail}")] {
            assert!(one.contains(piece), "{piece}: {one}");
        }
        assert!(!one.contains("order.lost") && !one.contains(">Earlier<") && !one.contains(">Newest<"));
        assert!(one.find("Your order") < one.find("order.paid"), "the newest comes first");
    }

    async fn the_time_line_has_the_runs_and_the_broadcasts_of_the_contact(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 5).await;
        let app = &stage.post.app;
        let cookie = owner(app).await;
        let graph = json!({"name": "Welcome", "status": "enabled", "steps": [trigger(), delay("wait")],
            "connections": [link("start", "wait")]});
        let listening = automation(app, &stage.key, graph).await;
        stage.call("POST", "/events/send", json!({"event": "user.created", "email": "p3@example.com"})).await;
        stage.send(json!({"name": "Spring"})).await;
        stage.run().await;
        stage.call("PATCH", "/contacts/p3@example.com", json!({"unsubscribed": true})).await;
        stage.send(json!({"name": "Summer"})).await;
        stage.run().await;
        stage.send(json!({"name": "Autumn"})).await;
        stage.take().await;
        for number in 0..5 {
            let email = format!("p{number}@example.com");
            let contact = stage.call("GET", &format!("/contacts/{email}"), json!({})).await;
            let one = page(app, &cookie, &format!("/contacts/{}", contact["id"].as_str().expect("an id"))).await;
            let wants_mail = number != 3;
            let entry = |name: &str, state: &str| format!("<bdi>{name}</bdi></a> <span class=\"badge off\">{state}</span>");
            assert!(one.contains(&entry("Spring", "delivered")), "{email}: {one}");
            assert_eq!(one.contains(&entry("Summer", "delivered")), wants_mail, "{email}: {one}");
            assert_eq!(one.contains(&entry("Autumn", "queued")), wants_mail, "{email}: {one}");
            assert_eq!(one.contains(&entry("Welcome", "running")), !wants_mail, "{email}: {one}");
            assert_eq!(one.contains(&format!("/automations/{listening}/runs/")), !wants_mail, "{email}");
            let own = one.split("\"><bdi>Spring</bdi>").next().and_then(|before| before.rsplit("href=\"/dashboard").next());
            let mail = page(app, &cookie, own.expect("a link")).await;
            assert!(mail.contains(&format!("<bdi class=\"strong clip\">{email}</bdi>")), "{email}: {mail}");
        }
    }

    async fn members_look_and_strangers_see_nothing(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let theirs = app.second_workspace_key().await;
        let id = contact(&app, &key, json!({"email": "ada@example.com"})).await;
        let other = contact(&app, &theirs, json!({"email": "secret@example.com"})).await;
        for path in [format!("/contacts/{other}"), "/contacts/secret@example.com".into(), "/contacts/x".into(),
            format!("/contacts/{other}/delete")] {
            let answer = app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await;
            assert_eq!(answer.status, 404, "{path}");
        }
        assert!(!page(&app, &cookie, "/contacts?q=secret").await.contains("secret@example.com\""));
        let one = page(&app, &cookie, &format!("/contacts/{id}")).await;
        app.store.run("UPDATE memberships SET role = 'member'").await;
        let looked = page(&app, &cookie, &format!("/contacts/{id}")).await;
        assert!(!looked.contains("/edit\"") && !looked.contains("/delete\""));
        let refused = submit(&app, &cookie, &one, "/edit", &[("email", "x@example.com")]).await;
        assert_eq!(refused.status, 403);
        assert_eq!(app.get("/dashboard/contacts/new").header("cookie", &cookie).send().await.status, 403);
    }
}
