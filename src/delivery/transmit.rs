//! One attempt: a dialogue with the first server that answers, and the journal around it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::task::JoinSet;

use super::Engine;
use super::claim::{Dispatch, paused};
use super::message::{Message, NoMessage};
use super::refusal::Refusal;
use super::routes::{Route, Stop};
use super::sender::{DailyQuota, Refused};
use super::settlement::{Outcome, Via};
use super::sites::{Slot, Turn};
use super::store::{self, Claimed};
use crate::clock::SECOND;
use crate::config::RelayDelivered;
use crate::db::{Batch, DbError};
use crate::emails::Stored;
use crate::hold;
use crate::mime::Address;
use crate::smtp::{self, Connection, Envelope, Failure, Hop, Phase, TlsPolicy};
use crate::work;

const PLACE_LOST: &str = "it waits for a moment: another bulk mail leaves for the contact, and they are counted";

/// What is brought to whom.
struct Transmission<'a> {
    claimed: &'a Claimed,
    /// The recipient's address as a dialogue says it.
    to: &'a str,
    message: &'a Message,
    /// What is counted where the mail leaves.
    quota: Option<DailyQuota>,
    /// From the dot on, what the server says must be written down.
    is_committed: &'a AtomicBool,
}

impl Transmission<'_> {
    /// Whether this statement of its announcement is the one that takes a place.
    fn is_place_lost(&self, statement: usize, has_quota: bool) -> bool {
        self.claimed.place.is_some() && statement == usize::from(has_quota)
    }
}

/// What a server made of an attempt.
enum Answer {
    Ended(Outcome),
    /// It may go by the next one.
    Next(String),
    /// The same, and no dialogue came about.
    Silent(String),
    /// The same; this one can never be reached.
    Unreachable(Refusal),
    /// It could not be written down that the dot would be sent, so it was not.
    Unwritten(DbError),
}

