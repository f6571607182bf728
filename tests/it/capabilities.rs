//! What a program can do over the API, a person can do in the dashboard: each resource, what can be done with it,
//! the operations of the API that do it, and the pages and forms by which a person does.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::automation_pages::owner;
use crate::harness::{TestApp, on_both};

const ID: &str = "01890000-0000-7000-8000-000000000000";

/// What can be done, by which operations, and on which pages.
type Capability = (&'static str, &'static [&'static str], &'static [&'static str]);

/// A page that finds by words what no operation finds has no operations beside it.
const TABLE: &[(&str, &[Capability])] = &[
    (
        "email",
        &[
            ("list", &["list_emails"], &["GET /emails"]),
            ("search", &[], &["GET /emails"]),
            ("send", &["send_email"], &["GET /emails/new", "POST /emails/new"]),
            ("read", &["read_email"], &["GET /emails/{id}", "GET /emails/{id}/html", "GET /emails/{id}/source"]),
            ("reschedule", &["reschedule_email"], &["POST /emails/{id}/reschedule"]),
            ("take back", &["cancel_email"], &["GET /emails/{id}/cancel", "POST /emails/{id}/cancel"]),
            ("try again", &["retry_email"], &["POST /emails/{id}/recipients/0/retry"]),
            ("drop", &["drop_email"], &["GET /emails/{id}/recipients/0/drop", "POST /emails/{id}/recipients/0/drop"]),
            ("settle", &["mark_email_delivered"], &["POST /emails/{id}/recipients/0/mark-delivered"]),
            ("attachments", &["list_email_attachments"], &["GET /emails/{id}"]),
            ("download", &["read_email_attachment"], &["GET /emails/{id}/attachments/{attachment}"]),
            ("share", &["share_email"], &["POST /emails/{id}/share"]),
            ("numbers", &["read_email_metrics"], &["GET /deliverability"]),
        ],
    ),
    (
        "received email",
        &[
            ("list", &["list_received_emails"], &["GET /received"]),
            (
                "read",
                &["read_received_email"],
                &["GET /received/{id}", "GET /received/{id}/html", "GET /received/{id}/source"],
            ),
            ("attachments", &["list_received_email_attachments"], &["GET /received/{id}"]),
            ("download", &["read_received_email_attachment"], &["GET /received/{id}/attachments/{attachment}"]),
            ("answer", &["reply_to_received_email"], &["POST /received/{id}/reply"]),
            ("send on", &["forward_received_email"], &["GET /received/{id}/forward", "POST /received/{id}/forward"]),
        ],
    ),
    (
        "broadcast",
        &[
            ("list", &["list_broadcasts"], &["GET /broadcasts"]),
            ("create", &["create_broadcast"], &["GET /broadcasts/new", "POST /broadcasts/new"]),
            ("read", &["read_broadcast", "list_broadcast_clicked_links"], &["GET /broadcasts/{id}"]),
            ("edit", &["update_broadcast"], &["GET /broadcasts/{id}/edit", "POST /broadcasts/{id}/edit"]),
            ("delete", &["delete_broadcast"], &["GET /broadcasts/{id}/delete", "POST /broadcasts/{id}/delete"]),
            ("send", &["send_broadcast"], &["GET /broadcasts/{id}/review", "POST /broadcasts/{id}/send"]),
            ("pause", &["pause_broadcast"], &["POST /broadcasts/{id}/pause"]),
            ("resume", &["resume_broadcast"], &["POST /broadcasts/{id}/resume"]),
            ("cancel", &["cancel_broadcast"], &["GET /broadcasts/{id}/cancel", "POST /broadcasts/{id}/cancel"]),
            ("duplicate", &["duplicate_broadcast"], &["POST /broadcasts/{id}/duplicate"]),
            ("recipients", &["list_broadcast_recipients"], &["GET /broadcasts/{id}/recipients"]),
        ],
    ),
    (
        "template",
        &[
            ("list", &["list_templates"], &["GET /templates"]),
            ("create", &["create_template"], &["GET /templates/new", "POST /templates/new"]),
            ("read", &["read_template"], &["GET /templates/{id}"]),
            ("edit", &["update_template"], &["GET /templates/{id}/edit", "POST /templates/{id}/edit"]),
            ("delete", &["delete_template"], &["GET /templates/{id}/delete", "POST /templates/{id}/delete"]),
            ("preview", &["preview_template"], &["GET /templates/{id}/html"]),
            ("publish", &["publish_template"], &["GET /templates/{id}/publish", "POST /templates/{id}/publish"]),
            ("duplicate", &["duplicate_template"], &["POST /templates/{id}/duplicate"]),
            ("test", &["test_template"], &["GET /templates/{id}/test", "POST /templates/{id}/test"]),
            ("versions", &["list_template_versions", "read_template_version"], &["GET /templates/{id}"]),
        ],
    ),
    (
        "contact",
        &[
            ("list", &["list_contacts"], &["GET /contacts", "GET /contacts.csv"]),
            ("search", &[], &["GET /contacts"]),
            ("create", &["create_contact"], &["GET /contacts/new", "POST /contacts"]),
            ("read", &["read_contact"], &["GET /contacts/{contact}"]),
            ("edit", &["update_contact"], &["POST /contacts/{contact}/edit"]),
            ("delete", &["delete_contact"], &["GET /contacts/{contact}/delete", "POST /contacts/{contact}/delete"]),
            ("segments", &["list_contact_segments"], &["GET /contacts/{contact}"]),
            ("join", &["add_contact_segment"], &["POST /contacts/{contact}/segments"]),
            ("leave", &["remove_contact_segment"], &["POST /contacts/{contact}/segments/{segment_id}/remove"]),
            ("topics", &["list_contact_topics"], &["GET /contacts/{contact}"]),
            ("choose topics", &["choose_contact_topics"], &["POST /contacts/{contact}/topics"]),
            ("export", &["export_contact"], &["GET /contacts/{contact}/export"]),
            ("erase", &["erase_contact"], &["GET /contacts/{contact}/erase", "POST /contacts/{contact}/erase"]),
            ("how far an erasure is", &["read_contact_erasure"], &["GET /erasures/{id}"]),
        ],
    ),
    (
        "import of contacts",
        &[
            ("list", &["list_contact_imports"], &["GET /imports"]),
            (
                "create",
                &["create_contact_import"],
                &["POST /imports", "GET /imports/{id}/map", "POST /imports/{id}/map"],
            ),
            ("read", &["read_contact_import"], &["GET /imports/{id}"]),
        ],
    ),
    (
        "contact property",
        &[
            ("list", &["list_contact_properties", "read_contact_property"], &["GET /properties"]),
            ("create", &["create_contact_property"], &["POST /properties"]),
            ("edit", &["update_contact_property"], &["POST /properties/{id}/fallback"]),
            ("delete", &["delete_contact_property"], &["GET /properties/{id}/delete", "POST /properties/{id}/delete"]),
        ],
    ),
    (
        "segment",
        &[
            ("list", &["list_segments"], &["GET /segments"]),
            ("create", &["create_segment"], &["POST /segments", "GET /segments/new", "POST /segments/new"]),
            ("count", &["preview_segment"], &["GET /segments/new", "GET /segments/{id}/rules"]),
            ("read", &["read_segment", "list_segment_contacts"], &["GET /segments/{id}"]),
            ("edit", &["update_segment"], &["POST /segments/{id}/rename", "POST /segments/{id}/rules"]),
            ("delete", &["delete_segment"], &["GET /segments/{id}/delete", "POST /segments/{id}/delete"]),
        ],
    ),
    (
        "topic",
        &[
            ("list", &["list_topics"], &["GET /topics"]),
            ("create", &["create_topic"], &["POST /topics"]),
            ("read", &["read_topic"], &["GET /topics/{id}"]),
            ("edit", &["update_topic"], &["POST /topics/{id}"]),
            ("delete", &["delete_topic"], &["GET /topics/{id}/delete", "POST /topics/{id}/delete"]),
        ],
    ),
    (
        "form with which strangers subscribe",
        &[
            ("list", &["list_forms"], &["GET /forms"]),
            ("create", &["create_form"], &["GET /forms/new", "POST /forms/new"]),
            ("read", &["read_form"], &["GET /forms/{id}"]),
            ("edit", &["update_form"], &["POST /forms/{id}"]),
            ("delete", &["delete_form"], &["GET /forms/{id}/delete", "POST /forms/{id}/delete"]),
        ],
    ),
    (
        "suppression",
        &[
            ("list", &["list_suppressions", "read_suppression"], &["GET /suppressions"]),
            ("search", &[], &["GET /suppressions"]),
            ("create", &["create_suppression"], &["POST /suppressions"]),
            ("import", &["import_suppressions", "create_suppressions"], &["POST /suppressions/import"]),
            ("export", &["export_suppressions"], &["GET /suppressions/export"]),
            ("delete", &["delete_suppression"], &["GET /suppressions/{id}/delete", "POST /suppressions/{id}/delete"]),
        ],
    ),
    (
        "event",
        &[
            ("list", &["list_events"], &["GET /events"]),
            ("create", &["create_event"], &["GET /events/new", "POST /events/new"]),
            ("read", &["read_event"], &["GET /events/{id}"]),
            ("edit", &["update_event"], &["POST /events/{id}/schema"]),
            ("delete", &["delete_event"], &["GET /events/{id}/delete", "POST /events/{id}/delete"]),
            ("send", &["send_event"], &["GET /events/send", "POST /events/send", "POST /events/{id}/test"]),
            ("what happened", &["list_occurrences"], &["GET /events/{id}"]),
            ("one time", &["read_occurrence"], &["GET /occurrences/{id}"]),
            ("replay", &["replay_occurrence"], &["POST /occurrences/{id}/replay"]),
        ],
    ),
    (
        "automation",
        &[
            ("list", &["list_automations"], &["GET /automations"]),
            ("create", &["create_automation"], &["GET /automations/new", "POST /automations/new"]),
            ("read", &["read_automation"], &["GET /automations/{id}", "GET /automations/{id}/versions/{version}"]),
            ("edit", &["update_automation"], &["GET /automations/{id}/edit", "POST /automations/{id}/edit/publish"]),
            ("validate", &["validate_automation"], &["GET /automations/{id}/edit", "POST /automations/{id}/edit/json"]),
            ("enable", &["update_automation"], &["POST /automations/{id}/enable"]),
            ("stop", &["stop_automation"], &["POST /automations/{id}/stop"]),
            ("duplicate", &["duplicate_automation"], &["POST /automations/{id}/duplicate"]),
            ("delete", &["delete_automation"], &["GET /automations/{id}/delete", "POST /automations/{id}/delete"]),
        ],
    ),
    (
        "run",
        &[
            ("list", &["list_automation_runs"], &["GET /automations/{id}", "GET /runs"]),
            ("search", &[], &["GET /runs"]),
            ("read", &["read_automation_run"], &["GET /automations/{id}/runs/{run_id}"]),
            (
                "cancel",
                &["cancel_automation_run"],
                &["GET /automations/{id}/runs/{run_id}/cancel", "POST /automations/{id}/runs/{run_id}/cancel"],
            ),
            ("try again", &["retry_automation_run"], &["POST /automations/{id}/runs/{run_id}/retry"]),
        ],
    ),
    (
        "domain",
        &[
            ("list", &["list_domains"], &["GET /domains"]),
            ("create", &["create_domain"], &["POST /domains"]),
            ("read", &["read_domain"], &["GET /domains/{id}"]),
            ("edit", &["update_domain"], &["GET /domains/{id}/settings", "POST /domains/{id}/settings"]),
            ("verify", &["verify_domain"], &["POST /domains/{id}/verify"]),
            ("rotate keys", &["rotate_dkim_keys"], &["POST /domains/{id}/dkim-keys"]),
            ("delete", &["delete_domain"], &["GET /domains/{id}/delete", "POST /domains/{id}/delete"]),
        ],
    ),
    (
        "webhook",
        &[
            ("list", &["list_webhooks"], &["GET /webhooks"]),
            ("create", &["create_webhook"], &["GET /webhooks/new", "POST /webhooks/new"]),
            ("read", &["read_webhook", "list_webhook_events"], &["GET /webhooks/{id}"]),
            ("edit", &["update_webhook"], &["GET /webhooks/{id}/edit", "POST /webhooks/{id}/edit"]),
            ("switch", &["update_webhook"], &["POST /webhooks/{id}/enable", "POST /webhooks/{id}/disable"]),
            ("rotate", &["rotate_webhook_secret"], &["GET /webhooks/{id}/rotate", "POST /webhooks/{id}/rotate"]),
            ("delete", &["delete_webhook"], &["GET /webhooks/{id}/delete", "POST /webhooks/{id}/delete"]),
            (
                "what it was told",
                &["read_webhook_event", "list_webhook_event_attempts"],
                &["GET /webhooks/{id}/events/{event_id}"],
            ),
            ("replay", &["replay_webhook_event"], &["POST /webhooks/{id}/events/{event_id}/replay"]),
        ],
    ),
    (
        "API key",
        &[
            ("list", &["list_api_keys"], &["GET /keys"]),
            ("create", &["create_api_key"], &["POST /keys"]),
            ("rename", &["rename_api_key"], &["GET /keys/{id}/rename", "POST /keys/{id}/rename"]),
            ("delete", &["delete_api_key"], &["GET /keys/{id}/delete", "POST /keys/{id}/delete"]),
        ],
    ),
    (
        "app",
        &[
            ("list", &["list_grants"], &["GET /apps"]),
            ("consent", &["authorize"], &["GET /oauth/authorize/{id}", "POST /oauth/authorize/{id}"]),
            ("revoke", &["revoke_grant"], &["GET /apps/{id}/revoke", "POST /apps/{id}/revoke"]),
            ("register", &["register_client"], &["GET /clients", "POST /clients"]),
        ],
    ),
    (
        "workspace",
        &[
            ("read", &["read_workspace"], &["GET /settings"]),
            ("edit", &["update_workspace"], &["POST /settings"]),
            ("branding", &["read_branding", "update_branding"], &["GET /branding", "POST /branding"]),
            ("usage", &["read_usage"], &["GET /usage"]),
            ("requests", &["list_logs"], &["GET /logs"]),
            ("one request", &["read_log"], &["GET /logs/{id}"]),
        ],
    ),
];

/// What only programs do, and why no person needs it.
const MACHINES: &[(&str, &[&str])] = &[
    ("many at once: a person writes one mail, or a broadcast", &["send_emails"]),
    ("many at once: a person tries one event", &["send_events"]),
    ("many at once: a person takes one address off the list", &["delete_suppressions"]),
    (
        "segments under the name that they had: older client libraries ask so",
        &[
            "list_audiences",
            "create_audience",
            "read_audience",
            "delete_audience",
            "list_audience_contacts",
            "create_audience_contact",
            "read_audience_contact",
            "update_audience_contact",
            "delete_audience_contact",
        ],
    ),
    ("how an app comes to its tokens and gives them back", &["token", "revoke"]),
    (
        "where programs find the endpoints and the keys",
        &["authorization_server_metadata", "protected_resource_metadata", "signing_keys"],
    ),
    ("for whoever watches over the process", &["healthz", "readyz", "metrics"]),
];

/// What a list of the API can be asked for beside a page of it: the operation, its parameter, and the page that finds
/// the same, with its own.
const FILTERS: &[(&str, &str, &str)] = &[
    ("list_automation_runs", "status", "/runs?status=running"),
    ("list_automations", "status", "/automations?status=enabled"),
    ("list_broadcast_recipients", "bounce_type", "/broadcasts/{id}/recipients?bounce_type=permanent"),
    ("list_broadcast_recipients", "email", "/broadcasts/{id}/recipients?search=ada"),
    ("list_broadcast_recipients", "type", "/broadcasts/{id}/recipients?type=opened"),
    ("list_contact_imports", "status", "/imports?status=completed"),
    ("list_contacts", "segment_id", "/contacts?segment="),
    ("list_suppressions", "origin", "/suppressions?origin=bounce"),
];

fn named(lists: &[(&'static str, &'static [&'static str])]) -> Vec<&'static str> {
    lists.iter().flat_map(|(_, operations)| operations.iter().copied()).collect()
}

fn capabilities() -> impl Iterator<Item = (String, &'static Capability)> {
    TABLE.iter().flat_map(|(resource, all)| all.iter().map(move |one| (format!("{resource}: {}", one.0), one)))
}

on_both! {
    async fn every_operation_has_a_page_or_a_reason_to_have_none(app: TestApp) {
        let description = app.get("/openapi.json").send().await.json();
        let items = description["paths"].as_object().expect("paths").values();
        let operations = items.flat_map(|item| item.as_object().expect("operations").values());
        let described: BTreeSet<&str> = operations.map(|one| one["operationId"].as_str().expect("an id")).collect();

        let on_pages: BTreeSet<&str> = capabilities().flat_map(|(_, (_, operations, _))| operations.iter().copied()).collect();
        let mut known = on_pages;
        for operation in named(MACHINES) {
            assert!(known.insert(operation), "{operation} is named twice");
        }
        let new: Vec<_> = described.difference(&known).collect();
        assert!(new.is_empty(), "on which page does a person do this? {new:?}");
        let gone: Vec<_> = known.difference(&described).collect();
        assert!(gone.is_empty(), "the API has no such operations: {gone:?}");
    }

    async fn what_a_list_is_asked_for_can_be_chosen_on_its_page(app: TestApp) {
        let description = app.get("/openapi.json").send().await.json();
        let items = description["paths"].as_object().expect("paths").values();
        let operations = items.flat_map(|item| item.as_object().expect("operations").values());
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        let mut described = BTreeSet::new();
        for operation in operations.filter(|one| word(&one["operationId"]).starts_with("list_")) {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let asked = parameters.filter(|one| one["in"] == "query").map(|one| word(&one["name"]));
            let filters = asked.filter(|name| !["limit", "after", "before"].contains(&name.as_str()));
            described.extend(filters.map(|name| (word(&operation["operationId"]), name)));
        }
        let known: BTreeSet<_> = FILTERS.iter().map(|(operation, name, _)| ((*operation).to_owned(), (*name).to_owned())).collect();
        assert_eq!(described, known, "each filter of the API needs a page that has it");

        let cookie = owner(&app).await;
        for (operation, name, page) in FILTERS.iter().filter(|(_, _, page)| !page.contains('{')) {
            let (_, query) = page.split_once('?').expect("a parameter");
            let (own, _) = query.split_once('=').expect("a value");
            let answer = app.get(format!("/dashboard{page}")).header("cookie", &cookie).send().await;
            let shown = answer.text();
            assert_eq!(answer.status, 200, "{page}: {shown}");
            let is_there = shown.contains(&format!("name=\"{own}\"")) || shown.contains(&format!("?{query}\""));
            assert!(is_there, "{operation} has {name}, {page} does not: {shown}");
        }
    }

    /// A method that no page knows is refused with those that the page has.
    async fn every_page_of_the_table_is_there(app: TestApp) {
        let cookie = owner(&app).await;
        let nowhere = app.request("PUT", "/dashboard/nowhere").send().await;
        assert_ne!(nowhere.status, 405);
        for (what, (_, _, pages)) in capabilities() {
            assert!(!pages.is_empty(), "{what}");
            for page in *pages {
                let (method, path) = page.split_once(' ').expect("a method and a path");
                let parts: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { ID } else { part }).collect();
                let target = format!("/dashboard{}", parts.join("/"));
                let refused = app.request("PUT", &target).send().await;
                let allowed = refused.header("allow").unwrap_or_default().to_owned();
                assert_eq!(refused.status, 405, "{what}: {page}");
                assert!(allowed.split(',').any(|one| one.trim() == method), "{what}: {page} has {allowed}");
                // Without an id in its address it can be opened; what looks like an id may hide that it is gone.
                if method == "GET" && !path.contains('{') {
                    let answer = app.get(&target).header("cookie", &cookie).send().await;
                    assert_eq!(answer.status, 200, "{what}: {page}");
                }
            }
        }
    }
}
