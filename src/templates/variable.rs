//! The variables that a template declares: their types, and what stands in for a value that is
//! not given.

use std::collections::HashSet;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;

use crate::render;
use crate::rules::size;
use crate::text::{is_longer, kind, shown, words};
use crate::web::schema;

const MOST: usize = 50;
const LONGEST_KEY: usize = 50;
const LONGEST_TEXT: usize = 2000;

/// Names that the product gives values to.
pub const RESERVED: &[&str] =
    &["FIRST_NAME", "LAST_NAME", "EMAIL", "UNSUBSCRIBE_URL", "RESEND_UNSUBSCRIBE_URL", "contact", "this"];

/// What a variable holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TemplateVariableType)]
pub enum VariableType {
    String,
    Number,
    Boolean,
    Object,
    List,
}

words!(VariableType { String = "string", Number = "number", Boolean = "boolean", Object = "object", List = "list" });

impl VariableType {
    /// `Err` says what the value must be.
    fn check(self, value: &Value) -> Result<(), String> {
        let (fits, wanted) = match self {
            VariableType::String => (value.is_string(), "a string"),
            VariableType::Number => (value.is_number(), "a number"),
            VariableType::Boolean => (value.is_boolean(), "a boolean"),
            VariableType::Object => (value.is_object(), "an object"),
            VariableType::List => (value.is_array(), "an array"),
        };
        if !fits {
            return Err(format!("must be {wanted}, but is {}", kind(value)));
        }
        check_length(value)
    }

    /// Something to show where there is no value.
    pub fn sample(self, key: &str) -> Value {
        match self {
            VariableType::String => json!(format!("[{key}]")),
            VariableType::Number => json!(42),
            VariableType::Boolean => json!(true),
            VariableType::Object => json!({}),
            VariableType::List => json!([]),
        }
    }
}

fn check_length(value: &Value) -> Result<(), String> {
    match value.as_str().is_some_and(|text| is_longer(text, LONGEST_TEXT)) {
        true => Err(format!("must be at most {LONGEST_TEXT} characters long")),
        false => Ok(()),
    }
}

/// Something that a template takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Given")]
#[schema(as = TemplateVariable)]
pub struct Variable {
    #[schema(min_length = 1, max_length = 50, pattern = "^[A-Za-z_][A-Za-z0-9_]*$", example = "ORDER_ID")]
    pub key: String,
    #[serde(rename = "type")]
    pub kind: VariableType,
    /// What stands in for a value that is not given; null: it must be given.
    pub fallback_value: Option<Value>,
}

#[derive(Deserialize)]
struct Given {
    key: String,
    #[serde(rename = "type")]
    kind: VariableType,
    fallback_value: Option<Value>,
}

impl TryFrom<Given> for Variable {
    type Error = String;

    fn try_from(given: Given) -> Result<Variable, String> {
        let Given { key, kind, fallback_value } = given;
        let called = shown(&key);
        if RESERVED.contains(&key.as_str()) {
            return Err(format!("declares `{called}`, which is reserved: it is there without being declared"));
        }
        if !render::is_name(&key) || key.len() > LONGEST_KEY {
            return Err(format!(
                "declares `{called}`, but a key is 1 to {LONGEST_KEY} letters, digits and `_`, does not begin with a \
                 digit, and is no word of the language such as `if`"
            ));
        }
        let fallback_value = fallback_value.filter(|value| !value.is_null());
        if let Some(value) = &fallback_value {
            kind.check(value).map_err(|flaw| format!("declares `{called}`, whose `fallback_value` {flaw}"))?;
        }
        Ok(Variable { key, kind, fallback_value })
    }
}

/// All variables of a template, each once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Variables(pub Vec<Variable>);

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Variables, D::Error> {
        let variables = Vec::<Variable>::deserialize(deserializer)?;
        if variables.len() > MOST {
            return Err(D::Error::custom(format!("must declare at most {MOST} variables")));
        }
        let mut seen = HashSet::new();
        match variables.iter().find(|variable| !seen.insert(variable.key.as_str())) {
            Some(twice) => Err(D::Error::custom(format!("declares `{}` twice", twice.key))),
            None => Ok(Variables(variables)),
        }
    }
}

schema!(Variables as "TemplateVariables" = ArrayBuilder::new().items(Variable::schema()).max_items(Some(MOST)));

/// Why values do not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// This one has no value and no fallback.
    Missing(String),
    /// This one has a value that it cannot have, which `flaw` describes.
    Wrong { key: String, flaw: String },
}

impl Variables {
    /// About how many bytes they are.
    pub fn length(&self) -> usize {
        let length = |Variable { key, fallback_value, .. }: &Variable| {
            key.len() + fallback_value.as_ref().map_or(0, |value| size(value, usize::MAX))
        };
        self.0.iter().map(length).sum()
    }

