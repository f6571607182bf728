//! What delivery has to know of a domain: what signs, how its mail leaves, and what
//! its owner wants of it. Cached, and looked at again every second.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::domain::TlsPolicy;
use super::keys::{SigningKey, SigningKeys};
use super::keys_store::{self, StoredKey};
use super::{Domains, records, store};
use crate::clock::{HOUR, SECOND};
use crate::config::{Relay, TransportKind};
use crate::db::{Basis, DbError, Row};
use crate::id::DomainId;
use crate::mime::DkimKey;

/// How old what is known may be before it is asked whether it still holds.
pub(super) const UNSEEN: i64 = SECOND;

/// After so many days of doubling nobody is near the limit.
const LONGEST_WARM_UP: i64 = 30;

/// How mail of a domain leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySettings {
    /// None: as the server does it.
    pub transport: Option<TransportKind>,
    /// Its own, in the order in which they are tried. They were named by people of a
    /// workspace and not by the operator.
    pub relays: Vec<Relay>,
    pub tls: TlsPolicy,
    /// The domain that bounces go to.
    pub return_path: String,
    /// DNS leads what is sent there to this server.
    pub reports_come: bool,
    /// Mails on the first day, and when that began.
    warm_up: Option<(i64, i64)>,
}

impl DeliverySettings {
    /// How many mails may be sent on the day of this moment, in wall time.
    pub fn daily_limit(&self, now: i64) -> Option<u64> {
        let (first, since) = self.warm_up?;
        let day = (now - since).div_euclid(24 * HOUR).clamp(0, LONGEST_WARM_UP);
        (day < LONGEST_WARM_UP).then(|| u64::try_from(first).unwrap_or(0) << day)
    }
}

/// What is known of a domain, and what that rests on.
pub(super) struct InUse {
    keys: Arc<SigningKeys>,
    settings: Arc<DeliverySettings>,
    basis: Arc<Basis>,
    /// When it was last found to hold, in steady time.
    confirmed: AtomicI64,
}

impl Domains {
    /// What signs a domain's mail; none of a domain that was deleted.
    pub async fn signing_keys(&self, id: DomainId) -> Result<Option<Arc<SigningKeys>>, DbError> {
        Ok(self.in_use(id).await?.map(|known| known.keys.clone()))
    }

    /// How a domain's mail leaves; none of a domain that was deleted.
    pub async fn delivery_settings(&self, id: DomainId) -> Result<Option<Arc<DeliverySettings>>, DbError> {
        Ok(self.in_use(id).await?.map(|known| known.settings.clone()))
    }

    async fn in_use(&self, id: DomainId) -> Result<Option<Arc<InUse>>, DbError> {
        let now = self.app.clock.steady();
        if let Some(known) = self.in_use.get(&id) {
            if now - known.confirmed.load(Ordering::Relaxed) < UNSEEN {
                return Ok(Some(known));
            }
            if self.app.db.holds(&known.basis.guard()).await? {
                known.confirmed.store(now, Ordering::Relaxed);
                return Ok(Some(known));
            }
        }
        let loaded = Box::pin(self.load_in_use(id, now)).await?.map(Arc::new);
        match &loaded {
            Some(known) => self.in_use.insert(id, known.clone()),
            None => drop(self.in_use.remove(&id)),
        }
        Ok(loaded)
    }

    async fn load_in_use(&self, id: DomainId, now: i64) -> Result<Option<InUse>, DbError> {
        let rows = self.app.db.read(store::for_delivery(id)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (name, seal) = (row.text(2)?, &self.app.seal);
        let relays = store::own_relays(row.maybe(6, Row::text)?.as_deref(), seal);
        let settings = DeliverySettings {
            transport: store::kind(row.maybe(5, Row::text)?)?,
            relays: relays.ok_or_else(|| DbError::Broken(format!("the relays of {name} cannot be opened")))?,
            tls: if row.text(4)? == TlsPolicy::Enforced.as_str() {
                TlsPolicy::Enforced
            } else {
                TlsPolicy::Opportunistic
            },
            return_path: format!("{}.{name}", row.text(3)?),
            reports_come: records::leads_back(&store::findings(&row.text(10)?)?),
            warm_up: row.maybe(7, Row::int)?.zip(row.maybe(8, Row::int)?),
        };
        let stored = StoredKey::read_all(&self.app.db.read(keys_store::of_domain(id)).await?)?;
        let keys = stored.into_iter().filter_map(|key| self.open_key(&name, key)).collect();
        Ok(Some(InUse {
            keys: Arc::new(SigningKeys { domain: name, keys }),
            settings: Arc::new(settings),
            basis: store::stands(row.id(1)?, id, row.int(9)?, row.int(0)?),
            confirmed: AtomicI64::new(now),
        }))
    }

    /// A key that signs or has signed. One that cannot be opened signs nothing: the mail
    /// goes out without its signature.
    fn open_key(&self, domain: &str, stored: StoredKey) -> Option<SigningKey> {
        let from = stored.seen_at?;
        let key = self.app.seal.open(&stored.private_key).and_then(|bytes| DkimKey::from_bytes(&bytes));
        if key.is_none() {
            tracing::warn!(domain, selector = stored.selector, "a DKIM key was sealed with another secret or key file");
        }
        Some(SigningKey { selector: stored.selector, key: key?, from, until: stored.retired_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_doubles_every_day_and_ends() {
        let settings = |warm_up| DeliverySettings {
            transport: None,
            relays: vec![],
            tls: TlsPolicy::Opportunistic,
            return_path: "send.example.com".into(),
            reports_come: false,
            warm_up,
        };
        assert_eq!(settings(None).daily_limit(0), None);
        let warm_up = settings(Some((50, 0)));
        let on = |day: i64| warm_up.daily_limit(day * 24 * HOUR);
        assert_eq!((on(0), on(1), on(4)), (Some(50), Some(100), Some(800)));
        assert_eq!((on(-1), on(29).is_some(), on(30)), (Some(50), true, None));
    }
}
