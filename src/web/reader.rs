//! JSON read into a type by `serde`, in the way that the API's errors need:
//! the fields of a struct come in the order in which it declares them, so that
//! the first of them that is wrong is told, wherever it stood; a field that is
//! not there, or null, is `None` or missing; and what is wrong is told with the
//! path to it, as is what nobody reads.

use std::cell::RefCell;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::fault::{Fault, joined};
use super::lookalike::is_like;
use super::object::Object;
use super::query::Params;
use super::warnings;
use crate::error::Error;
use crate::text::{kind, quoted, shown};

/// The names by which types ask for a null that is not absence; see `body`.
pub(super) const OR_NULL: &str = "$or_null";
pub(super) const CHANGE: &str = "$change";

/// Reads the fields of a JSON object.
pub fn read<T: DeserializeOwned>(fields: impl Into<Object>) -> Result<T, Error> {
    T::deserialize(Reader(Given::Object(fields.into()))).map_err(Fault::of_body)
}

/// As [`read`], for a body of a request: fields that nobody reads are told to its caller.
pub(super) fn read_body<T: DeserializeOwned>(fields: Object) -> Result<T, Error> {
    UNKNOWN.with_borrow_mut(Vec::clear);
    let read = read(fields)?;
    for Unknown { path, meant } in UNKNOWN.take() {
        warnings::warn(|| warnings::unknown_field(&path, meant))?;
    }
    Ok(read)
}

/// Reads a value that is part of something else.
pub fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    T::deserialize(Reader(Given::Value(value)))
}

/// What is to be read.
enum Given {
    /// A field that is not there.
    Absent,
    /// A field that is null.
    Null,
    /// The fields of a whole body.
    Object(Object),
    /// Anything else; null only within arrays and maps.
    Value(Value),
}

struct Reader(Given);

