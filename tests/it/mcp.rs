//! `/mcp`: the API as tools for assistants.

use posthorn::credentials::Permission;
use serde_json::{Value, json};

use crate::harness::{Answer, BASE, Req, TestApp, on_both};

fn request<'a>(app: &'a TestApp, key: &str) -> Req<'a> {
    let request = app.post("/mcp").key(key).header("host", authority());
    request.header("accept", "application/json, text/event-stream")
}

fn authority() -> &'static str {
    BASE.split_once("://").expect("a scheme").1
}

async fn ask(app: &TestApp, key: &str, method: &str, params: Value) -> Answer {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    request(app, key).json(message).send().await
}

/// What a tool says, and whether it failed.
async fn call(app: &TestApp, key: &str, name: &str, arguments: Value) -> (bool, String) {
    let answer = ask(app, key, "tools/call", json!({"name": name, "arguments": arguments})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let result = &answer.json()["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{name}: {}", answer.text())).to_owned();
    (result["isError"] == true, text)
}

async fn called(app: &TestApp, key: &str, name: &str, arguments: Value) -> Value {
    let (failed, text) = call(app, key, name, arguments).await;
    assert!(!failed, "{name}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

on_both! {
    async fn a_host_greets_and_is_told_of_tools(app: TestApp) {
        let key = app.full_key().await;
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a host", "version": "1"},
        });
        let greeted = ask(&app, &key, "initialize", hello).await;
        assert_eq!(greeted.status, 200, "{}", greeted.text());
        assert_eq!(greeted.header("content-type"), Some("application/json"));
        assert_eq!(greeted.header("mcp-session-id"), None, "any process answers the next request");
        let result = &greeted.json()["result"];
        assert_eq!((&result["serverInfo"]["name"], &result["protocolVersion"]), (&json!("posthorn"), &json!("2025-06-18")));

        let listed = ask(&app, &key, "tools/list", json!({})).await.json();
        let tools = listed["result"]["tools"].as_array().expect("tools");
        let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(tool("read_contact")["annotations"]["readOnlyHint"], true);
        assert_eq!(tool("delete_contact")["annotations"]["destructiveHint"], true);
        assert_eq!(tool("send_email")["inputSchema"]["required"], json!(["to"]));
        assert_eq!(tool("create_broadcast")["inputSchema"]["properties"]["send"], Value::Null, "only drafts are made");
        assert!(!tools.iter().any(|tool| tool["name"].as_str().is_some_and(|name| name.contains("api_key"))));
    }

    async fn a_tool_does_what_its_route_does(app: TestApp) {
        let key = app.full_key().await;
        let made = called(&app, &key, "create_contact", json!({"email": "ada@example.com", "first_name": "Ada"})).await;
        let read = called(&app, &key, "read_contact", json!({"contact": "ada@example.com"})).await;
        assert_eq!((&read["id"], &read["first_name"]), (&made["id"], &json!("Ada")));
        let path = format!("/contacts/{}", made["id"].as_str().expect("an id"));
        assert_eq!(app.get(&path).key(&key).send().await.json(), read);

        let change = json!({"contact": made["id"], "last_name": "Lovelace"});
        called(&app, &key, "update_contact", change).await;
        assert_eq!(app.get(&path).key(&key).send().await.json()["last_name"], "Lovelace");
        let page = called(&app, &key, "list_contacts", json!({"limit": 1})).await;
        assert_eq!(page["data"][0]["id"], made["id"]);
        called(&app, &key, "delete_contact", json!({"contact": made["id"]})).await;
        assert_eq!(app.get(&path).key(&key).send().await.status, 404);
    }

    async fn a_refusal_is_told_in_the_words_of_the_api(app: TestApp) {
        let key = app.full_key().await;
        let (failed, text) = call(&app, &key, "create_contact", json!({"email": "nobody"})).await;
        let api = app.post("/contacts").key(&key).json(json!({"email": "nobody"})).send().await;
        assert!(failed);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("the envelope"), api.json());
        let (failed, text) = call(&app, &key, "read_contact", json!({"contract": "x"})).await;
        assert!(failed && text.contains("`contact`"), "{text}");
        let unknown = ask(&app, &key, "tools/call", json!({"name": "create_api_key", "arguments": {}})).await;
        assert!(unknown.json()["error"]["message"].as_str().is_some_and(|text| text.contains("create_api_key")));
        assert_eq!(app.count("contacts").await, 0);
    }

    async fn a_repeated_call_with_a_key_sends_once(app: TestApp) {
        let key = app.full_key().await;
        let mail = json!({
            "from": "ada@example.com", "to": "bob@example.com", "subject": "Hello", "text": "Hello.",
            "idempotency_key": "once",
        });
        let first = called(&app, &key, "send_email", mail.clone()).await;
        assert_eq!(called(&app, &key, "send_email", mail).await, first);
        assert_eq!(app.count("emails").await, 1);
    }

    async fn one_workspace_sees_nothing_of_another(app: TestApp) {
        let (key, stranger) = (app.full_key().await, app.second_workspace_key().await);
        let made = called(&app, &key, "create_contact", json!({"email": "ada@example.com"})).await;
        let (failed, text) = call(&app, &stranger, "read_contact", json!({"contact": made["id"]})).await;
        assert!(failed && text.contains("not_found"), "{text}");
        assert_eq!(called(&app, &stranger, "list_contacts", json!({})).await["data"], json!([]));
    }

    async fn a_stranger_is_told_where_tokens_are_had(app: TestApp) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let refused = app.post("/mcp").json(message.clone()).send().await;
        refused.refused(401, "missing_api_key");
        let metadata = format!("{BASE}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"full_access\"");
        assert_eq!(refused.header("www-authenticate"), Some(challenge.as_str()));
        let document = app.get("/.well-known/oauth-protected-resource/mcp").send().await.json();
        assert_eq!(document["resource"], format!("{BASE}/mcp"));
        assert_eq!(document["scopes_supported"], json!(["full_access"]));

        let expired = request(&app, "eyJ.eyJ.x").json(message.clone()).send().await;
        assert!(matches!(expired.status, 401 | 403), "{}", expired.text());
        let sender = app.key(Permission::SendingAccess).await;
        request(&app, &sender.secret).json(message).send().await.refused(401, "restricted_api_key");
    }

    async fn a_key_that_is_deleted_lists_no_tools_any_more(app: TestApp) {
        let key = app.key(Permission::FullAccess).await;
        assert_eq!(ask(&app, &key.secret, "tools/list", json!({})).await.status, 200);
        app.delete_key(key.id).await;
        ask(&app, &key.secret, "tools/list", json!({})).await.refused(403, "invalid_api_key");
    }

    async fn a_page_of_another_host_or_origin_is_turned_away(app: TestApp) {
        let key = app.full_key().await;
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let asked = |host: &'static str, origin: Option<&'static str>| {
            let request = app.post("/mcp").key(&key).header("host", host);
            let request = request.header("accept", "application/json, text/event-stream").json(message.clone());
            match origin {
                Some(origin) => request.header("origin", origin),
                None => request,
            }
        };
        assert_eq!(asked("evil.example", None).send().await.status, 403);
        assert_eq!(asked(authority(), Some("http://evil.example")).send().await.status, 403);
        assert_eq!(asked(authority(), Some("null")).send().await.status, 403);
        assert_eq!(asked(authority(), Some(BASE)).send().await.status, 200);
        assert_eq!(asked("localhost:1234", Some("http://localhost:6274")).send().await.status, 200);
    }

    async fn a_message_is_bounded_and_there_is_only_one_way_to_send_it(app: TestApp) {
        let key = app.full_key().await;
        let arguments = json!({"email": "x".repeat(300 << 10)});
        let large = ask(&app, &key, "tools/call", json!({"name": "create_contact", "arguments": arguments})).await;
        large.refused(413, "validation_error");
        for method in ["GET", "DELETE"] {
            let refused = app.request(method, "/mcp").key(&key).send().await;
            assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
        }
        request(&app, &key).body("text/plain", "{}").send().await.refused(415, "validation_error");
    }
}
