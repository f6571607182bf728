//! What people decide of recipients that wait: to be tried now, to be given up, or to have got the
//! mail already.

use serde_json::{Value, json};

use super::Emails;
use super::state::{State, count_news};
use super::store::{self, NewEvent, Recipient};
use super::{published, recipients};
use crate::clock::SECOND;
use crate::contacts;
use crate::db::{Batch, DbError, Effect, Sql, Stmt, statements};
use crate::email_metrics::Tally;
use crate::error::Error;
use crate::id::{EmailId, Id, WorkspaceId, own_id};
use crate::mime::Address;
use crate::occurrences::{ATTEMPTS, GUARDED, OccurrenceBatch, SystemEvent};
use crate::text::words;

/// What is tried within this time needs no hurry; it may be under way, too.
const SOON: i64 = 30 * SECOND;

const RETRIED: &str = "a person wants it to be tried now";
const DROPPED: &str = "a person decided not to send it";
const ARRIVED: &str = "a person knows that it arrived";

statements! {
    /// Holds unless somebody has claimed the recipient meanwhile. From now on it has as long as any other.
    RETRY = Sql::both(
        "UPDATE email_recipients SET due_at = $4, queued_at = $4, reason = $5
         WHERE email_id = $1 AND number = $2 AND attempt = $3 AND dot_attempt = 0");
    /// The same; and whoever has claimed it, and does not know yet that it has ended, loses it.
    END = Sql::both(
        "UPDATE email_recipients SET state = $4, due_at = NULL, reason = $5, attempt = attempt + 1, lost_attempt = 0
         WHERE email_id = $1 AND number = $2 AND attempt = $3 AND dot_attempt = 0");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Try it now. What is uncertain may then arrive twice.
    Retry,
    /// Do not send it.
    Drop,
    /// It arrived.
    MarkDelivered,
}

words!(Decision: ALL, parse { Retry = "retry", Drop = "drop", MarkDelivered = "mark-delivered" });

/// What a decision means for a recipient.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Change,
    /// It is as wanted already.
    None,
    /// There is nothing of the kind to decide.
    Refused,
}

impl Decision {
    /// Whether it would change something at this moment, in steady time.
    pub fn is_open(self, recipient: &Recipient, now: i64) -> bool {
        self.meaning(recipient, now) == Meaning::Change
    }

    fn meaning(self, recipient: &Recipient, now: i64) -> Meaning {
        let Recipient { state, due_at, is_at_the_dot, .. } = *recipient;
        let reason = recipient.reason.as_deref();
        let is_held = state == State::Uncertain && due_at.is_none();
        // What has a reason was tried or looked at before; else it is only next in its line.
        let waits = reason.is_some() && !is_at_the_dot && (is_held || due_at.is_some());
        let is_unfinished = matches!(state, State::Queued | State::Uncertain | State::Delayed);
        match (self, state) {
            (Decision::Drop, State::Failed) if reason == Some(DROPPED) => Meaning::None,
            (Decision::MarkDelivered, State::Delivered | State::Opened | State::Clicked) => Meaning::None,
            (Decision::MarkDelivered, State::Uncertain) if waits => Meaning::Change,
            (Decision::Retry, _) if waits && due_at.is_some_and(|due| due <= now + SOON) => Meaning::None,
            (Decision::Retry | Decision::Drop, _) if waits && is_unfinished => Meaning::Change,
            _ => Meaning::Refused,
        }
    }

    /// The state that it ends in, what the mail's history says of it, and the event of its contact.
    fn ending(self, recipient: &Recipient) -> Option<Ending> {
        let to = &recipient.address;
        let (state, event, reason, detail) = match self {
            Decision::Retry => return None,
            Decision::Drop => (State::Failed, SystemEvent::EMAIL_FAILED, DROPPED, json!({"to": to, "reason": DROPPED})),
            Decision::MarkDelivered => {
                (State::Delivered, SystemEvent::EMAIL_DELIVERED, ARRIVED, json!({"to": to, "via": "person"}))
            }
        };
        Some(Ending { state, event, reason, detail })
    }

    pub fn refusal(self, recipients: &[&Recipient]) -> Error {
        let message = if recipients.iter().any(|recipient| recipient.is_at_the_dot) {
            "The mail is being sent at this moment. Try again when its outcome is known."
        } else {
            match self {
                Decision::Retry => "There is nothing to try again: no recipient waits after an attempt.",
                Decision::Drop => "There is nothing to drop: no recipient waits after an attempt.",
                Decision::MarkDelivered => {
                    "There is nothing to mark as delivered: it is known of every recipient whether the mail arrived."
                }
            }
        };
        Error::Conflict { message: message.into() }
    }
}

struct Ending {
    state: State,
    event: &'static str,
    reason: &'static str,
    detail: Value,
}

/// Of which recipients of a mail something is decided.
pub enum Whom {
    All,
    Number(i64),
    /// By what all spellings of an address have in common.
    Key(String),
    /// The recipient of this number, who has a mail of his own.
    Own(i64),
}

impl Whom {
    fn is(&self, recipient: &Recipient) -> bool {
        match self {
            Whom::All => true,
            Whom::Number(number) | Whom::Own(number) => recipient.number == *number,
            Whom::Key(key) => Address::key_of(&recipient.address) == *key,
        }
    }
}

/// Decides of recipients of a mail, as far as there is something to decide; `commit` commits it on
/// behalf of whoever decides. Decided again it changes nothing.
pub async fn decide<F: Future<Output = Result<Result<Vec<Effect>, DbError>, Error>>>(
    emails: &Emails,
    (workspace_id, id): (WorkspaceId, EmailId),
    decision: Decision,
    whom: &Whom,
    commit: impl Fn(Batch) -> F,
) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        // A broadcast has many.
        let rows = emails.db.read(match whom {
            Whom::Own(number) => recipients::recipient(workspace_id, id, *number),
            _ => store::recipients(id),
        });
        let rows = rows.await?;
        let recipients: Result<Vec<Recipient>, DbError> = rows.iter().map(Recipient::read).collect();
        let recipients: Vec<Recipient> = recipients?.into_iter().filter(|one| whom.is(one)).collect();
        if recipients.is_empty() && matches!(whom, Whom::Key(_)) {
            let message = "The `to` field names no recipient of this email. `GET /emails/{id}` lists them.";
            return Err(Error::invalid(message));
        }
        let (now, steady) = (emails.clock.now(), emails.clock.steady());
        let meaning = |meaning: Meaning| {
            let is_so = move |one: &&Recipient| decision.meaning(one, steady) == meaning;
            recipients.iter().filter(is_so)
        };
        if meaning(Meaning::Change).next().is_none() {
            return match meaning(Meaning::None).next() {
                Some(_) => Ok(()),
                None => Err(decision.refusal(&recipients.iter().collect::<Vec<_>>())),
            };
        }
        // Rare as it is, it is prepared under what is read for it alone.
        let listeners = emails.listeners_for(workspace_id, GUARDED).await?;
        let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &emails.clock, now);
        let news: Vec<(State, Value)> = meaning(Meaning::Change)
            .filter_map(|one| decision.ending(one))
            .map(|Ending { state, detail, .. }| (state, detail))
            .collect();
        let mails = published::mails(&emails.db, &occurrences, [(id, news.as_slice())].into_iter()).await?;
        let domain = store::load(&emails.db, id).await?.map(|email| email.sender_domain).unwrap_or_default();
        let broadcast_id = matches!(whom, Whom::Own(_)).then(|| id.uuid().into());
        let mut tally = Tally::default();
        for one in meaning(Meaning::Change) {
            fill(emails, &mut occurrences, (id, one), decision, whom);
            let Some(Ending { state, detail, .. }) = decision.ending(one) else { continue };
            let news = [(state, detail)];
            count_news(&mut tally, (&domain, broadcast_id), &news);
            if let Some(mail) = mails.get(&id) {
                let told = if broadcast_id.is_some() { own_id(id, one.number) } else { id };
                published::publish(&mut occurrences, mail, (told, &one.address), &news);
            }
        }
        tally.add_to(&mut occurrences.batch, workspace_id, &emails.clock);
        let (batch, follow_up) = occurrences.follow_up();
        match commit(batch).await? {
            // A worker has claimed one of them meanwhile: look again.
            Err(DbError::Unexpected { .. } | DbError::Stale) => continue,
            settled => emails.wake_workers_if(follow_up.is_urgent(&settled?)),
        }
        metrics::counter!("posthorn_mail_decisions_total", "decision" => decision.as_str()).increment(1);
        emails.wake_mail();
        return Ok(());
    }
    Err(Error::Unavailable)
}

