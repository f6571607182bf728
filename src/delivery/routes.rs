//! By which servers mail goes: those of a domain, as they were looked up and as DNSSEC (DANE) and
//! its policy (MTA-STS) have them, or the relays.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;

use super::certificates::{Certified, certified};
use super::policies::Policies;
use super::refusal::Refusal;
use super::settlement::{Outcome, Via};
use super::sites::Pace;
use crate::clock::MINUTE;
use crate::config::{Encryption, Relay};
use crate::dns::{NoSite, Resolver};
use crate::http_client::HttpClient;
use crate::id::DomainId;
use crate::smtp::{Hop, Phase, Reply, StsMode, StsPolicy, TlsPolicy};

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
            Stop::Mx { host, tls } => Hop::Mx { host, tls },
        }
    }

    /// The same, where mail needs more than the server does.
    pub fn needing_tls(&self) -> Stop {
        let strict = |relay: &Relay| match relay.encryption {
            Encryption::Wrapped => relay.clone(),
            _ => Relay { encryption: Encryption::Required, ..relay.clone() },
        };
        match self {
            Stop::Relay(relay) => Stop::Relay(strict(relay)),
            Stop::ForeignRelay(relay) => Stop::ForeignRelay(strict(relay)),
            Stop::Mx { host, tls: dane @ TlsPolicy::Dane(_) } => Stop::Mx { host: host.clone(), tls: dane.clone() },
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
        Route::through("the relay", Pace::RELAY, relays, Stop::Relay)
    }

    /// Through those that people of a workspace have named.
    pub fn foreign_relays(domain_id: DomainId, relays: &[Relay]) -> Route {
        // What one workspace does at a relay is not held against another's mail through it.
        let whose = format!("the relay of the domain {domain_id},");
        Route::through(&whose, Pace::FOREIGN_RELAY, relays, Stop::ForeignRelay)
    }

    fn through(whose: &str, pace: Pace, relays: &[Relay], stop: fn(Relay) -> Stop) -> Route {
        let names: Vec<String> = relays.iter().map(|relay| format!("{}:{}", relay.host, relay.port)).collect();
        let stops = relays.iter().cloned().map(stop).collect();
        Route { site: format!("{whose} {}", names.join("+")), pace, via: Via::Relay, stops }
    }

    /// To the servers of a domain: those whose certificates DNSSEC names, which no policy
    /// overrides; of the others, where the policy is to be enforced, those that it names and that
    /// prove who they are.
    fn direct(
        domain: &str,
        site: String,
        servers: Vec<Certified>,
        policy: Option<&StsPolicy>,
    ) -> Result<Route, Outcome> {
        let is_enforced = policy.is_some_and(|policy| policy.mode == StsMode::Enforce);
        let (mut stops, mut others, mut unknown) = (Vec::new(), Vec::new(), None);
        for (host, certified) in servers {
            let tls = match certified {
                Ok(Some(tls @ TlsPolicy::Dane(_))) => tls,
                Ok(_) if is_enforced => TlsPolicy::Enforced,
                Ok(tls) => tls.unwrap_or(TlsPolicy::Opportunistic),
                Err(reason) => {
                    unknown = Some(reason);
                    continue;
                }
            };
            let is_named = policy.is_none_or(|policy| policy.allows(&host)) || matches!(tls, TlsPolicy::Dane(_));
            if is_named { &mut stops } else { &mut others }.push(Stop::Mx { host, tls });
        }
        let names = others.iter().map(Stop::host).collect::<Vec<_>>().join(", ");
        if !others.is_empty() {
            tracing::info!(domain, names, is_enforced, "mail servers that the MTA-STS policy does not name");
        }
        if !is_enforced {
            stops.append(&mut others);
        }
        if stops.is_empty() {
            let unnamed = || format!("the MTA-STS policy of {domain} names none of its mail servers ({names})");
            return Err(Outcome::Later(unknown.unwrap_or_else(unnamed)));
        }
        Ok(Route { site, pace: Pace::MX, via: Via::Direct, stops })
    }
}

struct Known {
    route: Result<Arc<Route>, Outcome>,
    until: i64,
}

/// The routes to domains, as far as they are known.
pub struct Routes {
    known: Cache<String, Arc<Known>>,
    policies: Policies,
    asked: Mutex<HashSet<String>>,
    /// On which mail servers are reached.
    port: u16,
}

/// A domain that is being looked up, until this is dropped.
struct Asked<'a> {
    routes: &'a Routes,
    domain: &'a str,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.routes.asked().remove(self.domain);
    }
}

impl Routes {
    pub fn new(port: u16) -> Routes {
        Routes { known: Cache::new(MOST_KNOWN), policies: Policies::default(), asked: Mutex::default(), port }
    }

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

