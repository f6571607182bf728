//! What rules and variables can see: the event, the contact, and the events
//! that a run waited for.

mod budget;
mod description;
mod duration;
mod rule;

use serde_json::{Map, Value};

pub use budget::Budget;
pub use description::{
    Named as NamedSchema, comparisons as comparison_schemas, group as group_schema, leaf as rule_schema,
    one_of as word_schema,
};
pub use duration::Duration;
pub use rule::{DEEPEST, MOST, Rule, fields_of};

/// Names of events are part of paths, so these are generous.
const LONGEST: usize = 2048;
const MOST_DOTS: usize = 40;

/// What looking for a key costs beside its length.
const LOOK: usize = 16;

/// The values in reach of a step.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The payload of the event that started the run, or of the one in question.
    pub event: &'a Value,
    /// The contact as an object, with its properties below `properties`.
    pub contact: &'a Value,
    /// The payloads of events that were waited for, by name; the last one wins.
    pub waited: &'a Map<String, Value>,
    /// What looking at them costs.
    pub budget: &'a Budget,
}

/// Where a path may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    Event,
    Contact,
    WaitEvents,
}

/// A path such as `event.plan`, `contact.properties.company` or
/// `wait_events.order.paid.total`, whose root is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    root: Root,
}

impl Path {
    pub fn parse(text: &str) -> Result<Path, String> {
        if text.len() > LONGEST || text.matches('.').count() > MOST_DOTS {
            return Err(format!("a path has at most {LONGEST} characters and {MOST_DOTS} dots"));
        }
        let root = match text.split_once('.') {
            Some(("event", rest)) if !rest.is_empty() => Root::Event,
            Some(("contact", rest)) if !rest.is_empty() => Root::Contact,
            Some(("wait_events", rest)) if !rest.is_empty() => Root::WaitEvents,
            _ => {
                let shown = crate::text::shown(text);
                return Err(format!("`{shown}` must start with `event.`, `contact.` or `wait_events.`"));
            }
        };
        Ok(Path { text: text.to_owned(), root })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn root(&self) -> Root {
        self.root
    }

    /// The value at the path; `None` where there is nothing, which is not null.
    pub fn find<'a>(&self, values: &Values<'a>) -> Option<&'a Value> {
        let rest = self.text.split_once('.').map_or("", |(_, rest)| rest);
        match self.root {
            Root::Event => find(values.event, rest, values.budget),
            Root::Contact => {
                let own = find(values.contact, rest, values.budget);
                // A property may be named without its folder.
                own.or_else(|| find(values.contact.get("properties")?, rest, values.budget))
            }
            Root::WaitEvents => values.waited.iter().find_map(|(name, payload)| {
                let field = rest.strip_prefix(name.as_str())?.strip_prefix('.')?;
                find(payload, field, values.budget)
            }),
        }
    }
}

/// Walks into objects. Keys may hold dots themselves: the longest key that fits is
/// taken, and not gone back on. Trying the others as well would cost as much as a
/// payload has keys, for every rule that names it.
fn find<'a>(mut value: &'a Value, mut path: &str, budget: &Budget) -> Option<&'a Value> {
    loop {
        let object = value.as_object()?;
        let mut ends = std::iter::once(path.len()).chain(path.rmatch_indices('.').map(|(dot, _)| dot));
        let (found, end) = ends.find_map(|end| {
            budget.spend(LOOK + end);
            object.get(&path[..end]).map(|found| (found, end))
        })?;
        match path.get(end + 1..) {
            Some(rest) => (value, path) = (found, rest),
            None => return Some(found),
        }
    }
}

/// How much text variables may put into one step: a payload can be named often.
const ROOM: usize = 1 << 20;

/// A literal, or something that holds variables: `{"var": "contact.email"}`.
/// `Err` where more would come of it than a step may hold.
pub fn resolve(value: &Value, values: &Values<'_>) -> Result<Value, String> {
    resolve_into(value, values, &mut 0)
}

fn resolve_into(value: &Value, values: &Values<'_>, used: &mut usize) -> Result<Value, String> {
    match value {
        Value::Object(fields) => match variable(fields) {
            Some(path) => {
                let found = Path::parse(path).ok().and_then(|path| path.find(values));
                let bytes = found.map_or(0, |found| size(found, ROOM));
                values.budget.spend(bytes);
                *used += bytes;
                if *used > ROOM {
                    return Err(format!("its variables come to more than {ROOM} bytes"));
                }
                Ok(found.cloned().unwrap_or(Value::Null))
            }
            None => {
                let pair = |(key, value): (&String, &Value)| Ok((key.clone(), resolve_into(value, values, used)?));
                fields.iter().map(pair).collect()
            }
        },
        Value::Array(items) => items.iter().map(|item| resolve_into(item, values, used)).collect(),
        literal => Ok(literal.clone()),
    }
}

/// About how many bytes a value takes, counted until they are more than `most`.
pub fn size(value: &Value, most: usize) -> usize {
    let add = |sum: usize, more: usize| Some(sum + more).filter(|sum| *sum <= most).ok_or(sum + more);
    let counted = match value {
        Value::String(text) => Ok(text.len() + 2),
        Value::Array(items) => items.iter().try_fold(2, |sum, item| add(sum, size(item, most))),
        Value::Object(fields) => {
            fields.iter().try_fold(2, |sum, (key, value)| add(sum, key.len() + 4 + size(value, most)))
        }
        _ => Ok(8),
    };
    counted.unwrap_or_else(|more| more)
}

