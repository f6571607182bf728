//! Conditions: trees of rules, judged with the evidence kept.

use memchr::memmem;
use serde::Serialize;
use serde_json::{Map, Value};

use super::budget::Budget;
use super::{Path, Root, Values, excerpt};
use crate::text::{kind, shown, words};

/// How deep groups may be nested, and how many rules a tree may have.
pub const DEEPEST: usize = 8;
pub const MOST: usize = 100;

/// How much of what was compared in one step a run's history keeps at most.
const KEPT: usize = 8 << 10;

/// A rule, or several joined.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Leaf { field: Path, operator: Operator, value: Value },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Eq,
    Neq,
    Gt,
    Gte,
    Lt,
    Lte,
    Contains,
    StartsWith,
    EndsWith,
    Exists,
    IsEmpty,
}

words!(Operator: ALL, parse {
    Eq = "eq",
    Neq = "neq",
    Gt = "gt",
    Gte = "gte",
    Lt = "lt",
    Lte = "lte",
    Contains = "contains",
    StartsWith = "starts_with",
    EndsWith = "ends_with",
    Exists = "exists",
    IsEmpty = "is_empty",
});

impl Operator {
    /// What is wrong with a value for this operator.
    fn check(self, value: &Value) -> Result<(), String> {
        let wanted = match self {
            Operator::Eq | Operator::Neq if !value.is_object() && !value.is_array() => return Ok(()),
            Operator::Eq | Operator::Neq => "a string, a number, a boolean or null",
            Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte if value.is_number() => return Ok(()),
            Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte => "a number",
            Operator::Contains | Operator::StartsWith | Operator::EndsWith if value.is_string() => return Ok(()),
            Operator::Contains | Operator::StartsWith | Operator::EndsWith => "a string",
            Operator::Exists | Operator::IsEmpty => return Ok(()),
        };
        Err(format!("the operator `{}` compares with {wanted}, but `value` is {}", self.as_str(), kind(value)))
    }

    /// Whether something that was found satisfies the rule.
    fn holds(self, found: &Value, value: &Value, budget: &Budget) -> bool {
        budget.spend(match found {
            Value::String(text) => text.len(),
            Value::Array(items) => items.len() * size_of::<Value>(),
            _ => 0,
        });
        let numbers = found.as_f64().zip(value.as_f64());
        let texts = found.as_str().zip(value.as_str());
        match self {
            Operator::Eq => equal(found, value),
            Operator::Neq => !equal(found, value),
            Operator::Gt => numbers.is_some_and(|(found, value)| found > value),
            Operator::Gte => numbers.is_some_and(|(found, value)| found >= value),
            Operator::Lt => numbers.is_some_and(|(found, value)| found < value),
            Operator::Lte => numbers.is_some_and(|(found, value)| found <= value),
            Operator::Contains => match found {
                Value::Array(items) => items.contains(value),
                _ => texts.is_some_and(|(found, value)| memmem::find(found.as_bytes(), value.as_bytes()).is_some()),
            },
            Operator::StartsWith => texts.is_some_and(|(found, value)| found.starts_with(value)),
            Operator::EndsWith => texts.is_some_and(|(found, value)| found.ends_with(value)),
            Operator::Exists => true,
            Operator::IsEmpty => match found {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            },
        }
    }
}

/// Numbers are equal by value: 1 is 1.0.
fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

/// One comparison as it happened, for the trace of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    pub field: String,
    pub operator: &'static str,
    pub value: Value,
    /// What was found; absent where there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
    pub met: bool,
}

/// What a rule of its type may hold.
pub fn fields_of(rule: &Map<String, Value>) -> &'static [&'static str] {
    match rule.get("type").and_then(Value::as_str) {
        Some("and" | "or") => &["type", "rules"],
        _ => &["type", "field", "operator", "value"],
    }
}

impl Rule {
    /// Reads a tree. With `events_only` the fields must start with `event.`.
    pub fn parse(value: &Value, events_only: bool) -> Result<Rule, String> {
        let mut count = 0;
        Rule::parse_at(value, events_only, 0, &mut count)
    }

