//! Takes the audience of a broadcast: the contacts of its segment, in the order of their ids, some
//! at a time. How far it is stands in the commit that queues them, so it goes on behind the last
//! one after whatever happened, without a gap and without a repeat.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::sync::watch;
use uuid::Uuid;

use super::Broadcasts;
use super::broadcast::{Broadcast, LeftOut, State};
use super::content::{self, Prepared};
use super::store::{self, Advance, Claimed};
use crate::clock::{MINUTE, SECOND};
use crate::contacts;
use crate::db::{Batch, DbError, Row, Stmt};
use crate::domains::Sender;
use crate::emails::{self, NewRecipient, State as MailState};
use crate::error::Error;
use crate::id::{ContactId, own_id};
use crate::mime::{Address, Mailbox};
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, SystemEvent};
use crate::segments;
use crate::work::{self, Claimable, Next, Tasks, Worker};

/// How many contacts are looked at for one commit: others want to write, too.
pub(super) const PAGE: usize = 500;

/// How many broadcasts are worked on at the same time.
const AT_ONCE: usize = 4;

/// How many addresses are read at once to know who is queued already.
const ADDRESSES: i64 = 5_000;

/// How long a broadcast waits before it looks again whether its segment is filled.
const FILLED_SOON: i64 = SECOND;

const FILLING: &str = "It waits for its segment: not every contact has been looked at yet.";

const REFILLED: &str = "The rules of the segment were changed while its contacts were being queued: some who came into \
                        it only then do not get the mail.";

const NO_SEGMENT: &str = "The segment was deleted while its contacts were being queued: those who were queued by then \
                          get the mail, the others do not.";

/// Works until told to stop.
pub async fn run(broadcasts: Broadcasts, stopping: watch::Receiver<bool>) {
    let clock = broadcasts.clock.clone();
    work::run(Audiences(broadcasts), clock, stopping).await;
}

struct Audiences(Broadcasts);

impl Worker for Audiences {
    const NAME: &'static str = "broadcasts";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        let room = AT_ONCE.saturating_sub(tasks.count());
        for claimed in claim(&self.0, room).await? {
            let broadcasts = self.0.clone();
            tasks.spawn(async move { broadcasts.work_off(claimed).await });
        }
        Ok(Next::Due(work::next_due::<Claimed>(&self.0.db).await?))
    }

    async fn woken(&self) {
        self.0.launched.notified().await;
    }
}

async fn claim(broadcasts: &Broadcasts, most: usize) -> Result<Vec<Claimed>, DbError> {
    if most == 0 {
        return Ok(Vec::new());
    }
    work::claim_due(&broadcasts.db, &broadcasts.clock, most).await
}

/// Works on what is due, and tells how many broadcasts that were.
pub async fn round(broadcasts: &Broadcasts) -> Result<usize, DbError> {
    let claimed = claim(broadcasts, AT_ONCE).await?;
    let count = claimed.len();
    for one in claimed {
        broadcasts.work_off(one).await;
    }
    Ok(count)
}

/// Who of a segment gets the mail.
#[derive(Default)]
pub(super) struct Audience {
    /// What the addresses have in common with others of the same mailbox.
    seen: HashSet<[u8; 16]>,
    pub recipients: i64,
    pub left_out: LeftOut,
}

impl Broadcasts {
    async fn work_off(&self, claimed: Claimed) {
        let id = claimed.id;
        if let Err(error) = self.bring_on(claimed).await {
            tracing::warn!(%id, %error, "a broadcast could not be brought on; it is tried again after its lease");
        }
    }