fn fill(
    emails: &Emails,
    occurrences: &mut OccurrenceBatch<'_>,
    (id, recipient): (EmailId, &Recipient),
    decision: Decision,
    whom: &Whom,
) {
    let Some(Ending { state, event, reason, detail }) = decision.ending(recipient) else {
        occurrences.batch.lock(id);
        return occurrences.batch.push(retry(id, recipient, emails.clock.steady()));
    };
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    let told = if matches!(whom, Whom::Own(_)) { own_id(id, recipient.number) } else { id };
    if occurrences.is_heard(event) {
        let payload = json!({"email_id": told, "to": recipient.address, "detail": detail});
        contacts::tell_by_email(occurrences, event, &contacts::email_key(&recipient.address), &payload);
    }
    let (event_id, detail, number) = (emails.clock.ordered_id(), detail.to_string(), Some(recipient.number));
    let event = NewEvent { workspace_id, email_id: told, id: event_id, number, state, detail: &detail, now };
    let batch = &mut occurrences.batch;
    batch.lock(id);
    batch.push(end(id, recipient, state, reason));
    batch.push(store::add_event(&event));
    if told == id {
        batch.push(store::raise(id, state, now));
    }
}

fn retry(id: EmailId, recipient: &Recipient, due_at: i64) -> Stmt {
    let Recipient { number, attempt, .. } = *recipient;
    RETRY.with([id.into(), number.into(), attempt.into(), due_at.into(), RETRIED.into()]).expect(1)
}

