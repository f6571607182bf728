//! Questions to DNS.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};

/// DNS did not answer, or not with sense.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct DnsError(String);

/// Asks DNS servers. Clones share it.
#[derive(Clone)]
pub struct Resolver(TokioResolver);

impl Resolver {
    /// Remembers no answer. Without servers, those of the system are asked.
    pub fn uncached(servers: &[SocketAddr]) -> anyhow::Result<Resolver> {
        let mut builder = match servers {
            [] => TokioResolver::builder_tokio()?,
            servers => {
                let one = |server: &SocketAddr| {
                    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
                    connections.iter_mut().for_each(|connection| connection.port = server.port());
                    NameServerConfig::new(server.ip(), true, connections)
                };
                let config = ResolverConfig::from_parts(None, vec![], servers.iter().map(one).collect());
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        options.cache_size = 0;
        options.timeout = Duration::from_secs(3);
        options.attempts = 2;
        Ok(Resolver(builder.build()?))
    }

    pub async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        let text = |data: &RData| match data {
            RData::TXT(txt) => {
                let bytes: Vec<u8> = txt.txt_data.iter().flat_map(|piece| piece.iter().copied()).collect();
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            _ => None,
        };
        self.ask(name, RecordType::TXT, text).await
    }

    pub async fn mx(&self, name: &str) -> Result<Vec<(u16, String)>, DnsError> {
        let host = |data: &RData| match data {
            RData::MX(mx) => Some((mx.preference, mx.exchange.to_ascii())),
            _ => None,
        };
        self.ask(name, RecordType::MX, host).await
    }

    pub async fn cname(&self, name: &str) -> Result<Option<String>, DnsError> {
        let target = |data: &RData| match data {
            RData::CNAME(name) => Some(name.to_ascii()),
            _ => None,
        };
        Ok(self.ask(name, RecordType::CNAME, target).await?.into_iter().next())
    }

    async fn ask<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, DnsError> {
        match self.0.lookup(format!("{name}."), kind).await {
            Ok(found) => Ok(found.answers().iter().filter_map(|record| read(&record.data)).collect()),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(trouble(&error)),
        }
    }
}

fn trouble(error: &NetError) -> DnsError {
    DnsError(error.to_string())
}
