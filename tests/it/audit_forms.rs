//! What the audit log is told of every form of the dashboard: a table of all routes that take one, so that a new form is
//! noticed, and what each of those that need nothing rare tells when it is sent.

use std::collections::BTreeMap;

use posthorn::accounts::Role;
use serde_json::{Value, json};

use crate::automation_pages::{owner, page};
use crate::form_filling::Filled;
use crate::harness::{Answer, TestApp, on_both};

/// What a form is filled with.
type Fields = &'static [(&'static str, &'static str)];

/// Routes of forms, and what the log is told of each.
type Told = &'static [(&'static str, &'static str)];

/// The ids of what was made, by what it is.
type Made = BTreeMap<&'static str, String>;

const ID: &str = "01890000-0000-7000-8000-000000000000";

/// The page with a form, where it is sent, what is typed, and what the log is told; one after the other. `$topic` is
/// the id of the topic that was made beforehand.
const SENT: &[(&str, &str, Fields, &str)] = &[
    ("/segments", "/segments", &[("name", "Others")], "segment.created"),
    ("/segments/$segment", "/segments/$segment/rename", &[("name", "All")], "segment.renamed"),
    ("/topics", "/topics", &[("name", "Offers")], "topic.created"),
    ("/topics/$topic", "/topics/$topic", &[("name", "Letters")], "topic.changed"),
    ("/properties", "/properties", &[("key", "seats")], "property.created"),
    ("/properties", "/properties/$property/fallback", &[("fallback_value", "free")], "property.changed"),
    ("/contacts/new", "/contacts", &[("email", "bob@b.example")], "contact.added"),
    ("/contacts/$contact", "/contacts/$contact/edit", &[("first_name", "Ada")], "contact.edited"),
    ("/contacts/$contact", "/contacts/$contact/topics", &[("topic", "none")], "contact.changed"),
    ("/contacts/$contact", "/contacts/$contact/segments", &[("segment", "$segment")], "contact.changed"),
    ("/contacts/$contact", "/contacts/$contact/segments/$segment/remove", &[], "contact.changed"),
    ("/events/new", "/events/new", &[("name", "order.paid")], "event.created"),
    ("/events/$event", "/events/$event/schema", &[("key", "plan")], "event.changed"),
    ("/events/$event/test", "/events/$event/test", &[("email", "ada@b.example")], "event.sent"),
    ("/events/send?name=order.refunded", "/events/send", &[("email", "ada@b.example")], "event.sent"),
    ("/templates/new", "/templates/new", &[("name", "Welcome"), ("html", "<p>Hi</p>")], "template.created"),
    ("/templates/$template/edit", "/templates/$template/edit", &[("name", "Many thanks")], "template.changed"),
    ("/templates/$template/publish", "/templates/$template/publish", &[], "template.published"),
    ("/templates/$template", "/templates/$template/duplicate", &[], "template.duplicated"),
    (
        "/webhooks/new",
        "/webhooks/new",
        &[("endpoint", "https://example.com/"), ("event", "email.sent")],
        "webhook.created",
    ),
    (
        "/webhooks/$webhook/edit",
        "/webhooks/$webhook/edit",
        &[("endpoint", "https://example.com/other"), ("event", "email.sent")],
        "webhook.changed",
    ),
    ("/webhooks/$webhook", "/webhooks/$webhook/disable", &[], "webhook.disabled"),
    ("/webhooks/$webhook", "/webhooks/$webhook/enable", &[], "webhook.enabled"),
    ("/webhooks/$webhook/rotate", "/webhooks/$webhook/rotate", &[], "webhook.rotated"),
    ("/domains", "/domains", &[("name", "other.example")], "domain.created"),
    ("/domains/$domain/settings", "/domains/$domain/settings", &[("tls", "enforced")], "domain.changed"),
    ("/domains/$domain", "/domains/$domain/dkim-keys", &[], "domain.dkim_keys"),
    ("/keys", "/keys", &[("name", "web shop")], "key.created"),
    ("/keys/$key/rename", "/keys/$key/rename", &[("name", "shop")], "key.renamed"),
    ("/forms/new", "/forms/new", &[("name", "Footer"), ("from", "a@acme.example")], "form.created"),
    ("/forms/$form", "/forms/$form", &[("heading", "Hear from us")], "form.changed"),
    (
        "/emails/new",
        "/emails/new",
        &[("from", "a@acme.example"), ("subject", "Hello"), ("text", "Hi"), ("to", "ada@b.example")],
        "email.sent",
    ),
    (
        "/broadcasts/new",
        "/broadcasts/new",
        &[
            ("name", "Winter"),
            ("from", "a@acme.example"),
            ("subject", "Hi"),
            ("text", "Hi"),
            ("segment_id", "$segment"),
        ],
        "broadcast.created",
    ),
    ("/broadcasts/$broadcast/edit", "/broadcasts/$broadcast/edit", &[("name", "Summer")], "broadcast.changed"),
    ("/broadcasts/$broadcast", "/broadcasts/$broadcast/duplicate", &[], "broadcast.duplicated"),
    ("/suppressions", "/suppressions", &[("email", "x@x.example")], "suppression.created"),
    ("/automations/new", "/automations/new", &[("start", "empty"), ("from", "a@b.example")], "automation.created"),
    ("/automations/$automation", "/automations/$automation/duplicate", &[], "automation.duplicated"),
    ("/automations/$automation", "/automations/$automation/enable", &[], "automation.enabled"),
    ("/automations/$automation", "/automations/$automation/stop", &[], "automation.stopped"),
    (
        "/automations/$automation/edit?after=wait&way=default",
        "/automations/$automation/edit/add",
        &[("type", "delay")],
        "automation.edited",
    ),
    (
        "/automations/$automation/edit?step=delay",
        "/automations/$automation/edit/step",
        &[("duration", "2 hours")],
        "automation.edited",
    ),
    (
        "/automations/$automation/edit?step=delay",
        "/automations/$automation/edit/json",
        &[("config", "{\"duration\": \"3 hours\"}")],
        "automation.edited",
    ),
    (
        "/automations/$automation/edit?step=delay",
        "/automations/$automation/edit/move",
        &[("direction", "up")],
        "automation.edited",
    ),
    (
        "/automations/$automation/edit?step=start",
        "/automations/$automation/edit/connect",
        &[("to", "wait")],
        "automation.edited",
    ),
    (
        "/automations/$automation/edit?step=delay",
        "/automations/$automation/edit/remove",
        &[("keep", "default")],
        "automation.edited",
    ),
    (
        "/automations/$automation/edit",
        "/automations/$automation/edit/settings",
        &[("name", "Hello")],
        "automation.edited",
    ),
    ("/automations/$automation/edit", "/automations/$automation/edit/undo", &[], "automation.edited"),
    ("/automations/$automation/edit", "/automations/$automation/edit/redo", &[], "automation.edited"),
    ("/automations/$automation/edit/publish", "/automations/$automation/edit/publish", &[], "automation.published"),
    ("/branding", "/branding", &[("name", "Ada & Co")], "branding.changed"),
    ("/settings", "/settings", &[("name", "Post office")], "settings.changed"),
    (
        "/clients",
        "/clients",
        &[("name", "Shop"), ("redirect_uris", "https://shop.example/back"), ("scope", "all")],
        "client.registered",
    ),
    ("/team", "/team", &[("email", "new@example.com")], "member.invited"),
    ("/team", "/team/$member/role", &[("role", "admin")], "member.role_changed"),
    ("/team/$member/remove", "/team/$member/remove", &[], "member.removed"),
    ("/workspaces", "/workspaces/rename", &[("new_name", "Post office")], "workspace.renamed"),
    ("/broadcasts/$broadcast/delete", "/broadcasts/$broadcast/delete", &[], "broadcast.deleted"),
    ("/automations/$automation/delete", "/automations/$automation/delete", &[], "automation.deleted"),
    ("/segments/$segment/delete", "/segments/$segment/delete", &[], "segment.deleted"),
    ("/topics/$topic/delete", "/topics/$topic/delete", &[], "topic.deleted"),
    ("/properties/$property/delete", "/properties/$property/delete", &[], "property.deleted"),
    ("/contacts/$contact/delete", "/contacts/$contact/delete", &[], "contact.deleted"),
    ("/events/$event/delete", "/events/$event/delete", &[], "event.deleted"),
    ("/templates/$template/delete", "/templates/$template/delete", &[], "template.deleted"),
    ("/webhooks/$webhook/delete", "/webhooks/$webhook/delete", &[], "webhook.deleted"),
    ("/forms/$form/delete", "/forms/$form/delete", &[], "form.deleted"),
    ("/keys/$key/delete", "/keys/$key/delete", &[], "key.deleted"),
    ("/domains/$domain/delete", "/domains/$domain/delete", &[], "domain.deleted"),
    ("/suppressions/$suppression/delete", "/suppressions/$suppression/delete", &[], "suppression.deleted"),
];

