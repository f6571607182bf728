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

/// The id of a session that begins now.
async fn begin(app: &TestApp, key: &str) -> String {
    let us = json!({"name": "a host", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": us});
    let greeted = ask(app, key, "initialize", hello).await;
    greeted.header("mcp-session-id").unwrap_or_else(|| panic!("{}", greeted.text())).to_owned()
}

/// A message of a session.
async fn ask_in(app: &TestApp, key: &str, session: &str, method: &str, params: Value) -> Answer {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = request(app, key).header("mcp-session-id", session);
    request.header("mcp-protocol-version", "2025-11-25").json(message).send().await
}

/// A message of a host that knows no sessions any more.
async fn ask_alone(app: &TestApp, key: &str, method: &str, mut params: Value, more: Value) -> Answer {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (name, value) in more.as_object().expect("an object") {
        meta[name] = value.clone();
    }
    let named = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
    params["_meta"] = meta;
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = request(app, key).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let request = match &named {
        Some(name) => request.header("mcp-name", name),
        None => request,
    };
    request.json(message).send().await
}

/// What came one after the other: a stream of messages, or one.
fn messages(answer: &Answer) -> Vec<Value> {
    if answer.header("content-type") == Some("application/json") {
        return vec![answer.json()];
    }
    assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
    let text = answer.text();
    let said = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    said.filter(|said| !said.is_empty()).map(|said| serde_json::from_str(said).expect("a message")).collect()
}

/// Of two calls.
const NOTHING: [Vec<Value>; 2] = [Vec::new(), Vec::new()];

/// What is logged of two calls, one that goes well and one that does not.
async fn logged(app: &TestApp, key: &str, session: &str) -> [Vec<Value>; 2] {
    let listed = ask_in(app, key, session, "tools/call", json!({"name": "list_contacts", "arguments": {}})).await;
    let missing = json!({"name": "read_contact", "arguments": {"contact": "nobody@example.com"}});
    let missing = ask_in(app, key, session, "tools/call", missing).await;
    [listed, missing].map(|answer| {
        let mut told = messages(&answer);
        let last = told.pop().expect("an answer");
        assert!(last["result"]["content"].is_array(), "the log goes before the answer: {last}");
        told.into_iter().map(|one| one["params"].clone()).collect()
    })
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
        let result = &greeted.json()["result"];
        assert_eq!((&result["serverInfo"]["name"], &result["protocolVersion"]), (&json!("posthorn"), &json!("2025-06-18")));
        let offered: Vec<&String> = result["capabilities"].as_object().expect("capabilities").keys().collect();
        assert_eq!(offered, ["logging", "prompts", "resources", "tools"]);

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

    async fn a_session_is_anybodys_to_answer(app: TestApp) {
        let key = app.full_key().await;
        let session = begin(&app, &key).await;
        assert_ne!(session, begin(&app, &key).await);
        let name = |name: &str| json!({"name": name, "arguments": {}});
        let asked = ["list_contacts", "list_events", "list_segments"].map(|tool| ask_in(&app, &key, &session, "tools/call", name(tool)));
        for answer in futures_util::future::join_all(asked).await {
            assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None), "{}", answer.text());
            assert!(answer.json()["result"]["content"].is_array());
        }
        let refused = app.request("DELETE", "/mcp").key(&key).header("mcp-session-id", &session).send().await;
        assert_eq!(refused.status, 405, "there is nothing to end");
        assert_eq!(app.count("assistant_log_levels").await, 0, "and nothing is kept");
    }

    async fn a_session_is_told_what_it_asked_to_be_told(app: TestApp) {
        let key = app.full_key().await;
        let (session, other) = (begin(&app, &key).await, begin(&app, &key).await);
        assert_eq!(logged(&app, &key, &session).await, NOTHING, "nobody asked yet");
        let set = ask_in(&app, &key, &session, "logging/setLevel", json!({"level": "info"})).await;
        assert_eq!(set.json()["result"], json!({}), "{}", set.text());
        let told = |level: &str, tool: &str, path: &str, status: u16| {
            let data = json!({"tool": tool, "method": "GET", "path": path, "status": status});
            vec![json!({"level": level, "logger": "posthorn.api", "data": data})]
        };
        let went_well = told("info", "list_contacts", "/contacts", 200);
        let missing = told("warning", "read_contact", "/contacts/{contact}", 404);
        assert_eq!(logged(&app, &key, &session).await, [went_well, missing.clone()]);
        assert_eq!(logged(&app, &key, &other).await, NOTHING, "another session did not ask");

        ask_in(&app, &key, &session, "logging/setLevel", json!({"level": "warning"})).await;
        assert_eq!(logged(&app, &key, &session).await, [vec![], missing]);
        ask_in(&app, &key, &session, "logging/setLevel", json!({"level": "emergency"})).await;
        assert_eq!(logged(&app, &key, &session).await, NOTHING);
        assert_eq!(app.count("assistant_log_levels").await, 1);
        let stranger = app.second_workspace_key().await;
        assert_eq!(logged(&app, &stranger, &session).await, NOTHING, "it is nobody's elsewhere");
    }

    async fn a_level_that_is_none_is_refused_and_so_is_one_of_no_session(app: TestApp) {
        let key = app.full_key().await;
        let session = begin(&app, &key).await;
        for params in [json!({"level": "loud"}), json!({"level": 3}), json!({})] {
            let refused = ask_in(&app, &key, &session, "logging/setLevel", params).await.json();
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("emergency")), "{refused}");
        }
        let refused = ask(&app, &key, "logging/setLevel", json!({"level": "info"})).await.json();
        assert_eq!(refused["error"]["code"], -32600, "{refused}");
        let gone = ask_alone(&app, &key, "logging/setLevel", json!({"level": "info"}), json!({})).await;
        assert_eq!((gone.status, &gone.json()["error"]["code"]), (404, &json!(-32601)), "{}", gone.text());
        assert_eq!(app.count("assistant_log_levels").await, 0);
    }

    async fn however_many_sessions_say_what_they_want_few_are_kept(app: TestApp) {
        let key = app.full_key().await;
        let mut last = String::new();
        for _ in 0..130 {
            last = begin(&app, &key).await;
            let set = ask_in(&app, &key, &last, "logging/setLevel", json!({"level": "debug"})).await;
            assert_eq!(set.json()["result"], json!({}), "{}", set.text());
        }
        assert_eq!(app.count("assistant_log_levels").await, 100);
        assert_eq!(logged(&app, &key, &last).await.map(|told| told.len()), [1, 1]);
    }

    async fn a_request_says_for_itself_what_it_wants_to_be_told(app: TestApp) {
        let key = app.full_key().await;
        let list = || json!({"name": "list_contacts", "arguments": {}});
        let silent = ask_alone(&app, &key, "tools/call", list(), json!({})).await;
        assert_eq!(messages(&silent).len(), 1, "{}", silent.text());
        let level = |level: &str| json!({"io.modelcontextprotocol/logLevel": level});
        let told = messages(&ask_alone(&app, &key, "tools/call", list(), level("debug")).await);
        let told: Vec<_> = told.iter().map(|one| (&one["method"], &one["params"]["level"])).collect();
        assert_eq!(told, [(&json!("notifications/message"), &json!("info")), (&Value::Null, &Value::Null)]);
        assert_eq!(messages(&ask_alone(&app, &key, "tools/call", list(), level("error")).await).len(), 1);
        let refused = ask_alone(&app, &key, "tools/call", list(), level("loud")).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }

    async fn guides_are_read_and_what_is_none_is_refused(app: TestApp) {
        let key = app.full_key().await;
        let listed = ask(&app, &key, "resources/list", json!({})).await.json();
        let resources = listed["result"]["resources"].as_array().expect("resources");
        let sending = resources.iter().find(|one| one["name"] == "sending").expect("a guide");
        assert_eq!(sending["uri"], format!("{BASE}/docs/sending.md"));
        let read = ask(&app, &key, "resources/read", json!({"uri": sending["uri"]})).await.json();
        let contents = &read["result"]["contents"][0];
        assert_eq!((&contents["uri"], &contents["mimeType"]), (&sending["uri"], &json!("text/markdown")));
        let page = app.get("/docs/sending.md").send().await;
        assert_eq!(contents["text"], page.text(), "what everybody reads there");

        for uri in ["test://nobody", &format!("{BASE}/docs/nobody.md"), &format!("{BASE}/docs/../docs/sending.md")] {
            let refused = ask(&app, &key, "resources/read", json!({"uri": uri})).await.json();
            assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["uri"]), (&json!(-32002), &json!(uri)));
            let refused = ask_alone(&app, &key, "resources/read", json!({"uri": uri}), json!({})).await.json();
            assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["uri"]), (&json!(-32602), &json!(uri)));
        }
        let refused = ask(&app, &key, "resources/read", json!({})).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }

    async fn a_prompt_carries_what_was_asked_for(app: TestApp) {
        let key = app.full_key().await;
        let listed = ask(&app, &key, "prompts/list", json!({})).await.json();
        let prompts = listed["result"]["prompts"].as_array().expect("prompts");
        let draft = prompts.iter().find(|one| one["name"] == "draft_broadcast").expect("a prompt");
        assert_eq!(draft["arguments"][0]["name"], "about");
        let fields = json!({"name": "draft_broadcast", "arguments": {"about": "Spring", "audience": "Everybody"}});
        let got = ask(&app, &key, "prompts/get", fields).await.json();
        let message = &got["result"]["messages"][0];
        assert_eq!(message["role"], "user");
        let text = message["content"]["text"].as_str().expect("text");
        assert!(text.contains("`create_broadcast`") && text.ends_with("about: Spring\n\naudience: Everybody"), "{text}");
        for fields in [json!({"name": "nobody"}), json!({"name": "draft_broadcast", "arguments": {"about": "Spring"}}), json!({})] {
            let refused = ask(&app, &key, "prompts/get", fields).await.json();
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
        let unknown = ask(&app, &key, "prompts/forget", json!({})).await.json();
        assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
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
