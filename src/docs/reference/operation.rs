//! One operation of the description, as the reference shows it.

use serde_json::Value;

use super::super::Entry;
use super::calls::{Call, JSON, written};
use super::schema::{self, Schemas, Told};
use super::{Answer, Fields, Operation, Row, line, prose, text, verb_class};

/// What is created comes before what is read, changed and deleted.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];

/// The operations under a tag, in the order of the document; named types that they are made of are noted.
pub(super) fn of(document: &Value, tag: &str, told: &mut Told) -> Vec<Operation> {
    let schemas = Schemas::of(document);
    let base = text(&document["servers"][0]["url"]);
    let found = tagged(document, tag);
    found.map(|(method, path, operation)| read(schemas, &base, method, path, operation, told)).collect()
}

/// The same, as lists show them.
pub(super) fn listed(document: &Value, tag: &str) -> impl Iterator<Item = Entry> {
    tagged(document, tag).map(|(method, path, operation)| {
        let method_name = method.to_uppercase();
        Entry {
            id: anchor(operation, method, path),
            verb_class: verb_class(&method_name),
            method: method_name,
            path: path.to_owned(),
            summary: text(&operation["summary"]),
            about: text(&operation["description"]),
        }
    })
}

fn tagged<'a>(document: &'a Value, tag: &str) -> impl Iterator<Item = (&'static str, &'a str, &'a Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| Some((method, path.as_str(), item.get(method)?)))
    });
    all.filter(move |(_, _, operation)| operation["tags"][0] == tag)
}

fn read<'a>(
    schemas: Schemas<'a>,
    base: &str,
    method: &str,
    path: &str,
    operation: &'a Value,
    told: &mut Told,
) -> Operation {
    let content = &operation["requestBody"]["content"];
    let body = &content["application/json"];
    let described = body.get("schema").or(content["multipart/form-data"].get("schema"));
    let body_example = body.get("schema").map(|_| content_example(schemas, body));
    let call = Call::new(schemas, base, method, path, operation, body_example);
    let responses = operation["responses"].as_object().into_iter().flatten();
    let all: Vec<Answer> = responses.map(|(status, one)| answer(schemas, status, one, told)).collect();
    let (refusals, answers) = all.into_iter().partition(Answer::is_refusal);
    Operation {
        id: anchor(operation, method, path),
        method: method.to_uppercase(),
        path: path.to_owned(),
        summary: text(&operation["summary"]),
        description: prose(&text(&operation["description"])),
        auth: auth(operation),
        parameters: list(&operation["parameters"]).map(|parameter| parameter_row(schemas, parameter)).collect(),
        body: described.map_or(Fields::default(), |schema| schema::fields(schemas, schema, told)),
        calls: call.samples(),
        answers,
        refusals,
    }
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
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
        told_at: Vec::new(),
        description: prose(&format!("{described} {limits}")),
    }
}

fn answer<'a>(schemas: Schemas<'a>, status: &str, response: &'a Value, told: &mut Told) -> Answer {
    let content = &response["content"]["application/json"];
    let mut shown = Answer {
        status: status.to_owned(),
        description: line(&text(&response["description"])),
        example: None,
        fields: Fields::default(),
    };
    // All refusals have one shape, which a guide tells.
    if shown.is_refusal() {
        return shown;
    }
    if content.get("schema").or(content.get("example")).is_some() {
        shown.example = Some(written(&content_example(schemas, content), JSON));
        if let Some(schema) = content.get("schema") {
            shown.fields = schema::answer_fields(schemas, schema, told);
        }
    } else if response["headers"].get("location").is_some() {
        shown.example = Some("Location: …".to_owned());
    }
    shown
}

/// The example that a body gives of itself, or one made from its schema.
fn content_example<'a>(schemas: Schemas<'a>, content: &'a Value) -> Value {
    let named = || content["examples"].as_object()?.values().next()?.get("value");
    let given = content.get("example").or_else(named);
    given.cloned().unwrap_or_else(|| schemas.example(&content["schema"]))
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
    fn a_range_of_statuses_is_shown_as_one() {
        let schemas = Schemas::of(&Value::Null);
        let response = json!({"description": "No."});
        let shown = answer(schemas, "4XX", &response, &mut Told::default());
        assert_eq!((shown.status.as_str(), shown.class()), ("4XX", "4"));
        assert!(shown.example.is_none());
    }
}
