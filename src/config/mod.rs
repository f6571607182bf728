//! Every setting: its flag, its environment name, its default, its rules.

mod mail;
mod relay;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

pub use mail::{MailSettings, Senders, TransportKind, WhenUncertain};
pub use relay::{Encryption, Relay};

use crate::db::{Location, Options};
use crate::mime::Mailbox;

/// The settings of a Posthorn process. All can be given as a flag or in the
/// environment; a flag wins.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Settings")]
pub struct Config {
    /// Address to listen on
    #[arg(long, global = true, env = "POSTHORN_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    #[arg(value_parser = listen)]
    pub listen: SocketAddr,

    /// Address under which clients reach the API [default: http://<listen>]
    #[arg(long, global = true, env = "POSTHORN_BASE_URL", value_name = "URL")]
    pub base_url: Option<PublicUrl>,

    /// Address under which browsers reach the dashboard [default: <base-url>/dashboard]
    #[arg(long, global = true, env = "POSTHORN_DASHBOARD_URL", value_name = "URL")]
    pub dashboard_url: Option<PublicUrl>,

    /// Folder of the embedded store
    #[arg(long, global = true, env = "POSTHORN_DATA_DIR", default_value = "./data", value_name = "FOLDER")]
    pub data_dir: PathBuf,

    /// Store: postgres://user:password@host/name, or sqlite:<file> [default: an SQLite file in <data-dir>]
    #[arg(
        long,
        global = true,
        env = "POSTHORN_DATABASE_URL",
        hide_env_values = true,
        allow_hyphen_values = true,
        value_name = "URL"
    )]
    #[arg(value_parser = database_url)]
    pub database_url: Option<Location>,

    /// Folder for large bodies while they are worked on, in files without a name [default: the store's folder with
    /// SQLite, else the system's temporary folder]
    #[arg(long, global = true, env = "POSTHORN_SPOOL_DIR", value_name = "FOLDER")]
    pub spool_dir: Option<PathBuf>,

    /// Seals the secrets in the store, so that a copy of it cannot sign tokens; the same for all processes
    /// on one store, at least 32 characters [default: a key file beside the SQLite store]
    #[arg(
        long,
        global = true,
        env = "POSTHORN_SECRET",
        hide_env_values = true,
        allow_hyphen_values = true,
        value_name = "TEXT"
    )]
    #[arg(value_parser = operators_secret)]
    pub secret: Option<String>,

    /// Relays for outgoing mail, smtp://user:password@host:port, comma-separated in the order in which they are
    /// tried; unset, mail is captured and never leaves
    #[arg(
        long,
        global = true,
        env = "POSTHORN_SMTP_URL",
        hide_env_values = true,
        allow_hyphen_values = true,
        value_delimiter = ',',
        value_name = "URL"
    )]
    pub smtp_url: Vec<Relay>,

    /// Sender of the product's own mail [default: posthorn@<host of base-url>, or @localhost where that is a bare address]
    #[arg(long, global = true, env = "POSTHORN_MAIL_FROM", value_name = "ADDRESS")]
    #[arg(value_parser = mail_from)]
    pub mail_from: Option<Mailbox>,

    #[command(flatten)]
    pub mail: MailSettings,

    /// Let webhook steps call addresses that are not on the public internet
    #[arg(long, global = true, env = "POSTHORN_PRIVATE_WEBHOOKS")]
    pub private_webhooks: bool,

    /// Runs of one automation with webhook steps that one contact may start in a minute; more is a loop. 0 = any number
    #[arg(long, global = true, env = "POSTHORN_CONTACT_RUN_LIMIT", default_value_t = 1000, value_name = "RUNS")]
    pub contact_run_limit: u32,

    /// What this process does
    #[arg(long, global = true, env = "POSTHORN_ROLE", default_value = "api,worker", value_delimiter = ',')]
    pub role: Vec<Role>,

    /// Who may register OAuth clients over HTTP
    #[arg(long, global = true, env = "POSTHORN_REGISTRATION", default_value = "open")]
    pub registration: Registration,

    /// Token that registration asks for when it is `token`
    #[arg(
        long,
        global = true,
        env = "POSTHORN_REGISTRATION_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true,
        value_name = "TOKEN"
    )]
    pub registration_token: Option<String>,

    /// Add the RFC 9207 parameter `iss` to authorization responses
    #[arg(long, global = true, env = "POSTHORN_OAUTH_ISS", default_value_t = false)]
    #[arg(action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub oauth_iss: bool,

    /// Accept an https address as client_id, and fetch the metadata document that stands there
    #[arg(long, global = true, env = "POSTHORN_CLIENT_ID_DOCUMENTS", default_value_t = false)]
    #[arg(action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub client_id_documents: bool,

    /// Days after which an app has to ask again, however often it was used; 0: never
    #[arg(long, global = true, env = "POSTHORN_REFRESH_MAX_DAYS", default_value = "0", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub refresh_max_days: u32,

    /// Seconds for which a refresh token that was just replaced still gives its successor; 0: never
    #[arg(long, global = true, env = "POSTHORN_REFRESH_GRACE", default_value = "60", value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub refresh_grace: u32,

    /// Authorization requests a minute that one address may start
    #[arg(long, global = true, env = "POSTHORN_AUTHORIZE_RATE", default_value = "600", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub authorize_rate: u32,

    /// Client registrations an hour that one address may make
    #[arg(long, global = true, env = "POSTHORN_REGISTER_RATE", default_value = "20", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub register_rate: u32,

    /// Apply rate limits to callers on this machine too
    #[arg(long, global = true, env = "POSTHORN_LIMIT_LOOPBACK", default_value_t = false)]
    #[arg(action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub limit_loopback: bool,

    /// Connections that may be open; above it, those that keep the server waiting longest are closed
    #[arg(long, global = true, env = "POSTHORN_MAX_CONNECTIONS", default_value = "10000", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,

    /// Connections that one address (of IPv6, one /64) may have open; proxies that are trusted may have any number
    #[arg(
        long,
        global = true,
        env = "POSTHORN_MAX_CONNECTIONS_PER_ADDRESS",
        default_value = "256",
        value_name = "COUNT"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections_per_address: u32,

    /// MiB that open connections may hold with what they receive and send; above it, the slowest are closed
    #[arg(long, global = true, env = "POSTHORN_CONNECTION_MEMORY", default_value = "80", value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connection_memory: u32,

    /// Proxies whose X-Forwarded-For is believed: addresses or networks, comma-separated
    #[arg(long, global = true, env = "POSTHORN_TRUSTED_PROXIES", value_delimiter = ',', value_name = "NETWORK")]
    pub trusted_proxies: Vec<Network>,

    /// Writes that may wait for a commit before callers get 503
    #[arg(long, global = true, env = "POSTHORN_WRITE_QUEUE", default_value = "8192", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub write_queue: u32,

    /// When SQLite flushes: `full` at every commit; `normal` may lose the last commits in a power cut
    #[arg(long, global = true, env = "POSTHORN_SQLITE_SYNC", default_value = "full")]
    pub sqlite_sync: SqliteSync,

    /// MiB that SQLite's log may grow to while another process reads; beyond, writes get 503
    #[arg(long, global = true, env = "POSTHORN_SQLITE_LOG_LIMIT", default_value = "4096", value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sqlite_log_limit: u32,

    /// Connections that read from the store
    #[arg(long, global = true, env = "POSTHORN_READERS", default_value = "4", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub readers: u16,

    /// PostgreSQL connections that commit side by side
    #[arg(long, global = true, env = "POSTHORN_WRITERS", default_value = "4", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub writers: u16,

    /// Seconds that a stopping server gives to requests in flight
    #[arg(long, global = true, env = "POSTHORN_DRAIN_SECONDS", default_value = "8", value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub drain_seconds: u64,

    /// What to log: error, warn, info, debug, or a filter like `info,posthorn::db=debug`
    #[arg(long, global = true, env = "POSTHORN_LOG", default_value = "info", value_name = "FILTER")]
    #[arg(value_parser = log_filter)]
    pub log: String,

    /// How a log line looks
    #[arg(long, global = true, env = "POSTHORN_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Answer HTTP
    Api,
    /// Do the work that waits in the store
    Worker,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Anybody, at the rate that --register-rate allows
    Open,
    /// Whoever shows --registration-token
    Token,
    /// Nobody; clients are created by command
    Off,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteSync {
    Full,
    Normal,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// How to open the store these settings name.
    pub fn store(&self) -> Options {
        let embedded = || Location::Sqlite(self.data_dir.join("posthorn.db"));
        Options {
            queue: self.write_queue as usize,
            full_sync: self.sqlite_sync == SqliteSync::Full,
            log_limit: u64::from(self.sqlite_log_limit) << 20,
            readers: self.readers.into(),
            writers: self.writers.into(),
            ..Options::new(self.database_url.clone().unwrap_or_else(embedded))
        }
    }

    /// Where bodies are that are too large for memory. The system's temporary
    /// folder may itself be memory, so a folder of ours is preferred.
    pub fn spool_folder(&self) -> PathBuf {
        match (&self.spool_dir, self.store().location) {
            (Some(folder), _) => folder.clone(),
            (None, Location::Sqlite(path)) => match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
                _ => PathBuf::from("."),
            },
            (None, Location::Postgres(_)) => std::env::temp_dir(),
        }
    }

    /// How mail leaves where its domain has no way of its own.
    pub fn transport(&self) -> TransportKind {
        let default = if !self.smtp_url.is_empty() { TransportKind::Relay } else { TransportKind::Capture };
        self.mail.transport.unwrap_or(default)
    }

    /// Rules between settings, which no single one can check.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.mail.transport != Some(TransportKind::Relay) || !self.smtp_url.is_empty(),
            "--transport relay needs --smtp-url (POSTHORN_SMTP_URL)",
        );
        let gated = self.registration == Registration::Token;
        anyhow::ensure!(
            !gated || self.registration_token.as_ref().is_some_and(|token| token.len() >= 16),
            "--registration token needs --registration-token (POSTHORN_REGISTRATION_TOKEN) of at least 16 characters",
        );
        anyhow::ensure!(
            self.spool_dir.as_ref().is_none_or(|folder| folder.is_dir()),
            "--spool-dir {}: must be a folder that exists",
            self.spool_folder().display(),
        );
        Ok(())
    }
}