impl Reader {
    fn value(self) -> Result<Value, Fault> {
        match self.0 {
            Given::Absent | Given::Null => Err(Fault::missing()),
            Given::Object(fields) => Ok(Value::Object(fields.into())),
            Given::Value(value) => Ok(value),
        }
    }
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(whole), _) => visitor.visit_u64(whole),
                (None, Some(whole)) => visitor.visit_i64(whole),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(Items { items: items.into_iter(), at: 0 }),
            Value::Object(fields) => visitor.visit_map(entries(fields)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let fields = match self.0 {
            Given::Object(fields) => fields,
            _ => match self.value()? {
                Value::Object(fields) => fields.into(),
                other => return Err(Fault::wrong(format!("must be an object, but is {}", kind(&other)))),
            },
        };
        visitor.visit_map(Fields { fields, known: names, names: names.iter(), name: "", found: 0 })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Given::Absent | Given::Null | Given::Value(Value::Null) => visitor.visit_none(),
            Given::Object(_) | Given::Value(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        match (name, &self.0) {
            (CHANGE, Given::Absent) => visitor.visit_none(),
            (OR_NULL | CHANGE, Given::Null) => visitor.visit_unit(),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let found = match self.value()? {
            Value::String(word) => match words.iter().find(|known| **known == word) {
                Some(known) => return visitor.visit_enum(BorrowedStrDeserializer::new(known)),
                None => quoted(&word),
            },
            other => kind(&other).to_owned(),
        };
        Err(Fault::wrong(format!("must be {}, but is {found}", one_of(words))))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// Words to choose from: `a`, `b` or `c`.
fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// The fields of an object that a struct has, in its order.
struct Fields {
    fields: Object,
    known: &'static [&'static str],
    names: std::slice::Iter<'static, &'static str>,
    /// The one whose turn it is.
    name: &'static str,
    /// How many of them the object has.
    found: usize,
}

impl Fields {
    /// Another field of the object that looks like a misspelling of the one that is missing.
    fn lookalike(&self) -> Option<String> {
        let others = self.fields.iter().map(|(sent, _)| sent).filter(|sent| *sent != self.name);
        others.into_iter().find(|sent| is_like(sent, self.name)).cloned()
    }

    /// Remembers the fields that the struct does not have.
    fn note_unknown(&self) {
        let is_sent = |known: &str| self.fields.get(known).is_some();
        let unknown = self.fields.iter().map(|(sent, _)| sent).filter(|sent| !self.known.contains(&sent.as_str()));
        UNKNOWN.with_borrow_mut(|noted| {
            for sent in unknown.take(warnings::MOST.saturating_sub(noted.len())) {
                let meant = self.known.iter().find(|known| is_like(sent, known) && !is_sent(known));
                noted.push(Unknown { path: shown(sent), meant: meant.copied() });
            }
        });
    }
}

/// A field that nobody reads, where it stands, and what was perhaps meant by it.
struct Unknown {
    path: String,
    meant: Option<&'static str>,
}

/// Reads what stands at a place: what is noted meanwhile stands there.
fn read_within<T>(place: impl FnOnce() -> String, read: impl FnOnce() -> T) -> T {
    let before = UNKNOWN.with_borrow(Vec::len);
    let value = read();
    UNKNOWN.with_borrow_mut(|noted| {
        if let Some(within @ [_, ..]) = noted.get_mut(before..) {
            let place = place();
            within.iter_mut().for_each(|unknown| unknown.path = joined(&place, &unknown.path));
        }
    });
    value
}

thread_local! {
    /// What was found to be unknown since somebody asked: a few at most.
    static UNKNOWN: RefCell<Vec<Unknown>> = const { RefCell::new(Vec::new()) };
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(name) = self.names.next() else {
            if self.found < self.fields.len() {
                self.note_unknown();
            }
            return Ok(None);
        };
        self.name = name;
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let field = self.fields.get_mut(self.name);
        self.found += usize::from(field.is_some());
        let given = match field {
            None => Given::Absent,
            Some(Value::Null) => Given::Null,
            Some(value) => Given::Value(value.take()),
        };
        let read = read_within(|| self.name.to_owned(), || seed.deserialize(Reader(given)));
        read.map_err(|fault| fault.suggest(|| self.lookalike()).within(self.name))
    }
}

/// The values of an object whose keys are the caller's own.
fn entries<'de>(fields: Map<String, Value>) -> impl MapAccess<'de, Error = Fault> {
    MapDeserializer::new(fields.into_iter().map(|(key, value)| (key, Reader(Given::Value(value)))))
}

impl IntoDeserializer<'_, Fault> for Reader {
    type Deserializer = Reader;

    fn into_deserializer(self) -> Reader {
        self
    }
}

