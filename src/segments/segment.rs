//! What a segment is: a name for a set of contacts. Valid by construction.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder};

use crate::id::SegmentId;
use crate::text::{checked_text, is_one_line};
use crate::web::{id_schema, schema};

/// How many segments one request may name.
const MOST_NAMED: usize = 100;

/// One line, and not only spaces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    min_length = 1,
    max_length = 255,
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    example = "Newsletter"
)]
pub struct SegmentName(String);

checked_text!(
    SegmentName(name) if is_one_line(name, 255),
    else "must be one line of 1 to 255 characters, not all of them spaces"
);

/// Segments by id, each as `{"id": …}` or as the id alone. One that is named
/// twice counts once.
#[derive(Debug, Default)]
pub struct SegmentList(pub Vec<SegmentId>);

impl<'de> Deserialize<'de> for SegmentList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SegmentList, D::Error> {
        let named = Vec::<Value>::deserialize(deserializer)?;
        if named.len() > MOST_NAMED {
            return Err(D::Error::custom(format!("must name at most {MOST_NAMED} segments")));
        }
        let mut ids: Vec<SegmentId> = Vec::new();
        for item in named {
            let id = item.get("id").unwrap_or(&item).as_str().and_then(|text| text.parse().ok());
            let id = id.ok_or_else(|| D::Error::custom("must hold ids of segments, which are UUIDs"))?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(SegmentList(ids))
    }
}

schema!(SegmentList as "SegmentList" = {
    let object = ObjectBuilder::new().property("id", id_schema()).required("id");
    ArrayBuilder::new()
        .description(Some("Segments by id, each alone or in an object."))
        .items(OneOfBuilder::new().item(object).item(id_schema()))
        .max_items(Some(MOST_NAMED))
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::web;

    #[test]
    fn a_name_is_one_line_with_something_to_see() {
        let longest = "é".repeat(255);
        for name in ["a", "VIP customers", " padded ", "日本", &longest] {
            assert_eq!(SegmentName::try_from(name.to_owned()).expect(name).as_str(), name);
        }
        for wrong in ["", "  ", "a\nb", "\u{0}", &"x".repeat(256)] {
            assert!(SegmentName::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
    #[test]
    fn segments_are_named_by_id_in_either_shape_and_once() {
        let (one, two) = ("01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002");
        let named = json!([{"id": one}, two, one.to_uppercase(), {"id": two, "name": "x"}]);
        let ids = |value: Value| {
            #[derive(Deserialize)]
            struct Named {
                segments: SegmentList,
            }
            let fields = serde_json::Map::from_iter([("segments".to_owned(), value)]);
            web::read_fields(fields).map(|named: Named| named.segments.0)
        };
        let read = ids(named).expect("valid");
        assert_eq!(read.iter().map(ToString::to_string).collect::<Vec<_>>(), [one, two]);
        assert!(ids(json!([])).expect("valid").is_empty());
        for wrong in
            [json!("x"), json!({}), json!(["x"]), json!([{}]), json!([{"id": 1}]), json!([null]), json!([[one]])]
        {
            assert!(ids(wrong.clone()).expect_err("refused").message().contains("`segments`"), "{wrong}");
        }
        assert!(ids(json!(vec![one; 101])).is_err());
    }
}
