//! How a run sends: a mail that a step carries, or one that is made of a template.

use serde_json::{Value, json};

use super::advance::{Effect, World, shortened};
use super::{Run, Status};
use crate::automations::graph::{Action, Exit, Graph, Mail, Step, TemplatedMail};
use crate::clock::rfc3339;
use crate::rules::{Values, excerpt, resolve};
use crate::windows::Zone;

impl Run {
    pub(super) fn send(&mut self, graph: &Graph, step: &Step, world: &World<'_>, effects: &mut Vec<Effect>) -> bool {
        let (key, now) = (step.key.as_str(), world.now);
        let Some(contact) = &world.contact else { return self.lose_contact(key, now) };
        if contact.get("unsubscribed") == Some(&Value::Bool(true)) {
            self.skip(key, now, "the contact has unsubscribed");
            return self.go(graph, key, Exit::Default, now);
        }
        if let Some((until, reason)) = closed_until(step, world, contact) {
            return self.put_off(key, world, until, &reason);
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

    /// Stands before the step until a moment of wall time, and says why. Clocks may be set, so the
    /// step then looks again. `false`, as there is nothing to go on with.
    fn put_off(&mut self, key: &str, world: &World<'_>, until: i64, reason: &str) -> bool {
        let entry = self.entry(key, world.now);
        entry.status = Status::Waiting;
        entry.output = Some(json!({"waiting": {"reason": reason, "until": rfc3339(until)}}));
        self.not_before = Some(world.steady + (until - world.now));
        false
    }
}

/// As [`send_email`], of a mail that the template makes: the store has it, so whether it can be made is asked there.
fn send_template(key: &str, config: Value, (contact, event): (&Value, &Value)) -> (Value, Effect) {
    let output = json!({"to": contact["email"], "template": shortened(&config["template"])});
    let templated = Box::new(TemplatedMail::new(config, contact, Some(event)));
    (output, Effect::SendTemplate { step: key.to_owned(), templated })
}

/// Until when the mail of a step may not be sent to the contact, and why.
fn closed_until(step: &Step, world: &World<'_>, contact: &Value) -> Option<(i64, String)> {
    let (window, whose) = match &step.send_window {
        Some(own) => (own, "step"),
        None => (world.send_window?, "automation"),
    };
    let zone = world.zone.or_named(contact["properties"][Zone::PROPERTY].as_str());
    let until = window.next_opening(world.now, &zone);
    let reason = || format!("it waits until {}: the {whose} sends {window}", zone.shown(until));
    (until > world.now).then(|| (until, reason()))
}

/// What came of the step, and the mail that is to be queued for it. Which one that is, the mail knows.
fn send_email(key: &str, config: &Value, to: &str) -> Result<(Value, Effect), String> {
    let mail = Box::new(Mail::read(config, to)?);
    let output = json!({"to": to, "subject": excerpt(&config["subject"])});
    Ok((output, Effect::SendEmail { step: key.to_owned(), mail }))
}
