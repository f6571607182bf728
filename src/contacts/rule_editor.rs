//! The filter of a segment as rows that people fill in: groups of rules, each joined by all or any, and the groups
//! joined in the same way. What rows cannot say is written as JSON.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::properties::{Declared, Kind};
use crate::segments::Filter;
use crate::web::Form;

/// How many groups rows can say.
pub const MOST_GROUPS: usize = 4;

/// The operators that rows offer, in words.
pub const OPERATORS: [(&str, &str); 11] = [
    ("eq", "is"),
    ("neq", "is not"),
    ("contains", "contains"),
    ("starts_with", "starts with"),
    ("ends_with", "ends with"),
    ("gt", "is more than"),
    ("gte", "is at least"),
    ("lt", "is less than"),
    ("lte", "is at most"),
    ("exists", "is there"),
    ("is_empty", "is empty"),
];

/// How fields begin that need a name of their own.
const NAMED: [&str; 2] = ["events.", "broadcasts."];

#[derive(Debug, Default, Clone, PartialEq)]
pub struct Row {
    /// As filters name it; for events and broadcasts only how it begins.
    pub field: String,
    /// The event's name, or the broadcast's id with what is asked of it.
    pub name: String,
    pub operator: String,
    pub value: String,
    pub within: String,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct Group {
    /// Whether one of its rules is enough.
    pub is_any: bool,
    pub rows: Vec<Row>,
}

/// What the editor holds.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Rules {
    /// Whether one of its groups is enough.
    pub is_any: bool,
    pub groups: Vec<Group>,
}

impl Row {
    fn is_blank(&self) -> bool {
        self.field.is_empty()
    }

    fn of(rule: &Value) -> Option<Row> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("type") != "rule" {
            return None;
        }
        let whole = text("field");
        let start = NAMED.into_iter().find(|start| whole.starts_with(start));
        let (field, name) = match start {
            Some(start) => (start.to_owned(), whole[start.len()..].to_owned()),
            None => (whole, String::new()),
        };
        let value = match rule.get("value") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Some(Row { field, name, operator: text("operator"), value, within: text("within") })
    }

    fn json(&self, declared: &[Declared]) -> Value {
        let field = match NAMED.contains(&self.field.as_str()) {
            true => format!("{}{}", self.field, self.name.trim()),
            false => self.field.clone(),
        };
        let mut rule = json!({"type": "rule", "field": field, "operator": self.operator});
        if !["exists", "is_empty"].contains(&self.operator.as_str()) {
            rule["value"] = self.typed(&field, declared);
        }
        if !self.within.trim().is_empty() {
            rule["within"] = self.within.trim().into();
        }
        rule
    }

    /// The value with the type that the field has. What cannot be read so stays text, and is refused as such.
    fn typed(&self, field: &str, declared: &[Declared]) -> Value {
        let number = || serde_json::from_str::<serde_json::Number>(self.value.trim()).ok().map(Value::Number);
        let key = field.strip_prefix("contact.properties.").or(field.strip_prefix("contact."));
        let property = declared.iter().find(|property| Some(property.key.as_str()) == key);
        let compares = ["gt", "gte", "lt", "lte"].contains(&self.operator.as_str());
        let counts = field.starts_with("events.") || field.starts_with("emails.");
        let typed = match property {
            _ if field == "contact.unsubscribed" => self.value.trim().parse().ok().map(Value::Bool),
            Some(Declared { kind: Kind::Number, .. }) => number(),
            _ if counts || compares || field.ends_with(".opened") || field.ends_with(".clicked") => number(),
            _ => None,
        };
        typed.unwrap_or_else(|| self.value.as_str().into())
    }
}

impl Rules {
    /// A filter as rows; `None` where they cannot say it.
    pub fn of(filter: &Value) -> Option<Rules> {
        let join = |node: &Value| match node.get("type").and_then(Value::as_str) {
            Some("and") => Some(false),
            Some("or") => Some(true),
            _ => None,
        };
        let children = |node: &Value| node.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(is_any) = join(filter) else {
            return Some(Rules { is_any: false, groups: vec![Group { is_any: false, rows: vec![Row::of(filter)?] }] });
        };
        // Rules beside groups are a group that is joined as those are.
        let mut own = Group { is_any, rows: Vec::new() };
        let mut groups = Vec::new();
        for child in children(filter) {
            match join(&child) {
                None => own.rows.push(Row::of(&child)?),
                Some(is_any) => {
                    let rows: Option<Vec<Row>> = children(&child).iter().map(Row::of).collect();
                    groups.push(Group { is_any, rows: rows? });
                }
            }
        }
        if !own.rows.is_empty() {
            groups.insert(0, own);
        }
        (groups.len() <= MOST_GROUPS).then_some(Rules { is_any, groups })
    }

    /// What was sent: the fields of a group carry its number.
    pub fn sent(form: &Form) -> Rules {
        let group = |number: usize| {
            let all = |name: &str| form.all(&format!("{name}{number}"));
            let (names, operators, values, withins) = (all("name"), all("operator"), all("value"), all("within"));
            let at = |list: &[String], at: usize| list.get(at).cloned().unwrap_or_default();
            let row = |(place, field): (usize, String)| Row {
                field,
                name: at(&names, place),
                operator: at(&operators, place),
                value: at(&values, place),
                within: at(&withins, place),
            };
            let rows = all("field").into_iter().enumerate().map(row).filter(|row| !row.is_blank()).collect();
            Group { is_any: form.text(&format!("join{number}")) == "any", rows }
        };
        let groups = (0..MOST_GROUPS).map(group).filter(|group| !group.rows.is_empty()).collect();
        Rules { is_any: form.text("join") == "any", groups }
    }

