//! Writes down what became of attempts: the recipient, its mail, what is told of it, and who is
//! not written to any more, in one commit.

use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::Engine;
use super::settlement::{Outcome, Settlement};
use super::sites::Turn;
use super::store::{self, Claimed, Settled};
use crate::contacts;
use crate::db::{Batch, DbError};
use crate::email_metrics::Tally;
use crate::emails::{self, NewEvent, State};
use crate::id::{BroadcastId, Id};
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, SystemEvent};
use crate::secret;
use crate::suppressions::{self, Origin, Suppression};

/// How long to wait where the store cannot write: longer each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

impl Engine {
    /// Writes down what became of recipients that were claimed together. Where another worker has
    /// one of them, the others are settled one by one. The turn in which they were made ends as soon as
    /// nothing that begins in the next one can be written before this.
    pub(super) async fn settle_all(&self, ended: Vec<(Claimed, Outcome)>, turn: &mut Option<Turn<'_>>) {
        let now = self.app.clock.steady();
        let mut by_workspace: Vec<(Claimed, Settlement)> = Vec::with_capacity(ended.len());
        for (claimed, outcome) in ended {
            count(&claimed, &outcome);
            let settlement = Settlement::of(&outcome, &claimed, now, u16::from_le_bytes(secret::random()));
            by_workspace.push((claimed, settlement));
        }
        by_workspace.sort_by_key(|(claimed, _)| claimed.workspace_id);
        for group in by_workspace.chunk_by(|(one, _), (next, _)| one.workspace_id == next.workspace_id) {
            // Where the answer was late, all of it may be written: each is then found to be.
            if group.len() > 1 && self.commit(group, turn).await.is_ok() {
                continue;
            }
            for one in group.chunks(1) {
                self.write_down(one, turn).await;
            }
        }
    }

