//! The audit log: whatever a person changes by a form of the dashboard stands in it, and what a program changes by the
//! API, unless that is data.

use std::collections::BTreeMap;

use posthorn::audit::Act;
use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::flow::{app_named, text};
use crate::form_filling::Filled;
use crate::harness::{Answer, BASE, TestApp, on_both};
use crate::runs::{Scene, failing};

/// What a form is filled with.
type Fields = &'static [(&'static str, &'static str)];

/// The page with a form, where it is sent, what is typed, and what of it the log names.
const MADE: &[(&str, &str, Fields, &str)] = &[
    ("/segments", "/segments", &[("name", "Readers")], "Readers"),
    ("/topics", "/topics", &[("name", "News")], "News"),
    ("/contacts/new", "/contacts", &[("email", "ada@example.com")], ""),
    ("/properties", "/properties", &[("key", "plan")], ""),
    ("/events/new", "/events/new", &[("name", "order.paid")], "order.paid"),
    ("/templates/new", "/templates/new", &[("name", "Thanks"), ("html", "<p>Hi</p>")], "Thanks"),
    ("/webhooks/new", "/webhooks/new", &[("endpoint", "https://example.com/"), ("event", "email.sent")], ""),
    ("/domains", "/domains", &[("name", "acme.example")], "acme.example"),
    ("/keys", "/keys", &[("name", "web shop")], "web shop"),
    ("/forms/new", "/forms/new", &[("name", "Footer"), ("from", "a@acme.example")], "Footer"),
    ("/emails/new", "/emails/new", &[("from", "a@acme.example"), ("subject", "Hello"), ("text", "Hi")], "Hello"),
    ("/branding", "/branding", &[("name", "Ada & Co")], "Ada & Co"),
    ("/settings", "/settings", &[("name", "Post office")], "Post office"),
    ("/team", "/team", &[("email", "new@example.com")], ""),
];

/// Lists whose first row can be deleted.
const DELETED: &[&str] =
    &["/segments", "/topics", "/contacts", "/events", "/templates", "/webhooks", "/forms", "/keys", "/domains"];

/// What the log is told of each operation that changes how a workspace is set up.
const TOLD: &[(&str, &str)] = &[
    ("create_api_key", "key.created"),
    ("rename_api_key", "key.renamed"),
    ("delete_api_key", "key.deleted"),
    ("create_audience", "segment.created"),
    ("delete_audience", "segment.deleted"),
    ("create_segment", "segment.created"),
    ("update_segment", "segment.changed"),
    ("delete_segment", "segment.deleted"),
    ("create_topic", "topic.created"),
    ("update_topic", "topic.changed"),
    ("delete_topic", "topic.deleted"),
    ("create_contact_property", "property.created"),
    ("update_contact_property", "property.changed"),
    ("delete_contact_property", "property.deleted"),
    ("create_contact_import", "import.created"),
    ("erase_contact", "contact.erased"),
    ("update_event", "event.changed"),
    ("delete_event", "event.deleted"),
    ("create_automation", "automation.created"),
    ("update_automation", "automation.changed"),
    ("stop_automation", "automation.stopped"),
    ("duplicate_automation", "automation.duplicated"),
    ("delete_automation", "automation.deleted"),
    ("cancel_automation_run", "run.canceled"),
    ("retry_automation_run", "run.retried"),
    ("create_template", "template.created"),
    ("update_template", "template.changed"),
    ("publish_template", "template.published"),
    ("duplicate_template", "template.duplicated"),
    ("delete_template", "template.deleted"),
    ("create_broadcast", "broadcast.created"),
    ("update_broadcast", "broadcast.changed"),
    ("duplicate_broadcast", "broadcast.duplicated"),
    ("send_broadcast", "broadcast.sent"),
    ("pause_broadcast", "broadcast.paused"),
    ("resume_broadcast", "broadcast.resumed"),
    ("cancel_broadcast", "broadcast.canceled"),
    ("delete_broadcast", "broadcast.deleted"),
    ("create_domain", "domain.created"),
    ("update_domain", "domain.changed"),
    ("rotate_dkim_keys", "domain.dkim_keys"),
    ("delete_domain", "domain.deleted"),
    ("create_webhook", "webhook.created"),
    ("update_webhook", "webhook.changed"),
    ("rotate_webhook_secret", "webhook.rotated"),
    ("delete_webhook", "webhook.deleted"),
    ("create_suppression", "suppression.created"),
    ("create_suppressions", "suppression.created"),
    ("import_suppressions", "suppression.imported"),
    ("delete_suppression", "suppression.deleted"),
    ("delete_suppressions", "suppression.deleted"),
    ("create_form", "form.created"),
    ("update_form", "form.changed"),
    ("delete_form", "form.deleted"),
    ("update_workspace", "settings.changed"),
    ("update_branding", "branding.changed"),
    ("revoke_grant", "grant.revoked"),
];

