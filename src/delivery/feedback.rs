//! What comes back of mail that has left: a report changes its recipient, what is told of it and who
//! is not written to any more, in one commit.
//!
//! A report is believed because it came to a return path that we have signed: only who got the mail,
//! or passed it on, knows that. It can change nothing but what became of that mail. What a relay
//! reports by HTTP names that return path, or the mark that we wrote into the mail; that it comes
//! from the relay is for its caller to know.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use uuid::Uuid;

use super::news::News;
use super::return_path::{self, ANY_RECIPIENT, RETURN_PATHS};
use super::settle::{event_name, tell_recipient};
use crate::clock::{DAY, MINUTE, SECOND};
use crate::contacts::{self, Contact, UnsubscribedBy};
use crate::db::{DbError, Sql, Stmt, from_row, statements};
use crate::email_metrics::Tally;
use crate::emails::{self, NewEvent, Origin, State};
use crate::id::{EmailId, Id, WorkspaceId, parts_of};
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, Occurrences};
use crate::reports::{Relayed, Report};
use crate::suppressions::{self, Suppression};

/// For how long reports are believed after the key is gone that signed the return path.
const MEMORY: i64 = 30 * DAY;

/// For how long the keys are known without asking, and for how long they are where one is missing.
const FRESH: i64 = MINUTE;
const JUST_READ: i64 = SECOND;

