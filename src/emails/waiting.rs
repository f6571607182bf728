//! What recipients wait for, and until when, as people are told.

use std::fmt;

use serde::Serialize;
use utoipa::ToSchema;

use super::state::State;
use super::store::{Recipient, Stored};
use crate::clock::{Clock, Time};
use crate::db::{Db, DbError, Row, Sql, statements};
use crate::hold::Hold;
use crate::id::EmailId;
use crate::web::Stamp;

/// Up to here others that go first are counted.
const MOST_AHEAD: i64 = 100;

/// Of so many recipients is told what they wait for.
const MOST_TOLD: i64 = 150;

statements! {
    functions {
        /// Recipients of a mail for whom something is still to be done, as [`Recipient::read`] reads them, and how many
        /// of their line are due before them, counted to a bound; of these numbers alone.
        fn open_recipients(id: EmailId, first: i64, last: i64) with [id, MOST_AHEAD + 1, MOST_TOLD, first, last] = Sql::both(
            "SELECT r.number, r.address, r.state, r.due_at, r.reason, r.attempt, r.dot_attempt,
                    (SELECT COUNT(*) FROM
                         (SELECT 1 FROM email_recipients o
                          WHERE o.lane = r.lane AND o.line = r.line AND o.due_at IS NOT NULL AND o.due_at < r.due_at
                          LIMIT $2) AS ahead)
             FROM email_recipients r
             WHERE r.email_id = $1 AND r.due_at IS NOT NULL AND r.number >= $4 AND r.number <= $5
             ORDER BY r.number LIMIT $3");
    }
}

/// A recipient, and how far the mail is on its way to it.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailRecipient)]
pub struct RecipientState {
    /// Its address alone.
    #[schema(example = "ada@example.com")]
    to: String,
    /// As that of the mail.
    #[schema(example = "delivered")]
    last_event: &'static str,
    /// Why it waits, or what the last server said.
    #[schema(required = true)]
    reason: Option<String>,
    /// When it is looked at again; null where that is as soon as can be, where nothing is to be done, or where
    /// somebody has to decide.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    waits_until: Option<Time>,
}

/// Why a recipient waits. A sentence that says until when ends in that moment, which pages show in the visitor's zone.
pub struct Why {
    pub sentence: String,
    pub until: Option<Stamp>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.until {
            Some(at) => write!(f, "{} {}.", self.sentence, at.text),
            None => f.write_str(&self.sentence),
        }
    }
}

/// What is known of the lines that the recipients of a mail wait in.
pub struct Lines {
    hold: Option<Hold>,
    open: Vec<(Recipient, i64)>,
}

impl Lines {
    /// Of a mail. Of what many share, each has one of its own that tells it.
    pub async fn find(db: &Db, email: &Stored) -> Result<Lines, DbError> {
        match email.is_shared() {
            true => Ok(Lines { hold: None, open: Vec::new() }),
            false => Lines::read(db, email.summary.id, (i64::MIN, i64::MAX)).await,
        }
    }

    /// Of one recipient of a mail that many share.
    pub async fn of_one(db: &Db, id: EmailId, number: i64) -> Result<Lines, DbError> {
        Lines::read(db, id, (number, number)).await
    }

    async fn read(db: &Db, id: EmailId, (first, last): (i64, i64)) -> Result<Lines, DbError> {
        let read = |row: &Row| Ok((Recipient::read(row)?, row.int(7)?));
        let rows = db.read(open_recipients(id, first, last)).await?;
        let open: Vec<(Recipient, i64)> = rows.iter().map(read).collect::<Result<_, DbError>>()?;
        let hold = if open.is_empty() { None } else { Hold::find(db).await? };
        Ok(Lines { hold, open })
    }

    /// For answers.
    pub fn told(&self, recipient: Recipient, clock: &Clock) -> RecipientState {
        let until = recipient.due_at.filter(|due| *due > clock.steady());
        RecipientState {
            reason: self.why(&recipient, clock).map(|why| why.to_string()),
            to: recipient.address,
            last_event: recipient.state.as_str(),
            waits_until: until.map(|due| Time(clock.shown_at(due))),
        }
    }

    /// Why a recipient waits, and until when; or what the last server said.
    pub fn why(&self, recipient: &Recipient, clock: &Clock) -> Option<Why> {
        let later = recipient.due_at.filter(|due| *due > clock.steady());
        let until = |sentence: String| {
            Some(Why { sentence, until: later.map(|due| Stamp::exact(clock.shown_at(due)).with_zone()) })
        };
        let only = |sentence: String| Some(Why { sentence, until: None });
        let behind = |sentence: String| match &recipient.reason {
            Some(reason) => format!("{reason} {sentence}"),
            None => sentence,
        };
        match (recipient.state, recipient.due_at) {
            (State::Scheduled, Some(_)) if later.is_some() => until("It is scheduled for".into()),
            (State::Uncertain, None) => {
                let said = "Nobody knows whether it arrived; it waits until somebody decides.";
                only(recipient.reason.as_ref().map_or(said.into(), |reason| format!("{said} {reason}")))
            }
            // Whoever puts it off says why.
            (State::Queued, Some(_)) if later.is_some() && recipient.reason.is_none() => {
                until("It is being delivered; if that comes to nothing, it is taken up again at".into())
            }
            (_, Some(_)) if later.is_some() => until(behind("It is looked at again at".into())),
            (_, Some(_)) => only(behind(self.turn(recipient))),
            (_, None) => recipient.reason.clone().and_then(only),
        }
    }

    /// What keeps a recipient who is due from being claimed.
    fn turn(&self, recipient: &Recipient) -> String {
        if let Some(hold) = &self.hold {
            return hold.sentence();
        }
        let found = self.open.iter().find(|(open, _)| open.number == recipient.number);
        match found.map_or(0, |(_, ahead)| *ahead) {
            0 => "It is next in its line. It goes as soon as a worker has room for it.".into(),
            1 => "It is due; one other in its line goes before it.".into(),
            count @ 2..=MOST_AHEAD => format!("It is due; {count} others in its line go before it."),
            _ => format!("It is due; more than {MOST_AHEAD} others in its line go before it."),
        }
    }
}