/// Operations of which it is told nothing, and why.
const UNTOLD: &[(&str, &[&str])] = &[
    (
        "mail is data, and has a history of its own",
        &[
            "send_email",
            "send_emails",
            "reschedule_email",
            "cancel_email",
            "retry_email",
            "drop_email",
            "mark_email_delivered",
            "share_email",
            "forward_received_email",
            "reply_to_received_email",
            "test_template",
        ],
    ),
    (
        "contacts are data, one by one",
        &[
            "create_contact",
            "update_contact",
            "delete_contact",
            "add_contact_segment",
            "remove_contact_segment",
            "choose_contact_topics",
            "create_audience_contact",
            "update_audience_contact",
            "delete_audience_contact",
        ],
    ),
    (
        "what happens is data, and so is telling somebody of it once more",
        &["send_event", "send_events", "replay_occurrence", "replay_webhook_event"],
    ),
    (
        "programs define events by the thousand a second, and a definition is never changed by another",
        &["create_event"],
    ),
    ("looks, and changes nothing", &["validate_automation", "preview_segment", "preview_template", "verify_domain"]),
    ("has no credential of a workspace", &["register_client", "revoke", "token"]),
];

const AUTOMATION: &str = r#"{"name": "Welcome", "connections": [{"from": "start", "to": "wait"}], "steps": [
    {"key": "start", "type": "trigger", "config": {"event_name": "user.created"}},
    {"key": "wait", "type": "delay", "config": {"duration": "1 hour"}}]}"#;
const BROADCAST: &str = r#"{"name": "Spring", "segment_id": "$create_segment", "from": "a@b.example", "subject": "Hi",
    "html": "<p>Hi</p><a href=\"{{{UNSUBSCRIBE_URL}}}\">no more</a>"}"#;
const FILE: &str = "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"people.csv\"\r\n\
    Content-Type: text/csv\r\n\r\nemail\nann@b.example\n\r\n--edge--\r\n";