    /// Takes the audience; where that is done, sees whether all mail has ended.
    async fn bring_on(&self, claimed: Claimed) -> Result<(), DbError> {
        let rows = self.db.read(store::load(claimed.id)).await?;
        let Some(broadcast) = rows.first().map(Broadcast::read).transpose()? else { return Ok(()) };
        match broadcast.state {
            State::Scheduled | State::Sending => {}
            _ => return Ok(()),
        }
        // The clock was set back since.
        let early = broadcast.scheduled_at.map_or(0, |at| at - self.clock.now());
        if broadcast.state == State::Scheduled && early > 0 {
            return work::unless_lost(self.db.commit(store::put_off(&claimed, self.clock.steady() + early)).await);
        }
        if let Some(behind) = claimed.retimed_behind.filter(|_| broadcast.is_audience_whole) {
            return work::unless_lost(self.wake_put_off(&claimed, &broadcast, behind).await);
        }
        if broadcast.is_audience_whole {
            return work::unless_lost(self.watch(&claimed, &broadcast).await);
        }
        // Whoever is not looked at yet would be left out without a word.
        if claimed.cursor.is_none() && self.is_filling(&broadcast).await? == Some(true) {
            let waiting = store::hold_up(&claimed, FILLING, self.clock.steady() + FILLED_SOON);
            return work::unless_lost(self.db.commit(waiting).await);
        }
        let sender = match self.begin(&claimed, &broadcast).await {
            Ok(sender) => sender,
            Err(Error::Unavailable | Error::Internal) => return Err(DbError::Busy),
            Err(refusal) => {
                tracing::info!(id = %claimed.id, reason = %refusal.message(), "a broadcast cannot be sent");
                return work::unless_lost(self.db.commit(self.refused(&claimed, &broadcast, &refusal).await?).await);
            }
        };
        work::unless_lost(self.take_audience(claimed, &broadcast, &sender).await)
    }

    /// What becomes of a broadcast that may not be sent now: one that nobody got is a draft again, one that some
    /// have got waits.
    async fn refused(&self, claimed: &Claimed, broadcast: &Broadcast, refusal: &Error) -> Result<Stmt, DbError> {
        if emails::load(&self.db, broadcast.email_id()).await?.is_none() {
            return Ok(store::give_back(claimed, &format!("It was not sent. {}", refusal.message())));
        }
        Ok(store::hold_up(claimed, &refusal.message(), self.clock.steady() + MINUTE))
    }

