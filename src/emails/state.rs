//! What has become of a mail, or of its way to one recipient.

use serde_json::Value;

use crate::email_metrics::{Counted, Tally};
use crate::id::BroadcastId;

/// In the order in which one outdoes another: of two that are told at the same moment the
/// higher stays, and a mail has the highest of its recipients. The store keeps the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i64)]
pub enum State {
    Scheduled = 0,
    Queued = 10,
    /// The next server has taken it.
    Sent = 20,
    /// The final dot was sent and no reply came: nobody knows whether it arrived.
    Uncertain = 28,
    Delayed = 30,
    Delivered = 40,
    Opened = 50,
    Clicked = 60,
    Suppressed = 64,
    Failed = 66,
    Bounced = 70,
    Complained = 80,
    Canceled = 90,
}

impl State {
    pub const ALL: [State; 13] = [
        State::Scheduled,
        State::Queued,
        State::Sent,
        State::Uncertain,
        State::Delayed,
        State::Delivered,
        State::Opened,
        State::Clicked,
        State::Suppressed,
        State::Failed,
        State::Bounced,
        State::Complained,
        State::Canceled,
    ];

    pub fn of(number: i64) -> Option<State> {
        State::ALL.into_iter().find(|state| *state as i64 == number)
    }

    /// As `last_event` and the events name it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Queued => "queued",
            State::Sent => "sent",
            // Clients know no better word.
            State::Uncertain | State::Delayed => "delivery_delayed",
            State::Delivered => "delivered",
            State::Opened => "opened",
            State::Clicked => "clicked",
            State::Suppressed => "suppressed",
            State::Failed => "failed",
            State::Bounced => "bounced",
            State::Complained => "complained",
            State::Canceled => "canceled",
        }
    }

    /// What it counts as where it is told of with this detail. That mail was sent is counted apart:
    /// [`count_news`].
    fn counted(self, detail: &Value) -> Option<Counted> {
        match self {
            State::Scheduled | State::Queued | State::Sent | State::Canceled => None,
            State::Uncertain | State::Delayed => Some(Counted::DeliveryDelayed),
            State::Delivered => Some(Counted::Delivered),
            State::Opened => Some(Counted::Opened),
            State::Clicked => Some(Counted::Clicked),
            State::Suppressed => Some(Counted::Suppressed),
            State::Failed => Some(Counted::Failed),
            State::Bounced => Some(Counted::bounce(detail["bounce"]["type"].as_str())),
            State::Complained => Some(Counted::Complained),
        }
    }
}

/// Counts what happened to a recipient of mail from a domain.
pub fn count(tally: &mut Tally, (domain, broadcast_id): (&str, Option<BroadcastId>), (state, detail): (State, &Value)) {
    if let Some(what) = state.counted(detail) {
        tally.count(domain, broadcast_id, what);
    }
}

/// The same for what an attempt came to: whoever was taken or refused by a server counts as sent to, once.
pub fn count_news(tally: &mut Tally, of: (&str, Option<BroadcastId>), news: &[(State, Value)]) {
    let has_left = |state: State| matches!(state, State::Sent | State::Delivered | State::Bounced | State::Complained);
    if news.iter().any(|(state, _)| has_left(*state)) {
        tally.count(of.0, of.1, Counted::Sent);
    }
    news.iter().for_each(|(state, detail)| count(tally, of, (*state, detail)));
}