/// A value as a history keeps it: what is long is cut.
pub fn excerpt(value: &Value) -> Value {
    const KEPT: usize = 500;
    match value {
        Value::String(text) if crate::text::is_longer(text, KEPT) => {
            Value::String(text.chars().take(KEPT).chain(['…']).collect())
        }
        Value::Array(_) | Value::Object(_) if size(value, KEPT) > KEPT => {
            Value::String("… (too long to be kept here)".into())
        }
        short => short.clone(),
    }
}

/// Every path that a value uses, with what is wrong with it.
pub fn check(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => match fields.get("var") {
            Some(Value::String(path)) if fields.len() == 1 => Path::parse(path).map(drop),
            Some(_) if fields.len() == 1 => Err("`var` must be a path such as `event.plan`".into()),
            _ => fields.values().try_for_each(check),
        },
        Value::Array(items) => items.iter().try_for_each(check),
        _ => Ok(()),
    }
}

/// Whether a value is a variable, and not what it leads to.
pub fn is_variable(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| variable(fields).is_some())
}

fn variable(fields: &Map<String, Value>) -> Option<&str> {
    fields.get("var").filter(|_| fields.len() == 1)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn world() -> (Value, Value, Map<String, Value>) {
        let event = json!({"plan": "pro", "a": {"b": 1}, "x.y": 2, "none": null});
        let contact =
            json!({"email": "a@b.co", "first_name": null, "properties": {"company": "Acme", "email": "shadow"}});
        let waited = json!({"order.paid": {"total": 5}, "order": {"paid.total": 6}});
        (event, contact, waited.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn paths_find_what_they_name() {
        let (event, contact, waited) = world();
        let budget = Budget::default();
        let values = Values { event: &event, contact: &contact, waited: &waited, budget: &budget };
        for (path, found) in [
            ("event.plan", Some(json!("pro"))),
            ("event.a.b", Some(json!(1))),
            ("event.x.y", Some(json!(2))),
            ("event.none", Some(Value::Null)),
            ("event.missing", None),
            ("event.plan.deeper", None),
            ("contact.email", Some(json!("a@b.co"))),
            ("contact.first_name", Some(Value::Null)),
            ("contact.properties.company", Some(json!("Acme"))),
            ("contact.company", Some(json!("Acme"))),
            ("wait_events.order.paid.total", Some(json!(5))),
            ("wait_events.unheard.total", None),
        ] {
            assert_eq!(Path::parse(path).expect(path).find(&values).cloned(), found, "{path}");
        }
        for bad in ["", "event", "event.", "contacts.x", "plan", "Event.x"] {
            assert!(Path::parse(bad).is_err(), "{bad}");
        }
    }

    /// Of keys with dots in them the longest counts, also where another one would lead further.
    #[test]
    fn a_key_that_was_taken_is_not_gone_back_on() {
        let event = json!({"a": {"b": {"c": 1}}, "a.b": {"d": 2}, "x": {"y": 3}, "x.z": 4});
        let (waited, budget) = (Map::new(), Budget::default());
        let values = Values { event: &event, contact: &Value::Null, waited: &waited, budget: &budget };
        let found = |path: &str| Path::parse(path).expect(path).find(&values).cloned();
        assert_eq!((found("event.a.b.d"), found("event.a.b.c")), (Some(json!(2)), None));
        assert_eq!((found("event.x.y"), found("event.x.z")), (Some(json!(3)), Some(json!(4))));
    }

    /// Every way through such a payload fits the start of the path, and none leads to its end.
    #[test]
    fn a_look_costs_as_much_as_the_path_is_long() {
        fn bush(depth: usize) -> Value {
            match depth {
                0 => json!({}),
                _ => json!({"a": bush(depth - 1), "a.a": bush(depth - 1), "a.a.a": bush(depth - 1)}),
            }
        }
        let (event, waited, budget) = (bush(8), Map::new(), Budget::default());
        let values = Values { event: &event, contact: &Value::Null, waited: &waited, budget: &budget };
        let path = format!("event.{}", vec!["a"; 38].join("."));
        assert_eq!(Path::parse(&path).expect("a path").find(&values), None);
        assert!(budget.spent() < 64 << 10, "{}", budget.spent());
    }

    #[test]
    fn variables_are_replaced_wherever_they_stand() {
        let (event, contact, waited) = world();
        let budget = Budget::default();
        let values = Values { event: &event, contact: &contact, waited: &waited, budget: &budget };
        let given = json!({"to": {"var": "contact.email"}, "list": [{"var": "event.plan"}, 1], "gone": {"var": "event.no"},
            "literal": {"var": "event.plan", "other": 1}});
        let expected =
            json!({"to": "a@b.co", "list": ["pro", 1], "gone": null, "literal": {"var": "event.plan", "other": 1}});
        assert_eq!(resolve(&given, &values), Ok(expected));
        let large = json!({"text": "x".repeat(200 << 10)});
        let values = Values { event: &large, ..values };
        let often: Value = (0..6).map(|_| json!({"var": "event.text"})).collect();
        assert!(resolve(&often, &values).expect_err("too much").contains("1048576"));
        assert!(check(&given).is_ok());
        assert!(check(&json!({"x": {"var": "nowhere"}})).is_err());
        assert!(check(&json!([{"var": 1}])).is_err());
    }
}
