//! An operation of the API as a tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::catalogue::{Entry, Risk, TOOLS};
use super::schema::Definitions;

/// Where the API takes an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Key,
    Body,
}

/// What stands in for the header of the same name.
const KEY: &str = "idempotency_key";

pub struct ApiTool {
    /// As assistants are told of it.
    pub told: Tool,
    pub method: Method,
    /// Its parameters stand in braces.
    pub path: String,
    pub arguments: BTreeMap<String, Place>,
    pub has_body: bool,
    /// Whether it lists something, a page at a time.
    pub is_list: bool,
}

/// By name.
pub type Tools = BTreeMap<&'static str, ApiTool>;

/// The tools of an API that describes itself by this document.
pub fn tools(document: &Value) -> Tools {
    let operations: BTreeMap<&str, (&str, &str, &Value)> = operations(document).collect();
    TOOLS
        .iter()
        .filter_map(|entry| Some((entry.operation, of(entry, document, operations.get(entry.operation)?)?)))
        .collect()
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, (&str, &str, &Value))> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.filter_map(|(method, operation)| {
            Some((operation["operationId"].as_str()?, (method.as_str(), path.as_str(), operation)))
        })
    })
}

fn of(entry: &Entry, document: &Value, (method, path, operation): &(&str, &str, &Value)) -> Option<ApiTool> {
    let mut definitions = Definitions::of(document);
    let mut fields = Fields::default();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        fields.add_parameter(parameter, &mut definitions);
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        fields.add_body(definitions.resolve(body), entry.without, &mut definitions)?;
    }
    let Fields { properties, required, places } = fields;
    let mut schema = JsonObject::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    schema.insert("required".into(), required.into());
    schema.insert("additionalProperties".into(), false.into());
    let gathered = definitions.into_gathered();
    if !gathered.is_empty() {
        schema.insert("$defs".into(), gathered.into());
    }
    let text = |name: &str| operation[name].as_str().unwrap_or_default();
    let description = [text("description"), entry.advice].join("\n\n");
    let told = Tool::new(entry.operation, description.trim().to_owned(), Arc::new(schema))
        .with_title(text("summary"))
        .with_annotations(hints(entry.risk));
    Some(ApiTool {
        told,
        method: method.to_ascii_uppercase().parse().ok()?,
        path: (*path).to_owned(),
        is_list: places.get("limit") == Some(&Place::Query),
        arguments: places,
        has_body: !body.is_null(),
    })
}

fn hints(risk: Risk) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(risk == Risk::Reads)
        .destructive(matches!(risk, Risk::Changes | Risk::Sends))
        .idempotent(matches!(risk, Risk::Reads | Risk::Changes))
        .open_world(risk == Risk::Sends)
}

/// The arguments of a tool as they are gathered.
#[derive(Default)]
struct Fields {
    properties: Map<String, Value>,
    required: Vec<Value>,
    places: BTreeMap<String, Place>,
}

impl Fields {
    fn add_parameter(&mut self, parameter: &Value, definitions: &mut Definitions) {
        let Some(name) = parameter["name"].as_str() else { return };
        let (name, place) = match parameter["in"].as_str() {
            Some("path") => (name, Place::Path),
            Some("query") => (name, Place::Query),
            _ if name == "Idempotency-Key" => (KEY, Place::Key),
            _ => return,
        };
        let mut schema = definitions.adopt(&parameter["schema"]);
        if let (Some(schema), Some(description)) = (schema.as_object_mut(), parameter.get("description")) {
            schema.entry("description").or_insert_with(|| description.clone());
        }
        self.add(name, schema, place, parameter["required"] == json!(true));
    }

    /// The fields of a body; none where it is no object.
    fn add_body(&mut self, body: &Value, without: &[&str], definitions: &mut Definitions) -> Option<()> {
        let required = body["required"].as_array();
        for (name, schema) in body["properties"].as_object()? {
            // A field that a parameter shares its name with could not be told from it.
            if without.contains(&name.as_str()) || self.places.contains_key(name) {
                continue;
            }
            let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
            let schema = definitions.adopt(schema);
            self.add(name, schema, Place::Body, is_required);
        }
        Some(())
    }

    fn add(&mut self, name: &str, schema: Value, place: Place, is_required: bool) {
        self.properties.insert(name.to_owned(), schema);
        if is_required {
            self.required.push(name.into());
        }
        self.places.insert(name.to_owned(), place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        crate::product::openapi("https://posthorn.example")
    }

    #[test]
    fn every_entry_of_the_catalogue_is_a_tool() {
        let document = document();
        let tools = tools(&document);
        for entry in TOOLS {
            assert!(tools.contains_key(entry.operation), "{}", entry.operation);
        }
        assert_eq!(tools.len(), TOOLS.len(), "one is there twice");
    }

    #[test]
    fn a_tool_takes_what_its_operation_takes() {
        let document = document();
        let tools = tools(&document);
        for (name, (_, _, operation)) in operations(&document) {
            let Some(tool) = tools.get(name) else { continue };
            let entry = TOOLS.iter().find(|entry| entry.operation == name).expect("an entry");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter = parameter["name"].as_str().expect("a name").replace("Idempotency-Key", KEY);
                assert!(tool.arguments.contains_key(&parameter), "{name} lacks {parameter}");
            }
            let definitions = Definitions::of(&document);
            let body = definitions.resolve(&operation["requestBody"]["content"]["application/json"]["schema"]);
            for field in body["properties"].as_object().into_iter().flatten().map(|(field, _)| field) {
                let is_kept_back = entry.without.contains(&field.as_str());
                let taken = tool.arguments.get(field.as_str());
                assert_eq!(taken, (!is_kept_back).then_some(&Place::Body), "{name} {field}");
            }
        }
    }

    #[test]
    fn every_reference_of_a_tool_leads_somewhere_within_it() {
        for (name, tool) in tools(&document()) {
            let schema = Value::Object(tool.told.input_schema.as_ref().clone());
            let mut waiting = vec![&schema];
            while let Some(value) = waiting.pop() {
                match value {
                    Value::Object(fields) => {
                        if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
                            let found = schema.pointer(target.trim_start_matches('#'));
                            assert!(found.is_some_and(Value::is_object), "{name}: {target}");
                        }
                        waiting.extend(fields.values());
                    }
                    Value::Array(items) => waiting.extend(items),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn what_only_reads_is_a_get_or_a_dry_run_and_what_deletes_is_marked() {
        for (name, tool) in tools(&document()) {
            let hints = tool.told.annotations.as_ref().expect("hints");
            let is_dry_run = name.starts_with("validate_") || name.starts_with("preview_");
            assert_eq!(hints.read_only_hint, Some(tool.method == Method::GET || is_dry_run), "{name}");
            if tool.method == Method::DELETE || name.starts_with("send_") {
                assert_eq!(hints.destructive_hint, Some(true), "{name}");
            }
        }
    }
}