statements! {
    functions {
        fn recipient(place: Place) with [place.email_id, place.number, place.told_as()] = Sql::both(
            "SELECT r.workspace_id, r.address, e.origin, e.sender_domain, r.number, EXISTS
                 (SELECT 1 FROM email_events v WHERE v.email_id = $3 AND v.number = r.number
                  AND v.type IN ('sent', 'delivered', 'bounced', 'complained'))
             FROM email_recipients r JOIN emails e ON e.id = r.email_id WHERE r.email_id = $1 AND r.number = $2");
        fn recipients(email_id: EmailId, most: i64) = Sql::both(
            "SELECT r.workspace_id, r.address, e.origin, e.sender_domain, r.number, EXISTS
                 (SELECT 1 FROM email_events v WHERE v.email_id = r.email_id AND v.number = r.number
                  AND v.type IN ('sent', 'delivered', 'bounced', 'complained'))
             FROM email_recipients r JOIN emails e ON e.id = r.email_id WHERE r.email_id = $1
             ORDER BY r.number LIMIT $2");
        /// Only who has not come further already: what is reported again changes nothing. Where that ends
        /// it, whoever is about to send it again loses it. Who has opened it before that was reported stays as far,
        /// and it is told once all the same.
        fn report(place: &Place, news: &News)
            with [place.email_id, place.number, news.state as i64, news.least as i64, news.until as i64,
                news.reason.as_deref(), news.state > State::Delayed, news.state == State::Delivered, place.told_as()]
            expects 1 = Sql::both(
            "UPDATE email_recipients SET state = CASE WHEN state < $3 THEN $3 ELSE state END,
                 reason = COALESCE(CAST($6 AS TEXT), reason),
                 due_at = CASE WHEN CAST($7 AS BOOLEAN) THEN NULL ELSE due_at END,
                 attempt = CASE WHEN CAST($7 AS BOOLEAN) THEN attempt + 1 ELSE attempt END
             WHERE email_id = $1 AND number = $2 AND state >= $4
                 AND (state < $5 OR CAST($8 AS BOOLEAN) AND state IN (50, 60) AND NOT EXISTS
                      (SELECT 1 FROM email_events e WHERE e.email_id = $9 AND e.number = $2 AND e.type = 'delivered'))");
    }
}

/// More recipients than a mail can have that is not a broadcast's.
const MOST_RECIPIENTS: i64 = 200;

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
        let named = Place { email_id: self.id.into(), number: self.number.into(), own_id: None };
        let (email_id, number) = parts_of(self.id.into());
        let one_of_many = Place { email_id, number, own_id: Some(self.id.into()) };
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
    /// What may be sent once was sent before.
    Repeated,
}

/// Whom a mail went to.
struct Recipient {
    workspace_id: WorkspaceId,
    address: String,
    origin: String,
    sender_domain: String,
    number: i64,
    /// It is told already that a server had the mail.
    has_left: bool,
}

from_row!(Recipient { workspace_id, address, origin, sender_domain, number, has_left });

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
        // Everybody who got a mail knows its mark, and none of them may speak for the others.
        Ok(self.open_any(local).await?.filter(|token| token.number != ANY_RECIPIENT))
    }

    async fn open_any(&self, local: &str) -> Result<Option<ReturnToken>, DbError> {
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
        self.write_down(self.find(token).await?, report, None).await
    }

    /// Writes down what a relay says. What may be sent once is noted in the same commit by `once`,
    /// which fails as a duplicate where it was before.
    pub async fn take_relayed(&self, relayed: &Relayed, once: Option<Stmt>) -> Result<Effect, DbError> {
        let mut found = None;
        for mark in &relayed.marks {
            if let Some(token) = self.open_any(mark.split('@').next().unwrap_or_default()).await? {
                found = self.find_named(token, relayed.recipient.as_deref()).await?;
                break;
            }
        }
        self.write_down(found, &relayed.report, once).await
    }

    async fn write_down(
        &self,
        found: Option<(Place, Recipient)>,
        report: &Report,
        once: Option<Stmt>,
    ) -> Result<Effect, DbError> {
        let news = found.as_ref().and_then(|(_, recipient)| News::told_by(report, &recipient.address));
        let mut effect = match found.zip(news) {
            None => Effect::Nothing,
            Some(((place, recipient), news)) => self.commit((place, &recipient), &news, once.as_ref()).await?,
        };
        if let Some(once) = once.filter(|_| effect == Effect::Nothing) {
            effect = match self.app.db.commit(once).await {
                Ok(_) => Effect::Nothing,
                Err(DbError::Duplicate(_)) => Effect::Repeated,
                Err(error) => return Err(error),
            };
        }
        let label = if effect == Effect::Changed { "changed" } else { "nothing" };
        metrics::counter!("posthorn_mail_reports_total", "effect" => label).increment(1);
        Ok(effect)
    }

    /// Whom a relay means: the mark says which mail it is, and the relay which of its recipients.
    async fn find_named(&self, token: ReturnToken, to: Option<&str>) -> Result<Option<(Place, Recipient)>, DbError> {
        if token.number != ANY_RECIPIENT {
            return self.find(token).await;
        }
        let email_id = token.id.into();
        let rows = self.app.db.read(recipients(email_id, MOST_RECIPIENTS)).await?;
        let mut all = rows.iter().map(Recipient::read).collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() {
            // Who has a mail of his own is told by its id.
            return self.find(ReturnToken { number: 0, ..token }).await;
        }
        let key = to.map(contacts::email_key);
        let is_meant = |recipient: &Recipient| Some(contacts::email_key(&recipient.address)) == key;
        let at = if all.len() == 1 { Some(0) } else { all.iter().position(is_meant) };
        Ok(at.map(|at| {
            let recipient = all.swap_remove(at);
            (Place { email_id, number: recipient.number, own_id: None }, recipient)
        }))
    }

    async fn find(&self, token: ReturnToken) -> Result<Option<(Place, Recipient)>, DbError> {
        for place in token.places() {
            let rows = self.app.db.read(recipient(place)).await?;
            if let Some(row) = rows.first() {
                return Ok(Some((place, Recipient::read(row)?)));
            }
        }
        Ok(None)
    }

    async fn commit(
        &self,
        (place, recipient): (Place, &Recipient),
        news: &News,
        once: Option<&Stmt>,
    ) -> Result<Effect, DbError> {
        let workspace_id = recipient.workspace_id;
        for attempt in 0..ATTEMPTS {
            let listeners = self.app.listeners_for(workspace_id, attempt).await?;
            let contact = self.who_unsubscribes(recipient, news).await?;
            let now = self.app.clock.now();
            let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &self.app.clock, now);
            let told = [(news.state, news.detail.clone())];
            let is_own = recipient.origin == Origin::System.as_str();
            let of_mail = (!is_own).then_some((place.email_id, told.as_slice())).into_iter();
            let mails = emails::published_mails(&self.app.db, &occurrences, of_mail).await?;
            once.into_iter().for_each(|once| occurrences.batch.push(once.clone()));
            if let Some(before) = &contact {
                let after = Contact { unsubscribed: true, ..before.clone() };
                contacts::update_contact(&mut occurrences, before, &after, UnsubscribedBy::Complaint);
            }
            let reported = self.fill(&mut occurrences, place, recipient, news);
            if let Some(mail) = mails.get(&place.email_id) {
                emails::publish(&mut occurrences, mail, (place.told_as(), &recipient.address), &told);
            }
            let (batch, follow_up) = occurrences.follow_up();
            match self.app.db.commit(batch).await {
                Ok(effects) => {
                    self.app.wake_workers_if(follow_up.is_urgent(&effects));
                    self.app.wake_judges_if(follow_up.judges());
                    return Ok(Effect::Changed);
                }
                Err(DbError::Stale) => self.app.forget_listeners(workspace_id),
                Err(DbError::Unexpected { statement }) if statement == reported => return Ok(Effect::Nothing),
                // The contact is another by now, or is gone.
                Err(DbError::Unexpected { .. }) => {}
                Err(DbError::Duplicate(_)) if once.is_some() => return Ok(Effect::Repeated),
                Err(error) => return Err(error),
            }
        }
        Err(DbError::Busy)
    }

    /// The contact who wants no more mail, if it is one who got any until now.
    async fn who_unsubscribes(&self, recipient: &Recipient, news: &News) -> Result<Option<Contact>, DbError> {
        if !news.unsubscribes() {
            return Ok(None);
        }
        let key = contacts::email_key(&recipient.address);
        let contact = contacts::find_by_email_key(&self.app.db, recipient.workspace_id, &key).await?;
        Ok(contact.filter(|contact| !contact.unsubscribed))
    }

    /// Tells which statement it is that finds nothing where the report changes nothing.
    fn fill(&self, occurrences: &mut OccurrenceBatch<'_>, place: Place, recipient: &Recipient, news: &News) -> usize {
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
        let reported = batch.len();
        batch.push(report(&place, news));
        let (state, detail, number) = (news.state, news.detail.to_string(), Some(place.number));
        let event_id = self.app.clock.ordered_id();
        let event = NewEvent { workspace_id, email_id: id, id: event_id, number, state, detail: &detail, now };
        batch.push(emails::add_event(&event));
        if place.own_id.is_none() {
            batch.push(emails::raise(id, state, now));
        }
        if recipient.origin != Origin::System.as_str() {
            let mut tally = Tally::default();
            let broadcast_id = place.own_id.map(|_| place.email_id.uuid().into());
            let of = (recipient.sender_domain.as_str(), broadcast_id);
            match recipient.has_left {
                true => emails::count(&mut tally, of, (news.state, &news.detail)),
                false => emails::count_news(&mut tally, of, &[(news.state, news.detail.clone())]),
            }
            tally.add_to(batch, workspace_id, &self.app.clock);
        }
        if let Some(origin) = news.suppresses {
            let new = Suppression { address, origin, reason: news.reason.as_deref(), email_id: Some(id) };
            suppressions::add(occurrences, self.app.clock.ordered_id(), &new);
        }
        reported
    }
}