impl Engine {
    /// Delivers to recipients that were claimed together, side by side.
    pub(super) async fn work_off(self: &Arc<Engine>, dispatch: Dispatch) {
        let mut loaded = self.load_small(dispatch.recipients.iter().map(|(claimed, _)| claimed)).await;
        let mut deliveries = JoinSet::new();
        for (claimed, slot) in dispatch.recipients {
            let (engine, route, loaded) = (self.clone(), dispatch.route.clone(), loaded.remove(&claimed.email_id));
            // Boxed: the runtime would copy it four times, and it is large.
            deliveries.spawn(Box::pin(async move { engine.deliver(claimed, loaded, slot, &route).await }));
        }
        while let Some(ended) = deliveries.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a delivery panicked; it is tried again after its lease");
            }
        }
    }

    async fn deliver(&self, claimed: Claimed, loaded: Option<Stored>, slot: Slot, route: &Route) {
        let is_committed = AtomicBool::new(false);
        let work = async {
            // Until nothing can be written before its end: so no more are uncertain after a crash than there are
            // turns.
            let mut turn = None;
            let outcome = self.attempt((&claimed, loaded), &slot, &mut turn, route, &is_committed).await;
            is_committed.store(outcome.is_some(), Ordering::Relaxed);
            match outcome {
                Some(outcome) => self.settle_all(vec![(claimed.clone(), outcome)], &mut turn).await,
                None => dropped(&claimed),
            }
        };
        let renew = |lease_until| store::renew(&claimed, lease_until);
        let lost = async {
            loop {
                work::until_lost::<Claimed>((&self.app.db, &self.app.clock), renew).await;
                // What is known is not forgotten because the store was away: it is settled when it
                // is back, unless somebody else has taken up the mail by then.
                if !is_committed.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = lost => dropped(&claimed),
        }
    }

    /// `None` where nothing may be written of it.
    async fn attempt<'a>(
        &self,
        (claimed, loaded): (&Claimed, Option<Stored>),
        slot: &'a Slot,
        turn: &mut Option<Turn<'a>>,
        route: &Route,
        is_committed: &AtomicBool,
    ) -> Option<Outcome> {
        let unread = |error| tracing::warn!(id = %claimed.email_id, %error, "a mail could not be read");
        let message = match self.message(claimed, loaded).await {
            Ok(message) => message,
            Err(NoMessage::Never(reason)) => return Some(Outcome::Never(reason)),
            // Such as a key that cannot be opened: somebody will mend it.
            Err(NoMessage::Store(DbError::Broken(reason))) => return Some(Outcome::Later(reason)),
            Err(NoMessage::Store(error)) => {
                unread(error);
                return None;
            }
        };
        let Ok(to) = claimed.address.parse::<Address>() else {
            return Some(Outcome::Never("its address is none that mail can go to".into()));
        };
        let to = to.on_the_wire();
        match slot.turn(|| self.app.clock.steady()).await {
            Ok(begun) => *turn = Some(begun),
            Err(pause) => return Some(paused(route, pause)),
        }
        match self.not_now(claimed).await {
            Ok(None) => {}
            Ok(outcome) => return outcome,
            Err(error) => {
                unread(error);
                return None;
            }
        }
        let terms = match self.terms(claimed, &message).await {
            Ok(terms) => terms,
            Err(Refused::Outcome(outcome)) => return Some(outcome),
            Err(Refused::Store(DbError::Broken(reason))) => return Some(Outcome::Later(reason)),
            Err(Refused::Store(error)) => {
                unread(error);
                return None;
            }
        };
        let transmission = Transmission { claimed, to: &to, message: &message, quota: terms.quota, is_committed };
        self.go_round(&transmission, route, terms.needs_tls).await
    }

    /// Tries one server after the other.
    async fn go_round(&self, transmission: &Transmission<'_>, route: &Route, needs_tls: bool) -> Option<Outcome> {
        let (mut last, mut silent) = (None, 0);
        for stop in &route.stops {
            let strict = needs_tls.then(|| stop.needing_tls());
            let stop = strict.as_ref().unwrap_or(stop);
            match self.try_stop(transmission, route, stop).await {
                Answer::Ended(outcome) => return Some(outcome),
                Answer::Next(why) => last = Some(Outcome::Later(format!("{}: {why}", stop.host()))),
                Answer::Silent(why) => {
                    silent += 1;
                    last = Some(Outcome::Later(format!("{}: {why}", stop.host())));
                }
                Answer::Unreachable(refusal) => {
                    silent += 1;
                    let host = stop.host().to_owned();
                    last.get_or_insert(Outcome::Refused { refusal, host });
                }
                Answer::Unwritten(error) => return self.unwritten(transmission, error),
            }
        }
        // One server of several that does not answer says nothing of the site.
        if silent == route.stops.len() {
            let reason = match &last {
                Some(Outcome::Later(reason)) => reason.as_str(),
                _ => "none of its servers can be reached",
            };
            self.sites.failed(&route.site, self.app.clock.steady(), reason);
        } else {
            self.sites.doubt(&route.site);
        }
        last.or_else(|| Some(Outcome::Later("there is no server to hand it to".into())))
    }

    /// What becomes of a mail whose dot was not sent, because it could not be written down.
    fn unwritten(&self, transmission: &Transmission<'_>, error: DbError) -> Option<Outcome> {
        let reason = match (error, &transmission.quota) {
            (DbError::Unexpected { statement: 0 }, Some(quota)) => return Some(quota.excess.clone()),
            (DbError::Unexpected { statement }, quota) if transmission.is_place_lost(statement, quota.is_some()) => {
                let (until, reason) = (self.app.clock.steady() + SECOND, PLACE_LOST.to_owned());
                return Some(Outcome::PutOff { until, reason });
            }
            // Another worker has it.
            (DbError::Unexpected { .. }, _) => return None,
            (DbError::Stale, _) => "nothing is sent while the store is on hold".to_owned(),
            // It may be written all the same: that no dot was sent has to be written, too.
            (error, _) => format!("it was not sent, because that could not be written down first: {error}"),
        };
        Some(Outcome::Waits { until: self.app.clock.steady(), reason })
    }

    async fn try_stop(&self, transmission: &Transmission<'_>, route: &Route, stop: &Stop) -> Answer {
        let key = stop.key();
        // One that waited may have been hung up on just now; that says nothing of the server.
        if let Some(mut connection) = self.pool.take(&key, Instant::now()) {
            let answer = self.hand_over(transmission, route, &mut connection).await;
            self.pool.put(key.clone(), connection, Instant::now());
            match answer {
                Answer::Next(_) => {}
                answer => return answer,
            }
        }
        // Apart, because few need a new one, and every delivery would hold room for it.
        let mut connection = match Box::pin(self.connect(stop)).await {
            Ok(connection) => connection,
            Err(failure) => {
                if let Some(reply) = &failure.reply {
                    self.sites.heard(&route.site, (reply.code, &reply.text), self.app.clock.steady());
                }
                return match failure.reply {
                    Some(reply) if failure.at == Phase::Connect && reply.is_permanent() => {
                        Answer::Unreachable(Refusal { reply, at: failure.at })
                    }
                    // What one mail asks for and a server cannot do is not held against the site.
                    _ if failure.at == Phase::StartTls => Answer::Next(failure.reason),
                    _ => Answer::Silent(failure.reason),
                };
            }
        };
        let answer = self.hand_over(transmission, route, &mut connection).await;
        self.pool.put(key, connection, Instant::now());
        answer
    }

    /// A server that offers encryption and fails at it is spoken to in clear, where nobody asked
    /// for more; that is remembered.
    async fn connect(&self, stop: &Stop) -> Result<Connection, Failure> {
        let in_clear = match stop.hop() {
            Hop::Mx { host, tls: TlsPolicy::Opportunistic } => Hop::Mx { host, tls: &TlsPolicy::None },
            hop => return self.client.connect(&hop).await,
        };
        if self.without_tls.get(stop.host()).is_some_and(|until| until > self.app.clock.steady()) {
            return self.client.connect(&in_clear).await;
        }
        match self.client.connect(&stop.hop()).await {
            Err(failure) if failure.tls_failed => {
                self.without_tls.insert(stop.host().to_owned(), self.app.clock.steady() + super::IN_CLEAR_FOR);
                self.client.connect(&in_clear).await
            }
            connected => connected,
        }
    }

    async fn hand_over(&self, transmission: &Transmission<'_>, route: &Route, connection: &mut Connection) -> Answer {
        let Transmission { claimed, to, message, quota, is_committed } = transmission;
        let unwritten = OnceLock::new();
        // While the store refuses writes, or is on hold, nothing is delivered.
        let before_dot = async {
            is_committed.store(true, Ordering::Relaxed);
            let announced = announcement(claimed, quota.as_ref(), self.app.clock.steady());
            self.app.db.commit(announced).await.map(drop).map_err(|error| {
                let reason = error.to_string();
                let _ = unwritten.set(error);
                reason
            })
        };
        let (return_path, id) = (message.return_path(claimed), format!("{}-{}", claimed.own_id(), claimed.number));
        let reports_success = self.asks_for_success(route, message);
        let envelope = Envelope {
            from: &return_path,
            to,
            size: message.size,
            smtputf8: message.smtputf8,
            eightbit: message.eightbit,
            id: &id,
            reports_success,
        };
        let mut source = message.source(&self.app.db);
        let outcome = connection.send(&envelope, &mut source, before_dot).await;
        if let Some(error) = unwritten.into_inner() {
            return Answer::Unwritten(error);
        }
        let host = connection.host().to_owned();
        let now = self.app.clock.steady();
        match outcome {
            smtp::Outcome::Accepted { reply, security } => {
                self.sites.answered(&route.site, now);
                let via = self.way_taken(route, reports_success && connection.reports_deliveries());
                Answer::Ended(Outcome::Taken { via, host, reply: reply.to_string(), security })
            }
            smtp::Outcome::Refused { reply, at } => {
                self.sites.answered(&route.site, now);
                // A relay may quote what somebody else's server said.
                if route.via == Via::Direct || reply.code == 421 {
                    self.sites.heard(&route.site, (reply.code, &reply.text), now);
                }
                refused(Refusal { reply, at }, host)
            }
            smtp::Outcome::Failed { reason, .. } => Answer::Next(reason),
            smtp::Outcome::Unknown { reason } => {
                let reason = format!("{host} did not say whether it has taken the mail: {reason}");
                // Another relay, by which it might go next, knows nothing of what this one has.
                let is_repeatable = connection.takes_once() && route.stops.len() == 1;
                Answer::Ended(Outcome::Unknown { reason, is_found: false, is_repeatable })
            }
        }
    }

    /// Whether a relay is asked to report when it has delivered the mail. Such reports go to a return path of ours,
    /// and never to the people whose addresses mail is sent from.
    fn asks_for_success(&self, route: &Route, message: &Message) -> bool {
        let config = &self.app.config;
        let is_heard = match config.mail.relay_delivered {
            RelayDelivered::Auto => config.submission.inbound_listen.is_some() && message.reports_come,
            RelayDelivered::Reported => message.has_return_path(),
            RelayDelivered::AtOnce => false,
        };
        route.via == Via::Relay && is_heard
    }

    /// By which way a mail went; `will_report` says that its relay was asked for a report and gives one.
    fn way_taken(&self, route: &Route, will_report: bool) -> Via {
        let is_awaited = will_report || self.app.config.mail.relay_delivered == RelayDelivered::Reported;
        if route.via == Via::Relay && is_awaited { Via::Reporting } else { route.via }
    }
}

/// That the dot will be sent, and one mail more of those that its domain may send today and of those
/// that its contact may get.
fn announcement(claimed: &Claimed, quota: Option<&DailyQuota>, now: i64) -> Batch {
    let mut batch = Batch::new().when(hold::absent());
    if let Some(quota) = quota {
        batch.lock(quota.domain_id);
        batch.push(quota.count());
    }
    if let Some(place) = &claimed.place {
        batch.lock(claimed.own_id());
        batch.push(place.take(claimed, now).expect(1));
    }
    batch.and(store::dot(claimed))
}

fn dropped(claimed: &Claimed) {
    tracing::warn!(id = %claimed.email_id, "an attempt was dropped; it is tried again after its lease");
}

fn refused(refusal: Refusal, host: String) -> Answer {
    match refusal.is_permanent() {
        true => Answer::Ended(Outcome::Refused { refusal, host }),
        // It closes the connection; another may be less busy.
        false if refusal.reply.code == 421 && refusal.at < Phase::Dot => Answer::Next(refusal.to_string()),
        false => Answer::Ended(Outcome::Later(format!("{host}: {refusal}"))),
    }
}