/// What a program does, one after the other: the operation, what stands for its parameters, the body, and what the log
/// calls the thing. `$create_domain` is the id that this operation answered.
type Call = (&'static str, &'static [&'static str], &'static str, &'static str);

const CALLS: &[Call] = &[
    ("create_api_key", &[], r#"{"name": "web shop"}"#, "web shop"),
    ("rename_api_key", &["$create_api_key"], r#"{"name": "shop"}"#, "shop"),
    ("delete_api_key", &["$create_api_key"], "", "shop"),
    ("create_audience", &[], r#"{"name": "Old"}"#, "Old"),
    ("delete_audience", &["$create_audience"], "", "Old"),
    ("create_segment", &[], r#"{"name": "Readers"}"#, "Readers"),
    ("update_segment", &["$create_segment"], r#"{"name": "All readers"}"#, "All readers"),
    ("create_topic", &[], r#"{"name": "News", "default_subscription": "opt_in"}"#, "News"),
    ("update_topic", &["$create_topic"], r#"{"name": "Letters"}"#, "Letters"),
    ("delete_topic", &["$create_topic"], "", "Letters"),
    ("create_contact_property", &[], r#"{"key": "plan", "type": "string"}"#, "plan"),
    ("update_contact_property", &["$create_contact_property"], r#"{"fallback_value": "free"}"#, "plan"),
    ("delete_contact_property", &["$create_contact_property"], "", "plan"),
    ("create_contact_import", &[], FILE, ""),
    ("create_contact", &[], r#"{"email": "ada@b.example"}"#, ""),
    ("update_contact", &["ada@b.example"], r#"{"first_name": "Ada"}"#, ""),
    ("erase_contact", &["ada@b.example"], "{}", ""),
    ("create_event", &[], r#"{"name": "order.paid"}"#, ""),
    ("send_event", &[], r#"{"event": "order.paid", "email": "bob@b.example"}"#, ""),
    ("update_event", &["order.paid"], r#"{"schema": null}"#, "order.paid"),
    ("delete_event", &["$create_event"], "", "order.paid"),
    ("create_automation", &[], AUTOMATION, "Welcome"),
    ("update_automation", &["$create_automation"], r#"{"status": "enabled"}"#, "Welcome"),
    ("stop_automation", &["$create_automation"], "", "Welcome"),
    ("duplicate_automation", &["$create_automation"], "", "Welcome"),
    ("delete_automation", &["$create_automation"], "", "Welcome"),
    (
        "create_template",
        &[],
        r#"{"name": "Thanks", "alias": "thanks", "subject": "Hi", "html": "<p>Hi</p>"}"#,
        "Thanks",
    ),
    ("update_template", &["thanks"], r#"{"name": "Many thanks"}"#, "Many thanks"),
    ("publish_template", &["thanks"], "", "Many thanks"),
    ("duplicate_template", &["thanks"], "", "Many thanks"),
    ("delete_template", &["thanks"], "", "Many thanks"),
    ("create_contact", &[], r#"{"email": "eve@b.example", "segments": [{"id": "$create_segment"}]}"#, ""),
    ("create_broadcast", &[], BROADCAST, "Spring"),
    ("update_broadcast", &["$create_broadcast"], r#"{"name": "Summer"}"#, "Summer"),
    ("duplicate_broadcast", &["$create_broadcast"], "", "Summer"),
    ("delete_broadcast", &["$duplicate_broadcast"], "", "Summer (copy)"),
    ("send_broadcast", &["$create_broadcast"], "{}", "Summer"),
    ("pause_broadcast", &["$create_broadcast"], "", "Summer"),
    ("resume_broadcast", &["$create_broadcast"], "", "Summer"),
    ("cancel_broadcast", &["$create_broadcast"], "", "Summer"),
    ("delete_segment", &["$create_segment"], "", "All readers"),
    (
        "create_webhook",
        &[],
        r#"{"endpoint": "https://example.com/hook", "events": ["email.sent"]}"#,
        "https://example.com/hook",
    ),
    ("update_webhook", &["$create_webhook"], r#"{"status": "disabled"}"#, "https://example.com/hook"),
    ("rotate_webhook_secret", &["$create_webhook"], "", "https://example.com/hook"),
    ("delete_webhook", &["$create_webhook"], "", "https://example.com/hook"),
    ("create_suppression", &[], r#"{"email": "a@x.example"}"#, ""),
    ("delete_suppression", &["a@x.example"], "", ""),
    ("create_suppressions", &[], r#"{"emails": ["b@x.example", "c@x.example"]}"#, ""),
    ("delete_suppressions", &[], r#"{"emails": ["b@x.example", "c@x.example"]}"#, ""),
    ("import_suppressions", &[], "email\nd@x.example\ne@x.example\n", ""),
    ("create_form", &[], r#"{"name": "Footer", "from": "a@b.example"}"#, "Footer"),
    ("update_form", &["$create_form"], r#"{"heading": "Hear from us"}"#, "Footer"),
    ("delete_form", &["$create_form"], "", "Footer"),
    ("update_workspace", &[], r#"{"timezone": "Europe/Berlin"}"#, ""),
    ("update_branding", &[], r#"{"name": "Ada & Co"}"#, ""),
    ("create_domain", &[], r#"{"name": "acme.example"}"#, "acme.example"),
    ("update_domain", &["$create_domain"], r#"{"tls": "enforced"}"#, "acme.example"),
    ("rotate_dkim_keys", &["$create_domain"], "", "acme.example"),
    ("delete_domain", &["$create_domain"], "", "acme.example"),
];

/// What is done twice under one key.
const KEYED: &[Call] = &[
    ("create_segment", &[], r#"{"name": "Readers"}"#, ""),
    ("create_suppression", &[], r#"{"email": "a@x.example"}"#, ""),
    ("import_suppressions", &[], "email\nb@x.example\n", ""),
    ("create_automation", &[], AUTOMATION, ""),
    ("create_webhook", &[], r#"{"endpoint": "https://example.com/", "events": ["email.sent"]}"#, ""),
    ("create_contact_import", &[], FILE, ""),
];

/// What changes nothing once that was done.
const IDLE: &[Call] = &[
    ("update_segment", &["$create_segment"], "{}", ""),
    ("update_webhook", &["$create_webhook"], "", ""),
    ("create_suppression", &[], r#"{"email": "A@x.example"}"#, ""),
    ("create_suppressions", &[], r#"{"emails": ["a@x.example", "b@x.example"]}"#, ""),
    ("import_suppressions", &[], "email\na@x.example\nb@x.example\n", ""),
    ("delete_suppressions", &[], r#"{"emails": ["nobody@x.example"]}"#, ""),
    ("stop_automation", &["$create_automation"], "", ""),
];

/// What is done to many things at once, or to the workspace itself.
const NAMELESS: &[&str] =
    &["create_suppressions", "delete_suppressions", "import_suppressions", "update_workspace", "update_branding"];

/// The operations that write, each with its method and its path.
async fn writing(app: &TestApp) -> BTreeMap<String, (String, String)> {
    let description = app.get("/openapi.json").send().await.json();
    let mut found = BTreeMap::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods").iter().filter(|(method, _)| *method != "get") {
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            found.insert(id, (method.to_uppercase(), path.clone()));
        }
    }
    found
}

fn told_of(operation: &str) -> Option<&'static str> {
    TOLD.iter().find(|(one, _)| *one == operation).map(|(_, action)| *action)
}

/// A program with a key, and the ids of what it has made.
struct Program<'a> {
    app: &'a TestApp,
    key: String,
    routes: BTreeMap<String, (String, String)>,
    made: Vec<(String, String)>,
}

impl Program<'_> {
    async fn new(app: &TestApp, key: String) -> Program<'_> {
        Program { app, key, routes: writing(app).await, made: Vec::new() }
    }

    fn filled(&self, text: &str) -> String {
        self.made.iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("${name}"), id))
    }

    async fn call(&mut self, (operation, whom, body, _): Call, key: Option<&str>) -> Answer {
        let (method, path) = &self.routes[operation];
        let mut whom = whom.iter();
        let parts = path.split('/').map(|part| match part.starts_with('{') {
            true => self.filled(whom.next().expect("something to do it to")),
            false => part.to_owned(),
        });
        let request = self.app.request(method, parts.collect::<Vec<_>>().join("/")).key(&self.key);
        let request = key.iter().fold(request, |request, key| request.header("Idempotency-Key", key));
        let request = match body {
            "" => request,
            FILE => request.body("multipart/form-data; boundary=edge", body),
            _ if body.starts_with('{') => request.body("application/json", self.filled(body)),
            _ => request.body("text/csv", body),
        };
        let answer = request.send().await;
        assert!((200..300).contains(&answer.status), "{operation}: {}", answer.text());
        if let Some(id) = answer.json()["id"].as_str() {
            self.made.push((operation.to_owned(), id.to_owned()));
            // Longer ones first: others may begin alike.
            self.made.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        }
        answer
    }
}

/// The newest line: what was done, to what, whether that has an id, by whom, how, and from where.
async fn newest(app: &TestApp) -> Vec<String> {
    let columns = "action, target, CASE WHEN target_id IS NULL THEN 'no' ELSE 'yes' END, actor, via, address";
    let rows = app.store.rows(&format!("SELECT {columns} FROM audit_log ORDER BY id DESC LIMIT 1")).await;
    rows[0].iter().map(|field| field.clone().unwrap_or_default()).collect()
}

on_both! {
    async fn t37_every_change_by_a_form_is_in_the_audit_log(app: TestApp) {
        let cookie = owner(&app).await;
        for (at, action, typed, named) in MADE {
            let before = app.count("audit_log").await;
            let mut form = Filled::of(&page(&app, &cookie, at).await, action);
            for (name, value) in *typed {
                form = form.with(name, value);
            }
            let answer = form.send(&app, &cookie).await;
            assert!([200, 303].contains(&answer.status), "{action}: {}", answer.text());
            assert_eq!(app.count("audit_log").await, before + 1, "{action} is told once");
            let row = app.store.rows("SELECT target, actor, address, via FROM audit_log ORDER BY id DESC LIMIT 1").await;
            let told: Vec<&str> = row[0].iter().map(|field| field.as_deref().unwrap_or_default()).collect();
            assert!(told[0].contains(named), "{action} is told of {told:?}");
            assert_eq!(told[1..], ["owner@example.com", "127.0.0.1", "session"], "{action}");
        }
        for list in DELETED {
            let shown = page(&app, &cookie, list).await;
            let links = shown.split("href=\"/dashboard").filter_map(|rest| rest.split('"').next());
            let is_one = |path: &str| path.split('/').any(|part| part.len() == 36);
            let one = links.filter_map(|path| path.split_once(list)).map(|(_, rest)| rest).find(|rest| is_one(rest));
            let one = one.unwrap_or_else(|| panic!("nothing to delete on {list}: {shown}"));
            let id = one.split('/').find(|part| part.len() == 36).expect("an id");
            let before = app.count("audit_log").await;
            let ask = page(&app, &cookie, &format!("{list}/{id}/delete")).await;
            let answer = Filled::of(&ask, "/delete").send(&app, &cookie).await;
            assert_eq!(answer.status, 303, "{list}: {}", answer.text());
            assert_eq!(app.count("audit_log").await, before + 1, "a deletion from {list} is told once");
        }
        let shown = page(&app, &cookie, "/audit").await;
        for word in ["domain.deleted", "acme.example", "owner@example.com", "127.0.0.1"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }

    /// An operation that is added later is noticed here: what is the log told of it, or why nothing?
    async fn every_operation_of_the_api_is_told_or_has_a_reason_not_to_be(app: TestApp) {
        let untold = UNTOLD.iter().flat_map(|(_, operations)| operations.iter().map(|one| (*one, None)));
        let known: BTreeMap<&str, Option<&str>> =
            TOLD.iter().map(|(one, action)| (*one, Some(*action))).chain(untold).collect();
        assert_eq!(known.len(), TOLD.len() + UNTOLD.iter().map(|(_, some)| some.len()).sum::<usize>(), "each once");
        let writing = writing(&app).await;
        for (operation, (method, path)) in &writing {
            let Some(wanted) = known.get(operation.as_str()) else { panic!("what is the log told of {operation}?") };
            // What only looks, or has no credential, commits nothing for a caller, whatever it is called.
            let commits = !UNTOLD[4..].iter().any(|(_, some)| some.contains(&operation.as_str()));
            let told = Act::of_call(method, path, path).map(|act| act.action).filter(|_| commits);
            assert_eq!(told.as_deref(), *wanted, "{operation}");
        }
        let gone: Vec<_> = known.keys().filter(|one| !writing.contains_key(**one)).collect();
        assert!(gone.is_empty(), "the API has no such operations: {gone:?}");
        let called = CALLS.iter().map(|(operation, ..)| *operation);
        let elsewhere = ["cancel_automation_run", "retry_automation_run", "revoke_grant"];
        let called: Vec<&str> = called.chain(elsewhere).collect();
        let uncalled: Vec<_> = TOLD.iter().filter(|(one, _)| !called.contains(one)).collect();
        assert!(uncalled.is_empty(), "nobody calls {uncalled:?} here");
    }

    async fn what_a_program_changes_is_told_once_and_in_the_words_of_the_dashboard(app: TestApp) {
        let key = app.full_key().await;
        let mut program = Program::new(&app, key).await;
        for call in CALLS {
            let (operation, _, _, named) = *call;
            if operation == "rotate_dkim_keys" {
                app.store.run("UPDATE dkim_keys SET seen_at = 1").await;
            }
            let before = app.count("audit_log").await;
            program.call(*call, None).await;
            let Some(action) = told_of(operation) else {
                assert_eq!(app.count("audit_log").await, before, "{operation} is data");
                continue;
            };
            assert_eq!(app.count("audit_log").await, before + 1, "{operation} is told once");
            let has_id = if NAMELESS.contains(&operation) { "no" } else { "yes" };
            assert_eq!(newest(&app).await, [action, named, has_id, "a key", "key", "127.0.0.1"], "{operation}");
        }
        let cookie = owner(&app).await;
        let shown = page(&app, &cookie, "/audit").await;
        for word in ["domain.deleted", "acme.example", "a key", "with an API key", "127.0.0.1"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }

    async fn what_is_done_with_runs_is_told(app: TestApp) {
        let failing = Scene::new(app, failing()).await;
        let run = failing.run(json!({})).await;
        let path = format!("/automations/{}/runs/{run}/retry", failing.automation);
        assert_eq!(failing.app.post(&path).key(&failing.key).send().await.status, 200);
        assert_eq!(newest(&failing.app).await[0], "run.retried");
        failing.app.post(&path).key(&failing.key).send().await.refused(409, "validation_error");
        let path = path.replace("/retry", "/cancel");
        assert_eq!(failing.app.post(&path).key(&failing.key).send().await.status, 200);
        assert_eq!(newest(&failing.app).await[..3], ["run.canceled", "", "yes"]);
        assert_eq!(failing.app.told().await.len(), 3, "the automation, and what was done with its run");
    }

    async fn what_an_app_changes_is_told_of_the_app(app: TestApp) {
        let (client, person) = (app.client(app_named("Helper")).await, app.owner().await);
        let tokens = app.tokens(&client, &person).await;
        let token = text(&tokens, "access_token");
        let made = app.post("/topics").key(token).json(json!({"name": "News", "default_subscription": "opt_in"}));
        assert_eq!(made.from("192.0.2.7").send().await.status, 201);
        assert_eq!(newest(&app).await, ["topic.created", "News", "yes", "Helper", "grant", "192.0.2.7"]);
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "create_template", "arguments": {"name": "Hello", "subject": "Hi", "html": "<p>Hi</p>"}}});
        let asked = app.post("/mcp").key(token).header("host", BASE.split_once("://").expect("a scheme").1);
        let asked = asked.header("accept", "application/json, text/event-stream").from("192.0.2.8");
        let answer = asked.json(message).send().await;
        assert!(answer.status == 200 && answer.json()["result"]["isError"] != true, "{}", answer.text());
        assert_eq!(newest(&app).await, ["template.created", "Hello", "yes", "Helper", "grant", "192.0.2.8"]);
        let shown = app.see("/dashboard/audit", &person).await.text();
        assert!(shown.contains("through a connected app, from 192.0.2.8"), "{shown}");
        let grants = app.get("/oauth/grants").key(token).send().await.json();
        let ended = app.delete(format!("/oauth/grants/{}", text(&grants["data"][0], "id"))).key(token).send().await;
        assert_eq!(ended.status, 200, "{}", ended.text());
        assert_eq!(newest(&app).await[..4], ["grant.revoked", "Helper", "yes", "Helper"]);
    }

    async fn what_changes_nothing_is_not_told(app: TestApp) {
        let key = app.full_key().await;
        let mut program = Program::new(&app, key.clone()).await;
        for call in KEYED {
            let before = app.count("audit_log").await;
            program.call(*call, Some("once")).await;
            let again = program.call(*call, Some("once")).await;
            assert_eq!(again.header("idempotent-replayed"), Some("true"), "{}", call.0);
            assert_eq!(app.count("audit_log").await, before + 1, "{}, twice under one key", call.0);
        }
        let before = app.count("audit_log").await;
        for call in IDLE {
            program.call(*call, None).await;
            assert_eq!(app.count("audit_log").await, before, "{} changes nothing", call.0);
        }
        let nowhere = "01890000-0000-7000-8000-000000000000";
        for path in ["domains", "segments", "topics", "webhooks", "automations", "broadcasts", "forms", "api-keys"] {
            app.delete(format!("/{path}/{nowhere}")).key(&key).send().await.refused(404, "not_found");
        }
        app.delete("/events/nothing").key(&key).send().await.refused(404, "not_found");
        app.delete("/suppressions/nobody@x.example").key(&key).send().await.refused(404, "not_found");
        app.post("/topics").key(&key).json(json!({"name": ""})).send().await.refused(422, "validation_error");
        let theirs = app.second_workspace_key().await;
        let segment = program.filled("/segments/$create_segment");
        app.delete(segment).key(&theirs).send().await.refused(404, "not_found");
        assert_eq!(app.count("audit_log").await, before, "what was refused did not happen");
    }
}
