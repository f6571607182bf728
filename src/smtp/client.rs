//! From nothing to a connection on which messages can be sent: dialling, the
//! greeting, encryption, log-in.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::Connection;
use super::dane::{Dane, Verifier};
use super::extensions::Extensions;
use super::outcome::{Failure, Phase, Security};
use super::reply::Reply;
use super::stream::{HandshakeError, Stream};
use super::timeouts::Timeouts;
use crate::config::{Encryption, Relay};
use crate::dns::{DnsError, Resolver};
use crate::{http_client, tls};

/// How many of a host's addresses are tried.
const MOST_ADDRESSES: usize = 5;

/// The port on which mail servers take mail from each other.
pub const MX_PORT: u16 = 25;

/// How we appear, and what we put up with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What we call ourselves.
    pub helo: String,
    pub timeouts: Timeouts,
    /// Whose certificates are believed where they matter.
    pub roots: RootCertStore,
    /// Mail servers may have addresses that are not on the public internet.
    pub private_addresses: bool,
    pub mx_port: u16,
}

impl Settings {
    /// As the RFC and the public internet have it; `ca` is a PEM file with roots
    /// that are believed beside the public ones.
    pub fn new(helo: &str, ca: Option<&Path>) -> anyhow::Result<Settings> {
        let roots = ca.map_or_else(|| Ok(tls::public_roots()), tls::roots_with)?;
        let timeouts = Timeouts::default();
        Ok(Settings { helo: helo.to_owned(), timeouts, roots, private_addresses: false, mx_port: MX_PORT })
    }
}

/// How far a recipient's server is asked to encrypt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TlsPolicy {
    /// With a certificate that DNSSEC names, or nothing is sent.
    Dane(Arc<Dane>),
    /// With a certificate that is valid for the host, or nothing is sent.
    Enforced,
    /// Whatever the certificate, or nothing is sent.
    Encrypted,
    /// Where it is offered, whatever the certificate.
    Opportunistic,
    None,
}

/// Where the next connection goes.
#[derive(Debug, Clone, Copy)]
pub enum Hop<'a> {
    Relay(&'a Relay),
    /// One that somebody other than the operator has named: it must not lead into our network.
    ForeignRelay(&'a Relay),
    Mx {
        host: &'a str,
        tls: &'a TlsPolicy,
    },
}

/// Makes connections; clones share what they need for it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    resolver: Resolver,
    verifying: Arc<ClientConfig>,
    unverified: Arc<ClientConfig>,
}

/// What a hop asks of its connection.
struct Terms<'a> {
    host: &'a str,
    encryption: Encryption,
    proof: Proof<'a>,
    /// Whether a password may be said in clear.
    clear_login: bool,
    credentials: Option<&'a (String, String)>,
}

/// What makes a certificate the right one.
#[derive(Clone, Copy)]
enum Proof<'a> {
    None,
    /// Somebody who is believed vouches for it.
    Authority,
    Dane(&'a Arc<Dane>),
}

impl Proof<'_> {
    fn security(self) -> Security {
        match self {
            Proof::None => Security::Encrypted,
            Proof::Authority => Security::Verified,
            Proof::Dane(_) => Security::Dane,
        }
    }
}

impl<'a> Terms<'a> {
    fn of(hop: &Hop<'a>) -> Terms<'a> {
        match *hop {
            Hop::Relay(relay) | Hop::ForeignRelay(relay) => {
                let is_strict = matches!(relay.encryption, Encryption::Wrapped | Encryption::Required);
                let is_here = relay.is_this_machine();
                Terms {
                    host: &relay.host,
                    encryption: relay.encryption,
                    // A password is told to nobody who merely claims to be the relay.
                    proof: match is_strict || relay.credentials.is_some() && !is_here {
                        true => Proof::Authority,
                        false => Proof::None,
                    },
                    clear_login: is_here || relay.encryption == Encryption::None,
                    credentials: relay.credentials.as_ref(),
                }
            }
            Hop::Mx { host, tls } => {
                let (encryption, proof) = match tls {
                    TlsPolicy::Dane(dane) => (Encryption::Required, Proof::Dane(dane)),
                    TlsPolicy::Enforced => (Encryption::Required, Proof::Authority),
                    TlsPolicy::Encrypted => (Encryption::Required, Proof::None),
                    TlsPolicy::Opportunistic => (Encryption::Opportunistic, Proof::None),
                    TlsPolicy::None => (Encryption::None, Proof::None),
                };
                Terms { host, encryption, proof, clear_login: false, credentials: None }
            }
        }
    }
}

impl Client {
    pub fn new(settings: Settings, resolver: Resolver) -> Client {
        let verifying = Arc::new(tls::client_trusting(settings.roots.clone()));
        let unverified = Arc::new(tls::client_believing_anybody());
        Client { shared: Arc::new(Shared { settings, resolver, verifying, unverified }) }
    }