/// Forms that need more than stands here, by the file that sends them and looks what the log is told.
const ELSEWHERE: &[(&str, &str, Told)] = &[
    (
        "account_pages.rs",
        include_str!("account_pages.rs"),
        &[
            ("/account/second-factor", "second_factor.added"),
            ("/account/second-factor/remove", "second_factor.removed"),
            ("/clients/{id}/delete", "client.deleted"),
            ("/clients/{id}/verify", "client.verified"),
            ("/login/code", "session.started"),
        ],
    ),
    (
        "audience_pages.rs",
        include_str!("audience_pages.rs"),
        &[
            ("/imports", "import.uploaded"),
            ("/imports/{id}/map", "import.created"),
            ("/segments/new", "segment.created"),
            ("/segments/{id}/rules", "segment.changed"),
        ],
    ),
    (
        "automation_editor.rs",
        include_str!("automation_editor.rs"),
        &[
            ("/automations/{id}/edit/discard", "draft.discarded"),
            ("/automations/{id}/versions/{version}/restore", "automation.published"),
        ],
    ),
    (
        "automation_pages.rs",
        include_str!("automation_pages.rs"),
        &[
            ("/automations/{id}/runs/{run_id}/cancel", "run.canceled"),
            ("/automations/{id}/runs/{run_id}/retry", "run.retried"),
        ],
    ),
    ("decisions.rs", include_str!("decisions.rs"), &[("/oauth/authorize/{id}", "app.approved")]),
    ("domains.rs", include_str!("domains.rs"), &[("/domains/{id}/verify", "domain.verified")]),
    ("erasing.rs", include_str!("erasing.rs"), &[("/contacts/{contact}/erase", "contact.erased")]),
    ("form_twice.rs", include_str!("form_twice.rs"), &[("/occurrences/{id}/replay", "occurrence.replayed")]),
    ("logins.rs", include_str!("logins.rs"), &[("/login", "session.started")]),
    (
        "mail_decisions.rs",
        include_str!("mail_decisions.rs"),
        &[("/emails/{id}/recipients/{number}/{decision}", "email.dropped")],
    ),
    (
        "mail_pages.rs",
        include_str!("mail_pages.rs"),
        &[
            ("/broadcasts/{id}/send", "broadcast.sent"),
            ("/broadcasts/{id}/test", "broadcast.tested"),
            ("/broadcasts/{id}/{act}", "broadcast.canceled"),
            ("/emails/{id}/cancel", "email.canceled"),
            ("/emails/{id}/reschedule", "email.rescheduled"),
            ("/suppressions/import", "suppression.imported"),
            ("/templates/{id}/test", "email.sent"),
            ("/webhooks/{id}/events/{event_id}/replay", "event.replayed"),
        ],
    ),
    (
        "passkeys.rs",
        include_str!("passkeys.rs"),
        &[
            ("/account/second-factor/passkeys", "passkey.added"),
            ("/account/second-factor/passkeys/remove", "passkey.removed"),
        ],
    ),
    (
        "receiving.rs",
        include_str!("receiving.rs"),
        &[("/received/{id}/forward", "email.forwarded"), ("/received/{id}/reply", "email.answered")],
    ),
    ("setup.rs", include_str!("setup.rs"), &[("/setup/{token}", "workspace.created")]),
    (
        "step_templates.rs",
        include_str!("step_templates.rs"),
        &[
            ("/automations/{id}/runs/{run_id}/messages/{message_id}/drop", "message.dropped"),
            ("/automations/{id}/runs/{run_id}/messages/{message_id}/send", "message.sent"),
        ],
    ),
    (
        "team.rs",
        include_str!("team.rs"),
        &[
            ("/account/sessions/end", "session.ended"),
            ("/account/sessions/end-others", "session.others_ended"),
            ("/invitation/{token}", "member.joined"),
            ("/reset/{token}", "password.reset"),
            ("/team/invitations/{id}/renew", "invitation.renewed"),
            ("/team/invitations/{id}/withdraw", "invitation.withdrawn"),
            ("/team/leave", "member.left"),
            ("/team/{id}/transfer", "workspace.transferred"),
            ("/workspaces", "workspace.created"),
        ],
    ),
    (
        "webhooks_ended.rs",
        include_str!("webhooks_ended.rs"),
        &[("/apps/{id}/revoke", "grant.revoked"), ("/password", "password.changed")],
    ),
];

