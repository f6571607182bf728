//! How the relay that takes outgoing mail is spoken to.

use std::time::Duration;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, Tokio1Executor};

use crate::config::{Encryption, Relay};

/// How long one command may take.
const COMMAND: Duration = Duration::from_secs(10);

pub type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// What sends through this relay, calling itself `name`.
pub fn transport(relay: &Relay, name: &str) -> anyhow::Result<Transport> {
    let parameters = || TlsParameters::new(relay.host.clone());
    let tls = match relay.encryption {
        Encryption::Wrapped => Tls::Wrapper(parameters()?),
        Encryption::Required => Tls::Required(parameters()?),
        Encryption::Opportunistic => Tls::Opportunistic(parameters()?),
        Encryption::None => Tls::None,
    };
    let mut transport = Transport::builder_dangerous(&relay.host)
        .port(relay.port)
        .tls(tls)
        .timeout(Some(COMMAND))
        .hello_name(ClientId::Domain(name.to_owned()));
    if let Some((user, password)) = &relay.credentials {
        transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
    }
    Ok(transport.build())
}