    fn parse_at(value: &Value, events_only: bool, depth: usize, count: &mut usize) -> Result<Rule, String> {
        *count += 1;
        if depth > DEEPEST || *count > MOST {
            return Err(format!("the rules are too many: at most {MOST}, nested at most {DEEPEST} deep"));
        }
        let group = |rules: Option<&Value>, count: &mut usize| -> Result<Vec<Rule>, String> {
            let rules = rules.and_then(Value::as_array).filter(|rules| !rules.is_empty());
            let rules = rules.ok_or("a group of rules needs `rules`, an array of at least one")?;
            rules.iter().map(|rule| Rule::parse_at(rule, events_only, depth + 1, count)).collect()
        };
        match value.get("type").and_then(Value::as_str) {
            Some("and") => Ok(Rule::All(group(value.get("rules"), count)?)),
            Some("or") => Ok(Rule::Any(group(value.get("rules"), count)?)),
            Some("rule") => Rule::parse_leaf(value, events_only),
            _ => Err("a rule needs `type`: `rule`, `and` or `or`".into()),
        }
    }

    fn parse_leaf(rule: &Value, events_only: bool) -> Result<Rule, String> {
        let field = rule.get("field").and_then(Value::as_str).ok_or("a rule needs `field`, such as `event.plan`")?;
        let field = Path::parse(field)?;
        if field.root() == Root::WaitEvents || (events_only && field.root() != Root::Event) {
            let roots = if events_only { "`event.`" } else { "`event.` or `contact.`" };
            return Err(format!("the field `{}` must start with {roots}", shown(field.as_str())));
        }
        let operator = rule.get("operator").and_then(Value::as_str).unwrap_or_default();
        let operator = Operator::parse(operator).ok_or_else(|| {
            let all: Vec<String> = Operator::ALL.iter().map(|one| format!("`{}`", one.as_str())).collect();
            format!("a rule needs `operator`, one of {}", all.join(", "))
        })?;
        let value = rule.get("value").cloned().unwrap_or(Value::Null);
        operator.check(&value)?;
        Ok(Rule::Leaf { field, operator, value })
    }

    /// Whether the rule is met, and the comparisons that were made on the way, if the
    /// history has so many bytes of room. A field that is not there meets no rule. `Err`
    /// where that costs too much.
    pub fn judge(&self, values: &Values<'_>, room: usize) -> Result<(bool, Findings), String> {
        let mut findings = Findings { room: room.min(KEPT), ..Findings::default() };
        let met = self.judge_into(values, Some(&mut findings))?;
        Ok((met, findings))
    }

    /// As [`Rule::judge`], where nobody asks why.
    pub fn is_met(&self, values: &Values<'_>) -> Result<bool, String> {
        self.judge_into(values, None)
    }

    fn judge_into(&self, values: &Values<'_>, mut findings: Option<&mut Findings>) -> Result<bool, String> {
        // In a group all are judged, even when the first decides, if a trace is to show them all.
        let (rules, decides) = match self {
            Rule::All(rules) => (rules, false),
            Rule::Any(rules) => (rules, true),
            Rule::Leaf { field, operator, value } => {
                values.budget.check()?;
                let found = field.find(values);
                let met = found.is_some_and(|found| operator.holds(found, value, values.budget));
                if let Some(findings) = findings {
                    values.budget.spend(findings.note(field, *operator, value, found, met));
                }
                return Ok(met);
            }
        };
        let mut met = !decides;
        for rule in rules {
            if rule.judge_into(values, findings.as_deref_mut())? == decides {
                met = decides;
                if findings.is_none() {
                    break;
                }
            }
        }
        Ok(met)
    }
}

/// The comparisons of one step, as many as a history has room for.
#[derive(Debug, Default, PartialEq)]
pub struct Findings {
    pub evidence: Vec<Evidence>,
    /// How many bytes more are kept.
    room: usize,
    pub left_out: usize,
}