/// An address of ours as others see it: scheme, host, perhaps a port and a
/// path; no slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    authority: std::ops::Range<usize>,
}

impl PublicUrl {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host and port, as a browser sends them in `Host`.
    pub fn authority(&self) -> &str {
        &self.text[self.authority.clone()]
    }

    /// Empty, or a path that starts with a slash and does not end in one.
    pub fn path(&self) -> &str {
        &self.text[self.authority.end..]
    }

    pub fn origin(&self) -> &str {
        &self.text[..self.authority.end]
    }

    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(given: &str) -> Result<PublicUrl, String> {
        let allowed = "allowed is http:// or https://, a host, perhaps a port and a path; no query, no fragment";
        let text = given.trim_end_matches('/').to_owned();
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(allowed)?;
        let start = text.len() - host.len();
        let end = host.find('/').map_or(text.len(), |slash| start + slash);
        let authority: http::uri::Authority = text[start..end].parse().map_err(|_| allowed)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        if authority.as_str().contains('@') || !text[end..].bytes().all(plain) || text[end..].contains("//") {
            return Err(allowed.into());
        }
        // Hosts are the same in any case; `Host` headers come in lower case.
        let mut text = text;
        text[..end].make_ascii_lowercase();
        Ok(PublicUrl { authority: start..end, text })
    }
}

