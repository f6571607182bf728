//! The API reference: a page for each resource, made from the API's own description.

mod calls;
mod operation;
mod schema;

use serde_json::Value;

use super::markdown::{anchor, snippet};
use super::{Catalogue, Heading};
pub use calls::Call;
use calls::Sample;
use schema::{Schemas, Told};

/// Everything about one resource, which the description calls a tag.
pub struct Resource {
    pub name: String,
    pub description: Vec<Line>,
    pub operations: Vec<Operation>,
    /// What all of its operations may refuse.
    pub refusals: Vec<Answer>,
    /// Named types that bodies and answers are made of, each told once.
    pub types: Vec<Kind>,
}

pub struct Kind {
    pub name: String,
    pub description: Vec<Line>,
    pub fields: Fields,
}

/// What a value holds.
#[derive(Default)]
pub struct Fields {
    /// Named types, of which it is one.
    pub choices: Vec<String>,
    pub rows: Vec<Row>,
}

impl Fields {
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty() && self.rows.is_empty()
    }
}

pub struct Operation {
    /// Unique in the description; becomes the anchor.
    pub id: String,
    pub method: String,
    pub path: String,
    pub summary: String,
    pub description: Vec<Line>,
    pub auth: String,
    pub parameters: Vec<Row>,
    pub body: Fields,
    pub calls: Vec<Sample>,
    /// What it answers where all is well.
    pub answers: Vec<Answer>,
    /// What it may refuse beside that.
    pub refusals: Vec<Answer>,
}

impl Operation {
    pub fn verb_class(&self) -> &'static str {
        verb_class(&self.method)
    }
}

