//! What an attempt leads to: how far its recipient is now, what is told of it, and when it is
//! tried again.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::retry;
use super::store::Claimed;
use crate::emails::State;
use crate::smtp::Security;

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing leaves here; who wrote it can read it.
    Captured,
    /// A server has taken it: the recipient's own, or one that passes it on.
    Taken { via: Via, host: String, reply: String, security: Security },
    /// A server said no, for good.
    Refused { refusal: Refusal, host: String },
    /// It may go better later.
    Later(String),
    /// It is not tried before this moment, and nobody was asked.
    Waits { until: i64, reason: String },
    /// Its sender's domain has sent as much as it may for now.
    OverLimit { until: i64, reason: String },
    /// It never will, and no server was asked.
    Never(String),
    /// The final dot was sent, and what came of it is not known. `is_found`: by whoever claimed it
    /// after a process that is gone.
    /// `is_repeatable`: the server takes it once, however often it is brought.
    Unknown { reason: String, is_found: bool, is_repeatable: bool },
    /// The recipient gets no mail of this workspace any more.
    Suppressed,
    /// The recipient does not want it, or is none any more.
    Unwanted(Cow<'static, str>),
    /// It may not be sent before this moment, as whoever sends it wants it.
    PutOff { until: i64, reason: String },
    /// It was taken back.
    Canceled,
    /// Its broadcast rests, and nobody was asked.
    Paused,
    /// A test recipient that complains of what it got.
    Complained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Test,
    Relay,
    /// A relay that says when it has delivered the mail: until then the mail is sent, and no more.
    Reporting,
    Direct,
}

/// What is to be written down.
#[derive(Debug, PartialEq)]
pub struct Settlement {
    /// What happened, in order, with its details.
    pub news: Vec<(State, Value)>,
    pub due_at: Option<i64>,
    pub is_failure: bool,
    pub tells_delay: bool,
    pub reason: Option<String>,
    /// It waits for a person.
    pub is_held: bool,
    /// From when on it counts how long it has been waiting, where that is not since it was queued.
    pub queued_at: Option<i64>,
    /// Why nobody writes to this recipient any more.
    pub suppresses: Option<String>,
}

impl Settlement {
    /// How far the recipient is now.
    pub fn state(&self) -> State {
        self.news.iter().map(|(state, _)| *state).max().unwrap_or(State::Queued)
    }

    /// Whether the mail is on its way by that.
    pub fn has_left(&self) -> bool {
        self.news.iter().any(|(state, _)| matches!(state, State::Sent | State::Delivered))
    }

    fn end(news: Vec<(State, Value)>) -> Settlement {
        Settlement {
            news,
            due_at: None,
            is_failure: false,
            tells_delay: false,
            reason: None,
            is_held: false,
            queued_at: None,
            suppresses: None,
        }
    }

    /// It ends badly, and the reason stays with the recipient.
    fn failure(state: State, detail: Value, reason: String) -> Settlement {
        Settlement { is_failure: true, reason: Some(reason), ..Settlement::end(vec![(state, detail)]) }
    }