/// Why the log is told nothing of a form; and the form, as above.
const UNTOLD: &[(&str, &str, &str, Fields)] = &[
    ("leads somewhere, and changes nothing", "/keys", "/workspace", &[("workspace", "$workspace")]),
    (
        "makes a link that says all by itself: nothing is kept of it",
        "/emails/$email",
        "/emails/$email/share",
        &[("expires_in", "2 hours")],
    ),
    (
        "asks for a letter, and says nothing of who has an account",
        "/forgot",
        "/forgot",
        &[("email", "owner@example.com")],
    ),
    ("counts for nothing until it is confirmed", "/account/second-factor", "/account/second-factor/begin", &[]),
    ("ends only the session that sends it", "/keys", "/logout", &[]),
];

/// The routes of pages that take a form, from the router itself.
async fn forms(app: &TestApp) -> Vec<String> {
    let mut found = Vec::new();
    for path in app.app.page_paths() {
        let place: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { ID } else { part }).collect();
        let place = format!("/dashboard/w/{}{}", app.workspace().await, place.join("/"));
        let answer = app.request("PUT", place).send_once().await;
        assert_eq!(answer.status, 405, "{path}");
        if answer.header("allow").is_some_and(|allowed| allowed.contains("POST")) {
            found.push(path);
        }
    }
    found
}

