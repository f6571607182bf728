//! By which servers mail goes: those of a domain, as they were looked up, or the relays.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;

use super::refusal::Refusal;
use super::settlement::{Outcome, Via};
use super::sites::Pace;
use crate::clock::MINUTE;
use crate::config::Relay;
use crate::dns::{NoSite, Resolver};
use crate::id::DomainId;
use crate::smtp::{Hop, Phase, Reply, TlsPolicy};

/// How many domains are remembered.
const MOST_KNOWN: usize = 10_000;

/// For how long the servers of a domain are not looked up again; the resolver has its own times.
const KNOWN_FOR: i64 = 5 * MINUTE;
const UNKNOWN_FOR: i64 = MINUTE;

/// How many domains are looked up at the same time.
const MOST_ASKED: usize = 64;

/// By which servers mail goes, and how much of it at once.
pub struct Route {
    /// What is paced together.
    pub site: String,
    pub pace: Pace,
    pub via: Via,
    /// In the order in which they are tried.
    pub stops: Vec<Stop>,
}

/// A server on the way.
pub enum Stop {
    Relay(Relay),
    /// One that people of a workspace have named.
    ForeignRelay(Relay),
    Mx {
        host: String,
        tls: TlsPolicy,
    },
}

impl Stop {
    pub fn hop(&self) -> Hop<'_> {
        match self {
            Stop::Relay(relay) => Hop::Relay(relay),
            Stop::ForeignRelay(relay) => Hop::ForeignRelay(relay),
            Stop::Mx { host, tls } => Hop::Mx { host, tls: *tls },
        }
    }

    /// The same, where mail needs more than the server does.
    pub fn needing_tls(&self) -> Stop {
        match self {
            Stop::Relay(relay) => Stop::Relay(relay.clone()),
            Stop::ForeignRelay(relay) => Stop::ForeignRelay(relay.clone()),
            Stop::Mx { host, .. } => Stop::Mx { host: host.clone(), tls: TlsPolicy::Enforced },
        }
    }

    /// What connections to it have in common, log-in included: nobody gets one that another has
    /// opened with a password of his own, or that leads where he may not go.
    pub fn key(&self) -> String {
        let relay = |whose: &str, relay: &Relay| {
            let (user, password) = relay.credentials.as_ref().map_or(("", ""), |(user, password)| (user, password));
            format!("{whose} {}:{} {:?} {user}\0{password}", relay.host, relay.port, relay.encryption)
        };
        match self {
            Stop::Relay(given) => relay("relay", given),
            Stop::ForeignRelay(given) => relay("foreign relay", given),
            Stop::Mx { host, tls } => format!("mx {host} {tls:?}"),
        }
    }

    pub fn host(&self) -> &str {
        match self {
            Stop::Relay(relay) | Stop::ForeignRelay(relay) => &relay.host,
            Stop::Mx { host, .. } => host,
        }
    }
}

impl Route {
    /// Through relays, the first that answers.
    pub fn relays(relays: &[Relay]) -> Route {
        Route::through("the relay", relays, Stop::Relay)
    }

    /// Through those that people of a workspace have named.
    pub fn foreign_relays(domain_id: DomainId, relays: &[Relay]) -> Route {
        // What one workspace does at a relay is not held against another's mail through it.
        Route::through(&format!("the relay of the domain {domain_id},"), relays, Stop::ForeignRelay)
    }

    fn through(whose: &str, relays: &[Relay], stop: fn(Relay) -> Stop) -> Route {
        let names: Vec<String> = relays.iter().map(|relay| format!("{}:{}", relay.host, relay.port)).collect();
        let stops = relays.iter().cloned().map(stop).collect();
        Route { site: format!("{whose} {}", names.join("+")), pace: Pace::RELAY, via: Via::Relay, stops }
    }
}

struct Known {
    route: Result<Arc<Route>, Outcome>,
    until: i64,
}

/// The routes to domains, as far as they are known.
pub struct Routes {
    known: Cache<String, Arc<Known>>,
    asked: Mutex<HashSet<String>>,
}

impl Default for Routes {
    fn default() -> Routes {
        Routes { known: Cache::new(MOST_KNOWN), asked: Mutex::default() }
    }
}

impl Routes {
    /// The route to a domain, or what becomes of mail to it; `None`: it has to be looked up.
    pub fn known(&self, domain: &str, now: i64) -> Option<Result<Arc<Route>, Outcome>> {
        let known = self.known.get(domain).filter(|known| known.until > now)?;
        Some(known.route.clone())
    }

    fn asked(&self) -> MutexGuard<'_, HashSet<String>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a look-up is to begin; it then is to end with [`Routes::learn`].
    pub fn begin(&self, domain: &str) -> bool {
        let mut asked = self.asked();
        asked.len() < MOST_ASKED && asked.insert(domain.to_owned())
    }

    /// Looks up the servers of a domain, `own` being what we call ourselves.
    pub async fn learn(&self, resolver: &Resolver, domain: &str, own: &str, now: i64) {
        let (route, time) = match resolver.site(domain, own).await {
            Ok(site) => {
                let stop = |host| Stop::Mx { host, tls: TlsPolicy::Opportunistic };
                let stops = site.hosts.into_iter().map(stop).collect();
                (Ok(Arc::new(Route { site: site.name, pace: Pace::MX, via: Via::Direct, stops })), KNOWN_FOR)
            }
            Err(NoSite::Never { code, reason }) => (Err(never(domain, code, reason)), KNOWN_FOR),
            Err(NoSite::Later(reason)) => (Err(Outcome::Later(reason)), UNKNOWN_FOR),
        };
        self.known.insert(domain.to_owned(), Arc::new(Known { route, until: now + time }));
        self.asked().remove(domain);
    }
}

/// What we say ourselves of a domain that takes no mail.
fn never(domain: &str, code: &str, reason: String) -> Outcome {
    let mut numbers = code.split('.').filter_map(|number| number.parse().ok());
    let enhanced = [numbers.next(), numbers.next(), numbers.next()];
    let enhanced = match enhanced {
        [Some(class), Some(subject), Some(detail)] => Some([class, subject, detail]),
        _ => None,
    };
    let refusal = Refusal { reply: Reply { code: 550, enhanced, text: reason }, at: Phase::Connect };
    Outcome::Refused { refusal, host: domain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_a_connection_that_another_has_opened() {
        let relay = |url: &str| -> Relay { url.parse().expect("a relay") };
        let keys = [
            Stop::Relay(relay("smtp://127.0.0.1:25")).key(),
            Stop::ForeignRelay(relay("smtp://127.0.0.1:25")).key(),
            Stop::ForeignRelay(relay("smtp://u:one@127.0.0.1:25")).key(),
            Stop::ForeignRelay(relay("smtp://u:other@127.0.0.1:25")).key(),
            Stop::Mx { host: "mx.example".into(), tls: TlsPolicy::Opportunistic }.key(),
            Stop::Mx { host: "mx.example".into(), tls: TlsPolicy::Enforced }.key(),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "{keys:?}");
    }
}