fn end(id: EmailId, recipient: &Recipient, state: State, reason: &str) -> Stmt {
    let Recipient { number, attempt, .. } = *recipient;
    END.with([id.into(), number.into(), attempt.into(), (state as i64).into(), reason.into()]).expect(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000 * SECOND;

    fn recipient(state: State, due_at: Option<i64>, reason: Option<&str>) -> Recipient {
        Recipient {
            number: 0,
            address: "ada@example.com".into(),
            state,
            due_at,
            reason: reason.map(Into::into),
            attempt: 3,
            is_at_the_dot: false,
        }
    }

    #[test]
    fn what_can_be_decided_follows_from_how_far_a_recipient_is() {
        use Meaning::{Change, None as Same, Refused};
        let later = Some(NOW + 2 * SOON);
        for (state, due_at, reason, wanted) in [
            (State::Uncertain, None, Some("no reply"), [Change, Change, Change]),
            (State::Uncertain, later, Some("no reply"), [Change, Change, Change]),
            (State::Uncertain, Some(NOW), Some("no reply"), [Same, Change, Change]),
            (State::Delayed, later, Some("451"), [Change, Change, Refused]),
            (State::Queued, later, Some("451"), [Change, Change, Refused]),
            (State::Queued, Some(NOW), None, [Refused, Refused, Refused]),
            (State::Scheduled, later, None, [Refused, Refused, Refused]),
            (State::Delivered, None, None, [Refused, Refused, Same]),
            (State::Failed, None, Some(DROPPED), [Refused, Same, Refused]),
            (State::Failed, None, Some("given up"), [Refused, Refused, Refused]),
            (State::Bounced, None, Some("550"), [Refused, Refused, Refused]),
            (State::Canceled, None, None, [Refused, Refused, Refused]),
        ] {
            let one = recipient(state, due_at, reason);
            let found = Decision::ALL.map(|decision| decision.meaning(&one, NOW));
            assert_eq!(found, wanted, "{one:?}");
        }
    }

    #[test]
    fn nothing_is_decided_while_a_server_is_asked_to_take_the_mail() {
        let sent = Recipient { is_at_the_dot: true, ..recipient(State::Uncertain, Some(NOW), Some("no reply")) };
        for decision in Decision::ALL {
            assert_eq!(decision.meaning(&sent, NOW), Meaning::Refused);
            assert!(decision.refusal(&[&sent]).message().contains("being sent"));
        }
    }
}
