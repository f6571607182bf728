//! Pages show what they are about as code, too: with this server's address and the real ids and names.

use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::graphs::{automation, body, delay, link};
use crate::harness::{BASE, TestApp, on_both};
use crate::templates::{order_with, published};

const LARGEST: usize = 60_000;

/// What a page offers to copy, as it stands in its HTML.
async fn code(app: &TestApp, cookie: &str, path: &str) -> String {
    let whole = page(app, cookie, path).await;
    assert!(whole.len() < LARGEST, "{path} has {} bytes", whole.len());
    let code = whole.split("<summary>Copy as code</summary>").nth(1).unwrap_or_else(|| panic!("{path}: {whole}"));
    assert_in_every_language(path, code);
    code.to_owned()
}

fn assert_in_every_language(path: &str, code: &str) {
    for language in ["curl", "Node", "Python", "Rust", "Command line"] {
        assert_eq!(code.matches(&format!("<summary>{language}</summary>")).count(), 1, "{path}: {language}: {code}");
    }
    assert!(code.matches(" data-copy hidden>").count() >= 5 && code.contains("Bearer $POSTHORN_KEY"), "{path}: {code}");
    assert!(code.contains("<code>posthorn api ") && code.contains(&format!(" --url {BASE}")), "{path}: {code}");
}

on_both! {
    async fn pages_offer_code_with_the_real_address_and_ids(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let welcome = automation(&app, &key, body("Welcome")).await;
        let shown = code(&app, &cookie, &format!("/automations/{welcome}")).await;
        assert!(shown.contains(&format!("curl {BASE}/events/send \\")) && shown.contains("&#34;user.created&#34;"), "{shown}");

        let system = json!({"key": "start", "type": "trigger", "config": {"event_name": "svc:contact.created"}});
        let graph = json!({"name": "Greet", "steps": [system, delay("wait")], "connections": [link("start", "wait")]});
        let greet = automation(&app, &key, graph).await;
        let shown = code(&app, &cookie, &format!("/automations/{greet}")).await;
        assert!(shown.contains(&format!("curl {BASE}/automations/{greet}")) && !shown.contains("/events/send"), "{shown}");

        let made = app.post("/contacts").key(&key).json(json!({"email": "ada@example.com"})).send().await.json();
        let contact = made["id"].as_str().expect("an id");
        let shown = code(&app, &cookie, &format!("/contacts/{contact}")).await;
        assert!(shown.contains(&format!("requests.get(\n    &#34;{BASE}/contacts/{contact}&#34;")), "{shown}");
        assert!(shown.contains(&format!("posthorn api GET /contacts/{contact} --url {BASE}<")), "{shown}");

        let template = published(&app, &key, order_with(json!({}))).await;
        let shown = code(&app, &cookie, &format!("/templates/{template}")).await;
        assert!(shown.contains(&format!("curl {BASE}/emails \\")) && shown.contains("&#34;id&#34;: &#34;order&#34;"), "{shown}");
        assert!(shown.contains("ORDER_ID") && shown.contains("posthorn api POST /emails"), "{shown}");

        let shown = code(&app, &cookie, "/emails/new").await;
        assert!(shown.contains(&format!("fetch(&#34;{BASE}/emails&#34;")), "{shown}");
        assert!(shown.contains("--body &#39;{&#34;from&#34;:&#34;you@example.com&#34;,&#34;to&#34;:&#34;owner@example.com&#34;"), "{shown}");
    }

    async fn examples_of_empty_pages_are_in_every_language(app: TestApp) {
        let cookie = owner(&app).await;
        for (path, called, body) in [
            ("/", "/emails", "{&#34;from&#34;:&#34;you@example.com&#34;,"),
            ("/events", "/events", "{&#34;name&#34;:&#34;order.placed&#34;,"),
            ("/contacts", "/contacts", "{&#34;email&#34;:&#34;ada@example.com&#34;,"),
            ("/automations", "/automations", "{&#34;name&#34;:&#34;Welcome&#34;,"),
        ] {
            let whole = page(&app, &cookie, path).await;
            assert_in_every_language(path, &whole);
            let command = format!("posthorn api POST {called} --url {BASE} \\\n  --body &#39;{body}");
            assert!(whole.contains(&command), "{path}: {whole}");
        }
        let welcome = app.get("/").send().await.text();
        assert_in_every_language("/", &welcome);
    }

    async fn whatever_a_name_holds_stays_text(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let event = app.event(&key, json!({"name": "<b>it's</b> & \"so\"", "schema": {"total": "number"}})).await;
        let shown = code(&app, &cookie, &format!("/events/{event}")).await;
        assert!(!shown.contains("<b>"), "{shown}");
        // First for JSON, then for the shell, then for HTML.
        assert!(shown.contains(r"&#60;b&#62;it&#39;\&#39;&#39;s&#60;/b&#62; &#38; \&#34;so\&#34;"), "{shown}");
        assert!(shown.contains("{&#34;total&#34;: 1}"), "{shown}");
    }
}
