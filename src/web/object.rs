//! The fields of a body. As long as they are few they stand in a list: to compare a few
//! names is cheaper than to hash each of them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// So many are few.
const FEW: usize = 16;

/// A field that comes twice has its last value.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    Few(Vec<(String, Value)>),
    Many(Map<String, Value>),
}

impl Default for Object {
    fn default() -> Object {
        Object::Few(Vec::new())
    }
}

impl From<Map<String, Value>> for Object {
    fn from(fields: Map<String, Value>) -> Object {
        Object::Many(fields)
    }
}

impl From<Object> for Map<String, Value> {
    fn from(object: Object) -> Map<String, Value> {
        match object {
            Object::Few(fields) => fields.into_iter().collect(),
            Object::Many(fields) => fields,
        }
    }
}

impl Object {
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Object::Few(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            Object::Many(fields) => fields.get(name),
        }
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        match self {
            Object::Few(fields) => fields.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value),
            Object::Many(fields) => fields.get_mut(name),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Object::Few(fields) => fields.len(),
            Object::Many(fields) => fields.len(),
        }
    }

    /// In the order in which they came.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (&String, &Value)> + '_> {
        match self {
            Object::Few(fields) => Box::new(fields.iter().map(|(name, value)| (name, value))),
            Object::Many(fields) => Box::new(fields.iter()),
        }
    }

    fn insert(&mut self, name: String, value: Value) {
        if let Some(known) = self.get_mut(&name) {
            *known = value;
            return;
        }
        match self {
            Object::Many(fields) => drop(fields.insert(name, value)),
            Object::Few(fields) if fields.len() < FEW => fields.push((name, value)),
            Object::Few(fields) => {
                let fields = std::mem::take(fields).into_iter();
                *self = Object::Many(fields.chain([(name, value)]).collect());
            }
        }
    }
}

/// Made of a text that is an object: [`super::input::kind_of`] tells.
impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some((name, value)) = entries.next_entry()? {
            object.insert(name, value);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_fields_and_many_are_the_same_to_whoever_reads_them() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 100] {
            // Every field comes twice.
            let pairs: Vec<String> = (0..2 * count).map(|n| format!(r#""f{}":{n}"#, n % count.max(1))).collect();
            let text = format!("{{{}}}", pairs.join(","));
            let mut object: Object = serde_json::from_str(&text).expect("an object");
            let map: Map<String, Value> = serde_json::from_str(&text).expect("an object");
            assert_eq!(matches!(object, Object::Few(_)), count <= FEW, "{count}");
            assert!(object.iter().eq(map.iter()), "the same fields in the same order: {count}");
            assert!(map.iter().all(|(name, value)| object.get(name) == Some(value)), "{count}");
            assert!(map.keys().all(|name| object.get_mut(name).is_some()) && object.get("g").is_none(), "{count}");
            assert_eq!(Map::from(object), map);
        }
    }
}
