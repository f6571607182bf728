//! The mail of a run's steps, as it is at the moment of reading: what was queued and what became of
//! it, and what waits for a template.

use serde_json::{Value, json};

use super::record::{Record, StepRecord};
use super::store::KeptMessage;
use crate::clock::{Clock, HOUR};
use crate::db::{DbError, Row};
use crate::emails::State;
use crate::id::{EmailId, MessageId};

/// A message that has waited for so long is sent only if a person still wants it.
pub const HELD_AFTER: i64 = 24 * HOUR;

const WAITS: &str = "it waits until its template is published";

const IS_HELD: &str = "it has waited for its template for more than a day: it is held, and a person decides whether it \
                       is still sent";

const DROPPED: &str = "a person decided not to send it";

/// What a step sent.
#[derive(Debug, Clone, PartialEq)]
pub enum StepMail {
    Queued(EmailId, State),
    /// It waits for its template, and can be dropped; where it is held, a person may still want it.
    Waits(MessageId, bool),
}

impl Record {
    /// Whether there is mail to be looked for.
    pub fn may_send(&self) -> bool {
        self.steps.iter().any(|step| step.kind == "send_email" && step.completed_at.is_some())
    }

    /// Tells with the steps what became of their mail: `queued` of that which was queued, `kept` of
    /// messages that wait.
    pub fn link_mail(&mut self, queued: &[Row], kept: &[Row], clock: &Clock) -> Result<(), DbError> {
        for row in kept {
            let message = KeptMessage::read(row)?;
            if let Some(step) = self.step(&message.step) {
                link_kept(step, &message, clock.now());
            }
        }
        for row in queued {
            let (key, id, state) = (row.text(0)?, row.id::<EmailId>(1)?, row.int(2)?);
            let state = State::of(state).ok_or_else(|| DbError::Broken("state of an email".into()))?;
            if let Some(step) = self.step(&key) {
                note(step, "email_id", json!(id));
                note(step, "last_event", json!(state.as_str()));
                step.mail = Some(StepMail::Queued(id, state));
            }
        }
        Ok(())
    }

    fn step(&mut self, key: &str) -> Option<&mut StepRecord> {
        self.steps.iter_mut().find(|step| step.key == key)
    }
}

/// The run went on, and the step is done only when its mail is queued.
fn link_kept(step: &mut StepRecord, message: &KeptMessage, now: i64) {
    if message.is_dropped {
        step.status = "skipped";
        return note(step, "reason", json!(message.reason.as_deref().unwrap_or(DROPPED)));
    }
    let is_held = message.created_at < now - HELD_AFTER && !message.is_wanted;
    let reason = if is_held { IS_HELD } else { WAITS };
    (step.status, step.completed_at) = ("waiting", None);
    step.mail = Some(StepMail::Waits(message.id, is_held));
    note(step, "waiting", json!({"reason": reason, "held": is_held}));
}

fn note(step: &mut StepRecord, name: &str, value: Value) {
    let output = step.output.get_or_insert_with(|| json!({}));
    if let Some(fields) = output.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}
