//! Questions to the domain name system, answered in words that mail needs. Names
//! are in A-labels, without a dot at the end, in lower case when they come back.

mod site;
#[cfg(test)]
pub(crate) mod tests;
mod validated;

pub use site::{NoSite, Site};
pub use validated::{Tlsa, TlsaRecord};

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as AnswerError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use validated::Validated;

/// What is not there is asked for again after this time at the latest: somebody
/// may just be setting it up.
const LONGEST_ABSENCE: Duration = Duration::from_secs(5 * 60);

/// What is there is asked for again after this time at the latest.
const LONGEST_PRESENCE: Duration = Duration::from_secs(24 * 3600);

/// How many answers are kept.
const MOST_KEPT: u64 = 4096;

/// Questions to one server that may wait for their answers at the same time.
const MOST_ASKED: usize = 512;

/// How long a server may take for an answer; it is asked again once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The name does not exist.
    #[error("there is no such name")]
    NoName,
    /// The name exists, and has nothing of the kind.
    #[error("there is no such record")]
    Missing,
    /// Nobody knows: it may be there, and is worth another question later.
    #[error("{0}")]
    Later(String),
}

/// A server that takes mail for a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Lower ones are tried first.
    pub preference: u16,
    /// Empty for one that says there is none (RFC 7505).
    pub host: String,
}

/// Asks the servers that it was given, or those of the system. Clones share what
/// they have learnt.
#[derive(Clone)]
pub struct Resolver {
    /// Why there is none: nobody then knows an answer, and others go on.
    resolver: Result<TokioResolver, String>,
    /// Where these servers are believed to have looked at signatures.
    validated: Option<Validated>,
}

impl Resolver {
    /// Keeps answers as long as they say. Without servers it asks the system's.
    pub fn new(servers: &[SocketAddr]) -> Resolver {
        Resolver::built(servers, MOST_KEPT, PATIENCE)
    }

    /// Asks anew every time: for somebody who wants to see what was just changed.
    pub fn uncached(servers: &[SocketAddr]) -> Resolver {
        Resolver::built(servers, 0, PATIENCE)
    }

    /// Asks those of whom it is believed that they have looked at signatures (DNSSEC), where
    /// there are any.
    pub fn of_mail(servers: &[SocketAddr], validating: &[SocketAddr]) -> anyhow::Result<Resolver> {
        match validating {
            [] => Ok(Resolver::new(servers)),
            validating => Resolver::validating(validating, MOST_KEPT, PATIENCE),
        }
    }

    fn validating(servers: &[SocketAddr], kept: u64, patience: Duration) -> anyhow::Result<Resolver> {
        let validated = Some(Validated::new(servers, patience)?);
        Ok(Resolver { validated, ..Resolver::built(servers, kept, patience) })
    }

    fn built(servers: &[SocketAddr], kept: u64, patience: Duration) -> Resolver {
        let resolver = set_up(servers, kept, patience).map_err(|error| {
            tracing::warn!(%error, "names cannot be looked up: name servers by --dns-server");
            format!("names cannot be looked up here: {error}")
        });
        Resolver { resolver, validated: None }
    }

    /// Where mail for a domain goes, `own` being what we call ourselves.
    pub async fn site(&self, domain: &str, own: &str) -> Result<Site, NoSite> {
        let found = match &self.validated {
            Some(validated) => validated.mx(domain).await,
            None => self.mx(domain).await.map(|exchanges| (exchanges, false)),
        };
        match found {
            Ok((exchanges, is_secure)) => site::choose(domain, exchanges, own).map(|site| Site { is_secure, ..site }),
            // Without any, the domain itself is asked (RFC 5321, 5.1).
            Err(DnsError::Missing) => match self.addresses(domain).await {
                Ok(_) => Ok(Site::of(domain)),
                Err(DnsError::NoName | DnsError::Missing) => {
                    Err(NoSite::never("5.1.2", format!("{domain} has no mail server: neither MX nor A nor AAAA")))
                }
                Err(DnsError::Later(reason)) => Err(site::later(domain, &reason)),
            },
            Err(DnsError::NoName) => Err(NoSite::never("5.1.2", format!("the domain {domain} does not exist"))),
            Err(DnsError::Later(reason)) => Err(site::later(domain, &reason)),
        }
    }

    /// Whether an answer of which everybody knows that it is signed is said to be valid: of the root.
    pub async fn is_validating(&self) -> Result<bool, DnsError> {
        match &self.validated {
            Some(validated) => validated.is_validating().await,
            None => Ok(false),
        }
    }

