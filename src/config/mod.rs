//! Every setting: its flag, its environment name, its default, its rules.

mod api;
mod feedback;
mod mail;
mod network;
mod parse;
mod public_url;
mod relay;
mod retention;
mod submission;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::db::{Location, Options};
use crate::mime::Mailbox;
use crate::tls;

pub use api::{ApiSettings, RequestLogging};
pub use feedback::{FeedbackSettings, SnsTopic};
pub use mail::{MailSettings, RelayDelivered, Senders, TransportKind, WhenUncertain};
pub use network::Network;
pub use public_url::PublicUrl;
pub use relay::{Encryption, Relay};
pub use retention::RetentionSettings;
pub use submission::SubmissionSettings;

/// The settings of a Posthorn process. All can be given as a flag or in the
/// environment; a flag wins.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Settings")]
pub struct Config {
    /// Address to listen on
    #[arg(
        long,
        global = true,
        env = "POSTHORN_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS[:PORT]"
    )]
    #[arg(value_parser = parse::listen)]
    pub listen: SocketAddr,

    /// Address under which clients reach the API [default: http://<listen>; 127.0.0.1 where that is every
    /// address]
    #[arg(long, global = true, env = "POSTHORN_BASE_URL", value_name = "URL")]
    pub base_url: Option<PublicUrl>,

    /// Address under which browsers reach the dashboard [default: <base-url>/dashboard]
    #[arg(long, global = true, env = "POSTHORN_DASHBOARD_URL", value_name = "URL")]
    pub dashboard_url: Option<PublicUrl>,

    /// Folder of the embedded store
    #[arg(long, global = true, env = "POSTHORN_DATA_DIR", default_value = "./data", value_name = "FOLDER")]
    pub data_dir: PathBuf,

    /// Store: postgres://user:password@host/name, or sqlite:<file> [default: an SQLite file in <data-dir>]
    #[arg(long, global = true, env = "POSTHORN_DATABASE_URL", value_name = "URL")]
    #[arg(hide_env_values = true, allow_hyphen_values = true)]
    #[arg(value_parser = parse::database_url)]
    pub database_url: Option<Location>,

    /// Folder for large bodies while they are worked on, in files without a name [default: the store's folder with
    /// SQLite, else the system's temporary folder]
    #[arg(long, global = true, env = "POSTHORN_SPOOL_DIR", value_name = "FOLDER")]
    pub spool_dir: Option<PathBuf>,

    /// Seals the secrets in the store, so that a copy of it cannot sign tokens; the same for all processes
    /// on one store, at least 32 characters [default: a key file beside the SQLite store]
    #[arg(long, global = true, env = "POSTHORN_SECRET", value_name = "TEXT")]
    #[arg(hide_env_values = true, allow_hyphen_values = true)]
    #[arg(value_parser = parse::operators_secret)]
    pub secret: Option<String>,

    /// Relays for outgoing mail, smtp://user:password@host:port, comma-separated in the order in which they are
    /// tried; unset, mail is captured and never leaves
    #[arg(long, global = true, env = "POSTHORN_SMTP_URL", value_name = "URL")]
    #[arg(hide_env_values = true, allow_hyphen_values = true, value_delimiter = ',')]
    pub smtp_url: Vec<Relay>,

    /// Sender of the product's own mail [default: posthorn@<host of base-url>, or @localhost where that is a bare address]
    #[arg(long, global = true, env = "POSTHORN_MAIL_FROM", value_name = "ADDRESS")]
    #[arg(value_parser = parse::mail_from)]
    pub mail_from: Option<Mailbox>,

    #[command(flatten)]
    pub mail: MailSettings,

    #[command(flatten)]
    pub submission: SubmissionSettings,

    #[command(flatten)]
    pub feedback: FeedbackSettings,

    #[command(flatten)]
    pub api: ApiSettings,

    #[command(flatten)]
    pub retention: RetentionSettings,

    /// Let webhooks and webhook steps call addresses that are not on the public internet, webhooks without TLS too
    #[arg(long, global = true, env = "POSTHORN_PRIVATE_WEBHOOKS")]
    pub private_webhooks: bool,

    /// Days for which the events of webhooks and the attempts to deliver them are kept
    #[arg(long, global = true, env = "POSTHORN_WEBHOOK_RETENTION", default_value = "30", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub webhook_retention: u32,

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
    #[arg(long, global = true, env = "POSTHORN_REGISTRATION_TOKEN", value_name = "TOKEN")]
    #[arg(hide_env_values = true, allow_hyphen_values = true)]
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
    #[arg(long, global = true, env = "POSTHORN_MAX_CONNECTIONS_PER_ADDRESS")]
    #[arg(default_value = "256", value_name = "COUNT")]
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

    /// What to log: off, error, warn, info, debug, trace, or a filter like `info,posthorn::db=debug`
    #[arg(long, global = true, env = "POSTHORN_LOG", default_value = "info", value_name = "FILTER")]
    #[arg(value_parser = parse::log_filter)]
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
        if let Some(file) = &self.mail.smtp_ca {
            tls::roots_with(file).context("--smtp-ca")?;
        }
        self.submission.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
