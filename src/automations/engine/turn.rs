//! One run's turn: look at the world, go as far as the moment allows, and
//! commit all of it or nothing.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::mail::RefusedMail;
use super::store::{self, Ahead, Claimed};
use super::view::View;
use super::{Engine, Plan, aside, webhook};
use crate::automations::run::{Call, Effect, Run};
use crate::calls::destination;
use crate::clock::SECOND;
use crate::contacts::{self, Changes, Contact, Declared, UnsubscribedBy};
use crate::db::{Batch, DbError};
use crate::emails;
use crate::occurrences::{EndedRun, Ending, OccurrenceBatch, SystemEvent};
use crate::web;
use crate::work::unless_lost;

/// How often a turn is taken anew because the contact moved meanwhile, or a mail may not be sent. After
/// that the run is put off: a contact to whom so much happens will calm down.
const ATTEMPTS: usize = 8;

/// From how many bytes of state, payload, contact and history a turn is large: read, they take ten times as much.
pub(super) const LARGE: usize = 32 << 10;

/// How many large turns are taken at once.
pub(super) const LARGE_AT_ONCE: usize = 4;

/// A run that is claimed so often without getting anywhere takes its worker
/// down with it each time, and is given up.
const MOST_CLAIMS: i64 = 50;

/// What a turn came to.
enum Outcome {
    Done,
    /// Something happened to the contact meanwhile: look again.
    Moved,
    /// A mail may not be sent: take the turn again, knowing that.
    Refused(RefusedMail),
    /// What the step does cannot be done; the reason is for the run's history.
    Failed(String),
}

impl Engine {
    /// Brings on a run that was claimed, if it still is ours.
    pub async fn take_turn(&self, claimed: &Claimed) {
        // After a failure the lease runs out, and whoever is alive takes the turn.
        if let Err(error) = self.try_turn(claimed).await {
            tracing::warn!(run = %claimed.id, attempt = claimed.attempt, %error, "a run could not be brought on");
        }
    }