/// The route that takes what is sent to a place: the one with the fewest parameters.
fn route_of<'a>(routes: &'a [String], place: &str) -> Option<&'a str> {
    let fits = |route: &&String| {
        let (parts, given) = (route.split('/'), place.split('/'));
        route.split('/').count() == place.split('/').count()
            && parts.zip(given).all(|(part, given)| part == given || part.starts_with('{'))
    };
    routes.iter().filter(fits).min_by_key(|route| route.matches('{').count()).map(String::as_str)
}

/// Opens a page and sends a form on it with what is typed.
async fn send(app: &TestApp, cookie: &str, made: &Made, (at, action, typed): (&str, &str, Fields)) -> Answer {
    // Backwards: of two that begin alike the longer one comes first.
    let filled =
        |text: &str| made.iter().rev().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("${name}"), id));
    let shown = page(app, cookie, &filled(at)).await;
    let form = Filled::of(&shown, &filled(action));
    typed.iter().fold(form, |form, (name, value)| form.with(&filled(name), &filled(value))).send(app, cookie).await
}

/// One of everything, made by a program.
async fn one_of_each(app: &TestApp) -> Made {
    let key = app.full_key().await;
    let mut made = Made::new();
    let step = |key: &str, kind: &str, config: Value| json!({"key": key, "type": kind, "config": config});
    let steps = [
        step("start", "trigger", json!({"event_name": "user.created"})),
        step("wait", "delay", json!({"duration": "1 hour"})),
    ];
    let mail = json!({"from": "a@b.example", "to": "ada@b.example", "subject": "Hi", "html": "<p>Hi</p>"});
    for (name, path, mut body) in [
        ("segment", "/segments", json!({"name": "Readers"})),
        ("topic", "/topics", json!({"name": "News", "default_subscription": "opt_in"})),
        ("property", "/contact-properties", json!({"key": "plan", "type": "string"})),
        ("contact", "/contacts", json!({"email": "ada@b.example"})),
        ("event", "/events", json!({"name": "user.created"})),
        ("template", "/templates", json!({"name": "Thanks", "subject": "Hi", "html": "<p>Hi</p>"})),
        ("webhook", "/webhooks", json!({"endpoint": "https://example.com/hook", "events": ["email.sent"]})),
        ("key", "/api-keys", json!({"name": "another"})),
        ("form", "/forms", json!({"name": "Side", "from": "a@b.example"})),
        ("suppression", "/suppressions", json!({"email": "gone@x.example"})),
        ("email", "/emails", mail),
        ("broadcast", "/broadcasts", json!({"name": "Spring", "from": "a@b.example", "subject": "Hi"})),
        ("domain", "/domains", json!({"name": "acme.example"})),
        (
            "automation",
            "/automations",
            json!({"name": "Welcome", "steps": steps, "connections": [{"from": "start", "to": "wait"}]}),
        ),
    ] {
        if name == "broadcast" {
            body["segment_id"] = json!(made["segment"]);
            body["html"] = json!("<p>Hi</p><a href=\"{{{UNSUBSCRIBE_URL}}}\">no more</a>");
        }
        let answer = app.post(path).key(&key).json(body).send().await;
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
        made.insert(name, answer.json()["id"].as_str().expect("an id").to_owned());
    }
    app.store.run("UPDATE dkim_keys SET seen_at = 1").await;
    made.insert("member", app.person("member@example.com", Role::Member).await.id.to_string());
    made.insert("workspace", app.workspace().await.to_string());
    made
}

