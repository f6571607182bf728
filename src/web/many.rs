//! The elements of a JSON array, told apart without building them.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::input::{Many, kind_of, not_json};
use crate::error::Error;

/// Splits the text of an array. Elements behind the last that may be there are
/// only counted; what is in elements is not looked at, beyond that it is JSON.
pub fn split(text: &Bytes) -> Result<Many, Error> {
    let kind = kind_of(text);
    if kind != "an array" {
        let is_json: Result<IgnoredAny, _> = serde_json::from_slice(text);
        is_json.map_err(|error| not_json(&error))?;
        return Err(Error::invalid(format!("The body must be a JSON array, but is {kind}.")));
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let found = json.deserialize_seq(Split).and_then(|found| json.end().map(|()| found));
    let (elements, count) = found.map_err(|error| not_json(&error))?;
    let place = |element: &RawValue| text.slice_ref(element.get().as_bytes());
    Ok(Many { elements: elements.into_iter().map(place).collect(), count })
}

struct Split;

impl<'de> Visitor<'de> for Split {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < Many::MOST {
            let Some(element) = array.next_element()? else { break };
            elements.push(element);
        }
        let mut count = elements.len();
        while array.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((elements, count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::web::input::kind;

    #[test]
    fn elements_come_as_they_were_written() {
        let many = split(&Bytes::from_static(br#" [ {"a": 1 }, [2] ,"x" ] "#)).expect("an array");
        assert_eq!(many.elements, [r#"{"a": 1 }"#, "[2]", "\"x\""]);
    }

    #[test]
    fn what_is_too_many_is_counted_and_not_kept() {
        let many = split(&format!("[{}0]", "0,".repeat(4999)).into()).expect("an array");
        assert_eq!((many.elements.len(), many.count), (1000, 5000));
    }

    proptest! {
        /// It says of every text what reading all of it says.
        #[test]
        fn it_agrees_with_reading_all_of_it(text in "[\\[\\]{}\":,a01 -]{0,12}|\\[(0|\"a\"|\\{\\}|\\[\\]|,){0,6}\\]") {
            match (split(&text.clone().into()), serde_json::from_str::<Value>(&text)) {
                (Ok(many), Ok(Value::Array(items))) => {
                    let read = |element: &Bytes| serde_json::from_slice::<Value>(element).expect("JSON");
                    prop_assert_eq!(many.elements.iter().map(read).collect::<Vec<_>>(), items);
                }
                (Err(Error::Invalid { message }), Ok(other)) => prop_assert!(message.contains(kind(&other))),
                (Err(Error::NotJson { .. }), Err(_)) => {}
                (found, read) => prop_assert!(false, "{:?} {read:?}", found.map(|many| many.count)),
            }
        }
    }
}
