//! The settings of mail.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::text::words;

/// What mail is sent by, and what is kept of it.
#[derive(Args, Debug, Clone)]
pub struct MailSettings {
    /// How mail leaves; each domain may have another way [default: relay with --smtp-url, else capture]
    #[arg(long, global = true, env = "POSTHORN_TRANSPORT")]
    pub transport: Option<TransportKind>,

    /// Whom mail may come from where it is really sent
    #[arg(long, global = true, env = "POSTHORN_SENDERS", default_value = "verified")]
    pub senders: Senders,

    /// What to do with mail of which nobody knows whether it arrived [default: retry, and hold what went to many]
    #[arg(long, global = true, env = "POSTHORN_UNCERTAIN")]
    pub uncertain: Option<WhenUncertain>,

    /// When mail that a relay has taken counts as delivered
    #[arg(long, global = true, env = "POSTHORN_RELAY_DELIVERED", default_value = "auto")]
    pub relay_delivered: RelayDelivered,

    /// Days for which the contents of mail are kept; what happened to it is kept for good
    #[arg(long, global = true, env = "POSTHORN_MAIL_RETENTION", default_value = "30", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub mail_retention: u32,

    /// Name of this server in the dialogue with other mail servers, and in the records of domains
    /// [default: the host of <base-url>]
    #[arg(long, global = true, env = "POSTHORN_HELO", value_name = "NAME")]
    #[arg(value_parser = host_name)]
    pub helo: Option<String>,

    /// Terms by which SPF records of domains allow this server to send, such as include:relay.example
    /// [default: a:<host> of the relay, or of this server]
    #[arg(long, global = true, env = "POSTHORN_SPF", value_name = "TERMS")]
    #[arg(value_parser = spf_terms)]
    pub spf: Option<String>,

    /// DNS servers to ask, comma-separated [default: the system's]
    #[arg(long, global = true, env = "POSTHORN_DNS_SERVER", value_delimiter = ',', value_name = "ADDRESS[:PORT]")]
    #[arg(value_parser = dns_server)]
    pub dns_server: Vec<SocketAddr>,

    /// DNS servers that validate (DNSSEC) and whose word is taken for it, comma-separated: certificates of
    /// mail servers are then checked by DANE [default: none, and DANE is off]
    #[arg(long, global = true, env = "POSTHORN_DANE", value_delimiter = ',', value_name = "ADDRESS[:PORT]")]
    #[arg(value_parser = dns_server)]
    pub dane: Vec<SocketAddr>,

    /// Certificates that mail servers may have beside the public ones, a file in PEM
    #[arg(long, global = true, env = "POSTHORN_SMTP_CA", value_name = "FILE")]
    pub smtp_ca: Option<PathBuf>,

    /// Deliver to mail servers whose addresses are not on the public internet
    #[arg(long, global = true, env = "POSTHORN_PRIVATE_MX")]
    pub private_mx: bool,

    /// Port on which the mail servers of recipients are reached: another one is for tests
    #[arg(long, global = true, env = "POSTHORN_MX_PORT", default_value = "25", value_name = "PORT", hide = true)]
    pub mx_port: u16,

    /// What the time-outs of SMTP are multiplied by: less than 1 is for tests
    #[arg(long, global = true, env = "POSTHORN_SMTP_TIMEOUT_FACTOR", default_value = "1", value_name = "FACTOR")]
    #[arg(value_parser = timeout_factor)]
    pub smtp_timeout_factor: f64,
}

fn host_name(given: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    match !given.is_empty() && given.len() <= 253 && given.bytes().all(is_part) {
        true => Ok(given.to_ascii_lowercase()),
        false => Err("allowed is the name of a host, such as mail.example.com".into()),
    }
}

fn spf_terms(given: &str) -> Result<String, String> {
    let is_term = |term: &str| term.len() <= 200 && term.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    let is_whole = |term: &str| term.ends_with("all") || term.starts_with("v=");
    match given.split_whitespace().count() {
        1..=8 if given.split_whitespace().all(|term| is_term(term) && !is_whole(term)) => Ok(given.to_owned()),
        _ => {
            Err("allowed are one to eight terms of SPF without `v=spf1` and `all`, such as include:relay.example"
                .into())
        }
    }
}

fn dns_server(given: &str) -> Result<SocketAddr, String> {
    let address = given.parse().or_else(|_| given.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53)));
    address.map_err(|_| "allowed is an address, perhaps with a port, such as 127.0.0.1 or [::1]:53".into())
}

fn timeout_factor(given: &str) -> Result<f64, String> {
    let factor = given.parse().ok().filter(|factor| (0.000_1..=100.0).contains(factor));
    factor.ok_or_else(|| "allowed is a number between 0.0001 and 100".into())
}

words! {
    /// How mail leaves.
    #[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TransportKind: ALL, parse {
        /// It is kept and can be read here; nothing leaves the machine
        Capture = "capture",
        /// By the servers that --smtp-url names
        Relay = "relay",
        /// To the servers of its recipients
        Direct = "direct",
    }
}

/// Whom mail may come from.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    /// Addresses of domains that were verified
    Verified,
    /// Any address: the relay checks by itself
    Any,
}

words! {
    /// What is done with mail whose last words got no reply.
    #[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
    pub enum WhenUncertain {
        /// Send it again; it may then arrive twice
        Retry = "retry",
        /// Let it wait for a person's decision
        Hold = "hold",
    }
}

/// When mail that a relay has taken counts as delivered.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayDelivered {
    /// When the relay reports it, where it offers to (DSN) and reports come here; else at once
    Auto,
    /// When it is reported, by mail or by HTTP; until then it is sent
    Reported,
    /// At once
    AtOnce,
}

impl MailSettings {
    /// What is done with mail of which nobody knows whether it arrived: what goes to many had
    /// better be missed by one than reach him twice.
    pub fn when_uncertain(&self, is_bulk: bool) -> WhenUncertain {
        self.uncertain.unwrap_or(if is_bulk { WhenUncertain::Hold } else { WhenUncertain::Retry })
    }
}
