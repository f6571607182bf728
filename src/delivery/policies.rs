//! What domains say of their mail servers (MTA-STS), as long as that holds.

use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::clock::SECOND;
use crate::dns::Resolver;
use crate::http_client::HttpClient;
use crate::smtp::{StsPolicy, mta_sts};

/// How many policies are remembered.
const MOST_KNOWN: usize = 10_000;

/// Policies that were read. One holds until its time is over, even where it cannot be read any
/// more; one that was never read is none (RFC 8461, 3.3).
pub struct Policies(Cache<String, Known>);

#[derive(Clone)]
struct Known {
    policy: Arc<StsPolicy>,
    until: i64,
}

impl Default for Policies {
    fn default() -> Policies {
        Policies(Cache::new(MOST_KNOWN))
    }
}

impl Policies {
    /// The policy of a domain that holds at a moment, if any does.
    pub async fn of(
        &self,
        (resolver, http): (&Resolver, &HttpClient),
        domain: &str,
        now: i64,
    ) -> Option<Arc<StsPolicy>> {
        let known = self.0.get(domain).filter(|known| known.until > now).map(|known| known.policy);
        match mta_sts(resolver, http, domain, known.as_deref()).await {
            Ok(Some(policy)) if known.as_ref().is_none_or(|known| **known != policy) => {
                let time = i64::try_from(policy.max_age.as_secs()).unwrap_or(i64::MAX).saturating_mul(SECOND);
                let policy = Arc::new(policy);
                self.0.insert(domain.to_owned(), Known { policy: policy.clone(), until: now.saturating_add(time) });
                Some(policy)
            }
            Ok(_) => known,
            Err(reason) => {
                tracing::info!(domain, reason, is_known = known.is_some(), "a policy of MTA-STS cannot be read");
                known
            }
        }
    }
}