    /// Looks up the servers of a domain and its policy, `own` being what we call ourselves.
    pub async fn learn(&self, (resolver, http): (&Resolver, &HttpClient), domain: &str, own: &str, now: i64) {
        let _asked = Asked { routes: self, domain };
        let route = match resolver.site(domain, own).await {
            Ok(site) => {
                let policy = self.policies.of((resolver, http), domain, now);
                let servers = certified(resolver, domain, &site, self.port);
                let (policy, servers) = tokio::join!(policy, servers);
                Route::direct(domain, site.name, servers, policy.as_deref()).map(Arc::new)
            }
            Err(NoSite::Never { code, reason }) => Err(never(domain, code, reason)),
            Err(NoSite::Later(reason)) => Err(Outcome::Later(reason)),
        };
        let time = if matches!(route, Err(Outcome::Later(_))) { UNKNOWN_FOR } else { KNOWN_FOR };
        self.known.insert(domain.to_owned(), Arc::new(Known { route, until: now + time }));
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
    use crate::dns;
    use crate::smtp::MX_PORT;
    use crate::smtp::testing::web_server;

    const NOW: i64 = 0;

    fn hosts(routes: &Routes, domain: &str, now: i64) -> Result<Vec<(String, TlsPolicy)>, String> {
        let stop = |stop: &Stop| match stop {
            Stop::Mx { host, tls } => (host.clone(), tls.clone()),
            Stop::Relay(_) | Stop::ForeignRelay(_) => panic!("a relay"),
        };
        match routes.known(domain, now).expect("looked up") {
            Ok(route) => Ok(route.stops.iter().map(stop).collect()),
            Err(Outcome::Later(reason)) => Err(reason),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn policy(mode: &str, mx: &str) -> String {
        format!("version: STSv1\nmode: {mode}\nmx: {mx}\nmax_age: 86400\n")
    }

    #[tokio::test]
    async fn a_policy_that_is_enforced_leaves_the_servers_that_it_names_and_they_prove_it() {
        let resolver = dns::tests::resolver().await;
        let both =
            |tls: TlsPolicy| Ok(vec![("mx2.a.example".to_owned(), tls.clone()), ("mx1.a.example".to_owned(), tls)]);
        for (text, expected) in [
            (policy("enforce", "mx2.a.example"), Ok(vec![("mx2.a.example".to_owned(), TlsPolicy::Enforced)])),
            (policy("enforce", "*.a.example"), both(TlsPolicy::Enforced)),
            (policy("testing", "mx2.a.example"), both(TlsPolicy::Opportunistic)),
            (policy("none", "mx2.a.example"), both(TlsPolicy::Opportunistic)),
            ("nonsense".to_owned(), both(TlsPolicy::Opportunistic)),
        ] {
            let (http, _) = web_server("200 OK", "text/plain", &text).await;
            let routes = Routes::new(MX_PORT);
            routes.learn((&resolver, &http), "a.example", "us.example", NOW).await;
            assert_eq!(hosts(&routes, "a.example", NOW), expected, "{text}");
        }
        let (http, _) = web_server("200 OK", "text/plain", &policy("enforce", "mx.b.example")).await;
        let routes = Routes::new(MX_PORT);
        routes.learn((&resolver, &http), "a.example", "us.example", NOW).await;
        let reason = hosts(&routes, "a.example", NOW).expect_err("none of them");
        assert!(reason.contains("MTA-STS policy of a.example") && reason.contains("mx1.a.example"), "{reason}");
    }

    #[tokio::test]
    async fn a_policy_that_was_read_holds_while_it_cannot_be_read_and_no_longer_than_it_says() {
        let resolver = dns::tests::resolver().await;
        let (readable, log) = web_server("200 OK", "text/plain", &policy("enforce", "mx2.a.example")).await;
        let (broken, _) = web_server("500 Internal Server Error", "text/plain", "").await;
        let routes = Routes::new(MX_PORT);
        routes.learn((&resolver, &readable), "a.example", "us.example", NOW).await;
        let asked = log.lock().expect("the log").len();
        routes.learn((&resolver, &readable), "a.example", "us.example", NOW + MINUTE).await;
        assert_eq!(log.lock().expect("the log").len(), asked, "its id is the same");
        for (now, count) in [(60 * MINUTE, 1), (25 * 60 * MINUTE, 2)] {
            routes.learn((&resolver, &broken), "a.example", "us.example", now).await;
            assert_eq!(hosts(&routes, "a.example", now).map(|hosts| hosts.len()), Ok(count), "{now}");
        }
    }

    #[tokio::test]
    async fn a_look_up_that_is_dropped_can_be_begun_again() {
        let resolver = dns::tests::resolver().await;
        let (http, _) = web_server("200 OK", "text/plain", "").await;
        let routes = Routes::new(MX_PORT);
        assert!(routes.begin("silent.example") && !routes.begin("silent.example"));
        {
            let learning = routes.learn((&resolver, &http), "silent.example", "us.example", NOW);
            tokio::pin!(learning);
            assert!(futures_util::poll!(&mut learning).is_pending());
        }
        assert!(routes.begin("silent.example"));
    }

    #[test]
    fn who_needs_encryption_gets_it_from_relays_as_well() {
        let relay = |url: &str| -> Relay { url.parse().expect("a relay") };
        for (url, strict) in [
            ("smtp://relay.example?tls=none", Encryption::Required),
            ("smtp://relay.example?tls=opportunistic", Encryption::Required),
            ("smtps://relay.example", Encryption::Wrapped),
        ] {
            for stop in [Stop::Relay(relay(url)), Stop::ForeignRelay(relay(url))] {
                let (Stop::Relay(needing) | Stop::ForeignRelay(needing)) = stop.needing_tls() else { panic!("{url}") };
                assert_eq!(needing.encryption, strict, "{url}");
            }
        }
    }

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
