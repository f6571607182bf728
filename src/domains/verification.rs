//! One look at DNS for a domain that is claimed, and what it comes to.

use std::time::Duration;

use futures_util::future::join_all;

use super::keys_store::{self, StoredKey};
use super::records::{self, Expected};
use super::status::{self, Finding, Findings, Look, RecordStatus, Status};
use super::store::{self, Outcome, Stored};
use super::{Domains, check, tracking};
use crate::db::{Batch, DbError};
use crate::dns::Resolver;
use crate::webhooks::EventType;

/// Under which names it is kept what is known of DMARC, and of the name itself.
pub const DMARC: &str = "dmarc";
pub const NAME: &str = "name";

/// How long all questions of one domain may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Domains {
    /// The records of a domain, and the keys they are of.
    pub(super) async fn expected(&self, domain: &Stored) -> Result<(Vec<Expected>, Vec<StoredKey>), DbError> {
        let keys = StoredKey::read_all(&self.app.db.read(keys_store::of_domain(domain.id)).await?)?;
        Ok((self.records(domain, &keys), keys))
    }

    pub(super) fn records(&self, domain: &Stored, keys: &[StoredKey]) -> Vec<Expected> {
        records::expected(domain, keys, &domain.own_relays(&self.app.seal), &self.place)
    }

    /// Looks at DNS and writes down what it says, unless the domain was changed or looked
    /// at by somebody else meanwhile.
    pub(super) async fn check(&self, domain: &Stored) -> Result<(), DbError> {
        let _turn = self.checks.acquire().await;
        let (expected, keys) = self.expected(domain).await?;
        let looks = look(&self.dns, &domain.name, &expected).await;
        let now = self.app.clock.steady();
        let mut findings = Findings::new();
        for (key, look) in looks {
            let finding = status::after(domain.findings.get(&key), look, now, domain.awaited_since);
            findings.insert(key, finding);
        }
        match self.settle(domain, &expected, &keys, &findings).await {
            // Another workspace has shown before that the name is its own.
            Err(DbError::Duplicate(_)) => {
                findings.insert(NAME.into(), anothers());
                self.settle(domain, &expected, &keys, &findings).await
            }
            settled => settled,
        }
    }

    async fn settle(
        &self,
        domain: &Stored,
        expected: &[Expected],
        keys: &[StoredKey],
        findings: &Findings,
    ) -> Result<(), DbError> {
        let clock = &self.app.clock;
        let is_anothers = findings.contains_key(NAME);
        let status = if is_anothers { Status::Failed } else { status::status(expected, findings) };
        let is_owned = domain.is_owned || status.may_send();
        let is_seen = |key: &&StoredKey| {
            let finding = findings.get(&key.finding());
            key.seen_at.is_none() && finding.is_some_and(|finding| finding.status == RecordStatus::Verified)
        };
        let seen: Vec<&StoredKey> = keys.iter().filter(is_seen).filter(|_| is_owned).collect();
        let may_send = is_owned && status.may_send();
        let host = |findings| tracking::host(&domain.name, domain.tracking_subdomain.as_deref(), findings);
        let is_news = (is_owned, may_send) != (domain.is_owned, domain.may_send)
            || !seen.is_empty()
            || host(findings) != host(&domain.findings)
            || records::leads_back(findings) != records::leads_back(&domain.findings);
        let outcome = Outcome {
            status,
            is_owned,
            findings,
            checked_at: clock.now(),
            due_at: status::next_look(status, is_owned, findings, clock.steady(), domain.awaited_since),
            is_news,
        };
        let mut batch: Batch = store::settle(domain, &outcome).into();
        if status != domain.status {
            let now = Stored { status, findings: findings.clone(), ..domain.clone() };
            self.publish(&mut batch, EventType::DomainUpdated, &now, Some(expected));
        }
        seen.into_iter()
            .flat_map(|key| keys_store::seen(domain.id, key, clock.now()))
            .for_each(|stmt| batch.push(stmt));
        if outcome.is_news {
            batch.push(store::raise());
        }
        self.app.db.commit(batch).await.map(drop)
    }
}

/// What DNS says of each record, and of DMARC, which comes last.
pub async fn look(dns: &Resolver, name: &str, expected: &[Expected]) -> Vec<(String, Look)> {
    let records = join_all(expected.iter().map(|record| check::look(dns, name, record)));
    let all = async { tokio::join!(records, check::look_for_dmarc(dns, name)) };
    match tokio::time::timeout(PATIENCE, all).await {
        Ok((looks, dmarc)) => {
            let keys = expected.iter().map(|record| record.key.clone());
            keys.zip(looks).chain([(DMARC.to_owned(), dmarc)]).collect()
        }
        Err(_) => unanswered(expected, "it took too long"),
    }
}

fn unanswered(expected: &[Expected], reason: &str) -> Vec<(String, Look)> {
    let look = |key: &str| (key.to_owned(), Look::Unanswered { reason: reason.to_owned() });
    expected.iter().map(|record| look(&record.key)).chain([look(DMARC)]).collect()
}

fn anothers() -> Finding {
    let advice = "Another workspace of this server has verified this name. It has to delete its domain before this one \
                  can be verified.";
    Finding { status: RecordStatus::Failed, found: None, advice: Some(advice.into()), missed: None }
}
