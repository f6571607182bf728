//! Values as they are typed: JSON as a kind and a text, and texts that may be variables.

use serde_json::{Map, Value, json};

use crate::rules::{self, Path};

/// What a value can be, for values of a contact's properties and of a template's variables.
pub const KINDS: [(&str, &str); 6] = [
    ("text", "Text"),
    ("number", "Number"),
    ("boolean", "true or false"),
    ("variable", "Variable"),
    ("null", "Nothing"),
    ("json", "JSON"),
];

/// The same for what a rule compares with.
pub const RULE_KINDS: [(&str, &str); 4] =
    [("text", "Text"), ("number", "Number"), ("boolean", "true or false"), ("null", "Nothing")];

pub const OPERATORS: [(&str, &str); 11] = [
    ("eq", "is"),
    ("neq", "is not"),
    ("gt", "is more than"),
    ("gte", "is at least"),
    ("lt", "is less than"),
    ("lte", "is at most"),
    ("contains", "contains"),
    ("starts_with", "starts with"),
    ("ends_with", "ends with"),
    ("exists", "exists"),
    ("is_empty", "is empty"),
];

/// Browsers send two characters for the end of a line.
pub fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// A value as its kind and what is typed for it.
pub fn typed(value: &Value) -> (&'static str, String) {
    match value {
        Value::Null => ("null", String::new()),
        Value::Bool(flag) => ("boolean", flag.to_string()),
        Value::Number(number) => ("number", number.to_string()),
        Value::String(text) => ("text", text.clone()),
        Value::Object(fields) if rules::is_variable(value) => ("variable", string(fields.get("var"))),
        other => ("json", other.to_string()),
    }
}

/// The value that was typed. `Err` says what is wrong.
pub fn value(kind: &str, text: &str) -> Result<Value, String> {
    let trimmed = text.trim();
    match kind {
        "number" => match serde_json::from_str::<Value>(trimmed) {
            Ok(number @ Value::Number(_)) => Ok(number),
            _ => Err("This is not a number, such as 12 or 0.5.".into()),
        },
        "boolean" => match trimmed {
            "true" => Ok(json!(true)),
            "false" => Ok(json!(false)),
            _ => Err("Type true or false.".into()),
        },
        "variable" => Path::parse(trimmed).map(|path| json!({"var": path.as_str()})).map_err(|flaw| format!("{flaw}.")),
        "null" => Ok(Value::Null),
        "json" => serde_json::from_str(trimmed).map_err(|flaw| format!("This is not JSON: {flaw}.")),
        _ => Ok(json!(text)),
    }
}

/// Text as it is typed; a variable stands between braces.
pub fn typed_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(fields)) if fields.len() == 1 && fields.contains_key("var") => {
            format!("{{{{{}}}}}", string(fields.get("var")))
        }
        Some(other) => other.to_string(),
    }
}

/// Text, or the variable that stands between braces.
pub fn text_value(text: &str) -> Value {
    let inside = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
    match inside.and_then(|path| Path::parse(path).ok()) {
        Some(path) => json!({"var": path.as_str()}),
        None => json!(text),
    }
}

fn string(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A rule as it is typed: a field, an operator, and what to compare with.
pub type Row = [String; 4];

/// The rows of a tree of rules without groups within groups, and how they are joined. `None` for any other.
pub fn rows(rule: &Value) -> Option<(&'static str, Vec<Row>)> {
    let row = |rule: &Value| {
        let (kind, text) = rule.get("value").map_or(("text", String::new()), typed);
        let is_rule = rule.get("type").and_then(Value::as_str) == Some("rule") && kind != "json" && kind != "variable";
        is_rule.then(|| [string(rule.get("field")), string(rule.get("operator")), kind.to_owned(), text])
    };
    let all = |rule: &Value| rule.get("rules")?.as_array()?.iter().map(row).collect::<Option<Vec<Row>>>();
    match rule.get("type").and_then(Value::as_str) {
        None if rule.as_object().is_none_or(Map::is_empty) => Some(("and", Vec::new())),
        Some("rule") => Some(("and", vec![row(rule)?])),
        Some("and") => Some(("and", all(rule)?)),
        Some("or") => Some(("or", all(rule)?)),
        _ => None,
    }
}

/// The tree that rows come to; `None` where there are none. `Err` names the row that is wrong, and why.
pub fn rule(joint: &str, rows: &[Row]) -> Result<Option<Value>, (usize, String)> {
    let leaf = |(at, [field, operator, kind, text]): (usize, &Row)| {
        let mut rule = json!({"type": "rule", "field": field.trim(), "operator": operator});
        if !matches!(operator.as_str(), "exists" | "is_empty") {
            rule["value"] = value(kind, text).map_err(|flaw| (at, flaw))?;
        }
        Ok(rule)
    };
    let mut rules = rows.iter().enumerate().map(leaf).collect::<Result<Vec<Value>, _>>()?;
    Ok(match rules.len() {
        0 => None,
        1 => rules.pop(),
        _ => Some(json!({"type": if joint == "or" { "or" } else { "and" }, "rules": rules})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        for given in [json!(null), json!(true), json!(2.5), json!("5"), json!({"var": "event.a"}), json!([1, {"a": 2}])]
        {
            let (kind, text) = typed(&given);
            assert_eq!(value(kind, &text), Ok(given));
        }
        for (kind, text) in
            [("number", "x"), ("number", "\"1\""), ("boolean", "yes"), ("variable", "name"), ("json", "{")]
        {
            assert!(value(kind, text).is_err(), "{kind} {text}");
        }
        for given in [json!("Hi {{contact.email}}"), json!({"var": "contact.email"}), json!("{{NAME}}")] {
            assert_eq!(text_value(&typed_text(Some(&given))), given);
        }
    }

    #[test]
    fn rules_come_back_as_they_were_unless_they_are_nested() {
        let leaf = json!({"type": "rule", "field": "event.a", "operator": "eq", "value": 1});
        let bare = json!({"type": "rule", "field": "event.a", "operator": "exists"});
        for given in [leaf.clone(), json!({"type": "or", "rules": [leaf.clone(), bare.clone()]})] {
            let (joint, rows) = rows(&given).expect("flat");
            assert_eq!(rule(joint, &rows), Ok(Some(given)));
        }
        assert_eq!(rows(&json!({})), Some(("and", Vec::new())));
        assert_eq!(rule("and", &[]), Ok(None));
        assert_eq!(rows(&json!({"type": "and", "rules": [{"type": "or", "rules": [bare]}]})), None);
        let wrong = ["event.a", "gt", "number", "many"].map(str::to_owned);
        assert_eq!(rule("and", &[wrong]).expect_err("no number").0, 0);
    }
}
