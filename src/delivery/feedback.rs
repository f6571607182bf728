//! What comes back of mail that has left: a report changes its recipient, what is told of it and who
//! is not written to any more, in one commit.
//!
//! A report is believed because it came to a return path that we have signed: only who got the mail,
//! or passed it on, knows that. It can change nothing but what became of that mail.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use uuid::Uuid;

use super::return_path::{self, RETURN_PATHS};
use super::settle::{event_name, tell_recipient};
use crate::clock::{DAY, MINUTE, SECOND};
use crate::db::{DbError, Sql, from_row, statements};
use crate::emails::{self, NewEvent, Origin, State};
use crate::id::{EmailId, WorkspaceId};
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, Occurrences};
use crate::reports::{Action, Complaint, Delivery, Report};
use crate::suppressions::{self, Suppression};

/// For how long reports are believed after the key is gone that signed the return path.
const MEMORY: i64 = 30 * DAY;

/// For how long the keys are known without asking, and for how long they are where one is missing.
const FRESH: i64 = MINUTE;
const JUST_READ: i64 = SECOND;

statements! {
    functions {
        fn recipient(email_id: EmailId, number: i64) = Sql::both(
            "SELECT r.workspace_id, r.address, e.origin FROM email_recipients r JOIN emails e ON e.id = r.email_id
             WHERE r.email_id = $1 AND r.number = $2");
        /// Only who has not come further already: what is reported again changes nothing. Where that ends
        /// it, whoever is about to send it again loses it.
        fn report(place: &Place, news: &News)
            with [place.email_id, place.number, news.state as i64, news.least as i64, news.until as i64,
                news.reason.as_deref(), news.state > State::Delayed] expects 1 = Sql::both(
            "UPDATE email_recipients SET state = $3, reason = COALESCE(CAST($6 AS TEXT), reason),
                 due_at = CASE WHEN CAST($7 AS BOOLEAN) THEN NULL ELSE due_at END,
                 attempt = CASE WHEN CAST($7 AS BOOLEAN) THEN attempt + 1 ELSE attempt END
             WHERE email_id = $1 AND number = $2 AND state >= $4 AND state < $5");
    }
}

/// Which mail, to which of its recipients: what a return path says that we have signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnToken {
    id: Uuid,
    number: u16,
}

/// Where a recipient is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    email_id: EmailId,
    number: i64,
    /// Of a mail that many get, a recipient's own id: the mail's, with his number in its last 32 bits.
    own_id: Option<EmailId>,
}

impl ReturnToken {
    /// Where the recipient may be.
    fn places(self) -> Vec<Place> {
        let (own, low) = (self.id.as_u128(), self.id.as_u128() as u32);
        let named = Place { email_id: self.id.into(), number: self.number.into(), own_id: None };
        let email_id = Uuid::from_u128(own - u128::from(low)).into();
        let one_of_many = Place { email_id, number: low.into(), own_id: Some(self.id.into()) };
        if self.number == 0 { vec![named, one_of_many] } else { vec![named] }
    }
}

impl Place {
    /// The id under which what happens to it is told.
    fn told_as(&self) -> EmailId {
        self.own_id.unwrap_or(self.email_id)
    }
}

/// What a report came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Changed,
    /// It was known, something that matters more was, or the mail is not kept any more.
    Nothing,
}

/// Whom a mail went to.
struct Recipient {
    workspace_id: WorkspaceId,
    address: String,
    origin: String,
}

from_row!(Recipient { workspace_id, address, origin });

/// What follows from a report.
struct News {
    state: State,
    /// Who is meant: those who have come this far, and not as far as that.
    least: State,
    until: State,
    detail: Value,
    reason: Option<String>,
    suppresses: Option<suppressions::Origin>,
}

impl News {
    /// For whoever has not come as far as that already.
    fn of(state: State, detail: Value) -> News {
        News { state, least: State::Queued, until: state, detail, reason: None, suppresses: None }
    }
}

/// Takes reports. Clones share what they know.
#[derive(Clone)]
pub struct Feedback {
    app: Occurrences,
    secrets: Arc<Mutex<Known>>,
}

/// The keys that return paths were signed with, and when they were read.
#[derive(Default)]
struct Known {
    secrets: Arc<Vec<[u8; 32]>>,
    read_at: Option<i64>,
}

impl Feedback {
    pub fn new(app: Occurrences) -> Feedback {
        Feedback { app, secrets: Arc::default() }
    }

    pub fn app(&self) -> &Occurrences {
        &self.app
    }

    /// What a return path is about, from what stands before its `@`; `None` where we have not signed it.
    pub async fn open(&self, local: &str) -> Result<Option<ReturnToken>, DbError> {
        if !return_path::is_token(local) {
            return Ok(None);
        }
        for patience in [FRESH, JUST_READ] {
            let secrets = self.secrets(patience).await?;
            if let Some((id, number)) = return_path::open(local, &secrets) {
                return Ok(Some(ReturnToken { id, number }));
            }
        }
        Ok(None)
    }

    /// The keys, as they were at most so long ago.
    async fn secrets(&self, patience: i64) -> Result<Arc<Vec<[u8; 32]>>, DbError> {
        let now = self.app.clock.steady();
        {
            let known = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            if known.read_at.is_some_and(|read_at| now - read_at < patience) {
                return Ok(known.secrets.clone());
            }
        }
        let (db, clock) = (&self.app.db, &self.app.clock);
        let secrets = Arc::new(self.app.credentials.signing.secrets_for((db, clock), RETURN_PATHS, MEMORY).await?);
        let mut known = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Known { secrets: secrets.clone(), read_at: Some(now) };
        Ok(secrets)
    }

