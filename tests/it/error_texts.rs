//! What is said to bad requests, route by route: status, name and message, kept
//! in `tests/it/snapshots/errors.snap`. One field after the other is made wrong in
//! a body that is good otherwise, so the table also tells which is reported first.

use serde_json::{Value, json};

use crate::asking::{CALLBACK, CHALLENGE, query};
use crate::graphs::{automation, body, graph};
use crate::harness::{Answer, Req, TestApp, on_both};
use crate::snapshots::{redacted, unchanged};

const NOBODY: &str = "0199a5a0-0000-7000-8000-000000000000";

/// Bodies that are good, with every field that the route knows; `{n}` becomes a
/// number that no other request has.
fn good(path: &str) -> Value {
    let (steps, connections) = graph();
    match path.split(' ').nth(1).unwrap_or_default().split('/').nth(1).unwrap_or_default() {
        "api-keys" => json!({"name": "key {n}", "permission": "sending_access", "domain_id": null}),
        "domains" => json!({"name": "d{n}.example", "region": "eu-west-1", "custom_return_path": "send",
            "open_tracking": false, "click_tracking": false, "tls": "enforced", "capabilities": {"sending": "enabled"},
            "tracking_subdomain": "links", "transport": "direct", "warm_up": 10}),
        "contacts" if path.ends_with("/topics") => json!([{"id": NOBODY, "subscription": "opt_in"}]),
        "contacts" | "audiences" if path.contains("contacts") => {
            json!({"email": "{n}@example.com", "first_name": "Ann",
            "last_name": "Lee", "unsubscribed": false, "properties": {}, "segments": [], "topics": []})
        }
        "emails" if path.starts_with("PATCH") => json!({"scheduled_at": "in 2 hours"}),
        "emails" if path.ends_with("/share") => json!({"expires_in": "1h"}),
        "emails" if path.ends_with("/batch") => json!([{"from": "a@b.example", "to": "{n}@example.com",
            "subject": "x", "text": "x", "attachments": null, "scheduled_at": null}]),
        "emails" => json!({"from": "a@b.example", "to": "{n}@example.com", "subject": "x", "html": "x", "text": "x",
            "cc": [], "bcc": [], "reply_to": "r@b.example", "headers": {"X-A": "b"}, "tags": [], "topic_id": null,
            "scheduled_at": "in 1 hour", "attachments": [{"content": "aGk=", "filename": "a.txt"}], "template": null}),
        "broadcasts" if path.ends_with("/send") => json!({"scheduled_at": "in 1 hour"}),
        "broadcasts" if path.starts_with("PATCH") => json!({"from": "a@b.example", "subject": "x", "html": "x",
            "text": "x", "reply_to": "r@b.example", "preview_text": "x", "name": "x", "topic_id": null,
            "template": null, "segment_id": null}),
        "broadcasts" => json!({"segment_id": NOBODY, "from": "a@b.example", "subject": "x", "html": "x", "text": "x",
            "reply_to": "r@b.example", "preview_text": "x", "name": "x", "topic_id": null, "send": true,
            "scheduled_at": "in 1 hour", "template": null}),
        "templates" if path.ends_with("/publish") => json!({"version_id": null}),
        "templates" if path.ends_with("/preview") => json!({"variables": {}, "version_id": null}),
        "templates" if path.ends_with("/test") => json!({"to": "{n}@example.com", "variables": {}, "version_id": null,
            "from": "a@b.example"}),
        "templates" => json!({"name": "template {n}", "alias": "template-{n}", "from": "a@b.example", "subject": "x",
            "reply_to": "r@b.example", "html": "<p>x</p>", "text": "x",
            "variables": [{"key": "A", "type": "string", "fallback_value": "x"}]}),
        "contact-properties" => json!({"key": "property_{n}", "type": "string", "fallback_value": "x"}),
        "segments" | "audiences" => json!({"name": "segment {n}",
            "filter": {"type": "rule", "field": "contact.unsubscribed", "operator": "eq", "value": false}}),
        "topics" => {
            json!({"name": "topic {n}", "default_subscription": "opt_in", "description": "x", "visibility": "public"})
        }
        "suppressions" if path.ends_with("/add") => json!({"emails": ["{n}@example.com"]}),
        "suppressions" if path.ends_with("/remove") => json!({"emails": ["{n}@example.com"], "ids": null}),
        "suppressions" => json!({"email": "{n}@example.com"}),
        "events" if path.ends_with("/send") => json!({"event": "event.{n}", "email": "{n}@example.com", "payload": {}}),
        "events" if path.ends_with("/batch") => {
            json!([{"event": "event.{n}", "email": "{n}@example.com", "payload": {}}])
        }
        "events" => json!({"name": "event.{n}", "schema": {"plan": "string"}}),
        "automations" => {
            json!({"name": "automation {n}", "status": "disabled", "steps": steps, "connections": connections,
            "re_entry": "always", "exit_on": "gone", "send_window": {"from": "09:00", "until": "17:00"}})
        }
        "forms" => json!({"name": "form {n}", "from": "a@b.example", "heading": "H", "text": "T",
            "redirect_url": "https://a.example", "segment_id": null, "topics": [], "enabled": true}),
        "workspace" if path.ends_with("/branding") => json!({"name": "Brand", "color": "#1b2440"}),
        "workspace" => json!({"timezone": "Europe/Berlin", "bulk_cap": {"mails": 3, "hours": 24}}),
        _ if path.ends_with("/register") => json!({"client_name": "App", "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code"], "response_types": ["code"], "scope": "emails:send",
            "token_endpoint_auth_method": "none", "client_uri": "https://app.example", "logo_uri": "https://app.example/l"}),
        _ if path.ends_with("/token") => json!({"grant_type": "authorization_code", "client_id": NOBODY, "code": "x",
            "redirect_uri": CALLBACK, "code_verifier": CHALLENGE}),
        _ if path.ends_with("/revoke") => json!({"token": "x", "token_type_hint": "access_token", "client_id": NOBODY}),
        _ => json!({}),
    }
}