    /// As filters are written; `None` where there is no rule.
    pub fn json(&self, declared: &[Declared]) -> Option<Value> {
        let word = |is_any: bool| if is_any { "or" } else { "and" };
        let group = |group: &Group| {
            let rules: Vec<Value> = group.rows.iter().map(|row| row.json(declared)).collect();
            json!({"type": word(group.is_any), "rules": rules})
        };
        let mut groups: Vec<Value> = self.groups.iter().map(group).collect();
        match groups.len() {
            0 => None,
            1 => groups.pop(),
            _ => Some(json!({"type": word(self.is_any), "rules": groups})),
        }
    }
}

/// Why what a form describes is no filter.
#[derive(Debug, Default, PartialEq)]
pub struct Refused {
    pub problem: String,
    /// What is wrong with single rows, by the place of their group and their own.
    pub rows: HashMap<(usize, usize), String>,
}

impl Refused {
    pub fn whole(problem: String) -> Refused {
        Refused { problem, rows: HashMap::new() }
    }

    /// The page marks the rows and says beside each what is wrong.
    pub fn by_rows(rows: HashMap<(usize, usize), String>) -> Refused {
        let problem = match rows.len() {
            1 => "One rule cannot be used; beside it stands why.".into(),
            count => format!("{count} rules cannot be used; beside each stands why."),
        };
        Refused { problem, rows }
    }
}

impl Rules {
    /// Each rule as a filter of its own, or what is wrong with it, by the place of its group and its own.
    pub fn each(&self, declared: &[Declared]) -> Vec<((usize, usize), Result<Filter, String>)> {
        let mut all = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            for (at, row) in group.rows.iter().enumerate() {
                all.push(((number, at), Filter::parse(&row.json(declared))));
            }
        }
        all
    }
}

/// The filter that a form describes, by rows or as JSON; `None` where it describes none.
pub fn filter_of(form: &Form, declared: &[Declared]) -> Result<Option<Filter>, Refused> {
    let whole = |why: String| Refused::whole(format!("These rules cannot be used: {why}."));
    if form.text("mode") == "json" {
        let text = form.text("json");
        if text.trim().is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(text.trim())
            .map_err(|error| Refused::whole(format!("This is not valid JSON: {error}.")))?;
        return Filter::parse(&value).map(Some).map_err(whole);
    }
    let rules = Rules::sent(form);
    let wrong = rules.each(declared).into_iter().filter_map(|(place, rule)| Some((place, in_a_row(&rule.err()?))));
    let wrong: HashMap<(usize, usize), String> = wrong.collect();
    if !wrong.is_empty() {
        return Err(Refused::by_rows(wrong));
    }
    rules.json(declared).map(|value| Filter::parse(&value)).transpose().map_err(whole)
}

/// What is wrong with a rule, as it stands beside its row.
fn in_a_row(why: &str) -> String {
    format!("This rule cannot be used: {why}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(field: &str) -> Value {
        json!({"type": "rule", "field": field, "operator": "gte", "value": 2, "within": "30 days"})
    }

    #[test]
    fn what_rows_can_say_comes_back_as_the_same_rules() {
        let group = |word: &str, rules: Vec<Value>| json!({"type": word, "rules": rules});
        for (filter, again) in [
            (leaf("events.order.paid"), group("and", vec![leaf("events.order.paid")])),
            (
                group("or", vec![leaf("emails.opened"), leaf("events.a")]),
                group("or", vec![leaf("emails.opened"), leaf("events.a")]),
            ),
            (
                group("and", vec![leaf("emails.opened"), group("or", vec![leaf("events.a"), leaf("events.b")])]),
                group(
                    "and",
                    vec![
                        group("and", vec![leaf("emails.opened")]),
                        group("or", vec![leaf("events.a"), leaf("events.b")]),
                    ],
                ),
            ),
        ] {
            let rules = Rules::of(&filter).expect("rows");
            assert_eq!(rules.json(&[]), Some(again));
        }
        let deep = group("and", vec![group("or", vec![group("and", vec![leaf("events.a")])])]);
        assert_eq!(Rules::of(&deep), None);
        assert_eq!(Rules::default().json(&[]), None);
    }

    #[test]
    fn values_have_the_type_of_their_field() {
        let row = |field: &str, operator: &str, value: &str| {
            let row = Row { field: field.into(), operator: operator.into(), value: value.into(), ..Row::default() };
            row.json(&[])["value"].clone()
        };
        assert_eq!(row("contact.unsubscribed", "eq", "true"), json!(true));
        assert_eq!(row("contact.email", "ends_with", "2"), json!("2"));
        assert_eq!(row("emails.opened", "gte", "2"), json!(2));
        assert_eq!(row("emails.opened", "gte", "two"), json!("two"));
        assert_eq!(row("contact.email", "exists", "x"), Value::Null);
    }
}