    /// What follows from an outcome at a moment in steady time. `chance` spreads what is tried again.
    pub fn of(outcome: &Outcome, claimed: &Claimed, now: i64, chance: u16) -> Settlement {
        let to = claimed.address.as_str();
        match outcome {
            Outcome::Captured => Settlement::end(vec![(State::Delivered, json!({"to": to, "via": "capture"}))]),
            Outcome::Taken { via: Via::Test, .. } => {
                Settlement::end(vec![(State::Delivered, json!({"to": to, "via": "test"}))])
            }
            Outcome::Taken { via, host, reply, security } => {
                let tls = security.as_str();
                let sent = (State::Sent, json!({"to": to, "host": host, "reply": reply, "tls": tls}));
                let delivered = match via {
                    Via::Reporting => None,
                    // What it does next is not told to us.
                    Via::Relay => Some(json!({"to": to, "via": "relay"})),
                    _ => Some(json!({"to": to, "host": host, "reply": reply})),
                };
                let delivered = delivered.map(|detail| (State::Delivered, detail));
                Settlement::end([sent].into_iter().chain(delivered).collect())
            }
            Outcome::Refused { refusal, host } => Settlement {
                suppresses: refusal.is_about_recipient().then(|| refusal.to_string()),
                ..Settlement::failure(State::Bounced, refusal.detail(to, host), refusal.to_string())
            },
            Outcome::Never(reason) => {
                Settlement::failure(State::Failed, json!({"to": to, "reason": reason}), reason.clone())
            }
            Outcome::Suppressed => Settlement::end(vec![(State::Suppressed, json!({"to": to, "reason": SUPPRESSED}))]),
            Outcome::Unwanted(reason) => Settlement {
                reason: Some(reason.to_string()),
                ..Settlement::end(vec![(State::Suppressed, json!({"to": to, "reason": reason}))])
            },
            Outcome::PutOff { until, reason } => Settlement {
                due_at: Some(*until),
                queued_at: Some(*until),
                reason: Some(reason.clone()),
                ..Settlement::end(Vec::new())
            },
            Outcome::Paused => Settlement { due_at: Some(now), ..Settlement::end(Vec::new()) },
            Outcome::Canceled => Settlement::end(vec![(State::Canceled, json!({"to": to}))]),
            Outcome::Complained => Settlement::end(vec![
                (State::Delivered, json!({"to": to, "via": "test"})),
                (State::Complained, json!({"to": to, "via": "test"})),
            ]),
            Outcome::Waits { until, reason } => {
                let until = Some(*until).filter(|_| !retry::is_over(now - claimed.queued_at));
                waits(claimed, reason, (now, claimed.tries), until)
            }
            // As its owner wants it: it is not given up for that.
            Outcome::OverLimit { until, reason } => waits(claimed, reason, (now, claimed.tries), Some(*until)),
            Outcome::Later(reason) => later(claimed, reason, now, chance),
            Outcome::Unknown { reason, is_found, is_repeatable } => {
                uncertain(claimed, reason, (now, chance), (*is_found, *is_repeatable))
            }
        }
    }
}

const SUPPRESSED: &str = "the address is on the workspace's suppression list";

fn later(claimed: &Claimed, reason: &str, now: i64, chance: u16) -> Settlement {
    let tries = claimed.tries + 1;
    let wait = retry::wait_after(tries, now - claimed.queued_at, chance);
    Settlement { is_failure: true, ..waits(claimed, reason, (now, tries), wait.map(|wait| now + wait)) }
}

/// It waits until a moment, or has for long enough. That it is late is told once.
fn waits(claimed: &Claimed, reason: &str, (now, tries): (i64, i64), until: Option<i64>) -> Settlement {
    let to = &claimed.address;
    if until.is_none() {
        let reason = format!("given up after five days: {reason}");
        return Settlement::failure(State::Failed, json!({"to": to, "reason": reason}), reason);
    }
    let tells_delay = !claimed.delay_told && retry::is_late(tries, now - claimed.queued_at);
    let news = match tells_delay {
        true => vec![(State::Delayed, json!({"to": to, "reason": reason}))],
        false => Vec::new(),
    };
    Settlement { due_at: until, tells_delay, reason: Some(reason.to_owned()), ..Settlement::end(news) }
}

fn uncertain(
    claimed: &Claimed,
    reason: &str,
    (now, chance): (i64, u16),
    (is_found, is_repeatable): (bool, bool),
) -> Settlement {
    let news = vec![(State::Uncertain, json!({"to": claimed.address, "uncertain": true, "reason": reason}))];
    let again = retry::wait_after(claimed.tries + 1, now - claimed.queued_at, chance);
    // Where a process ended, nobody says that the server is at fault.
    let again = again.map(|wait| if is_found { 0 } else { wait });
    // Who takes it once tells what it did with it, when it is brought again.
    let due_at = again.filter(|_| is_repeatable || !claimed.is_held_when_uncertain).map(|wait| now + wait);
    Settlement {
        due_at,
        is_failure: true,
        tells_delay: true,
        reason: Some(reason.to_owned()),
        is_held: due_at.is_none(),
        ..Settlement::end(news)
    }
}
