//! `/templates`: drafts, publishing, versions, previews, and mail that is made of them.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::emails::{post, shown};
use crate::harness::{Answer, TestApp, on_both};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

/// A template of an order that can be sent once it is published.
pub fn order() -> Value {
    json!({
        "name": "Order", "alias": "order", "from": "Shop <shop@acme.example>", "subject": "Order {{{ORDER_ID}}}",
        "reply_to": "help@acme.example", "html": "<p>Hi {{{NAME|friend}}},\nyour order {{ORDER_ID}}.</p>",
        "variables": [{"key": "ORDER_ID", "type": "string"}, {"key": "COUNT", "type": "number", "fallback_value": 1}],
    })
}

/// The same with other fields; null takes one away.
pub fn order_with(more: Value) -> Value {
    let mut template = order();
    for (name, value) in more.as_object().expect("fields") {
        template[name] = value.clone();
    }
    template
}

pub async fn make(app: &TestApp, key: &str, body: Value) -> String {
    let answer = app.post("/templates").key(key).json(body).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.json(), json!({"object": "template", "id": id}));
    id
}

pub async fn publish(app: &TestApp, key: &str, named: &str, body: Value) -> Answer {
    app.post(format!("/templates/{named}/publish")).key(key).json(body).send().await
}

/// A template that is published.
pub async fn published(app: &TestApp, key: &str, body: Value) -> String {
    let id = make(app, key, body).await;
    let answer = publish(app, key, &id, json!({})).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"object": "template", "id": id})));
    id
}