    /// A connection that waits for its first message.
    pub async fn connect(&self, hop: &Hop<'_>) -> Result<Connection, Failure> {
        let terms = Terms::of(hop);
        let addresses = match *hop {
            Hop::Relay(relay) => relay_addresses(relay).await?,
            Hop::ForeignRelay(relay) => self.allowed(&relay.host, relay_addresses(relay).await?)?,
            Hop::Mx { host, .. } => self.mx_addresses(host).await?,
        };
        let stream = Stream::new(self.dial(terms.host, &addresses).await?);
        self.converse(stream, &terms).await
    }

    /// Everything that is said before the first message.
    async fn converse(&self, mut stream: Stream, terms: &Terms<'_>) -> Result<Connection, Failure> {
        let timeouts = self.shared.settings.timeouts;
        let mut security = Security::Clear;
        if terms.encryption == Encryption::Wrapped {
            stream = self.encrypt(stream, terms).await?;
            security = terms.proof.security();
        }
        let banner = stream.reply(timeouts.banner).await.map_err(|lost| Failure::new(Phase::Banner, lost))?;
        positive(banner, Phase::Banner)?;
        let extensions = self.hello(&mut stream).await?;
        let mut connection = Connection::new(stream, extensions, terms.host, timeouts, security);
        if matches!(terms.encryption, Encryption::Required | Encryption::Opportunistic) {
            connection = self.start_tls(connection, terms).await?;
        }
        if let Some((user, password)) = terms.credentials {
            if !connection.is_secured() && !terms.clear_login {
                let reason = "the relay offers no encryption, and the password is not sent without; \
                              ?tls=none in its address allows it";
                return Err(Failure::new(Phase::Auth, reason));
            }
            self.log_in(&mut connection, user, password).await?;
        }
        Ok(connection)
    }

    async fn encrypt(&self, stream: Stream, terms: &Terms<'_>) -> Result<Stream, Failure> {
        let Shared { verifying, unverified, settings, .. } = &*self.shared;
        let tls = match terms.proof {
            Proof::None => unverified.clone(),
            Proof::Authority => verifying.clone(),
            Proof::Dane(dane) => Arc::new(tls::client_verified_by(Arc::new(Verifier::new(dane.clone())))),
        };
        let tls_failed = terms.encryption == Encryption::Opportunistic && matches!(terms.proof, Proof::None);
        let encrypted = stream.encrypt(tls, terms.host, settings.timeouts.hello).await;
        encrypted.map_err(|error: HandshakeError| Failure { tls_failed, ..Failure::new(Phase::StartTls, error) })
    }

    /// EHLO, or HELO with those who do not know it.
    async fn hello(&self, stream: &mut Stream) -> Result<Extensions, Failure> {
        let Settings { helo, timeouts, .. } = &self.shared.settings;
        let lost = |lost| Failure::new(Phase::Ehlo, lost);
        let mut extensions = Extensions::default();
        let mut is_greeting = true;
        stream.push(&["EHLO ", helo]);
        stream.flush(timeouts.hello).await.map_err(lost)?;
        let see = |line: &[u8]| {
            if !std::mem::take(&mut is_greeting) {
                extensions.line(line);
            }
        };
        let reply = stream.reply_lines(timeouts.hello, see).await.map_err(lost)?;
        if !reply.is_permanent() {
            return positive(reply, Phase::Ehlo).map(|()| extensions);
        }
        stream.push(&["HELO ", helo]);
        stream.flush(timeouts.hello).await.map_err(lost)?;
        let reply = stream.reply(timeouts.hello).await.map_err(lost)?;
        positive(reply, Phase::Ehlo).map(|()| Extensions::default())
    }

    /// STARTTLS as far as the terms ask for it, and EHLO once more behind it:
    /// what was offered in clear, anybody may have offered.
    async fn start_tls(&self, mut connection: Connection, terms: &Terms<'_>) -> Result<Connection, Failure> {
        let timeouts = self.shared.settings.timeouts;
        let is_required = terms.encryption == Encryption::Required;
        if !connection.extensions.starttls {
            let refusal = Failure::new(Phase::StartTls, "the server offers no encryption, and it is required");
            return if is_required { Err(refusal) } else { Ok(connection) };
        }
        let lost = |lost| Failure::new(Phase::StartTls, lost);
        let stream = &mut connection.stream;
        stream.push(&["STARTTLS"]);
        stream.flush(timeouts.hello).await.map_err(lost)?;
        let reply = stream.reply(timeouts.hello).await.map_err(lost)?;
        if reply.is_negative() && reply.code != 421 && !is_required {
            return Ok(connection);
        }
        positive(reply, Phase::StartTls)?;
        if stream.has_more() {
            let reason = "something was sent in clear behind the answer to STARTTLS, as only an attacker would";
            return Err(Failure::new(Phase::StartTls, reason));
        }
        let mut stream = self.encrypt(connection.stream, terms).await?;
        let extensions = self.hello(&mut stream).await?;
        Ok(Connection::new(stream, extensions, terms.host, timeouts, terms.proof.security()))
    }

