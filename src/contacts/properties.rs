//! What is known of a contact beyond its name: a flat object of plain values, of
//! which some are declared with a type.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value, json};
use utoipa::openapi;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

use crate::error::Error;
use crate::id::PropertyId;
use crate::text::{checked_text, is_longer, kind, shown, words};
use crate::web::{schema, text_schema};

const LONGEST_KEY: usize = 255;
const MOST_KEYS: usize = 256;
/// All properties of a contact together, as JSON.
const MOST_BYTES: usize = 64 << 10;

/// Properties as a request gives them: a null removes one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Properties(Map<String, Value>);

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Properties, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        if fields.len() > MOST_KEYS {
            return Err(D::Error::custom(format!("must have at most {MOST_KEYS} keys")));
        }
        fields.iter().try_for_each(|(key, value)| check_pair(key, value)).map_err(D::Error::custom)?;
        Ok(Properties(fields))
    }
}

schema!(Properties as "ContactProperties" = {
    let key = text_schema().min_length(Some(1)).max_length(Some(LONGEST_KEY));
    let plain = SchemaType::from_iter([Type::String, Type::Number, Type::Boolean, Type::Null]);
    ObjectBuilder::new()
        .description(Some(
            "A flat object of properties. A null is no property. Where a property was declared, its value must be \
             of the declared type.",
        ))
        .property_names(Some(openapi::Schema::from(key)))
        .max_properties(Some(MOST_KEYS))
        .additional_properties(Some(openapi::Schema::from(ObjectBuilder::new().schema_type(plain))))
        .examples([json!({"company": "Analytical Engines", "seats": 3})])
});

impl Properties {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses values that are not of the type that was declared for their key.
    pub fn check(&self, declared: &[Declared]) -> Result<(), Error> {
        for Declared { key, kind, .. } in declared {
            match self.0.get(key) {
                Some(value) if !value.is_null() && !kind.fits(value) => return Err(mismatch(key, *kind, value)),
                _ => {}
            }
        }
        Ok(())
    }

    /// These laid over `known`.
    pub fn merged_into(&self, known: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        let mut all = known.clone();
        for (key, value) in &self.0 {
            if value.is_null() {
                all.shift_remove(key);
            } else {
                all.insert(key.clone(), value.clone());
            }
        }
        if all.len() > MOST_KEYS {
            return Err(too_many());
        }
        if Value::Object(all.clone()).to_string().len() > MOST_BYTES {
            return Err(Error::invalid(format!(
                "The properties of a contact must have at most {MOST_BYTES} bytes as JSON, all together."
            )));
        }
        Ok(all)
    }
}

fn too_many() -> Error {
    Error::invalid(format!("A contact must have at most {MOST_KEYS} properties."))
}

fn check_pair(key: &str, value: &Value) -> Result<(), String> {
    if key.is_empty() {
        return Err("has an empty key. Give every property a name".into());
    }
    if is_longer(key, LONGEST_KEY) {
        return Err(format!("has the key `{}`, but keys have at most {LONGEST_KEY} characters", shown(key)));
    }
    match value {
        Value::Object(_) | Value::Array(_) => Err(format!(
            "must be flat, but the property `{}` is {}. Allowed are a string, a number, a boolean and null",
            shown(key),
            kind(value)
        )),
        _ => Ok(()),
    }
}

fn mismatch(key: &str, wanted: Kind, value: &Value) -> Error {
    Error::invalid(format!(
        "The property `{key}` is declared as a {}, but the value is {}.",
        wanted.as_str(),
        kind(value)
    ))
}

/// The type of a declared property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    String,
    Number,
}

words!(Kind: ALL, parse { String = "string", Number = "number" });

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Kind::String => value.is_string(),
            Kind::Number => value.is_number(),
        }
    }

    /// What stands in where a contact has no value of its own; null is none.
    pub fn fallback(self, value: Option<Value>) -> Result<Option<Value>, Error> {
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if is_longer(&text, LONGEST_FALLBACK) => Err(Error::invalid(format!(
                "The `fallback_value` field must have at most {LONGEST_FALLBACK} characters."
            ))),
            Some(value) if self.fits(&value) => Ok(Some(value)),
            Some(value) => Err(Error::invalid(format!(
                "The `fallback_value` field must be a {}, as `type` says, but is {}.",
                self.as_str(),
                kind(&value)
            ))),
        }
    }
}

pub const LONGEST_FALLBACK: usize = 2000;

/// The key of a declared property: it is named in templates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PropertyKey(String);

checked_text!(
    PropertyKey(key) if (1..=Self::LONGEST).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
    else format!("must have 1 to {} letters, digits and underscores, all ASCII", Self::LONGEST)
);

