//! What is said of the types in the API's description, wherever they stand, so that programs that make code of it
//! make good code: words are enumerated, an object in which anything may stand says so, what has a default is still
//! optional, and what is always there has none.

use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, AllOfBuilder, ArrayItems, Object, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, RefOr, Schema};

use super::description::operations;

/// Mends every schema of a description.
pub fn mend(description: &mut OpenApi) {
    for schema in description.components.iter_mut().flat_map(|components| components.schemas.values_mut()) {
        visit(schema);
    }
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter {
                parameter.schema.iter_mut().for_each(visit);
            }
        }
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            body.content.values_mut().for_each(visit_content);
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.values_mut().for_each(visit_content);
            }
        }
    }
}

fn visit_content(content: &mut RefOr<Content>) {
    if let RefOr::T(content) = content {
        content.schema.iter_mut().for_each(visit);
    }
}

fn visit(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            object.properties.values_mut().for_each(visit);
            if let Some(AdditionalProperties::RefOr(values)) = object.additional_properties.as_deref_mut() {
                visit(values);
            }
            enumerate_words(object);
            allow_anything(object);
            free_defaults(object);
            drop_defaults_of_required(object);
        }
        RefOr::T(Schema::Array(array)) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                visit(items);
            }
        }
        RefOr::T(Schema::OneOf(choice)) => choice.items.iter_mut().for_each(visit),
        RefOr::T(Schema::AnyOf(choice)) => choice.items.iter_mut().for_each(visit),
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter_mut().for_each(visit),
        _ => {}
    }
}

/// A pattern such as `^(sqlite|postgres)$` is a list of words.
fn enumerate_words(object: &mut Object) {
    let Some(words) = object.pattern.as_deref().and_then(words_of) else { return };
    let null = has_type(object, &Type::Null).then_some(Value::Null);
    object.enum_values = Some(words.into_iter().map(Value::from).chain(null).collect());
    object.pattern = None;
}

fn words_of(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let grouped = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let words: Vec<String> = match grouped {
        Some(words) => words.split('|').map(str::to_owned).collect(),
        None => vec![inner.to_owned()],
    };
    let is_plain = |word: &String| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' '))
    };
    words.iter().all(is_plain).then_some(words)
}

/// An object of which nothing is said may hold anything; programs take it for an empty one.
fn allow_anything(object: &mut Object) {
    let is_open = object.properties.is_empty() && object.max_properties != Some(0);
    if is_open && object.additional_properties.is_none() && has_type(object, &Type::Object) {
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
    }
}

fn has_type(object: &Object, wanted: &Type) -> bool {
    match &object.schema_type {
        SchemaType::Type(one) => one == wanted,
        SchemaType::Array(several) => several.contains(wanted),
        SchemaType::AnyValue => false,
    }
}

/// Programs take a field with a default for one that is always there. In what is sent it need not be, so the default
/// stands with the type of the field, one step further in.
fn free_defaults(object: &mut Object) {
    let Object { properties, required, .. } = object;
    for (_, field) in properties.iter_mut().filter(|(name, _)| !required.contains(*name)) {
        match field {
            RefOr::T(Schema::OneOf(choice)) => {
                let Some(default) = choice.default.take() else { continue };
                match choice.items.first_mut() {
                    Some(RefOr::Ref(named)) => named.default = Some(default),
                    Some(RefOr::T(Schema::Object(first))) => first.default = Some(default),
                    _ => choice.default = Some(default),
                }
            }
            RefOr::T(Schema::Object(plain)) if plain.default.is_some() => {
                let described = plain.description.take();
                *field = match without_null(plain) {
                    true => {
                        let null = Object::with_type(Type::Null);
                        OneOfBuilder::new().item(plain.clone()).item(null).description(described).into()
                    }
                    false => AllOfBuilder::new().item(plain.clone()).description(described).into(),
                };
            }
            _ => {}
        }
    }
}

/// What is always there needs no default: one of a field that is read back from the store, too, says nothing to whoever
/// is answered.
fn drop_defaults_of_required(object: &mut Object) {
    let Object { properties, required, .. } = object;
    for (_, field) in properties.iter_mut().filter(|(name, _)| required.contains(*name)) {
        match field {
            RefOr::Ref(named) => named.default = None,
            RefOr::T(Schema::Object(plain)) => plain.default = None,
            RefOr::T(Schema::Array(array)) => array.default = None,
            RefOr::T(Schema::OneOf(choice)) => choice.default = None,
            RefOr::T(Schema::AnyOf(choice)) => choice.default = None,
            RefOr::T(Schema::AllOf(parts)) => parts.default = None,
            RefOr::T(_) => {}
        }
    }
}