    /// The values that a template is rendered with: what is given, and fallbacks for the rest. Other
    /// values may be given, too.
    pub fn values(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Misfit> {
        let mut values = given.clone();
        for (key, value) in given {
            check_length(value).map_err(|flaw| Misfit::Wrong { key: shown(key), flaw })?;
        }
        for Variable { key, kind, fallback_value } in &self.0 {
            match (given.get(key).filter(|value| !value.is_null()), fallback_value) {
                (Some(value), _) => {
                    kind.check(value).map_err(|flaw| Misfit::Wrong { key: key.clone(), flaw })?;
                }
                (None, Some(fallback)) => drop(values.insert(key.clone(), fallback.clone())),
                (None, None) => return Err(Misfit::Missing(key.clone())),
            }
        }
        Ok(values)
    }

    /// What is wrong with values of which some are not known yet.
    pub fn misfit(&self, given: &Map<String, Value>, is_known_later: impl Fn(&Value) -> bool) -> Option<Misfit> {
        self.0.iter().find_map(|Variable { key, kind, fallback_value }| {
            match (given.get(key).filter(|value| !value.is_null()), fallback_value) {
                (Some(value), _) if is_known_later(value) => None,
                (Some(value), _) => kind.check(value).err().map(|flaw| Misfit::Wrong { key: key.clone(), flaw }),
                (None, Some(_)) => None,
                (None, None) => Some(Misfit::Missing(key.clone())),
            }
        })
    }

    /// The same as [`Variables::values`], with something to show in place of what is missing, and what that is. `used` are the
    /// names that the template looks at.
    pub fn samples<'a>(
        &self,
        given: &Map<String, Value>,
        used: impl Iterator<Item = &'a str>,
    ) -> Result<(Map<String, Value>, Vec<String>), Misfit> {
        let (mut given, mut missing) = (given.clone(), Vec::new());
        given.retain(|_, value| !value.is_null());
        for Variable { key, kind, fallback_value } in &self.0 {
            if fallback_value.is_none() && !given.contains_key(key) {
                given.insert(key.clone(), kind.sample(key));
                missing.push(key.clone());
            }
        }
        let declared = |key: &str| self.0.iter().any(|variable| variable.key == key);
        for key in used.filter(|key| !declared(key)) {
            if !given.contains_key(key) {
                given.insert(key.to_owned(), sample_of_reserved(key));
                missing.push(key.to_owned());
            }
        }
        self.values(&given).map(|values| (values, missing))
    }
}

fn sample_of_reserved(key: &str) -> Value {
    match key {
        "FIRST_NAME" => json!("Ada"),
        "LAST_NAME" => json!("Lovelace"),
        "EMAIL" => json!("ada@example.com"),
        "UNSUBSCRIBE_URL" | "RESEND_UNSUBSCRIBE_URL" => json!("https://example.com/unsubscribe"),
        "contact" => json!({
            "email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "unsubscribed": false,
            "properties": {},
        }),
        other => VariableType::String.sample(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(variables: Value) -> Result<Variables, String> {
        serde_json::from_value(variables).map_err(|error| error.to_string())
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn a_variable_has_a_free_key_and_a_fallback_of_its_type() {
        for (variables, word) in [
            (json!([{"key": "FIRST_NAME", "type": "string"}]), "reserved"),
            (json!([{"key": "contact", "type": "object"}]), "reserved"),
            (json!([{"key": "1A", "type": "string"}]), "letters"),
            (json!([{"key": "if", "type": "string"}]), "letters"),
            (json!([{"key": "a".repeat(51), "type": "string"}]), "letters"),
            (json!([{"key": "A", "type": "date"}]), "date"),
            (json!([{"key": "A", "type": "string", "fallback_value": 5}]), "must be a string, but is a number"),
            (json!([{"key": "A", "type": "string", "fallback_value": "x".repeat(2001)}]), "2000"),
            (json!([{"key": "A", "type": "list", "fallback_value": {}}]), "must be an array"),
            (json!([{"key": "A", "type": "string"}, {"key": "A", "type": "number"}]), "twice"),
            (json!((0..51).map(|at| json!({"key": format!("A{at}"), "type": "string"})).collect::<Vec<_>>()), "50"),
        ] {
            let refusal = declared(variables.clone()).expect_err("refused");
            assert!(refusal.contains(word), "{variables}: {refusal}");
        }
        let kept = declared(
            json!([{"key": "A", "type": "object", "fallback_value": {"x": 1}}, {"key": "B", "type": "boolean",
            "fallback_value": null}]),
        )
        .expect("valid");
        assert_eq!(declared(serde_json::to_value(&kept).expect("JSON")), Ok(kept), "it is read as it is written");
    }

    #[test]
    fn values_are_what_is_given_and_fallbacks_for_the_rest() {
        let variables =
            declared(json!([{"key": "A", "type": "string"}, {"key": "N", "type": "number", "fallback_value": 7}]))
                .expect("valid");
        let values = |given: Value| variables.values(&object(given));
        assert_eq!(values(json!({"A": "a", "X": true})), Ok(object(json!({"A": "a", "X": true, "N": 7}))));
        assert_eq!(values(json!({"A": "a", "N": null})), Ok(object(json!({"A": "a", "N": 7}))));
        assert_eq!(values(json!({"A": null})), Err(Misfit::Missing("A".into())));
        assert!(matches!(values(json!({"A": 5})), Err(Misfit::Wrong { key, .. }) if key == "A"));
        assert!(
            matches!(values(json!({"A": "a", "X": "x".repeat(2001)})), Err(Misfit::Wrong { key, .. }) if key == "X")
        );
    }

    #[test]
    fn samples_stand_in_for_what_is_missing_and_are_named() {
        let variables =
            declared(json!([{"key": "A", "type": "number"}, {"key": "B", "type": "string", "fallback_value": "b"}]))
                .expect("valid");
        let (values, missing) = variables.samples(&Map::new(), ["EMAIL", "X", "B"].into_iter()).expect("fits");
        assert_eq!(missing, ["A", "EMAIL", "X"]);
        assert_eq!(values, object(json!({"A": 42, "EMAIL": "ada@example.com", "X": "[X]", "B": "b"})));
    }
}
