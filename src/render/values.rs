//! How much a template can be given. One step may look at all of a value, so both are bounded.

use serde_json::Value;

use super::error::Error;

const MOST_BYTES: usize = 256 << 10;
const MOST_VALUES: usize = 10_000;
const MOST_DEPTH: usize = 32;

#[derive(Default)]
struct Size {
    bytes: usize,
    values: usize,
}

pub fn check<'a>(values: impl Iterator<Item = (&'a String, &'a Value)>) -> Result<(), Error> {
    let mut size = Size::default();
    for (key, value) in values {
        size.add(value, 0).map_err(|what| Error::at(None, format!("the value of `{key}` {what}")))?;
    }
    Ok(())
}

impl Size {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        self.values += 1;
        match value {
            Value::String(text) => self.bytes += text.len(),
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item, depth + 1))?,
            Value::Object(fields) => fields.iter().try_for_each(|(key, field)| {
                self.bytes += key.len();
                self.add(field, depth + 1)
            })?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if depth > MOST_DEPTH {
            return Err(format!("is nested more than {MOST_DEPTH} deep"));
        }
        if self.bytes > MOST_BYTES || self.values > MOST_VALUES {
            let most = MOST_BYTES >> 10;
            return Err(format!("is too large: all values together hold at most {MOST_VALUES} parts and {most} KiB"));
        }
        Ok(())
    }
}
