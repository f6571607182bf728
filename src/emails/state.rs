//! What has become of a mail, or of its way to one recipient.

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
}
