//! Schemas of the API's description as schemas of a tool: with what they refer to
//! beside them.

use serde_json::{Map, Value};

const COMPONENTS: &str = "#/components/schemas/";

/// Gathers what the schemas of one tool refer to.
pub struct Definitions<'a> {
    document: &'a Value,
    gathered: Map<String, Value>,
}

impl<'a> Definitions<'a> {
    pub fn of(document: &'a Value) -> Definitions<'a> {
        Definitions { document, gathered: Map::new() }
    }

    /// What a schema stands for, if it is a reference.
    pub fn resolve(&self, schema: &'a Value) -> &'a Value {
        schema["$ref"].as_str().and_then(|target| self.document.pointer(&target[1..])).unwrap_or(schema)
    }

    /// The same schema, with references to what is gathered here. Examples are left out: an
    /// assistant reads all of it in every conversation.
    pub fn adopt(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, value)| !is_example(name) || is_schema_of_field(value));
                Value::Object(kept.map(|(name, value)| (name.clone(), self.adopt_field(name, value))).collect())
            }
            Value::Array(items) => items.iter().map(|item| self.adopt(item)).collect(),
            plain => plain.clone(),
        }
    }

    fn adopt_field(&mut self, name: &str, value: &Value) -> Value {
        let target = value.as_str().filter(|_| name == "$ref").and_then(|target| target.strip_prefix(COMPONENTS));
        let Some(target) = target else { return self.adopt(value) };
        if !self.gathered.contains_key(target) {
            // Its place is taken before it is read: it may refer to itself.
            self.gathered.insert(target.to_owned(), Value::Null);
            let adopted = self.adopt(&self.document["components"]["schemas"][target]);
            self.gathered.insert(target.to_owned(), adopted);
        }
        format!("#/$defs/{target}").into()
    }

    pub fn into_gathered(self) -> Map<String, Value> {
        self.gathered
    }
}

fn is_example(name: &str) -> bool {
    name == "example" || name == "examples"
}

/// A field may be called `example`: then a schema stands there.
fn is_schema_of_field(value: &Value) -> bool {
    value.get("type").is_some() && value.get("description").is_some()
}
