//! The arguments of a call as a request to the API.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::request::Builder;
use http::{HeaderName, HeaderValue, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::tool::{ApiTool, Place};
use crate::text::shown;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a list returns where nobody says how much.
const FEW: &str = "20";

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The request that a call stands for, or what is wrong with its arguments. Whether values
/// are right is for the API to say.
pub fn request(tool: &ApiTool, arguments: Map<String, Value>) -> Result<Request<Body>, String> {
    let mut path = tool.path.clone();
    let mut query = Vec::new();
    let mut key = None;
    let mut body = Map::new();
    for (name, value) in arguments {
        let Some(place) = tool.arguments.get(&name) else { return Err(unknown(&name, tool)) };
        match place {
            Place::Body => {
                body.insert(name, value);
            }
            // What is null was left out.
            _ if value.is_null() => {}
            Place::Path => path = path.replace(&format!("{{{name}}}"), &segment(&name, &value)?),
            Place::Query => query.push(format!("{name}={}", utf8_percent_encode(&listed(&name, &value)?, PLAIN))),
            Place::Key => {
                let given = HeaderValue::from_str(&plain(&name, &value)?);
                key = Some(given.map_err(|_| format!("The argument `{name}` must hold printable characters only."))?);
            }
        }
    }
    if let Some((_, missing)) = path.split_once('{') {
        let name = missing.split('}').next().unwrap_or_default();
        return Err(format!("The argument `{name}` is missing."));
    }
    if tool.is_list && !query.iter().any(|one| one.starts_with("limit=")) {
        query.push(format!("limit={FEW}"));
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let mut request = Request::builder().method(tool.method.clone()).uri(path);
    if let Some(key) = key {
        request = request.header(IDEMPOTENCY_KEY, key);
    }
    with_body(request, tool.has_body.then_some(body))
        .map_err(|error| format!("The arguments make no request: {error}."))
}

fn with_body(request: Builder, body: Option<Map<String, Value>>) -> Result<Request<Body>, http::Error> {
    match body {
        Some(fields) => {
            let label = HeaderValue::from_static("application/json");
            request.header(CONTENT_TYPE, label).body(Value::Object(fields).to_string().into())
        }
        None => request.body(Body::empty()),
    }
}

/// A value as one segment of a path. Dots alone would be another path.
fn segment(name: &str, value: &Value) -> Result<String, String> {
    let text = plain(name, value)?;
    if text.is_empty() || text == "." || text == ".." {
        return Err(format!("The argument `{name}` must be an id or a name, but is `{text}`."));
    }
    Ok(utf8_percent_encode(&text, PLAIN).to_string())
}

/// Several values of one parameter are separated by commas.
fn listed(name: &str, value: &Value) -> Result<String, String> {
    let Value::Array(items) = value else { return plain(name, value) };
    Ok(items.iter().map(|item| plain(name, item)).collect::<Result<Vec<_>, _>>()?.join(","))
}

fn plain(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(format!("The argument `{name}` must be a string, a number or a boolean.")),
    }
}

fn unknown(name: &str, tool: &ApiTool) -> String {
    let known: Vec<String> = tool.arguments.keys().map(|known| format!("`{known}`")).collect();
    let name = shown(name);
    match known.is_empty() {
        true => format!("There is no argument `{name}`: this tool takes none."),
        false => format!("There is no argument `{name}`. Allowed are {}.", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use http::Method;
    use http_body_util::BodyExt;
    use rmcp::model::Tool;
    use serde_json::json;

    use super::*;

    fn tool(path: &str, arguments: &[(&str, Place)], has_body: bool) -> ApiTool {
        let arguments: BTreeMap<String, Place> =
            arguments.iter().map(|(name, place)| ((*name).to_owned(), *place)).collect();
        ApiTool {
            told: Tool::new("a_tool", "", Arc::new(Map::new())),
            method: Method::POST,
            path: path.into(),
            is_list: arguments.contains_key("limit"),
            arguments,
            has_body,
        }
    }

    fn given(arguments: &Value) -> Map<String, Value> {
        arguments.as_object().expect("an object").clone()
    }

    #[tokio::test]
    async fn each_argument_goes_where_the_api_takes_it() {
        let places =
            [("id", Place::Path), ("status", Place::Query), ("idempotency_key", Place::Key), ("name", Place::Body)];
        let tool = tool("/things/{id}/parts", &places, true);
        let arguments = json!({"name": "n", "id": "a/b c?", "status": "x&y=z", "idempotency_key": "k"});
        let request = request(&tool, given(&arguments)).expect("a request");
        assert_eq!(request.uri(), "/things/a%2Fb%20c%3F/parts?status=x%26y%3Dz");
        assert_eq!(request.headers()["idempotency-key"], "k");
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(body, r#"{"name":"n"}"#);
    }

    #[test]
    fn an_argument_cannot_lead_to_another_path() {
        let tool = tool("/things/{id}", &[("id", Place::Path)], false);
        for id in ["..", ".", ""] {
            assert!(request(&tool, given(&json!({"id": id}))).is_err(), "{id:?}");
        }
        let request = request(&tool, given(&json!({"id": "../keys#x{id}"}))).expect("a request");
        assert_eq!(request.uri(), "/things/..%2Fkeys%23x%7Bid%7D");
    }

    #[test]
    fn several_values_are_separated_by_commas() {
        let tool = tool("/things", &[("status", Place::Query), ("idempotency_key", Place::Key)], false);
        let asked = request(&tool, given(&json!({"status": ["running", "failed"]}))).expect("a request");
        assert_eq!(asked.uri(), "/things?status=running%2Cfailed");
        assert!(request(&tool, given(&json!({"status": [["running"]]}))).is_err());
        assert!(request(&tool, given(&json!({"idempotency_key": ["a", "b"]}))).is_err(), "only a query takes several");
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let tool = tool("/things/{id}", &[("id", Place::Path)], false);
        assert_eq!(request(&tool, Map::new()).expect_err("refused"), "The argument `id` is missing.");
        let told = request(&tool, given(&json!({"ids": "1"}))).expect_err("refused");
        assert_eq!(told, "There is no argument `ids`. Allowed are `id`.");
    }

    #[test]
    fn a_list_is_a_page_unless_more_is_asked_for() {
        let tool = tool("/things", &[("limit", Place::Query)], false);
        assert_eq!(request(&tool, Map::new()).expect("a request").uri(), "/things?limit=20");
        assert_eq!(request(&tool, given(&json!({"limit": 100}))).expect("a request").uri(), "/things?limit=100");
    }
}