/// The badge's colour; a method without one of its own is plain.
fn verb_class(method: &str) -> &'static str {
    match method {
        "GET" => "get",
        "POST" => "post",
        "PUT" | "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// A parameter or a field of a body; `place` is empty for the latter.
pub struct Row {
    pub name: String,
    pub place: String,
    pub required: bool,
    pub kind: String,
    /// The types that tell its fields.
    pub told_at: Vec<String>,
    pub description: Vec<Line>,
}

pub struct Answer {
    pub status: String,
    pub description: Line,
    pub example: Option<String>,
    pub fields: Fields,
}

impl Answer {
    fn is_refusal(&self) -> bool {
        matches!(self.class(), "4" | "5") || self.status == "default"
    }

    pub fn example_html(&self) -> Option<String> {
        self.example.as_ref().map(|example| snippet("json", example))
    }

    /// First digit of the status: the colour it is shown in.
    pub fn class(&self) -> &str {
        self.status.get(..1).unwrap_or_default()
    }
}

pub type Line = Vec<Span>;

/// A stretch of a description, as code or as plain words.
#[derive(Clone, PartialEq)]
pub struct Span {
    pub code: bool,
    pub text: String,
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

impl Resource {
    /// The resource of this name.
    pub fn new(document: &Value, name: &str) -> Resource {
        let tags = document["tags"].as_array().into_iter().flatten();
        let mut described = tags.filter(|tag| tag["name"] == name).map(|tag| text(&tag["description"]));
        let mut told = Told::default();
        let mut operations = operation::of(document, name, &mut told);
        Resource {
            name: name.to_owned(),
            description: prose(&described.next().unwrap_or_default()),
            refusals: shared_refusals(&mut operations),
            operations,
            types: schema::types(Schemas::of(document), told),
        }
    }
}

/// Takes out of all operations what each of them may refuse in the same words.
fn shared_refusals(operations: &mut [Operation]) -> Vec<Answer> {
    let [first, others @ ..] = operations else { return Vec::new() };
    let is_same = |one: &Answer, other: &Answer| (&one.status, &one.description) == (&other.status, &other.description);
    let shared = first.refusals.extract_if(.., |one| {
        others.iter().all(|operation| operation.refusals.iter().any(|other| is_same(one, other)))
    });
    let shared: Vec<Answer> = shared.collect();
    for operation in others {
        operation.refusals.retain(|one| !shared.iter().any(|other| is_same(one, other)));
    }
    shared
}

/// Every resource with its operations, in the order in which the description declares them.
pub fn catalogue(document: &Value) -> Catalogue {
    let names = document["tags"].as_array().into_iter().flatten().map(|tag| text(&tag["name"]));
    let resources = names.map(|name| Heading {
        slug: anchor(&name),
        operations: operation::listed(document, &name).collect(),
        name,
    });
    Catalogue { resources: resources.filter(|resource| !resource.operations.is_empty()).collect() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use askama::Template;
    use serde_json::json;

    use super::super::{Frame, ResourcePage};
    use super::*;
    use crate::web::Layout;

    fn document() -> Value {
        crate::product::openapi("https://mail.example.com/posthorn")
    }

    fn resources(document: &Value) -> Vec<Resource> {
        let found = catalogue(document).resources;
        found.iter().map(|heading| Resource::new(document, &heading.name)).collect()
    }

    fn page(resource: Resource) -> String {
        let frame = Frame {
            docs: "/docs".into(),
            script: String::new(),
            question: String::new(),
            guides: Vec::new(),
            resources: Vec::new(),
        };
        let page = ResourcePage { layout: Layout::sample(), frame, resource, errors: "/docs/errors".into() };
        page.render().expect("a page")
    }

    #[test]
    fn every_operation_appears_once_and_types_lead_somewhere() {
        let document = document();
        let html: String = resources(&document).into_iter().map(page).collect();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for operation in item.as_object().expect("operations").values() {
                let id = operation["operationId"].as_str().expect("an id");
                assert_eq!(html.matches(&format!("<article class=\"op\" id=\"{id}\"")).count(), 1, "{id}");
                assert!(html.contains(&format!("<code>{path}</code>")), "{path}");
            }
        }
        for resource in resources(&document) {
            let (name, html) = (resource.name.clone(), page(resource));
            for rest in html.split("href=\"#type-").skip(1) {
                let id = rest.split('"').next().expect("an end");
                assert!(html.contains(&format!("id=\"type-{id}\"")), "{name}: {id}");
            }
        }
    }

    #[test]
    fn steps_and_rules_are_told_with_what_they_take() {
        let document = document();
        let types = Resource::new(&document, "Automations").types;
        let of = |name: &str| types.iter().find(|kind| kind.name == name).expect(name);
        assert!(of("AutomationStep").fields.choices.len() >= 10);
        for (step, field) in
            [("DelayStep", "config.duration"), ("WaitForEventStep", "config.timeout"), ("WebhookStep", "config.url")]
        {
            assert!(of(step).fields.rows.iter().any(|row| row.name == field), "{step} {field}");
        }
        let mut words = String::new();
        for rule in &of("Rule").fields.choices {
            let rows = of(rule).fields.rows.iter().filter(|row| row.name == "operator");
            words.extend(rows.flat_map(|row| row.description.iter().flatten()).map(|span| span.text.as_str()));
        }
        assert!(words.contains("starts_with") && words.contains("is_empty"), "{words}");
    }

    #[test]
    fn every_example_is_json_and_shown_in_every_language() {
        for operation in resources(&document()).into_iter().flat_map(|resource| resource.operations) {
            let examples = operation.answers.iter().filter(|answer| answer.class() != "3");
            for example in examples.filter_map(|answer| answer.example.as_ref()) {
                assert!(serde_json::from_str::<Value>(example).is_ok(), "{}: {example}", operation.id);
            }
            let languages: Vec<&str> = operation.calls.iter().map(|call| call.language).collect();
            assert_eq!(languages, ["curl", "Node", "Python", "Rust", "Command line"], "{}", operation.id);
            for call in &operation.calls {
                assert!(call.code.contains("https://mail.example.com/posthorn"), "{}", call.code);
            }
            let curl = &operation.calls[0].code;
            assert!(!curl.contains('{') || curl.contains("-d '"), "{curl}");
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
        let document = json!({
            "info": {"title": bad, "version": bad, "description": bad},
            "servers": [{"url": bad}], "tags": [{"name": bad, "description": bad}],
            "paths": {bad: {"post": operation}},
        });
        let html = page(Resource::new(&document, bad));
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