    /// Sees to it that there is the mail which its recipients share.
    async fn begin(&self, claimed: &Claimed, broadcast: &Broadcast) -> Result<Arc<Sender>, Error> {
        let workspace_id = broadcast.workspace_id;
        let from: Mailbox = broadcast.content.sender.parse().map_err(|_| Error::Internal)?;
        for _ in 0..ATTEMPTS {
            let sender = self.domains.may_send(workspace_id, None, from.address.ascii_domain()).await?;
            if emails::load(&self.db, broadcast.email_id()).await?.is_some() {
                return Ok(sender);
            }
            if self.is_filling(broadcast).await?.is_none() {
                return Err(Error::not_found("The segment was deleted."));
            }
            content::check_members(self, workspace_id, &broadcast.content).await?;
            let Prepared { email, template, .. } = content::prepare(self, workspace_id, &broadcast.content).await?;
            let (now, lease_until) = (self.clock.now(), self.clock.steady() + Claimed::LEASE);
            let began_at = broadcast.started_at.unwrap_or(now);
            let mut batch = Batch::from(store::begin(claimed, began_at, lease_until, template.as_ref()));
            let (id, tracking) = (broadcast.email_id(), sender.tracking.as_ref());
            batch.append(emails::insert_tracked(&email, id, &self.clock, tracking, |_| String::new()));
            batch.guard(sender.guard());
            match self.db.commit(batch).await {
                Ok(_) => return Ok(sender),
                Err(DbError::Stale) => self.domains.forget_sender(workspace_id, from.address.ascii_domain()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Unavailable)
    }

    /// Queues the rest of the segment.
    async fn take_audience(&self, mut claimed: Claimed, broadcast: &Broadcast, sender: &Sender) -> Result<(), DbError> {
        let Broadcast { workspace_id, content, .. } = broadcast;
        let mut audience = self.known(broadcast).await?;
        loop {
            let behind = claimed.cursor.unwrap_or_else(|| Uuid::nil().into());
            let next = store::members(*workspace_id, content.segment_id, behind, content.topic_id, PAGE as i64);
            let rows = self.db.read(next).await?;
            let is_whole = rows.len() < PAGE;
            let reason = match is_whole {
                true => match self.is_filling(broadcast).await? {
                    None => Some(NO_SEGMENT),
                    Some(is_refilled) => is_refilled.then_some(REFILLED),
                },
                false => None,
            };
            let mut new = Vec::with_capacity(rows.len());
            for row in &rows {
                let contact_id = row.id(0)?;
                claimed.cursor = Some(contact_id);
                new.extend(audience.admit(contact_id, row, (content.topic_id.is_some(), sender))?);
            }
            let lease_until = self.clock.steady() + if is_whole { 0 } else { Claimed::LEASE };
            let to = Advance {
                cursor: claimed.cursor,
                is_whole,
                recipients: audience.recipients,
                left_out: &audience.left_out,
                reason,
                due_at: lease_until,
            };
            self.queue(&claimed, broadcast, &to, &new).await?;
            self.wake_mail();
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Whether its segment is being filled; `None`: it is gone.
    async fn is_filling(&self, Broadcast { workspace_id, content, .. }: &Broadcast) -> Result<Option<bool>, DbError> {
        segments::is_filling(&self.db, *workspace_id, content.segment_id).await
    }

    /// Who is queued already.
    async fn known(&self, broadcast: &Broadcast) -> Result<Audience, DbError> {
        let mut audience =
            Audience { seen: HashSet::new(), recipients: broadcast.recipients, left_out: broadcast.left_out.clone() };
        let mut behind = 0;
        while behind < broadcast.recipients {
            let rows = self.db.read(emails::addresses(broadcast.email_id(), behind, ADDRESSES)).await?;
            let Some(last) = rows.last() else { break };
            behind = last.int(0)?;
            for row in &rows {
                audience.seen.insert(fingerprint(&row.text(1)?));
            }
        }
        Ok(audience)
    }

    /// One commit: recipients, how far the audience is, and what is told.
    async fn queue(
        &self,
        claimed: &Claimed,
        broadcast: &Broadcast,
        to: &Advance<'_>,
        new: &[NewRecipient],
    ) -> Result<(), DbError> {
        let (workspace_id, email_id) = (broadcast.workspace_id, broadcast.email_id());
        for attempt in 0..ATTEMPTS {
            let listeners = self.listeners_for(workspace_id, attempt).await?;
            let now = self.clock.now();
            let mut occurrences = OccurrenceBatch::new(workspace_id, &listeners, &self.clock, now);
            occurrences.batch.push(store::advance(claimed, to));
            let due_at = self.clock.steady();
            occurrences.batch.append(emails::add_recipients((workspace_id, email_id), broadcast.lane, new, due_at));
            if occurrences.is_heard(SystemEvent::EMAIL_QUEUED) {
                tell(&mut occurrences, broadcast, new);
            }
            let (batch, follow_up) = occurrences.follow_up();
            match self.db.commit(batch).await {
                Ok(effects) => {
                    self.wake_workers_if(follow_up.is_urgent(&effects));
                    return Ok(());
                }
                Err(DbError::Stale) => self.forget_listeners(workspace_id),
                Err(error) => return Err(error),
            }
        }
        Err(DbError::Busy)
    }

    /// Has some of those looked at anew who were put off by what held before.
    async fn wake_put_off(&self, claimed: &Claimed, broadcast: &Broadcast, behind: i64) -> Result<(), DbError> {
        let (email_id, steady) = (broadcast.email_id(), self.clock.steady());
        let rows = self.db.read(emails::put_off(email_id, behind, steady, PAGE as i64)).await?;
        let last = rows.last().map(|row| row.int(0)).transpose()?;
        let mut batch = Batch::from(store::retimed(claimed, last.filter(|_| rows.len() == PAGE), steady));
        if let Some(last) = last {
            batch.push(emails::wake_put_off(email_id, behind, last, steady));
        }
        self.db.commit(batch).await?;
        self.wake_mail();
        Ok(())
    }

    /// Ends it when nothing is left to be done for any recipient.
    async fn watch(&self, claimed: &Claimed, broadcast: &Broadcast) -> Result<(), DbError> {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        if self.db.read(emails::lane_waits(broadcast.lane)).await?.is_empty() {
            let told = emails::raise(broadcast.email_id(), MailState::Sent, now);
            let batch = Batch::from(store::end(claimed, now)).and(told);
            return self.db.commit(batch).await.map(drop);
        }
        // What takes days is not looked at every second.
        let pause = ((now - broadcast.started_at.unwrap_or(now)) / 20).clamp(SECOND, MINUTE);
        self.db.commit(store::look_again(claimed, steady + pause)).await.map(drop)
    }
}

/// Tells contacts that mail for them is queued.
fn tell(occurrences: &mut OccurrenceBatch<'_>, broadcast: &Broadcast, new: &[NewRecipient]) {
    let now = occurrences.now();
    let mut told: Vec<(String, &NewRecipient)> =
        new.iter().map(|one| (contacts::email_key(&one.address), one)).collect();
    // Two that lock the same contacts must not wait for each other.
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (key, one) in told {
        let id = own_id(broadcast.email_id(), one.number);
        let domain = broadcast.content.sender.parse::<Mailbox>().map(|from| from.address.ascii_domain().to_owned());
        let message_id = format!("<{id}@{}>", domain.unwrap_or_default());
        let between = (broadcast.content.sender.as_str(), one.address.as_str());
        let mut payload = emails::queued_payload(id, &message_id, between, &broadcast.content.subject, now);
        payload["broadcast_id"] = serde_json::json!(broadcast.id);
        contacts::tell_by_email(occurrences, SystemEvent::EMAIL_QUEUED, &key, &payload);
    }
}

impl Audience {
    /// A contact of the segment, if it is to get the mail.
    fn admit(
        &mut self,
        contact_id: ContactId,
        row: &Row,
        (has_topic, sender): (bool, &Sender),
    ) -> Result<Option<NewRecipient>, DbError> {
        let Some((email, address)) = self.judge(row, has_topic)? else { return Ok(None) };
        let line = emails::line_of(sender, &address);
        Ok(Some(NewRecipient { number: self.recipients, contact_id, address: email, line }))
    }

    /// The address of a contact that is to get the mail.
    pub(super) fn judge(&mut self, row: &Row, has_topic: bool) -> Result<Option<(String, Address)>, DbError> {
        // One that is being deleted is nobody's loss.
        let Some(email) = row.maybe(1, Row::text)? else { return Ok(None) };
        let choice = row.maybe(3, Row::text)?;
        let left_out = match email.parse::<Address>() {
            Ok(_) if row.bool(2)? => "unsubscribed",
            Ok(_) if has_topic && choice.as_deref() != Some("opt_in") => "opted_out",
            Ok(_) if row.maybe(4, Row::text)?.is_some() => "suppressed",
            Ok(_) if !self.seen.insert(fingerprint(&email)) => "duplicate",
            Ok(address) => {
                self.recipients += 1;
                return Ok(Some((email, address)));
            }
            Err(_) => "invalid",
        };
        *self.left_out.entry(left_out.to_owned()).or_default() += 1;
        Ok(None)
    }
}

/// What tells one mailbox from another, in little room.
fn fingerprint(address: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(Address::key_of(address)).into();
    std::array::from_fn(|at| digest[at])
}
