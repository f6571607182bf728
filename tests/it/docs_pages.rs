//! The documentation at `/docs`, as a reader finds it. `tests/docs/run` also pastes its examples.

use posthorn::contacts::{Contact, Email};
use posthorn::id::ContactId;
use posthorn::occurrences::SystemEvent;
use serde_json::Value;

use crate::harness::{TestApp, on_both};
use crate::store::Store;

const LARGEST: usize = 100_000;

/// The resources and guides that the first page names.
async fn all_pages(app: &TestApp) -> Vec<String> {
    let home = app.get("/docs").send().await.text();
    let links = home.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut pages: Vec<String> =
        links.filter(|link| link.starts_with("/docs/") && !link.contains('#')).map(str::to_owned).collect();
    pages.sort();
    pages.dedup();
    pages
}

on_both! {
    async fn every_page_is_short_strict_and_sent_once(app: TestApp) {
        let pages = all_pages(&app).await;
        assert!(pages.len() >= 34, "{pages:?}");
        for path in &pages {
            let page = app.get(path).send().await;
            assert_eq!(page.status, 200, "{path}");
            assert!(page.body.len() < LARGEST, "{path} has {} bytes", page.body.len());
            assert_eq!(page.text().matches("<h1>").count(), 1, "{path}");
            let policy = page.header("content-security-policy").expect("a policy");
            assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            let tag = page.header("etag").expect("a tag").to_owned();
            assert_eq!(app.get(path).header("if-none-match", &tag).send().await.status, 304, "{path}");
            let packed = app.get(path).header("accept-encoding", "br").send().await;
            assert_eq!(packed.header("content-encoding"), Some("br"), "{path}");
        }
    }

    async fn a_reader_finds_by_words_with_and_without_a_script(app: TestApp) {
        let found = app.get("/docs/search?q=idempotency").send().await;
        assert_eq!(found.status, 200);
        assert!(found.text().contains("href=\"/docs/idempotency\""), "{}", found.text());
        let nothing = app.get("/docs/search?q=%3Cscript%3Ezebra").send().await.text();
        assert!(nothing.contains("Nothing was found") && !nothing.contains("<script>zebra"), "{nothing}");
        assert_eq!(app.get("/docs/search").send().await.status, 200);
        let index = app.get("/docs/search.json").send().await;
        let entries = index.json();
        let has = |path: &str| entries.as_array().expect("entries").iter().any(|entry| entry["u"] == path);
        assert!(has("/api/emails#send_email") && has("/automations#rules") && has("/webhooks"), "{entries}");
        assert!(index.body.len() < LARGEST, "the index has {} bytes", index.body.len());
    }

    async fn a_page_that_is_not_there_is_404_and_leads_on(app: TestApp) {
        for path in ["/docs/webhook", "/docs/api/nothing", "/docs/webhook.md"] {
            let page = app.get(path).send().await;
            assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")), "{path}");
        }
        assert!(app.get("/docs/webhook").send().await.text().contains("href=\"/docs/webhooks\""));
        let api = app.get("/docs/api").send().await;
        assert_eq!((api.status, api.header("location")), (308, Some("/docs#reference")));
    }

    /// Where the reference was one page, links led to an operation on it.
    async fn old_links_still_lead_to_their_operation(app: TestApp) {
        let home = app.get("/docs").send().await.text();
        let description = app.get("/openapi.json").send().await.json();
        let paths = description["paths"].as_object().expect("paths").values();
        for operation in paths.flat_map(|item| item.as_object().expect("operations").values()) {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(home.contains(&format!("<li id=\"{id}\"><a ")), "{id}");
        }
    }

    async fn guides_are_markdown_too_with_the_servers_own_address(store: Store) {
        let app = TestApp::open(&store, &["--base-url=https://host.example/mail"]).await;
        let text = app.get("/mail/docs/sending.md").send().await;
        assert_eq!(text.header("content-type"), Some("text/markdown; charset=utf-8"));
        assert!(text.text().contains("curl https://host.example/mail/emails"), "{}", text.text());
        assert!(!text.text().contains("posthorn.example"));
        let page = app.get("/mail/docs/sending").send().await.text();
        assert!(page.contains("href=\"/mail/docs/templates\"") && page.contains("/mail/assets/docs."), "{page}");
        let list = app.get("/mail/llms.txt").send().await;
        assert!(list.text().contains("(https://host.example/mail/docs/automations.md)"), "{}", list.text());
        assert!(list.text().contains("https://host.example/mail/openapi.json"));
        let reference = app.get("/mail/docs/api/emails").send().await.text();
        assert!(reference.contains("requests.post(") && reference.contains("reqwest::Client"), "{reference}");
    }

    async fn steps_and_rules_stand_in_the_reference(app: TestApp) {
        let page = app.get("/docs/api/automations").send().await.text();
        for word in ["type-AutomationStep", "type-WaitForEventStep", "type-RuleGroup", "config.event_name", "starts_with"] {
            assert!(page.contains(word), "{word}");
        }
    }
}

/// Whatever is added has to be told of.
#[test]
fn guides_name_everything_there_is() {
    let guide = |name: &str| {
        let path = format!("{}/../docs/guides/{name}.md", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("a guide")
    };
    let description = serde_json::to_value(posthorn::product::openapi("https://h.example")).expect("JSON");
    let schemas = &description["components"]["schemas"];
    let words = |value: &Value| -> Vec<String> {
        let all = value.as_array().expect("words").iter();
        all.map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    let automations = guide("automations");
    let steps = schemas["AutomationStep"]["discriminator"]["mapping"].as_object().expect("types of steps");
    for step in steps.keys() {
        assert!(automations.contains(&format!("### `{step}`")), "{step}");
    }
    for rule in ["RuleEquals", "RuleNumber", "RuleText", "RulePresence"] {
        for operator in words(&schemas[rule]["properties"]["operator"]["enum"]) {
            assert!(automations.contains(&format!("`{operator}`")), "{operator}");
        }
    }
    for way in words(&schemas["AutomationConnectionType"]["enum"]) {
        assert!(automations.contains(&format!("`{way}`")), "{way}");
    }
    let variables = automations.split("\n## ").find(|part| part.starts_with("Variables\n")).expect("a section");
    let path = schemas["Variable"]["properties"]["var"]["description"].as_str().expect("how a path begins");
    let roots: Vec<String> = path.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(roots.len(), 3, "{path}");
    let email = Email::try_from("ada@example.com".to_owned()).expect("an address");
    let contact = Contact::new(ContactId::from(uuid::Uuid::nil()), &email, 0).json();
    let fields = contact.as_object().expect("fields").keys().map(|field| format!("contact.{field}"));
    for beginning in fields.chain(roots) {
        assert!(variables.contains(&format!("`{beginning}")), "{beginning}");
    }
    let webhooks = guide("webhooks");
    for kind in words(&schemas["WebhookEventType"]["enum"]) {
        assert!(webhooks.contains(&format!("`{kind}`")), "{kind}");
    }
    let events = guide("events");
    for name in SystemEvent::ALL {
        assert!(events.contains(&format!("`{name}`")), "{name}");
    }
    let errors = guide("errors");
    let names = include_str!("../../src/error.rs").split("(S::").skip(1).filter_map(|part| part.split('"').nth(1));
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(errors.contains(&format!(" | `{name}` | ")), "{name}");
    }
}
