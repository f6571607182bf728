//! Texts that others read, kept whole in `tests/it/snapshots/`: the API's
//! description, the help of every command, and pages. A change of one shows up as
//! the difference that it is, and is accepted on purpose.

use posthorn::product;
use serde_json::{Map, Value, json};

use crate::asking::{CALLBACK, ask, query};
use crate::automation_pages::{owner, page};
use crate::binary::{posthorn, say};
use crate::harness::{BASE, TestApp, on_both};
use crate::runs::{Scene, branching};

/// Fails unless the text is the one that was accepted under this name.
pub fn unchanged(name: &str, text: &str) {
    println!("If the new text is wanted: INSTA_UPDATE=always cargo test -p posthorn-tests snapshots");
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The text without what is different every time: public keys, ids, tokens, fingerprints.
pub fn redacted(text: &str) -> String {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let mut parts = text.split("; p=");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| text + "; p=[key]" + part.trim_start_matches(is_base64));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(is_part) {
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        let is_fingerprint = word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        // One secret of 32 bytes in some thousands has no digit in it.
        let is_secret = word.len() == 43 && word.contains(char::is_uppercase) && word.contains(char::is_lowercase);
        let has_digit = word.len() >= 16 && word.contains(|c: char| c.is_ascii_digit());
        let is_random = is_fingerprint || is_secret || has_digit;
        out.push_str(&rest[..start]);
        out.push_str(match word {
            word if uuid::Uuid::try_parse(word).is_ok() => "[id]",
            word if word.starts_with("re_") => "re_[…]",
            _ if is_random => "[random]",
            word => word,
        });
        rest = &rest[end..];
    }
    out + rest
}

/// JSON with an entry on a line of its own only where one line would be too long.
fn printed(value: &Value, indent: usize, out: &mut String) {
    let line = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, part)| (format!("{}: ", json!(key)), part)).collect(),
        Value::Array(list) => list.iter().map(|part| (String::new(), part)).collect(),
        _ => Vec::new(),
    };
    if line.len() + indent <= 110 || parts.is_empty() {
        return out.push_str(&line);
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    out.push(open);
    for (at, (key, part)) in parts.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(indent + 1));
        out.push_str(&key);
        printed(part, indent + 1, out);
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push(close);
}

/// Moves what many routes answer alike to one place; each keeps a name of it.
fn with_answers_shared(mut description: Value) -> Value {
    let mut shared: Map<String, Value> = Map::new();
    let paths = description["paths"].as_object_mut().expect("paths");
    for operation in paths.values_mut().flat_map(|path| path.as_object_mut().expect("methods").values_mut()) {
        for (status, answer) in operation["responses"].as_object_mut().expect("answers") {
            if status.starts_with('2') {
                continue;
            }
            let whole = answer.take();
            let same = shared.iter().find(|(name, known)| name.starts_with(status.as_str()) && **known == whole);
            let name = match same {
                Some((name, _)) => name.clone(),
                None => {
                    let number = shared.keys().filter(|name| name.starts_with(status.as_str())).count() + 1;
                    let name = format!("{status} no. {number}");
                    shared.insert(name.clone(), whole);
                    name
                }
            };
            *answer = Value::String(name);
        }
    }
    description["shared answers"] = Value::Object(shared);
    description
}

#[test]
fn the_description_of_the_api() {
    let description = serde_json::to_value(product::openapi(BASE)).expect("JSON");
    let mut text = String::new();
    printed(&with_answers_shared(description), 0, &mut text);
    unchanged("openapi", &text);
}

/// Settings belong to every command and are shown with `serve` alone.
#[test]
fn the_help_of_every_command() {
    let help = |words: &[&str]| {
        let mut command = posthorn(words);
        command.arg("--help").env("COLUMNS", "100");
        say(command, "").ok()
    };
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut text = String::new();
    while let Some(words) = waiting.pop() {
        let shown = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        text.push_str(&format!("$ posthorn {} --help\n{shown}\n", words.join(" ")));
        let listed = shown.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
        // What does not fit is continued further right.
        let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names = names.filter(|name| !name.is_empty() && *name != "help");
        let below: Vec<Vec<String>> = names.map(|name| [&words[..], &[name.to_owned()]].concat()).collect();
        waiting.extend(below.into_iter().rev());
    }
    unchanged("help", &text);
}