/// What a field is set to instead; `None` leaves it out.
fn wrong() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("left out", None),
        ("null", Some(Value::Null)),
        ("7", Some(json!(7))),
        ("true", Some(json!(true))),
        ("\"\"", Some(json!(""))),
        ("\"?\"", Some(json!("?"))),
        ("a long text", Some(json!("x".repeat(3000)))),
        ("[]", Some(json!([]))),
        ("[7]", Some(json!([7]))),
        ("{}", Some(json!({}))),
        ("{\"a\": {}}", Some(json!({"a": {}}))),
    ]
}

/// Status, name and message; of what succeeds, the status.
fn outcome(answer: &Answer) -> String {
    if answer.status == 302 {
        return format!("302 {}", redacted(&answer.location().replace(&"x".repeat(3000), "xxx…")));
    }
    if answer.status < 400 {
        return answer.status.to_string();
    }
    let body = answer.json();
    let text = |names: [&str; 2]| names.iter().find_map(|name| body[name].as_str()).unwrap_or_default().to_owned();
    redacted(&format!("{} {}: {}", answer.status, text(["name", "error"]), text(["message", "error_description"])))
}

/// The lines of one route: outcomes in the order of their first appearance, each
/// with what led to it.
#[derive(Default)]
struct Lines(Vec<(String, Vec<String>)>);

impl Lines {
    async fn add(&mut self, cause: impl Into<String>, request: Req<'_>) {
        let outcome = outcome(&request.send().await);
        let (cause, known) = (cause.into(), self.0.iter_mut().find(|(known, _)| *known == outcome));
        match known {
            Some((_, causes)) => causes.push(cause),
            None => self.0.push((outcome, vec![cause])),
        }
    }

    fn told(self) -> String {
        self.0.into_iter().map(|(outcome, causes)| format!("  {outcome}\n    {}\n", causes.join("; "))).collect()
    }
}

struct Asker {
    app: TestApp,
    key: String,
    number: usize,
}

impl Asker {
    fn request(&self, method: &str, path: &str) -> Req<'_> {
        self.app.request(method, path).key(&self.key)
    }

    /// The body with numbers of its own.
    fn numbered(&mut self, body: &Value) -> Value {
        self.number += 1;
        serde_json::from_str(&body.to_string().replace("{n}", &self.number.to_string())).expect("JSON")
    }

    async fn bodies(&mut self, method: &str, target: &str, good: &Value, lines: &mut Lines) {
        for (cause, body) in
            [("no body", ""), ("not JSON", "{"), ("a list in a list", "[[]]"), ("null", "null"), ("{}", "{}")]
        {
            lines.add(cause, self.request(method, target).body("application/json", body)).await;
        }
        lines.add("text/plain", self.request(method, target).body("text/plain", "{}")).await;
        let item = if good.is_array() { &good[0] } else { good };
        for field in item.as_object().expect("fields").keys() {
            for (cause, value) in wrong() {
                let mut changed = self.numbered(item);
                match value {
                    Some(value) => changed[field] = value,
                    None => drop(changed.as_object_mut().expect("fields").shift_remove(field)),
                }
                let changed = if good.is_array() { json!([changed]) } else { changed };
                lines.add(format!("{field}: {cause}"), self.request(method, target).json(changed)).await;
            }
        }
        let all = self.numbered(good);
        lines.add("everything right", self.request(method, target).json(all)).await;
    }
}

