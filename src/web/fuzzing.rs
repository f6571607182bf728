//! Entry points for fuzzers: each takes any bytes and panics when a promise about
//! what bodies may cost is broken.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::long_strings::{LongValues, MARK};
use super::many::Many;
use super::spool::Spool;
use super::{multipart, shape};
use crate::error::Error;

/// Any bytes as a JSON body: nothing is counted short, and an array is split into
/// what it holds. Tells whether it was one.
pub fn json_body(data: &[u8]) -> bool {
    let shape = shape::Shape::of(data);
    let read: Option<Value> = serde_json::from_slice(data).ok();
    if let Some(read) = &read {
        assert!(shape.values() >= values(read), "{shape:?} of {read}");
    }
    let body = Spool::Memory(Bytes::copy_from_slice(data));
    let (Ok(many), Some(read)) = (Many::split(body, false), read) else { return false };
    let items = read.as_array().expect("what was split is an array");
    assert_eq!(many.count, items.len());
    // What is short holds few enough values to be read.
    let is_readable = |at: usize| items[at].is_object() && many.size(at) < shape::MOST_VALUES;
    for at in many.places().filter(|at| is_readable(*at)) {
        let fields = many.body::<Value>(at).ok().map(|body| Map::from(body.fields().clone()));
        assert_eq!(fields.as_ref(), items[at].as_object());
    }
    true
}

/// Objects that name a key twice hold fewer values than their text.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    }
}

/// Any bytes as a form whose boundary is `x`: its fields are few and lie within
/// it, each behind the one before. Tells whether it was one.
pub fn form_body(data: &[u8]) -> bool {
    let body = Spool::Memory(Bytes::copy_from_slice(data));
    let Ok(fields) = multipart::fields("x", &body, 32) else { return false };
    assert!(fields.len() <= 32);
    let mut behind = 0;
    for place in fields.into_iter().map(|part| part.place) {
        assert!(behind < place.start && place.start <= place.end && place.end < data.len());
        behind = place.end;
    }
    true
}

/// Any bytes as a JSON body with long values: what is left where it is is read as it was written.
/// Tells how many such values there were.
pub fn long_body(data: &[u8]) -> usize {
    let body = Spool::Memory(Bytes::copy_from_slice(data));
    let split = LongValues::split_by(body, &["html", "content"], 8);
    let Ok(whole) = serde_json::from_slice::<Value>(data) else { return 0 };
    let (short, values) = match split {
        Ok(split) => split,
        Err(refusal) => {
            assert!(matches!(refusal, Error::Invalid { .. }), "{refusal:?} of {whole}");
            return 0;
        }
    };
    let (mut short, values) = (serde_json::from_slice(&short).expect("JSON as before"), Arc::new(values));
    let mut count = 0;
    if put_back(&mut short, &values, &mut count) {
        assert_eq!(short, whole);
    }
    count
}

/// Puts long values back in their places; tells whether all of them could be read.
fn put_back(value: &mut Value, values: &Arc<LongValues>, count: &mut usize) -> bool {
    match value {
        Value::Array(items) if items.first().and_then(Value::as_str) == Some(MARK) => {
            let number = items[1].as_u64().expect("a number") as usize;
            let mut reader = values.reader(number).expect("a value");
            let mut bytes = Vec::new();
            loop {
                match reader.read() {
                    Ok(Some(more)) => bytes.extend(more),
                    Ok(None) => break,
                    // A number that is no byte.
                    Err(_) => return false,
                }
            }
            *count += 1;
            *value = match values.is_array(number) {
                true => bytes.into(),
                false => String::from_utf8(bytes).expect("text").into(),
            };
            true
        }
        Value::Array(items) => items.iter_mut().all(|item| put_back(item, values, count)),
        Value::Object(fields) => fields.values_mut().all(|field| put_back(field, values, count)),
        _ => true,
    }
}