on_both! {
    /// A form that is added later is noticed here: what is the log told of it, or why nothing?
    async fn every_form_of_a_page_is_told_or_has_a_reason_not_to_be(app: TestApp) {
        owner(&app).await;
        let routes = forms(&app).await;
        let sent = SENT.iter().map(|(_, action, ..)| *action).chain(UNTOLD.iter().map(|(_, _, action, _)| *action));
        let sent = sent.map(|action| route_of(&routes, action).unwrap_or_else(|| panic!("{action}")));
        let elsewhere = ELSEWHERE.iter().flat_map(|(.., forms)| forms.iter().map(|(route, _)| *route));
        let mut known: Vec<&str> = sent.chain(elsewhere).collect();
        known.sort_unstable();
        let twice: Vec<_> = known.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert!(twice.is_empty(), "{twice:?} are named twice");
        let unknown: Vec<_> = routes.iter().filter(|route| !known.contains(&route.as_str())).collect();
        assert!(unknown.is_empty(), "what is the log told of {unknown:?}?");
        let gone: Vec<_> = known.iter().filter(|one| !routes.iter().any(|route| route == *one)).collect();
        assert!(gone.is_empty(), "no page has the forms {gone:?}");
        for (file, source, forms) in ELSEWHERE {
            for (route, told) in *forms {
                assert!(source.contains(told), "{file} does not look for the {told} of {route}");
            }
        }
    }

    async fn a_form_of_which_nothing_is_told_tells_nothing(app: TestApp) {
        let cookie = owner(&app).await;
        let made = one_of_each(&app).await;
        let second = send(&app, &cookie, &made, ("/workspaces", "/workspaces", &[("name", "Second")])).await;
        assert_eq!(second.status, 303, "{}", second.text());
        let before = app.told().await;
        // Who sends no mail offers no way to a new password.
        let mailing = TestApp::open(&app.store, &["--transport=direct"]).await;
        for (why, at, action, typed) in UNTOLD {
            let answer = send(&mailing, &cookie, &made, (at, action, *typed)).await;
            assert!([200, 303].contains(&answer.status), "{action}: {}", answer.text());
            assert_eq!(app.told().await, before, "{action} {why}");
        }
    }

    async fn t37_a_form_tells_the_log_once_what_it_did(app: TestApp) {
        let cookie = owner(&app).await;
        let made = one_of_each(&app).await;
        let mut wrong = Vec::new();
        for (at, action, typed, told) in SENT {
            let before = app.count("audit_log").await;
            let answer = send(&app, &cookie, &made, (at, action, *typed)).await;
            let lines = app.count("audit_log").await - before;
            let row = app.store.rows("SELECT action, actor, via FROM audit_log ORDER BY id DESC LIMIT 1").await;
            let newest: Vec<&str> = row[0].iter().map(|field| field.as_deref().unwrap_or_default()).collect();
            let is_right = lines == 1 && newest == [*told, "owner@example.com", "session"];
            if !is_right || ![200, 303].contains(&answer.status) {
                wrong.push(format!("{action}: {} with {lines} lines, the newest {newest:?}", answer.status));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