    pub async fn mx(&self, name: &str) -> Result<Vec<Exchange>, DnsError> {
        self.records(name, RecordType::MX, exchange).await
    }

    /// What DNSSEC says of the certificate of a host's server at a port; `None` where it says
    /// nothing, or nobody was asked to look at signatures.
    pub async fn tlsa(&self, host: &str, port: u16) -> Result<Option<Tlsa>, DnsError> {
        match &self.validated {
            Some(validated) => validated.tlsa(host, port).await,
            None => Ok(None),
        }
    }

    /// The texts of a name, each put together from its strings.
    pub async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        self.records(name, RecordType::TXT, |data| match data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        })
        .await
    }

    /// What a name is another name for.
    pub async fn cname(&self, name: &str) -> Result<Vec<String>, DnsError> {
        self.records(name, RecordType::CNAME, |data| match data {
            RData::CNAME(cname) => Some(text(cname)),
            _ => None,
        })
        .await
    }

    /// The addresses of a host, those of IPv4 first: more senders have a name for
    /// theirs, which many servers ask for.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, DnsError> {
        let address = |data: &RData| data.ip_addr();
        let (v4, v6) =
            tokio::join!(self.records(name, RecordType::A, address), self.records(name, RecordType::AAAA, address));
        match (v4, v6) {
            (Ok(v4), v6) => Ok(v4.into_iter().chain(v6.unwrap_or_default()).collect()),
            (Err(_), Ok(v6)) => Ok(v6),
            // One that is not known may be there.
            (Err(_), Err(later @ DnsError::Later(_))) => Err(later),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// The names of an address.
    pub async fn ptr(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        self.found(Name::from(address), RecordType::PTR, |data| match data {
            RData::PTR(ptr) => Some(text(ptr)),
            _ => None,
        })
        .await
    }

    async fn records<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, DnsError> {
        let name = Name::from_ascii(name).map_err(|_| DnsError::NoName)?;
        self.found(name, kind, read).await
    }

    async fn found<T>(
        &self,
        mut name: Name,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, DnsError> {
        // A name is what it is: the system's search list is for people.
        name.set_fqdn(true);
        let resolver = self.resolver.as_ref().map_err(|reason| DnsError::Later(reason.clone()))?;
        let answer = resolver.lookup(name, kind).await.map_err(|error| why(&error))?;
        let found: Vec<T> = answer.answers().iter().filter_map(|record| read(&record.data)).collect();
        if found.is_empty() { Err(DnsError::Missing) } else { Ok(found) }
    }
}

fn set_up(servers: &[SocketAddr], kept: u64, patience: Duration) -> anyhow::Result<TokioResolver> {
    let mut builder = match servers {
        [] => TokioResolver::builder_tokio()?,
        servers => {
            let servers = servers.iter().map(server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    adjust(builder.options_mut(), kept, patience);
    Ok(builder.build()?)
}

fn adjust(options: &mut ResolverOpts, kept: u64, patience: Duration) {
    options.timeout = patience;
    options.attempts = 1;
    options.cache_size = kept;
    options.negative_max_ttl = Some(LONGEST_ABSENCE);
    options.positive_max_ttl = Some(LONGEST_PRESENCE);
    options.max_active_requests = MOST_ASKED;
    options.use_hosts_file = ResolveHosts::Never;
    options.try_tcp_on_error = true;
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let mut config = NameServerConfig::new(address.ip(), true, vec![ConnectionConfig::udp(), ConnectionConfig::tcp()]);
    for connection in &mut config.connections {
        connection.port = address.port();
    }
    config
}

fn exchange(data: &RData) -> Option<Exchange> {
    match data {
        RData::MX(mx) => Some(Exchange { preference: mx.preference, host: text(&mx.exchange) }),
        _ => None,
    }
}

fn text(name: &Name) -> String {
    let mut text = name.to_lowercase().to_ascii();
    text.truncate(text.trim_end_matches('.').len());
    text
}

fn why(error: &NetError) -> DnsError {
    match error {
        NetError::Dns(AnswerError::NoRecordsFound(NoRecords { response_code, .. })) => match response_code {
            ResponseCode::NXDomain => DnsError::NoName,
            _ => DnsError::Missing,
        },
        NetError::Timeout => DnsError::Later("no name server answered in time".into()),
        NetError::Dns(AnswerError::ResponseCode(code)) => DnsError::Later(format!("the name server says: {code}")),
        error => DnsError::Later(error.to_string()),
    }
}