    async fn try_turn(&self, claimed: &Claimed) -> Result<(), DbError> {
        let Some(plan) = self.plan(claimed).await? else { return self.abandon(claimed).await };
        let (mut is_large, mut place) = (claimed.state.len() > LARGE, None);
        let mut answer: Option<Result<Value, String>> = None;
        let mut refused_mail = HashMap::new();
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            if is_large && place.is_none() {
                place = Box::pin(self.place(claimed)).await;
                // Another has the run by now.
                if place.is_none() {
                    return Ok(());
                }
            }
            let before = Run::stored(&claimed.state, claimed.id, &plan.graph, claimed.created_at);
            let Some(before) = before else { return self.abandon(claimed).await };
            let Some(view) = self.look(claimed, &plan, &before, is_large).await? else {
                is_large = true;
                continue;
            };
            let view = View { refused_mail: refused_mail.clone(), ..view };
            // Who stands before a call without a place in its line is only given one: it was
            // woken there, or stood there before there were lines.
            if answer.is_none()
                && claimed.destination.is_some()
                && let Some(call) = call(claimed, &plan, &view, &before)
            {
                let now = view.now;
                // Nobody waits for a place, or for memory, until a stranger has answered.
                drop((before, view, place.take()));
                answer = Some(self.call(claimed, &call, plan.signing_secret.as_deref(), now).await);
                // The world moved on while we waited.
                continue;
            }
            let given = (&before, answer.as_ref());
            let (view, turn) = match is_large {
                true => aside::take(&self.heavy, claimed, &plan, view, given).await?,
                false => match aside::take_light(claimed, &plan, &view, given) {
                    Some(turn) => (view, turn),
                    None => {
                        is_large = true;
                        continue;
                    }
                },
            };
            attempts += 1;
            let outcome = match turn {
                Ok((after, effects)) => self.commit(claimed, &plan, &view, (&before, after), effects).await?,
                Err(reason) => Outcome::Failed(reason),
            };
            match outcome {
                Outcome::Done => return Ok(()),
                Outcome::Moved => {}
                Outcome::Refused(RefusedMail { step, reason }) => drop(refused_mail.insert(step, reason)),
                Outcome::Failed(reason) => return self.record_failure(claimed, &plan, before, &reason).await,
            }
        }
        self.put_off(claimed).await
    }

    /// Makes a call, and remembers whether anybody answered.
    async fn call(&self, claimed: &Claimed, call: &Call, secret: Option<&str>, now: i64) -> Result<Value, String> {
        let secret = secret.ok_or("the secret that signs the call cannot be opened; `posthorn doctor` says why")?;
        let answer = webhook::call(&self.client, call, secret, now).await;
        if let Some(destination) = &claimed.destination {
            let unanswered = answer.as_ref().err().filter(|failure| !failure.is_answer);
            let unanswered = unanswered.map(|failure| failure.reason.as_str());
            let noted = self.calls.note_answer((&self.app.db, &self.app.clock), destination, unanswered).await;
            // The call was made, whatever becomes of this.
            if let Err(error) = noted {
                tracing::warn!(%error, "that a host answers, or does not, could not be written down");
            }
        }
        answer.map_err(|failure| failure.reason)
    }

    /// Lets somebody take the turn a second later.
    pub(super) async fn put_off(&self, claimed: &Claimed) -> Result<(), DbError> {
        let later = self.app.clock.steady() + SECOND;
        unless_lost(self.app.db.commit(store::put_off(claimed, later)).await)
    }

    async fn commit(
        &self,
        claimed: &Claimed,
        plan: &Plan,
        view: &View,
        (before, mut run): (&Run, Run),
        effects: Vec<Effect>,
    ) -> Result<Outcome, DbError> {
        if let Some(contact) = view.sight.contact.as_ref().filter(|_| claimed.exit_on.is_some()) {
            run.quiet_to = contact.sequence;
        }
        let is_held = !effects.is_empty() || is_held(claimed, plan, before, &run);
        let mails = match self.mails(claimed, plan, &effects).await? {
            Ok(mails) => mails,
            Err(refused) => return Ok(Outcome::Refused(refused)),
        };
        let listeners = match effects.iter().any(is_news) || run.ending().is_some() {
            true => Some(self.app.listeners(claimed.workspace_id).await?),
            false => None,
        };
        let (workspace_id, clock) = (claimed.workspace_id, &self.app.clock);
        // What automations do in answer to what is told is told to nobody.
        let mut occurrences = match listeners.as_deref() {
            Some(listeners) if !plan.is_reaction() => OccurrenceBatch::new(workspace_id, listeners, clock, view.now),
            listeners => OccurrenceBatch::untold(workspace_id, listeners, clock, view.now),
        };
        let own = match fill(&mut occurrences, claimed, view, effects, is_held) {
            Ok(own) => own,
            Err(reason) => return Ok(Outcome::Failed(reason)),
        };
        // What it did itself is not what it waits for.
        run.consumed.extend(own.into_iter().map(|(name, seq)| (name.to_owned(), seq.into())));
        let ahead = ahead(claimed, plan, &run);
        let is_to_call = ahead.destination.is_some();
        let settled_at = occurrences.batch.len();
        occurrences.batch.push(store::settle(claimed, &run, ahead, view.now, view.steady));
        if let Some(ended) = ended(claimed, &run, view.now) {
            occurrences.publish(ended.event_type(), || ended.data());
        }
        let is_due = run.due_at(view.steady).is_some_and(|due| due <= view.steady);
        let ending = run.ending();
        // It is in the batch, in a tenth of the room; many may wait for their commit.
        drop(run);
        emails::add(&mut occurrences.batch, &self.app.clock, &mails);
        // After the run is settled: it may wait for this by now.
        emails::tell_queued(&mut occurrences, &mails);
        let (batch, follow_up) = occurrences.follow_up();
        match self.app.db.commit(batch).await {
            Ok(effects) => {
                self.app.wake_workers_if(follow_up.is_urgent(&effects) || (is_due && !is_to_call));
                self.app.wake_judges_if(follow_up.judges());
                self.follow(ending, is_due && is_to_call, !mails.is_empty());
                Ok(Outcome::Done)
            }
            // Another worker has the run, and brings it on.
            Err(DbError::Unexpected { statement }) if statement == settled_at => Ok(Outcome::Done),
            Err(DbError::Unexpected { .. }) => Ok(Outcome::Moved),
            Err(DbError::Stale) => {
                self.app.forget_listeners(claimed.workspace_id);
                self.forget_senders(&mails);
                Ok(Outcome::Moved)
            }
            Err(error @ (DbError::Broken(_) | DbError::Duplicate(_))) => Ok(Outcome::Failed(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// What a turn that is committed leads to.
    fn follow(&self, ending: Option<Ending>, calls: bool, sends: bool) {
        if let Some(ending) = ending {
            metrics::counter!("posthorn_runs_ended_total", "how" => ending.as_str()).increment(1);
        }
        if calls {
            self.calls.note();
        }
        if sends {
            self.app.wake_mail();
        }
    }

    /// A step failed for a reason that may pass: it is tried again, a bounded
    /// number of times.
    async fn record_failure(&self, claimed: &Claimed, plan: &Plan, mut run: Run, reason: &str) -> Result<(), DbError> {
        let (now, steady) = (self.app.clock.now(), self.app.clock.steady());
        tracing::warn!(run = %claimed.id, reason, "a step failed");
        run.record_failure(now, steady, reason);
        let ahead = Ahead { waiting_for: None, ..ahead(claimed, plan, &run) };
        self.settle(claimed, &run, ahead, (now, steady)).await
    }

    /// Writes down where a run is, and tells webhooks if that is its end.
    pub(super) async fn settle(
        &self,
        claimed: &Claimed,
        run: &Run,
        ahead: Ahead<'_>,
        (now, steady): (i64, i64),
    ) -> Result<(), DbError> {
        let mut batch = Batch::from(store::settle(claimed, run, ahead, now, steady));
        if let Some(ended) = ended(claimed, run, now) {
            ended.tell(&mut batch, &self.app.clock, claimed.workspace_id);
        }
        unless_lost(self.app.db.commit(batch).await)
    }

    /// Ends a run of which there is no graph or no state to go on with.
    pub(super) async fn abandon(&self, claimed: &Claimed) -> Result<(), DbError> {
        let (now, steady) = (self.app.clock.now(), self.app.clock.steady());
        let run = Run::lost(claimed.id);
        self.settle(claimed, &run, Ahead::default(), (now, steady)).await
    }
}

/// What the run stands before.
fn ahead<'a>(claimed: &Claimed, plan: &'a Plan, run: &Run) -> Ahead<'a> {
    let called = run.about_to_call(&plan.graph);
    let destination = called.and_then(|url| destination(claimed.workspace_id, url));
    Ahead { waiting_for: run.waiting_for(&plan.graph), destination }
}

/// The call that the run stands before, if it is to be made.
pub(in crate::automations) fn call(claimed: &Claimed, plan: &Plan, view: &View, run: &Run) -> Option<Call> {
    let may_call = view.sight.automation_stands && !is_worn_out(claimed);
    run.call(&plan.graph, &view.world()).filter(|_| may_call)
}

fn is_worn_out(claimed: &Claimed) -> bool {
    claimed.attempt - claimed.settled > MOST_CLAIMS
}

/// Whether what was seen in the contact's history must still be all there is when
/// the turn is committed: an event that is acknowledged before a wait ends, or
/// before a run does more, decides over it.
pub(in crate::automations) fn is_held(claimed: &Claimed, plan: &Plan, before: &Run, after: &Run) -> bool {
    claimed.exit_on.is_some() || after.leans_on_history(before, &plan.graph)
}

/// The run after its turn, and what has to happen. A step that panics fails its
/// own run and no other.
pub(in crate::automations) fn advance(
    claimed: &Claimed,
    plan: &Plan,
    view: &View,
    mut run: Run,
    answer: Option<&Result<Value, String>>,
) -> Result<(Run, Vec<Effect>), String> {
    if !view.sight.automation_stands {
        run.cancel(view.now);
        return Ok((run, Vec::new()));
    }
    if is_worn_out(claimed) {
        run.give_up(view.now, "every worker that took this step was lost; it was tried too often");
        return Ok((run, Vec::new()));
    }
    let turn = AssertUnwindSafe(move || {
        let mut world = view.world();
        let effects = match answer {
            Some(answer) => run.called(&plan.graph, &mut world, answer.clone()),
            None => run.advance(&plan.graph, &mut world),
        };
        (run, effects)
    });
    catch_unwind(turn).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the step panicked".into())
    })
}

