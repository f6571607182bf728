//! What is typed for the configuration of a step, and back.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::values::{self, Row};
use crate::web::Form;
use crate::windows::Window;

/// Every field that a form of a step may have.
const NAMES: [&str; 30] = [
    "event_name",
    "duration",
    "timeout",
    "joint",
    "rule_field",
    "rule_operator",
    "rule_kind",
    "rule_value",
    "mail",
    "template",
    "from",
    "subject",
    "reply_to",
    "html",
    "text",
    "pair_key",
    "pair_kind",
    "pair_value",
    "days",
    "window_from",
    "window_until",
    "first_name_act",
    "first_name",
    "last_name_act",
    "last_name",
    "unsubscribed",
    "unsubscribed_path",
    "segment_id",
    "url",
    "body",
];

/// What was typed into a form, or would have to be, by the names of the fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Typed(HashMap<&'static str, Vec<String>>);

/// What is wrong, by the names of the fields; rows are numbered.
pub type Flaws = HashMap<String, String>;

/// What was typed, by name, and the rows of rules and pairs among it.
type Essence = (HashMap<&'static str, Vec<String>>, Vec<Row>, Vec<[String; 3]>);

impl Typed {
    pub fn of_form(form: &Form) -> Typed {
        let all = NAMES.into_iter().zip(form.all_of(NAMES)).filter(|(_, all)| !all.is_empty());
        Typed(all.map(|(name, all)| (name, all.iter().map(|text| values::lines(text)).collect())).collect())
    }

    /// All of it, to be copied.
    pub fn told(&self) -> String {
        let mut all: Vec<String> = self.0.iter().map(|(name, all)| format!("{name}: {}", all.join(", "))).collect();
        all.sort();
        all.join("\n")
    }

    pub fn one(&self, name: &str) -> &str {
        self.0.get(name).and_then(|all| all.first()).map_or("", String::as_str)
    }

    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn set(&mut self, name: &'static str, text: impl Into<String>) {
        self.0.entry(name).or_default().push(text.into());
    }

    /// The rows of rules that have a field.
    pub fn rules(&self) -> Vec<Row> {
        let column = |name: &str, at: usize| self.all(name).get(at).cloned().unwrap_or_default();
        let row = |at| ["rule_field", "rule_operator", "rule_kind", "rule_value"].map(|name| column(name, at));
        (0..self.all("rule_field").len()).map(row).filter(|row: &Row| !row[0].trim().is_empty()).collect()
    }

    /// The rows of values that have a key.
    pub fn pairs(&self) -> Vec<[String; 3]> {
        let column = |name: &str, at: usize| self.all(name).get(at).cloned().unwrap_or_default();
        let row = |at| ["pair_key", "pair_kind", "pair_value"].map(|name| column(name, at));
        (0..self.all("pair_key").len()).map(row).filter(|row: &[String; 3]| !row[0].trim().is_empty()).collect()
    }

    fn set_rule(&mut self, rule: &Value) {
        if let Some((joint, rows)) = values::rows(rule) {
            self.set("joint", joint);
            for [field, operator, kind, value] in rows {
                self.set("rule_field", field);
                self.set("rule_operator", operator);
                self.set("rule_kind", kind);
                self.set("rule_value", value);
            }
        }
    }

    fn set_pairs(&mut self, pairs: Option<&Value>) {
        for (key, value) in pairs.and_then(Value::as_object).into_iter().flatten() {
            let (kind, text) = values::typed(value);
            self.set("pair_key", key.as_str());
            self.set("pair_kind", kind);
            self.set("pair_value", text);
        }
    }

    pub fn set_window(&mut self, window: Option<&Value>) {
        let part = |name: &str| window.and_then(|window| window.get(name)?.as_str()).unwrap_or_default().to_owned();
        self.set("window_from", part("from"));
        self.set("window_until", part("until"));
        let days = window.and_then(|window| window.get("days")).and_then(Value::as_array);
        for day in days.into_iter().flatten().filter_map(Value::as_str) {
            self.set("days", day);
        }
    }

    /// What has to be typed for a configuration.
    pub fn of_config(kind: &str, config: &Value) -> Typed {
        let mut typed = Typed::default();
        let text = |name: &str| values::typed_text(config.get(name));
        match kind {
            "trigger" => typed.set("event_name", text("event_name")),
            "delay" => typed.set("duration", text("duration")),
            "condition" => typed.set_rule(config),
            "wait_for_event" => {
                typed.set("event_name", text("event_name"));
                typed.set("timeout", text("timeout"));
                typed.set_rule(config.get("filter_rule").unwrap_or(&Value::Null));
            }
            "send_email" => {
                let id = config.pointer("/template/id").and_then(Value::as_str).unwrap_or_default();
                typed.set("mail", if id.is_empty() { "written" } else { "template" });
                typed.set("template", id);
                for name in ["from", "subject", "reply_to", "html", "text"] {
                    typed.set(name, text(name));
                }
                typed.set_pairs(config.pointer("/template/variables"));
                typed.set_window(config.get("send_window"));
            }
            "contact_update" => {
                for (name, act) in [("first_name", "first_name_act"), ("last_name", "last_name_act")] {
                    typed.set(
                        act,
                        match config.get(name) {
                            None => "keep",
                            Some(Value::Null) => "empty",
                            Some(_) => "set",
                        },
                    );
                    typed.set(name, text(name));
                }
                let (act, path) = match config.get("unsubscribed") {
                    None => ("keep", String::new()),
                    Some(value) => match values::typed(value) {
                        ("boolean", flag) => (if flag == "true" { "true" } else { "false" }, String::new()),
                        ("variable", path) => ("variable", path),
                        _ => ("null", String::new()),
                    },
                };
                typed.set("unsubscribed", act);
                typed.set("unsubscribed_path", path);
                typed.set_pairs(config.get("properties"));
            }
            "add_to_segment" => typed.set("segment_id", text("segment_id")),
            "webhook" => {
                typed.set("url", text("url"));
                typed.set("body", config.get("body").map(pretty).unwrap_or_default());
            }
            _ => {}
        }
        typed
    }

    /// Without what makes no difference.
    fn essence(&self) -> Essence {
        let mut rest = self.0.clone();
        rest.retain(|name, all| {
            !name.starts_with("rule_") && !name.starts_with("pair_") && all.iter().any(|text| !text.is_empty())
        });
        rest.values_mut().for_each(|all| all.iter_mut().for_each(|text| *text = values::lines(text)));
        (rest, self.rules(), self.pairs())
    }

    /// The configuration that was typed, for a step that had another before. What was not touched stays as it is.
    pub fn config(&self, kind: &str, before: &Value) -> Result<Value, Flaws> {
        if self.essence() == Typed::of_config(kind, before).essence() {
            return Ok(before.clone());
        }
        let mut flaws = Flaws::new();
        let mut config = Map::new();
        let text = |name: &str| Some(self.one(name).trim()).filter(|text| !text.is_empty()).map(|text| json!(text));
        // Text that was not touched stays what it was, also where it looks like a variable.
        let own = |name: &str| match before.get(name) {
            Some(value) if values::lines(&values::typed_text(Some(value))) == self.one(name) => Some(value.clone()),
            _ => Some(self.one(name)).filter(|text| !text.is_empty()).map(values::text_value),
        };
        match kind {
            "trigger" => config.extend(text("event_name").map(|name| ("event_name".into(), name))),
            "delay" => config.extend(text("duration").map(|text| ("duration".into(), text))),
            "condition" => {
                if let Some(Value::Object(rule)) = self.rule(before, &mut flaws) {
                    config = rule;
                }
            }
            "wait_for_event" => {
                for name in ["event_name", "timeout"] {
                    config.extend(text(name).map(|text| (name.to_owned(), text)));
                }
                let rule = self.rule(before.get("filter_rule").unwrap_or(&Value::Null), &mut flaws);
                config.extend(rule.map(|rule| ("filter_rule".into(), rule)));
            }
            "send_email" => self.mail(&mut config, own, &mut flaws),
            "contact_update" => self.contact(&mut config, own, &mut flaws),
            "add_to_segment" => config.extend(text("segment_id").map(|id| ("segment_id".into(), id))),
            "webhook" => {
                config.extend(text("url").map(|url| ("url".into(), url)));
                if !self.one("body").trim().is_empty() {
                    match values::value("json", self.one("body")) {
                        Ok(body) => config.extend([("body".into(), body)]),
                        Err(flaw) => flaws.extend([("body".into(), flaw)]),
                    }
                }
            }
            _ => {}
        }
        if flaws.is_empty() { Ok(Value::Object(config)) } else { Err(flaws) }
    }

    /// A rule that the form cannot show stays as it was.
    fn rule(&self, before: &Value, flaws: &mut Flaws) -> Option<Value> {
        if values::rows(before).is_none() {
            return Some(before.clone());
        }
        match values::rule(self.one("joint"), &self.rules()) {
            Ok(rule) => rule,
            Err((at, flaw)) => {
                flaws.insert(format!("rule_{at}"), flaw);
                None
            }
        }
    }

    fn values(&self, flaws: &mut Flaws) -> Option<Value> {
        let mut all = Map::new();
        for (at, [key, kind, text]) in self.pairs().into_iter().enumerate() {
            match values::value(&kind, &text) {
                Ok(value) => all.extend([(key.trim().to_owned(), value)]),
                Err(flaw) => flaws.extend([(format!("pair_{at}"), flaw)]),
            }
        }
        (!all.is_empty()).then_some(Value::Object(all))
    }

    fn mail(&self, config: &mut Map<String, Value>, own: impl Fn(&str) -> Option<Value>, flaws: &mut Flaws) {
        let names: &[&str] = if self.one("mail") == "template" {
            let mut template = json!({"id": self.one("template").trim()});
            if let Some(variables) = self.values(flaws) {
                template["variables"] = variables;
            }
            config.insert("template".into(), template);
            &["from", "subject", "reply_to"]
        } else {
            &["from", "subject", "reply_to", "html", "text"]
        };
        config.extend(names.iter().filter_map(|name| Some(((*name).to_owned(), own(name)?))));
        match self.window() {
            Ok(window) => config.extend(window.map(|window| ("send_window".into(), window))),
            Err(flaw) => flaws.extend([("window".into(), flaw)]),
        }
    }

    fn contact(&self, config: &mut Map<String, Value>, own: impl Fn(&str) -> Option<Value>, flaws: &mut Flaws) {
        for (name, act) in [("first_name", "first_name_act"), ("last_name", "last_name_act")] {
            match self.one(act) {
                "set" => config.extend([(name.to_owned(), own(name).unwrap_or_else(|| json!("")))]),
                "empty" => config.extend([(name.to_owned(), Value::Null)]),
                _ => {}
            }
        }
        let kind = match self.one("unsubscribed") {
            flag @ ("true" | "false") => Some(("boolean", flag)),
            "variable" => Some(("variable", self.one("unsubscribed_path"))),
            "null" => Some(("null", "")),
            _ => None,
        };
        match kind.map(|(kind, text)| values::value(kind, text)).transpose() {
            Ok(value) => config.extend(value.map(|value| ("unsubscribed".into(), value))),
            Err(flaw) => flaws.extend([("unsubscribed_path".into(), flaw)]),
        }
        config.extend(self.values(flaws).map(|values| ("properties".into(), values)));
    }

    /// The window that was typed; none, where neither of its times was.
    pub fn window(&self) -> Result<Option<Value>, String> {
        let (from, until) = (self.one("window_from").trim(), self.one("window_until").trim());
        if from.is_empty() && until.is_empty() {
            return Ok(None);
        }
        let mut window = json!({"from": from, "until": until});
        if !self.all("days").is_empty() {
            window["days"] = json!(self.all("days"));
        }
        let read = Window::parse(&window).map_err(|flaw| format!("The hours are wrong: {flaw}."))?;
        Ok(Some(json!(read)))
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_comes_back_from_its_form_as_it_was() {
        let rule = json!({"type": "rule", "field": "event.a", "operator": "eq", "value": "b"});
        let nested =
            json!({"type": "and", "rules": [{"type": "or", "rules": [rule.clone(), rule.clone()]}, rule.clone()]});
        for (kind, config) in [
            ("trigger", json!({"event_name": "user.created"})),
            ("delay", json!({"duration": "1 day"})),
            ("condition", rule.clone()),
            ("condition", nested.clone()),
            ("wait_for_event", json!({"event_name": "paid", "timeout": "3 days", "filter_rule": rule.clone()})),
            ("wait_for_event", json!({"event_name": "paid", "filter_rule": nested})),
            (
                "send_email",
                json!({"template": {"id": "welcome", "variables": {"A": {"var": "event.a"}, "N": 3}}, "subject": "S"}),
            ),
            (
                "send_email",
                json!({"template": {"id": ""}, "from": "a@b.co", "subject": {"var": "event.s"}, "html": "<p>\r\n</p>",
                "send_window": {"days": ["monday"], "from": "09:00", "until": "17:00"}}),
            ),
            (
                "contact_update",
                json!({"first_name": null, "last_name": "L", "unsubscribed": {"var": "event.u"}, "properties": {"plan": null}}),
            ),
            ("add_to_segment", json!({"segment_id": "00000000-0000-7000-8000-000000000001"})),
            ("webhook", json!({"url": "https://x.test/", "body": {"email": {"var": "contact.email"}}})),
            ("exit", json!({})),
        ] {
            let typed = Typed::of_config(kind, &config);
            assert_eq!(typed.config(kind, &config), Ok(config.clone()), "untouched");
            // Also where something else was there before, if the form can say it all.
            let anew = typed.config(kind, &json!({})).expect(kind);
            if values::rows(config.get("filter_rule").unwrap_or(&config)).is_some() || kind == "send_email" {
                let told = |config: &Value| Typed::of_config(kind, config).essence();
                assert_eq!(told(&anew), told(&config), "{kind}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_of_its_field() {
        let mut typed = Typed::of_config("webhook", &json!({"url": "https://x.test/"}));
        typed.0.insert("body", vec!["{".into()]);
        assert!(typed.config("webhook", &json!({})).expect_err("no JSON").contains_key("body"));
        let mut typed = Typed::default();
        for (name, text) in [("pair_key", "n"), ("pair_kind", "number"), ("pair_value", "x")] {
            typed.set(name, text);
        }
        assert!(typed.config("contact_update", &json!({})).expect_err("no number").contains_key("pair_0"));
        let mut typed = Typed::default();
        typed.set("window_from", "9");
        assert!(typed.window().is_err());
    }
}