/// The path with things that are there in place of its parameters.
async fn made(asker: &mut Asker, path: &str) -> String {
    let key = asker.key.clone();
    let app = &asker.app;
    let make = async |path: &str, body: Value| {
        let made = app.post(path).key(&key).json(body).send().await.json();
        made["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    };
    asker.number += 1;
    let n = asker.number;
    let id = match path.split('/').nth(1).unwrap_or_default() {
        "api-keys" => make("/api-keys", json!({"name": "a"})).await,
        "domains" => make("/domains", json!({"name": format!("made{n}.example")})).await,
        "contacts" => make("/contacts", json!({"email": format!("{n}@example.com")})).await,
        "contact-properties" => make("/contact-properties", json!({"key": format!("p{n}"), "type": "string"})).await,
        "segments" | "audiences" => make("/segments", json!({"name": format!("s{n}")})).await,
        "topics" => make("/topics", json!({"name": "t", "default_subscription": "opt_in"})).await,
        "suppressions" => make("/suppressions", json!({"email": format!("{n}@example.com")})).await,
        "forms" => make("/forms", json!({"name": "f", "from": "a@b.example"})).await,
        "emails" => {
            let mail = json!({"from": "a@b.example", "to": "c@d.example", "subject": "x", "text": "x",
                "scheduled_at": "in 1 hour"});
            make("/emails", mail).await
        }
        "broadcasts" => {
            let segment = make("/segments", json!({"name": format!("s{n}")})).await;
            let given = json!({"segment_id": segment, "from": "a@b.example", "subject": "x", "text": "x"});
            make("/broadcasts", given).await
        }
        "events" => make("/events", json!({"name": format!("e{n}")})).await,
        "automations" => automation(app, &key, body("a")).await,
        _ => NOBODY.to_owned(),
    };
    let place =
        |part: &str| if part == "{audience_id}" || !part.contains("contact}") { id.clone() } else { NOBODY.into() };
    let is_own = path.matches('{').count() == 1;
    let parts = path.split('/').map(|part| match part.starts_with('{') {
        true if is_own => id.clone(),
        true => place(part),
        false => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

fn with_parameters(path: &str, value: &str) -> String {
    path.split('/').map(|part| if part.starts_with('{') { value } else { part }).collect::<Vec<_>>().join("/")
}

on_both! {
    async fn snapshots_of_what_is_said_to_bad_requests(app: TestApp) {
        let key = app.full_key().await;
        let client = app.client_for(CALLBACK).await;
        let mut asker = Asker { app, key, number: 0 };
        let description = asker.app.get("/openapi.json").send().await.json();
        let mut routes: Vec<(String, String, Value)> = Vec::new();
        for (path, methods) in description["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                routes.push((path.clone(), method.to_uppercase(), operation.clone()));
            }
        }
        routes.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let mut text = String::new();
        for (path, method, operation) in routes {
            let mut lines = Lines::default();
            if path == "/oauth/authorize" {
                for name in ["client_id", "redirect_uri", "response_type", "code_challenge", "code_challenge_method", "scope", "state"] {
                    let long = "x".repeat(3000);
                    for (cause, value) in [("left out", None), ("empty", Some("")), ("?", Some("?")), ("a long text", Some(&*long))] {
                        let query = query(&client, &[("state", Some("s")), (name, value)]);
                        lines.add(format!("{name}: {cause}"), asker.app.get(format!("/oauth/authorize?{query}"))).await;
                    }
                }
            }
            let is_open = operation["security"].as_array().is_some_and(|all| all.iter().all(|one| *one == json!({})));
            if path.contains('{') {
                for (cause, value) in [("an unknown id", NOBODY), ("no id", "x"), ("a name of spaces", "%20")] {
                    lines.add(cause, asker.request(&method, &with_parameters(&path, value))).await;
                }
            }
            let named: Vec<&str> = operation["parameters"].as_array().into_iter().flatten()
                .filter(|parameter| parameter["in"] == "query").filter_map(|parameter| parameter["name"].as_str()).collect();
            if !is_open && method == "GET" {
                let target = made(&mut asker, &path).await;
                for name in named {
                    for value in ["", "0", "101", "x", NOBODY] {
                        lines.add(format!("?{name}={value}"), asker.request(&method, &format!("{target}?{name}={value}"))).await;
                    }
                }
            }
            let kinds = operation["requestBody"]["content"].as_object();
            if kinds.is_some_and(|kinds| kinds.contains_key("application/json")) {
                let target = made(&mut asker, &path).await;
                let good = good(&format!("{method} {path}"));
                asker.bodies(&method, &target, &good, &mut lines).await;
            } else if kinds.is_some() {
                for (label, body) in [("application/json", "{}"), ("multipart/form-data", "x"), ("multipart/form-data; boundary=b", "--b--")] {
                    lines.add(label, asker.request(&method, &path).body(label, body)).await;
                }
            }
            let told = lines.told();
            if !told.is_empty() {
                text.push_str(&format!("{method} {path}\n{told}\n"));
            }
        }
        unchanged("errors", &text);
    }
}