/// What a run does. A contact is written once, however many steps change it, and
/// first: that locks it in the order that occurrences do. Where it is held, nothing
/// may have happened to it since the look at it. Returns what is news of the contact
/// then, and its place in the contact's history.
fn fill(
    occurrences: &mut OccurrenceBatch<'_>,
    claimed: &Claimed,
    view: &View,
    effects: Vec<Effect>,
    is_held: bool,
) -> Result<Vec<(&'static str, i64)>, String> {
    let workspace_id = claimed.workspace_id;
    let mut contact = view.sight.contact.clone();
    let mut is_deleted = false;
    let mut rest = Batch::new();
    for effect in effects {
        match effect {
            Effect::UpdateContact { changes } => {
                let before = contact.as_ref().ok_or("the contact was deleted")?;
                contact = Some(changed(before, changes, &view.declared)?);
            }
            Effect::DeleteContact => is_deleted = true,
            Effect::AddToSegment { segment_id } => {
                rest.push(contacts::add_to_segment(workspace_id, claimed.contact_id, segment_id, view.now));
            }
            // Queued behind all this: who may send it is asked of the store.
            Effect::SendEmail { .. } | Effect::SendTemplate { .. } => {}
        }
    }
    let is_changed = contact != view.sight.contact;
    let is_unsubscribed = |contact: &Option<Contact>| contact.as_ref().is_some_and(|contact| contact.unsubscribed);
    let has_left = is_unsubscribed(&contact) && !is_unsubscribed(&view.sight.contact);
    occurrences.batch.lock(claimed.contact_id);
    match (&contact, &view.sight.contact) {
        (Some(contact), Some(before)) if is_changed && !is_deleted => {
            contacts::update_contact(occurrences, before, contact, UnsubscribedBy::Automation);
        }
        (Some(contact), _) if is_held || is_deleted => {
            occurrences.batch.push(contacts::hold_sequence(workspace_id, contact));
        }
        _ => {}
    }
    occurrences.batch.append(rest);
    match &contact {
        Some(contact) if is_deleted => contacts::delete_contact(occurrences, contact),
        Some(contact) if is_changed && occurrences.is_told() => {
            let updated = (SystemEvent::CONTACT_UPDATED, contact.sequence + 1);
            let unsubscribed = has_left.then_some((SystemEvent::CONTACT_UNSUBSCRIBED, contact.sequence + 2));
            return Ok([Some(updated), unsubscribed].into_iter().flatten().collect());
        }
        _ => {}
    }
    Ok(Vec::new())
}

fn ended(claimed: &Claimed, run: &Run, now: i64) -> Option<EndedRun> {
    let Claimed { id, automation_id, contact_id, occurrence_id, created_at, .. } = *claimed;
    let ending = run.ending()?;
    Some(EndedRun { id, automation_id, contact_id, occurrence_id, created_at, ending, now })
}

/// Whether others may be told of what a run does to its contact.
fn is_news(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::UpdateContact { .. } | Effect::DeleteContact | Effect::SendEmail { .. } | Effect::SendTemplate { .. }
    )
}

pub(in crate::automations) fn changed(
    contact: &Contact,
    changes: Value,
    declared: &[Declared],
) -> Result<Contact, String> {
    read_changes(changes)?.apply(contact, declared).map_err(|error| error.message().into_owned())
}

/// A change that a step asks for, its variables resolved.
pub(super) fn read_changes(changes: Value) -> Result<Changes, String> {
    let Value::Object(fields) = changes else { return Err("the changes are not an object".into()) };
    web::read_fields(fields).map_err(|error| error.message().into_owned())
}
