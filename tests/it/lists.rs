//! Lists without a limit, and a slash at a path's end: decisions, section 8.

use serde_json::{Value, json};

use crate::graphs;
use crate::harness::{TestApp, on_both};

/// One more than a list returns at once.
const MANY: usize = 1001;

/// An id that sorts in the order of the numbers.
fn id(number: usize) -> String {
    format!("01890000-0000-7000-8000-{number:012}")
}

/// Puts so many rows into a table, each made by `values` of its number.
async fn fill(app: &TestApp, into: &str, count: usize, values: impl Fn(usize) -> String) {
    let rows: Vec<String> = (0..count).map(|number| format!("({})", values(number))).collect();
    app.store.run(&format!("INSERT INTO {into} VALUES {}", rows.join(", "))).await;
}

struct Listed {
    ids: Vec<String>,
    has_more: bool,
}

async fn list(app: &TestApp, key: &str, target: &str) -> Listed {
    let answer = app.get(target).key(key).send().await;
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    let list = answer.json();
    let ids =
        list["data"].as_array().expect("a list").iter().map(|item| item["id"].as_str().expect("an id").to_owned());
    Listed { ids: ids.collect(), has_more: list["has_more"].as_bool().expect("a flag") }
}

on_both! {
    async fn decisions_8_what_people_make_is_listed_whole_up_to_a_thousand(app: TestApp) {
        let (key, workspace) = (app.full_key().await, app.store.id(app.workspace().await));
        let row = |number: usize, rest: &str| format!("{workspace}, {}, {rest}", app.store.id(id(number)));
        let named = "(workspace_id, id, name, created_at)";
        fill(&app, &format!("segments {named}"), MANY, |n| row(n, "'s', 0")).await;
        fill(&app, &format!("events {named}"), MANY, |n| row(n, "'e', 0")).await;
        let topics = "topics (workspace_id, id, name, default_subscription, visibility, created_at)";
        fill(&app, topics, MANY, |n| row(n, "'t', 'opt_in', 'private', 0")).await;
        let contacts = "contacts (workspace_id, id, email, email_key, unsubscribed, properties, sequence, created_at)";
        fill(&app, contacts, MANY, |n| row(n, &format!("'c{n}@b.co', 'c{n}@b.co', FALSE, '{{}}', 1, 0"))).await;
        let members = "segment_members (workspace_id, segment_id, contact_id, added_at)";
        fill(&app, members, MANY, |n| format!("{workspace}, {}, {}, 0", app.store.id(id(0)), app.store.id(id(n)))).await;
        let one = id(0);
        for target in [
            "/segments", "/audiences", "/events", "/topics", "/contacts", &format!("/segments/{one}/contacts"),
            &format!("/contacts?segment_id={one}"), &format!("/audiences/{one}/contacts"), &format!("/contacts/{one}/topics"),
        ] {
            let first = list(&app, &key, target).await;
            assert_eq!((first.ids.len(), first.has_more), (1000, true), "{target}");
            assert_eq!((&first.ids[0], &first.ids[999]), (&id(1000), &id(1)), "{target}: newest first");
            let mark = if target.contains('?') { '&' } else { '?' };
            let rest = list(&app, &key, &format!("{target}{mark}after={}", id(1))).await;
            assert_eq!((rest.ids, rest.has_more), (vec![id(0)], false), "{target}");
            let upwards = list(&app, &key, &format!("{target}{mark}before={}", id(0))).await;
            assert_eq!((upwards.ids.len(), upwards.has_more), (1000, false), "{target}");
            let some = list(&app, &key, &format!("{target}{mark}limit=100")).await;
            assert_eq!((some.ids.len(), some.has_more), (100, true), "{target}");
            let beyond = app.get(format!("{target}{mark}limit=101")).key(&key).send().await;
            assert!(beyond.refused(422, "invalid_parameter").contains("`limit`"), "{target}");
        }
    }

    async fn decisions_8_so_are_suppressions_webhooks_templates_domains_and_broadcasts(app: TestApp) {
        let (key, workspace) = (app.full_key().await, app.store.id(app.workspace().await));
        let row = |number: usize, rest: &str| format!("{workspace}, {}, {rest}", app.store.id(id(number)));
        let suppressions = "suppressions (workspace_id, id, email, email_key, origin, created_at)";
        fill(&app, suppressions, MANY, |n| row(n, &format!("'{n}@b.co', '{n}@b.co', 'manual', 0"))).await;
        let webhooks =
            "webhooks (workspace_id, id, endpoint, events, status, signing_secret, destination, created_at)";
        fill(&app, webhooks, MANY, |n| row(n, "'https://b.co/', 1, 'enabled', 'whsec_', 'b.co', 0")).await;
        let templates = "templates (workspace_id, id, name, current_version_id, created_at, updated_at, revision)";
        fill(&app, templates, MANY, |n| row(n, &format!("'t', {}, 0, 0, 1", app.store.id(id(n))))).await;
        let domains = "domains (workspace_id, id, name, region, status, is_owned, may_send, revision, return_path, \
            open_tracking, click_tracking, tls, sending, receiving, findings, created_at, awaited_since, attempt)";
        let settings = "'us-east-1', 'not_started', FALSE, FALSE, 1, 'send', FALSE, FALSE, 'opportunistic', TRUE, FALSE, '{}', 0, 0, 0";
        fill(&app, domains, MANY, |n| row(n, &format!("'d{n}.co', {settings}"))).await;
        let broadcasts = "broadcasts (workspace_id, id, name, segment_id, sender, subject, reply_to, state, created_at, lane, \
            is_audience_whole, recipients, left_out, attempt)";
        let draft = |n: usize| format!("'b', {}, 'a@b.co', 's', '[]', 'draft', 0, {}, FALSE, 0, '{{}}', 0", app.store.id(id(n)), n + 100);
        fill(&app, broadcasts, MANY, |n| row(n, &draft(n))).await;
        for target in ["/suppressions", "/suppressions?origin=manual", "/webhooks", "/templates", "/domains", "/broadcasts"] {
            let first = list(&app, &key, target).await;
            assert_eq!((first.ids.len(), first.has_more), (1000, true), "{target}");
            let mark = if target.contains('?') { '&' } else { '?' };
            let rest = list(&app, &key, &format!("{target}{mark}after={}", id(1))).await;
            assert_eq!((rest.ids, rest.has_more), (vec![id(0)], false), "{target}");
        }
    }

    async fn decisions_8_keys_properties_automations_and_memberships_are_listed_whole_too(app: TestApp) {
        let key = app.full_key().await;
        let contact = app.post("/contacts").key(&key).json(json!({"email": "a@b.co"})).send().await.json();
        let contact = contact["id"].as_str().expect("an id").to_owned();
        for n in 0..21 {
            for (path, body) in [
                ("/api-keys", json!({"name": format!("k{n}")})),
                ("/contact-properties", json!({"key": format!("p{n}"), "type": "string"})),
                ("/automations", graphs::body("A")),
                ("/segments", json!({"name": "S"})),
            ] {
                let made = app.post(path).key(&key).json(body).send().await;
                assert_eq!(made.status, 201, "{}", made.text());
                if path == "/segments" {
                    let segment = made.json()["id"].as_str().expect("an id").to_owned();
                    app.post(format!("/contacts/{contact}/segments/{segment}")).key(&key).send().await;
                }
            }
        }
        for (target, count) in [
            ("/api-keys", 22), ("/contact-properties", 21), ("/automations", 21),
            (&*format!("/contacts/{contact}/segments"), 21),
        ] {
            let all = list(&app, &key, target).await;
            assert_eq!((all.ids.len(), all.has_more), (count, false), "{target}");
        }
    }

    async fn decisions_8_what_happened_is_listed_by_the_newest_twenty_and_imports_by_ten(app: TestApp) {
        let key = app.full_key().await;
        let mut automation = graphs::body("A");
        automation["status"] = json!("enabled");
        let automation = graphs::automation(&app, &key, automation).await;
        let sent: Value = (0..21).map(|n| json!({"event": "user.created", "email": format!("u{n}@b.co")})).collect();
        assert_eq!(app.post("/events/send/batch").key(&key).json(sent).send().await.status, 202);
        for n in 0..11 {
            let form = format!("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nemail\ni{n}@b.co\n\r\n--x--\r\n");
            let made = app.post("/contacts/imports").key(&key).body("multipart/form-data; boundary=x", form).send().await;
            assert_eq!(made.status, 201, "{}", made.text());
        }
        for (target, count, all) in [
            ("/events/user.created/occurrences".to_owned(), 20, 21),
            (format!("/automations/{automation}/runs"), 20, 21),
            ("/contacts/imports".to_owned(), 10, 11),
        ] {
            let newest = list(&app, &key, &target).await;
            assert_eq!((newest.ids.len(), newest.has_more), (count, true), "{target}");
            let whole = list(&app, &key, &format!("{target}?limit=100")).await;
            assert_eq!((whole.ids.len(), whole.has_more), (all, false), "{target}");
        }
    }

    async fn decisions_8_the_description_tells_what_a_list_returns_without_a_limit(app: TestApp) {
        let description = app.get("/openapi.json").send().await.json();
        let limit = |path: &str| {
            let params = description["paths"][path]["get"]["parameters"].as_array().expect("parameters");
            params.iter().find(|param| param["name"] == "limit").expect("a limit").clone()
        };
        for (path, default) in [
            ("/contacts", None), ("/oauth/grants", None), ("/domains", None), ("/templates", None), ("/broadcasts", None),
            ("/webhooks", None), ("/suppressions", None), ("/automations/{id}/runs", Some(20)),
            ("/events/{identifier}/occurrences", Some(20)), ("/contacts/imports", Some(10)),
        ] {
            assert_eq!(limit(path)["schema"]["default"].as_u64(), default, "{path}");
            assert_eq!(limit(path)["schema"]["maximum"], 100, "{path}");
        }
        for path in ["/contacts", "/oauth/grants", "/domains", "/templates", "/broadcasts", "/webhooks", "/suppressions"] {
            assert!(limit(path)["description"].as_str().expect("words").contains("1,000"), "{path}");
        }
    }

    async fn decisions_8_a_slash_at_the_end_is_the_same_path(app: TestApp) {
        let key = app.full_key().await;
        let made = app.post("/events/").key(&key).json(json!({"name": "a/b"})).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        let list = app.get("/events/?limit=1").key(&key).send().await;
        assert_eq!((list.status, &list.json()["data"][0]["name"]), (200, &json!("a/b")), "{}", list.text());
        for target in ["/events/a/b/", "//events/a%2Fb/", "/events/a/b"] {
            let found = app.get(target).key(&key).send().await;
            assert_eq!((found.status, found.json()["name"].clone()), (200, json!("a/b")), "{target}");
        }
        assert_eq!(app.get("/events/a%2Fb%2F").key(&key).send().await.status, 404, "what is encoded belongs to a name");
        app.event(&key, json!({"name": "c/"})).await;
        assert_eq!(app.get("/events/c%2F").key(&key).send().await.json()["name"], "c/");
        app.get("/nothing/").key(&key).send().await.refused(404, "not_found");
        let twice = app.post("/segments/").key(&key).header("idempotency-key", "k").json(json!({"name": "s"}));
        let again = app.post("/segments").key(&key).header("idempotency-key", "k").json(json!({"name": "s"}));
        assert_eq!(twice.send().await.text(), again.send().await.text(), "the key's path is the same, too");
    }

    async fn decisions_8_so_it_is_for_oauth_and_pages(app: TestApp) {
        let client = app.client_for("https://app.example/cb").await;
        let query = format!("response_type=code&client_id={client}&redirect_uri=https%3A%2F%2Fapp.example%2Fcb&state=a%2F\
            &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256");
        let answer = app.get(format!("/oauth/authorize/?{query}")).send().await;
        assert_eq!(answer.status, 302, "{}", answer.text());
        assert!(answer.location().contains("/dashboard/oauth/authorize/"), "{}", answer.location());
        assert_eq!(app.count("authorization_requests").await, 1);
        for (target, twin) in [("/dashboard/", "/dashboard"), ("/dashboard/login/", "/dashboard/login"), ("/docs/", "/docs")] {
            let (answer, twin) = (app.get(target).send().await, app.get(twin).send().await);
            assert_ne!(answer.status, 404, "{target}");
            assert_eq!((answer.status, answer.header("location")), (twin.status, twin.header("location")), "{target}");
        }
        assert_eq!(app.get("/").send().await.status, 200);
        assert_eq!(app.get("//").send().await.status, 200);
    }
}
