//! Entry points for fuzzers: each takes any bytes and panics when a promise about
//! what bodies may cost is broken.

use bytes::Bytes;
use serde_json::Value;

use super::body::Body;
use super::many::Many;
use super::spool::Spool;
use super::{multipart, shape};

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
        assert_eq!(many.body::<Value>(at).ok().as_ref().map(Body::fields), items[at].as_object());
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
    let Ok(fields) = multipart::fields("x", &body) else { return false };
    assert!(fields.len() <= 32);
    let mut behind = 0;
    for (_, place) in fields {
        assert!(behind < place.start && place.start <= place.end && place.end < data.len());
        behind = place.end;
    }
    true
}