impl Findings {
    /// Tells how many bytes that came to.
    fn note(&mut self, field: &Path, operator: Operator, value: &Value, found: Option<&Value>, met: bool) -> usize {
        if self.room == 0 {
            self.left_out += 1;
            return 0;
        }
        let (value, found) = (excerpt(value), found.map(excerpt));
        let length = |value: &Value| value.as_str().map_or(16, str::len);
        let taken = field.as_str().len() + length(&value) + found.as_ref().map_or(0, length);
        self.room = self.room.saturating_sub(taken);
        let field = field.as_str().to_owned();
        self.evidence.push(Evidence { field, operator: operator.as_str(), value, found, met });
        size_of::<Evidence>() + taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn met(field: &str, operator: &str, value: Value) -> bool {
        let event = json!({"s": "abcabc", "e": "", "n": 5, "f": 5.0, "t": true, "z": null, "l": ["a"], "o": {}});
        let rule = json!({"type": "rule", "field": field, "operator": operator, "value": value});
        let rule = Rule::parse(&rule, false).expect("a rule");
        rule.is_met(&Values {
            event: &event,
            contact: &json!({"email": "a@b.co"}),
            waited: &Map::new(),
            budget: &Budget::default(),
        })
        .expect("a rule that costs little")
    }

    fn judged(rule: &Rule, event: &Value) -> (bool, Vec<Evidence>) {
        let (waited, budget) = (Map::new(), Budget::default());
        let values = Values { event, contact: &Value::Null, waited: &waited, budget: &budget };
        let (met, findings) = rule.judge(&values, usize::MAX).expect("a rule that costs little");
        assert_eq!(rule.is_met(&values), Ok(met));
        (met, findings.evidence)
    }

    #[test]
    fn every_operator() {
        for (field, operator, value, expected) in [
            ("event.s", "eq", json!("abcabc"), true),
            ("event.s", "eq", json!("ABCABC"), false),
            ("event.n", "eq", json!(5.0), true),
            ("event.n", "eq", json!("5"), false),
            ("event.t", "eq", json!(true), true),
            ("event.z", "eq", json!(null), true),
            ("event.s", "neq", json!("x"), true),
            ("event.n", "neq", json!(5), false),
            ("event.n", "gt", json!(4), true),
            ("event.n", "gt", json!(5), false),
            ("event.f", "gte", json!(5), true),
            ("event.n", "lt", json!(6), true),
            ("event.n", "lte", json!(4), false),
            ("event.s", "gt", json!(1), false),
            ("event.s", "contains", json!("ca"), true),
            ("event.l", "contains", json!("a"), true),
            ("event.s", "starts_with", json!("abc"), true),
            ("event.s", "ends_with", json!("b"), false),
            ("event.n", "contains", json!("5"), false),
            ("event.s", "exists", json!(null), true),
            ("event.z", "exists", json!(null), true),
            ("event.e", "is_empty", json!(null), true),
            ("event.z", "is_empty", json!(null), true),
            ("event.o", "is_empty", json!(null), true),
            ("event.n", "is_empty", json!(null), false),
            ("contact.email", "ends_with", json!("@b.co"), true),
        ] {
            assert_eq!(met(field, operator, value.clone()), expected, "{field} {operator} {value}");
        }
    }

    #[test]
    fn a_rule_on_a_missing_field_is_false_and_visible() {
        for operator in Operator::ALL {
            let value = match operator {
                Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte => json!(1),
                _ => json!("x"),
            };
            let rule = json!({"type": "rule", "field": "event.missing", "operator": operator.as_str(), "value": value});
            let rule = Rule::parse(&rule, false).expect("a rule");
            let (met, evidence) = judged(&rule, &json!({}));
            assert!(!met && evidence.len() == 1 && evidence[0].found.is_none(), "{operator:?}");
        }
    }

    #[test]
    fn groups_join_rules_and_keep_all_evidence() {
        let leaf = |value: i64| json!({"type": "rule", "field": "event.n", "operator": "eq", "value": value});
        let tree = json!({"type": "or", "rules": [{"type": "and", "rules": [leaf(1), leaf(2)]}, leaf(1)]});
        let rule = Rule::parse(&tree, true).expect("a tree");
        let (met, evidence) = judged(&rule, &json!({"n": 1}));
        assert!(met);
        assert_eq!(evidence.iter().map(|one| one.met).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_reason() {
        for (rule, word) in [
            (json!({}), "`type`"),
            (json!([]), "`type`"),
            (json!({"type": "and"}), "`rules`"),
            (json!({"type": "or", "rules": []}), "`rules`"),
            (json!({"type": "rule", "operator": "eq"}), "`field`"),
            (json!({"type": "rule", "field": "plan", "operator": "eq"}), "`event.`"),
            (json!({"type": "rule", "field": "event.a", "operator": "like"}), "`starts_with`"),
            (json!({"type": "rule", "field": "event.a", "operator": "gt", "value": "1"}), "a number"),
            (json!({"type": "rule", "field": "event.a", "operator": "contains", "value": 1}), "a string"),
            (json!({"type": "rule", "field": "event.a", "operator": "eq", "value": []}), "array"),
            (json!({"type": "rule", "field": "wait_events.a.b", "operator": "eq", "value": 1}), "`contact.`"),
        ] {
            let error = Rule::parse(&rule, false).expect_err("refused");
            assert!(error.contains(word), "{rule}: {error}");
        }
        let contact = json!({"type": "rule", "field": "contact.email", "operator": "exists"});
        assert!(Rule::parse(&contact, true).is_err());
        let mut deep = json!({"type": "rule", "field": "event.a", "operator": "exists"});
        for _ in 0..9 {
            deep = json!({"type": "and", "rules": [deep]});
        }
        assert!(Rule::parse(&deep, false).is_err());
    }

    /// A hundred comparisons with the largest text there is.
    #[test]
    fn a_tree_that_costs_too_much_is_not_judged_to_its_end() {
        let leaf = json!({"type": "rule", "field": "event.text", "operator": "contains", "value": "b"});
        let tree = Rule::parse(&json!({"type": "or", "rules": vec![leaf; 99]}), true).expect("a tree");
        let event = json!({"text": "a".repeat(250 << 10)});
        let judge = |event: &Value| {
            let (waited, budget) = (Map::new(), Budget::default());
            tree.is_met(&Values { event, contact: &Value::Null, waited: &waited, budget: &budget })
        };
        assert!(judge(&event).expect_err("too much").contains("4 MiB"));
        assert_eq!(judge(&json!({"text": "a".repeat(25 << 10)})), Ok(false));
    }

    #[test]
    fn a_history_keeps_as_much_of_a_tree_as_it_has_room_for() {
        let field = format!("event.{}", "x".repeat(2000));
        let leaf = json!({"type": "rule", "field": field, "operator": "exists"});
        let tree = Rule::parse(&json!({"type": "or", "rules": vec![leaf; 99]}), true).expect("a tree");
        let (event, waited, budget) = (json!({}), Map::new(), Budget::default());
        let values = Values { event: &event, contact: &Value::Null, waited: &waited, budget: &budget };
        let (_, findings) = tree.judge(&values, usize::MAX).expect("judged");
        assert_eq!((findings.evidence.len(), findings.left_out), (5, 94));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z.]{0,8}".prop_map(Value::from),
            Just(json!("rule")),
            Just(json!("and")),
            Just(json!("event.a")),
            Just(json!("eq")),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let keys = prop_oneof![Just("type"), Just("rules"), Just("field"), Just("operator"), Just("value")];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((keys, inner), 0..5)
                    .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_makes_rules_panic(rule in any_json(), event in any_json()) {
            if let Ok(rule) = Rule::parse(&rule, false) {
                let budget = Budget::default();
                let _ = rule.judge(&Values { event: &event, contact: &event, waited: &Map::new(), budget: &budget }, 1000);
            }
        }
    }
}