/// An address, or all that share its first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: u128,
    bits: u32,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = 128 - self.bits;
        shift == 128 || as_bits(address) >> shift == self.base >> shift
    }
}

/// IPv4 as its mapped IPv6 form, so that one comparison serves both.
fn as_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(given: &str) -> Result<Network, String> {
        let allowed = "allowed is an address or a network, such as 10.0.0.1, 10.0.0.0/8 or fd00::/8";
        let (address, bits) = match given.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| allowed)?)),
            None => (given, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| allowed)?;
        let (width, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let bits = bits.unwrap_or(width);
        if bits > width {
            return Err(allowed.into());
        }
        Ok(Network { base: as_bits(address), bits: bits + offset })
    }
}

fn listen(given: &str) -> Result<SocketAddr, String> {
    given.parse().map_err(|_| "allowed is an address and a port, such as 127.0.0.1:8080 or [::]:8080".into())
}

fn database_url(given: &str) -> Result<Location, String> {
    if given.starts_with("postgres://") || given.starts_with("postgresql://") {
        let parsed: Result<tokio_postgres::Config, _> = given.parse();
        return match parsed {
            Ok(_) => Ok(Location::Postgres(given.to_owned())),
            // What the reader complains about may be a piece of the password.
            Err(_) => Err("allowed is postgres://user:password@host:port/name?sslmode=require; special characters \
                           in user and password percent-encoded"
                .into()),
        };
    }
    let path = given.strip_prefix("sqlite://").or_else(|| given.strip_prefix("sqlite:"));
    match path {
        Some(path) if !path.is_empty() => Ok(Location::Sqlite(path.into())),
        _ => Err("allowed is postgres://user:password@host/name or sqlite:<file>".into()),
    }
}