async fn get(app: &TestApp, key: &str, path: &str) -> Value {
    let answer = app.get(path).key(key).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn patch(app: &TestApp, key: &str, named: &str, body: Value) -> Answer {
    app.patch(format!("/templates/{named}")).key(key).json(body).send().await
}

on_both! {
    async fn a_template_is_made_read_by_id_or_alias_changed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let id = make(&app, &key, order()).await;
        let read = get(&app, &key, "/templates/order").await;
        assert_eq!(read, get(&app, &key, &format!("/templates/{id}")).await);
        let now = "2026-01-02T03:04:05.678901Z";
        let version = read["current_version_id"].clone();
        assert_eq!(read, json!({
            "object": "template", "id": id, "name": "Order", "alias": "order", "status": "draft", "published_at": null,
            "created_at": now, "updated_at": now, "subject": "Order {{{ORDER_ID}}}", "from": "Shop <shop@acme.example>",
            "reply_to": ["help@acme.example"], "html": order()["html"], "text": null,
            "variables": [
                {"key": "ORDER_ID", "type": "string", "fallback_value": null, "created_at": now, "updated_at": now},
                {"key": "COUNT", "type": "number", "fallback_value": 1, "created_at": now, "updated_at": now},
            ],
            "current_version_id": version, "published_version_id": null, "has_unpublished_versions": true,
        }));
        let change = json!({"name": "Orders", "alias": "orders", "reply_to": null, "text": "Order {{ORDER_ID}}"});
        let changed = patch(&app, &key, "order", change).await;
        assert_eq!((changed.status, changed.json()), (200, json!({"object": "template", "id": id})));
        let read = get(&app, &key, "/templates/orders").await;
        assert_eq!((&read["name"], &read["reply_to"], &read["text"]), (&json!("Orders"), &Value::Null, &json!("Order {{ORDER_ID}}")));
        assert_eq!(read["html"], order()["html"], "the rest stays");
        assert_eq!(read["current_version_id"], version, "a draft is changed in its place");
        let list = get(&app, &key, "/templates").await;
        assert_eq!(list["data"], json!([{"id": id, "name": "Orders", "alias": "orders", "status": "draft",
            "published_at": null, "created_at": now, "updated_at": now}]));

        let gone = app.delete("/templates/orders").key(&key).send().await;
        assert_eq!(gone.json(), json!({"object": "template", "id": id, "deleted": true}));
        assert_eq!(app.count("template_versions").await, 0);
        for named in [&id, "orders", NOBODY, "%00"] {
            app.get(format!("/templates/{named}")).key(&key).send().await.refused(404, "not_found");
            patch(&app, &key, named, json!({"name": "x"})).await.refused(404, "not_found");
            publish(&app, &key, named, json!({})).await.refused(404, "not_found");
            app.delete(format!("/templates/{named}")).key(&key).send().await.refused(404, "not_found");
        }
        let body = json!({"to": "ada@example.com", "template": {"id": "\0orders"}});
        app.post("/emails").key(&key).json(body).send().await.refused(404, "not_found");
    }

    async fn only_what_was_published_is_sent_and_it_never_changes(app: TestApp) {
        let key = app.full_key().await;
        let mail = || json!({"to": "ada@example.com", "template": {"id": "order", "variables": {"ORDER_ID": "A-1"}}});
        post(&app, &key, mail()).await.refused(404, "not_found");
        make(&app, &key, order()).await;
        let refused = post(&app, &key, mail()).await;
        refused.refused(422, "validation_error");
        assert!(refused.text().contains("is a draft"), "{}", refused.text());

        assert_eq!(publish(&app, &key, "order", json!({})).await.status, 200);
        let first = get(&app, &key, "/templates/order").await;
        assert_eq!((&first["status"], &first["has_unpublished_versions"]), (&json!("published"), &json!(false)));
        assert_eq!(first["published_version_id"], first["current_version_id"]);
        let id = post(&app, &key, mail()).await.json()["id"].as_str().expect("an id").to_owned();
        let email = shown(&app, &key, &id).await;
        assert_eq!(
            (&email["subject"], &email["from"], &email["html"], &email["reply_to"]),
            (&json!("Order A-1"), &json!("Shop <shop@acme.example>"), &json!("<p>Hi friend,\nyour order A-1.</p>"),
             &json!(["help@acme.example"])),
        );

        assert_eq!(patch(&app, &key, "order", json!({"html": "<p>New</p>"})).await.status, 200);
        let draft = get(&app, &key, "/templates/order").await;
        assert_eq!((&draft["html"], &draft["has_unpublished_versions"]), (&json!("<p>New</p>"), &json!(true)));
        assert_ne!(draft["current_version_id"], first["current_version_id"]);
        assert_eq!(draft["published_version_id"], first["current_version_id"]);
        let id = post(&app, &key, mail()).await.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!(shown(&app, &key, &id).await["html"], email["html"], "the draft is not sent");

        assert_eq!(publish(&app, &key, "order", json!({})).await.status, 200);
        let id = post(&app, &key, mail()).await.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!(shown(&app, &key, &id).await["html"], "<p>New</p>");
        let back = publish(&app, &key, "order", json!({"version_id": first["current_version_id"]})).await;
        assert_eq!(back.status, 200, "{}", back.text());
        let id = post(&app, &key, mail()).await.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!(shown(&app, &key, &id).await["html"], email["html"], "an older version is published again");
        let again = get(&app, &key, "/templates/order").await;
        assert_eq!((&again["html"], &again["has_unpublished_versions"]), (&order()["html"], &json!(false)));
        publish(&app, &key, "order", json!({"version_id": NOBODY})).await.refused(404, "not_found");
    }

    async fn versions_are_listed_read_and_compared(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        patch(&app, &key, "order", json!({"subject": "New", "html": "<p>Hi {{{NAME|friend}}},\nthank you.</p>"})).await;
        let list = get(&app, &key, "/templates/order/versions").await;
        let versions = list["data"].as_array().expect("a list");
        let marks: Vec<_> = versions.iter().map(|one| (&one["is_current"], &one["is_published"], &one["subject"])).collect();
        assert_eq!(marks, [
            (&json!(true), &json!(false), &json!("New")), (&json!(false), &json!(true), &json!("Order {{{ORDER_ID}}}")),
        ]);
        let (new, old) = (versions[0]["id"].as_str().expect("an id"), versions[1]["id"].as_str().expect("an id"));
        let read = get(&app, &key, &format!("/templates/order/versions/{old}")).await;
        assert_eq!((&read["object"], &read["html"], &read["changes"]), (&json!("template_version"), &order()["html"], &Value::Null));
        let compared = get(&app, &key, &format!("/templates/order/versions/{new}?against={old}")).await;
        assert_eq!(compared["changes"], json!([
            {"field": "subject", "diff": "-Order {{{ORDER_ID}}}\n+New\n"},
            {"field": "html", "diff": " <p>Hi {{{NAME|friend}}},\n-your order {{ORDER_ID}}.</p>\n+thank you.</p>\n"},
        ]));
        let same = get(&app, &key, &format!("/templates/order/versions/{new}?against={new}")).await;
        assert_eq!(same["changes"], json!([]));
        for path in [format!("/templates/order/versions/{NOBODY}"), format!("/templates/order/versions/{new}?against={NOBODY}")] {
            app.get(path).key(&key).send().await.refused(404, "not_found");
        }
        app.get("/templates/order/versions/x").key(&key).send().await.refused(422, "invalid_parameter");
    }

    async fn a_copy_is_a_draft_without_an_alias(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        let answer = app.post("/templates/order/duplicate").key(&key).send().await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let copy = get(&app, &key, &format!("/templates/{}", answer.json()["id"].as_str().expect("an id"))).await;
        assert_eq!((&copy["name"], &copy["alias"], &copy["status"]), (&json!("Order (copy)"), &Value::Null, &json!("draft")));
        assert_eq!((&copy["html"], &copy["subject"]), (&order()["html"], &order()["subject"]));
    }

    async fn an_alias_is_one_templates_alone(app: TestApp) {
        let (key, other) = (app.full_key().await, app.second_workspace_key().await);
        make(&app, &key, order()).await;
        app.post("/templates").key(&key).json(order()).send().await.refused(409, "validation_error");
        let second = make(&app, &key, order_with(json!({"alias": "second"}))).await;
        patch(&app, &key, &second, json!({"alias": "order"})).await.refused(409, "validation_error");
        make(&app, &other, order()).await;
        patch(&app, &key, "order", json!({"alias": null})).await;
        assert_eq!(patch(&app, &key, &second, json!({"alias": "order"})).await.status, 200);
    }

    async fn what_breaks_a_rule_is_422_and_names_field_and_line(app: TestApp) {
        let key = app.full_key().await;
        for (change, words) in [
            (json!({"html": "<p>\n{{{NAME}}</p>"}), vec!["`html`", "line 2", "`}}}`"]),
            (json!({"html": "{% for x in y %}"}), vec!["`html`", "line 1"]),
            (json!({"html": "{{ 'a' * 1000000000 }}"}), vec!["`html`", "line 1", "`times`"]),
            (json!({"html": "{% for i in range(1000000) %}x{% endfor %}"}), vec!["`html`", "no functions"]),
            (json!({"html": "x".repeat((512 << 10) + 1)}), vec!["`html`", "512 KiB"]),
            (json!({"subject": "{{ x | nope }}"}), vec!["`subject`", "no filter `nope`"]),
            (json!({"text": "{{"}), vec!["`text`", "line 1"]),
            (json!({"variables": [{"key": "FIRST_NAME", "type": "string"}]}), vec!["`variables[0]`", "reserved"]),
            (json!({"variables": [{"key": "A", "type": "number", "fallback_value": "x"}]}), vec!["`variables[0]`", "must be a number"]),
            (json!({"variables": vec![json!({"key": "A", "type": "string"}); 51]}), vec!["`variables`", "at most 50"]),
            (json!({"from": "nobody"}), vec!["`from`"]),
            (json!({"alias": NOBODY}), vec!["`alias`", "not look like an id"]),
        ] {
            let made = app.post("/templates").key(&key).json(order_with(change.clone())).send().await;
            made.refused(422, "validation_error");
            assert!(words.iter().all(|word| made.text().contains(word)), "{words:?}: {}", made.text());
        }
        for missing in ["name", "html"] {
            let refused = app.post("/templates").key(&key).json(order_with(json!({missing: null}))).send().await;
            refused.refused(422, "missing_required_field");
        }
        app.post("/templates").key(&key).json(order_with(json!({"html": "x".repeat(10 << 20)}))).send().await.refused(413, "validation_error");
        make(&app, &key, order()).await;
        patch(&app, &key, "order", json!({"html": "{{{"})).await.refused(422, "validation_error");
    }

    async fn what_a_mail_says_goes_before_what_its_template_says(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        let body = json!({"to": "ada@example.com", "from": "me@acme.example", "subject": "Mine", "reply_to": ["r@acme.example"],
            "template": {"id": "order", "variables": {"ORDER_ID": "<1>", "NAME": null}}});
        let id = post(&app, &key, body).await.json()["id"].as_str().expect("an id").to_owned();
        let email = shown(&app, &key, &id).await;
        assert_eq!((&email["subject"], &email["from"], &email["reply_to"]), (&json!("Mine"), &json!("me@acme.example"), &json!(["r@acme.example"])));
        assert_eq!(email["html"], "<p>Hi friend,\nyour order &lt;1&gt;.</p>");
    }

    async fn values_that_do_not_fit_are_422_and_named(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        published(&app, &key, json!({"name": "Bare", "alias": "bare", "html": "{{ X }}"})).await;
        for (more, name, words) in [
            (json!({"template": {"id": "order"}}), "validation_error", vec!["`ORDER_ID`"]),
            (json!({"template": {"id": "order", "variables": {"ORDER_ID": 5}}}), "validation_error", vec!["`variables.ORDER_ID`", "must be a string"]),
            (json!({"template": {"id": "order", "variables": {"ORDER_ID": "x".repeat(2001)}}}), "validation_error", vec!["2000"]),
            (json!({"template": {"id": "order", "variables": {"ORDER_ID": "1", "COUNT": "2"}}}), "validation_error", vec!["`variables.COUNT`", "a number"]),
            (json!({"template": {"id": "order", "variables": []}}), "validation_error", vec!["`template.variables`"]),
            (json!({"template": "order"}), "validation_error", vec!["`template`", "an object"]),
            (json!({"template": {"id": 5}}), "validation_error", vec!["`template.id`"]),
            (json!({"template": {}}), "missing_required_field", vec!["`template.id`"]),
            (json!({"template": {"id": "order", "variables": {"ORDER_ID": "1"}}, "html": "x"}), "validation_error", vec!["`html`"]),
            (json!({"template": {"id": "bare", "variables": {"X": "1"}}}), "missing_required_field", vec!["`from`"]),
            (json!({"template": {"id": "bare", "variables": {"X": "1"}}, "from": "a@acme.example"}), "missing_required_field", vec!["`subject`"]),
            (json!({"template": {"id": "bare"}, "from": "a@acme.example", "subject": "S"}), "validation_error", vec!["`X`"]),
        ] {
            let mut body = json!({"to": "ada@example.com"});
            body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
            let refused = post(&app, &key, body.clone()).await;
            refused.refused(422, name);
            assert!(words.iter().all(|word| refused.text().contains(word)), "{body}: {}", refused.text());
        }
        assert_eq!(app.count("emails").await, 0);
    }

    async fn a_batch_holds_mails_with_and_without_templates(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        let templated = |variables: Value| json!({"to": "ada@example.com", "template": {"id": "order", "variables": variables}});
        let plain = json!({"to": "b@example.com", "from": "a@acme.example", "subject": "S", "text": "T"});
        let many = json!([templated(json!({"ORDER_ID": "1"})), plain, templated(json!({}))]);
        let refused = app.post("/emails/batch").key(&key).json(many.clone()).send().await;
        refused.refused(422, "validation_error");
        assert!(refused.text().contains("Email 2: ") && refused.text().contains("`ORDER_ID`"), "{}", refused.text());
        assert_eq!(app.count("emails").await, 0);
        let taken = app.post("/emails/batch").key(&key).header("x-batch-validation", "permissive").json(many).send().await;
        assert_eq!(taken.status, 200, "{}", taken.text());
        assert_eq!(taken.json()["data"].as_array().expect("ids").len(), 2);
        assert_eq!(taken.json()["errors"][0]["index"], 2);
    }

    async fn a_repeat_gets_the_same_answer_also_when_the_template_is_gone(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        let body = json!({"to": "ada@example.com", "template": {"id": "order", "variables": {"ORDER_ID": "1"}}});
        let send = || app.post("/emails").key(&key).header("idempotency-key", "k").json(body.clone()).send();
        let first = send().await;
        assert_eq!(first.status, 200, "{}", first.text());
        assert_eq!(app.delete("/templates/order").key(&key).send().await.status, 200);
        assert_eq!(send().await.json(), first.json());
        assert_eq!(app.count("emails").await, 1);
    }

    async fn a_preview_shows_samples_and_names_what_is_missing(app: TestApp) {
        let key = app.full_key().await;
        make(&app, &key, order()).await;
        let preview = async |body: Value| app.post("/templates/order/preview").key(&key).json(body).send().await;
        let shown = preview(json!({})).await.json();
        assert_eq!((&shown["object"], &shown["subject"]), (&json!("template_preview"), &json!("Order [ORDER_ID]")));
        assert_eq!(shown["missing"], json!(["ORDER_ID", "NAME"]));
        let given = preview(json!({"variables": {"ORDER_ID": "7", "NAME": "Bob"}})).await.json();
        assert_eq!((&given["html"], &given["missing"]), (&json!("<p>Hi Bob,\nyour order 7.</p>"), &json!([])));
        preview(json!({"variables": {"ORDER_ID": 7}})).await.refused(422, "validation_error");
        preview(json!({"version_id": NOBODY})).await.refused(404, "not_found");
        assert_eq!(app.count("emails").await, 0);
    }

    async fn a_test_is_sent_of_the_draft_with_samples(app: TestApp) {
        let key = app.full_key().await;
        make(&app, &key, order()).await;
        let test = async |body: Value| app.post("/templates/order/test").key(&key).json(body).send().await;
        let sent = test(json!({"to": "me@acme.example", "variables": {"NAME": "Bob"}})).await;
        assert_eq!(sent.status, 200, "{}", sent.text());
        let email = shown(&app, &key, sent.json()["id"].as_str().expect("an id")).await;
        assert_eq!((&email["subject"], &email["to"]), (&json!("[Test] Order [ORDER_ID]"), &json!(["me@acme.example"])));
        assert_eq!(email["html"], "<p>Hi Bob,\nyour order [ORDER_ID].</p>");
        test(json!({})).await.refused(422, "missing_required_field");
        patch(&app, &key, "order", json!({"from": null})).await;
        test(json!({"to": "me@acme.example"})).await.refused(422, "missing_required_field");
        assert_eq!(test(json!({"to": "me@acme.example", "from": "a@acme.example"})).await.status, 200);
    }

    async fn changes_at_the_same_time_are_all_kept(app: TestApp) {
        let key = app.full_key().await;
        published(&app, &key, order()).await;
        let fields = [json!({"subject": "S"}), json!({"text": "T"}), json!({"name": "N"}), json!({"html": "H"})];
        let all = join_all(fields.into_iter().map(|field| patch(&app, &key, "order", field))).await;
        assert!(all.iter().all(|answer| answer.status == 200));
        let read = get(&app, &key, "/templates/order").await;
        assert_eq!((&read["subject"], &read["text"], &read["name"], &read["html"]), (&json!("S"), &json!("T"), &json!("N"), &json!("H")));
        assert_eq!(app.count("template_versions").await, 2, "one that was published, and the draft");
    }

    async fn another_workspaces_template_is_404_on_every_route(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let id = published(&app, &mine, order()).await;
        let version = get(&app, &mine, "/templates/order").await["current_version_id"].as_str().expect("an id").to_owned();
        for named in [id.as_str(), "order"] {
            for path in [format!("/templates/{named}"), format!("/templates/{named}/versions"), format!("/templates/{named}/versions/{version}")] {
                app.get(path).key(&theirs).send().await.refused(404, "not_found");
            }
            for act in ["publish", "duplicate", "preview", "test"] {
                let body = json!({"to": "a@acme.example"});
                app.post(format!("/templates/{named}/{act}")).key(&theirs).json(body).send().await.refused(404, "not_found");
            }
            patch(&app, &theirs, named, json!({"name": "x"})).await.refused(404, "not_found");
            app.delete(format!("/templates/{named}")).key(&theirs).send().await.refused(404, "not_found");
            let mail = json!({"to": "a@acme.example", "template": {"id": named, "variables": {"ORDER_ID": "1"}}});
            post(&app, &theirs, mail).await.refused(404, "not_found");
        }
    }
}
