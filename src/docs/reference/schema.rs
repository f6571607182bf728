//! JSON schemas in words: what kind of value, which limits, and an example.

use serde_json::{Map, Value, json};

use super::{Fields, Kind, Row, prose, text};

/// How deep schemas are followed: one that refers to itself has no end.
const DEPTH: usize = 6;

/// The schemas that a document names.
#[derive(Clone, Copy)]
pub(super) struct Schemas<'a> {
    document: &'a Value,
}

impl<'a> Schemas<'a> {
    pub(super) fn of(document: &'a Value) -> Schemas<'a> {
        Schemas { document }
    }

    /// Follows references to what they refer to.
    fn resolve(self, schema: &'a Value) -> &'a Value {
        let mut found = schema;
        for _ in 0..DEPTH {
            let Some(target) = found.get("$ref").and_then(Value::as_str) else { break };
            found = target.strip_prefix('#').and_then(|path| self.document.pointer(path)).unwrap_or(&Value::Null);
        }
        found
    }

    /// The alternatives that a schema allows; itself, where there is no choice.
    fn alternatives(self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.resolve(schema);
        let choice = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array);
        match choice {
            // A choice that may be null as well has its alternatives one step further in.
            Some(choice) if choice.iter().any(|one| one["type"] == "null") => {
                choice.iter().flat_map(|one| self.alternatives(one)).collect()
            }
            Some(choice) => choice.iter().map(|one| self.resolve(one)).collect(),
            None => vec![schema],
        }
    }

    /// What an alternative is known by: the word that its `type` must be, or its title.
    fn label(alternative: &Value) -> Option<String> {
        let word = &alternative["properties"]["type"]["enum"];
        let words =
            word.as_array().map(|words| words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "));
        words.or_else(|| alternative["title"].as_str().map(str::to_owned))
    }

    /// The schema that says most: not `null`, not a reference in a wrapper.
    fn main(self, schema: &'a Value) -> &'a Value {
        let all = self.alternatives(schema);
        let first = all.iter().find(|one| one["type"] != "null").copied().unwrap_or(&Value::Null);
        match first["allOf"].as_array().map(Vec::as_slice) {
            Some([only]) if first.get("properties").is_none() => self.resolve(only),
            _ => first,
        }
    }

    /// The type in words: `string`, `object | null`, `array of string`.
    pub(super) fn kind(self, schema: &'a Value) -> String {
        self.kind_within(schema, DEPTH)
    }

    fn kind_within(self, schema: &'a Value, depth: usize) -> String {
        let mut words: Vec<String> = Vec::new();
        for one in self.alternatives(schema) {
            let types: Vec<&str> = match &one["type"] {
                Value::String(name) => vec![name],
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                _ if one.get("allOf").is_some() || one.get("properties").is_some() => vec!["object"],
                _ => vec!["any"],
            };
            for name in types {
                let word = match one.get("items") {
                    Some(items) if name == "array" && depth > 0 => {
                        format!("array of {}", self.kind_within(items, depth - 1))
                    }
                    _ => name.to_owned(),
                };
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        words.join(" | ")
    }

    /// The example that a schema gives, or one made from what it allows.
    pub(super) fn example(self, schema: &'a Value) -> Value {
        self.example_within(schema, DEPTH)
    }

    /// The example that a schema gives of itself: a choice may give one, and what may also be null is in a wrapper.
    fn given(self, schema: &'a Value) -> Option<&'a Value> {
        let schema = self.resolve(schema);
        let first = |name: &str| schema.get(name).and_then(|all| all.get(0));
        let inner = || match choice(schema).as_slice() {
            [only] => self.given(only),
            _ => None,
        };
        schema.get("example").or(first("examples")).or_else(inner)
    }

    fn example_within(self, schema: &'a Value, depth: usize) -> Value {
        if let Some(value) = self.given(schema) {
            return value.clone();
        }
        let schema = self.main(schema);
        let first = |name: &str| schema.get(name).and_then(|all| all.get(0));
        let given = schema.get("example").or(first("examples")).or(schema.get("const")).or(schema.get("default"));
        if let Some(value) = given.or(first("enum")) {
            return value.clone();
        }
        if depth == 0 {
            return Value::Null;
        }
        let kind = match &schema["type"] {
            Value::Array(names) => names.first().unwrap_or(&Value::Null),
            kind => kind,
        };
        match kind.as_str().unwrap_or_default() {
            "string" => Value::String(example_text(schema)),
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
            "boolean" => json!(false),
            "array" => json!([self.example_within(&schema["items"], depth - 1)]),
            _ => {
                let fields = properties(self, schema);
                let fields = fields.map(|(name, field)| (name.clone(), self.example_within(field, depth - 1)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

/// The fields of an object, those of its parts included.
fn properties<'a>(schemas: Schemas<'a>, schema: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let parts = schema["allOf"].as_array().into_iter().flatten().map(|part| schemas.resolve(part));
    let parts: Vec<&'a Value> = std::iter::once(schema).chain(parts).collect();
    parts.into_iter().filter_map(|part| part["properties"].as_object()).flatten()
}

fn example_text(schema: &Value) -> String {
    match schema["format"].as_str().unwrap_or_default() {
        "uuid" => "0199c5d2-7e3a-7c41-9d52-3f6f1c0b8a71".into(),
        "date-time" => "2026-01-15T09:30:00.000000Z".into(),
        "uri" => "https://app.example/callback".into(),
        _ => "text".into(),
    }
}

/// Named types that were met, in that order; each is told once.
#[derive(Default)]
pub(super) struct Told(Vec<String>);

impl Told {
    fn note(&mut self, name: &str) -> String {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
        name.to_owned()
    }
}

/// What is known of the fields of a body, those of inner objects behind a dot. What has a name is told under it.
pub(super) fn fields<'a>(schemas: Schemas<'a>, schema: &'a Value, told: &mut Told) -> Fields {
    let (schema, prefix) = match schemas.main(schema).get("items") {
        Some(items) => (items, "[]."),
        None => (schema, ""),
    };
    fields_below(schemas, schema, prefix, told)
}

fn fields_below<'a>(schemas: Schemas<'a>, schema: &'a Value, prefix: &str, told: &mut Told) -> Fields {
    let mut rows = Vec::new();
    let choices = add_rows(schemas, schema, prefix, DEPTH, &mut rows, told);
    Fields { choices, rows }
}

/// The same of an answer: where it has a name, all of it is told under that.
pub(super) fn answer_fields<'a>(schemas: Schemas<'a>, schema: &'a Value, told: &mut Told) -> Fields {
    match named(schemas, schema) {
        Some(name) => Fields { choices: vec![told.note(name)], rows: Vec::new() },
        None => fields(schemas, schema, told),
    }
}

/// The types that were met, and those that they are made of themselves.
pub(super) fn types(schemas: Schemas<'_>, mut told: Told) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Some(name) = told.0.get(kinds.len()).cloned() {
        let schema = &schemas.document["components"]["schemas"][&name];
        let fields = fields_below(schemas, schema, "", &mut told);
        kinds.push(Kind { name, description: prose(&schema.get("description").map(text).unwrap_or_default()), fields });
    }
    kinds
}

/// The parts of a choice, but for null; none where there is no choice.
fn choice(schema: &Value) -> Vec<&Value> {
    let parts = ["oneOf", "anyOf"].into_iter().find_map(|name| schema[name].as_array());
    parts.into_iter().flatten().filter(|part| part["type"] != "null").collect()
}

/// The name under which a schema's fields are told, where it has one.
fn named<'a>(schemas: Schemas<'a>, schema: &'a Value) -> Option<&'a str> {
    let all_of = schema["allOf"].as_array().map(|parts| parts.iter().collect());
    let parts: Vec<&Value> = Some(choice(schema)).filter(|parts| !parts.is_empty()).or(all_of).unwrap_or(vec![schema]);
    let [only] = parts.as_slice() else { return None };
    let name = only.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")?;
    let has_fields = |one: &&Value| properties(schemas, one).next().is_some();
    schemas.alternatives(only).iter().any(has_fields).then_some(name)
}

/// Adds a row for every field; returns the names of types of which it may also be one.
fn add_rows<'a>(
    schemas: Schemas<'a>,
    schema: &'a Value,
    prefix: &str,
    depth: usize,
    rows: &mut Vec<Row>,
    told: &mut Told,
) -> Vec<String> {
    let parts = choice(schemas.resolve(schema));
    if depth == 0 || parts.len() < 2 {
        if depth > 0 {
            add_fields(schemas, schemas.main(schema), prefix, depth, rows, told);
        }
        return Vec::new();
    }
    let mut names = Vec::new();
    for part in parts {
        match named(schemas, part) {
            Some(name) => names.push(told.note(name)),
            None => {
                let part = schemas.main(part);
                let label = Schemas::label(part).map_or(prefix.to_owned(), |label| labelled(prefix, &label));
                add_fields(schemas, part, &label, depth, rows, told);
            }
        }
    }
    names
}

/// `steps[].` becomes `steps[] (delay).`
fn labelled(prefix: &str, label: &str) -> String {
    format!("{} ({label}).", prefix.strip_suffix('.').unwrap_or(prefix)).trim_start().to_owned()
}

fn add_fields<'a>(
    schemas: Schemas<'a>,
    object: &'a Value,
    prefix: &str,
    depth: usize,
    rows: &mut Vec<Row>,
    told: &mut Told,
) {
    let required: Vec<&str> = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in properties(schemas, object) {
        let full = format!("{prefix}{name}");
        let (inner, below) = match field.get("items") {
            Some(items) => (items, format!("{full}[].")),
            None => (field, format!("{full}.")),
        };
        let at = rows.len();
        rows.push(row(schemas, &full, field, required.contains(&name.as_str())));
        rows[at].told_at = match named(schemas, inner) {
            Some(name) => vec![told.note(name)],
            None => add_rows(schemas, inner, &below, depth - 1, rows, told),
        };
    }
    if let Some(values) = object.get("additionalProperties").filter(|values| values.is_object()) {
        let mut any = row(schemas, &format!("{prefix}*"), values, false);
        if any.description.is_empty() {
            any.description = prose("Any key.");
        }
        rows.push(any);
    }
}

fn row<'a>(schemas: Schemas<'a>, name: &str, field: &'a Value, required: bool) -> Row {
    let described = description(schemas, field);
    let limits = limits(schemas, field, &described);
    Row {
        name: name.to_owned(),
        place: String::new(),
        required,
        kind: schemas.kind(field),
        told_at: Vec::new(),
        description: prose(format!("{described} {limits}").trim()),
    }
}

/// What a field says of itself, or else what its schema says.
fn description<'a>(schemas: Schemas<'a>, field: &'a Value) -> String {
    let own = field.get("description");
    let choice = field["oneOf"].as_array().into_iter().flatten().find_map(|one| one.get("description"));
    own.or(choice).or(schemas.main(field).get("description")).map(text).unwrap_or_default()
}

/// The limits that a schema sets, as sentences, but for those that the
/// description has already said.
pub(super) fn limits<'a>(schemas: Schemas<'a>, schema: &'a Value, described: &str) -> String {
    let parts = ["oneOf", "allOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
    let default = std::iter::once(schema).chain(parts).find_map(|part| part.get("default"));
    let schema = schemas.main(schema);
    let bounds = |least: &str, most: &str| (schema[least].as_u64(), schema[most].as_u64());
    let span = |(least, most): (Option<u64>, Option<u64>), unit: &str| match (least, most) {
        (Some(least), Some(most)) => Some(format!("{least} to {most} {unit}.")),
        (Some(1), None) => Some("Not empty.".into()),
        (Some(least), None) => Some(format!("At least {least} {unit}.")),
        (None, Some(most)) => Some(format!("At most {most} {unit}.")),
        (None, None) => None,
    };
    let code = |value: &Value| format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let choice = schema["enum"].as_array().map(|all| match all.as_slice() {
        [only] => format!("Must be {}.", code(only)),
        several => format!("One of {}.", several.iter().map(code).collect::<Vec<_>>().join(", ")),
    });
    let format = match schema["format"].as_str().unwrap_or_default() {
        "uuid" => Some("A UUID.".to_owned()),
        "date-time" => Some("RFC 3339.".to_owned()),
        _ => None,
    };
    let number = match bounds("minimum", "maximum") {
        (Some(least), Some(most)) => Some(format!("From {least} to {most}.")),
        _ => None,
    };
    let sentences = [
        choice,
        format,
        number,
        span(bounds("minLength", "maxLength"), "characters"),
        span(bounds("minItems", "maxItems"), "items"),
        span(bounds("minProperties", "maxProperties"), "keys"),
        default.or(schema.get("default")).map(|value| format!("Default {}.", code(value))),
    ];
    let new = sentences.into_iter().flatten().filter(|sentence| !described.contains(sentence.as_str()));
    new.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({"components": {"schemas": {
            "Pair": {"type": "object", "required": ["left"], "properties": {
                "left": {"type": "string", "minLength": 1, "maxLength": 9, "description": "The left one."},
                "more": {"type": "array", "items": {"$ref": "#/components/schemas/Pair"}},
            }},
            "Map": {"type": "object", "maxProperties": 3, "additionalProperties": {"enum": ["a", "b"], "type": "string"}},
            "Both": {"allOf": [{"$ref": "#/components/schemas/Map"}, {"properties": {"x": {"const": 7}}}]},
        }}})
    }

    #[test]
    fn kinds_are_said_in_words() {
        let document = document();
        let schemas = Schemas::of(&document);
        for (schema, words) in [
            (json!({"type": "string"}), "string"),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"oneOf": [{"$ref": "#/components/schemas/Map"}, {"type": "null"}]}), "object | null"),
            (json!({"type": "array", "items": {"type": "string"}}), "array of string"),
            (json!({"type": ["array", "null"], "items": {"type": "string"}}), "array of string | null"),
            (json!({"$ref": "#/components/schemas/Both"}), "object"),
            (json!({"$ref": "#/components/schemas/Nowhere"}), "any"),
            (json!({}), "any"),
        ] {
            assert_eq!(schemas.kind(&schema), words, "{schema}");
        }
    }

    #[test]
    fn examples_are_made_where_none_is_given_and_end_even_in_a_circle() {
        let document = document();
        let schemas = Schemas::of(&document);
        for (schema, value) in [
            (json!({"type": "string", "enum": ["code"]}), json!("code")),
            (json!({"type": "string", "examples": ["x"]}), json!("x")),
            (json!({"type": "integer", "minimum": 3}), json!(3)),
            (json!({"$ref": "#/components/schemas/Both"}), json!({"x": 7})),
            (json!({"oneOf": [{"type": "null"}, {"type": "boolean"}]}), json!(false)),
            (json!({"oneOf": [{"type": "string"}, {"type": "boolean"}], "examples": [true]}), json!(true)),
            (json!({"oneOf": [{"oneOf": [{}, {}], "example": 2}, {"type": "null"}]}), json!(2)),
        ] {
            assert_eq!(schemas.example(&schema), value, "{schema}");
        }
        let circle = schemas.example(&json!({"$ref": "#/components/schemas/Pair"}));
        assert_eq!(circle["more"][0]["left"], "text");
    }

    #[test]
    fn rows_name_inner_fields_and_limits() {
        let document = document();
        let schemas = Schemas::of(&document);
        let schema = json!({"type": "object", "properties": {
            "pair": {"$ref": "#/components/schemas/Pair"},
            "map": {"oneOf": [{"$ref": "#/components/schemas/Map"}, {"type": "null"}]},
        }});
        let mut told = Told::default();
        let rows = fields(schemas, &schema, &mut told).rows;
        let kinds = types(schemas, told);
        assert_eq!(kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(), ["Pair"]);
        let all: Vec<&Row> = rows.iter().chain(&kinds[0].fields.rows).collect();
        let find = |name: &str| *all.iter().find(|row| row.name == name).expect(name);
        assert!(find("left").required && !find("pair").required);
        assert_eq!(find("pair").told_at, ["Pair"]);
        assert_eq!(find("more").told_at, ["Pair"]);
        let words: String = find("left").description.iter().flatten().map(|span| span.text.as_str()).collect();
        assert_eq!(words, "The left one. 1 to 9 characters.");
        let words: String = find("map.*").description.iter().flatten().map(|span| span.text.as_str()).collect();
        assert_eq!(words, "One of a, b.");
    }

    #[test]
    fn issue_15_alternatives_are_told_apart_and_a_tree_is_told_once() {
        let document = json!({"components": {"schemas": {
            "Tree": {"oneOf": [{"$ref": "#/components/schemas/Leaf"}, {"$ref": "#/components/schemas/Branch"}]},
            "Leaf": {"type": "object", "properties": {
                "type": {"type": "string", "enum": ["leaf"]}, "value": {"type": "string"}}},
            "Branch": {"type": "object", "properties": {
                "type": {"type": "string", "enum": ["all", "any"]},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}},
        }}});
        let schemas = Schemas::of(&document);
        let schema =
            json!({"properties": {"rule": {"oneOf": [{"$ref": "#/components/schemas/Tree"}, {"type": "null"}]}}});
        let mut told = Told::default();
        let rows = fields(schemas, &schema, &mut told).rows;
        assert_eq!((rows.len(), rows[0].name.as_str()), (1, "rule"));
        assert_eq!(rows[0].told_at, ["Tree"]);
        let kinds = types(schemas, told);
        assert_eq!(kinds[0].fields.choices, ["Leaf", "Branch"]);
        let names: Vec<&str> = kinds.iter().flat_map(|kind| &kind.fields.rows).map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["type", "value", "type", "parts"]);
        assert_eq!(kinds[2].fields.rows[1].told_at, ["Tree"]);
    }
}
