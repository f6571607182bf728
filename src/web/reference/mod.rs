//! The API reference: one page without a script, made from the API's own
//! description when somebody first wants it.

mod operation;
mod schema;

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde_json::Value;

use super::compression::StaticContent;
use super::layout::{self, Layout};
use crate::app::App;
use crate::error::Error;

/// The page as it is sent; `None` where the description could not be shown.
pub struct Page(Option<StaticContent>);

impl Page {
    pub fn new(app: &App, document: &Value) -> Page {
        let html = ReferencePage::new(Layout::beside_api(app), document).render();
        if let Err(error) = &html {
            tracing::error!(%error, "the API reference could not be rendered");
        }
        Page(html.ok().map(StaticContent::new))
    }

    pub fn answer(&self, asked: &HeaderMap) -> Response {
        match &self.0 {
            Some(page) => page.answer(asked, layout::rendered),
            None => Error::Internal.into_response(),
        }
    }
}

#[derive(Template)]
#[template(path = "web/docs.html")]
struct ReferencePage {
    layout: Layout,
    title: String,
    version: String,
    description: Vec<Line>,
    groups: Vec<Group>,
}

struct Group {
    name: String,
    description: Vec<Line>,
    operations: Vec<Operation>,
}

struct Operation {
    /// Unique on the page; becomes the anchor.
    id: String,
    method: String,
    path: String,
    summary: String,
    description: Vec<Line>,
    auth: String,
    parameters: Vec<Row>,
    body_fields: Vec<Row>,
    body_example: Option<String>,
    responses: Vec<Answer>,
    curl: String,
}

impl Operation {
    /// The badge's colour; a method without one of its own is plain.
    fn verb_class(&self) -> &'static str {
        match self.method.as_str() {
            "GET" => "get",
            "POST" => "post",
            "PUT" | "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        }
    }
}

/// A parameter or a field of a body; `place` is empty for the latter.
struct Row {
    name: String,
    place: String,
    required: bool,
    kind: String,
    description: Vec<Line>,
}

struct Answer {
    status: String,
    description: Line,
    example: Option<String>,
}

impl Answer {
    fn is_success(&self) -> bool {
        self.status.starts_with('2')
    }

    /// First digit of the status: the colour it is shown in.
    fn class(&self) -> &str {
        self.status.get(..1).unwrap_or_default()
    }
}

type Line = Vec<Span>;

/// A stretch of a description, as code or as plain words.
struct Span {
    code: bool,
    text: String,
}

/// Splits a description at blank lines into paragraphs.
fn prose(text: &str) -> Vec<Line> {
    text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()).map(line).collect()
}

/// Splits text at its backticks: every second part is code.
fn line(text: &str) -> Line {
    let parts = text.split('`').enumerate().filter(|(_, part)| !part.is_empty());
    parts.map(|(i, part)| Span { code: i % 2 == 1, text: part.to_owned() }).collect()
}

impl ReferencePage {
    fn new(layout: Layout, document: &Value) -> ReferencePage {
        let info = &document["info"];
        ReferencePage {
            layout,
            title: text(&info["title"]),
            version: text(&info["version"]),
            description: prose(&text(&info["description"])),
            groups: groups(document),
        }
    }
}

/// The operations under the tags, in the order in which these are declared.
fn groups(document: &Value) -> Vec<Group> {
    let mut all = operation::all(document);
    let tags = document["tags"].as_array().into_iter().flatten();
    let mut groups: Vec<Group> = tags
        .map(|tag| {
            let name = text(&tag["name"]);
            let operations = all.extract_if(.., |(tag, _)| *tag == name).map(|(_, operation)| operation).collect();
            Group { description: prose(&text(&tag["description"])), name, operations }
        })
        .collect();
    if !all.is_empty() {
        let operations = all.into_iter().map(|(_, operation)| operation).collect();
        groups.push(Group { name: "Other".into(), description: Vec::new(), operations });
    }
    groups.retain(|group| !group.operations.is_empty());
    groups
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        serde_json::to_value(crate::product::openapi("https://mail.example.com/posthorn")).expect("JSON")
    }

    fn page(document: &Value) -> String {
        ReferencePage::new(Layout::sample(), document).render().expect("a page")
    }

    #[test]
    fn every_operation_appears_once() {
        let document = document();
        let html = page(&document);
        for (path, item) in document["paths"].as_object().expect("paths") {
            for operation in item.as_object().expect("operations").values() {
                let id = operation["operationId"].as_str().expect("an id");
                assert_eq!(html.matches(&format!("<article class=\"op\" id=\"{id}\"")).count(), 1, "{id}");
                assert!(html.contains(&format!("<code>{path}</code>")), "{path}");
            }
        }
    }

    #[test]
    fn every_example_of_a_body_is_json() {
        let groups = groups(&document());
        let operations: Vec<&Operation> = groups.iter().flat_map(|group| &group.operations).collect();
        assert!(operations.len() >= 10);
        for operation in operations {
            let answers = operation.responses.iter().filter(|answer| answer.class() != "3");
            let examples: Vec<&String> =
                operation.body_example.iter().chain(answers.filter_map(|answer| answer.example.as_ref())).collect();
            assert!(!examples.is_empty() || operation.id == "metrics", "{} shows nothing", operation.id);
            for example in examples {
                assert!(serde_json::from_str::<Value>(example).is_ok(), "{}: {example}", operation.id);
            }
        }
    }

    #[test]
    fn every_call_goes_to_the_configured_address() {
        for group in groups(&document()) {
            for operation in group.operations {
                assert!(operation.curl.contains("https://mail.example.com/posthorn/"), "{}", operation.curl);
                assert!(!operation.curl.contains('{') || operation.curl.contains("-d '"), "{}", operation.curl);
            }
        }
    }

    #[test]
    fn hostile_text_is_escaped_wherever_it_stands() {
        let bad = "<script>alert(1)</script>\"'&`<b>`";
        let operation = json!({
            "operationId": bad, "summary": bad, "description": bad, "tags": [bad],
            "parameters": [{"name": bad, "in": bad, "description": bad, "schema": {"type": bad, "example": bad}}],
            "requestBody": {"content": {"application/json": {"schema": {
                "type": "object", "properties": {bad: {"type": bad, "description": bad, "enum": [bad]}},
            }}}},
            "responses": {bad: {"description": bad, "content": {"application/json": {"example": {bad: bad}}}}},
            "security": [{bad: [bad]}],
        });
        let html = page(&json!({
            "info": {"title": bad, "version": bad, "description": bad},
            "servers": [{"url": bad}], "tags": [{"name": bad, "description": bad}],
            "paths": {bad: {"post": operation}},
        }));
        assert!(!html.contains("<script>alert") && !html.contains("<b>"), "{html}");
        assert!(html.contains("&#60;script&#62;alert"), "{html}");
    }

    #[test]
    fn descriptions_become_paragraphs_and_code() {
        let lines = prose("One `two` three.\n\n\n\nFour");
        assert_eq!(lines.len(), 2);
        let parts: Vec<(bool, &str)> = lines[0].iter().map(|span| (span.code, span.text.as_str())).collect();
        assert_eq!(parts, [(false, "One "), (true, "two"), (false, " three.")]);
    }
}
