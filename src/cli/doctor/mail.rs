//! Whether mail gets out, and whether others believe where it comes from.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::mail_servers::Probe;
use super::report::{Problem, Report};
use super::{Finding, certificate};
use crate::app::Addresses;
use crate::config::{Config, TransportKind};
use crate::db::{DbError, Inspection};
use crate::dns::{DnsError, Resolver};
use crate::domains::{self, Flaw, Inspected};
use crate::seal::Seal;
use crate::smtp::Hop;
use crate::{http_client, serve};

pub const CHECK_DNS: &str =
    "check that the name servers answer, or name others with --dns-server (POSTHORN_DNS_SERVER)";

pub async fn examine(config: &Config, inspection: Option<&Inspection>, reach: &str, report: &mut Report) {
    let Ok(addresses) = serve::addresses(config, config.listen) else { return };
    let (transport, helo) = (config.transport(), addresses.helo(config).to_owned());
    report.add("mail", Ok(way(transport).into()));
    if let Some(found) = certificate::examine(config, &addresses, &helo) {
        report.add("certificate", found);
    }
    // What keeps it from being made is a setting, which was told of.
    let Ok(probe) = Probe::new(config, &helo) else { return };
    match transport {
        TransportKind::Capture => {}
        TransportKind::Relay => {
            for relay in &config.smtp_url {
                report.add(format!("relay {}", relay.host), probe.relay(&Hop::Relay(relay)).await);
            }
        }
        TransportKind::Direct => {
            report.add("port 25", probe.reach(reach).await);
            report.add("server name", server_name(&helo, config.mail.private_mx, &probe.resolver).await);
            if !config.mail.dane.is_empty() {
                report.add("dane", dane(&config.mail.dane, &probe.resolver).await);
            }
        }
    }
    if transport != TransportKind::Capture {
        report.add("links", links(&addresses));
    }
    if let Some(inspection) = inspection {
        match inspected(inspection, config, &addresses).await {
            Ok(found) => tell_of_domains(&found, &probe, report).await,
            Err(error) => report.add("domains", super::store::or_unread(Err(error))),
        }
    }
}

fn way(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::Capture => "it is captured; nothing leaves this machine",
        TransportKind::Relay => "it is handed to the relays of --smtp-url",
        TransportKind::Direct => "it is taken to the servers of its recipients",
    }
}

/// Whether this server's name leads to the address that mail leaves from, and that back to the name.
async fn server_name(helo: &str, is_private: bool, resolver: &Resolver) -> Finding {
    if !helo.contains('.') {
        return Err(Problem::failure(
            format!("this server calls itself `{helo}`, which nobody else can look up"),
            "set --helo (POSTHORN_HELO) to a name of its own, such as mail.example.com",
        ));
    }
    let addresses = match resolver.addresses(helo).await {
        Ok(found) => found,
        Err(DnsError::Later(reason)) => {
            return Err(Problem::warning(format!("{helo} could not be looked up: {reason}"), CHECK_DNS));
        }
        Err(_) => {
            let next = format!("add an A record for {helo} with the address that mail leaves from");
            return Err(Problem::failure(format!("{helo}, as this server calls itself, has no address"), next));
        }
    };
    // Behind a translation of addresses, nobody here knows the one that others see; and within a
    // network of one's own, mail leaves from another.
    let own = own_address().filter(|own| http_client::is_public(*own) && !is_private);
    if let Some(own) = own.filter(|own| !addresses.contains(own)) {
        let come = format!("mail leaves from {own}, and {helo} leads to {}", listed(&addresses));
        return Err(Problem::failure(come, format!("add an A record for {helo} with {own}")));
    }
    for address in &addresses {
        leads_back(*address, helo, resolver).await?;
    }
    Ok(format!("{helo} leads to {}, and that leads back", listed(&addresses)).into())
}

/// Whether the name servers of --dane look at signatures, and nobody can change what they say of them.
async fn dane(servers: &[SocketAddr], resolver: &Resolver) -> Finding {
    let listed = servers.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    match resolver.is_validating().await {
        Ok(true) => {}
        Ok(false) => {
            return Err(Problem::failure(
                format!("{listed} does not validate (DNSSEC), so DANE is never applied"),
                "name one that does with --dane (POSTHORN_DANE), such as Unbound on this machine, or leave --dane out",
            ));
        }
        Err(error) => {
            let next = "check that the name servers of --dane (POSTHORN_DANE) answer: mail waits while they do not";
            return Err(Problem::failure(format!("{listed} cannot be asked: {error}"), next));
        }
    }
    match servers.iter().find(|server| !server.ip().is_loopback()) {
        Some(server) => Err(Problem::warning(
            format!("{server} validates (DNSSEC), and others may change its answers on the way to this machine"),
            "run a validating resolver such as Unbound on this machine, and name that with --dane (POSTHORN_DANE)",
        )),
        None => Ok(format!("{listed} validates: certificates that DNSSEC names are held to").into()),
    }
}

async fn leads_back(address: IpAddr, helo: &str, resolver: &Resolver) -> Result<(), Problem> {
    let come = match resolver.ptr(address).await {
        Ok(names) if names.iter().any(|name| name == helo) => return Ok(()),
        Ok(names) => format!("{address} leads back to {}, not to {helo}", names.join(", ")),
        Err(DnsError::Later(reason)) => {
            return Err(Problem::warning(format!("{address} could not be looked up: {reason}"), CHECK_DNS));
        }
        Err(_) => format!("{address} leads back to no name (PTR), and large receivers refuse such mail"),
    };
    let next = format!("have whoever runs the network set the reverse DNS (PTR) of {address} to {helo}");
    Err(Problem::failure(come, next))
}

/// The address from which this machine calls others. Nothing is sent to find out.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address that is kept for documentation.
    socket.connect("198.51.100.1:25").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

fn links(addresses: &Addresses) -> Finding {
    let base = addresses.base.as_str();
    match addresses.base.is_https() {
        true => Ok(format!("links in mail lead to {base}").into()),
        false => Err(Problem::warning(
            format!(
                "links in mail lead to {base}, which is not encrypted; unsubscribing with one click needs https://"
            ),
            "put a proxy with a certificate in front, and set --base-url (POSTHORN_BASE_URL) to its https:// address",
        )),
    }
}

async fn inspected(inspection: &Inspection, config: &Config, addresses: &Addresses) -> Result<Vec<Inspected>, DbError> {
    // Keys that cannot be opened are told of elsewhere.
    let seal = Seal::existing(config).unwrap_or_default();
    domains::inspect(inspection, config, addresses, &seal).await
}

async fn tell_of_domains(domains: &[Inspected], probe: &Probe, report: &mut Report) {
    for domain in domains {
        report.add(format!("domain {}", domain.name), published(domain));
        for relay in &domain.relays {
            let name = format!("relay {} of {}", relay.host, domain.name);
            report.add(name, probe.relay(&Hop::ForeignRelay(relay)).await);
        }
    }
}

/// Whether a domain's records are really there; of several that are not, the first that matters.
fn published(domain: &Inspected) -> Finding {
    match domain.flaws.first() {
        None => Ok("every record is published".into()),
        Some(Flaw { problem, is_unanswered: true, .. }) => Err(Problem::warning(problem.clone(), CHECK_DNS)),
        Some(Flaw { problem, advice, is_needed, .. }) => {
            let is_failure = *is_needed && domain.is_sending;
            let problem_of = if is_failure { Problem::failure } else { Problem::warning };
            Err(problem_of(problem.clone(), advice.clone()))
        }
    }
}
