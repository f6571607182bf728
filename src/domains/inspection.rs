//! A look at DNS for every domain of a store that is only read: are the records really there?

use futures_util::{StreamExt, stream};

use super::CHECKS_AT_ONCE;
use super::keys_store::{self, StoredKey};
use super::records::{self, Expected, Place};
use super::status::Look;
use super::store::{self, Stored};
use super::verification;
use crate::app::Addresses;
use crate::config::{Config, Relay, TransportKind};
use crate::db::{DbError, Inspection, Sql, statements};
use crate::dns::Resolver;
use crate::id::DomainId;
use crate::seal::Seal;

/// How many domains are looked at, the newest.
const MOST: i64 = 100;

statements! {
    NEWEST = Sql::both("SELECT workspace_id, id FROM domains ORDER BY id DESC LIMIT $1");
}

/// A domain, and what is wrong in DNS with the records that it should have.
pub struct Inspected {
    pub name: String,
    /// Whether mail leaves from it.
    pub is_sending: bool,
    /// Those of its own by which its mail leaves.
    pub relays: Vec<Relay>,
    /// What sending needs comes first.
    pub flaws: Vec<Flaw>,
}

/// What is wrong with a record, and what to do about it.
pub struct Flaw {
    pub problem: String,
    pub advice: String,
    /// Whether mail cannot be sent without the record.
    pub is_needed: bool,
    /// DNS has said nothing of it.
    pub is_unanswered: bool,
}

/// Looks at all domains. Nothing is written down.
pub async fn inspect(
    inspection: &Inspection,
    config: &Config,
    addresses: &Addresses,
    seal: &Seal,
) -> Result<Vec<Inspected>, DbError> {
    let place = Place::of(config, addresses);
    let mut found = Vec::new();
    for row in inspection.read(NEWEST.with([MOST.into()])).await? {
        let rows = inspection.read(store::by_id(row.id(0)?, row.id(1)?)).await?;
        let Some(domain) = rows.first().map(Stored::read).transpose()? else { continue };
        let keys = StoredKey::read_all(&inspection.read(keys_store::of_domain(domain.id)).await?)?;
        let relays = domain.own_relays(seal);
        let expected = records::expected(&domain, &keys, &relays, &place);
        found.push((domain, relays, expected));
    }
    let dns = Resolver::uncached(&config.mail.dns_server);
    let looks = found.into_iter().map(|(domain, relays, expected)| {
        let (dns, transport) = (&dns, domain.transport.unwrap_or_else(|| config.transport()));
        async move {
            let looks = verification::look(dns, &domain.name, &expected).await;
            let mut flaws: Vec<Flaw> =
                expected.iter().zip(looks).filter_map(|(record, (_, look))| flaw(domain.id, record, look)).collect();
            flaws.sort_by_key(|flaw| !flaw.is_needed);
            let is_sending = domain.may_send && domain.sending && transport != TransportKind::Capture;
            Inspected { name: domain.name, is_sending, relays, flaws }
        }
    });
    Ok(stream::iter(looks).buffered(CHECKS_AT_ONCE).collect().await)
}

fn flaw(id: DomainId, record: &Expected, look: Look) -> Option<Flaw> {
    let Expected { purpose, name, is_needed, .. } = record;
    let what = format!("the {} record of {} at {name}", purpose.kind(), purpose.record());
    let with_value = |advice: String| format!("{advice} `GET /domains/{id}` tells the value.");
    let (problem, advice, is_unanswered) = match look {
        Look::Right { .. } => return None,
        Look::Wrong { found, advice } => (format!("{what} says `{found}`"), with_value(advice), false),
        Look::Missing { advice } => (format!("{what} is not there"), with_value(advice), false),
        Look::Unanswered { reason } => (format!("{what} could not be looked up: {reason}"), String::new(), true),
    };
    Some(Flaw { problem, advice, is_needed: *is_needed, is_unanswered })
}
