//! The kinds of steps, and what each needs to know. Valid by construction.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::mail;
use crate::id::SegmentId;
use crate::rules::{self, Duration, Rule};
use crate::text::{kind, shown, words};
use crate::windows::Window;

pub(super) const LONGEST_EVENT_NAME: usize = 1024;

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Trigger {
        event_name: String,
    },
    Delay {
        duration: Duration,
    },
    Condition {
        rule: Rule,
    },
    WaitForEvent {
        event_name: String,
        timeout: Option<Duration>,
        filter: Option<Rule>,
    },
    /// The mail stands in its configuration.
    SendEmail,
    SendTemplate,
    ContactUpdate,
    ContactDelete,
    AddToSegment {
        segment_id: SegmentId,
    },
    Webhook {
        url: String,
    },
    Exit,
}

words! {
    /// How one step leads to another.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = AutomationConnectionType)]
    pub enum Exit: ALL, parse {
        Default = "default",
        ConditionMet = "condition_met",
        ConditionNotMet = "condition_not_met",
        EventReceived = "event_received",
        Timeout = "timeout",
    }
}

impl Action {
    pub fn type_name(&self) -> &'static str {
        match self {
            Action::Trigger { .. } => "trigger",
            Action::Delay { .. } => "delay",
            Action::Condition { .. } => "condition",
            Action::WaitForEvent { .. } => "wait_for_event",
            Action::SendEmail | Action::SendTemplate => "send_email",
            Action::ContactUpdate => "contact_update",
            Action::ContactDelete => "contact_delete",
            Action::AddToSegment { .. } => "add_to_segment",
            Action::Webhook { .. } => "webhook",
            Action::Exit => "exit",
        }
    }

    pub fn is_wait(&self) -> bool {
        matches!(self, Action::WaitForEvent { .. })
    }

    /// The ways out of such a step.
    pub fn exits(&self) -> &'static [Exit] {
        exits_of(self.type_name())
    }
}

/// The ways out of a step of this type.
pub fn exits_of(type_name: &str) -> &'static [Exit] {
    match type_name {
        "condition" => &[Exit::ConditionMet, Exit::ConditionNotMet],
        "wait_for_event" => &[Exit::EventReceived, Exit::Timeout],
        "contact_delete" | "exit" => &[],
        _ => &[Exit::Default],
    }
}

/// What the configuration of a step of this type may hold: of a condition, the fields of its rule are told by `rules`.
pub fn fields_of(type_name: &str) -> Option<&'static [&'static str]> {
    let known: &[&str] = match type_name {
        "trigger" => &["event_name"],
        "delay" => &["duration"],
        "wait_for_event" => &["event_name", "timeout", "filter_rule"],
        "send_email" => &["template", "from", "subject", "reply_to", "html", "text", "send_window"],
        "contact_update" => &CONTACT_FIELDS,
        "add_to_segment" => &["segment_id"],
        "webhook" => &["url", "body"],
        "contact_delete" | "exit" => &[],
        _ => return None,
    };
    Some(known)
}

/// What a step may change of a contact.
const CONTACT_FIELDS: [&str; 4] = ["first_name", "last_name", "unsubscribed", "properties"];

/// What a step says of a template.
pub const TEMPLATE_FIELDS: [&str; 2] = ["id", "variables"];

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What connections and runs call it; no other step has it.
    pub key: String,
    pub action: Action,
    // What was given, without what no step of its kind knows.
    pub config: Value,
    /// When its mail may be sent, whatever the automation says.
    pub send_window: Option<Window>,
}

impl Step {
    /// Reads a step's kind and configuration; `Err` says what is wrong.
    pub fn parse(key: &str, type_name: &str, config: &Map<String, Value>) -> Result<Step, String> {
        let config = Config(config);
        let mut send_window = None;
        let (action, config) = match type_name {
            "trigger" => {
                let event_name = config.event_name()?;
                (Action::Trigger { event_name: event_name.clone() }, json!({ "event_name": event_name }))
            }
            "delay" => {
                let text = config.text("duration")?.ok_or("needs `duration`, such as `3 days`")?;
                (Action::Delay { duration: duration("duration", &text)? }, json!({ "duration": text }))
            }
            "condition" => {
                let rule = Value::Object(config.0.clone());
                (Action::Condition { rule: Rule::parse(&rule, false)? }, rule)
            }
            "wait_for_event" => config.wait_for_event()?,
            "send_email" => {
                send_window = config.send_window()?;
                let (action, mut kept) = config.send_email()?;
                if let Some(window) = &send_window {
                    kept["send_window"] = json!(window);
                }
                (action, kept)
            }
            "contact_update" => (Action::ContactUpdate, config.contact_update()?),
            "contact_delete" => (Action::ContactDelete, json!({})),
            "add_to_segment" => {
                let given = config.text("segment_id")?.ok_or("needs `segment_id`, the id of a segment")?;
                let segment_id: SegmentId =
                    given.parse().map_err(|_| "`segment_id` must be the id of a segment, a UUID")?;
                (Action::AddToSegment { segment_id }, json!({ "segment_id": segment_id }))
            }
            "webhook" => config.webhook()?,
            "exit" => (Action::Exit, json!({})),
            other => {
                return Err(format!(
                    "has the unknown type `{}`; known are trigger, delay, condition, wait_for_event, send_email, \
                     contact_update, contact_delete, add_to_segment, webhook and exit",
                    shown(other)
                ));
            }
        };
        Ok(Step { key: key.to_owned(), action, config, send_window })
    }
}