    async fn log_in(&self, connection: &mut Connection, user: &str, password: &str) -> Result<(), Failure> {
        let Extensions { auth_plain, auth_login, .. } = connection.extensions;
        let limit = self.shared.settings.timeouts.hello;
        let (user64, password64) = (STANDARD.encode(user), STANDARD.encode(password));
        let plain = STANDARD.encode(format!("\0{user}\0{password}"));
        let steps: &[&[&str]] = match (auth_plain, auth_login) {
            (true, _) => &[&["AUTH PLAIN ", &plain]],
            (false, true) => &[&["AUTH LOGIN"], &[&user64], &[&password64]],
            (false, false) => {
                let reason = "the relay offers no log-in that is known here (PLAIN, LOGIN)";
                return Err(Failure::new(Phase::Auth, reason));
            }
        };
        let lost = |lost| Failure::new(Phase::Auth, lost);
        for (at, step) in steps.iter().enumerate() {
            connection.stream.push(step);
            connection.stream.flush(limit).await.map_err(lost)?;
            let reply = connection.stream.reply(limit).await.map_err(lost)?;
            let is_last = at + 1 == steps.len();
            if is_last {
                positive(reply, Phase::Auth)?;
            } else if reply.code != 334 {
                return Err(Failure::refused(Phase::Auth, reply));
            }
        }
        Ok(())
    }

    /// Where a mail server is, as far as it may be called.
    async fn mx_addresses(&self, host: &str) -> Result<Vec<SocketAddr>, Failure> {
        let mx_port = self.shared.settings.mx_port;
        let found = match self.shared.resolver.addresses(host).await {
            Ok(found) => found,
            Err(DnsError::NoName | DnsError::Missing) => {
                return Err(Failure::new(Phase::Connect, format!("{host} has no address")));
            }
            Err(error) => return Err(Failure::new(Phase::Connect, format!("{host} cannot be looked up: {error}"))),
        };
        self.allowed(host, found.into_iter().map(|address| SocketAddr::new(address, mx_port)).collect())
    }

    /// Those of a host's addresses that may be called.
    fn allowed(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Failure> {
        let private_addresses = self.shared.settings.private_addresses;
        let is_allowed = |address: &&SocketAddr| private_addresses || http_client::is_public(address.ip());
        let allowed: Vec<SocketAddr> = found.iter().filter(is_allowed).copied().collect();
        match found.first() {
            Some(address) if allowed.is_empty() => {
                let text = format!("{host} leads to {}, which is not on the public internet", address.ip());
                Err(Failure {
                    reason: text.clone(),
                    ..Failure::refused(Phase::Connect, Reply::local(550, [5, 4, 4], text))
                })
            }
            _ => Ok(allowed),
        }
    }

    /// Connects to the first of the addresses that answers.
    async fn dial(&self, host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
        let limit = self.shared.settings.timeouts.connect;
        let mut reason = format!("{host} has no address");
        for address in addresses.iter().take(MOST_ADDRESSES) {
            match timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Commands are short, and each waits for its answer.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => reason = format!("{host} ({address}) cannot be reached: {error}"),
                Err(_) => {
                    let seconds = limit.as_secs_f32();
                    reason = format!("{host} ({address}) cannot be reached: no answer within {seconds} seconds");
                }
            }
        }
        Err(Failure::new(Phase::Connect, reason))
    }
}

/// An operator chose the relay: it may be anywhere, and be known to this machine alone.
async fn relay_addresses(relay: &Relay) -> Result<Vec<SocketAddr>, Failure> {
    let found = tokio::net::lookup_host((relay.host.as_str(), relay.port)).await;
    let host = &relay.host;
    found
        .map(Iterator::collect)
        .map_err(|error| Failure::new(Phase::Connect, format!("{host} cannot be looked up: {error}")))
}

/// Goes on only with a server that agrees.
fn positive(reply: Reply, at: Phase) -> Result<(), Failure> {
    if reply.is_positive() { Ok(()) } else { Err(Failure::refused(at, reply)) }
}
