//! What DNSSEC says of the certificates of a domain's mail servers (DANE, RFC 7672).

use std::sync::Arc;

use futures_util::future::join_all;

use crate::dns::{DnsError, Resolver, Site, Tlsa};
use crate::smtp::{Dane, TlsPolicy};

/// A mail server, and what is asked of it: `None` where DNSSEC says nothing of it, an error where
/// nobody knows what it says. Such a server is not used: an attacker would see to it (RFC 7672, 2.1.2).
pub type Certified = (String, Result<Option<TlsPolicy>, String>);

/// The servers of a domain at a port. Where it is not certain that they are its servers, it means
/// nothing what their certificates are.
pub async fn certified(resolver: &Resolver, domain: &str, site: &Site, port: u16) -> Vec<Certified> {
    join_all(site.hosts.iter().map(async |host| {
        let found = if site.is_secure { resolver.tlsa(host, port).await } else { Ok(None) };
        (host.clone(), asked(domain, host, found))
    }))
    .await
}

fn asked(domain: &str, host: &str, found: Result<Option<Tlsa>, DnsError>) -> Result<Option<TlsPolicy>, String> {
    match found {
        Ok(None) => Ok(None),
        Ok(Some(Tlsa { base, records })) => {
            let dane = Dane::new(vec![base, domain.to_owned()], records);
            // Who has records has TLS, even where nothing can be made of them.
            Ok(Some(dane.map_or(TlsPolicy::Encrypted, |dane| TlsPolicy::Dane(Arc::new(dane)))))
        }
        Err(error) => Err(format!("what DNSSEC says of the certificate of {host} (TLSA) cannot be looked up: {error}")),
    }
}