fn operators_secret(given: &str) -> Result<String, String> {
    match given.chars().count() {
        32.. => Ok(given.to_owned()),
        _ => Err("allowed is text of at least 32 characters, such as `openssl rand -base64 32` prints".into()),
    }
}

fn mail_from(given: &str) -> Result<Mailbox, String> {
    given.parse().map_err(|_| "allowed is an address, or a name and an address: Posthorn <posthorn@example.com>".into())
}

fn log_filter(given: &str) -> Result<String, String> {
    let filter: Result<tracing_subscriber::filter::Targets, _> = given.parse();
    filter.map(|_| given.to_owned()).map_err(|error| format!("{error}; allowed is for example info or debug"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_keeps_its_path_and_loses_its_last_slash() {
        let url: PublicUrl = "https://Mail.Example.com:8443/posthorn/".parse().expect("valid");
        assert_eq!(url.as_str(), "https://mail.example.com:8443/posthorn");
        assert_eq!((url.authority(), url.path()), ("mail.example.com:8443", "/posthorn"));
        assert_eq!(url.origin(), "https://mail.example.com:8443");
    }

    #[test]
    fn several_relays_keep_their_order() {
        #[derive(clap::Parser)]
        struct Settings {
            #[command(flatten)]
            config: Config,
        }
        let relays = |given: &str| {
            let parsed: Result<Settings, _> = clap::Parser::try_parse_from(["posthorn", "--smtp-url", given]);
            parsed.map(|settings| settings.config.smtp_url.into_iter().map(|relay| relay.host).collect::<Vec<_>>())
        };
        assert_eq!(relays("smtps://u:a%2Cb@first,smtp://second:2525").expect("relays"), ["first", "second"]);
        assert!(relays("smtp://first,second").is_err() && relays("smtp://first,").is_err());
    }

    #[test]
    fn a_public_url_without_scheme_or_with_a_query_is_refused() {
        for bad in [
            "mail.example.com",
            "ftp://a",
            "http://",
            "http://a?b",
            "http://a/#c",
            "http://u@a",
            "http://a//b",
            "http://a b",
        ] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let network: Network = "10.1.0.0/16".parse().expect("valid");
        assert!(network.contains("10.1.255.3".parse().expect("address")));
        assert!(!network.contains("10.2.0.1".parse().expect("address")));
        assert!(network.contains("::ffff:10.1.0.1".parse().expect("address")));
        assert!("0.0.0.0/0".parse::<Network>().expect("valid").contains("1.2.3.4".parse().expect("address")));
        assert!("10.0.0.0/33".parse::<Network>().is_err());
    }

    #[test]
    fn a_database_url_names_an_engine() {
        assert_eq!(database_url("sqlite:/x/y.db"), Ok(Location::Sqlite("/x/y.db".into())));
        assert!(matches!(database_url("postgres://u@h/d"), Ok(Location::Postgres(_))));
        assert!(database_url("mysql://h").is_err());
    }
}
