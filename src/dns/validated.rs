//! Answers that a validating name server vouches for (DNSSEC), and what they say of the
//! certificates of mail servers (DANE, RFC 7672).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use hickory_resolver::config::ResolverOpts;
use hickory_resolver::net::DnsHandle;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::{DnsRequestOptions, Query};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};

use super::{DnsError, Exchange, adjust, exchange, server, text, why};

/// How many records of one server are looked at.
const MOST_RECORDS: usize = 32;

/// What a certificate has to match, as it stands in DNS (RFC 6698, 2.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsaRecord {
    pub usage: u8,
    pub selector: u8,
    pub matching: u8,
    pub data: Vec<u8>,
}

/// The records of one mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tlsa {
    /// The name that they stand at, without port and protocol.
    pub base: String,
    pub records: Vec<TlsaRecord>,
}

/// An answer, and whether all of it was validated.
struct Answer {
    records: Vec<Record>,
    is_secure: bool,
}

/// Name servers whose word on signatures is taken. Nothing is kept here: they keep it themselves.
#[derive(Clone)]
pub(super) struct Validated(NameServerPool<TokioRuntimeProvider>);

impl Validated {
    pub(super) fn new(servers: &[SocketAddr], patience: Duration) -> anyhow::Result<Validated> {
        let mut options = ResolverOpts::default();
        adjust(&mut options, 0, patience);
        let context = PoolContext::new(options, TlsConfig::new()?);
        let servers = servers.iter().map(server);
        Ok(Validated(NameServerPool::from_config(servers, Arc::new(context), TokioRuntimeProvider::default())))
    }

    pub(super) async fn is_validating(&self) -> Result<bool, DnsError> {
        self.ask(".", RecordType::DNSKEY).await.map(|answer| answer.is_secure)
    }

    /// The servers of a domain, and whether that was validated.
    pub(super) async fn mx(&self, domain: &str) -> Result<(Vec<Exchange>, bool), DnsError> {
        let answer = self.ask(domain, RecordType::MX).await?;
        Ok((answer.records.iter().filter_map(|record| exchange(&record.data)).collect(), answer.is_secure))
    }

    /// Where a host's own addresses are not validated, nobody looks for more: name servers that
    /// cannot answer such questions are among those that do not sign.
    pub(super) async fn tlsa(&self, host: &str, port: u16) -> Result<Option<Tlsa>, DnsError> {
        let Some(canonical) = self.secure_name(host).await? else { return Ok(None) };
        let other = (canonical != host).then(|| host.to_owned());
        for base in [canonical].into_iter().chain(other) {
            match self.ask(&format!("_{port}._tcp.{base}"), RecordType::TLSA).await {
                Ok(answer) if answer.is_secure => {
                    let records = answer.records.iter().filter_map(tlsa).take(MOST_RECORDS).collect();
                    return Ok(Some(Tlsa { base, records }));
                }
                Ok(_) | Err(DnsError::NoName | DnsError::Missing) => {}
                Err(later) => return Err(later),
            }
        }
        Ok(None)
    }

    /// What a host is really called, if its addresses are validated.
    async fn secure_name(&self, host: &str) -> Result<Option<String>, DnsError> {
        for kind in [RecordType::A, RecordType::AAAA] {
            match self.ask(host, kind).await {
                Ok(Answer { records, is_secure }) => {
                    let name = records.last().map(|record| text(&record.name));
                    return Ok(name.filter(|_| is_secure));
                }
                Err(DnsError::NoName | DnsError::Missing) => {}
                Err(later) => return Err(later),
            }
        }
        Ok(None)
    }

    /// The records of a kind, at the end of aliases.
    async fn ask(&self, name: &str, kind: RecordType) -> Result<Answer, DnsError> {
        let mut name = Name::from_ascii(name).map_err(|_| DnsError::NoName)?;
        name.set_fqdn(true);
        let mut options = DnsRequestOptions::default();
        // Who asks for signatures is told whether they are valid.
        options.edns_set_dnssec_ok = true;
        let mut answers = self.0.lookup(Query::query(name, kind), options);
        let answer = answers.next().await.ok_or_else(|| DnsError::Later("no name server answered".into()))?;
        let message = answer.map_err(|error| why(&error))?.into_message();
        let is_secure = message.metadata.authentic_data;
        let is_asked = |record: &Record| record.record_type() == kind;
        let records: Vec<Record> = message.answers.into_iter().filter(is_asked).collect();
        if records.is_empty() { Err(DnsError::Missing) } else { Ok(Answer { records, is_secure }) }
    }
}

fn tlsa(record: &Record) -> Option<TlsaRecord> {
    match &record.data {
        RData::TLSA(tlsa) => Some(TlsaRecord {
            usage: tlsa.cert_usage.into(),
            selector: tlsa.selector.into(),
            matching: tlsa.matching.into(),
            data: tlsa.cert_data.clone(),
        }),
        _ => None,
    }
}