    /// Writes down what a report says.
    pub async fn take(&self, token: ReturnToken, report: &Report) -> Result<Effect, DbError> {
        let found = self.find(token).await?;
        let news = found.as_ref().and_then(|(_, recipient)| news(report, &recipient.address));
        let effect = match found.zip(news) {
            None => Effect::Nothing,
            Some(((place, recipient), news)) => self.commit(place, &recipient, &news).await?,
        };
        let label = if effect == Effect::Changed { "changed" } else { "nothing" };
        metrics::counter!("posthorn_mail_reports_total", "effect" => label).increment(1);
        Ok(effect)
    }

    async fn find(&self, token: ReturnToken) -> Result<Option<(Place, Recipient)>, DbError> {
        for place in token.places() {
            let rows = self.app.db.read(recipient(place.email_id, place.number)).await?;
            if let Some(row) = rows.first() {
                return Ok(Some((place, Recipient::read(row)?)));
            }
        }
        Ok(None)
    }

    async fn commit(&self, place: Place, recipient: &Recipient, news: &News) -> Result<Effect, DbError> {
        let workspace_id = recipient.workspace_id;
        for attempt in 0..ATTEMPTS {
            let listeners = self.app.listeners_for(workspace_id, attempt).await?;
            let now = self.app.clock.now();
            let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &self.app.clock, now);
            self.fill(&mut occurrences, place, recipient, news);
            let (batch, follow_up) = occurrences.follow_up();
            match self.app.db.commit(batch).await {
                Ok(effects) => {
                    self.app.wake_workers_if(follow_up.is_urgent(&effects));
                    return Ok(Effect::Changed);
                }
                Err(DbError::Stale) => self.app.forget_listeners(workspace_id),
                Err(DbError::Unexpected { .. }) => return Ok(Effect::Nothing),
                Err(error) => return Err(error),
            }
        }
        Err(DbError::Busy)
    }

    fn fill(&self, occurrences: &mut OccurrenceBatch<'_>, place: Place, recipient: &Recipient, news: &News) {
        let (now, workspace_id, id) = (occurrences.now(), recipient.workspace_id, place.told_as());
        let address = recipient.address.as_str();
        if let Some(name) = event_name(news.state) {
            let payload = || {
                let mut payload = json!({"email_id": id, "to": address, "detail": news.detail});
                if place.own_id.is_some() {
                    payload["broadcast_id"] = json!(place.email_id);
                }
                payload
            };
            let is_reaction = recipient.origin == Origin::Reaction.as_str();
            tell_recipient(occurrences, (address, is_reaction), name, payload);
        }
        let batch = &mut occurrences.batch;
        batch.lock(id);
        batch.push(report(&place, news));
        let (state, detail, number) = (news.state, news.detail.to_string(), Some(place.number));
        let event_id = self.app.clock.ordered_id();
        let event = NewEvent { workspace_id, email_id: id, id: event_id, number, state, detail: &detail, now };
        batch.push(emails::add_event(&event));
        if place.own_id.is_none() {
            batch.push(emails::raise(id, state, now));
        }
        if let Some(origin) = news.suppresses {
            let new = Suppression { address, origin, reason: news.reason.as_deref(), email_id: Some(id) };
            batch.push(suppressions::insert(workspace_id, self.app.clock.ordered_id(), &new, now));
        }
    }
}

fn news(report: &Report, to: &str) -> Option<News> {
    match report {
        Report::Delivery(delivery) => of_delivery(delivery, to),
        Report::Complaint(complaint) => of_complaint(complaint, to),
    }
}

fn of_delivery(delivery: &Delivery, to: &str) -> Option<News> {
    let (told, host) = (delivery.told(), delivery.reporting_mta.as_deref().unwrap_or("a mail server"));
    match delivery.action {
        Action::Failed => {
            let bounce = delivery.bounce();
            let detail = json!({"to": to, "host": host, "bounce": {
                "type": bounce.kind.as_str(),
                "subType": bounce.sub_type,
                "message": format!("{host} reports that the mail was not delivered."),
                "diagnosticCode": [format!("smtp; {told}")],
            }});
            let suppresses = bounce.is_about_recipient.then_some(suppressions::Origin::Bounce);
            Some(News { reason: Some(told), suppresses, ..News::of(State::Bounced, detail) })
        }
        Action::Delivered => {
            let detail = json!({"to": to, "via": "report", "host": host, "reply": told});
            Some(News::of(State::Delivered, detail))
        }
        // What waits here is our own business, and so is what nobody knows of.
        Action::Delayed => {
            let detail = json!({"to": to, "host": host, "reason": told});
            let (least, until) = (State::Sent, State::Uncertain);
            Some(News { least, until, reason: Some(told), ..News::of(State::Delayed, detail) })
        }
        Action::Relayed => None,
    }
}

fn of_complaint(complaint: &Complaint, to: &str) -> Option<News> {
    let Complaint { feedback_type, user_agent, .. } = complaint;
    let detail = json!({"to": to, "complaint": {"type": feedback_type, "userAgent": user_agent}});
    complaint.is_complaint().then(|| News {
        reason: Some(format!("complained of: {feedback_type}")),
        suppresses: Some(suppressions::Origin::Complaint),
        ..News::of(State::Complained, detail)
    })
}
