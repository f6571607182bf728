//! A call of a tool: a request to the API's own router, and what it answered as an
//! assistant can read it.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http_body_util::{BodyExt, Limited};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;
use tower::ServiceExt;

use super::arguments;
use super::tool::ApiTool;
use crate::limits;
use crate::text::is_longer;
use crate::web::Sender;

/// How much of an answer is read.
const READ: usize = 16 << 20;

/// How much of it an assistant gets: what it reads, it pays for and remembers.
const TOLD: usize = 64 << 10;

/// How long a string may be in an answer that is longer than that.
const STRING: usize = 1_000;

/// What came of a call.
pub struct Called {
    pub result: CallToolResult,
    /// What the API answered, where it was asked.
    pub status: Option<StatusCode>,
}

/// Calls a tool for whoever sent `caller`.
pub async fn call(api: &Router, tool: &ApiTool, caller: &Parts, arguments: JsonObject) -> Called {
    let mut request = match arguments::request(tool, arguments) {
        Ok(request) => request,
        Err(problem) => return Called { result: failure(problem), status: None },
    };
    if let Some(credential) = caller.headers.get(AUTHORIZATION) {
        request.headers_mut().insert(AUTHORIZATION, credential.clone());
    }
    if let Some(sender) = caller.extensions.get::<Sender>() {
        request.extensions_mut().insert(*sender);
    }
    let answered = limits::serving(api.clone().oneshot(request)).await;
    let answer = answered.unwrap_or_else(|never| match never {});
    Called { status: Some(answer.status()), result: told(answer).await }
}

async fn told(response: Response<Body>) -> CallToolResult {
    let is_success = response.status().is_success();
    let Ok(body) = Limited::new(response.into_body(), READ).collect().await else {
        return failure("The answer is too long to be read here. Ask for less of it.");
    };
    let body = body.to_bytes();
    let text = if body.len() <= TOLD { String::from_utf8_lossy(&body).into_owned() } else { shortened(&body) };
    match is_success {
        true => CallToolResult::success(vec![ContentBlock::text(text)]),
        false => failure(text),
    }
}

pub fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// A long answer: without the middle of long strings, and without its end where that is
/// not enough.
fn shortened(body: &[u8]) -> String {
    let mut text = match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            shorten_strings(&mut value);
            value.to_string()
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    if text.len() > TOLD {
        text.truncate(text.floor_char_boundary(TOLD));
        text.push_str("… (the rest is left out; ask for fewer with `limit`, or for one by its id)");
    }
    text
}

fn shorten_strings(value: &mut Value) {
    match value {
        Value::String(text) if is_longer(text, STRING) => {
            let kept: String = text.chars().take(STRING).collect();
            *text = format!("{kept}… ({} more bytes are left out)", text.len() - kept.len());
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_strings),
        Value::Object(fields) => fields.values_mut().for_each(shorten_strings),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_answer_loses_the_ends_of_its_strings_first() {
        let body = json!({"id": "1", "html": "é".repeat(TOLD)}).to_string();
        let told: Value = serde_json::from_str(&shortened(body.as_bytes())).expect("still JSON");
        assert_eq!(told["id"], "1");
        assert!(told["html"].as_str().is_some_and(|html| html.ends_with("more bytes are left out)")));
    }

    #[test]
    fn no_answer_is_longer_than_is_told() {
        let items: Vec<Value> = (0..20_000).map(|n| json!({"id": n, "name": "é"})).collect();
        let told = shortened(json!({"data": items}).to_string().as_bytes());
        assert!(told.len() < TOLD + 200 && told.contains("ask for fewer"), "{}", told.len());
    }
}