/// Takes null from the types of a schema, and tells whether it was there.
fn without_null(object: &mut Object) -> bool {
    let SchemaType::Array(several) = &object.schema_type else { return false };
    let rest: Vec<Type> = several.iter().filter(|one| **one != Type::Null).cloned().collect();
    let had_null = rest.len() < several.len();
    object.schema_type = match rest.as_slice() {
        [only] => only.clone().into(),
        _ => SchemaType::Array(rest),
    };
    had_null
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mended(schema: Value) -> Value {
        let mut schema: RefOr<Schema> = serde_json::from_value(schema).expect("a schema");
        visit(&mut schema);
        serde_json::to_value(schema).expect("JSON")
    }

    #[test]
    fn issue_15_a_pattern_of_words_becomes_a_list_of_them() {
        let of = |pattern: &str| mended(json!({"type": "string", "pattern": pattern}));
        assert_eq!(of("^event$"), json!({"type": "string", "enum": ["event"]}));
        assert_eq!(of("^(MX|Receiving MX)$"), json!({"type": "string", "enum": ["MX", "Receiving MX"]}));
        for other in ["^[a-z]$", "^(a|b+)$", "^whsec_", "^$", "^(a|)$", "a", "^a.b$"] {
            assert_eq!(of(other), json!({"type": "string", "pattern": other}));
        }
        let nullable = mended(json!({"type": ["string", "null"], "pattern": "^(a|b)$"}));
        assert_eq!(nullable["enum"], json!(["a", "b", null]));
    }

    #[test]
    fn issue_15_an_object_of_anything_says_so() {
        assert_eq!(mended(json!({"type": "object"})), json!({"type": "object", "additionalProperties": true}));
        let known = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert_eq!(mended(known.clone()), known);
        let empty = json!({"type": "object", "maxProperties": 0});
        assert_eq!(mended(empty.clone()), empty);
    }

    #[test]
    fn issue_15_a_field_with_a_default_stays_optional_for_programs() {
        let schema = mended(json!({"type": "object", "required": ["c", "d"], "properties": {
            "a": {"type": ["boolean", "null"], "default": false, "description": "A."},
            "b": {"type": "string", "default": "x"},
            "c": {"type": "string", "default": "x"},
            "d": {"$ref": "#/components/schemas/D", "default": "x"},
        }}));
        let fields = &schema["properties"];
        assert_eq!(
            fields["a"],
            json!({"oneOf": [{"type": "boolean", "default": false}, {"type": "null"}], "description": "A."})
        );
        assert_eq!(fields["b"], json!({"allOf": [{"type": "string", "default": "x"}]}));
        assert_eq!(fields["c"], json!({"type": "string"}), "what is always there needs none");
        assert_eq!(fields["d"], json!({"$ref": "#/components/schemas/D"}));
    }

    /// Whether a pattern says nothing but words: `^(a|b)(,(a|b))*$` and `^(a|b)?$`, too.
    fn is_made_of_words(pattern: &str) -> bool {
        let sign = |char: char| !char.is_ascii_alphanumeric() && !matches!(char, '_' | '-' | ' ');
        let inner = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
        inner.is_some_and(|inner| inner.chars().filter(|char| sign(*char)).all(|char| "()|,?*+".contains(char)))
    }

    #[test]
    fn issue_15_words_are_known_in_every_pattern() {
        for words in ["^event$", "^(a|b)$", "^(a|b)?$", "^(a|b_c)(,(a|b_c))*$", "^(a|)$"] {
            assert!(is_made_of_words(words), "{words}");
        }
        for other in ["^whsec_", "^[a-z]$", "^#[0-9A-Fa-f]{6}$", "@", "^(capture|direct|smtps?://.+)$"] {
            assert!(!is_made_of_words(other), "{other}");
        }
    }

    /// What the whole description must not hold.
    #[test]
    fn issue_15_no_type_of_the_description_is_left_to_be_guessed() {
        let document = crate::product::openapi("https://posthorn.example");
        let mut waiting = vec![&document["components"]["schemas"], &document["paths"]];
        while let Some(value) = waiting.pop() {
            if let Some(pattern) = value["pattern"].as_str() {
                assert!(!is_made_of_words(pattern), "{value}");
            }
            if value["type"] == "object" && value.get("properties").is_none() && value["maxProperties"] != 0 {
                assert!(value.get("additionalProperties").is_some(), "{value}");
            }
            let required = value["required"].as_array().cloned().unwrap_or_default();
            for (name, field) in value["properties"].as_object().into_iter().flatten() {
                // One that is optional stands a step further in, and one that is required has none anywhere.
                assert!(field.get("default").is_none(), "{name}: {field}");
                let mut inner =
                    ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|kind| field[kind].as_array()).flatten();
                let has_default = inner.any(|part| part.get("default").is_some());
                assert!(!(has_default && required.contains(&json!(name))), "{name}: {field}");
            }
            // A parameter says so beside its schema.
            let is_always_there = value["required"] == true && value["schema"].get("default").is_some();
            assert!(!is_always_there, "{value}");
            match value {
                Value::Object(fields) => waiting.extend(fields.values()),
                Value::Array(items) => waiting.extend(items),
                _ => {}
            }
        }
        let step = &document["components"]["schemas"]["AutomationStep"];
        assert_eq!(step["discriminator"]["propertyName"], "type");
        assert_eq!(step["oneOf"].as_array().map(Vec::len), Some(10));
    }
}