/// What is said of a field whose flaw is a sentence of its own.
fn wrong(name: &str, flaw: &str) -> String {
    format!("`{name}` is wrong: {flaw}")
}

fn duration(name: &str, text: &str) -> Result<Duration, String> {
    Duration::parse(text).map_err(|flaw| wrong(name, &flaw))
}

/// A step's configuration as it was sent. An explicit null is as good as none.
struct Config<'a>(&'a Map<String, Value>);

impl<'a> Config<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            // Bare seconds come as a number, too.
            Some(Value::Number(number)) if name == "duration" || name == "timeout" => Ok(Some(number.to_string())),
            Some(other) => Err(format!("`{name}` must be text, but is {}", kind(other))),
        }
    }

    fn event_name(&self) -> Result<String, String> {
        let missing = || match self.0.contains_key("eventName") {
            true => "needs `event_name`; it was sent as `eventName`".to_owned(),
            false => "needs `event_name`, the name of an event".to_owned(),
        };
        let name = self.text("event_name")?.filter(|name| !name.is_empty()).ok_or_else(missing)?;
        if name.contains('\0') || name.chars().nth(LONGEST_EVENT_NAME).is_some() {
            return Err(format!("`event_name` must have at most {LONGEST_EVENT_NAME} characters and no U+0000"));
        }
        Ok(name)
    }

    fn wait_for_event(&self) -> Result<(Action, Value), String> {
        let event_name = self.event_name()?;
        let timeout = self.text("timeout")?;
        let filter = self.get("filter_rule");
        let mut config = json!({ "event_name": event_name });
        if let Some(text) = &timeout {
            config["timeout"] = json!(text);
        }
        if let Some(rule) = filter {
            config["filter_rule"] = rule.clone();
        }
        let action = Action::WaitForEvent {
            event_name,
            timeout: timeout.as_deref().map(|text| duration("timeout", text)).transpose()?,
            filter: filter
                .map(|rule| Rule::parse(rule, true))
                .transpose()
                .map_err(|flaw| wrong("filter_rule", &flaw))?,
        };
        Ok((action, config))
    }

    /// A mail that stands here, or a template that is named.
    fn send_email(&self) -> Result<(Action, Value), String> {
        const OTHERWISE: &str = "or `from`, `subject` and `html` or `text`";
        let template = self.get("template");
        let id = template.and_then(|template| template.get("id")).filter(|id| !id.is_null() && **id != "");
        let has_body = self.get("html").is_some() || self.get("text").is_some();
        match (id, has_body) {
            (Some(_), true) => {
                Err("has a `template`, and `html` or `text` besides; a mail is made of one of them".into())
            }
            (None, true) => Ok((Action::SendEmail, mail::config(|name| self.get(name))?)),
            (Some(Value::String(id)), false) => Ok((Action::SendTemplate, self.send_template(id)?)),
            _ if template.is_none() => {
                Err(format!("needs `template`, an object with the `id` of a template, {OTHERWISE}"))
            }
            _ => Err(format!("needs `template.id`, the id or the alias of a template, {OTHERWISE}")),
        }
    }

    fn send_window(&self) -> Result<Option<Window>, String> {
        let given = self.get("send_window").map(Window::parse).transpose();
        given.map_err(|flaw| wrong("send_window", &flaw))
    }

    fn send_template(&self, id: &str) -> Result<Value, String> {
        let mut kept = json!({ "template": { "id": id } });
        let variables = self.get("template").and_then(|template| template.get("variables"));
        if let Some(variables) = variables.filter(|variables| !variables.is_null()) {
            if !variables.is_object() {
                return Err(format!("`template.variables` must be an object, but is {}", kind(variables)));
            }
            rules::check(variables)?;
            kept["template"]["variables"] = variables.clone();
        }
        for name in ["from", "subject", "reply_to"] {
            if let Some(value) = self.get(name) {
                if !value.is_string() && !value.is_object() {
                    return Err(format!("`{name}` must be text or a variable, but is {}", kind(value)));
                }
                rules::check(value)?;
                kept[name] = value.clone();
            }
        }
        Ok(kept)
    }

    fn contact_update(&self) -> Result<Value, String> {
        let mut kept = Map::new();
        // Here null is a value: it empties a field.
        for (name, value) in self.0.iter().filter(|(name, _)| CONTACT_FIELDS.contains(&name.as_str())) {
            if name == "properties" && !value.is_object() && !value.is_null() {
                return Err(format!("`properties` must be an object, but is {}", kind(value)));
            }
            rules::check(value)?;
            kept.insert(name.clone(), value.clone());
        }
        if kept.is_empty() {
            let names = CONTACT_FIELDS.map(|name| format!("`{name}`")).join(", ");
            return Err(format!("needs at least one of {names}"));
        }
        Ok(Value::Object(kept))
    }

    fn webhook(&self) -> Result<(Action, Value), String> {
        let url = self.text("url")?.ok_or("needs `url`, the address to post to")?;
        let parsed: Option<http::Uri> = url.parse().ok();
        let sound = parsed.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        });
        if !sound || url.len() > 2048 {
            return Err("`url` must be an http:// or https:// address without a user name".into());
        }
        let mut config = json!({ "url": url });
        if let Some(body) = self.get("body") {
            rules::check(body)?;
            config["body"] = body.clone();
        }
        Ok((Action::Webhook { url }, config))
    }
}
