//! Recipients whose scheduled time has come enter the queue: that is written down and told, once,
//! before anything is done for them.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use serde_json::Value;

use super::Engine;
use super::settle::tell_of;
use super::store::{self, Claimed};
use crate::db::DbError;
use crate::emails::{self, State};
use crate::id::EmailId;
use crate::occurrences::{ATTEMPTS, OccurrenceBatch, SystemEvent};

impl Engine {
    /// Lets those of the claimed that were scheduled enter the queue. Who cannot now is left out, and
    /// claimed again when the lease is over.
    pub(super) async fn enter_queue<K>(&self, claimed: &mut HashMap<K, Vec<Claimed>>) -> Result<(), DbError> {
        let scheduled = claimed.values().flatten().filter(|row| row.is_scheduled).map(|row| row.email_id);
        let scheduled: HashSet<EmailId> = scheduled.collect();
        if scheduled.is_empty() {
            return Ok(());
        }
        let early = self.early(&scheduled).await?;
        for rows in claimed.values_mut() {
            // Side by side, and so in one commit or a few.
            let entered = join_all(rows.iter().map(|row| self.enter(row, early.get(&row.email_id)))).await;
            let mut entered = entered.into_iter();
            rows.retain(|_| entered.next().unwrap_or_default());
        }
        Ok(())
    }

    /// How long it is until the time comes that mail is scheduled for, where the clock was set back since.
    async fn early(&self, scheduled: &HashSet<EmailId>) -> Result<HashMap<EmailId, i64>, DbError> {
        let now = self.app.clock.now();
        let times = store::scheduled_times(&self.app.db, scheduled).await?;
        Ok(times.into_iter().map(|(id, at)| (id, at - now)).filter(|(_, early)| *early > 0).collect())
    }

    /// `false`: it cannot be done now, or the recipient is another worker's.
    async fn enter(&self, row: &Claimed, early: Option<&i64>) -> bool {
        if !row.is_scheduled {
            return true;
        }
        let entered = match early {
            Some(early) => {
                self.app.db.commit(store::put_off(row, self.app.clock.steady() + early)).await.map(|_| false)
            }
            None => self.try_enter(row).await.map(|()| true),
        };
        entered.unwrap_or_else(|error| {
            tracing::warn!(id = %row.email_id, to = row.number, %error, "a scheduled mail could not be queued");
            false
        })
    }

    async fn try_enter(&self, row: &Claimed) -> Result<(), DbError> {
        for attempt in 0..ATTEMPTS {
            let listeners = self.app.listeners_for(row.workspace_id, attempt).await?;
            let now = self.app.clock.now();
            let mut occurrences = OccurrenceBatch::new(row.workspace_id, &listeners, &self.app.clock, now);
            if occurrences.is_heard(SystemEvent::EMAIL_QUEUED) {
                let payload = self.queued_payload(row).await?;
                tell_of(&mut occurrences, row, SystemEvent::EMAIL_QUEUED, || payload);
            }
            occurrences.batch.lock(row.email_id);
            occurrences.batch.push(store::enter_queue(row));
            occurrences.batch.push(emails::raise(row.email_id, State::Queued, now));
            let (batch, follow_up) = occurrences.follow_up();
            match self.app.db.commit(batch).await {
                Ok(effects) => {
                    self.app.wake_workers_if(follow_up.is_urgent(&effects));
                    return Ok(());
                }
                Err(DbError::Stale) => self.app.forget_listeners(row.workspace_id),
                Err(error) => return Err(error),
            }
        }
        Err(DbError::Busy)
    }

    async fn queued_payload(&self, row: &Claimed) -> Result<Value, DbError> {
        let stored = emails::load(&self.app.db, row.email_id).await?;
        let mail = stored.ok_or_else(|| DbError::Broken(format!("there is no mail {}", row.email_id)))?.summary;
        let between = (mail.sender.as_str(), row.address.as_str());
        Ok(emails::queued_payload(mail.id, &mail.message_id, between, &mail.subject, mail.created_at))
    }
}
