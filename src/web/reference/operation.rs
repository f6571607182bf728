//! One operation of the description, as the reference shows it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::schema::{self, Schemas};
use super::{Answer, Operation, Row, line, prose, text};

/// What is created comes before what is read, changed and deleted.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];

const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'/');

/// Every operation with its tag, in the order of the document.
pub(super) fn all(document: &Value) -> Vec<(String, Operation)> {
    let schemas = Schemas::of(document);
    let base = text(&document["servers"][0]["url"]);
    let paths = document["paths"].as_object().into_iter().flatten();
    let of_path = |(path, item): (&String, &Value)| {
        let found = METHODS.iter().filter_map(|method| {
            let operation = item.get(method)?;
            Some((text(&operation["tags"][0]), read(schemas, &base, method, path, operation)))
        });
        found.collect::<Vec<_>>()
    };
    paths.flat_map(of_path).collect()
}

fn read<'a>(schemas: Schemas<'a>, base: &str, method: &str, path: &str, operation: &'a Value) -> Operation {
    let body = &operation["requestBody"]["content"]["application/json"];
    let body_example = body.get("schema").map(|_| content_example(schemas, body));
    Operation {
        id: anchor(operation, method, path),
        method: method.to_uppercase(),
        path: path.to_owned(),
        summary: text(&operation["summary"]),
        description: prose(&text(&operation["description"])),
        auth: auth(operation),
        parameters: list(&operation["parameters"]).map(|parameter| parameter_row(schemas, parameter)).collect(),
        body_fields: body.get("schema").map_or(Vec::new(), |schema| schema::rows(schemas, schema)),
        curl: curl(schemas, base, method, path, operation, body_example.as_ref()),
        body_example: body_example.as_ref().map(pretty),
        responses: operation["responses"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(status, one)| answer(schemas, status, one))
            .collect(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An anchor holds only what needs no quoting anywhere.
fn anchor(operation: &Value, method: &str, path: &str) -> String {
    let given = operation["operationId"].as_str().map_or(format!("{method} {path}"), str::to_owned);
    given.chars().map(|char| if char.is_ascii_alphanumeric() || char == '_' { char } else { '-' }).collect()
}

/// Who may call, in words.
fn auth(operation: &Value) -> String {
    let ways: Vec<String> = list(&operation["security"])
        .filter_map(|way| {
            let (scheme, scopes) = way.as_object()?.iter().next()?;
            let scopes: Vec<String> = list(scopes).map(text).collect();
            let scheme = match scheme.as_str() {
                "api_key" => "API key",
                "oauth" => "access token",
                other => other,
            };
            Some(if scopes.is_empty() { scheme.to_owned() } else { format!("{scheme} with {}", scopes.join(" ")) })
        })
        .collect();
    if ways.is_empty() { "No credential".into() } else { ways.join(" or ") }
}

fn parameter_row<'a>(schemas: Schemas<'a>, parameter: &'a Value) -> Row {
    let schema = &parameter["schema"];
    let described = text(&parameter["description"]);
    let limits = schema::limits(schemas, schema, &described);
    Row {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        required: parameter["required"] == true,
        kind: schemas.kind(schema),
        description: prose(&format!("{described} {limits}")),
    }
}

fn answer<'a>(schemas: Schemas<'a>, status: &str, response: &'a Value) -> Answer {
    let content = &response["content"]["application/json"];
    let shown = content.get("schema").or(content.get("example")).is_some();
    let location = response["headers"].get("location").map(|_| "Location: …".to_owned());
    Answer {
        status: status.to_owned(),
        description: line(&text(&response["description"])),
        example: if shown { Some(pretty(&content_example(schemas, content))) } else { location },
    }
}

/// The example that a body gives of itself, or one made from its schema.
fn content_example<'a>(schemas: Schemas<'a>, content: &'a Value) -> Value {
    let named = || content["examples"].as_object()?.values().next()?.get("value");
    let given = content.get("example").or_else(named);
    given.cloned().unwrap_or_else(|| schemas.example(&content["schema"]))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// A command that can be pasted: the real address, and examples where values belong.
fn curl<'a>(
    schemas: Schemas<'a>,
    base: &str,
    method: &str,
    path: &str,
    operation: &'a Value,
    body: Option<&Value>,
) -> String {
    let mut address = format!("{base}{path}");
    let mut separator = '?';
    for parameter in list(&operation["parameters"]).filter(|parameter| parameter["required"] == true) {
        let name = text(&parameter["name"]);
        let value = parameter.get("example").cloned().unwrap_or_else(|| schemas.example(&parameter["schema"]));
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = utf8_percent_encode(&value, ENCODED).to_string();
        if parameter["in"] == "path" {
            address = address.replace(&format!("{{{name}}}"), &value);
        } else {
            address.push_str(&format!("{separator}{name}={value}"));
            separator = '&';
        }
    }
    let mut parts = vec![format!("curl {}", quoted(&address))];
    match (method, body) {
        ("get", _) | ("post", Some(_)) => {}
        _ => parts[0] = format!("curl -X {} {}", method.to_uppercase(), quoted(&address)),
    }
    if operation["responses"].get("302").is_some() {
        parts[0] = parts[0].replacen("curl", "curl -i", 1);
    }
    if list(&operation["security"]).any(|way| way.get("api_key").is_some()) {
        parts.push("-H \"Authorization: Bearer $POSTHORN_KEY\"".into());
    }
    if let Some(body) = body {
        parts.push("-H \"Content-Type: application/json\"".into());
        parts.push(format!("-d '{}'", body.to_string().replace('\'', r"'\''")));
    }
    parts.join(" \\\n  ")
}

/// Quoted for a shell where it needs to be.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/%[]".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_may_call_is_said_in_words() {
        let either = json!({"security": [{"api_key": []}, {"oauth": ["full_access"]}]});
        assert_eq!(auth(&either), "API key or access token with full_access");
        assert_eq!(auth(&json!({"security": [{}]})), "No credential");
        assert_eq!(auth(&json!({})), "No credential");
    }

    #[test]
    fn a_call_can_be_pasted_into_a_shell() {
        let schemas = Schemas::of(&Value::Null);
        let operation = json!({
            "parameters": [
                {"name": "id", "in": "path", "required": true, "example": "a b/c"},
                {"name": "q", "in": "query", "required": true, "schema": {"type": "string", "example": "x&y"}},
                {"name": "limit", "in": "query", "schema": {"type": "integer"}},
            ],
            "security": [{"api_key": []}],
        });
        let body = json!({"name": "it's"});
        let call = curl(schemas, "http://h", "patch", "/events/{id}", &operation, Some(&body));
        let wanted = [
            "curl -X PATCH 'http://h/events/a%20b/c?q=x%26y' \\",
            "  -H \"Authorization: Bearer $POSTHORN_KEY\" \\",
            "  -H \"Content-Type: application/json\" \\",
            r#"  -d '{"name":"it'\''s"}'"#,
        ];
        assert_eq!(call, wanted.join("\n"));
    }

    #[test]
    fn a_range_of_statuses_is_shown_as_one() {
        let schemas = Schemas::of(&Value::Null);
        let response = json!({"description": "No."});
        let shown = answer(schemas, "4XX", &response);
        assert_eq!((shown.status.as_str(), shown.class()), ("4XX", "4"));
        assert!(shown.example.is_none());
    }
}
