//! How a run sends: a mail that a step carries, or one that is made of a template.

use serde_json::{Value, json};

use super::Run;
use super::advance::{Effect, World, shortened};
use crate::automations::graph::{Action, Exit, Graph, Mail, Step, TemplateWish};
use crate::automations::values::{Values, excerpt, resolve};

impl Run {
    pub(super) fn send(&mut self, graph: &Graph, step: &Step, world: &World<'_>, effects: &mut Vec<Effect>) -> bool {
        let (key, now) = (step.key.as_str(), world.now);
        let Some(contact) = &world.contact else { return self.lose_contact(key, now) };
        if contact.get("unsubscribed") == Some(&Value::Bool(true)) {
            self.skip(key, now, "the contact has unsubscribed");
            return self.go(graph, key, Exit::Default, now);
        }
        if let Some(reason) = world.refused_mail.get(key) {
            return self.fail(key, now, reason);
        }
        let values = Values { event: world.event, contact, waited: &self.waited, budget: world.budget };
        let to = contact.get("email").and_then(Value::as_str).unwrap_or_default();
        let made = resolve(&step.config, &values).and_then(|config| match step.action {
            Action::SendTemplate => Ok(send_template(key, config, (contact, world.event))),
            _ => send_email(key, &config, to),
        });
        match made {
            Ok((output, effect)) => {
                effects.push(effect);
                self.pass(graph, key, now, Some(output))
            }
            Err(reason) => self.fail(key, now, &reason),
        }
    }
}

/// As [`send_email`], of a mail that the template makes: the store has it, so whether it can be made is asked there.
fn send_template(key: &str, config: Value, (contact, event): (&Value, &Value)) -> (Value, Effect) {
    let output = json!({"to": contact["email"], "template": shortened(&config["template"])});
    let wish = Box::new(TemplateWish::new(config, contact, Some(event)));
    (output, Effect::SendTemplate { step: key.to_owned(), wish })
}

/// What came of the step, and the mail that is to be queued for it. Which one that is, the mail knows.
fn send_email(key: &str, config: &Value, to: &str) -> Result<(Value, Effect), String> {
    let mail = Box::new(Mail::read(config, to)?);
    let output = json!({"to": to, "subject": excerpt(&config["subject"])});
    Ok((output, Effect::SendEmail { step: key.to_owned(), mail }))
}
