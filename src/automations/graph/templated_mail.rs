//! What a step asks a template for.

use serde_json::{Map, Value, json};

use super::Mail;
use crate::id::ContactId;
use crate::templates::{Rendered, Rendering};

/// A mail to one contact that a template makes, its variables resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplatedMail {
    config: Value,
    to: String,
    /// What the template can look at: the contact, the event, and what the step gives, which goes before.
    pub values: Map<String, Value>,
}

impl TemplatedMail {
    pub fn new(mut config: Value, contact: &Value, event: Option<&Value>) -> TemplatedMail {
        let mut values = Map::from_iter([
            ("FIRST_NAME".to_owned(), contact["first_name"].clone()),
            ("LAST_NAME".to_owned(), contact["last_name"].clone()),
            ("EMAIL".to_owned(), contact["email"].clone()),
            ("contact".to_owned(), contact.clone()),
        ]);
        values.extend(event.map(|event| ("event".to_owned(), event.clone())));
        if let Some(Value::Object(given)) = config.pointer_mut("/template/variables").map(Value::take) {
            values.extend(given);
        }
        let to = contact["email"].as_str().unwrap_or_default().to_owned();
        TemplatedMail { config, to, values }
    }

    /// The id or the alias of the template.
    pub fn named(&self) -> &str {
        named(&self.config)
    }

    /// Whom it goes to.
    pub fn contact_id(&self) -> Option<ContactId> {
        self.values.get("contact")?.get("id")?.as_str()?.parse().ok()
    }

    /// The mail that is made of what the template gives; what the step says itself goes before. `Err` says why there
    /// is none.
    pub fn mail(&self, rendering: &Rendering, rendered: Rendered) -> Result<Mail, String> {
        let own = |name: &str| self.config.get(name).filter(|value| !value.is_null()).cloned();
        let needed = |name: &str, given: Option<String>| {
            let found = own(name).or_else(|| given.map(Value::from));
            found.ok_or_else(|| format!("neither the step nor its template has a `{name}`"))
        };
        let mut config = json!({
            "from": needed("from", rendering.from.clone())?,
            "subject": needed("subject", rendered.subject)?,
            "html": rendered.html,
            "text": rendered.text,
        });
        let reply_to = own("reply_to");
        config["reply_to"] = reply_to.clone().unwrap_or_default();
        let mut mail = Mail { template_id: Some(rendering.template_id), ..Mail::read(&config, &self.to)? };
        if reply_to.is_none() {
            mail.reply_to = rendering.reply_to.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
        }
        Ok(mail)
    }
}

/// The id or the alias of the template that a step names.
pub fn named(config: &Value) -> &str {
    config.pointer("/template/id").and_then(Value::as_str).unwrap_or_default()
}
