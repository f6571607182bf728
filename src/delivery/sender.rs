//! What the domain that a mail is from has to say about its delivery, as it is when the mail goes:
//! whether it may still send, whether it wants encryption, and how much it sends on a day.

use super::Engine;
use super::message::Message;
use super::settlement::Outcome;
use super::store::{self, Claimed};
use crate::app::App;
use crate::clock::HOUR;
use crate::db::{DbError, Stmt};
use crate::domains::TlsPolicy;
use crate::error::Error;
use crate::id::DomainId;

const DAY: i64 = 24 * HOUR;

/// On what terms a mail leaves.
#[derive(Debug, Default)]
pub struct Terms {
    /// Encrypted, or not at all.
    pub needs_tls: bool,
    /// What is counted where it leaves.
    pub quota: Option<DailyQuota>,
}

/// What a domain that is warmed up may send on a day.
#[derive(Debug)]
pub struct DailyQuota {
    pub domain_id: DomainId,
    day: i64,
    limit: i64,
    /// What becomes of mail that is too much, until the next day.
    pub excess: Outcome,
}

impl DailyQuota {
    /// Counts one mail more, and fails where it is too much.
    pub fn count(&self) -> Stmt {
        store::count_on_day(self.domain_id, self.day, self.limit)
    }
}

/// Why a mail does not leave now.
pub enum Refused {
    /// And what becomes of it.
    Outcome(Outcome),
    /// Nobody could be asked.
    Store(DbError),
}

impl From<DbError> for Refused {
    fn from(error: DbError) -> Refused {
        Refused::Store(error)
    }
}

/// Forgets how much domains have sent before yesterday: it may still be yesterday elsewhere.
pub async fn sweep_days(app: &App) -> Result<(), DbError> {
    let today = app.clock.now().div_euclid(DAY);
    app.db.commit(store::forget_days(today - 1)).await.map(drop)
}

impl Engine {
    /// The terms of a mail's sender.
    pub(super) async fn terms(&self, claimed: &Claimed, message: &Message) -> Result<Terms, Refused> {
        let name = message.sender_domain.as_str();
        let sender = match self.domains.may_still_send(claimed.workspace_id, name).await {
            Ok(sender) => sender,
            // What the product has to tell its owners is not a domain's to keep.
            Err(Error::DomainRefused { .. }) if claimed.is_own => return Ok(Terms::default()),
            Err(Error::DomainRefused { message }) => return Err(Refused::Outcome(Outcome::Later(message))),
            Err(error) => return Err(DbError::Unavailable(error.message().into_owned()).into()),
        };
        let Some(id) = sender.domain_id else { return Ok(Terms::default()) };
        let Some(settings) = self.domains.delivery_settings(id).await? else {
            return Err(Refused::Outcome(Outcome::Later(format!("the domain {name} was deleted"))));
        };
        let quota = match settings.daily_limit(self.app.clock.now()) {
            Some(limit) if !claimed.is_own => Some(self.quota(id, name, limit).await?),
            _ => None,
        };
        Ok(Terms { needs_tls: settings.tls == TlsPolicy::Enforced, quota })
    }

    /// What a domain may send today, unless it has sent that.
    async fn quota(&self, domain_id: DomainId, name: &str, limit: u64) -> Result<DailyQuota, Refused> {
        let now = self.app.clock.now();
        let (day, limit) = (now.div_euclid(DAY), i64::try_from(limit).unwrap_or(i64::MAX));
        let until = self.app.clock.steady() + (day + 1) * DAY - now;
        let reason = format!(
            "{name} is being warmed up and has sent the {limit} mails of this day; it waits for the next (UTC)"
        );
        let excess = Outcome::OverLimit { until, reason };
        let rows = self.app.db.read(store::sent_on_day(domain_id, day)).await?;
        match rows.first().map(|row| row.int(0)).transpose()? {
            Some(sent) if sent >= limit => Err(Refused::Outcome(excess)),
            _ => Ok(DailyQuota { domain_id, day, limit, excess }),
        }
    }
}
