//! What a segment is: a name for a set of contacts. Valid by construction.

use serde_json::Value;

use crate::error::Error;
use crate::id::SegmentId;
use crate::web::input::{is_longer, kind};

/// How many segments one request may name.
pub const MOST_NAMED: usize = 100;

/// What people call a segment: one line, and not only spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentName(String);

impl SegmentName {
    pub const LONGEST: usize = 255;

    pub fn parse(value: &Value) -> Result<SegmentName, Error> {
        let Value::String(name) = value else {
            return Err(Error::invalid(format!("The `name` field must be a string, but is {}.", kind(value))));
        };
        let one_line = !is_longer(name, Self::LONGEST) && !name.chars().any(char::is_control);
        if !one_line || name.trim().is_empty() {
            return Err(Error::invalid(format!(
                "The `name` field must be one line of 1 to {} characters, not all of them spaces.",
                Self::LONGEST
            )));
        }
        Ok(SegmentName(name.clone()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The segments that a list names, each as `{"id": …}` or as the id alone. One
/// that is named twice counts once.
pub fn ids(field: &str, value: &Value) -> Result<Vec<SegmentId>, Error> {
    let Value::Array(items) = value else {
        return Err(Error::invalid(format!("The `{field}` field must be an array, but is {}.", kind(value))));
    };
    if items.len() > MOST_NAMED {
        return Err(Error::invalid(format!("The `{field}` field must name at most {MOST_NAMED} segments.")));
    }
    let mut ids = Vec::new();
    for item in items {
        let id = id(field, item.get("id").unwrap_or(item))?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The one segment that a field names.
pub fn id(field: &str, value: &Value) -> Result<SegmentId, Error> {
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.ok_or_else(|| Error::invalid(format!("The `{field}` field must hold ids of segments, which are UUIDs.")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_one_line_with_something_to_see() {
        let longest = "é".repeat(255);
        for name in ["a", "VIP customers", " padded ", "日本", &longest] {
            assert_eq!(SegmentName::parse(&json!(name)).expect(name).as_str(), name);
        }
        for wrong in
            [json!(""), json!("  "), json!("a\nb"), json!("\u{0}"), json!("x".repeat(256)), json!(1), json!([])]
        {
            let message = SegmentName::parse(&wrong).expect_err("refused").message().into_owned();
            assert!(message.contains("`name`"), "{message}");
        }
    }
    #[test]
    fn segments_are_named_by_id_in_either_shape_and_once() {
        let (one, two) = ("01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002");
        let named = json!([{"id": one}, two, one.to_uppercase(), {"id": two, "name": "x"}]);
        let ids_of = ids("segments", &named).expect("valid");
        assert_eq!(ids_of.iter().map(ToString::to_string).collect::<Vec<_>>(), [one, two]);
        assert!(ids("segments", &json!([])).expect("valid").is_empty());
        for wrong in
            [json!("x"), json!({}), json!(["x"]), json!([{}]), json!([{"id": 1}]), json!([null]), json!([[one]])]
        {
            assert!(ids("segments", &wrong).expect_err("refused").message().contains("`segments`"), "{wrong}");
        }
        assert!(ids("segments", &json!(vec![one; 101])).is_err());
    }
}
