//! Events in the dashboard, as a person defines them, tries them and sees what happened.

use posthorn::accounts::Role;
use serde_json::{Value, json};

use crate::automation_editor::{hidden, post};
use crate::automation_pages::{owner, page, press};
use crate::form_filling::{Filled, leads_to};
use crate::graphs::{automation, delay, link, trigger};
use crate::harness::{TestApp, on_both};

on_both! {
    async fn a_person_defines_an_event_and_changes_its_schema(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let form = page(&app, &cookie, "/events/new").await;
        let fields = hidden(&form, "/events/new");
        let refused = post(&app, &cookie, "/events/new", &format!("{fields}&name=svc%3Ax&key=plan&kind=string")).await;
        assert!(refused.status == 422 && refused.text().contains("The name must not start with") && refused.text().contains("value=\"plan\""), "{}", refused.text());
        let made = post(&app, &cookie, "/events/new", &format!("{fields}&name=order.placed&key=total&kind=number&key=&kind=string")).await;
        assert_eq!(made.status, 303, "{}", made.text());
        let stored = app.get("/events/order.placed").key(&key).send().await.json();
        assert_eq!(stored["schema"], json!({"total": "number"}));
        let path = format!("/events/{}", stored["id"].as_str().expect("an id"));
        assert!(page(&app, &cookie, "/events").await.contains(&format!("{path}\"")));
        let one = page(&app, &cookie, &path).await;
        assert!(one.contains("value=\"total\"") && one.contains("no automation yet") && one.contains("Nothing here"), "{one}");
        let fields = hidden(&one, "/schema");
        let twice = post(&app, &cookie, &format!("{path}/schema"), &format!("{fields}&key=a&kind=string&key=a&kind=date")).await;
        assert!(twice.status == 422 && twice.text().contains("the same name"), "{}", twice.text());
        let json = post(&app, &cookie, &format!("{path}/schema"), &format!("{fields}&as=json&json=%7B%22a%22%3A%22text%22%7D")).await;
        assert!(json.status == 422 && json.text().contains("unknown type") && json.text().contains("text&#34;"), "{}", json.text());
        let saved = post(&app, &cookie, &format!("{path}/schema"), &format!("{fields}&as=json&json=%7B%22a%22%3A%22date%22%7D")).await;
        assert_eq!(saved.status, 303, "{}", saved.text());
        assert_eq!(app.get("/events/order.placed").key(&key).send().await.json()["schema"], json!({"a": "date"}));
        assert_eq!(post(&app, &cookie, &format!("{path}/schema"), &fields).await.status, 303);
        assert_eq!(app.get("/events/order.placed").key(&key).send().await.json()["schema"], json!(null));
        let asked = page(&app, &cookie, &format!("{path}/delete")).await;
        assert_eq!(press(&app, &cookie, &asked, "/delete").await.status, 303);
        app.get("/events/order.placed").key(&key).send().await.refused(404, "not_found");
    }

    async fn a_test_event_leads_to_its_run_and_can_happen_again(app: TestApp) {
        let key = app.full_key().await;
        let event = app.event(&key, json!({"name": "user.created", "schema": {"age": "number", "plan": "string"}})).await;
        let body = json!({"name": "Welcome", "status": "enabled", "steps": [trigger(), delay("wait")],
            "connections": [link("start", "wait")]});
        let listening = automation(&app, &key, body).await;
        let cookie = owner(&app).await;
        let path = format!("/events/{event}");
        let one = page(&app, &cookie, &path).await;
        assert!(one.contains(&format!("/automations/{listening}\"")) && one.contains("Welcome"), "{one}");
        let form = page(&app, &cookie, &format!("{path}/test")).await;
        assert!(form.contains("<bdi>age</bdi> <small>number</small>") && form.contains("1 automation listens"), "{form}");
        let fields = hidden(&form, "/test");
        let said = "id=\"f-email-error\">The address must be";
        for (typed, words) in [
            ("email=nobody&v0=1&v1=pro&more=", &[said][..]),
            ("email=ada%40example.com&v0=old&v1=pro&more=", &["id=\"f-v0-error\">This must be a number.", "value=\"old\""]),
            ("email=ada%40example.com&v0=1&v1=pro&more=%5B", &["id=\"f-more-error\">This is not JSON"]),
            ("email=ada%40example.com&v0=&v1=pro&more=%7B%22age%22%3A%22old%22%7D", &["id=\"f-more-error\">The `payload` key `age` must be a number"]),
            ("email=nobody&v0=old&v1=pro&more=%5B", &[said, "id=\"f-v0-error\"", "id=\"f-more-error\""]),
        ] {
            let refused = post(&app, &cookie, &format!("{path}/test"), &format!("{fields}&{typed}")).await;
            let text = refused.text();
            assert!(refused.status == 422 && text.contains("value=\"pro\""), "{typed}: {text}");
            assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
            assert_eq!(text.matches("class=\"field-error\"").count(), words.iter().filter(|word| word.contains("-error")).count(), "{text}");
            assert!(!text.contains("class=\"notice bad\""), "each beside its field: {text}");
        }
        assert_eq!(app.count("occurrences").await, 0);
        let sent = post(&app, &cookie, &format!("{path}/test"), &format!("{fields}&email=ada%40example.com&v0=36&v1=pro&more=%7B%22x%22%3A1%7D")).await;
        assert_eq!(sent.status, 303, "{}", sent.text());
        let run = sent.location().strip_prefix("/dashboard").expect("a page").to_owned();
        assert!(run.starts_with(&format!("/automations/{listening}/runs/")), "{run}");
        assert!(page(&app, &cookie, &run).await.contains("&#34;age&#34;: 36"), "brought into its type");
        let one = page(&app, &cookie, &path).await;
        assert!(one.contains("ada@example.com") && one.contains("/contacts/"), "{one}");
        let occurrence = one.split("/occurrences/").nth(1).and_then(|rest| rest.split('"').next()).expect("an occurrence");
        let happened = page(&app, &cookie, &format!("/occurrences/{occurrence}")).await;
        assert!(happened.contains("Welcome") && happened.contains("running"), "{happened}");
        let again = press(&app, &cookie, &happened, "/replay").await;
        assert_eq!(again.status, 303, "{}", again.text());
        let next = again.location().strip_prefix("/dashboard").expect("a page").to_owned();
        assert!(page(&app, &cookie, &next).await.contains("an earlier occurrence"));
        assert_eq!(app.count("runs").await, 2);
    }

    async fn an_event_that_nobody_has_defined_is_sent_by_its_name(app: TestApp) {
        let key = app.full_key().await;
        let enabled = |trigger: Value| json!({"name": "Welcome", "status": "enabled", "steps": [trigger, delay("wait")],
            "connections": [link("start", "wait")]});
        let listening = automation(&app, &key, enabled(trigger())).await;
        let cookie = owner(&app).await;
        let one = page(&app, &cookie, &format!("/automations/{listening}")).await;
        assert!(one.contains("/events/send?name=user.created\">Send a test event</a>"), "{one}");
        let form = async || Filled::of(&page(&app, &cookie, "/events/send?name=user.created").await, "/events/send");
        let offered = form().await;
        assert_eq!((offered.value("name"), offered.value("email")), ("user.created", "owner@example.com"));
        let refused = offered.with("name", "svc:contact.created").send(&app, &cookie).await;
        assert!(refused.status == 422 && refused.text().contains("The name must not start with"), "{}", refused.text());
        assert_eq!((app.count("occurrences").await, app.count("events").await), (0, 0));
        let run = leads_to(&form().await.send(&app, &cookie).await);
        assert!(run.starts_with(&format!("/automations/{listening}/runs/")), "{run}");
        let defined = app.get("/events/user.created").key(&key).send().await.json();
        assert_eq!(defined["defined_by_use"], true);
        let known = app.get("/dashboard/events/send?name=user.created").header("cookie", &cookie).send().await;
        assert_eq!(leads_to(&known), format!("/events/{}/test", defined["id"].as_str().expect("an id")));

        let stopped = automation(&app, &key, crate::graphs::body("Stopped")).await;
        let system = json!({"key": "start", "type": "trigger", "config": {"event_name": "svc:contact.created"}});
        let system = automation(&app, &key, enabled(system)).await;
        for id in [stopped, system] {
            let one = page(&app, &cookie, &format!("/automations/{id}")).await;
            assert!(!one.contains("Send a test event"), "{one}");
        }
    }

    async fn what_is_not_theirs_is_not_to_be_seen_or_changed(app: TestApp) {
        let key = app.full_key().await;
        let theirs = app.second_workspace_key().await;
        let (mine, foreign) = (app.event(&key, json!({"name": "a"})).await, app.event(&theirs, json!({"name": "b"})).await);
        let cookie = owner(&app).await;
        for path in [format!("/events/{foreign}"), format!("/events/{foreign}/test"), format!("/events/{foreign}/delete"), "/events/x".into(),
            format!("/occurrences/{foreign}")]
        {
            assert_eq!(app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await.status, 404, "{path}");
        }
        for path in [format!("/events/{mine}/schema"), format!("/events/{mine}/test"), format!("/events/{mine}/delete")] {
            let forged = post(&app, &cookie, &path, "token=guessed").await;
            assert!((400..500).contains(&forged.status) && forged.status != 422, "{path}: {}", forged.status);
        }
        let member = app.person("member@example.com", Role::Member).await.cookie;
        let one = page(&app, &member, &format!("/events/{mine}")).await;
        assert!(!one.contains("/test\"") && !one.contains("<textarea"), "{one}");
        for path in ["/events/new".to_owned(), "/events/send".to_owned(), format!("/events/{mine}/test"), format!("/events/{mine}/delete")] {
            assert_eq!(app.get(format!("/dashboard{path}")).header("cookie", &member).send().await.status, 403, "{path}");
        }
    }
}