    /// What is known of an attempt must not be lost, or it would be made again: where the store
    /// cannot write, it is tried until it can.
    async fn write_down(&self, ended: &[(Claimed, Settlement)], turn: &mut Option<Turn<'_>>) {
        let (mut wait, mut may_be_written) = (FIRST_WAIT, false);
        loop {
            match self.commit(ended, turn).await {
                Ok(()) => return,
                Err(DbError::Busy) => {}
                Err(DbError::Unavailable(_)) => may_be_written = true,
                // It was written, and only the answer was late.
                Err(DbError::Unexpected { .. }) if may_be_written => return,
                Err(DbError::Unexpected { .. }) => {
                    tracing::warn!("a mail took longer than its lease, and is another worker's");
                    return;
                }
                Err(error) => {
                    tracing::error!(%error, "what became of a mail could not be written down");
                    return;
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// One commit for recipients of one workspace.
    async fn commit(&self, ended: &[(Claimed, Settlement)], turn: &mut Option<Turn<'_>>) -> Result<(), DbError> {
        let Some((first, _)) = ended.first() else { return Ok(()) };
        let workspace_id = first.workspace_id;
        for attempt in 0..ATTEMPTS {
            // A letter to one person is of no workspace, where nobody listens and no guard would find a revision.
            let tried = if workspace_id.uuid().is_nil() { ATTEMPTS } else { attempt };
            let listeners = self.app.listeners_for(workspace_id, tried).await?;
            let now = self.app.clock.now();
            let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &self.app.clock, now);
            let told = ended.iter().filter(|(claimed, _)| !claimed.is_own);
            let told = told.map(|(claimed, settlement)| (claimed.email_id, settlement.news.as_slice()));
            let mails = emails::published_mails(&self.app.db, &occurrences, told).await?;
            let mut tally = Tally::default();
            for (claimed, settlement) in ended {
                self.fill(&mut occurrences, claimed, settlement);
                // The product's own messages are nobody's mail.
                if claimed.is_own {
                    continue;
                }
                let of = (claimed.sender_domain.as_str(), claimed.broadcast_id());
                emails::count_news(&mut tally, of, &settlement.news);
                if let Some(mail) = mails.get(&claimed.email_id) {
                    emails::publish(&mut occurrences, mail, (claimed.own_id(), &claimed.address), &settlement.news);
                }
            }
            tally.add_to(&mut occurrences.batch, workspace_id, &self.app.clock);
            let (batch, follow_up) = occurrences.follow_up();
            let mut committing = std::pin::pin!(self.app.db.commit(batch));
            let settled = match committing.as_mut().now_or_never() {
                Some(settled) => settled,
                None => {
                    if self.app.db.commits_in_order() {
                        *turn = None;
                    }
                    committing.await
                }
            };
            match settled {
                Ok(effects) => {
                    self.app.wake_workers_if(follow_up.is_urgent(&effects));
                    self.app.wake_judges_if(follow_up.judges());
                    return Ok(());
                }
                Err(DbError::Stale) => self.app.forget_listeners(workspace_id),
                Err(error) => return Err(error),
            }
        }
        Err(DbError::Busy)
    }

    fn fill(&self, occurrences: &mut OccurrenceBatch<'_>, claimed: &Claimed, settlement: &Settlement) {
        let (now, state) = (occurrences.now(), settlement.state());
        tell_contact(occurrences, claimed, settlement);
        if let Some(contact_id) = claimed.contact_id.filter(|_| settlement.has_left()) {
            let broadcast_id = BroadcastId::from(claimed.email_id.uuid());
            contacts::note_sent(occurrences, contact_id, broadcast_id, claimed.own_id());
        }
        let batch = &mut occurrences.batch;
        batch.lock(claimed.own_id());
        let reason = settlement.reason.as_deref();
        batch.push(match settlement.is_held {
            true => store::hold(claimed, reason.unwrap_or_default()),
            false => {
                let Settlement { due_at, is_failure, tells_delay, .. } = *settlement;
                store::settle(claimed, &Settled { state, due_at, is_failure, tells_delay, reason })
            }
        });
        if let Some(queued_at) = settlement.queued_at {
            batch.push(store::queue_again(claimed.email_id, claimed.number, queued_at));
        }
        // One that left took it before its dot; for one that is only captured nobody has.
        if let Some(place) = claimed.place.filter(|_| state == State::Delivered) {
            batch.push(place.take(claimed, self.app.clock.steady()));
        }
        keep_values(batch, claimed, settlement);
        self.tell(batch, claimed, &settlement.news, now);
        if let Some(reason) = &settlement.suppresses {
            let (address, origin, email_id) = (claimed.address.as_str(), Origin::Bounce, Some(claimed.email_id));
            let bounce = Suppression { address, origin, reason: Some(reason), email_id };
            suppressions::add(occurrences, self.app.clock.ordered_id(), &bounce);
        }
    }

    /// What happened to a recipient, as the mail's history has it, and how far the mail is by that.
    fn tell(&self, batch: &mut Batch, claimed: &Claimed, news: &[(State, Value)], now: i64) {
        let Claimed { workspace_id, number, .. } = *claimed;
        let email_id = claimed.own_id();
        for (state, detail) in news {
            let (id, detail) = (self.app.clock.ordered_id(), detail.to_string());
            let event =
                NewEvent { workspace_id, email_id, id, number: Some(number), state: *state, detail: &detail, now };
            batch.push(emails::add_event(&event));
        }
        // What all recipients of a broadcast share is as far as the broadcast is.
        if let Some(state) = news.iter().map(|(state, _)| *state).max().filter(|_| claimed.contact_id.is_none()) {
            batch.push(match state {
                State::Sent => emails::hand_on(email_id, now),
                _ => emails::raise(email_id, state, now),
            });
        }
    }
}

/// What a mail was made of is kept as long as it may be tried again.
fn keep_values(batch: &mut Batch, claimed: &Claimed, settlement: &Settlement) {
    let (id, number) = (claimed.email_id, claimed.number);
    let Some(made_of) = &claimed.values else { return };
    let may_be_tried_again = settlement.due_at.is_some() || settlement.is_held;
    match (may_be_tried_again, made_of.are_kept) {
        (true, false) if settlement.is_failure => {
            batch.push(emails::keep_values(id, number, &Value::Object(made_of.values.clone()).to_string()));
        }
        (false, true) => batch.push(emails::forget_values(id, number)),
        _ => {}
    }
}

/// Automations may wait for what happens to the mail of a contact.
fn tell_contact(occurrences: &mut OccurrenceBatch<'_>, claimed: &Claimed, settlement: &Settlement) {
    for (state, detail) in &settlement.news {
        let Some(name) = event_name(*state) else { continue };
        let payload = || {
            let mut payload = json!({"email_id": claimed.own_id(), "to": claimed.address, "detail": detail});
            if claimed.contact_id.is_some() {
                payload["broadcast_id"] = json!(claimed.email_id);
            }
            payload
        };
        tell_of(occurrences, claimed, name, payload);
    }
}

/// Tells the contact, if that is who it goes to, where somebody listens.
pub(super) fn tell_of(
    occurrences: &mut OccurrenceBatch<'_>,
    claimed: &Claimed,
    name: &str,
    payload: impl FnOnce() -> Value,
) {
    tell_recipient(occurrences, (&claimed.address, claimed.is_reaction), name, payload);
}

/// The same, of an address; `is_reaction` says that what happens to the mail starts no runs.
pub(super) fn tell_recipient(
    occurrences: &mut OccurrenceBatch<'_>,
    (address, is_reaction): (&str, bool),
    name: &str,
    payload: impl FnOnce() -> Value,
) {
    match is_reaction {
        true if occurrences.is_waited_for(name) => {
            contacts::tell_waiting_by_email(occurrences, name, &contacts::email_key(address), &payload());
        }
        false if occurrences.is_heard(name) => {
            contacts::tell_by_email(occurrences, name, &contacts::email_key(address), &payload());
        }
        _ => {}
    }
}

pub(super) fn event_name(state: State) -> Option<&'static str> {
    match state {
        State::Sent => Some(SystemEvent::EMAIL_SENT),
        State::Delivered => Some(SystemEvent::EMAIL_DELIVERED),
        State::Uncertain | State::Delayed => Some(SystemEvent::EMAIL_DELIVERY_DELAYED),
        State::Bounced => Some(SystemEvent::EMAIL_BOUNCED),
        State::Complained => Some(SystemEvent::EMAIL_COMPLAINED),
        State::Failed => Some(SystemEvent::EMAIL_FAILED),
        State::Suppressed => Some(SystemEvent::EMAIL_SUPPRESSED),
        _ => None,
    }
}

fn count(claimed: &Claimed, outcome: &Outcome) {
    let (id, to, attempt) = (claimed.own_id(), claimed.number, claimed.attempt);
    let label = match outcome {
        Outcome::Captured | Outcome::Complained => "captured",
        Outcome::Taken { host, .. } => {
            tracing::debug!(%id, to, attempt, host, "a mail was taken");
            "taken"
        }
        Outcome::Suppressed | Outcome::Unwanted(_) => "suppressed",
        Outcome::Canceled => "canceled",
        Outcome::Waits { .. } | Outcome::OverLimit { .. } | Outcome::PutOff { .. } | Outcome::Paused => "waits",
        Outcome::Later(reason) => {
            tracing::info!(%id, to, attempt, reason, "a mail could not be delivered yet");
            "later"
        }
        Outcome::Never(reason) => {
            tracing::warn!(%id, to, attempt, reason, "a mail cannot be delivered");
            "never"
        }
        Outcome::Refused { refusal, host } => {
            tracing::info!(%id, to, attempt, host, %refusal, "a mail was refused");
            "refused"
        }
        Outcome::Unknown { reason, .. } => {
            tracing::warn!(%id, to, attempt, reason, "nobody knows whether a mail arrived");
            "uncertain"
        }
    };
    metrics::counter!("posthorn_mail_attempts_total", "outcome" => label).increment(1);
}