#[test]
fn what_is_random_is_left_out_and_nothing_else() {
    let text =
        "a 0199a5a0-0000-7000-8000-000000000001, re_abc_defgh, x3Fa91bZk20_QQ81-7s! k=rsa; p=Mi+/9=\" runs 12 times.";
    assert_eq!(redacted(text), "a [id], re_[…], [random]! k=rsa; p=[key]\" runs 12 times.");
    assert_eq!(redacted("\"QWMDAgoxsUPqIhHDHjqsUvdniQrdDpTYJxXqqhsYkkk\""), "\"[random]\"");
}

/// What stands between the tags of `main`: the frame around it is kept with one page.
fn main_of(html: &str) -> &str {
    let start = html.find("<main").unwrap_or_else(|| panic!("no main: {html}"));
    html[start..].split("</main>").next().expect("a front")
}

on_both! {
    async fn snapshots_of_pages_for_strangers(app: TestApp) {
        let client = app.client(json!({"client_name": "App", "redirect_uris": [CALLBACK]})).await;
        let request = ask(&app, query(&client, &[("scope", Some("emails:send"))])).await;
        let consent = format!("/dashboard/oauth/authorize/{}", request.consent());
        let pages = [
            ("welcome", "/"),
            ("login", "/dashboard/login"),
            ("setup_unknown", "/dashboard/setup/unknown"),
            ("not_found", "/dashboard/nope"),
            ("consent_signed_out", &consent),
        ];
        for (name, path) in pages {
            let html = app.get(path).send().await.text();
            unchanged(&format!("page_{name}"), &redacted(main_of(&html)));
        }
        let html = app.get("/dashboard/login").send().await.text();
        unchanged("frame_card", &redacted(&html.replace(main_of(&html), "…")));
    }

    async fn snapshots_of_pages_of_an_owner(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        for (name, path) in [("home_empty", "/"), ("automations_empty", "/automations"), ("contacts_empty", "/contacts")] {
            unchanged(&format!("page_{name}"), &redacted(main_of(&page(&app, &cookie, path).await)));
        }
        app.event(&key, json!({"name": "user.created", "schema": {"plan": "string"}})).await;
        let contact = json!({"email": "ann@example.com", "first_name": "Ann", "unsubscribed": true});
        assert_eq!(app.post("/contacts").key(&key).json(contact).send().await.status, 201);
        let sent = app.post("/events/send").key(&key).json(json!({"event": "misspelt", "email": "bob@example.com"})).send();
        assert_eq!(sent.await.status, 202);
        let mail = json!({"from": "Acme <hello@acme.example>", "to": "ann@example.com", "subject": "Hello", "html": "<p>Hi</p>",
            "text": "Hi", "tags": [{"name": "kind", "value": "hello"}], "attachments": [{"content": "aGk=", "filename": "a.txt"}]});
        let email = format!("/emails/{}", crate::emails::sent(&app, &key, mail).await);
        let client = app.client(json!({"client_name": "App", "redirect_uris": [CALLBACK]})).await;
        let request = ask(&app, query(&client, &[])).await;
        let consent = format!("/oauth/authorize/{}", request.consent());
        let domain = app.post("/domains").key(&key).json(json!({"name": "example.com"})).send().await.json();
        let domain = format!("/domains/{}", domain["id"].as_str().expect("an id"));
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro"})).await;
        let automation = format!("/automations/{}", scene.automation);
        let pages = [
            ("home", "/"),
            ("keys", "/keys"),
            ("domains", "/domains"),
            ("domain", &domain),
            ("contacts", "/contacts"),
            ("events", "/events"),
            ("automations", "/automations"),
            ("automation", &automation),
            ("automation_delete", &format!("{automation}/delete")),
            ("run", &format!("{automation}/runs/{run}")),
            ("emails", "/emails"),
            ("email", &email),
            ("apps", "/apps"),
            ("password", "/password"),
            ("consent", &consent),
        ];
        for (name, path) in pages {
            unchanged(&format!("page_{name}"), &redacted(main_of(&page(&scene.app, &cookie, path).await)));
        }
        let html = page(&scene.app, &cookie, "/").await;
        unchanged("frame_dashboard", &redacted(&html.replace(main_of(&html), "…")));
    }
}