/// The elements of an array, by their places.
struct Items {
    items: std::vec::IntoIter<Value>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let at = self.at;
        self.at += 1;
        let place = || format!("[{at}]");
        let read = read_within(place, || seed.deserialize(Reader(Given::Value(item))));
        read.map(Some).map_err(|fault| fault.within(&place()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The parameters of a query as the fields of an object: text, or an array where
/// one was sent more than once.
pub(super) fn read_query<T: DeserializeOwned>(query: &str) -> Result<T, Error> {
    let mut fields: Map<String, Value> = Map::new();
    for (name, value) in Params::parse(query).pairs() {
        let Ok(name) = name else { continue };
        let value = Value::String(value.unwrap_or_else(|_| char::REPLACEMENT_CHARACTER.into()));
        let value = if fields.contains_key(&name) { Value::Array(Vec::new()) } else { value };
        fields.insert(name, value);
    }
    read_value(Value::Object(fields)).map_err(Fault::of_query)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::super::body::{Change, OrNull};
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        name: String,
        inner: Option<Vec<Part>>,
        way: Option<Way>,
        emptied: Change<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        flag: bool,
        set: OrNull<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        In,
        WayOut,
    }

    fn refused(json: Value) -> (&'static str, String) {
        let fields = json.as_object().expect("an object").clone();
        let envelope = read::<Outer>(fields).expect_err("refused").envelope();
        (envelope.name, envelope.message)
    }

    fn outer(json: Value) -> Outer {
        read(json.as_object().expect("an object").clone()).expect("valid")
    }

    #[test]
    fn decisions_2_null_is_absent_but_where_a_type_tells_them_apart() {
        let none = outer(json!({"name": "x"}));
        assert_eq!(none, Outer { name: "x".into(), inner: None, way: None, emptied: Change(None) });
        assert_eq!(outer(json!({"name": "x", "inner": null, "way": null})), none);
        assert_eq!(outer(json!({"name": "x", "emptied": null})).emptied, Change(Some(None)));
        assert_eq!(outer(json!({"name": "x", "emptied": "y"})).emptied, Change(Some(Some("y".into()))));
        let part = outer(json!({"name": "x", "inner": [{"flag": true, "set": null}]})).inner;
        assert_eq!(part, Some(vec![Part { flag: true, set: OrNull(None) }]));
        assert_eq!(refused(json!({"name": null})), ("missing_required_field", "Missing `name` field.".into()));
    }

    #[test]
    fn the_first_field_of_the_type_is_told_wherever_it_stands_in_the_body() {
        assert_eq!(refused(json!({"way": 1, "inner": 2})).1, "Missing `name` field.");
        assert!(refused(json!({"way": 1, "inner": 2, "name": 3})).1.starts_with("The `name` field"));
        assert!(refused(json!({"way": 1, "inner": 2, "name": ""})).1.starts_with("The `inner` field"));
    }

    #[test]
    fn what_is_wrong_is_told_with_the_path_to_it() {
        for (inner, message) in [
            (json!({}), "The `inner` field must be an array, but is an object."),
            (json!([null]), "The `inner[0]` field must be an object, but is null."),
            (
                json!([{"flag": true, "set": "x"}, {"flag": 1}]),
                "The `inner[1].flag` field must be a boolean, but is a number.",
            ),
            (json!([{"flag": true, "set": 1}]), "The `inner[0].set` field must be a string, but is a number."),
            (json!([{"flag": true}]), "The `inner[0].set` field is missing."),
            (json!([{"flag": true, "Set": "x"}]), "The `inner[0].set` field is missing."),
        ] {
            assert_eq!(refused(json!({"name": "x", "inner": inner})), ("validation_error", message.to_owned()));
        }
        let way = |way: Value| refused(json!({"name": "x", "way": way})).1;
        assert_eq!(way(json!("out")), "The `way` field must be `in` or `way_out`, but is `out`.");
        assert_eq!(way(json!([])), "The `way` field must be `in` or `way_out`, but is an array.");
    }

    #[test]
    fn decisions_2_a_misspelt_required_field_is_pointed_out() {
        for sent in ["Name", "nmae", "names", "NAME", "_name"] {
            assert!(refused(json!({sent: "x"})).1.contains(&format!("`{sent}`; did you mean `name`")), "{sent}");
        }
        for sent in ["schema", "event", "x", "title"] {
            assert_eq!(refused(json!({sent: "x"})).1, "Missing `name` field.", "{sent}");
        }
    }

    #[test]
    fn a_parameter_is_sent_once_and_is_text() {
        #[derive(Debug, Deserialize)]
        struct Filter {
            way: Option<Way>,
        }
        let filter = read_query::<Filter>;
        assert_eq!(filter("way=in&x=1&x=2").expect("valid").way, Some(Way::In));
        assert!(filter("").expect("valid").way.is_none());
        for query in ["way=", "way=out", "way=in&way=in", "way=%ff"] {
            let envelope = filter(query).expect_err(query).envelope();
            assert!(envelope.name == "invalid_parameter" && envelope.message.starts_with("The `way` parameter "));
        }
    }
}
