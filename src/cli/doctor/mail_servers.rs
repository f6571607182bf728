//! Calls to mail servers, as delivery makes them, but without a message and with little patience.

use std::time::Duration;

use super::Finding;
use super::report::Problem;
use crate::config::Config;
use crate::dns::{NoSite, Resolver};
use crate::smtp::{Client, Failure, Hop, Phase, Settings, Timeouts, TlsPolicy};

/// Until a connection stands, and then for each answer.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How many of a domain's servers are called.
const MOST_SERVERS: usize = 2;

pub struct Probe {
    client: Client,
    pub resolver: Resolver,
    helo: String,
    port: u16,
}

impl Probe {
    pub fn new(config: &Config, helo: &str) -> anyhow::Result<Probe> {
        let mail = &config.mail;
        let resolver = Resolver::of_mail(&mail.dns_server, &mail.dane)?;
        let timeouts =
            Timeouts { connect: CONNECTS_WITHIN, banner: ANSWERS_WITHIN, hello: ANSWERS_WITHIN, ..Timeouts::default() };
        let settings = Settings {
            timeouts: timeouts.scaled(mail.smtp_timeout_factor),
            private_addresses: mail.private_mx,
            mx_port: mail.mx_port,
            ..Settings::new(helo, mail.smtp_ca.as_deref())?
        };
        let client = Client::new(settings, resolver.clone());
        Ok(Probe { client, resolver, helo: helo.to_owned(), port: mail.mx_port })
    }

    /// Whether a relay can be reached, encrypts as it should and lets us in.
    pub async fn relay(&self, hop: &Hop<'_>) -> Finding {
        let is_logged_in = matches!(hop, Hop::Relay(relay) | Hop::ForeignRelay(relay) if relay.credentials.is_some());
        match self.call(hop).await {
            Ok(is_secured) => {
                let clear = if is_secured { "encrypted" } else { "in clear" };
                let login = if is_logged_in { ", and the log-in works" } else { "" };
                Ok(format!("it answers, {clear}{login}").into())
            }
            Err(failure) => Err(Problem::failure(failure.reason, relay_remedy(failure.at))),
        }
    }

    /// Whether the mail servers of a domain can be reached.
    pub async fn reach(&self, domain: &str) -> Finding {
        let site = match self.resolver.site(domain, &self.helo).await {
            Ok(site) => site,
            Err(NoSite::Later(reason)) => return Err(Problem::warning(reason, super::mail::CHECK_DNS)),
            Err(NoSite::Never { reason, .. }) => {
                return Err(Problem::warning(reason, "name another domain with --reach"));
            }
        };
        let mut reason = format!("{domain} has no mail server");
        for host in site.hosts.iter().take(MOST_SERVERS) {
            match self.call(&Hop::Mx { host, tls: &TlsPolicy::Opportunistic }).await {
                Ok(_) => return Ok(format!("{host}, a mail server of {domain}, answers").into()),
                // It has spoken: the way is open, whatever it thinks of us.
                Err(Failure { at, .. }) if at > Phase::Banner => {
                    return Ok(format!("{host}, a mail server of {domain}, answers").into());
                }
                Err(failure) => reason = failure.reason,
            }
        }
        let port = self.port;
        Err(Problem::failure(
            reason,
            format!(
                "ask your provider to open outbound port {port}, which many keep closed, or send by a relay: \
                 --smtp-url (POSTHORN_SMTP_URL)"
            ),
        ))
    }

    /// Connects and takes leave; tells whether that was encrypted.
    async fn call(&self, hop: &Hop<'_>) -> Result<bool, Failure> {
        let connection = self.client.connect(hop).await?;
        let is_secured = connection.is_secured();
        connection.quit().await;
        Ok(is_secured)
    }
}

/// What to do where a relay fails at this.
fn relay_remedy(at: Phase) -> &'static str {
    match at {
        Phase::Connect => {
            "check the relay's host and port in its smtp:// address, and that a firewall lets this machine out"
        }
        Phase::StartTls => {
            "check the relay's certificate and its name, trust its authority with --smtp-ca (POSTHORN_SMTP_CA), or say \
             ?tls=… in its address as the relay has it"
        }
        Phase::Auth => "check the user and the password in the relay's address; special characters are percent-encoded",
        _ => "check that a mail server listens on this port: usually smtp:// on 587, or smtps:// on 465",
    }
}
