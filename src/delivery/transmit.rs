//! One attempt: a dialogue with the first server that answers, and the journal around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;

use super::Engine;
use super::claim::Hand;
use super::message::{Message, NoMessage};
use super::refusal::Refusal;
use super::routes::{Route, Stop};
use super::settlement::{Outcome, Via};
use super::sites::Slot;
use super::store::{self, Claimed};
use crate::db::{Batch, DbError};
use crate::hold;
use crate::mime::Address;
use crate::smtp::{self, Connection, Envelope, Failure, Hop, Phase, TlsPolicy};
use crate::work;

/// A recipient, and its address as a dialogue says it.
type Whom<'a> = (&'a Claimed, &'a str);

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
    Unwritten,
}

impl Engine {
    /// Delivers to recipients that were claimed together, side by side.
    pub(super) async fn work_off(self: &Arc<Engine>, hand: Hand) {
        let mut deliveries = JoinSet::new();
        for (claimed, slot) in hand.recipients {
            let (engine, route) = (self.clone(), hand.route.clone());
            deliveries.spawn(async move { engine.deliver(claimed, slot, &route).await });
        }
        while let Some(ended) = deliveries.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a delivery panicked; it is tried again after its lease");
            }
        }
    }

    async fn deliver(&self, claimed: Claimed, slot: Slot, route: &Route) {
        let renew = |lease_until| store::renew(&claimed, lease_until);
        let attempt = self.attempt(&claimed, &slot, route);
        let outcome = work::under_lease::<Claimed, _>((&self.app.db, &self.app.clock), renew, attempt).await;
        match outcome.flatten() {
            Some(outcome) => self.settle_all(vec![(claimed, outcome)]).await,
            None => tracing::warn!(id = %claimed.email_id, "an attempt was dropped; it is tried again after its lease"),
        }
    }

    /// `None` where nothing may be written of it.
    async fn attempt(&self, claimed: &Claimed, slot: &Slot, route: &Route) -> Option<Outcome> {
        let message = match self.message(claimed).await {
            Ok(message) => message,
            Err(NoMessage::Never(reason)) => return Some(Outcome::Never(reason)),
            // Such as a key that cannot be opened: somebody will mend it.
            Err(NoMessage::Store(DbError::Broken(reason))) => return Some(Outcome::Later(reason)),
            Err(NoMessage::Store(error)) => {
                tracing::warn!(id = %claimed.email_id, %error, "a mail could not be read");
                return None;
            }
        };
        let Ok(to) = claimed.address.parse::<Address>() else {
            return Some(Outcome::Never("its address is none that mail can go to".into()));
        };
        let to = to.on_the_wire();
        let _turn = slot.turn(|| self.app.clock.steady()).await;
        let (mut last, mut silent) = (None, 0);
        for stop in &route.stops {
            let strict = message.needs_tls.then(|| stop.needing_tls());
            let stop = strict.as_ref().unwrap_or(stop);
            match self.try_stop((claimed, &to), route, stop, &message).await {
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
                Answer::Unwritten => return None,
            }
        }
        // One server of several that does not answer says nothing of the site.
        if silent == route.stops.len() {
            let reason = match &last {
                Some(Outcome::Later(reason)) => reason.as_str(),
                _ => "none of its servers can be reached",
            };
            self.sites.failed(&route.site, self.app.clock.steady(), reason);
        }
        last.or_else(|| Some(Outcome::Later("there is no server to hand it to".into())))
    }

    async fn try_stop(&self, whom: Whom<'_>, route: &Route, stop: &Stop, message: &Message) -> Answer {
        let key = stop.key();
        // One that waited may have been hung up on just now; that says nothing of the server.
        if let Some(mut connection) = self.pool.take(&key) {
            let answer = self.hand_over(whom, route, &mut connection, message).await;
            self.pool.put(key.clone(), connection);
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
                    _ => Answer::Silent(failure.reason),
                };
            }
        };
        let answer = self.hand_over(whom, route, &mut connection, message).await;
        self.pool.put(key, connection);
        answer
    }

    /// A server that offers encryption and fails at it is spoken to in clear, where nobody asked
    /// for more; that is remembered.
    async fn connect(&self, stop: &Stop) -> Result<Connection, Failure> {
        let in_clear = match stop.hop() {
            Hop::Mx { host, tls: TlsPolicy::Opportunistic } => Hop::Mx { host, tls: TlsPolicy::None },
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

    async fn hand_over(
        &self,
        (claimed, to): Whom<'_>,
        route: &Route,
        connection: &mut Connection,
        message: &Message,
    ) -> Answer {
        let is_unwritten = AtomicBool::new(false);
        // While the store refuses writes, or is on hold, nothing is delivered.
        let before_dot = async {
            let dot = Batch::from(store::dot(claimed)).when(hold::absent());
            let written = self.app.db.commit(dot).await;
            is_unwritten.store(written.is_err(), Ordering::Relaxed);
            written.map(drop).map_err(|error| error.to_string())
        };
        let return_path = message.return_path(claimed);
        let envelope =
            Envelope { from: &return_path, to, size: message.size, smtputf8: message.smtputf8, eightbit: false };
        let mut source = message.source(&self.app.db);
        let outcome = connection.send(&envelope, &mut source, before_dot).await;
        if is_unwritten.load(Ordering::Relaxed) {
            return Answer::Unwritten;
        }
        let host = connection.host().to_owned();
        let now = self.app.clock.steady();
        match outcome {
            smtp::Outcome::Accepted { reply, .. } => {
                self.sites.answered(&route.site);
                Answer::Ended(Outcome::Taken { via: route.via, host, reply: reply.to_string() })
            }
            smtp::Outcome::Refused { reply, at } => {
                self.sites.answered(&route.site);
                // A relay may quote what somebody else's server said.
                if route.via == Via::Direct || reply.code == 421 {
                    self.sites.heard(&route.site, (reply.code, &reply.text), now);
                }
                refused(Refusal { reply, at }, host)
            }
            smtp::Outcome::Failed { reason, .. } => Answer::Next(reason),
            smtp::Outcome::Unknown { reason } => {
                let reason = format!("{host} did not say whether it has taken the mail: {reason}");
                Answer::Ended(Outcome::Unknown { reason, is_found: false })
            }
        }
    }
}

fn refused(refusal: Refusal, host: String) -> Answer {
    match refusal.is_permanent() {
        true => Answer::Ended(Outcome::Refused { refusal, host }),
        // It closes the connection; another may be less busy.
        false if refusal.reply.code == 421 && refusal.at < Phase::Dot => Answer::Next(refusal.to_string()),
        false => Answer::Ended(Outcome::Later(format!("{host}: {refusal}"))),
    }
}