impl PropertyKey {
    pub const LONGEST: usize = 50;
}

/// A property that somebody declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    pub id: PropertyId,
    pub key: String,
    pub kind: Kind,
    pub fallback: Option<Value>,
    pub created_at: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web;
    use proptest::prelude::*;

    fn parse(value: &Value) -> Result<Properties, Error> {
        #[derive(Deserialize)]
        struct ContactDetail {
            properties: Properties,
        }
        let fields = Map::from_iter([("properties".to_owned(), value.clone())]);
        web::read_fields(fields).map(|whole: ContactDetail| whole.properties)
    }

    fn refusal(value: Value) -> String {
        parse(&value).expect_err("refused").message().into_owned()
    }

    fn wide(count: usize) -> Value {
        Value::Object((0..count).map(|key| (key.to_string(), json!(1))).collect())
    }

    #[test]
    fn properties_are_flat_and_bounded() {
        assert!(parse(&json!({"a": "x", "b": 1.5, "c": true, "d": null, "Größe in cm": -1})).is_ok());
        for (value, word) in [
            (json!([]), "an array"),
            (json!("x"), "a string"),
            (json!({"k": {}}), "`k`"),
            (json!({"k": [1]}), "`k`"),
            (json!({"": 1}), "empty"),
            (json!({"k".repeat(256): 1}), "255"),
            (wide(257), "256"),
        ] {
            assert!(refusal(value).contains(word));
        }
        assert!(parse(&wide(256)).is_ok());
    }

    #[test]
    fn what_is_laid_over_is_bounded_with_what_was_there() {
        let full = parse(&wide(256)).expect("valid").merged_into(&Map::new()).expect("merged");
        let given = |value: Value| parse(&value).expect("valid").merged_into(&full);
        assert!(given(json!({"more": 1})).is_err());
        assert_eq!(given(json!({"more": 1, "0": null})).expect("one goes, one comes").len(), 256);
        assert!(given(json!({"0": "x".repeat(64 << 10)})).expect_err("too much").message().contains("65536"));
    }

    #[test]
    fn declared_types_hold() {
        let declared = |key: &str, kind| Declared {
            id: uuid::Uuid::nil().into(),
            key: key.into(),
            kind,
            fallback: None,
            created_at: 0,
        };
        let declared = [declared("seats", Kind::Number), declared("plan", Kind::String)];
        let check = |value: Value| parse(&value).expect("valid").check(&declared);
        assert!(check(json!({"seats": 3, "plan": "pro", "other": true})).is_ok());
        assert!(check(json!({"seats": null})).is_ok());
        for value in [json!({"seats": "3"}), json!({"plan": 1}), json!({"plan": true})] {
            assert!(check(value).expect_err("refused").message().contains("declared"));
        }
    }

    #[test]
    fn a_fallback_is_of_the_type() {
        assert_eq!(Kind::Number.fallback(Some(json!(1))).expect("valid"), Some(json!(1)));
        assert_eq!(Kind::String.fallback(Some(Value::Null)).expect("valid"), None);
        assert_eq!(Kind::String.fallback(None).expect("valid"), None);
        for (kind, value) in [
            (Kind::Number, json!("1")),
            (Kind::String, json!(1)),
            (Kind::String, json!(true)),
            (Kind::String, json!("x".repeat(2001))),
        ] {
            assert!(kind.fallback(Some(value)).expect_err("refused").message().contains("`fallback_value`"));
        }
    }

    #[test]
    fn a_declared_key_is_a_plain_word() {
        for good in ["a", "Company_Name2", "_", &"k".repeat(50)] {
            assert_eq!(PropertyKey::try_from(good.to_owned()).expect(good).as_str(), good);
        }
        for bad in ["", "a b", "a-b", "é", &"k".repeat(51)] {
            assert!(PropertyKey::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Two who set different keys come to the same, whoever is first.
        #[test]
        fn changes_of_different_keys_commute(
            known in prop::collection::btree_map("[a-f]", 0..9i64, 0..6),
            one in prop::collection::btree_map("[a-c]", prop::option::of(0..9i64), 0..4),
            two in prop::collection::btree_map("[d-f]", prop::option::of(0..9i64), 0..4),
        ) {
            let map = |value: Value| value.as_object().expect("an object").clone();
            let known = map(json!(known));
            let (one, two) = (Properties(map(json!(one))), Properties(map(json!(two))));
            let there = two.merged_into(&one.merged_into(&known).expect("merged")).expect("merged");
            let back = one.merged_into(&two.merged_into(&known).expect("merged")).expect("merged");
            prop_assert_eq!(there, back);
        }
    }
}
