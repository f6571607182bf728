//! How the API's description tells of rules: a tree that refers to itself, with a schema for each way to compare.

use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::rule::{MOST, Operator, Rule};

/// A schema, and what it is called.
pub type Named = (String, RefOr<Schema>);

const BY_VALUE: &[Operator] = &[Operator::Eq, Operator::Neq];
const BY_SIZE: &[Operator] = &[Operator::Gt, Operator::Gte, Operator::Lt, Operator::Lte];
const BY_TEXT: &[Operator] = &[Operator::Contains, Operator::StartsWith, Operator::EndsWith];
const BY_PRESENCE: &[Operator] = &[Operator::Exists, Operator::IsEmpty];

/// Text that is one of a few words.
pub fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
}

/// A rule on a field. What it compares with is given, and whether it has to be there.
pub fn leaf<'a>(
    operators: impl IntoIterator<Item = &'a str>,
    field: ObjectBuilder,
    value: Option<(ObjectBuilder, bool)>,
) -> ObjectBuilder {
    let rule = ObjectBuilder::new()
        .property("type", one_of(["rule"]))
        .property("field", field)
        .property("operator", one_of(operators))
        .required("type")
        .required("field")
        .required("operator");
    match value {
        Some((value, true)) => rule.property("value", value).required("value"),
        Some((value, false)) => rule.property("value", value),
        None => rule,
    }
}

/// The ways to compare what stands at a field; `prefix` begins their names.
pub fn comparisons(prefix: &str, field: impl Fn() -> ObjectBuilder) -> Vec<Named> {
    let of = |kind: Type| ObjectBuilder::new().schema_type(kind);
    let scalar = SchemaType::from_iter([Type::String, Type::Number, Type::Boolean, Type::Null]);
    let scalar = ObjectBuilder::new().schema_type(scalar).description(Some("Left out, it is null."));
    let rule = |name: &str, words: &str, operators: &[Operator], value: Option<(ObjectBuilder, bool)>| {
        let rule = leaf(operators.iter().map(|one| one.as_str()), field(), value);
        (format!("{prefix}{name}"), rule.description(Some(words)).into())
    };
    vec![
        rule("Equals", "Whether a field has a value. 1 is 1.0.", BY_VALUE, Some((scalar, false))),
        rule("Number", "Compares a number.", BY_SIZE, Some((of(Type::Number), true))),
        rule("Text", "Looks into a text; `contains` also into an array.", BY_TEXT, Some((of(Type::String), true))),
        rule("Presence", "Whether there is anything.", BY_PRESENCE, None),
    ]
}

/// Rules that are joined, of a tree whose schema has this name.
pub fn group(prefix: &str, tree: &str) -> Named {
    let rules = ArrayBuilder::new().items(Ref::from_schema_name(tree)).min_items(Some(1)).max_items(Some(MOST));
    let group = ObjectBuilder::new()
        .description(Some("Rules of which all (`and`) or at least one (`or`) must be met."))
        .property("type", one_of(["and", "or"]))
        .property("rules", rules)
        .required("type")
        .required("rules");
    (format!("{prefix}Group"), group.into())
}

/// One of these schemas, by their names.
fn one_of_these(names: &[Named]) -> OneOfBuilder {
    names.iter().fold(OneOfBuilder::new(), |choice, (name, _)| choice.item(Ref::from_schema_name(name)))
}

fn schemas() -> Vec<Named> {
    let field = || {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A value of the event's payload, `event.…`, or of the contact, `contact.…`."))
            .pattern(Some("^(event|contact)\\.[\\s\\S]"))
            .examples(["event.plan"])
    };
    let mut all = comparisons("Rule", field);
    all.push(group("Rule", &Rule::name()));
    all
}

impl PartialSchema for Rule {
    fn schema() -> RefOr<Schema> {
        let words = "A condition: one rule, or a tree of them.";
        one_of_these(&schemas()).description(Some(words)).into()
    }
}

impl ToSchema for Rule {
    fn name() -> std::borrow::Cow<'static, str> {
        "Rule".into()
    }

    fn schemas(all: &mut Vec<Named>) {
        all.extend(schemas());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn issue_15_every_operator_is_described_once_with_what_it_compares() {
        let described: Vec<Operator> = [BY_VALUE, BY_SIZE, BY_TEXT, BY_PRESENCE].concat();
        assert!(Operator::ALL.iter().all(|one| described.iter().filter(|other| *other == one).count() == 1));
        let schemas: Vec<Value> =
            schemas().iter().map(|(_, schema)| serde_json::to_value(schema).expect("JSON")).collect();
        for operator in Operator::ALL {
            let of = |schema: &&Value| {
                let words = schema["properties"]["operator"]["enum"].as_array();
                words.is_some_and(|words| words.contains(&json!(operator.as_str())))
            };
            let schema = schemas.iter().find(of).expect("a schema");
            for value in [json!("x"), json!(1), json!(true), Value::Null] {
                let rule = json!({"type": "rule", "field": "event.a", "operator": operator.as_str(), "value": value});
                let kinds = match &schema["properties"]["value"]["type"] {
                    Value::Array(kinds) => kinds.clone(),
                    Value::Null => vec![json!("string"), json!("number"), json!("boolean"), json!("null")],
                    one => vec![one.clone()],
                };
                let kind = ["string", "number", "boolean", "null"]
                    [[value.is_string(), value.is_number(), value.is_boolean()].iter().position(|is| *is).unwrap_or(3)];
                assert_eq!(Rule::parse(&rule, false).is_ok(), kinds.contains(&json!(kind)), "{rule}");
            }
        }
    }
}
